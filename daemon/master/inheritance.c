#include "daemon/master/inheritance.h"

#include "daemon/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * WEBSERVERD_UPGRADE="LINK LOCK FD=ADDRESS FD!ADDRESS FD^ADDRESS FD%ADDRESS FD# FD@ ..." with '!'
 * for a shared socket, '^' for an activated one, '%' for one of [metrics], '#' for the keys of
 * session tickets and '@' for the limits of clients. Addresses contain no spaces; https:// before
 * one stands for TLS, and before that proxy: for the PROXY protocol.
 */
static const char variable[] = "WEBSERVERD_UPGRADE";
static const char tls_scheme[] = "https://";
static const char proxy_mark[] = "proxy:";
/* systemd.socket(5): FileDescriptorName */
static const char tls_name[] = "https", proxy_name[] = "proxy", both_name[] = "proxy-https";
enum { FIRST_LISTEN_FD = 3 };

static int set_inheritable(int fd, bool inheritable)
{
    return fcntl(fd, F_SETFD, inheritable ? 0 : FD_CLOEXEC);
}

static bool is_listening_stream(int fd)
{
    int listening = 0, type = 0;
    socklen_t length = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
}

/* Removes PREFIX from *TEXT; returns true if it was there. */
static bool take_prefix(const char **text, const char *prefix)
{
    size_t length = strlen(prefix);

    if (strncmp(*text, prefix, length) != 0)
        return false;
    *text += length;
    return true;
}

/* TEXT is the address, after its marks for PROXY and TLS. */
static int add_inherited_socket(struct inheritance *inheritance, int fd, char mark,
                                const char *text, char *why, size_t size)
{
    struct inherited_socket *larger =
        realloc(inheritance->socket, (inheritance->count + 1) * sizeof(*larger));

    if (larger == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    inheritance->socket = larger;
    if (!is_listening_stream(fd)) {
        snprintf(why, size, "inherited descriptor %d is not a listening stream socket", fd);
        return -1;
    }
    set_inheritable(fd, false);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    larger[inheritance->count].fd = fd;
    larger[inheritance->count].shared = mark == '!' || mark == '^';
    larger[inheritance->count].metrics = mark == '%';
    larger[inheritance->count].activated = mark == '^';
    larger[inheritance->count].proxy = take_prefix(&text, proxy_mark);
    larger[inheritance->count].tls = take_prefix(&text, tls_scheme);
    snprintf(larger[inheritance->count].text, sizeof(larger->text), "%s", text);
    inheritance->count++;
    return 0;
}

/* Parses one "FD=ADDRESS", "FD#" or "FD@". */
static int read_word(struct inheritance *inheritance, char *word, char *why, size_t size)
{
    char *end;
    long fd = strtol(word, &end, 10);

    if (end != word && strcmp(end, "#") == 0 && inheritance->tickets < 0 &&
        set_inheritable((int)fd, false) == 0) {
        inheritance->tickets = (int)fd;
        return 0;
    }
    if (end != word && strcmp(end, "@") == 0 && inheritance->limits < 0 &&
        set_inheritable((int)fd, false) == 0) {
        inheritance->limits = (int)fd;
        return 0;
    }
    if (end != word && *end != '\0' && strchr("=!^%", *end) != NULL)
        return add_inherited_socket(inheritance, (int)fd, *end, end + 1, why, size);
    snprintf(why, size, "invalid %s at '%.40s'", variable, word);
    return -1;
}

static int read_upgrade(struct inheritance *inheritance, char *text, char *why, size_t size)
{
    int used = 0, result = 0;
    char *word, *rest;

    if (sscanf(text, "%d %d%n", &inheritance->link, &inheritance->lock_fd, &used) != 2) {
        snprintf(why, size, "invalid %s", variable);
        return -1;
    }
    inheritance->pending = true;
    set_inheritable(inheritance->link, false);
    set_inheritable(inheritance->lock_fd, false);
    rest = text + used;
    while (result == 0 && (word = strsep(&rest, " ")) != NULL)
        if (*word != '\0')
            result = read_word(inheritance, word, why, size);
    return result;
}

static bool is_socket_name(const char *names, const char *name)
{
    return strcspn(names, ":") == strlen(name) && strncmp(names, name, strlen(name)) == 0;
}

/* The marks of the socket at POSITION of LISTEN_FDNAMES, "NAME:NAME:...", by its name. */
static const char *marks_of_name(const char *names, int position)
{
    while (names != NULL && position-- > 0) {
        names = strchr(names, ':');
        names = names != NULL ? names + 1 : NULL;
    }
    if (names == NULL)
        return "";
    return is_socket_name(names, tls_name)     ? tls_scheme
           : is_socket_name(names, proxy_name) ? proxy_mark
           : is_socket_name(names, both_name)  ? "proxy:https://"
                                               : "";
}

/* Reads the variables of sd_listen_fds(3). */
static int read_activation(struct inheritance *inheritance, char *why, size_t size)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    int count = fds != NULL ? atoi(fds) : 0, result = 0;

    if (pid == NULL || strtol(pid, NULL, 10) != getpid())
        return 0;
    for (int i = 0; i < count && result == 0; i++)
        result = add_inherited_socket(inheritance, FIRST_LISTEN_FD + i, '^',
                                      marks_of_name(names, i), why, size);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return result;
}

bool inheritance_is_upgrade(void)
{
    return getenv(variable) != NULL;
}

int inheritance_read(struct inheritance *inheritance, char *why, size_t size)
{
    const char *text = getenv(variable);
    char *copy;
    int result;

    *inheritance = INHERITANCE_NONE;
    if (text == NULL)
        return read_activation(inheritance, why, size);
    copy = strdup(text);
    if (copy == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    result = read_upgrade(inheritance, copy, why, size);
    free(copy);
    unsetenv(variable);
    return result;
}

static void tell_old_master(const struct inheritance *inheritance, char what)
{
    if (inheritance->link >= 0)
        send(inheritance->link, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void inheritance_report_ready(struct inheritance *inheritance)
{
    inheritance->pending = false;
    tell_old_master(inheritance, INHERITANCE_READY);
}

void inheritance_report_stop(const struct inheritance *inheritance)
{
    tell_old_master(inheritance, INHERITANCE_STOP);
}

void inheritance_report_reopened(const struct inheritance *inheritance)
{
    tell_old_master(inheritance, INHERITANCE_REOPEN);
}

void inheritance_free(struct inheritance *inheritance)
{
    if (inheritance->link >= 0)
        close(inheritance->link);
    if (inheritance->lock_fd >= 0)
        close(inheritance->lock_fd);
    if (inheritance->tickets >= 0)
        close(inheritance->tickets);
    if (inheritance->limits >= 0)
        close(inheritance->limits);
    for (size_t i = 0; i < inheritance->count; i++)
        if (inheritance->socket[i].fd >= 0)
            close(inheritance->socket[i].fd);
    free(inheritance->socket);
    *inheritance = INHERITANCE_NONE;
}

int inheritance_export(const struct inheritance *inheritance)
{
    const struct inherited_socket *socket = inheritance->socket;
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return -1;
    fprintf(memory, "%d %d", inheritance->link, inheritance->lock_fd);
    set_inheritable(inheritance->link, true);
    set_inheritable(inheritance->lock_fd, true);
    if (inheritance->tickets >= 0) {
        fprintf(memory, " %d#", inheritance->tickets);
        set_inheritable(inheritance->tickets, true);
    }
    if (inheritance->limits >= 0) {
        fprintf(memory, " %d@", inheritance->limits);
        set_inheritable(inheritance->limits, true);
    }
    for (size_t i = 0; i < inheritance->count; i++) {
        char mark = socket[i].activated ? '^'
                    : socket[i].shared  ? '!'
                    : socket[i].metrics ? '%'
                                        : '=';

        fprintf(memory, " %d%c%s%s%s", socket[i].fd, mark, socket[i].proxy ? proxy_mark : "",
                socket[i].tls ? tls_scheme : "", socket[i].text);
        set_inheritable(socket[i].fd, true);
    }
    if (memstream_close(memory, &text) != 0 || setenv(variable, text, 1) != 0) {
        free(text);
        return -1;
    }
    free(text);
    return 0;
}
