/*
 * Certificates that a worker gets in a file: it serves what the master has loaded, with the private
 * key or with that of the keys process, and many renewals leave nothing behind.
 */
#include "daemon/base/memory_file.h"
#include "daemon/base/messages.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/context.h"
#include "daemon/tls/managed.h"
#include "tests/test.h"

#include <dirent.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RENEWALS = 8 };

static char directory[] = "/tmp/test-context-XXXXXX";
static struct self_signed one, other;
static char *certificates[] = {one.certificate, other.certificate};
static char *keys[] = {one.key, other.key};
static struct config config = {.tls_certificate = {.item = certificates, .count = 2},
                               .tls_key = {.item = keys, .count = 2},
                               .server_user = (char *)"",
                               .server_group = (char *)""};

static int begin(void **state)
{
    char why[512];

    (void)state;
    return mkdtemp(directory) != NULL &&
                   self_signed_write(&one, directory, "one.example", why, sizeof(why)) == 0 &&
                   self_signed_write(&other, directory, "other.example", why, sizeof(why)) == 0
               ? 0
               : -1;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        unlink(certificates[i]);
        unlink(keys[i]);
    }
    return rmdir(directory);
}

const struct test_fixture test_group_fixture = {begin, end};

static size_t count_descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

static struct certificate_set *load(void)
{
    char why[512] = "";
    struct certificate_set *set = certificate_set_load(&config, -1, why, sizeof(why));

    if (set == NULL)
        fail_msg("%s", why);
    return set;
}

/* As a worker does, at its start or when it gets renewed ones. */
static struct tls_context *use(const struct certificate_set *set)
{
    struct message_certificates message;
    int file = certificate_set_file(set, &message);
    struct tls_context *context;

    assert_true(memory_file_is_sealed(file));
    assert_int_equal(message.count, 2);
    context = tls_context_new(&message, file, &config, NULL);
    assert_non_null(context);
    assert_int_equal(tls_context_number(context), certificate_set_number(set));
    return context;
}

/* Whose private key is in this process. */
static void expect_handshake(const struct tls_context *context, const char *name)
{
    SSL_CTX *client_side = SSL_CTX_new(TLS_client_method());
    SSL *server = tls_context_connect(context, NULL), *client = SSL_new(client_side);
    X509 *certificate;
    BIO *ends[2];

    assert_int_equal(BIO_new_bio_pair(&ends[0], 0, &ends[1], 0), 1);
    SSL_set_bio(server, ends[0], ends[0]);
    SSL_set_bio(client, ends[1], ends[1]);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    assert_int_equal(SSL_set_tlsext_host_name(client, name), 1);
    for (int i = 0; i < 10; i++) {
        SSL_do_handshake(client);
        SSL_do_handshake(server);
    }
    assert_true(SSL_is_init_finished(server) && SSL_is_init_finished(client));
    certificate = SSL_get1_peer_certificate(client);
    assert_int_equal(X509_check_host(certificate, name, 0, 0, NULL), 1);
    X509_free(certificate);
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(client_side);
}

TEST(many_renewals_leave_nothing)
{
    size_t before;

    for (int remote = 0; remote < 2; remote++) {
        struct certificate_set *set;
        struct tls_context *used;

        config.tls_keys_process = remote;
        set = load();
        used = use(set);
        certificate_set_free(set);
        before = count_descriptors();
        for (int i = 0; i < RENEWALS; i++) {
            struct tls_context *received;

            set = load();
            received = use(set);
            assert_true(tls_context_number(received) > tls_context_number(used));
            assert_int_equal(tls_context_is_remote(received), remote);
            assert_int_equal(certificate_set_is_remote(set), remote);
            if (!remote) {
                expect_handshake(received, "one.example");
                expect_handshake(received, "other.example");
            }
            certificate_set_free(set);
            tls_context_free(used);
            used = received;
        }
        assert_true(count_descriptors() <= before);
        tls_context_free(used);
    }
}

/* The handshake keeps the certificates that it has begun with. */
TEST(context_lives_as_long_as_its_references)
{
    struct certificate_set *set;
    struct tls_context *received;

    config.tls_keys_process = false;
    set = load();
    received = tls_context_hold(use(set));
    certificate_set_free(set);
    tls_context_free(received);
    expect_handshake(received, "one.example");
    tls_context_free(received);
}

TEST(file_that_ends_early_is_refused)
{
    struct certificate_set *set = load();
    struct message_certificates message;
    int file = certificate_set_file(set, &message), part = memory_file_open("part");
    char bytes[16384];
    ssize_t length = pread(file, bytes, sizeof(bytes), 0);

    assert_true(length > 0);
    for (ssize_t i = 0; i < length; i += 97) {
        assert_int_equal(pwrite(part, bytes, (size_t)i, 0), i);
        assert_null(tls_context_new(&message, part, &config, NULL));
    }
    close(part);
    certificate_set_free(set);
}
