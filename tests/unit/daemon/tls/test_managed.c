/* The certificates of [acme] in a temporary state directory, and what replaces those that are missing or not usable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "common/tables.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/self_signed.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONE "one.example"
#define TWO "two.example"

enum { TEXT = 4096 };

static char logged[TEXT], why[TEXT];
static int descriptors_before, logs;
static struct config config;
static struct managed_certificates managed;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): name of the linker */
PRINTF_LIKE(2, 3) void __wrap_event_log(enum level level, const char *format, ...);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

void __wrap_event_log(enum level level, const char *format, ...)
{
    va_list arguments;

    assert_int_equal(level, LEVEL_ERROR);
    va_start(arguments, format);
    vsnprintf(logged, sizeof(logged), format, arguments);
    va_end(arguments);
    logs++;
}

static int set_up(void **state)
{
    static char *names[] = {ONE, TWO};

    (void)state;
    own_directory_make();
    config.acme_state_dir = own_directory;
    config.acme_names = (struct config_names){names, ARRAY_LENGTH(names)};
    logs = 0;
    descriptors_before = open_descriptors();
    return 0;
}

/* No function leaves a descriptor open. */
static int tear_down(void **state)
{
    (void)state;
    managed_certificates_free(&managed);
    assert_null(managed.certificate.item);
    assert_int_equal(managed.key.count, 0);
    assert_int_equal(open_descriptors(), descriptors_before);
    return own_directory_remove();
}

static int find(void)
{
    managed_certificates_free(&managed);
    return managed_certificates_find(&config, &managed, why, sizeof(why));
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
    struct self_signed files;
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

static void assert_self_signed(size_t i, const char *certificate, const char *key)
{
    assert_string_equal(managed.certificate.item[i], path_of(certificate));
    assert_string_equal(managed.key.item[i], path_of(key));
}

static bool exists(const char *file)
{
    return access(path_of(file), F_OK) == 0;
}

enum { OLD_S = 1000 };

static void make_old(const char *file)
{
    const struct timespec old[] = {{.tv_sec = OLD_S}, {.tv_sec = OLD_S}};

    assert_int_equal(utimensat(AT_FDCWD, path_of(file), old, 0), 0);
}

static bool is_old(const char *file)
{
    struct stat status;

    return stat(path_of(file), &status) == 0 && status.st_mtime == OLD_S;
}

static void missing_certificates_are_self_signed(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(find(), 0);
    assert_int_equal(managed.certificate.count, 2);
    assert_int_equal(managed.key.count, 2);
    assert_self_signed(0, "self-signed/" ONE ".pem", "self-signed/" ONE ".key");
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
    assert_int_equal(stat(path_of("self-signed"), &status), 0);
    assert_int_equal(status.st_mode, S_IFDIR | 0700);
    make_old("self-signed/" ONE ".pem");
    make_old("self-signed/" ONE ".key");
    assert_int_equal(find(), 0); /* they stay */
    assert_true(is_old("self-signed/" ONE ".pem"));
    assert_true(is_old("self-signed/" ONE ".key"));
    assert_int_equal(logs, 0);
}

static void obtained_certificate_is_used(void **state)
{
    (void)state;
    obtain(TWO, TWO);
    assert_int_equal(find(), 0);
    assert_self_signed(0, "self-signed/" ONE ".pem", "self-signed/" ONE ".key");
    assert_self_signed(1, TWO ".pem", TWO ".pem");
    assert_false(exists("self-signed/" TWO ".pem"));
    assert_int_equal(logs, 0);
}

static void self_signed_certificate_is_served_for_an_unusable_one(void **state)
{
    static const char suffix[] = ": serving a self-signed certificate";
    char expected[TEXT];
    FILE *file;

    (void)state;
    obtain(ONE, TWO);
    assert_int_equal(find(), 0);
    snprintf(expected, sizeof(expected), "%s: the certificate is not for " TWO "%s",
             path_of(TWO ".pem"), suffix);
    assert_int_equal(logs, 1);
    assert_string_equal(logged, expected);
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
    file = fopen(path_of(TWO ".pem"), "w");
    append(path_of("self-signed/" TWO ".pem"), file); /* without the key */
    fclose(file);
    assert_int_equal(find(), 0);
    assert_int_equal(logs, 2);
    assert_non_null(strstr(logged, "contains no private key"));
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
    assert_int_equal(truncate(path_of(TWO ".pem"), 0), 0);
    assert_int_equal(find(), 0);
    assert_int_equal(logs, 3);
    assert_self_signed(1, "self-signed/" TWO ".pem", "self-signed/" TWO ".key");
}

/* A server was killed when it wrote them. */
static void incomplete_self_signed_files_are_made_again(void **state)
{
    static const char *const parts[] = {"self-signed/" ONE ".pem", "self-signed/" ONE ".key"};

    (void)state;
    assert_int_equal(find(), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        struct stat status;

        assert_int_equal(truncate(path_of(parts[i]), 0), 0);
        assert_int_equal(find(), 0);
        assert_int_equal(stat(path_of(parts[i]), &status), 0);
        assert_true(status.st_size > 0);
        assert_int_equal(unlink(path_of(parts[i])), 0);
        assert_int_equal(find(), 0);
        assert_true(exists(parts[i]));
    }
}

static void missing_directory_is_reported(void **state)
{
    char expected[TEXT];
    int fd;

    (void)state;
    fd = open(path_of("self-signed"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(find(), -1);
    assert_non_null(strstr(why, strerror(ENOTDIR)));
    config.acme_state_dir = "/nowhere/at/all";
    assert_int_equal(find(), -1);
    snprintf(expected, sizeof(expected), "/nowhere/at/all/self-signed: %s", strerror(ENOENT));
    assert_string_equal(why, expected);
    assert_int_equal(managed.certificate.count, 0);
}

static void no_name_needs_no_certificate(void **state)
{
    (void)state;
    config.acme_names.count = 0;
    assert_int_equal(find(), 0);
    assert_int_equal(managed.certificate.count, 0);
    assert_false(exists("self-signed"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(missing_certificates_are_self_signed),
        TEST(obtained_certificate_is_used),
        TEST(self_signed_certificate_is_served_for_an_unusable_one),
        TEST(incomplete_self_signed_files_are_made_again),
        TEST(missing_directory_is_reported),
        TEST(no_name_needs_no_certificate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
