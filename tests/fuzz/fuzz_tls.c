/*
 * The transport over TLS, with a client of OpenSSL. The input is a script: what each side does, and how the client's
 * records are cut, changed, left out and repeated on their way. Each side must read a prefix of what the other has
 * written; all of it, if nothing was changed. As in the event loop, the server reads only if its socket is readable
 * or the connection is marked as buffered. A challenge of ACME is pending; some clients are the authority's.
 */
#include "common/macros.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/messages.h"
#include "daemon/config/load.h"
#include "daemon/connection/connection.h"
#include "daemon/connection/transport.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/context.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/tickets.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ONE_WAY_BYTES = 256 * 1024, /* each side writes at most so many */
    STEP_BYTES = 70 * 1000,     /* in one call: more than a batch of records */
    SOCKET_BYTES = 8 * 1024,    /* small, so that writes are accepted in part */
    CALM_STEPS = 10 * 1000,
};

enum step {
    STEP_CLIENT,      /* continues the handshake, or reads */
    STEP_DELIVER,     /* the client's records arrive */
    STEP_CHANGE,      /* a byte of those under way */
    STEP_LEAVE_OUT,   /* some of them */
    STEP_REPEAT,      /* some of them */
    STEP_INSERT,      /* bytes of the script */
    STEP_CLIENT_SAYS, /* the client writes */
    STEP_SERVER,      /* continues the handshake, or reads */
    STEP_WRITE,       /* the server writes */
    STEP_SEND_FILE,   /* the server sends from the file */
    STEP_RETURN,      /* the server's records arrive */
    STEP_CLIENT_ENDS, /* close_notify, and the end of its side of the socket */
    STEP_SERVER_ENDS,
    STEPS
};

struct script {
    const uint8_t *at, *end;
};

/* One direction. What is written is the same in each run: see text_at(). */
struct way {
    size_t offered; /* bytes that the writer has offered so far */
    size_t written; /* bytes of which it knows that they are written */
    size_t read;
};

struct run {
    struct connection connection; /* the server's */
    SSL *client;
    BIO *to_client;   /* records of the server */
    BIO *from_client; /* records of the client before they are under way */
    int peer;         /* the client's end of the socket */
    char *under_way;
    size_t under_way_length;
    struct way up, down; /* to the server, to the client */
    bool shaken, client_shaken;
    bool changed;   /* records were changed: nothing must arrive any more, but may */
    bool ended;     /* a side has ended, or failed */
    bool unread;    /* the handshake may have read more than its own records */
    bool validates; /* the client is that of an ACME authority */
};

static struct event_loop *loop;
static struct tls_context *context;
static struct segment_challenge pending;
static struct segment segment = {.base = (char *)&pending};
static SSL_CTX *client_context[2];
static char text[2][ONE_WAY_BYTES]; /* up, down */
static int file;                    /* contains text[1] */

/* Set-up, once */

static void make_text(void)
{
    for (size_t i = 0; i < ONE_WAY_BYTES; i++) {
        text[0][i] = (char)(i * 31 + i / 251);
        text[1][i] = (char)(i * 17 + i / 253 + 1);
    }
    file = memory_file_open("text");
    MUST(file >= 0 && pwrite(file, text[1], ONE_WAY_BYTES, 0) == ONE_WAY_BYTES);
}

static void make_server(void)
{
    char directory[] = "/tmp/fuzz-tls-XXXXXX", certificate[PATH_MAX + 32], key[PATH_MAX + 32],
         why[512];
    const char *overrides[] = {certificate, key, "tls.keys_process=off",
                               "server.listen=https://127.0.0.1:1"};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};
    static struct config config;
    struct message_certificates message;
    struct certificate_set *set;
    struct self_signed files;

    MUST(mkdtemp(directory) != NULL &&
         self_signed_write(&files, directory, "localhost", why, sizeof(why)) == 0);
    snprintf(certificate, sizeof(certificate), "tls.certificate=%s", files.certificate);
    snprintf(key, sizeof(key), "tls.key=%s", files.key);
    MUST(config_load(&config, &sources, stderr) == 0);
    set = certificate_set_load(&config, -1, why, sizeof(why));
    MUST(set != NULL);
    context =
        tls_context_new(&message, certificate_set_file(set, &message), &config, tls_tickets_new());
    MUST(context != NULL);
    certificate_set_free(set);
    unlink(files.certificate);
    unlink(files.key);
    rmdir(directory);
    loop = calloc(1, sizeof(*loop));
    MUST(loop != NULL);
    loop->space = malloc(sizeof(*loop->space));
    MUST(loop->space != NULL);
}

static void make_challenge(void)
{
    static const struct challenge_copy challenge = {
        .kind = CHALLENGE_TLS_ALPN_01, .name = "localhost", .token = "t", .thumbprint = "t"};

    segment_store_challenge(&segment, &challenge);
}

static void make_clients(void)
{
    static const unsigned char protocols[] = "\x02h2\x08http/1.1";

    for (int i = 0; i < 2; i++) {
        SSL_CTX *client = SSL_CTX_new(TLS_client_method());
        int version = i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;

        MUST(client != NULL && SSL_CTX_set_min_proto_version(client, version) == 1 &&
             SSL_CTX_set_max_proto_version(client, version) == 1 &&
             SSL_CTX_set_alpn_protos(client, protocols, sizeof(protocols) - 1) == 0);
        SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_OFF);
        client_context[i] = client;
    }
}

static void set_up(void)
{
    if (loop != NULL)
        return;
    make_text();
    make_server();
    make_challenge();
    make_clients();
}

/* The script */

static uint8_t next_byte(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

/* At most STEP_BYTES. Half of the numbers are small. */
static size_t next_number(struct script *script)
{
    size_t number = next_byte(script);

    if (number >= 128)
        number = (number - 128) * 1024 + (size_t)next_byte(script) * 4;
    return number < STEP_BYTES ? number : STEP_BYTES;
}

/* The client */

static void check_text(const char *got, size_t length, int way, size_t position)
{
    MUST(position + length <= ONE_WAY_BYTES && memcmp(got, text[way] + position, length) == 0);
}

static void take_records(struct run *run)
{
    size_t length = BIO_ctrl_pending(run->from_client);

    if (length == 0)
        return;
    run->under_way = realloc(run->under_way, run->under_way_length + length);
    MUST(run->under_way != NULL &&
         BIO_read(run->from_client, run->under_way + run->under_way_length, (int)length) ==
             (int)length);
    run->under_way_length += length;
}

static void step_client(struct run *run)
{
    char space[4096];
    size_t got;

    if (!run->client_shaken)
        run->client_shaken = SSL_do_handshake(run->client) == 1;
    while (run->client_shaken && SSL_read_ex(run->client, space, sizeof(space), &got) == 1) {
        check_text(space, got, 1, run->down.read);
        run->down.read += got;
        MUST(run->down.read <= run->down.offered);
    }
    ERR_clear_error();
    take_records(run);
}

static void say(struct run *run, size_t length)
{
    size_t left = ONE_WAY_BYTES - run->up.written, written;

    length = length < left ? length : left;
    if (!run->client_shaken || length == 0 ||
        (SSL_get_shutdown(run->client) & SSL_SENT_SHUTDOWN) != 0)
        return;
    run->up.offered += length;
    if (SSL_write_ex(run->client, text[0] + run->up.written, length, &written) == 1)
        run->up.written += written;
    ERR_clear_error();
    take_records(run);
}

/* The way to the server */

static void deliver(struct run *run, size_t length)
{
    ssize_t sent;

    length = length < run->under_way_length ? length : run->under_way_length;
    sent = length > 0 ? send(run->peer, run->under_way, length, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    if (sent <= 0)
        return;
    run->under_way_length -= (size_t)sent;
    memmove(run->under_way, run->under_way + sent, run->under_way_length);
}

static void change(struct run *run, size_t position, uint8_t bits)
{
    if (run->under_way_length == 0 || bits == 0)
        return;
    run->under_way[position % run->under_way_length] ^= (char)bits;
    run->changed = true;
}

static void leave_out(struct run *run, size_t position, size_t length)
{
    if (run->under_way_length == 0)
        return;
    position %= run->under_way_length;
    length = 1 + length % (run->under_way_length - position);
    memmove(run->under_way + position, run->under_way + position + length,
            run->under_way_length - position - length);
    run->under_way_length -= length;
    run->changed = true;
}

/* Inserts LENGTH bytes. */
static void insert(struct run *run, size_t position, const void *bytes, size_t length)
{
    char *larger = realloc(run->under_way, run->under_way_length + length + 1);

    MUST(larger != NULL);
    run->under_way = larger;
    if (length == 0)
        return;
    position = run->under_way_length > 0 ? position % run->under_way_length : 0;
    memmove(larger + position + length, larger + position, run->under_way_length - position);
    memcpy(larger + position, bytes, length);
    run->under_way_length += length;
    run->changed = true;
}

static void repeat(struct run *run, size_t position, size_t length)
{
    char *copy;

    if (run->under_way_length == 0)
        return;
    position %= run->under_way_length;
    length = 1 + length % (run->under_way_length - position);
    copy = malloc(length);
    MUST(copy != NULL);
    memcpy(copy, run->under_way + position, length);
    insert(run, position, copy, length);
    free(copy);
}

/* The way back */

static void bring_back(struct run *run, size_t length)
{
    char space[STEP_BYTES];
    ssize_t got =
        recv(run->peer, space, length < sizeof(space) ? length + 1 : sizeof(space), MSG_DONTWAIT);

    if (got > 0)
        MUST(BIO_write(run->to_client, space, (int)got) == got);
}

/* The server */

static bool is_readable(const struct run *run)
{
    struct pollfd poller = {.fd = run->connection.fd, .events = POLLIN};

    return poll(&poller, 1, 0) == 1;
}

/* Looks at errno after a call that has failed. */
static void note_failure(struct run *run)
{
    MUST(errno == EAGAIN || errno == EPROTO || errno == ECONNRESET || errno == EPIPE ||
         errno == EINVAL);
    if (errno != EAGAIN && errno != EINVAL)
        run->ended = true;
}

static void shake(struct run *run)
{
    enum tls_failure failure = (enum tls_failure) - 1;

    switch (transport_tls_handshake(&run->connection, &failure)) {
    case TLS_DONE:
        run->shaken = run->unread = true;
        MUST(transport_tls_outcome(&run->connection).cipher_suite != 0);
        break;
    case TLS_FAILED:
        MUST(failure <= TLS_FAILURE_OTHER);
        run->ended = true;
        break;
    case TLS_WANTS_READ:
    case TLS_WANTS_WRITE:
        break;
    case TLS_WANTS_SIGNATURE:
        MUST(false);
    }
}

static void step_server(struct run *run, size_t length)
{
    char *space;
    ssize_t got;

    if (run->ended)
        return;
    if (!run->shaken) {
        shake(run);
        return;
    }
    if (!run->unread && !run->connection.buffered && !is_readable(run))
        return;
    space = malloc(length + 1); /* exactly as long, for AddressSanitizer */
    MUST(space != NULL);
    got = run->connection.transport->read(&run->connection, space, length + 1);
    run->unread = false;
    MUST(got <= (ssize_t)length + 1);
    if (got > 0) {
        check_text(space, (size_t)got, 0, run->up.read);
        run->up.read += (size_t)got;
        MUST(run->up.read <= run->up.offered);
    } else if (got == 0) {
        run->ended = true;
    } else {
        note_failure(run);
    }
    free(space);
}

/* After a write of LENGTH bytes that returned RESULT. */
static void note_written(struct run *run, ssize_t result, size_t length)
{
    struct way *down = &run->down;

    MUST(result != 0 && result <= (ssize_t)length);
    if (down->offered < down->written + length)
        down->offered = down->written + length;
    if (result > 0)
        down->written += (size_t)result;
    else
        note_failure(run);
}

/* In three parts, the second of which is empty. */
static void write_down(struct run *run, size_t length)
{
    size_t left = ONE_WAY_BYTES - run->down.written, first;
    const char *start = text[1] + run->down.written;
    struct iovec parts[3];

    length = length < left ? length : left;
    if (run->ended || !run->shaken || length == 0)
        return;
    first = length / 3;
    parts[0] = (struct iovec){(void *)(uintptr_t)start, first};
    parts[1] = (struct iovec){NULL, 0};
    parts[2] = (struct iovec){(void *)(uintptr_t)(start + first), length - first};
    note_written(run, run->connection.transport->write(&run->connection, parts, 3, length % 2 == 0),
                 length);
}

static void send_file(struct run *run, size_t length)
{
    size_t left = ONE_WAY_BYTES - run->down.written;
    off_t offset = (off_t)run->down.written;
    ssize_t sent;

    length = length < left ? length : left;
    if (run->ended || !run->shaken || length == 0)
        return;
    sent = run->connection.transport->send_file(&run->connection, file, &offset, length);
    MUST(offset == (off_t)run->down.written + (sent > 0 ? sent : 0));
    note_written(run, sent, length);
}

/* The run */

static void take_step(struct run *run, struct script *script)
{
    enum step step = (enum step)(next_byte(script) % STEPS);
    size_t number = next_number(script), left;

    loop->context.loop_now_ns += 1000 * 1000;
    switch (step) {
    case STEP_CLIENT:
        step_client(run);
        break;
    case STEP_DELIVER:
        deliver(run, number);
        break;
    case STEP_CHANGE:
        change(run, number, next_byte(script));
        break;
    case STEP_LEAVE_OUT:
        leave_out(run, number, next_number(script));
        break;
    case STEP_REPEAT:
        repeat(run, number, next_number(script));
        break;
    case STEP_INSERT:
        left = (size_t)(script->end - script->at);
        left = left < 64 ? left : 64;
        insert(run, number, script->at, left);
        script->at += left;
        break;
    case STEP_CLIENT_SAYS:
        say(run, number);
        break;
    case STEP_SERVER:
        step_server(run, number);
        break;
    case STEP_WRITE:
        write_down(run, number);
        break;
    case STEP_SEND_FILE:
        send_file(run, number);
        break;
    case STEP_RETURN:
        bring_back(run, number);
        break;
    case STEP_CLIENT_ENDS:
        if (run->client_shaken)
            SSL_shutdown(run->client);
        ERR_clear_error();
        take_records(run);
        deliver(run, SIZE_MAX);
        shutdown(run->peer, SHUT_WR);
        run->changed = true;
        break;
    case STEP_SERVER_ENDS:
        transport_tls_end(&run->connection);
        run->ended = true;
        break;
    case STEPS:
        break;
    }
}

/* Without changes all arrives, in finitely many steps. */
static void calm_down(struct run *run)
{
    bool complete = false;

    for (int i = 0; i < CALM_STEPS && !complete; i++) {
        loop->context.loop_now_ns += 1000 * 1000;
        step_client(run);
        deliver(run, SIZE_MAX);
        step_server(run, STEP_BYTES);
        if (run->down.written < run->down.offered)
            write_down(run, run->down.offered - run->down.written);
        bring_back(run, STEP_BYTES);
        complete = run->shaken && run->client_shaken && run->up.read == run->up.written &&
                   run->down.written == run->down.offered && run->down.read == run->down.written;
    }
    MUST(complete && !run->ended);
    MUST(transport_tls_outcome(&run->connection).validated == run->validates);
}

static void begin(struct run *run, uint8_t kind)
{
    static const unsigned char validation[] = "\x0a"
                                              "acme-tls/1";
    int fds[2], bytes = SOCKET_BYTES;

    memset(run, 0, sizeof(*run));
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    run->peer = fds[1];
    run->connection.fd = fds[0];
    run->connection.loop = loop;
    run->client = SSL_new(client_context[kind % 2]);
    run->to_client = BIO_new(BIO_s_mem());
    run->from_client = BIO_new(BIO_s_mem());
    MUST(run->client != NULL && run->to_client != NULL && run->from_client != NULL);
    BIO_set_mem_eof_return(run->to_client, -1);
    SSL_set_bio(run->client, run->to_client, run->from_client);
    SSL_set_connect_state(run->client);
    if ((kind & 2) != 0)
        SSL_set_tlsext_max_fragment_length(run->client, TLSEXT_max_fragment_length_512);
    if ((kind & 4) != 0)
        SSL_set_tlsext_host_name(run->client, "localhost");
    run->validates = (kind & 16) != 0;
    if (run->validates) {
        SSL_set_tlsext_host_name(run->client, "localhost");
        MUST(SSL_set_alpn_protos(run->client, validation, sizeof(validation) - 1) == 0);
    }
    MUST(transport_tls_open(&run->connection, context, &segment));
}

static void end(struct run *run)
{
    transport_tls_end(&run->connection);
    transport_tls_free(&run->connection);
    close(run->connection.fd);
    close(run->peer);
    SSL_free(run->client);
    free(run->under_way);
    MUST(ERR_peek_error() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data, data + size};
    uint8_t kind = next_byte(&script);
    struct run run;

    set_up();
    begin(&run, kind);
    if ((kind & 8) != 0) /* the script begins after the handshake */
        calm_down(&run);
    while (script.at < script.end) {
        take_step(&run, &script);
        MUST(ERR_peek_error() == 0); /* no error is left for the next connection */
    }
    if (!run.changed && !run.ended)
        calm_down(&run);
    end(&run);
    return 0;
}
