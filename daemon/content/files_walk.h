/*
 * Opening below a root without openat2(2): component by component, so that no link is followed unseen.
 * Any thread.
 */
#ifndef DAEMON_FILES_WALK_H
#define DAEMON_FILES_WALK_H

#include <fcntl.h>
#include <stdbool.h>

/* Never waits for a FIFO's writer, never makes a terminal ours, never leaks into a child. */
#define FILES_OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/*
 * Opens PATH (relative, canonical) below ROOT for reading. LINKS: relative symbolic links are
 * followed as long as they stay below the root. Returns a descriptor, or -1 with errno: ELOOP for a
 * link that is not followed (or too many), EXDEV for one that leads out, or what openat() says.
 */
int files_walk(int root, const char *path, bool links);

#endif
