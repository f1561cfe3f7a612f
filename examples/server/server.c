/*
 * A static web server with a pool of threads, a bounded queue and a cache, which publishes what it
 * does by wsboard.h:
 *
 *     server [-p PORT] [-t THREADS] [-q PLACES] [-n NAME] DIRECTORY
 *
 * The main thread accepts connections and puts them into the queue. Each thread of the pool takes
 * one, answers one request, HTTP/1.0, and closes it. The lines with board_ are all that the board
 * needs.
 */
#define WSBOARD_IMPLEMENTATION
#include "wsboard.h"

#include <arpa/inet.h>
#include <stdbool.h>

enum {
    PLACES_MAX = 1024,
    THREADS_MAX = 60,
    REQUEST_MAX = 4096,
    CACHE_FILES = 256,
    PATH_BYTES = 512
};

/* The queue */

struct item {
    int socket;
    struct sockaddr_in client;
    uint64_t since_ns;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    struct item item[PLACES_MAX];
    uint32_t first, count, places;
    int threads, wanted; /* of the pool */
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER,
           .not_empty = PTHREAD_COND_INITIALIZER,
           .not_full = PTHREAD_COND_INITIALIZER,
           .places = 16,
           .wanted = 4};

static void queue_put(struct item item)
{
    board_lock(&queue.mutex);
    while (queue.count == queue.places) {
        board_state(BOARD_BLOCKED);
        board_wait(&queue.not_full, &queue.mutex);
        board_state(BOARD_ACCEPT);
    }
    queue.item[(queue.first + queue.count++) % PLACES_MAX] = item;
    board_queue(queue.count, queue.places);
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.mutex);
}

/* Waits for an item. Returns false if the calling thread is one too many. */
static bool queue_take(struct item *item)
{
    bool taken = false;

    board_lock(&queue.mutex);
    while (queue.count == 0 && queue.threads <= queue.wanted)
        board_wait(&queue.not_empty, &queue.mutex);
    if (queue.threads > queue.wanted) {
        queue.threads--;
    } else {
        *item = queue.item[queue.first];
        queue.first = (queue.first + 1) % PLACES_MAX;
        queue.count--;
        taken = true;
        board_state(BOARD_READ);
        board_queue(queue.count, queue.places);
        board_waited(item->since_ns);
        pthread_cond_signal(&queue.not_full);
    }
    pthread_mutex_unlock(&queue.mutex);
    return taken;
}

/* The cache: files by path, never replaced */

struct file {
    char path[PATH_BYTES];
    char *bytes;
    size_t size;
};

static struct {
    pthread_mutex_t mutex;
    struct file file[CACHE_FILES];
    size_t count;
} cache = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static const struct file *cache_find(const char *path)
{
    const struct file *found = NULL;

    board_lock(&cache.mutex);
    for (size_t i = 0; i < cache.count && found == NULL; i++)
        if (strcmp(cache.file[i].path, path) == 0)
            found = &cache.file[i];
    pthread_mutex_unlock(&cache.mutex);
    board_count(found != NULL ? BOARD_CACHE_HITS : BOARD_CACHE_MISSES, 1);
    return found;
}

/* Returns false if the cache is full; then the caller keeps FILE. */
static bool cache_add(struct file file)
{
    bool added = false;

    board_lock(&cache.mutex);
    if (cache.count < CACHE_FILES) {
        cache.file[cache.count++] = file;
        added = true;
    }
    pthread_mutex_unlock(&cache.mutex);
    return added;
}

/* Requests */

static const char *root;

static bool send_all(int socket, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void answer(int socket, int status, const char *reason, const char *body, size_t size)
{
    char head[256];
    int length = snprintf(head, sizeof(head),
                          "HTTP/1.0 %d %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                          status, reason, size);

    board_state(BOARD_WRITE);
    if (send_all(socket, head, (size_t)length))
        send_all(socket, body, size);
    board_end(status, (uint64_t)length + size);
}

static bool read_file(const char *path, struct file *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    size_t got = 0;

    file->bytes = NULL;
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        file->size = (size_t)status.st_size;
        file->bytes = (char *)malloc(file->size + 1);
        while (file->bytes != NULL && got < file->size) {
            ssize_t more = read(fd, file->bytes + got, file->size - got);

            if (more <= 0)
                break;
            got += (size_t)more;
        }
    }
    if (fd >= 0)
        close(fd);
    return file->bytes != NULL && got == file->size;
}

static void serve_path(int socket, const char *path)
{
    struct file file;
    const struct file *cached;

    if (path[0] != '/' || strstr(path, "..") != NULL) {
        answer(socket, 400, "Bad Request", "bad path\n", 9);
        return;
    }
    snprintf(file.path, sizeof(file.path), "%s%s%s", root, path,
             path[strlen(path) - 1] == '/' ? "index.html" : "");
    cached = cache_find(file.path);
    if (cached != NULL) {
        answer(socket, 200, "OK", cached->bytes, cached->size);
        return;
    }
    board_state(BOARD_FILE);
    if (!read_file(file.path, &file)) {
        free(file.bytes);
        answer(socket, 404, "Not Found", "not found\n", 10);
        return;
    }
    answer(socket, 200, "OK", file.bytes, file.size);
    if (!cache_add(file))
        free(file.bytes);
}

/* Reads the head of a request; returns its length, or 0. */
static size_t read_head(int socket, char *head)
{
    size_t used = 0;

    while (used < REQUEST_MAX - 1) {
        ssize_t got = recv(socket, head + used, REQUEST_MAX - 1 - used, 0);

        if (got <= 0)
            return 0;
        used += (size_t)got;
        head[used] = '\0';
        if (strstr(head, "\r\n\r\n") != NULL)
            return used;
    }
    return 0;
}

static void serve_connection(const struct item *item)
{
    char head[REQUEST_MAX], path[PATH_BYTES / 2];
    size_t length = read_head(item->socket, head);

    if (length > 0) {
        board_client(&item->client);
        board_begin(head, length);
        if (sscanf(head, "GET %255s", path) == 1)
            serve_path(item->socket, path);
        else
            answer(item->socket, 501, "Not Implemented", "only GET\n", 9);
    }
    close(item->socket);
    board_connection(-1);
}

static void *pool_thread(void *unused)
{
    struct item item;

    (void)unused;
    while (queue_take(&item))
        serve_connection(&item);
    return NULL;
}

static void start_threads(void)
{
    pthread_t thread;

    board_lock(&queue.mutex);
    while (queue.threads < queue.wanted && pthread_create(&thread, NULL, pool_thread, NULL) == 0) {
        pthread_detach(thread);
        queue.threads++;
    }
    pthread_mutex_unlock(&queue.mutex);
}

/* "threads 8" and "queue 32", from wsconsole and wsctl */
static int handle_command(const char *command, const char *argument, char *text, size_t size)
{
    bool threads = strcmp(command, "threads") == 0;
    int number = atoi(argument), most = threads ? THREADS_MAX : PLACES_MAX;

    if (number < 1 || number > most) {
        snprintf(text, size, "%s takes a number from 1 to %d", command, most);
        return -1;
    }
    pthread_mutex_lock(&queue.mutex);
    if (threads)
        queue.wanted = number;
    else
        queue.places = (uint32_t)number;
    board_queue(queue.count, queue.places);
    pthread_cond_broadcast(&queue.not_empty);
    pthread_cond_broadcast(&queue.not_full);
    pthread_mutex_unlock(&queue.mutex);
    start_threads();
    board_event(BOARD_INFO, "%s is now %d", command, number);
    return 0;
}

static int listen_on(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 128) != 0) {
        perror("server: cannot listen");
        exit(1);
    }
    return fd;
}

static void accept_connections(int listener)
{
    for (;;) {
        struct item item;
        socklen_t size = sizeof(item.client);

        board_state(BOARD_ACCEPT);
        item.socket = accept4(listener, (struct sockaddr *)&item.client, &size, SOCK_CLOEXEC);
        if (item.socket < 0)
            continue;
        board_connection(1);
        item.since_ns = board_now();
        queue_put(item);
    }
}

static void stop(int signal)
{
    (void)signal;
    board_close();
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *name = "server";
    int option, port = 8081, listener;

    while ((option = getopt(argc, argv, "p:t:q:n:")) != -1) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 't')
            queue.wanted = atoi(optarg);
        else if (option == 'q')
            queue.places = (uint32_t)atoi(optarg);
        else if (option == 'n')
            name = optarg;
    }
    if (optind != argc - 1 || queue.wanted < 1 || queue.wanted > THREADS_MAX || queue.places < 1 ||
        queue.places > PLACES_MAX) {
        fprintf(stderr, "usage: server [-p PORT] [-t THREADS] [-q PLACES] [-n NAME] DIRECTORY\n");
        return 2;
    }
    root = argv[optind];
    listener = listen_on(port);
    if (board_open(name, port) != 0)
        perror("server: no board");
    board_control(handle_command, "threads queue");
    board_name("acceptor");
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    start_threads();
    accept_connections(listener);
}
