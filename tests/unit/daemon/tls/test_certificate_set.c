/*
 * The certificates that the master holds: files of the administrator, and what a confined child that
 * was taken over may leave instead of a certificate.
 */
#include "common/macros.h"
#include "daemon/base/messages.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/checked_certificate.h"
#include "daemon/tls/managed.h"
#include "tests/test.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "one.example"

enum { LONG_CHAIN_BYTES = 1000 };

static char why[2048];
static int descriptors_before;
static struct self_signed files;
static char *certificates[] = {files.certificate}, *keys[] = {files.key}, *names[] = {NAME};
static struct config config;

/* Changes what the child stores. */
static void (*alter)(struct checked_certificate *head);

size_t __wrap_fwrite(const void *bytes, size_t size, size_t count, FILE *file)
{
    struct checked_certificate head;

    if (alter == NULL || size != sizeof(head))
        return __real_fwrite(bytes, size, count, file);
    memcpy(&head, bytes, sizeof(head));
    alter(&head);
    return __real_fwrite(&head, size, count, file);
}

static int set_up(void **state)
{
    (void)state;
    events_forget();
    own_directory_make();
    alter = NULL;
    config = (struct config){.tls_certificate = {certificates, 1},
                             .tls_key = {keys, 1},
                             .server_user = (char *)"",
                             .server_group = (char *)""};
    descriptors_before = open_descriptors();
    return self_signed_write(&files, own_directory, NAME, why, sizeof(why));
}

/* No function leaves a descriptor or a child. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(open_descriptors(), descriptors_before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {set_up, tear_down};

static struct certificate_set *load(void)
{
    return certificate_set_load(&config, -1, why, sizeof(why));
}

/* The same certificate, as one of [acme]. The file of it is NAME.pem, which has its key, too. */
static struct certificate_set *load_managed(void)
{
    config.tls_certificate.count = config.tls_key.count = 0;
    config.acme_names = (struct config_words){names, 1};
    config.acme_state_dir = own_directory;
    return certificate_set_load(&config, open(own_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                why, sizeof(why));
}

static void append_to_certificate(const char *path)
{
    char text[2048];
    FILE *from = fopen(path, "r"), *to = fopen(files.certificate, "a");
    size_t length = fread(text, 1, sizeof(text), from);

    assert_int_equal(fwrite(text, 1, length, to), length);
    fclose(from);
    fclose(to);
}

static void count_one(void *owner, const struct tls_description *description)
{
    assert_string_equal(description->name[0], NAME);
    assert_int_equal(description->name_count, 1);
    assert_string_equal(description->issuer, "/CN=" NAME);
    assert_true(description->not_before_s < description->not_after_s);
    ++*(int *)owner;
}

TEST(certificate_is_described)
{
    struct certificate_set *set = load();
    int described = 0;

    assert_non_null(set);
    certificate_set_describe(set, count_one, &described);
    assert_int_equal(described, 1);
    assert_int_equal(event_count(), 0);
    certificate_set_free(set);
}

/* An administrator's file that is too large, missing or a directory, and a certificate without a key. */
TEST(unusable_file_is_reported)
{
    static char missing[] = "/nonexistent", root[] = "/";
    char expected[PATH_MAX + 128];

    keys[0] = missing;
    assert_null(load());
    assert_string_equal(why, "[tls] certificate: /nonexistent: No such file or directory");
    keys[0] = root;
    assert_null(load());
    assert_string_equal(why, "[tls] certificate: /: not a regular file");
    keys[0] = files.certificate;
    assert_null(load());
    snprintf(expected, sizeof(expected),
             "[tls] certificate: %s: contains no private key in PEM format", files.certificate);
    assert_string_equal(why, expected);
    keys[0] = files.key;
    assert_int_equal(truncate(files.certificate, CERTIFICATE_FILE_BYTES_MAX + 1), 0);
    assert_null(load());
    snprintf(expected, sizeof(expected), "[tls] certificate: %s: %s", files.certificate,
             strerror(EFBIG));
    assert_string_equal(why, expected);
}

/* Lines of spaces before the certificate. */
TEST(largest_file_is_read_whole)
{
    char text[8192];
    FILE *file = fopen(files.certificate, "r");
    size_t length = fread(text, 1, sizeof(text), file);
    struct certificate_set *set;

    fclose(file);
    file = fopen(files.certificate, "w");
    for (size_t i = length; i < CERTIFICATE_FILE_BYTES_MAX; i++)
        fputc((CERTIFICATE_FILE_BYTES_MAX - i) % 64 == 1 ? '\n' : ' ', file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    set = load();
    assert_non_null(set);
    certificate_set_free(set);
}

/* Without blocking, as for renewals. */
TEST(loading_can_be_continued)
{
    struct certificate_loading *loading = certificate_loading_new(&config, -1, why, sizeof(why));
    struct certificate_set *set;
    enum certificate_progress progress;

    assert_non_null(loading);
    while ((progress = certificate_loading_continue(loading, false, why, sizeof(why))) ==
           CERTIFICATES_LOADING) {
        struct pollfd readable = {.fd = certificate_loading_descriptor(loading), .events = POLLIN};

        assert_int_equal(poll(&readable, 1, -1), 1);
    }
    assert_int_equal(progress, CERTIFICATES_LOADED);
    set = certificate_loading_take(loading);
    certificate_loading_free(loading);
    assert_int_equal(certificate_set_hold(set) == set, 1);
    certificate_set_free(set);
    certificate_set_free(set);
}

TEST(loading_can_be_abandoned)
{
    struct certificate_loading *loading = certificate_loading_new(&config, -1, why, sizeof(why));

    assert_non_null(loading);
    assert_false(certificate_loading_reaped(loading, getpid(), 0));
    assert_false(certificate_loading_reaped(NULL, getpid(), 0));
    certificate_loading_free(loading);
}

/* --- What a child that was taken over may leave --- */

static void claim_more_chain(struct checked_certificate *head)
{
    head->chain_bytes++;
}

static void claim_most(struct checked_certificate *head)
{
    head->chain_bytes = head->key_bytes = head->names_bytes = UINT32_MAX;
}

static void claim_less(struct checked_certificate *head)
{
    head->names_bytes--;
}

static void move_bounds(struct checked_certificate *head)
{
    head->chain_bytes--;
    head->key_bytes++;
}

static void merge_names(struct checked_certificate *head)
{
    head->key_bytes -= 3;
    head->names_bytes += 3;
}

static void change_texts_and_times(struct checked_certificate *head)
{
    memset(head->issuer, 'x', sizeof(head->issuer));
    head->not_before_s = INT64_MIN;
    head->not_after_s = INT64_MAX;
    head->is_authority = UINT32_MAX;
}

/* Reads every byte of the texts; AddressSanitizer and UndefinedBehaviorSanitizer watch. */
static void read_all(void *owner, const struct tls_description *description)
{
    size_t *bytes = owner;

    *bytes += strlen(description->issuer);
    for (size_t i = 0; i < description->name_count; i++)
        *bytes += strlen(description->name[i]);
    assert_true(description->not_before_s >= 0 && description->not_after_s >= 0);
}

TEST(forged_result_is_refused_or_harmless)
{
    static const struct {
        void (*alter)(struct checked_certificate *head);
        bool refused;
    } cases[] = {{claim_more_chain, true}, {claim_most, true},   {claim_less, true},
                 {move_bounds, false},     {merge_names, false}, {change_texts_and_times, false}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct certificate_set *set;
        size_t bytes = 0;

        alter = cases[i].alter;
        set = load();
        if ((set == NULL) != cases[i].refused)
            fail_msg("case %zu", i);
        if (set == NULL) {
            assert_non_null(strstr(why, "the process that reads it left no certificate"));
            continue;
        }
        certificate_set_describe(set, read_all, &bytes);
        certificate_set_report_expired(set, INT64_MAX);
        certificate_set_report_expired(set, 0);
        certificate_set_free(set);
    }
}

/* Only in the child that reads the file, whose chain is longer than that of a new certificate. */
static void alter_obtained(struct checked_certificate *head)
{
    if (head->chain_bytes > LONG_CHAIN_BYTES)
        claim_most(head);
}

TEST(forged_result_of_an_obtained_one_sets_it_aside)
{
    struct certificate_set *set;
    int described = 0;

    append_to_certificate(files.key);
    append_to_certificate(files.certificate);
    append_to_certificate(files.certificate);
    alter = alter_obtained;
    set = load_managed();
    assert_non_null(set);
    certificate_set_describe(set, count_one, &described);
    assert_int_equal(described, 1);
    assert_non_null(strstr(last_event(), "left no certificate: serving a self-signed certificate; "
                                         "the file is now called " NAME ".pem.unusable"));
    certificate_set_free(set);
}

static int prepare_sandbox(void **state)
{
    (void)state;
    return sandbox_prepare();
}

const struct test_fixture test_group_fixture = {prepare_sandbox, NULL};
