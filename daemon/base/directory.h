/*
 * Files and directories where other users may exchange parts of the path at any time: root must not
 * follow their links. All works on directories that are held open, so that what has been checked is
 * what is used.
 */
#ifndef DAEMON_DIRECTORY_H
#define DAEMON_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct directory_entry {
    int directory; /* the directory that it is in, an O_PATH descriptor that the caller closes */
    char name[NAME_MAX + 1];
    char weakness
        [PATH_MAX]; /* why users other than root and this one can replace it; "": they cannot */
};

/*
 * Finds the directory that PATH is in, one component after the other. Makes those that are missing
 * with mode MAKE; 0: none. A symbolic link is followed only if root or this user has made it and
 * nobody else can replace it; another one gives ELOOP and a weakness. The last component need not
 * exist. Returns 0, or -1 with errno and no descriptor.
 */
int directory_find(struct directory_entry *entry, const char *path, mode_t make);

/*
 * Opens NAME, which has one component, in DIRECTORY, and never what a link leads to. Returns a
 * descriptor, or -1 with errno.
 */
int directory_open_entry(int directory, const char *name, int flags, mode_t mode);

/*
 * Binds the UNIX socket SOCKET to PATH, which must not exist, and sets STATUS to that of the new file
 * with MODE. If others can exchange parts of the path, the socket is bound in the directory that is
 * held, and getsockname() returns its name in /proc. Returns 0, or -1 with errno.
 */
int directory_bind(int socket, const char *path, mode_t mode, struct stat *status);

/* As unlink() and rename(), but follow no link that others could have made. */
int directory_remove(const char *path);
int directory_rename(const char *from, const char *to);

/*
 * Opens the directory PATH for reading. Makes it with mode 0700, and those above it with 0755, if
 * MAKE is true. Root refuses one that others can replace. Returns a descriptor, or -1 with WHY.
 */
int directory_open(const char *path, bool make, char *why, size_t size);

#endif
