/*
 * Session tickets: which keys still decrypt after rotations, and that another process with the same
 * keys accepts them. Client and server shake hands in memory.
 */
#include "daemon/base/memory_file.h"
#include "daemon/tls/tickets.h"
#include "tests/test.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static SSL_CTX *server_context(struct tls_tickets *tickets, EVP_PKEY *key)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    X509 *certificate = X509_new();

    assert_non_null(context);
    assert_non_null(certificate);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    assert_int_equal(SSL_CTX_set_session_id_context(context, (const unsigned char *)"t", 1), 1);
    assert_int_equal(tls_tickets_use(tickets, context), 0);
    X509_free(certificate);
    return context;
}

/* Performs a handshake with VERSION. Returns the client's new session in *SESSION. */
static bool is_resumed(SSL_CTX *server_side, int version, SSL_SESSION **session)
{
    SSL_CTX *client_side = SSL_CTX_new(TLS_client_method());
    SSL *server = SSL_new(server_side), *client = SSL_new(client_side);
    BIO *one, *other;
    bool resumed;
    char byte;

    assert_int_equal(BIO_new_bio_pair(&one, 0, &other, 0), 1);
    SSL_set_bio(server, one, one);
    SSL_set_bio(client, other, other);
    SSL_set_max_proto_version(client, version);
    if (*session != NULL)
        assert_int_equal(SSL_set_session(client, *session), 1);
    SSL_SESSION_free(*session);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    for (int i = 0; i < 10; i++) {
        SSL_do_handshake(client);
        SSL_do_handshake(server);
        SSL_read(client, &byte, 1); /* the tickets of TLS 1.3 follow the handshake */
    }
    assert_true(SSL_is_init_finished(server) && SSL_is_init_finished(client));
    resumed = SSL_session_reused(server) != 0;
    *session = SSL_get1_session(client);
    SSL_shutdown(client); /* without it the session is not resumable */
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(client_side);
    return resumed;
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

TEST(tickets_are_valid_for_two_rotations)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    for (size_t i = 0; i < 2; i++)
        for (int rotations = 0; rotations < 5; rotations++) {
            struct tls_tickets *tickets = tls_tickets_new();
            SSL_CTX *context = server_context(tickets, key);
            SSL_SESSION *session = NULL;

            assert_false(is_resumed(context, versions[i], &session));
            for (int k = 0; k < rotations; k++)
                assert_int_equal(tls_tickets_rotate(tickets), 0);
            assert_int_equal(is_resumed(context, versions[i], &session), rotations < TICKET_KEYS);
            assert_true(is_resumed(context, versions[i], &session)); /* the ticket was renewed */
            SSL_SESSION_free(session);
            SSL_CTX_free(context);
            tls_tickets_free(tickets);
        }
    EVP_PKEY_free(key);
}

TEST(process_with_the_same_keys_accepts_tickets)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    struct message_ticket_keys keys;

    for (size_t i = 0; i < 2; i++) {
        struct tls_tickets *one = tls_tickets_new(), *other = tls_tickets_new();
        SSL_CTX *first = server_context(one, key), *second = server_context(other, key);
        SSL_SESSION *session = NULL;

        assert_false(is_resumed(first, versions[i], &session));
        assert_false(is_resumed(second, versions[i], &session));
        tls_tickets_export(one, &keys);
        assert_int_equal(keys.count, 1);
        tls_tickets_import(other, &keys);
        assert_false(is_resumed(second, versions[i], &session)); /* its own key is gone */
        assert_true(is_resumed(first, versions[i], &session));
        assert_true(is_resumed(second, versions[i], &session));
        SSL_SESSION_free(session);
        SSL_CTX_free(first);
        SSL_CTX_free(second);
        tls_tickets_free(one);
        tls_tickets_free(other);
    }
    EVP_PKEY_free(key);
}

TEST(rotation_keeps_three_keys)
{
    struct tls_tickets *tickets = tls_tickets_new();
    struct message_ticket_keys before, after;

    for (uint32_t i = 0; i < 5; i++) {
        tls_tickets_export(tickets, &before);
        assert_int_equal(tls_tickets_rotate(tickets), 0);
        tls_tickets_export(tickets, &after);
        assert_int_equal(after.count, i + 2 < TICKET_KEYS ? i + 2 : TICKET_KEYS);
        assert_memory_not_equal(&after.key[0], &before.key[0], sizeof(struct ticket_key));
        assert_memory_equal(&after.key[1], &before.key[0],
                            (TICKET_KEYS - 1) * sizeof(struct ticket_key));
    }
    tls_tickets_free(tickets);
}

/* As after a binary upgrade. */
TEST(saved_tickets_are_restored)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    for (size_t i = 0; i < 2; i++) {
        struct tls_tickets *one = tls_tickets_new(), *other;
        SSL_CTX *first = server_context(one, key), *second;
        SSL_SESSION *session = NULL;
        uint64_t rotated_ns = 0;
        int fd;

        assert_false(is_resumed(first, versions[i], &session));
        assert_int_equal(tls_tickets_rotate(one), 0);
        fd = tls_tickets_save(one, 12345);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, "x", 1, 0), -1); /* nobody can change it */
        other = tls_tickets_restore(fd, &rotated_ns);
        assert_non_null(other);
        assert_int_equal(rotated_ns, 12345);
        second = server_context(other, key);
        assert_true(is_resumed(second, versions[i], &session));
        SSL_SESSION_free(session);
        SSL_CTX_free(first);
        SSL_CTX_free(second);
        tls_tickets_free(one);
        tls_tickets_free(other);
        close(fd);
    }
    EVP_PKEY_free(key);
}

/* Copies LENGTH bytes of the file FROM to another file in memory. */
static int copy_of(int from, size_t length, bool sealed)
{
    char bytes[1024] = {0};
    int fd = memory_file_open("copy");

    assert_true(fd >= 0 && length <= sizeof(bytes));
    assert_true(pread(from, bytes, length, 0) > 0);
    assert_int_equal(pwrite(fd, bytes, length, 0), length);
    if (sealed)
        assert_int_equal(memory_file_seal(fd), 0);
    return fd;
}

TEST(other_files_are_not_restored)
{
    struct tls_tickets *tickets = tls_tickets_new(), *restored;
    int fd = tls_tickets_save(tickets, 1), count = 0, file[6];
    size_t length = (size_t)lseek(fd, 0, SEEK_END);
    uint64_t rotated_ns;
    char byte = 'T';

    file[count++] = open("/dev/null", O_RDWR | O_CLOEXEC);
    file[count++] = copy_of(fd, length, false); /* somebody could change it */
    file[count++] = copy_of(fd, length - 1, true);
    file[count++] = copy_of(fd, length + 1, true);
    file[count] = copy_of(fd, length, false); /* another format */
    assert_int_equal(pwrite(file[count], &byte, 1, 0), 1);
    assert_int_equal(memory_file_seal(file[count++]), 0);
    file[count] = copy_of(fd, length, false);
    assert_int_equal(pwrite(file[count], "\0\0\0\0", 4, 24), 4); /* without a key */
    assert_int_equal(memory_file_seal(file[count++]), 0);
    for (int i = 0; i < count; i++) {
        assert_null(tls_tickets_restore(file[i], &rotated_ns));
        close(file[i]);
    }
    file[0] = copy_of(fd, length, true);
    restored = tls_tickets_restore(file[0], &rotated_ns);
    assert_non_null(restored);
    close(file[0]);
    tls_tickets_free(restored);
    tls_tickets_free(tickets);
    close(fd);
}
