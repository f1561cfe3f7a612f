#include "daemon/connection/transport.h"

#include "common/macros.h"
#include "daemon/connection/connection.h"
#include "daemon/tls/context.h"
#include "daemon/tls/key_schedule.h"
#include "daemon/tls/record_size.h"
#include "daemon/tls/signer.h"
#include "daemon/tls/validation.h"
#include "daemon/transaction/shortage.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIFT_LIMIT_BYTES = 1024 * 1024 };

static int send_flags(bool more)
{
    return MSG_NOSIGNAL | (more ? MSG_MORE : 0);
}

/* A plain socket */

static ssize_t plain_read(struct connection *connection, void *buffer, size_t length)
{
    return recv(connection->fd, buffer, length, 0);
}

static ssize_t plain_write(struct connection *connection, const struct iovec *parts, int count,
                           enum write_next next)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    int flags = send_flags(next != WRITE_NEXT_NONE);

    if (count == 1)
        return send(connection->fd, parts[0].iov_base, parts[0].iov_len, flags);
    return sendmsg(connection->fd, &message, flags);
}

static ssize_t plain_send_file(struct connection *connection, int file, off_t *offset,
                               size_t length)
{
    return sendfile(connection->fd, file, offset, length);
}

void transport_count_body(const struct connection *connection, uint64_t before, uint64_t bytes)
{
    const unsigned int no_limit = 0;

    if (before >= LIFT_LIMIT_BYTES || before + bytes < LIFT_LIMIT_BYTES)
        return;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &no_limit, sizeof(no_limit));
}

const struct transport transport_plain = {plain_read, plain_write, plain_send_file};

/* TLS */

enum { BATCH_RECORDS = 64 };
static_assert(SEALED_BYTES >= SEALED_RECORD_MAX + BATCH_BYTES,
              "a batch of full records has to fit");

/* Encrypted bytes that the socket has not accepted. */
struct sealed_rest {
    size_t length, sent;
    size_t plain; /* bytes that the caller has to offer again */
    char bytes[];
};

/* Records that one call sends. */
struct batch {
    char *bytes; /* SEALED_BYTES */
    size_t used, plain;
    int count;
    struct {
        size_t sealed, plain; /* bytes of the batch up to its end */
    } record[BATCH_RECORDS];
};

struct tls_session {
    SSL *ssl;
    struct tls_context *context;       /* a reference, during the handshake; then NULL */
    struct signer_handshake handshake; /* if the keys process signs */
    struct record_size size;
    struct sealed_rest *rest; /* NULL: none */
    struct batch *batch;      /* within a write: where records go */
    bool more;                /* another record follows at once */
    bool answered;            /* this call has sent a flight: the client's has not arrived yet */
    bool ticket_waits;        /* REST is the session ticket, which goes with the first response */
    bool ended;               /* the client has closed its side of the socket */
    bool failed;              /* a fatal error, or close_notify: no record may follow */
};

/* True if the rest has to be sent before any record is made. */
static bool rest_blocks(const struct tls_session *tls)
{
    return tls->rest != NULL && !tls->ticket_waits;
}

/* Sends the rest. Returns false with errno if some of it is left. */
static bool send_rest(const struct connection *connection)
{
    struct sealed_rest *rest = connection->tls->rest;
    ssize_t sent;

    if (rest == NULL)
        return true;
    connection->tls->ticket_waits = false;
    sent = send(connection->fd, rest->bytes + rest->sent, rest->length - rest->sent,
                send_flags(connection->tls->more));
    if (sent < 0)
        return false;
    rest->sent += (size_t)sent;
    if (rest->sent < rest->length) {
        errno = EAGAIN;
        return false;
    }
    free(rest);
    connection->tls->rest = NULL;
    return true;
}

/* Keeps LENGTH encrypted bytes as the rest. Returns false if out of memory. */
static bool keep_sealed(struct tls_session *tls, const char *bytes, size_t length, size_t plain)
{
    struct sealed_rest *rest = malloc(sizeof(*rest) + length);

    if (rest == NULL)
        return false;
    rest->length = length;
    rest->sent = 0;
    rest->plain = plain;
    memcpy(rest->bytes, bytes, length);
    tls->rest = rest;
    return true;
}

/* TLS 1.3: OpenSSL now sends the session ticket, at the end of the handshake. */
static bool sends_ticket(const struct tls_session *tls)
{
    return SSL_get_state(tls->ssl) == TLS_ST_SW_SESSION_TICKET &&
           SSL_version(tls->ssl) == TLS1_3_VERSION;
}

/*
 * OpenSSL's access to the socket: like its own, but without SIGPIPE and with MSG_MORE. Within a
 * write, records are collected.
 */

static int bio_read(BIO *bio, char *buffer, size_t length, size_t *got)
{
    struct connection *connection = BIO_get_data(bio);
    ssize_t result = -1;

    BIO_clear_retry_flags(bio);
    errno = EAGAIN;
    if (!connection->tls->answered)
        result = recv(connection->fd, buffer, length, 0);
    *got = result > 0 ? (size_t)result : 0;
    if (result < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    connection->tls->ended = result == 0;
    return result > 0;
}

static int bio_write(BIO *bio, const char *data, size_t length, size_t *sent)
{
    const struct connection *connection = BIO_get_data(bio);
    struct batch *batch = connection->tls->batch;
    ssize_t result = -1;

    BIO_clear_retry_flags(bio);
    if (batch != NULL && length <= SEALED_BYTES - batch->used) {
        memcpy(batch->bytes + batch->used, data, length);
        batch->used += length;
        *sent = length;
        return 1;
    }
    if (connection->tls->rest == NULL && sends_ticket(connection->tls) &&
        keep_sealed(connection->tls, data, length, 0)) {
        connection->tls->ticket_waits = true;
        *sent = length;
        return 1;
    }
    if (send_rest(connection))
        result = send(connection->fd, data, length, send_flags(connection->tls->more));
    *sent = result > 0 ? (size_t)result : 0;
    connection->tls->answered = true;
    if (result < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return result > 0;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    const struct connection *connection = BIO_get_data(bio);

    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF)
        return connection->tls->ended;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
    if (bio_method == NULL)
        return;
    BIO_meth_set_read_ex(bio_method, bio_read);
    BIO_meth_set_write_ex(bio_method, bio_write);
    BIO_meth_set_ctrl(bio_method, bio_control);
}

static BIO *bio_new(struct connection *connection)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BIO *bio;

    pthread_once(&once, make_bio_method);
    bio = bio_method != NULL ? BIO_new(bio_method) : NULL;
    if (bio == NULL)
        return NULL;
    BIO_set_data(bio, connection);
    BIO_set_init(bio, 1);
    return bio;
}

/* Beginning and end */

void transport_tls_attach(struct connection *connection)
{
    BIO_set_data(SSL_get_rbio(connection->tls->ssl), connection);
}

bool transport_tls_open(struct connection *connection, struct tls_context *context,
                        const struct segment *segment)
{
    struct tls_session *tls = calloc(1, sizeof(*tls));
    SSL *ssl = tls != NULL ? tls_context_connect(context, segment) : NULL;
    BIO *bio = ssl != NULL ? bio_new(connection) : NULL;

    if (bio == NULL) {
        SSL_free(ssl);
        free(tls);
        ERR_clear_error();
        return false;
    }
    SSL_set_bio(ssl, bio, bio);
    SSL_set_accept_state(ssl);
    tls->ssl = ssl;
    tls->context = tls_context_hold(context);
    tls->handshake.set = tls_context_number(context);
    connection->tls = tls;
    connection->transport = &transport_tls;
    return true;
}

bool transport_tls_covers(const struct client *client, struct span host)
{
    const struct connection *connection = CONTAINER_OF(client, struct connection, client);
    SSL *ssl = connection->tls->ssl;
    const char *given = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    struct span name = site_host_name(host);
    X509 *certificate = SSL_get_certificate(ssl);

    if (given == NULL || span_is_nocase(name, site_host_name(span_of(given))))
        return true;
    return certificate != NULL && X509_check_host(certificate, name.start, name.length,
                                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

/* close_notify would have to follow the rest, and SSL_shutdown() may not follow an error. */
void transport_tls_end(struct connection *connection)
{
    struct tls_session *tls = connection->tls;

    if (tls->failed || rest_blocks(tls) || !SSL_is_init_finished(tls->ssl))
        return;
    tls->more = true; /* the FIN follows */
    SSL_shutdown(tls->ssl);
    tls->failed = true;
    ERR_clear_error();
}

void transport_tls_free(struct connection *connection)
{
    SSL_free(connection->tls->ssl);
    tls_context_free(connection->tls->context);
    free(connection->tls->rest);
    free(connection->tls);
    connection->tls = NULL;
    key_schedule_forget();
}

/*
 * Why a call of OpenSSL failed; sets errno as a system call would. OpenSSL's error queue is empty
 * between two calls.
 */
static enum tls_progress explain(struct tls_session *tls, int result)
{
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        errno = EAGAIN;
        return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN: /* close_notify */
        return TLS_DONE;
    case SSL_ERROR_SYSCALL:
        if (errno == 0 || errno == EAGAIN)
            errno = ECONNRESET;
        break;
    default:
        errno = EPROTO;
        break;
    }
    tls->failed = true;
    ERR_clear_error();
    return TLS_FAILED;
}

static enum tls_failure failure_of(int reason)
{
    switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
        return TLS_FAILURE_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        return TLS_FAILURE_CIPHER;
    case SSL_R_HTTP_REQUEST:
        return TLS_FAILURE_HTTP;
    default: /* OpenSSL adds 1000 to the number of an alert */
        return reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256
                   ? TLS_FAILURE_CLIENT
                   : TLS_FAILURE_OTHER;
    }
}

enum tls_progress transport_tls_handshake(struct connection *connection, enum tls_failure *failure)
{
    struct tls_session *tls = connection->tls;
    const struct event_loop *loop = connection->loop;
    int result;

    tls->answered = false;
    if (loop->signer == NULL)
        result = SSL_do_handshake(tls->ssl);
    else if (!signer_run(loop->signer, &tls->handshake, tls->ssl, connection,
                         loop->context.loop_now_ns, &result))
        return TLS_WANTS_SIGNATURE;
    if (result == 1) {
        tls_context_free(tls->context);
        tls->context = NULL;
        return TLS_DONE;
    }
    *failure = failure_of(ERR_GET_REASON(ERR_peek_error()));
    switch (explain(tls, result)) {
    case TLS_WANTS_READ:
        return TLS_WANTS_READ;
    case TLS_WANTS_WRITE:
        return TLS_WANTS_WRITE;
    case TLS_DONE: /* close_notify */
    case TLS_WANTS_SIGNATURE:
    case TLS_FAILED:
        break;
    }
    if (tls->ended || errno == ECONNRESET)
        *failure = TLS_FAILURE_CLIENT;
    return TLS_FAILED;
}

struct tls_outcome transport_tls_outcome(const struct connection *connection)
{
    SSL *ssl = connection->tls->ssl;
    const unsigned char *protocol;
    unsigned int length;

    SSL_get0_alpn_selected(ssl, &protocol, &length);
    return (struct tls_outcome){
        .cipher_suite = SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl)),
        .group = SSL_group_to_name(ssl, (int)SSL_get_negotiated_group(ssl)),
        .resumed = SSL_session_reused(ssl) != 0,
        .http2 = length == 2 && memcmp(protocol, "h2", 2) == 0,
        .validated = validation_is_done(ssl),
    };
}

/* Reading */

/*
 * Returns the records that have arrived, as far as there is space: the rest is in OpenSSL's buffer,
 * of which the event loop knows nothing, so CONNECTION is marked.
 */
static ssize_t tls_read(struct connection *connection, void *buffer, size_t length)
{
    struct tls_session *tls = connection->tls;
    char *to = buffer;
    size_t total = 0, got;
    bool more = true;
    int result = 1;

    connection->buffered = false;
    tls->answered = false;
    while (total < length && more) {
        result = SSL_read_ex(tls->ssl, to + total, length - total, &got);
        if (result != 1)
            break;
        total += got;
        more = SSL_has_pending(tls->ssl);
    }
    if (result == 1) {
        connection->buffered = more;
        return (ssize_t)total;
    }
    switch (explain(tls, result)) {
    case TLS_DONE:
        connection->buffered = total > 0; /* the end must be reported, too */
        return (ssize_t)total;
    case TLS_FAILED:
        connection->buffered = total > 0;
        break;
    case TLS_WANTS_READ:
    case TLS_WANTS_WRITE:
    case TLS_WANTS_SIGNATURE:
        break;
    }
    return total > 0 ? (ssize_t)total : -1;
}

/* Writing */

/* Bytes of several parts in sequence. */
struct gather {
    const struct iovec *part, *last;
    size_t used; /* bytes of *part that are taken */
    char *space; /* where bytes of several parts are joined */
};

/* Returns the number of bytes left in the first part that is not used up. */
static size_t left_in_part(struct gather *gather)
{
    while (gather->used == gather->part->iov_len && gather->part < gather->last) {
        gather->part++;
        gather->used = 0;
    }
    return gather->part->iov_len - gather->used;
}

/* Returns the next LENGTH bytes, which are copied to the space if they are in several parts. */
static const char *take_plain(struct gather *gather, size_t length)
{
    size_t copied = 0;

    if (left_in_part(gather) >= length) {
        const char *start = (const char *)gather->part->iov_base + gather->used;

        gather->used += length;
        return start;
    }
    while (copied < length) {
        size_t left = left_in_part(gather);
        size_t piece = left < length - copied ? left : length - copied;

        memcpy(gather->space + copied, (const char *)gather->part->iov_base + gather->used, piece);
        copied += piece;
        gather->used += piece;
    }
    return gather->space;
}

static void skip(struct gather *gather, size_t length)
{
    while (length > 0) {
        size_t left = left_in_part(gather);
        size_t piece = left < length ? left : length;

        gather->used += piece;
        length -= piece;
    }
}

/* Adds a record to the batch. Returns false with errno if OpenSSL fails. */
static bool seal(struct connection *connection, const char *data, size_t length)
{
    struct tls_session *tls = connection->tls;
    struct batch *batch = tls->batch;
    size_t written;
    int result = SSL_write_ex(tls->ssl, data, length, &written);

    if (UNLIKELY(result != 1)) {
        explain(tls, result);
        tls->failed = true;
        errno = EPROTO;
        return false;
    }
    record_size_sent(&tls->size, length);
    batch->plain += length;
    batch->record[batch->count].sealed = batch->used;
    batch->record[batch->count].plain = batch->plain;
    batch->count++;
    return true;
}

/* Adds records with bytes of GATHER, of which LEFT are left, until the batch is full. */
static bool seal_batch(struct connection *connection, struct gather *gather, size_t left)
{
    struct tls_session *tls = connection->tls;
    const struct batch *batch = tls->batch;

    while (left > batch->plain && batch->count < BATCH_RECORDS &&
           batch->used + SEALED_RECORD_MAX <= SEALED_BYTES) {
        size_t length = record_size_next(&tls->size, connection->loop->context.loop_now_ns,
                                         left - batch->plain);

        if (!seal(connection, take_plain(gather, length), length))
            return false;
    }
    return true;
}

/* Keeps what is left of BATCH after SENT bytes. Returns false if out of memory. */
static bool keep_rest(struct connection *connection, const struct batch *batch, size_t sent,
                      size_t plain)
{
    struct tls_session *tls = connection->tls;
    size_t length = batch->used - sent;

    return keep_sealed(tls, batch->bytes + sent, length, plain) ||
           (memory_make_room(&connection->loop->context) &&
            keep_sealed(tls, batch->bytes + sent, length, plain));
}

/*
 * Sends BATCH. Returns how many bytes the socket has accepted in whole records; with errno EAGAIN
 * if that is less than all. -1: failed.
 */
static ssize_t send_batch(struct connection *connection, const struct batch *batch)
{
    ssize_t sent =
        send(connection->fd, batch->bytes, batch->used, send_flags(connection->tls->more));
    size_t plain = 0;

    if (LIKELY(sent == (ssize_t)batch->used))
        return (ssize_t)batch->plain;
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    if (sent < 0)
        sent = 0;
    for (int i = 0; i < batch->count && batch->record[i].sealed <= (size_t)sent; i++)
        plain = batch->record[i].plain;
    if (!keep_rest(connection, batch, (size_t)sent, batch->plain - plain)) {
        connection->tls->failed = true;
        errno = ENOMEM;
        return -1;
    }
    errno = EAGAIN;
    return (ssize_t)plain;
}

/* Begins the empty batch with the session ticket. */
static void add_ticket(struct tls_session *tls, struct batch *batch)
{
    memcpy(batch->bytes, tls->rest->bytes, tls->rest->length);
    batch->used = tls->rest->length;
    free(tls->rest);
    tls->rest = NULL;
    tls->ticket_waits = false;
}

/* Adds close_notify to the batch, if there is space. */
static void seal_end(struct tls_session *tls)
{
    if (tls->batch->used + SEALED_RECORD_MAX > SEALED_BYTES)
        return;
    SSL_shutdown(tls->ssl);
    tls->failed = true;
    ERR_clear_error();
}

/* One batch of LEFT bytes of GATHER. Returns what send_batch() does. */
static ssize_t write_batch(struct connection *connection, struct gather *gather, size_t left,
                           enum write_next next)
{
    struct tls_session *tls = connection->tls;
    struct batch batch UNINITIALIZED;
    bool sealed;

    if (tls->failed) { /* its records would be in the wrong order */
        errno = EPIPE;
        return -1;
    }
    batch.bytes = connection->loop->space->tls_records;
    batch.used = batch.plain = 0;
    batch.count = 0;
    if (tls->ticket_waits)
        add_ticket(tls, &batch);
    tls->batch = &batch;
    sealed = seal_batch(connection, gather, left);
    if (next == WRITE_NEXT_END && sealed && batch.plain == left)
        seal_end(tls);
    tls->batch = NULL;
    if (!sealed)
        return -1;
    tls->more = next != WRITE_NEXT_NONE || batch.plain < left;
    return send_batch(connection, &batch);
}

/*
 * Sends the rest of the write before. Returns how many of LENGTH bytes are sent with it; -1: some
 * of it is left.
 */
static ssize_t write_rest(struct connection *connection, size_t length, bool more)
{
    struct tls_session *tls = connection->tls;
    size_t plain;

    if (LIKELY(!rest_blocks(tls)))
        return 0;
    plain = tls->rest->plain;
    if (plain > length) { /* the caller offers less than before */
        errno = EINVAL;
        return -1;
    }
    tls->more = more || plain < length;
    return send_rest(connection) ? (ssize_t)plain : -1;
}

static ssize_t tls_write(struct connection *connection, const struct iovec *parts, int count,
                         enum write_next next)
{
    struct gather gather = {
        .part = parts, .last = parts + count - 1, .space = connection->loop->space->tls_plain};
    size_t total = 0, done;
    ssize_t sent;

    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    sent = write_rest(connection, total, next != WRITE_NEXT_NONE);
    if (sent < 0)
        return -1;
    done = (size_t)sent;
    skip(&gather, done);
    while (done < total) {
        size_t left = total - done;

        sent = write_batch(connection, &gather, left, next);
        if (sent > 0)
            done += (size_t)sent;
        if (sent < 0 || connection->tls->rest != NULL)
            break;
    }
    return done > 0 ? (ssize_t)done : -1;
}

/* The window of the file is in the page cache, so that pread() does not wait for a disk. */
static ssize_t tls_send_file(struct connection *connection, int file, off_t *offset, size_t length)
{
    char *space = connection->loop->space->tls_plain;
    ssize_t sent = write_rest(connection, length, false);
    size_t done = sent > 0 ? (size_t)sent : 0;

    *offset += (off_t)done;
    while (sent >= 0 && !rest_blocks(connection->tls) && done < length) {
        size_t wanted = length - done < BATCH_BYTES ? length - done : BATCH_BYTES;
        ssize_t got = pread(file, space, wanted, *offset);
        struct iovec part = {space, got > 0 ? (size_t)got : 0};

        if (got <= 0) /* 0: the file has shrunk */
            return done > 0 ? (ssize_t)done : got;
        sent = tls_write(connection, &part, 1,
                         done + (size_t)got < length ? WRITE_NEXT_MORE : WRITE_NEXT_NONE);
        if (sent > 0) {
            done += (size_t)sent;
            *offset += sent;
        }
    }
    return done > 0 ? (ssize_t)done : -1;
}

const struct transport transport_tls = {tls_read, tls_write, tls_send_file};
