#include "daemon/tls/signer.h"

#include "daemon/base/channel.h"
#include "daemon/tls/fibre.h"
#include "daemon/tls/signature_scheme.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * SENT_MAX: requests that the keys process may have to answer at a time. Its queue of answers is
 * bounded.
 */
enum { SPARE_FIBRES = 16, SENT_MAX = 512 };

TAILQ_HEAD(waiting, signer_handshake);

struct signer {
    struct event_base *base;
    void (*resume)(void *owner);
    struct channel *link;        /* NULL: there has been none */
    struct waiting unsent, sent; /* in the order of their numbers */
    size_t sent_count;
    uint64_t requests;
    struct fibre *spare[SPARE_FIBRES];
    size_t spare_count;
};

/* What signer_run() runs now, and for whom. */
static _Thread_local struct signer *running_signer;
static _Thread_local struct signer_handshake *running;

/* The link */

/* Returns false if the link takes no message. */
static bool transmit(const struct signer *signer, const struct signer_handshake *handshake)
{
    _Alignas(struct message_sign) char space[sizeof(struct message_sign) + SIGNED_BYTES_MAX];
    struct message_sign *message = (struct message_sign *)space;

    *message = (struct message_sign){
        .number = handshake->number, .key = handshake->key, .scheme = handshake->scheme};
    memcpy(message->bytes, handshake->bytes, handshake->length);
    return signer->link != NULL &&
           channel_send(signer->link, MESSAGE_SIGN, message, sizeof(*message) + handshake->length,
                        -1, false) == 0;
}

static void send_waiting(struct signer *signer)
{
    struct signer_handshake *first;

    while (signer->sent_count < SENT_MAX && (first = TAILQ_FIRST(&signer->unsent)) != NULL &&
           transmit(signer, first)) {
        TAILQ_REMOVE(&signer->unsent, first, link);
        TAILQ_INSERT_TAIL(&signer->sent, first, link);
        signer->sent_count++;
    }
}

/* The handshake is no longer in a list. */
static void finish(struct signer *signer, struct signer_handshake *handshake, const void *signature,
                   size_t length)
{
    handshake->signature_length = length <= handshake->signature_max ? length : 0;
    memcpy(handshake->signature, signature, handshake->signature_length);
    signer->resume(handshake->owner);
}

/* The answers come in the order of the requests, except for those that have expired. */
static void on_signature(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct signer *signer = owner;
    const struct message_signature *message = data;
    struct signer_handshake *handshake = TAILQ_FIRST(&signer->sent);

    (void)kind, (void)fd;
    while (handshake != NULL && handshake->number != message->number)
        handshake = TAILQ_NEXT(handshake, link);
    if (handshake == NULL)
        return;
    TAILQ_REMOVE(&signer->sent, handshake, link);
    signer->sent_count--;
    send_waiting(signer);
    finish(signer, handshake, message->bytes, length - sizeof(*message));
}

/* The master makes another link, over which all requests are sent again. */
static void ignore_closed(void *signer)
{
    (void)signer;
}

static void ignore_fault(void *signer, const char *what)
{
    (void)signer, (void)what;
}

void signer_connect(struct signer *signer, int fd)
{
    const struct channel_owner owner = {
        .message = on_signature, .closed = ignore_closed, .fault = ignore_fault, .owner = signer};

    channel_close(signer->link);
    signer->link = channel_open(signer->base, fd, ROUTE_SIGNATURES, &owner);
    TAILQ_CONCAT(&signer->sent, &signer->unsent, link);
    TAILQ_CONCAT(&signer->unsent, &signer->sent, link);
    signer->sent_count = 0;
    send_waiting(signer);
}

/* Each list is in the order of the time since when they wait. */
static void expire(struct signer *signer, struct waiting *list, uint64_t now_ns,
                   uint64_t patience_ns)
{
    struct signer_handshake *first;

    while ((first = TAILQ_FIRST(list)) != NULL && now_ns > first->since_ns + patience_ns) {
        TAILQ_REMOVE(list, first, link);
        if (list == &signer->sent)
            signer->sent_count--;
        finish(signer, first, "", 0);
    }
}

void signer_expire(struct signer *signer, uint64_t now_ns, uint64_t patience_ns)
{
    expire(signer, &signer->sent, now_ns, patience_ns);
    expire(signer, &signer->unsent, now_ns, patience_ns);
    send_waiting(signer);
}

/* Handshakes */

static struct fibre *take_fibre(struct signer *signer)
{
    return signer->spare_count > 0 ? signer->spare[--signer->spare_count] : fibre_new();
}

static void return_fibre(struct signer *signer, struct fibre *fibre)
{
    if (signer->spare_count < SPARE_FIBRES)
        signer->spare[signer->spare_count++] = fibre;
    else
        fibre_free(fibre);
}

static void run_handshake(void *argument)
{
    struct signer_handshake *handshake = argument;

    handshake->result = SSL_do_handshake(handshake->ssl);
    handshake->error = errno;
}

bool signer_run(struct signer *signer, struct signer_handshake *handshake, SSL *ssl, void *owner,
                uint64_t now_ns, int *result)
{
    bool continues = handshake->fibre != NULL, returned;

    if (!continues) {
        handshake->fibre = take_fibre(signer);
        if (handshake->fibre == NULL) {
            errno = ENOMEM;
            *result = -1;
            return true;
        }
        handshake->ssl = ssl;
        handshake->owner = owner;
    }
    handshake->since_ns = now_ns;
    running_signer = signer;
    running = handshake;
    returned = continues ? fibre_continue(handshake->fibre)
                         : fibre_call(handshake->fibre, run_handshake, handshake);
    running = NULL;
    if (!returned)
        return false;
    return_fibre(signer, handshake->fibre);
    handshake->fibre = NULL;
    *result = handshake->result;
    errno = handshake->error;
    return true;
}

size_t signer_sign(uint32_t key, const struct signature_scheme *scheme, const uint8_t *bytes,
                   size_t length, uint8_t *signature, size_t max)
{
    struct signer *signer = running_signer;
    struct signer_handshake *handshake = running;

    if (handshake == NULL || length > SIGNED_BYTES_MAX)
        return 0;
    handshake->key = key;
    handshake->scheme = scheme->code;
    handshake->bytes = bytes;
    handshake->length = length;
    handshake->signature = signature;
    handshake->signature_max = max;
    handshake->number = ++signer->requests;
    TAILQ_INSERT_TAIL(&signer->unsent, handshake, link);
    send_waiting(signer);
    fibre_pause();
    return handshake->signature_length;
}

/* Beginning and end */

struct signer *signer_new(struct event_base *base, void (*resume)(void *owner))
{
    struct signer *signer = calloc(1, sizeof(*signer));

    if (signer == NULL)
        return NULL;
    signer->base = base;
    signer->resume = resume;
    TAILQ_INIT(&signer->unsent);
    TAILQ_INIT(&signer->sent);
    return signer;
}

void signer_free(struct signer *signer)
{
    if (signer == NULL)
        return;
    channel_close(signer->link);
    while (signer->spare_count > 0)
        fibre_free(signer->spare[--signer->spare_count]);
    free(signer);
}
