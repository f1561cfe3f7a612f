#include "daemon/tls/context.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/messages.h"
#include "daemon/tls/certificate.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"
#include "daemon/tls/remote_key.h"
#include "daemon/tls/tickets.h"
#include "daemon/tls/validation.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * Mozilla's Server Side TLS 5.8, "intermediate": the client's order decides, because only the
 * client knows whether it has instructions for AES; with prefer_aes128 the order of these lists.
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
enum { ALPN_HTTP2_BYTES = 3, DAY_S = 86400 };

/* Sessions of one context are resumed only with the same text. */
static const unsigned char session_context[] = "webserverd";

/* One certificate, with others of the same names but another kind of key beside it. */
struct tls_host {
    const char *file; /* valid while it is loaded */
    struct tls_certificate certificate;
    uint32_t end_reports; /* number of expiry_days[] that were logged */
    SSL_CTX *context;
};

struct tls_context {
    _Atomic uint32_t references;
    uint32_t number;
    bool remote;         /* signatures come from the keys process */
    bool tls12;          /* besides TLS 1.3 */
    int keys;            /* their file: private_keys.h; -1: none, as they are in this process */
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

/* Making a context. The master. */

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
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());

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

static int fail_openssl(const char *file, const char *otherwise, char *why, size_t size)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    snprintf(why, size, "%s: %s", file, reason != NULL ? reason : otherwise);
    ERR_clear_error();
    return -1;
}

/*
 * Reads certificates, and their keys into context->keys. Without KEYS, each is in the same file.
 * GIVEN: they are files of the administrator, whose modes may be wrong.
 */
static int load_certificate_files(struct tls_context *context, const struct config_words *files,
                                  const struct config_words *keys, bool given, char *why,
                                  size_t size)
{
    for (size_t i = 0; i < files->count; i++) {
        struct tls_host *host = &context->host[context->count++];
        const char *key_file = keys->count > 0 ? keys->item[i] : files->item[i];

        host->file = files->item[i];
        if (given)
            private_keys_warn(key_file);
        if (tls_certificate_load(&host->certificate, host->file, why, size) != 0 ||
            private_keys_add(context->keys, key_file, host->certificate.leaf, host->file, why,
                             size) != 0)
            return -1;
        if (given && tls_certificate_is_authority(host->certificate.leaf))
            event_log(LEVEL_WARN,
                      "the certificate %s is that of an authority (CA): its key can issue "
                      "certificates for any name; use one with basicConstraints CA:FALSE",
                      host->file);
    }
    return 0;
}

/* Those of [tls] first: the first one is the default. */
static int load_all_certificates(struct tls_context *context, const struct config *config,
                                 const struct managed_certificates *managed, char *why, size_t size)
{
    if (load_certificate_files(context, &config->tls_certificate, &config->tls_key, true, why,
                               size) != 0)
        return -1;
    for (size_t i = 0; i < config->host_count; i++) {
        const struct config_host *host = &config->hosts[i];

        if (host->given[HOST_KEY_certificate] &&
            load_certificate_files(context, &host->certificate, &host->key, true, why, size) != 0)
            return -1;
    }
    if (managed != NULL && load_certificate_files(context, &managed->certificate, &managed->key,
                                                  false, why, size) != 0)
        return -1;
    if (memory_file_seal(context->keys) == 0)
        return 0;
    snprintf(why, size, "cannot seal the file of the private keys: %s", strerror(errno));
    return -1;
}

static size_t count_certificates(const struct config *config)
{
    size_t count = config->tls_certificate.count;

    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].given[HOST_KEY_certificate])
            count += config->hosts[i].certificate.count;
    return count;
}

static int make_remote_keys(struct tls_context *context, char *why, size_t size)
{
    static const char unknown[] =
        "its key is neither RSA, nor EC, nor Ed25519; use it with [tls] keys_process = off";

    for (size_t i = 0; i < context->count; i++) {
        struct tls_host *host = &context->host[i];
        EVP_PKEY *public_key = X509_get0_pubkey(host->certificate.leaf);

        host->certificate.key = remote_key_new(public_key, (uint32_t)i);
        if (host->certificate.key == NULL)
            return fail_openssl(host->file, unknown, why, size);
    }
    return 0;
}

/* Reads the keys, which the workers then have in their memory. */
static int read_keys(struct tls_context *context, char *why, size_t size)
{
    EVP_PKEY **key = calloc(context->count + 1, sizeof(EVP_PKEY *));
    int failed = key != NULL ? private_keys_read(context->keys, key, context->count) : -1;

    for (size_t i = 0; i < context->count && failed == 0; i++)
        context->host[i].certificate.key = key[i];
    if (failed != 0)
        snprintf(why, size, "cannot read the private keys: out of memory");
    free(key);
    close(context->keys);
    context->keys = -1;
    return failed;
}

static int64_t asn1_seconds(const ASN1_TIME *when)
{
    struct tm fields;

    return ASN1_TIME_to_tm(when, &fields) == 1 ? (int64_t)timegm(&fields) : 0;
}

void tls_context_report_expired(struct tls_context *context, int64_t now_s)
{
    static const int64_t expiry_days[] = {14, 7, 2, 0};

    for (size_t i = 0; i < context->count; i++) {
        struct tls_host *host = &context->host[i];
        int64_t end_s = asn1_seconds(X509_get0_notAfter(host->certificate.leaf));
        int64_t life_s = end_s - asn1_seconds(X509_get0_notBefore(host->certificate.leaf));
        const char *name = host->certificate.name_count > 0 ? host->certificate.name[0] : "?";
        uint32_t reached = 0;

        for (uint32_t k = 0; k < ARRAY_LENGTH(expiry_days); k++)
            if (end_s - now_s <= expiry_days[k] * DAY_S && expiry_days[k] * DAY_S < life_s / 3)
                reached = k + 1;
        if (reached <= host->end_reports)
            continue;
        host->end_reports = reached;
        if (end_s <= now_s)
            event_log(LEVEL_ERROR, "the certificate for %s has ended: clients reject it", name);
        else
            event_log(LEVEL_WARN, "the certificate for %s ends in less than %ld days", name,
                      (long)expiry_days[reached - 1]);
    }
}

void tls_context_describe(const struct tls_context *context,
                          void (*show)(void *owner, const struct tls_description *description),
                          void *owner)
{
    for (size_t i = 0; i < context->count; i++) {
        const struct tls_certificate *certificate = &context->host[i].certificate;
        char issuer[256] = "";
        struct tls_description description = {
            .issuer = issuer,
            .name = certificate->name,
            .name_count = certificate->name_count,
            .not_before_s = asn1_seconds(X509_get0_notBefore(certificate->leaf)),
            .not_after_s = asn1_seconds(X509_get0_notAfter(certificate->leaf))};

        X509_NAME_oneline(X509_get_issuer_name(certificate->leaf), issuer, sizeof(issuer));
        show(owner, &description);
    }
}

/* What the handshakes use, when the certificates and their keys are complete. */
static int make_contexts(struct tls_context *context, const struct config *config,
                         struct tls_tickets *tickets, char *why, size_t size)
{
    for (size_t i = 0; i < context->count; i++)
        if (make_host_context(context, &context->host[i], config, tickets) != 0)
            return fail_openssl(context->host[i].file, "out of memory", why, size);
    context->validation = validation_context_new();
    if (context->validation == NULL)
        return fail_openssl("tls-alpn-01", "out of memory", why, size);
    validation_recognize(context->host[0].context, context->validation);
    return 0;
}

static int load_hosts(struct tls_context *context, const struct config *config,
                      const struct managed_certificates *managed, struct tls_tickets *tickets,
                      char *why, size_t size)
{
    context->keys = private_keys_open(why, size);
    if (context->keys < 0 || load_all_certificates(context, config, managed, why, size) != 0 ||
        (context->remote ? make_remote_keys(context, why, size) : read_keys(context, why, size)) !=
            0)
        return -1;
    return make_contexts(context, config, tickets, why, size);
}

static struct tls_context *context_new(const struct config *config, uint32_t number, size_t count)
{
    struct tls_context *context = calloc(1, sizeof(*context) + count * sizeof(struct tls_host));

    if (context == NULL)
        return NULL;
    atomic_init(&context->references, 1);
    context->keys = -1;
    context->number = number;
    context->remote = config->tls_keys_process;
    context->tls12 = config->tls_protocols != TLS_PROTOCOLS_MODERN;
    return context;
}

struct tls_context *tls_context_new(const struct config *config,
                                    const struct managed_certificates *managed,
                                    struct tls_tickets *tickets, char *why, size_t size)
{
    static uint32_t number;
    size_t count = count_certificates(config) + (managed != NULL ? managed->certificate.count : 0);
    struct tls_context *context = context_new(config, ++number, count);
    char reason[512];

    /* All that OpenSSL reads from files, it reads here: workers cannot. */
    if (context == NULL ||
        OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS |
                             OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
                         NULL) != 1) {
        free(context);
        snprintf(why, size, "[tls] certificate: out of memory");
        return NULL;
    }
    if (load_hosts(context, config, managed, tickets, reason, sizeof(reason)) != 0) {
        snprintf(why, size, "[tls] certificate: %s", reason);
        tls_context_free(context);
        return NULL;
    }
    return context;
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
    if (context->keys >= 0)
        close(context->keys);
    free(context);
}

void tls_context_forget_files(struct tls_context *context)
{
    if (context != NULL)
        context->keys = -1;
}

bool tls_context_is_remote(const struct tls_context *context)
{
    return context != NULL && context->remote;
}

uint32_t tls_context_number(const struct tls_context *context)
{
    return context->number;
}

int tls_context_keys(const struct tls_context *context, struct message_keys_set *set)
{
    *set = (struct message_keys_set){
        .set = context->number, .count = (uint32_t)context->count, .tls12 = context->tls12};
    return context->keys;
}

SSL *tls_context_connect(const struct tls_context *context, const struct segment *segment)
{
    SSL *ssl = SSL_new(context->host[0].context);

    if (ssl != NULL)
        validation_attach(ssl, segment);
    return ssl;
}

/*
 * The certificates as a file: for each its chain in PEM format and, unless the keys process signs,
 * its key (PKCS#8 or traditional, DER). Each is after its length.
 */

enum { CHAIN_BYTES_MAX = 1024 * 1024 };

static bool write_part(int file, const void *bytes, size_t length)
{
    uint32_t head = (uint32_t)length;

    return length <= CHAIN_BYTES_MAX && write(file, &head, sizeof(head)) == (ssize_t)sizeof(head) &&
           write(file, bytes, length) == (ssize_t)length;
}

static bool write_chain(int file, const struct tls_certificate *certificate)
{
    BIO *text = BIO_new(BIO_s_mem());
    bool done = text != NULL && PEM_write_bio_X509(text, certificate->leaf) == 1;
    char *bytes;
    long length;

    for (int i = 0; done && i < sk_X509_num(certificate->chain); i++)
        done = PEM_write_bio_X509(text, sk_X509_value(certificate->chain, i)) == 1;
    if (done) {
        length = BIO_get_mem_data(text, &bytes);
        done = write_part(file, bytes, (size_t)length);
    }
    BIO_free(text);
    return done;
}

static bool write_key(int file, const EVP_PKEY *key)
{
    unsigned char *bytes = NULL;
    int length = i2d_PrivateKey(key, &bytes);
    bool done = length > 0 && write_part(file, bytes, (size_t)length);

    OPENSSL_clear_free(bytes, length > 0 ? (size_t)length : 0);
    return done;
}

int tls_context_save(const struct tls_context *context, struct message_certificates *message)
{
    int file = memory_file_open("certificates");
    bool done = file >= 0;

    for (size_t i = 0; i < context->count && done; i++)
        done = write_chain(file, &context->host[i].certificate) &&
               (context->remote || write_key(file, context->host[i].certificate.key));
    ERR_clear_error();
    if (done && memory_file_seal(file) == 0) {
        *message = (struct message_certificates){.number = context->number,
                                                 .count = (uint32_t)context->count};
        return file;
    }
    if (file >= 0)
        close(file);
    return -1;
}

static bool read_saved_chain(struct tls_certificate *certificate, int file, off_t *at)
{
    uint32_t length;
    char *text, why[256];
    bool done;

    if (pread(file, &length, sizeof(length), *at) != (ssize_t)sizeof(length) ||
        length > CHAIN_BYTES_MAX)
        return false;
    text = calloc(1, (size_t)length + 1);
    done = text != NULL &&
           pread(file, text, length, *at + (off_t)sizeof(length)) == (ssize_t)length &&
           tls_certificate_parse(certificate, text, "certificate", why, sizeof(why)) == 0;
    free(text);
    *at += (off_t)sizeof(length) + (off_t)length;
    return done;
}

static int read_certificates(struct tls_context *context, uint32_t count, int file)
{
    off_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct tls_host *host = &context->host[context->count++];
        struct tls_certificate *certificate = &host->certificate;

        host->file = "certificate";
        if (!read_saved_chain(certificate, file, &at))
            return -1;
        if (!context->remote && (certificate->key = private_key_read(file, &at)) == NULL)
            return -1;
    }
    return 0;
}

struct tls_context *tls_context_restore(const struct message_certificates *message, int file,
                                        const struct config *config, struct tls_tickets *tickets)
{
    struct tls_context *context = context_new(config, message->number, message->count);
    char why[512];

    if (context != NULL && read_certificates(context, message->count, file) == 0 &&
        (!context->remote || make_remote_keys(context, why, sizeof(why)) == 0) &&
        make_contexts(context, config, tickets, why, sizeof(why)) == 0)
        return context;
    ERR_clear_error();
    tls_context_free(context);
    return NULL;
}
