/*
 * Self-signed certificates; those of [acme] in a state directory, and what replaces those that are
 * missing or not usable.
 */
#include "common/macros.h"
#include "daemon/base/messages.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NAME "www.test-site.org"
#define ONE  "one.example"
#define TWO  "two.example"

enum { TEXT = 8192, VALID_DAYS = 397 };

static char why[TEXT];
static int descriptors_before;
static struct config config;
static struct certificate_set *set;
static struct self_signed files;

static int set_up(void **state)
{
    static char *names[] = {ONE, TWO};

    (void)state;
    events_forget();
    own_directory_make();
    config.acme_state_dir = own_directory;
    config.server_user = config.server_group = "";
    config.acme_names = (struct config_words){names, ARRAY_LENGTH(names)};
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open. */
static int tear_down(void **state)
{
    (void)state;
    certificate_set_free(set);
    set = NULL;
    assert_int_equal(open_descriptors(), descriptors_before);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* Self-signed certificates */

static X509 *read_certificate(void)
{
    FILE *file = fopen(files.certificate, "r");
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);

    assert_non_null(certificate);
    fclose(file);
    return certificate;
}

static EVP_PKEY *read_key(void)
{
    FILE *file = fopen(files.key, "r");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);

    assert_non_null(key);
    fclose(file);
    return key;
}

/* The new certificate for HOST, which the caller frees. */
static X509 *make(const char *host)
{
    assert_int_equal(self_signed_write(&files, own_directory, host, why, sizeof(why)), 0);
    return read_certificate();
}

static bool is_critical(const X509 *certificate, int kind)
{
    int at = X509_get_ext_by_NID(certificate, kind, -1);

    assert_true(at >= 0);
    return X509_EXTENSION_get_critical(X509_get_ext(certificate, at)) != 0;
}

TEST(certificate_is_for_servers)
{
    X509 *certificate = make(NAME);
    EVP_PKEY *key = read_key();
    int days, seconds;

    assert_int_equal(X509_get_version(certificate), X509_VERSION_3);
    assert_int_equal(X509_verify(certificate, key), 1);
    assert_int_equal(X509_check_private_key(certificate, key), 1);
    assert_int_equal(
        X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_issuer_name(certificate)), 0);
    assert_int_equal(X509_check_host(certificate, NAME, 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(certificate, "127.0.0.1", 0), 0);
    assert_int_equal(X509_check_ca(certificate), 0);
    assert_int_equal(X509_get_key_usage(certificate), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(certificate), XKU_SSL_SERVER);
    assert_true(is_critical(certificate, NID_basic_constraints));
    assert_true(is_critical(certificate, NID_key_usage));
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(certificate),
                                    X509_get0_notAfter(certificate)),
                     1);
    assert_int_equal(days, VALID_DAYS);
    assert_in_range(seconds, 0, 60); /* the clock is read twice */
    assert_true(X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0);
    EVP_PKEY_free(key);
    X509_free(certificate);
}

TEST(localhost_is_for_its_addresses_too)
{
    X509 *certificate = make("localhost");

    assert_int_equal(X509_check_host(certificate, "localhost", 0, 0, NULL), 1);
    assert_int_equal(X509_check_ip_asc(certificate, "127.0.0.1", 0), 1);
    assert_int_equal(X509_check_ip_asc(certificate, "::1", 0), 1);
    X509_free(certificate);
}

TEST(name_over_64_bytes_is_not_the_common_name)
{
    char host[66];

    memset(host, 'n', sizeof(host));
    host[30] = '.';
    for (size_t length = 64; length <= 65; length++) {
        char common[128];
        X509 *certificate;

        host[64] = 'n';
        host[length] = '\0';
        certificate = make(host);
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common,
                                  sizeof(common));
        assert_string_equal(common, length == 64 ? host : "webserverd");
        assert_int_equal(X509_check_host(certificate, host, 0, 0, NULL), 1);
        X509_free(certificate);
    }
}

/* RFC 5280 section 4.1.2.2: a positive number of at most 20 bytes. */
TEST(serials_are_positive_and_differ)
{
    enum { COUNT = 16 };
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate[COUNT];

    for (int i = 0; i < COUNT; i++) {
        BIGNUM *serial;

        certificate[i] = X509_new();
        assert_true(self_signed_begin(certificate[i], key, NAME, 1));
        serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate[i]), NULL);
        assert_false(BN_is_negative(serial));
        assert_in_range(BN_num_bits(serial), 64, 127);
        BN_free(serial);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(certificate[i]),
                                                  X509_get0_serialNumber(certificate[k])),
                                 0);
    }
    for (int i = 0; i < COUNT; i++)
        X509_free(certificate[i]);
    EVP_PKEY_free(key);
}

TEST(invalid_extension_is_refused)
{
    X509 *certificate = X509_new();

    assert_true(self_signed_extend(certificate, NID_key_usage, "digitalSignature"));
    assert_false(self_signed_extend(certificate, NID_key_usage, "nonsense"));
    ERR_clear_error();
    X509_free(certificate);
}

static mode_t mode_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status.st_mode : 0;
}

TEST(only_the_owner_may_read_the_key)
{
    mode_t mask = umask(0);

    X509_free(make(NAME));
    umask(mask);
    assert_int_equal(mode_of(files.key), S_IFREG | 0600);
    assert_int_equal(mode_of(files.certificate), S_IFREG | 0644);
}

static void put(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void assert_empty_file(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 0);
}

TEST(no_file_is_replaced)
{
    assert_int_equal(self_signed_write(&files, own_directory, NAME, why, sizeof(why)), 0);
    unlink(files.certificate);
    unlink(files.key);
    put(files.key);
    assert_int_equal(self_signed_write(&files, own_directory, NAME, why, sizeof(why)), -1);
    assert_non_null(strstr(why, NAME ".key: File exists (it is not replaced"));
    assert_empty_file(files.key);
    assert_int_equal(mode_of(files.certificate), 0);
    unlink(files.key);
    put(files.certificate);
    assert_int_equal(self_signed_write(&files, own_directory, NAME, why, sizeof(why)), -1);
    assert_non_null(strstr(why, NAME ".pem: File exists (it is not replaced"));
    assert_empty_file(files.certificate);
    assert_int_equal(mode_of(files.key), 0);
}

TEST(missing_directory_is_reported)
{
    char missing[64];

    snprintf(missing, sizeof(missing), "%s/none", own_directory);
    assert_int_equal(self_signed_write(&files, missing, NAME, why, sizeof(why)), -1);
    assert_non_null(strstr(why, ": No such file or directory (name a directory that exists"));
}

TEST(invalid_name_is_reported)
{
    assert_int_equal(self_signed_write(&files, own_directory, "", why, sizeof(why)), -1);
    assert_memory_equal(why, "cannot make a certificate: ", 27);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(mode_of(files.key), 0);
}

/* The key has fewer bytes than the certificate. */
TEST(unwritten_files_are_removed)
{
    static const struct {
        rlim_t bytes;
        const char *why;
    } cases[] = {{10, NAME ".key: cannot write: File too large"},
                 {400, NAME ".pem: cannot write: File too large"}};

    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct rlimit usual, limit;
        int failed;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
        limit = (struct rlimit){cases[i].bytes, usual.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        failed = self_signed_write(&files, own_directory, NAME, why, sizeof(why));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
        assert_int_equal(failed, -1);
        assert_non_null(strstr(why, cases[i].why));
        assert_int_equal(mode_of(files.key), 0);
        assert_int_equal(mode_of(files.certificate), 0);
    }
}

/* Managed certificates */

static int find(void)
{
    int directory = open(own_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    certificate_set_free(set);
    set = certificate_set_load(&config, directory, why, sizeof(why));
    return set != NULL ? 0 : -1;
}

/* Writes the path of FILE in the state directory. */
static const char *path_of(const char *file)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", own_directory, file);
    return path;
}

static void append(const char *from, FILE *to)
{
    char text[TEXT];
    FILE *file = fopen(from, "r");
    size_t length;

    assert_non_null(file);
    length = fread(text, 1, sizeof(text), file);
    assert_int_equal(fwrite(text, 1, length, to), length);
    fclose(file);
}

/* Writes a certificate for NAME with its key to the file of FOR_NAME, as the ACME process does. */
static void obtain(const char *name, const char *for_name)
{
    char path[300];
    FILE *file;

    assert_int_equal(self_signed_write(&files, own_directory, name, why, sizeof(why)), 0);
    snprintf(path, sizeof(path), "%s/%s.tmp", own_directory, for_name);
    file = fopen(path, "w");
    assert_non_null(file);
    append(files.key, file);
    append(files.certificate, file);
    assert_int_equal(fclose(file), 0);
    unlink(files.key);
    unlink(files.certificate);
    assert_int_equal(rename(path, path_of(strcmp(for_name, ONE) == 0 ? ONE ".pem" : TWO ".pem")),
                     0);
}

static bool exists(const char *file)
{
    struct stat status;

    return lstat(path_of(file), &status) == 0;
}

/* The certificate, whose key is there, too. The caller frees it. */
static X509 *read_managed(uint32_t number)
{
    struct message_certificates message;
    int file = certificate_set_file(set, &message);
    X509 *certificate = NULL;
    off_t at = 0;

    assert_int_equal(message.count, 2);
    for (uint32_t i = 0; i <= number; i++) {
        static char text[TEXT];
        EVP_PKEY *private;
        uint32_t length;
        BIO *reader;

        assert_int_equal(pread(file, &length, sizeof(length), at), sizeof(length));
        at += (off_t)sizeof(length);
        assert_true(length < sizeof(text));
        assert_int_equal(pread(file, text, length, at), length);
        at += (off_t)length;
        private = private_key_read(file, &at);
        X509_free(certificate);
        reader = BIO_new_mem_buf(text, (int)length);
        certificate = PEM_read_bio_X509(reader, NULL, NULL, NULL);
        assert_int_equal(X509_check_private_key(certificate, private), 1);
        BIO_free(reader);
        EVP_PKEY_free(private);
    }
    return certificate;
}

static void expect_certificate(uint32_t i, const char *host)
{
    X509 *certificate = read_managed(i);

    assert_int_equal(X509_check_host(certificate, host, 0, 0, NULL), 1);
    X509_free(certificate);
}

TEST(missing_certificates_are_self_signed)
{
    assert_int_equal(find(), 0);
    expect_certificate(0, ONE);
    expect_certificate(1, TWO);
    assert_int_equal(event_count(), 0);
}

/* The process that owns the directory may write to the file at any time. */
TEST(copy_of_an_obtained_certificate_is_used)
{
    EVP_PKEY *obtained_key;
    X509 *obtained, *used;
    FILE *file;

    obtain(TWO, TWO);
    file = fopen(path_of(TWO ".pem"), "r");
    obtained_key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    obtained = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert_int_equal(find(), 0);
    assert_int_equal(truncate(path_of(TWO ".pem"), 0), 0);
    used = read_managed(1);
    assert_int_equal(X509_cmp(used, obtained), 0);
    assert_int_equal(event_count(), 0);
    expect_certificate(0, ONE);
    X509_free(obtained);
    X509_free(used);
    EVP_PKEY_free(obtained_key);
}

/* --- Files that must not be used --- */

static void write_pem(const char *file_name, EVP_PKEY *leaf_key, EVP_PKEY *private)
{
    EVP_PKEY *signer = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    FILE *file = fopen(path_of(file_name), "w");

    assert_non_null(file);
    assert_true(self_signed_begin(certificate, leaf_key, TWO, 1));
    assert_true(self_signed_extend(certificate, NID_subject_alt_name, "DNS:" TWO));
    assert_true(X509_sign(certificate, signer, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    if (private != NULL)
        assert_int_equal(PEM_write_PKCS8PrivateKey(file, private, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(certificate);
    EVP_PKEY_free(signer);
}

static void write_key_of(EVP_PKEY *private)
{
    write_pem(TWO ".pem", private, private);
    EVP_PKEY_free(private);
}

static void write_another_name(void)
{
    obtain(ONE, TWO);
}

static void write_another_key(void)
{
    EVP_PKEY *one = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256");

    write_pem(TWO ".pem", one, other);
    EVP_PKEY_free(one);
    EVP_PKEY_free(other);
}

static void write_no_key(void)
{
    EVP_PKEY *one = EVP_EC_gen("P-256");

    write_pem(TWO ".pem", one, NULL);
    EVP_PKEY_free(one);
}

static void write_nothing(void)
{
    put(path_of(TWO ".pem"));
}

static void write_p384(void)
{
    write_key_of(EVP_EC_gen("P-384"));
}

static void write_rsa_1024(void)
{
    write_key_of(EVP_RSA_gen(1024));
}

static void write_ed25519(void)
{
    write_key_of(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"));
}

/* Of numbers that are no primes: to find real ones of this size takes minutes. */
static void write_rsa_16384(void)
{
    static const char *const secret[] = {
        OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
        OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
        OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    BIGNUM *modulus = BN_new(), *number = BN_new();
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    EVP_PKEY *private = NULL;
    OSSL_PARAM *parameters;

    assert_true(BN_rand(modulus, 16384, BN_RAND_TOP_TWO, BN_RAND_BOTTOM_ODD) == 1 &&
                BN_rand(number, 8192, BN_RAND_TOP_TWO, BN_RAND_BOTTOM_ODD) == 1 &&
                OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
                OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, number) == 1);
    for (size_t i = 0; i < ARRAY_LENGTH(secret); i++)
        assert_int_equal(OSSL_PARAM_BLD_push_BN(builder, secret[i], number), 1);
    parameters = OSSL_PARAM_BLD_to_param(builder);
    assert_int_equal(EVP_PKEY_fromdata_init(context), 1);
    assert_int_equal(EVP_PKEY_fromdata(context, &private, EVP_PKEY_KEYPAIR, parameters), 1);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    EVP_PKEY_CTX_free(context);
    BN_free(modulus);
    BN_free(number);
    write_key_of(private);
}

/* Those of P-256, written out. */
static void write_explicit_parameters(void)
{
    EVP_PKEY *private = EVP_EC_gen("P-256");

    assert_int_equal(EVP_PKEY_set_utf8_string_param(private, OSSL_PKEY_PARAM_EC_ENCODING,
                                                    OSSL_PKEY_EC_ENCODING_EXPLICIT),
                     1);
    write_key_of(private);
}

static void write_large_file(void)
{
    write_nothing();
    assert_int_equal(truncate(path_of(TWO ".pem"), 10 * 1024 * 1024), 0);
}

static const char *target_path(void)
{
    static char path[96];

    snprintf(path, sizeof(path), "%s/target", own_directory);
    return path;
}

static void write_link(void)
{
    obtain(TWO, TWO);
    assert_int_equal(rename(path_of(TWO ".pem"), target_path()), 0);
    assert_int_equal(symlink(target_path(), path_of(TWO ".pem")), 0);
}

static void write_pipe(void)
{
    assert_int_equal(mkfifo(path_of(TWO ".pem"), 0600), 0);
}

static void write_directory(void)
{
    assert_int_equal(mkdir(path_of(TWO ".pem"), 0700), 0);
}

static void write_relative_link(void)
{
    write_link();
    unlink(path_of(TWO ".pem"));
    assert_int_equal(symlink("./target", path_of(TWO ".pem")), 0);
}

static void write_hard_link(void)
{
    write_link();
    unlink(path_of(TWO ".pem"));
    assert_int_equal(link(target_path(), path_of(TWO ".pem")), 0);
}

/* INTEGER with BITS random bits, behind AT. Returns its end. */
static unsigned char *put_integer(unsigned char *at, int bits)
{
    BIGNUM *number = BN_new();
    ASN1_INTEGER *integer;

    assert_int_equal(BN_rand(number, bits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ODD), 1);
    integer = BN_to_ASN1_INTEGER(number, NULL);
    assert_true(i2d_ASN1_INTEGER(integer, &at) > 0);
    ASN1_INTEGER_free(integer);
    BN_free(number);
    return at;
}

/* OpenSSL computes the public key from the private one when it reads this, for many minutes. */
static void write_huge_dsa(void)
{
    enum { HUGE_BITS = 60000, NUMBER_BYTES = HUGE_BITS / 8 + 16 };
    static unsigned char numbers[3 * NUMBER_BYTES], sequence[4 * NUMBER_BYTES];
    unsigned char *private = OPENSSL_malloc(NUMBER_BYTES), *end = numbers, *at = sequence;
    int length = (int)(put_integer(private, HUGE_BITS) - private);
    PKCS8_PRIV_KEY_INFO *info = PKCS8_PRIV_KEY_INFO_new();
    ASN1_STRING *parameters = ASN1_STRING_new();
    FILE *file;

    write_no_key();
    for (int i = 0; i < 3; i++)
        end = put_integer(end, HUGE_BITS);
    ASN1_put_object(&at, 1, (int)(end - numbers), V_ASN1_SEQUENCE, V_ASN1_UNIVERSAL);
    memcpy(at, numbers, (size_t)(end - numbers));
    assert_int_equal(ASN1_STRING_set(parameters, sequence, (int)(at - sequence + (end - numbers))),
                     1);
    assert_int_equal(PKCS8_pkey_set0(info, OBJ_nid2obj(NID_dsa), 0, V_ASN1_SEQUENCE, parameters,
                                     private, length),
                     1);
    file = fopen(path_of(TWO ".pem"), "a");
    assert_int_equal(PEM_write_PKCS8_PRIV_KEY_INFO(file, info), 1);
    assert_int_equal(fclose(file), 0);
    PKCS8_PRIV_KEY_INFO_free(info);
}

TEST(unusable_file_is_set_aside)
{
    static const struct {
        void (*write)(void);
        const char *reason;
    } cases[] = {
        {write_another_name, "the certificate is not for " TWO},
        {write_another_key, "the key does not belong to"},
        {write_no_key, "contains no private key"},
        {write_nothing, "contains no certificate"},
        {write_p384, "its key is neither P-256 nor RSA of 2048 to 4096 bits"},
        {write_rsa_1024, "its key is neither"},
        {write_rsa_16384, "its key is neither"},
        {write_ed25519, "its key is neither"},
        {write_explicit_parameters, "its key is neither"},
        {write_huge_dsa, "takes more than "}, /* of CPU time, or on a busy machine of time */
        {write_large_file, "File too large"},
        {write_link, "Too many levels of symbolic links"},
        {write_relative_link, "Too many levels of symbolic links"},
        {write_hard_link, "a hard link"},
        {write_pipe, "not a regular file"},
        {write_directory, "not a regular file"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        cases[i].write();
        assert_int_equal(find(), 0);
        assert_int_equal(event_count(), i + 1);
        if (strstr(last_event(), cases[i].reason) == NULL ||
            strstr(last_event(), ": serving a self-signed certificate; the file is now called " TWO
                                 ".pem.unusable") == NULL)
            fail_msg("case %zu: %s", i, last_event());
        assert_int_equal(
            strncmp(last_event(), path_of(TWO ".pem: "), strlen(path_of(TWO ".pem: "))), 0);
        expect_certificate(0, ONE);
        expect_certificate(1, TWO);
        assert_false(exists(TWO ".pem"));
        assert_true(exists(TWO ".pem.unusable"));
    }
    assert_int_equal(unlink(target_path()), 0); /* still there */
}

/* As a device, this takes root. */
TEST(file_of_another_user_is_set_aside)
{
    if (geteuid() != 0)
        skip();
    obtain(TWO, TWO);
    assert_int_equal(chown(path_of(TWO ".pem"), 65534, (gid_t)-1), 0);
    assert_int_equal(find(), 0);
    assert_non_null(strstr(last_event(), "it belongs to another user: serving a self-signed"));
    assert_int_equal(mknod(path_of(TWO ".pem"), S_IFCHR | 0600, makedev(1, 3)), 0);
    assert_int_equal(find(), 0);
    assert_non_null(strstr(last_event(), "not a regular file: serving a self-signed"));
    assert_false(exists(TWO ".pem"));
    expect_certificate(1, TWO);
}

/* All else starts, and the process can write the file when somebody has removed the directory. */
TEST(file_that_cannot_be_renamed_is_reported)
{
    assert_int_equal(mkdir(path_of(TWO ".pem.unusable"), 0700), 0);
    put(path_of(TWO ".pem.unusable/file"));
    write_nothing();
    assert_int_equal(find(), 0);
    assert_non_null(strstr(last_event(), "the file is not renamed: Directory not empty"));
    assert_true(exists(TWO ".pem"));
    expect_certificate(1, TWO);
}

TEST(no_name_needs_no_certificate)
{
    struct message_certificates message;

    config.acme_names.count = 0;
    assert_int_equal(find(), 0);
    certificate_set_file(set, &message);
    assert_int_equal(message.count, 0);
}

static int prepare_sandbox(void **state)
{
    (void)state;
    return sandbox_prepare();
}

const struct test_fixture test_group_fixture = {prepare_sandbox, NULL};
