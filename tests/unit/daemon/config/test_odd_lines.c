/*
 * The same odd lines in each section: each loads as the plain line does, or is an error. None is
 * read as something else.
 */
#include "common/macros.h"
#include "daemon/config/config.h"
#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key of each section, and a value. */
static const struct section_sample {
    const char *section, *key, *value;
    bool semicolons; /* a ';' of the value may be meant */
} samples[] = {
    {"server", "index", "a.html", false},
    {"workers", "processes", "3", false},
    {"connections", "keepalive", "off", false},
    {"tls", "hsts", "max-age=1", true},
    {"http2", "enabled", "off", false},
    {"limits", "request_line", "1K", false},
    {"cache", "policy", "lru", false},
    {"files", "error_pages", "/e", false},
    {"log", "access", "x.log", false},
    {"headers", "X-A", "b", true},
    {"headers /p", "X-A", "b", true},
    {"headers host h.test *.css", "X-A", "b", true},
    {"redirect", "/old", "301 /new", false},
    {"redirect host h.test", "http /old/*", "308 https:", false},
    {"access", "deny", "192.0.2.1", false},
    {"access /p", "allow", "192.0.2.1 ::1", false},
    {"cors /p", "origins", "https://a.test", false},
    {"ratelimit", "exempt", "192.0.2.1", false},
    {"host h.test", "index", "b.html", false},
    {"proxy", "trusted", "192.0.2.1", false},
    {"control", "mode", "0640", false},
    {"metrics", "hosts", "m.test", false},
    {"acme", "key", "rsa2048", false},
    {"arithmetic", "prefix", "/sums", false},
    {"mime", "odd", "text/odd", true},
};

enum outcome_of_shape {
    SAME,     /* as the plain line */
    BAD,      /* an error */
    COMMENTS, /* SAME, but BAD in a section where a ';' may be meant */
};

/* S, K and V stand for section, key and value. */
static const struct shape {
    const char *text;
    enum outcome_of_shape outcome;
} shapes[] = {
    {"[S]\nK = V", SAME},
    {"[S]\nK = V\r\n", SAME},
    {"\xef\xbb\xbf[S]\nK = V\n", SAME},
    {"[S]\n\n\n  \nK = V\n \t\n", SAME},
    {"[S]\nK=V\n", SAME},
    {"[S]\nK =V\n", SAME},
    {"[S]\nK= V\n", SAME},
    {"[S]\n\tK\t=\tV\t\n", SAME},
    {"[S]\n    K = V\n", SAME},
    {"  [S]\n  K = V\n", SAME},
    {"\t[S]\t\nK = V\n", SAME},
    {"[ S ]\nK = V\n", SAME},
    {"[S ]\nK = V   \n", SAME},
    {"[S] ; c\nK = V\n", SAME},
    {"[S] # c\nK = V\n", SAME},
    {"[S];c\nK = V\n", SAME},
    {"; c\n[S]\n# c\nK = V\n", SAME},
    {"  ; c\n[S]\n  # c\n  K = V\n  ; K = V\n", SAME},
    {"[S]\n;K = V\nK = V\n#K = V\n", SAME},
    {"[S]\n[S]\nK = V\n[S]\n", SAME},
    {"[workers]\n[S]\nK = V\n[workers]\n", SAME},
    {"[S]\nK = V ; c\n", COMMENTS},
    {"[S]\nK = V\t; c\n", COMMENTS},
    {"[S]\nK = V ;\n", COMMENTS},
    {"[S]\nK = V ; c ; d # e\n", COMMENTS},
    {"[S]\nK = V # c\n", BAD},
    {"[S]\nK = # V\n", BAD},
    {"[S]\nK: V\n", BAD},
    {"[S]\nK V\n", BAD},
    {"[S]\nK\n", BAD},
    {"[S]\n= V\n", BAD},
    {"[S]\nK = V\n  and more\n", BAD},
    {"[S]\n  K = V\n  K = V\n", BAD},
    {"[S]\n\"K\" \"= V\n", BAD},
    {"[S]\nKK K = V\n", BAD},
    {"[S\nK = V\n", BAD},
    {"]\n[S]\nK = V\n", BAD},
    {"[[S]]\nK = V\n", BAD},
    {"[S] K = V\n", BAD},
    {"[S]\nK = V\x01\n", BAD},
    {"[S]\nK = \xff V\n", BAD},
    {"[S]\rK = V\n", BAD},
    {"K = V\n[S]\nK = V\n", BAD},
};

/* FORM with the words of SAMPLE, below a [host] that some sections need. */
static void write_shape(char *to, const char *form, const struct section_sample *sample)
{
    char *at = to;

    for (; *form != '\0'; form++)
        switch (*form) {
        case 'S':
            at = stpcpy(at, sample->section);
            break;
        case 'K':
            at = stpcpy(at, sample->key);
            break;
        case 'V':
            at = stpcpy(at, sample->value);
            break;
        default:
            *at++ = *form;
        }
    strcpy(at, "\n[host h.test]\nroot = /\n");
}

static void expect_shape(const struct shape *shape, const struct section_sample *sample,
                         const char *plain)
{
    bool bad = shape->outcome == BAD || (shape->outcome == COMMENTS && sample->semicolons);
    struct loaded loaded;
    char text[256], *printed;

    write_shape(text, shape->text, sample);
    load(&loaded, text, NULL);
    if (bad != (loaded.errors > 0))
        fail_msg("%s\n%s %s", text, bad ? "is no error" : "is an error:", loaded.messages);
    if (!bad) {
        printed = print_config(&loaded.config, false);
        assert_string_equal(printed, plain);
        free(printed);
    }
    release(&loaded);
}

TEST(odd_line_is_read_as_it_looks_or_is_an_error)
{
    assert_true(ARRAY_LENGTH(shapes) >= 40);
    for (size_t i = 0; i < ARRAY_LENGTH(samples); i++) {
        struct loaded loaded;
        char text[256], *plain;

        write_shape(text, shapes[0].text, &samples[i]);
        load(&loaded, text, NULL);
        assert_string_equal(loaded.messages, "");
        plain = print_config(&loaded.config, false);
        assert_non_null(strstr(plain, samples[i].value));
        for (size_t k = 0; k < ARRAY_LENGTH(shapes); k++)
            expect_shape(&shapes[k], &samples[i], plain);
        free(plain);
        release(&loaded);
    }
}

TEST(second_key_is_never_part_of_the_first_value)
{
    struct loaded loaded;

    load(&loaded, "[headers]\n X-Frame-Options = DENY\n  X-Content-Type-Options = nosniff\n", NULL);
    assert_string_equal(loaded.messages, "");
    assert_int_equal(loaded.config.header_count, 2);
    assert_string_equal(loaded.config.headers[0].value, "DENY");
    assert_string_equal(loaded.config.headers[1].value, "nosniff");
    release(&loaded);
}

static bool loads_without_errors(const char *line)
{
    struct loaded loaded;
    char text[256];
    bool good;

    snprintf(text, sizeof(text), "[headers]\n%s\n", line);
    load(&loaded, text, NULL);
    good = loaded.errors == 0;
    release(&loaded);
    return good;
}

TEST(value_that_no_client_understands_is_an_error)
{
    static const char *const good[] = {
        "Cache-Control = public, max-age=60, private=\"a, b\", new=1",
        "Cache-Control = no-cache,",
        "Cache-Control =",
        "Surrogate-Control = max-age=60+30, content=\"ESI/1.0\"",
        "Content-Security-Policy = default-src 'self' self.test; sandbox; img-src * data:;",
        "Permissions-Policy = camera=(), fullscreen=(self \"https://a.test\")",
        "Strict-Transport-Security = includeSubDomains; max-age=1",
        "Strict-Transport-Security = max-age = \"31536000\"; includeSubDomains",
        "Expires = 0",
        "Expires = Thu, 01 Jan 1970 00:00:00 GMT",
        "Vary = Accept-Encoding, Origin",
        "Access-Control-Allow-Origin = *",
        "Cross-Origin-Opener-Policy = same-origin; report-to=\"a\"",
        "Referrer-Policy = no-referrer, strict-origin",
        "Clear-Site-Data = \"cache\"",
        "Report-To = {\"a\":{\"b\":1}}",
        "X-A = $1 {b}",
    };
    static const char *const bad[] = {
        "Cache-Control = \"no-cache\"",
        "Cache-Control = no_cache",
        "Cache-Control = max-age",
        "Cache-Control = max-age=1h",
        "Cache-Control = max-age = 60",
        "Cache-Control = max-age:60",
        "Cache-Control = public; max-age=60",
        "CDN-Cache-Control = max-age 60",
        "Content-Security-Policy = \"default-src 'self'\"",
        "Content-Security-Policy = default-src 'self' unsafe-inline",
        "Content-Security-Policy = img-src *; default-src: 'self'",
        "Content-Security-Policy-Report-Only = default-src='self'",
        "Permissions-Policy = camera 'none'",
        "Strict-Transport-Security = max-age 60",
        "Strict-Transport-Security = \"max-age=60\"",
        "Expires = 1h",
        "Expires = 3600",
        "Vary = Accept-Encoding Origin",
        "Access-Control-Allow-Origin = https://a.test, https://b.test",
        "X-Frame-Options = \"DENY\"",
        "X-A = ${VALUE}",
        "X-A = {{ value }}",
    };

    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        if (!loads_without_errors(good[i]))
            fail_msg("an error: %s", good[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        if (loads_without_errors(bad[i]))
            fail_msg("no error: %s", bad[i]);
}
