/* Reading files with certificates and keys: their largest size, and that no private key stays. */
#include "daemon/tls/pem_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 1024 * 1024 };

static const char path[] = "test_pem_file.pem";

/* A file with TEXT, and with 'x' up to SIZE bytes. */
static void write_file(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    for (size_t length = strlen(text); length < size; length++)
        fputc('x', file);
    assert_int_equal(fclose(file), 0);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* AddressSanitizer reports a buffer without room for the NUL. */
static void largest_file_is_read_whole(void **state)
{
    char why[256], *text;

    (void)state;
    write_file("", LARGEST);
    text = pem_file_read_public(path, why, sizeof(why));
    assert_non_null(text);
    assert_int_equal(strlen(text), LARGEST);
    free(text);
}

static void larger_file_is_rejected(void **state)
{
    char why[256];

    (void)state;
    write_file("", LARGEST + 1);
    assert_null(pem_file_read_public(path, why, sizeof(why)));
    assert_string_equal(why, "test_pem_file.pem: File too large");
}

static void private_keys_become_spaces(void **state)
{
    char why[256], *text;

    (void)state;
    write_file("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
               "-----BEGIN EC PRIVATE KEY-----\nBB\n-----END EC PRIVATE KEY-----\n"
               "-----BEGIN CERTIFICATE-----\nCC\n-----END CERTIFICATE-----\n"
               "-----BEGIN PRIVATE KEY-----\nDD\n",
               0);
    text = pem_file_read_public(path, why, sizeof(why));
    assert_non_null(text);
    assert_non_null(strstr(text, "\nAA\n"));
    assert_non_null(strstr(text, "\nCC\n"));
    assert_null(strstr(text, "BB"));
    assert_null(strstr(text, "DD"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(largest_file_is_read_whole, remove_file),
        cmocka_unit_test_teardown(larger_file_is_rejected, remove_file),
        cmocka_unit_test_teardown(private_keys_become_spaces, remove_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
