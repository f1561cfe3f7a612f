#include "daemon/tls/tickets.h"

#include "daemon/base/memory_file.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tls_tickets {
    EVP_CIPHER *cipher; /* AES-256-CBC */
    pthread_mutex_t lock;
    struct message_ticket_keys keys;
};

/* What the file of tls_tickets_save() contains. */
struct saved_tickets {
    char format[16];
    uint64_t rotated_ns;
    struct message_ticket_keys keys;
};

static const char saved_format[16] = "tls tickets 1";

static struct tls_tickets *make_empty_tickets(void)
{
    struct tls_tickets *tickets = calloc(1, sizeof(*tickets));

    if (tickets == NULL)
        return NULL;
    tickets->cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
    if (tickets->cipher == NULL) {
        free(tickets);
        return NULL;
    }
    pthread_mutex_init(&tickets->lock, NULL);
    return tickets;
}

struct tls_tickets *tls_tickets_new(void)
{
    struct tls_tickets *tickets = make_empty_tickets();

    if (tickets == NULL || tls_tickets_rotate(tickets) == 0)
        return tickets;
    tls_tickets_free(tickets);
    return NULL;
}

void tls_tickets_free(struct tls_tickets *tickets)
{
    if (tickets == NULL)
        return;
    OPENSSL_cleanse(&tickets->keys, sizeof(tickets->keys));
    EVP_CIPHER_free(tickets->cipher);
    pthread_mutex_destroy(&tickets->lock);
    free(tickets);
}

int tls_tickets_rotate(struct tls_tickets *tickets)
{
    struct message_ticket_keys *keys = &tickets->keys;
    struct ticket_key fresh;

    if (RAND_priv_bytes((unsigned char *)&fresh, sizeof(fresh)) != 1)
        return -1;
    pthread_mutex_lock(&tickets->lock);
    memmove(&keys->key[1], &keys->key[0], sizeof(keys->key) - sizeof(keys->key[0]));
    keys->key[0] = fresh;
    if (keys->count < TICKET_KEYS)
        keys->count++;
    pthread_mutex_unlock(&tickets->lock);
    OPENSSL_cleanse(&fresh, sizeof(fresh));
    return 0;
}

void tls_tickets_export(struct tls_tickets *tickets, struct message_ticket_keys *keys)
{
    pthread_mutex_lock(&tickets->lock);
    *keys = tickets->keys;
    pthread_mutex_unlock(&tickets->lock);
}

void tls_tickets_import(struct tls_tickets *tickets, const struct message_ticket_keys *keys)
{
    pthread_mutex_lock(&tickets->lock);
    tickets->keys = *keys;
    pthread_mutex_unlock(&tickets->lock);
}

/* Binary upgrade */

int tls_tickets_save(struct tls_tickets *tickets, uint64_t rotated_ns)
{
    struct saved_tickets saved = {.rotated_ns = rotated_ns};
    int fd = memory_file_open("tickets");
    bool complete;

    if (fd < 0)
        return -1;
    memcpy(saved.format, saved_format, sizeof(saved_format));
    tls_tickets_export(tickets, &saved.keys);
    complete =
        pwrite(fd, &saved, sizeof(saved), 0) == (ssize_t)sizeof(saved) && memory_file_seal(fd) == 0;
    OPENSSL_cleanse(&saved, sizeof(saved));
    if (complete)
        return fd;
    close(fd);
    return -1;
}

struct tls_tickets *tls_tickets_restore(int fd, uint64_t *rotated_ns)
{
    struct tls_tickets *tickets = NULL;
    struct saved_tickets saved;
    struct stat status;

    if (memory_file_is_sealed(fd) && fstat(fd, &status) == 0 && status.st_size == sizeof(saved) &&
        pread(fd, &saved, sizeof(saved), 0) == (ssize_t)sizeof(saved) &&
        memcmp(saved.format, saved_format, sizeof(saved_format)) == 0 && saved.keys.count > 0 &&
        saved.keys.count <= TICKET_KEYS)
        tickets = make_empty_tickets();
    if (tickets != NULL) {
        tls_tickets_import(tickets, &saved.keys);
        *rotated_ns = saved.rotated_ns;
    }
    OPENSSL_cleanse(&saved, sizeof(saved));
    return tickets;
}

/* Callbacks of OpenSSL */

/* The key called NAME, or the newest one if NAME is NULL. Returns its position, or -1: unknown. */
static int find_ticket_key(struct tls_tickets *tickets, const unsigned char *name,
                           struct ticket_key *key)
{
    const struct message_ticket_keys *keys = &tickets->keys;
    uint32_t i = 0;

    pthread_mutex_lock(&tickets->lock);
    while (name != NULL && i < keys->count &&
           memcmp(keys->key[i].name, name, TICKET_NAME_BYTES) != 0)
        i++;
    if (i < keys->count)
        *key = keys->key[i];
    else
        i = UINT32_MAX;
    pthread_mutex_unlock(&tickets->lock);
    return (int)i;
}

enum { VALID = 1, RENEW = 2 }; /* RENEW: valid, but the client gets a new ticket */

/*
 * See SSL_CTX_set_tlsext_ticket_key_evp_cb(3). Clients of TLS 1.3 use a ticket only once (RFC 8446,
 * appendix C.4), so they get a new one with each session.
 */
static int select_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv,
                             EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int encrypt)
{
    struct tls_tickets *tickets = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct ticket_key key;
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, sizeof(key.mac)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    int position = find_ticket_key(tickets, encrypt ? NULL : name, &key), result = -1;

    if (position < 0)
        return encrypt ? -1 : 0; /* 0: unknown, so the handshake is a full one */
    if (encrypt)
        memcpy(name, key.name, sizeof(key.name));
    if ((!encrypt || RAND_bytes(iv, EVP_MAX_IV_LENGTH) == 1) &&
        EVP_MAC_CTX_set_params(mac, parameters) == 1 &&
        EVP_CipherInit_ex2(cipher, tickets->cipher, key.cipher, iv, encrypt != 0, NULL) == 1)
        result = position == 0 && (encrypt || SSL_version(ssl) < TLS1_3_VERSION) ? VALID : RENEW;
    OPENSSL_cleanse(&key, sizeof(key));
    return result;
}

int tls_tickets_use(struct tls_tickets *tickets, SSL_CTX *context)
{
    SSL_CTX_set_app_data(context, tickets);
    SSL_CTX_clear_options(context, SSL_OP_NO_TICKET);
    return SSL_CTX_set_num_tickets(context, 1) == 1 &&
                   SSL_CTX_set_tlsext_ticket_key_evp_cb(context, select_ticket_key) == 1
               ? 0
               : -1;
}
