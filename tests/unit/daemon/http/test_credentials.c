/* Authorization: Basic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/http/credentials.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *value, *name, *password; /* name NULL: no credentials */
} cases[] = {
    {"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Aladdin", "open sesame"}, /* RFC 7617 section 2 */
    {"Basic dGVzdDoxMjPCow==", "test", "123\xc2\xa3"},                /* section 2.1 */
    {"bAsIc   dGVzdDoxMjPCow==", "test", "123\xc2\xa3"},
    {"Basic YTpiOmM=", "a", "b:c"},
    {"Basic Og==", "", ""},
    {"Basic OmI=", "", "b"},
    {"Basic YTo=", "a", ""},
    {"Basic YTpiYw==", "a", "bc"},
    {"Basic YTpi", "a", "b"},
    {"", NULL, NULL},
    {"Basic", NULL, NULL},
    {"Basic ", NULL, NULL},
    {"Basic =", NULL, NULL},
    {"Basic ====", NULL, NULL},
    {"Basic Y===", NULL, NULL},
    {"Basic YTpiYw=", NULL, NULL},
    {"Basic YTpiYw", NULL, NULL},
    {"Basic YTpiYx==", NULL, NULL}, /* bits after the last byte */
    {"Basic YT=pi", NULL, NULL},
    {"Basic YT pi", NULL, NULL},
    {"Basic YTpi YTpi", NULL, NULL},
    {"Basic YTp_", NULL, NULL},
    {"Basic YWJj", NULL, NULL},     /* abc: no colon */
    {"Basic YQo6Yg==", NULL, NULL}, /* a line feed */
    {"Basic YTpiAA==", NULL, NULL}, /* NUL */
    {"Basic YTp/", NULL, NULL},     /* DEL */
    {"Bearer YTpi", NULL, NULL},
    {"BasicYTpi", NULL, NULL},
};

static void credentials_are_read_or_refused(void **state)
{
    struct credentials read;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span value = {cases[i].value, strlen(cases[i].value)};
        bool good = credentials_read(value, &read);

        if (good != (cases[i].name != NULL) ||
            (good && (!span_is(read.name, (struct span){cases[i].name, strlen(cases[i].name)}) ||
                      !span_is(read.password,
                               (struct span){cases[i].password, strlen(cases[i].password)}))))
            fail_msg("%s", cases[i].value);
    }
}

/* Also in memory that ends with the value: a sanitizer finds bytes read after it. */
static void every_length_up_to_the_limit_is_read(void **state)
{
    char text[CREDENTIALS_MAX + 8], value[sizeof("Basic ") + 2 * sizeof(text)] = "Basic ";
    struct credentials read;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[0] = ':';
    for (int length = 1; length < (int)sizeof(text); length++) {
        int used = 6 + EVP_EncodeBlock((unsigned char *)value + 6, (unsigned char *)text, length);
        char *copy = malloc((size_t)used);

        assert_non_null(copy);
        memcpy(copy, value, (size_t)used);
        assert_int_equal(credentials_read((struct span){copy, (size_t)used}, &read),
                         length <= CREDENTIALS_MAX);
        if (length <= CREDENTIALS_MAX)
            assert_int_equal(read.password.length, length - 1);
        for (size_t part = 0; part < (size_t)used; part++)
            credentials_read((struct span){copy + (size_t)used - part, part}, &read);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credentials_are_read_or_refused),
        cmocka_unit_test(every_length_up_to_the_limit_is_read),
    };

    return cmocka_run_group_tests_name("daemon_credentials", tests, NULL, NULL);
}
