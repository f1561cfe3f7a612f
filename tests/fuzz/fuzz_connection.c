/*
 * A connection of HTTP/1 or HTTP/2 on the loop of a serving thread, with its cache, files and offload threads. The
 * input is a script for the client: frames, valid or not, requests, windows, and how much it reads. What the server
 * sends on an HTTP/2 connection must be frames, and after the client's end nothing of the connection may be left.
 */
#include "common/client_address.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/loop.h"
#include "daemon/config/load.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/http2/frame.h"
#include "daemon/worker/internal.h"
#include "daemon/worker/thread.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOCKET_BYTES = 16 * 1024, /* small, so that writes are accepted in part */
    STREAMS = 16,             /* numbers of streams in the script are below it */
    ITERATIONS_MAX = 10 * 1000,
};

enum step {
    STEP_BYTES,    /* bytes of the script */
    STEP_FRAME,    /* any frame, with a payload of the script */
    STEP_REQUEST,  /* HEADERS with a valid block */
    STEP_DATA,     /* of a request body */
    STEP_WINDOW,   /* WINDOW_UPDATE */
    STEP_SETTINGS, /* another initial window */
    STEP_READ,     /* the client reads */
    STEP_CONTINUE, /* CONTINUATION with bytes of the script */
    STEPS
};

struct script {
    const uint8_t *at, *end;
};

struct peer {
    int fd;
    bool http2;
    char received[2 * FRAME_PAYLOAD_MAX]; /* from the first frame that is not complete */
    size_t length;
};

static struct serving_thread *thread;
static char root[] = "/tmp/fuzz-connection-XXXXXX";
static const struct {
    const char *name;
    size_t bytes;
} files[] = {{"a", 4}, {"m", 20 * 1000}, {"l", 300 * 1000}};

/* Set-up, once */

static void remove_root(void)
{
    char path[64];

    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, files[i].name);
        unlink(path);
    }
    rmdir(root);
}

static void make_root(void)
{
    static char content[300 * 1000];
    char path[64];

    MUST(mkdtemp(root) != NULL);
    atexit(remove_root);
    memset(content, 'x', sizeof(content));
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        int fd;

        snprintf(path, sizeof(path), "%s/%s", root, files[i].name);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        MUST(fd >= 0 && write(fd, content, files[i].bytes) == (ssize_t)files[i].bytes);
        close(fd);
    }
}

static void make_segment(struct segment *segment)
{
    char name[64], why[256];
    const struct segment_plan plan = {.name = name,
                                      .socket_path = "",
                                      .listening = "",
                                      .max_workers = 1,
                                      .max_threads = 1,
                                      .cache_entries = 64,
                                      .ring_bytes = 64 * 1024};

    snprintf(name, sizeof(name), "fuzz-%d", getpid());
    MUST(segment_create(segment, &plan, why, sizeof(why)) == 0 &&
         segment_reserve(segment, 0, 1) == 0);
    shm_unlink(segment->file);
}

/* The leak checker does not search mapped pages, as those of a thread. */
static void free_thread(void)
{
    thread_free(thread, false);
}

static void make_thread(void)
{
    static struct config config;
    static struct segment segment;
    static struct worker_context worker;
    static struct worker_shortages shortages;
    static struct mailbox mailbox;
    char root_override[80];
    const char *overrides[] = {root_override, "log.access=off", "workers.offload_threads=1-1"};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};

    snprintf(root_override, sizeof(root_override), "server.root=%s", root);
    MUST(config_load(&config, &sources, stderr) == 0);
    make_segment(&segment);
    MUST(worker_context_open(&worker, &config, NULL) == 0 && mailbox_open(&mailbox, 0, NULL) == 0);
    worker.segment = &segment;
    worker.shortages = &shortages;
    worker.main = &mailbox;
    worker.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    MUST(worker_context_fill(&worker, segment_worker(&segment, 0)) == 0);
    thread = thread_new(&worker, 0, THREAD_OF_EVENTS, NULL);
    MUST(thread != NULL && atexit(free_thread) == 0);
}

/* The loop */

static uint64_t gauge(enum metric metric)
{
    return metric_get(thread->loop.context.metrics, metric);
}

/* As a serving thread does, but without waiting; except for offload jobs, so that each run is the same. */
static void run_loop(void)
{
    struct event_loop *loop = &thread->loop;
    int iterations = 0;

    do {
        loop_serve_ahead(loop);
        loop->context.loop_now_ns = 0;
        MUST(event_base_loop(loop->base,
                             loop->context.jobs_out > 0 ? EVLOOP_ONCE : EVLOOP_NONBLOCK) == 0);
    } while ((loop->context.jobs_out > 0 || loop->ahead.connection != NULL) &&
             ++iterations < ITERATIONS_MAX);
    MUST(iterations < ITERATIONS_MAX);
}

/* The script */

static uint8_t next_byte(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

/* The next bytes, at most MAX. */
static size_t next_bytes(struct script *script, size_t max, const char **bytes)
{
    size_t wanted = next_byte(script), left;

    left = (size_t)(script->end - script->at);
    wanted = wanted < max ? wanted : max;
    wanted = wanted < left ? wanted : left;
    *bytes = (const char *)script->at;
    script->at += wanted;
    return wanted;
}

/* The client */

/* The server answers each preface, and first with SETTINGS; nothing else is no frame. */
static void check_frames(struct peer *peer)
{
    size_t at = 0;

    while (peer->http2 && peer->length - at >= FRAME_HEAD_BYTES) {
        struct frame_head head = frame_head_read(peer->received + at);

        MUST(head.length <= FRAME_PAYLOAD_MAX && head.type <= FRAME_CONTINUATION &&
             head.type != FRAME_PUSH_PROMISE);
        MUST(head.stream == 0 || head.stream % 2 == 1);
        MUST(
            (head.type == FRAME_DATA || head.type == FRAME_HEADERS || head.type == FRAME_RST_STREAM)
                ? head.stream != 0 || head.type == FRAME_RST_STREAM
                : true);
        if (peer->length - at < FRAME_HEAD_BYTES + head.length)
            break;
        at += FRAME_HEAD_BYTES + head.length;
    }
    if (!peer->http2)
        at = peer->length;
    peer->length -= at;
    memmove(peer->received, peer->received + at, peer->length);
}

static void read_some(struct peer *peer, size_t bytes)
{
    size_t room = sizeof(peer->received) - peer->length;
    ssize_t got =
        recv(peer->fd, peer->received + peer->length, bytes < room ? bytes : room, MSG_DONTWAIT);

    if (got > 0)
        peer->length += (size_t)got;
    check_frames(peer);
}

/* If the socket is full, the rest is lost: a client may send that, too. */
static void say(const struct peer *peer, const void *bytes, size_t length)
{
    (void)!send(peer->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_frame(const struct peer *peer, struct frame_head head, const void *payload,
                       size_t length)
{
    char frame[FRAME_HEAD_BYTES + 256];

    MUST(length <= 256);
    frame_put_head(frame, head);
    memcpy(frame + FRAME_HEAD_BYTES, payload, length);
    say(peer, frame, FRAME_HEAD_BYTES + length);
}

/* Blocks of the static table: a method, http, a path, and fields. */
static void send_request(const struct peer *peer, struct script *script, uint32_t stream)
{
    static const struct {
        const char *block;
        size_t length;
    } blocks[] = {{"\x82\x86\x04\x02/a\x01\x01h", 9},
                  {"\x82\x86\x04\x02/m\x01\x01h", 9},
                  {"\x82\x86\x04\x02/l\x01\x01h", 9},
                  {"\x82\x86\x04\x02/x\x01\x01h", 9},
                  {"\x83\x86\x04\x02/a\x01\x01h", 9},
                  {"\x82\x86\x04\x02/l\x01\x01h\x0f\x23\x12"
                   "bytes=0-9,100-9999",
                   30},
                  {"\x82\x86\x84\x01\x01h\x00\x08priority\x05u=1,i", 22}};
    uint8_t choice = next_byte(script);
    uint8_t flags = FRAME_END_HEADERS | (choice >= 128 ? 0 : FRAME_END_STREAM);
    size_t i = choice % ARRAY_LENGTH(blocks);

    send_frame(peer, (struct frame_head){(uint32_t)blocks[i].length, FRAME_HEADERS, flags, stream},
               blocks[i].block, blocks[i].length);
}

static void send_number(const struct peer *peer, uint8_t type, uint32_t stream, uint32_t number)
{
    char payload[4];

    frame_put_32(payload, number);
    send_frame(peer, (struct frame_head){sizeof(payload), type, 0, stream}, payload,
               sizeof(payload));
}

static void send_settings(const struct peer *peer, uint32_t window)
{
    char payload[FRAME_SETTING_BYTES];

    frame_put_setting(payload, SETTING_INITIAL_WINDOW_SIZE, window);
    send_frame(peer, (struct frame_head){sizeof(payload), FRAME_SETTINGS, 0, 0}, payload,
               sizeof(payload));
}

static void take_step(struct peer *peer, struct script *script)
{
    enum step step = (enum step)(next_byte(script) % STEPS);
    uint8_t number = next_byte(script), type;
    uint32_t stream = number % STREAMS;
    const char *bytes;
    size_t length;

    switch (step) {
    case STEP_BYTES:
        length = next_bytes(script, 255, &bytes);
        say(peer, bytes, length);
        break;
    case STEP_FRAME:
        type = next_byte(script) % (FRAME_PRIORITY_UPDATE + 1);
        length = next_bytes(script, 64, &bytes);
        send_frame(peer, (struct frame_head){(uint32_t)length, type, number & 0xf0, stream}, bytes,
                   length);
        break;
    case STEP_REQUEST:
        send_request(peer, script, stream | 1);
        break;
    case STEP_DATA:
        length = next_bytes(script, 64, &bytes);
        send_frame(peer,
                   (struct frame_head){(uint32_t)length, FRAME_DATA,
                                       number >= 128 ? FRAME_END_STREAM : 0, stream},
                   bytes, length);
        break;
    case STEP_WINDOW:
        send_number(peer, FRAME_WINDOW_UPDATE, stream, UINT32_C(1) << next_byte(script) % 32);
        break;
    case STEP_SETTINGS:
        send_settings(peer, number < 16 ? number : UINT32_C(1) << number % 32);
        break;
    case STEP_READ:
        read_some(peer, (size_t)number * 256 + 1);
        break;
    case STEP_CONTINUE:
        length = next_bytes(script, 64, &bytes);
        send_frame(peer,
                   (struct frame_head){(uint32_t)length, FRAME_CONTINUATION,
                                       number >= 128 ? FRAME_END_HEADERS : 0, stream},
                   bytes, length);
        break;
    case STEPS:
        break;
    }
}

/* The run */

static void begin(struct peer *peer, bool http2)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    static const uint8_t address[CLIENT_ADDRESS_BYTES] = {0, 0, 0,    0,    0,   0, 0, 0,
                                                          0, 0, 0xff, 0xff, 127, 0, 0, 1};
    int fds[2], bytes = SOCKET_BYTES;

    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    peer->fd = fds[1];
    peer->http2 = http2;
    peer->length = 0;
    if (http2)
        say(peer, preface, sizeof(preface) - 1);
    thread->loop.context.loop_now_ns = 0;
    loop_enter(&thread->loop);
    MUST(connection_accept(&thread->loop, fds[0], address, 0));
    run_loop();
}

/* Nothing of the connection is left. */
static void end(const struct peer *peer)
{
    const struct transaction_context *context = &thread->loop.context;
    int iterations = 0;

    close(peer->fd);
    while (gauge(METRIC_connections_open) > 0 && ++iterations < ITERATIONS_MAX)
        run_loop();
    MUST(gauge(METRIC_connections_open) == 0 && gauge(METRIC_connections_busy) == 0);
    MUST(gauge(METRIC_http2_open) == 0 && gauge(METRIC_http2_streams) == 0);
    MUST(context->jobs_out == 0 && context->ring_reserved == 0);
    MUST(context->output.used == 0 && context->output.record_words == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct peer peer;
    struct script script = {data, data + size};

    if (thread == NULL) {
        signal(SIGPIPE, SIG_IGN);
        make_root();
        make_thread();
    }
    begin(&peer, next_byte(&script) % 2 == 1);
    while (script.at < script.end) {
        take_step(&peer, &script);
        run_loop();
    }
    end(&peer);
    return 0;
}
