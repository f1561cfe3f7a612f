#include "daemon/master/inheritance.h"

#include "daemon/base/memstream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * WEBSERVERD_UPGRADE="LINK LOCK FD=ADDRESS FD!ADDRESS FD^ADDRESS ..." with '!' for a shared socket
 * and '^' for an activated one. Addresses contain no spaces.
 */
static const char variable[] = "WEBSERVERD_UPGRADE";
enum { FIRST_LISTEN_FD = 3 };

static int set_inheritable(int fd, bool inheritable)
{
    return fcntl(fd, F_SETFD, inheritable ? 0 : FD_CLOEXEC);
}

static bool is_listening(int fd)
{
    int listening = 0, type = 0;
    socklen_t length = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0;
}

static int add_socket(struct inheritance *inheritance, int fd, char mark, const char *text,
                      char *why, size_t size)
{
    struct inherited_socket *larger =
        realloc(inheritance->socket, (inheritance->count + 1) * sizeof(*larger));

    if (larger == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    inheritance->socket = larger;
    if (!is_listening(fd)) {
        snprintf(why, size, "inherited descriptor %d is not a listening stream socket", fd);
        return -1;
    }
    set_inheritable(fd, false);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    larger[inheritance->count].fd = fd;
    larger[inheritance->count].shared = mark != '=';
    larger[inheritance->count].activated = mark == '^';
    snprintf(larger[inheritance->count].text, sizeof(larger->text), "%s", text);
    inheritance->count++;
    return 0;
}

/* Parses one "FD=ADDRESS". */
static int read_word(struct inheritance *inheritance, char *word, char *why, size_t size)
{
    char *end;
    long fd = strtol(word, &end, 10);

    if (end != word && (*end == '=' || *end == '!' || *end == '^'))
        return add_socket(inheritance, (int)fd, *end, end + 1, why, size);
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
    set_inheritable(inheritance->link, false);
    set_inheritable(inheritance->lock_fd, false);
    rest = text + used;
    while (result == 0 && (word = strsep(&rest, " ")) != NULL)
        if (*word != '\0')
            result = read_word(inheritance, word, why, size);
    return result;
}

/* Reads the variables of sd_listen_fds(3). */
static int read_activation(struct inheritance *inheritance, char *why, size_t size)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int count = fds != NULL ? atoi(fds) : 0, result = 0;

    if (pid == NULL || strtol(pid, NULL, 10) != getpid())
        return 0;
    for (int i = 0; i < count && result == 0; i++)
        result = add_socket(inheritance, FIRST_LISTEN_FD + i, '^', "", why, size);
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

    *inheritance = (struct inheritance){.link = -1, .lock_fd = -1};
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

void inheritance_report_ready(struct inheritance *inheritance)
{
    if (inheritance->link < 0)
        return;
    if (send(inheritance->link, "r", 1, MSG_NOSIGNAL) != 1)
        fprintf(stderr, "webserverd: cannot notify the old master: %s\n", strerror(errno));
    close(inheritance->link);
    inheritance->link = -1;
}

void inheritance_free(struct inheritance *inheritance)
{
    if (inheritance->link >= 0)
        close(inheritance->link);
    if (inheritance->lock_fd >= 0)
        close(inheritance->lock_fd);
    for (size_t i = 0; i < inheritance->count; i++)
        if (inheritance->socket[i].fd >= 0)
            close(inheritance->socket[i].fd);
    free(inheritance->socket);
    *inheritance = (struct inheritance){.link = -1, .lock_fd = -1};
}

int inheritance_export(int link, int lock_fd, const struct inherited_socket *socket, size_t count)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return -1;
    fprintf(memory, "%d %d", link, lock_fd);
    set_inheritable(link, true);
    set_inheritable(lock_fd, true);
    for (size_t i = 0; i < count; i++) {
        char mark = socket[i].activated ? '^' : socket[i].shared ? '!' : '=';

        fprintf(memory, " %d%c%s", socket[i].fd, mark, socket[i].text);
        set_inheritable(socket[i].fd, true);
    }
    if (memstream_close(memory, &text) != 0 || setenv(variable, text, 1) != 0) {
        free(text);
        return -1;
    }
    free(text);
    return 0;
}
