#include "daemon/tls/context.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/base/messages.h"
#include "daemon/tls/certificate.h"
#include "daemon/tls/checked_certificate.h"
#include "daemon/tls/key_schedule.h"
#include "daemon/tls/private_keys.h"
#include "daemon/tls/remote_key.h"
#include "daemon/tls/tickets.h"
#include "daemon/tls/validation.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Server Side TLS 6.0 of Mozilla and TLSRef, "intermediate": the client's order decides, because
 * only the client knows whether it has instructions for AES; with prefer_aes128 the order of these
 * lists.
 */
static const char intermediate_ciphers[] =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char tls13_ciphers[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
/*
 * OpenSSL before 3.5 knows neither the first group nor the slash: before it are those for which the
 * server requests another key share if the client supports them.
 */
static const char *const groups[] = {"X25519MLKEM768/X25519:P-256:P-384", "X25519:P-256:P-384"};

/* Protocols that ALPN offers, the preferred one first: a length and a name each (RFC 7301). */
static char alpn_protocols[] = "\x02h2\x08http/1.1";
enum { ALPN_HTTP2_BYTES = 3 };

/* Sessions of one context are resumed only with the same text. */
static const unsigned char session_context[] = "webserverd";

/* One certificate, with others of the same names but another kind of key beside it. */
struct tls_host {
    struct tls_certificate certificate;
    SSL_CTX *context;
};

struct tls_context {
    _Atomic uint32_t references;
    uint32_t number;
    bool remote;         /* signatures come from the keys process */
    SSL_CTX *validation; /* answers tls-alpn-01 */
    size_t count;
    struct tls_host host[]; /* ordered as in the configuration; the first one is the default */
};

/* Callbacks of the handshake. Any thread of a worker. */

static int select_alpn_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length,
                                const unsigned char *offered, unsigned int offered_length,
                                void *argument)
{
    const char *protocols = argument;
    unsigned char *out;
    (void)ssl;
    if (SSL_select_next_proto(&out, length, (const unsigned char *)protocols,
                              (unsigned int)strlen(protocols), offered,
                              offered_length) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL; /* RFC 7301 section 3.2 */
    *chosen = out;
    return SSL_TLSEXT_ERR_OK;
}

/* The first host whose certificate has NAME, or else one with a wildcard for it, or NULL. */
static const struct tls_host *find_host(const struct tls_context *context, const char *name)
{
    const struct tls_host *best = NULL;
    enum tls_name_match best_match = TLS_NAME_DIFFERS;

    for (size_t i = 0; i < context->count; i++) {
        enum tls_name_match match = tls_certificate_match(&context->host[i].certificate, name);

        if (match > best_match) {
            best_match = match;
            best = &context->host[i];
        }
    }
    return best;
}

/* A client without SNI, or with an unknown name, gets the first certificate. */
static int select_host(SSL *ssl, int *alert, void *argument)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const struct tls_host *host = name != NULL ? find_host(argument, name) : NULL;

    (void)alert;
    if (host == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    SSL_set_SSL_CTX(ssl, host->context);
    return SSL_TLSEXT_ERR_OK;
}

/* Making a context */

static bool use_groups(SSL_CTX *context)
{
    bool done = false;

    ERR_set_mark();
    for (size_t i = 0; i < ARRAY_LENGTH(groups) && !done; i++)
        done = SSL_CTX_set1_groups_list(context, groups[i]) == 1;
    ERR_pop_to_mark();
    return done;
}

/*
 * Without renegotiation, compression and early data, each of which has been attacked. A missing
 * close_notify is no error: requests and responses have their own length.
 */
static SSL_CTX *ssl_context_new(const struct config *config, struct tls_tickets *tickets)
{
    bool modern = config->tls_protocols == TLS_PROTOCOLS_MODERN;
    SSL_CTX *context = SSL_CTX_new_ex(NULL, key_schedule_use(), TLS_server_method());

    if (context == NULL)
        return NULL;
    SSL_CTX_set_security_level(context, 2);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_TICKET);
    if (config->tls_prefer_aes128)
        SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1); /* one recv() for a record, not one for its header, too */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_timeout(context, (long)(config->tls_session_timeout / 1000));
    SSL_CTX_set_alpn_select_cb(context, select_alpn_protocol,
                               alpn_protocols +
                                   (config_speaks_http2(config) ? 0 : ALPN_HTTP2_BYTES));
    if (SSL_CTX_set_min_proto_version(context, modern ? TLS1_3_VERSION : TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_cipher_list(context, intermediate_ciphers) == 1 &&
        SSL_CTX_set_ciphersuites(context, tls13_ciphers) == 1 && use_groups(context) &&
        SSL_CTX_set_session_id_context(context, session_context, sizeof(session_context) - 1) ==
            1 &&
        (!config->tls_session_tickets || tickets == NULL || tls_tickets_use(tickets, context) == 0))
        return context;
    SSL_CTX_free(context);
    return NULL;
}

static int use_certificate(SSL_CTX *context, const struct tls_certificate *certificate)
{
    return SSL_CTX_use_cert_and_key(context, certificate->leaf, certificate->key,
                                    certificate->chain, 1) == 1
               ? 0
               : -1;
}

static bool have_same_kind(const struct tls_certificate *one, const struct tls_certificate *other)
{
    return EVP_PKEY_get_base_id(X509_get0_pubkey(one->leaf)) ==
           EVP_PKEY_get_base_id(X509_get0_pubkey(other->leaf));
}

/*
 * Adds to the context of HOST the first certificate of each other kind of key that covers all its
 * names. OpenSSL selects the one that the client can verify.
 */
static int use_alternatives(const struct tls_context *all, const struct tls_host *host)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct tls_certificate *other = &all->host[i].certificate;
        bool first = !have_same_kind(other, &host->certificate) &&
                     tls_certificate_includes(other, &host->certificate);

        for (size_t k = 0; k < i && first; k++)
            first = !have_same_kind(other, &all->host[k].certificate) ||
                    !tls_certificate_includes(&all->host[k].certificate, &host->certificate);
        if (first && use_certificate(host->context, other) != 0)
            return -1;
    }
    return 0;
}

static int make_host_context(struct tls_context *all, struct tls_host *host,
                             const struct config *config, struct tls_tickets *tickets)
{
    host->context = ssl_context_new(config, tickets);
    if (host->context == NULL || use_certificate(host->context, &host->certificate) != 0 ||
        use_alternatives(all, host) != 0)
        return -1;
    if (all->count > 1) {
        SSL_CTX_set_tlsext_servername_callback(host->context, select_host);
        SSL_CTX_set_tlsext_servername_arg(host->context, all);
    }
    return 0;
}

static void fail_openssl(const char *file, const char *otherwise, char *why, size_t size)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    snprintf(why, size, "%s: %s", file, reason != NULL ? reason : otherwise);
    ERR_clear_error();
}

bool tls_context_accepts(const struct config *config, const struct tls_certificate *certificate,
                         const char *file, char *why, size_t size)
{
    SSL_CTX *context = ssl_context_new(config, NULL);
    EVP_PKEY *key = NULL;
    bool good = context != NULL && use_certificate(context, certificate) == 0;

    if (good && config->tls_keys_process) {
        key = remote_key_new(X509_get0_pubkey(certificate->leaf), 0);
        good = key != NULL;
    }
    if (!good)
        fail_openssl(file,
                     context == NULL ? "out of memory"
                                     : "its key is neither RSA, nor EC, nor Ed25519; use it with "
                                       "[tls] keys_process = off",
                     why, size);
    EVP_PKEY_free(key);
    SSL_CTX_free(context);
    return good;
}

/* What the handshakes use, when the certificates and their keys are complete. */
static bool make_contexts(struct tls_context *context, const struct config *config,
                          struct tls_tickets *tickets)
{
    for (size_t i = 0; i < context->count; i++)
        if (make_host_context(context, &context->host[i], config, tickets) != 0)
            return false;
    context->validation = validation_context_new();
    if (context->validation != NULL)
        validation_recognize(context->host[0].context, context->validation);
    return context->validation != NULL;
}

static bool read_saved_chain(struct tls_certificate *certificate, int file, off_t *at)
{
    uint32_t length;
    char *text, why[256];
    bool done;

    if (pread(file, &length, sizeof(length), *at) != (ssize_t)sizeof(length) ||
        length > CERTIFICATE_FILE_BYTES_MAX)
        return false;
    text = calloc(1, (size_t)length + 1);
    done = text != NULL &&
           pread(file, text, length, *at + (off_t)sizeof(length)) == (ssize_t)length &&
           tls_certificate_parse(certificate, text, "certificate", why, sizeof(why)) == 0;
    free(text);
    *at += (off_t)sizeof(length) + (off_t)length;
    return done;
}

static bool read_certificates(struct tls_context *context, uint32_t count, int file)
{
    off_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct tls_certificate *certificate = &context->host[context->count++].certificate;

        if (!read_saved_chain(certificate, file, &at))
            return false;
        certificate->key = context->remote ? remote_key_new(X509_get0_pubkey(certificate->leaf), i)
                                           : private_key_read(file, &at);
        if (certificate->key == NULL)
            return false;
    }
    return true;
}

struct tls_context *tls_context_new(const struct message_certificates *message, int file,
                                    const struct config *config, struct tls_tickets *tickets)
{
    struct tls_context *context =
        calloc(1, sizeof(*context) + message->count * sizeof(struct tls_host));
    char why[256];

    if (context == NULL) {
        event_log(LEVEL_ERROR, "cannot use the certificates: out of memory");
        return NULL;
    }
    atomic_init(&context->references, 1);
    context->number = message->number;
    context->remote = config->tls_keys_process;
    errno = 0;
    if (read_certificates(context, message->count, file) && make_contexts(context, config, tickets))
        return context;
    fail_openssl("cannot use the certificates", errno != 0 ? strerror(errno) : "incomplete", why,
                 sizeof(why));
    event_log(LEVEL_ERROR, "%s", why);
    tls_context_free(context);
    return NULL;
}

struct tls_context *tls_context_hold(struct tls_context *context)
{
    if (context != NULL)
        atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL ||
        atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < context->count; i++) {
        SSL_CTX_free(context->host[i].context);
        tls_certificate_free(&context->host[i].certificate);
    }
    SSL_CTX_free(context->validation);
    free(context);
}

bool tls_context_is_remote(const struct tls_context *context)
{
    return context != NULL && context->remote;
}

uint32_t tls_context_number(const struct tls_context *context)
{
    return context->number;
}

SSL *tls_context_connect(const struct tls_context *context, const struct segment *segment)
{
    SSL *ssl = SSL_new(context->host[0].context);

    if (ssl != NULL)
        validation_attach(ssl, segment);
    return ssl;
}
