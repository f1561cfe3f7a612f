/*
 * The section [acme]: which names get a certificate, by which challenge, and what does not fit
 * together.
 */
#include "common/macros.h"
#include "daemon/config/acme.h"
#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"
#include "tests/unit/wrapped.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OVERRIDES = 12 };

/* 63 characters of a name, and 60 that end it at ACME_NAME_MAX. */
#define DIGITS_63       "012345678901234567890123456789012345678901234567890123456789012"
#define DIGITS_60       "012345678901234567890123456789012345678901234567890123456789"
#define LONGEST_BUT_ONE DIGITS_63 "." DIGITS_63 "." DIGITS_63 "." DIGITS_60

/* Loads a valid section with the overrides after it, up to NULL. */
static void load_changed(struct loaded *loaded, const char *const *changes)
{
    static const char usual[] = "[server]\nlisten = *:80 https://*:443\n"
                                "[acme]\nenabled = on\nagree_to_terms = yes\nstate_dir = /var/s\n";
    const char *overrides[OVERRIDES] = {ROOT};
    size_t count = 1;

    for (; *changes != NULL; changes++) {
        assert_true(count < OVERRIDES);
        overrides[count++] = *changes;
    }
    load_bytes(loaded, usual, strlen(usual), overrides, count);
}

#define load_with(loaded, ...) load_changed(loaded, (const char *const[]){__VA_ARGS__, NULL})

static void expect_names(const struct loaded *loaded, const char *expected)
{
    char text[1024] = "";

    if (loaded->errors != 0)
        fail_msg("%s", loaded->messages);
    for (size_t i = 0; i < loaded->config.acme_names.count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, loaded->config.acme_names.item[i]);
    }
    assert_string_equal(text, expected);
}

TEST(names_that_fit_are_listed_once_in_lower_case)
{
    struct loaded loaded;

    load_with(&loaded, "acme.hosts=www.Example.org b.example.org  WWW.example.ORG");
    expect_names(&loaded, "www.example.org b.example.org");
    release(&loaded);
    load_with(&loaded, "acme.hosts=" LONGEST_BUT_ONE "a");
    expect_names(&loaded, LONGEST_BUT_ONE "a");
    release(&loaded);
}

static const struct {
    const char *change, *expected;
} errors[] = {
    {"acme.agree_to_terms=no", "read https://letsencrypt.org/repository/, then set"},
    {"acme.email=a", "'a' is not an address"},
    {"acme.email=@b", "'@b' is not an address"},
    {"acme.email=a@", "'a@' is not an address"},
    {"acme.email=a b@c", "'a b@c' is not an address"},
    {"acme.directory=http://ca.example.org/",
     "'http://ca.example.org/' is not the URL of an ACME directory"},
    {"acme.directory=test", "'test' is not the URL of an ACME directory"},
    {"acme.directory=https://ca.example.org/a b", "is not the URL of an ACME directory"},
    {"acme.hosts=*.example.org",
     "no certificate for '*.example.org': a wildcard needs a DNS record"},
    {"acme.hosts=www", "no certificate for 'www': a name without a dot is not public"},
    {"acme.hosts=192.0.2.300", "no certificate for '192.0.2.300': it is not an IP address"},
    {"acme.challenge=dns-01", "challenge = dns-01 needs a dns_hook"},
    {"acme.dns_hook=/nowhere/hook", "/nowhere/hook: No such file or directory"},
    {"acme.deploy_hook=/etc", "/etc is not a program"},
    {"acme.deploy_hook=/etc/passwd", "/etc/passwd is not a program"},
    {"acme.eab_kid=k", "eab_key is not set"},
    {"acme.eab_key=aGFsbG8", "eab_kid is not set"},
    {"acme.hosts=a/b.example.org", "'a/b.example.org' is not a host name"},
    {"acme.hosts=" LONGEST_BUT_ONE "aa", "is not a host name"},
    {"acme.hosts=", "[acme] has no name to request a certificate for"},
    {"server.listen=*:80", "[acme] needs an address with https://"},
    {"acme.user=no-such-user", "unknown user 'no-such-user'"},
    {"acme.ca_file=/nowhere/ca", "/nowhere/ca: No such file or directory"},
};

TEST(what_does_not_fit_is_an_error)
{
    for (size_t i = 0; i < ARRAY_LENGTH(errors); i++) {
        struct loaded loaded;

        load_with(&loaded, "acme.hosts=www.example.org", errors[i].change);
        if (loaded.errors == 0 || strstr(loaded.messages, errors[i].expected) == NULL)
            fail_msg("%s gave: %s", errors[i].change, loaded.messages);
        assert_int_equal(loaded.errors, 1);
        release(&loaded);
    }
}

TEST(nothing_is_checked_unless_enabled)
{
    for (size_t i = 0; i < ARRAY_LENGTH(errors); i++) {
        struct loaded loaded;

        load_with(&loaded, "acme.enabled=off", "server.listen=*:80", errors[i].change);
        expect_names(&loaded, "");
        release(&loaded);
    }
}

TEST(terms_of_another_authority_are_in_its_directory)
{
    struct loaded loaded;

    load_with(&loaded, "acme.hosts=www.example.org", "acme.agree_to_terms=no",
              "acme.directory=HTTPS://ca.example.org/d");
    assert_int_equal(loaded.errors, 1);
    assert_non_null(strstr(loaded.messages, "meta.termsOfService"));
    release(&loaded);
}

TEST(number_of_names_is_limited)
{
    static char hosts[16 * (ACME_NAMES_MAX + 1)];

    for (int more = 0; more < 2; more++) {
        struct loaded loaded;
        int length = snprintf(hosts, sizeof(hosts), "acme.hosts=");

        for (int i = 0; i < ACME_NAMES_MAX + more; i++)
            length += snprintf(hosts + length, sizeof(hosts) - (size_t)length, " h%d.test.org", i);
        load_with(&loaded, hosts);
        assert_int_equal(loaded.errors, more);
        if (more > 0)
            assert_non_null(strstr(loaded.messages, "[acme] has 257 names (at most 256)"));
        else
            assert_int_equal(loaded.config.acme_names.count, ACME_NAMES_MAX);
        release(&loaded);
    }
}

TEST(challenge_depends_on_the_addresses)
{
    static const struct {
        const char *listen, *challenge, *expected;
    } cases[] = {
        {"*:80 https://*:443", "auto", "http-01 tls-alpn-01 "},
        {"https://*:443", "auto", "tls-alpn-01 "},
        {"https://*:443 *:80", "http-01", "http-01 "},
        {"*:80 https://*:443", "tls-alpn-01", "tls-alpn-01 "},
        {"https://*:443", "http-01", NULL},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct loaded loaded;
        enum challenge_kind kinds[CHALLENGE_KINDS];
        char listen[64], challenge[64], text[64] = "";
        size_t count;

        snprintf(listen, sizeof(listen), "server.listen=%s", cases[i].listen);
        snprintf(challenge, sizeof(challenge), "acme.challenge=%s", cases[i].challenge);
        load_with(&loaded, "acme.hosts=www.example.org", listen, challenge);
        if (cases[i].expected == NULL) {
            assert_non_null(strstr(loaded.messages, "the authority connects to port 80"));
            release(&loaded);
            continue;
        }
        assert_int_equal(loaded.errors, 0);
        count = config_acme_challenges(&loaded.config, kinds);
        for (size_t k = 0; k < count; k++) {
            strcat(text, config_acme_challenge_name(kinds[k]));
            strcat(text, " ");
        }
        assert_string_equal(text, cases[i].expected);
        release(&loaded);
    }
}

TEST(words_name_the_directories_of_lets_encrypt)
{
    static const struct {
        const char *change, *expected;
    } cases[] = {
        {"acme.directory=production", "https://acme-v02.api.letsencrypt.org/directory"},
        {"acme.directory=staging", "https://acme-staging-v02.api.letsencrypt.org/directory"},
        {"acme.directory=https://ca.example.org/d", "https://ca.example.org/d"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct loaded loaded;

        load_with(&loaded, "acme.hosts=www.example.org", cases[i].change);
        assert_int_equal(loaded.errors, 0);
        assert_string_equal(config_acme_directory(&loaded.config), cases[i].expected);
        release(&loaded);
    }
}

static uid_t user; /* who runs the server */

uid_t __wrap_geteuid(void)
{
    return user;
}

static bool has_own_user; /* webserverd-acme, in the user database */

struct passwd *__wrap_getpwnam(const char *name)
{
    if (strcmp(name, "webserverd-acme") == 0)
        return has_own_user ? __real_getpwnam("nobody") : NULL;
    return __real_getpwnam(name);
}

static void set_variable(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

TEST(state_directory_depends_on_service_and_user)
{
    static const struct {
        const char *made, *state, *home;
        uid_t user;
        const char *expected; /* NULL: none */
    } cases[] = {
        {"/var/lib/a", "/s", "/h", 0, "/var/lib/a/acme"},
        {"/var/lib/a:/var/lib/b", NULL, NULL, 1000, "/var/lib/a/acme"},
        {"a", "/s", "/h", 0, "/var/lib/webserverd/acme"},
        {NULL, "/s", "/h", 1000, "/s/webserverd/acme"},
        {NULL, "s", "/h", 1000, "/h/.local/state/webserverd/acme"},
        {NULL, NULL, "/h", 1000, "/h/.local/state/webserverd/acme"},
        {NULL, NULL, "h", 1000, NULL},
        {NULL, NULL, NULL, 1000, NULL},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct loaded loaded;

        set_variable("STATE_DIRECTORY", cases[i].made);
        set_variable("XDG_STATE_HOME", cases[i].state);
        set_variable("HOME", cases[i].home);
        user = cases[i].user;
        load_with(&loaded, "acme.hosts=www.example.org",
                  "acme.state_dir=", "server.run_dir=/run/webserverd");
        if (cases[i].expected != NULL) {
            assert_int_equal(loaded.errors, 0);
            assert_string_equal(loaded.config.acme_state_dir, cases[i].expected);
        } else {
            assert_int_equal(loaded.errors, 1);
            assert_non_null(strstr(loaded.messages, "neither STATE_DIRECTORY nor HOME is set"));
        }
        release(&loaded);
    }
}

TEST(container_needs_a_named_state_directory)
{
    static const char text[] = "[server]\nlisten = *:80 https://*:443\n"
                               "[acme]\nenabled = on\nagree_to_terms = yes\n"
                               "hosts = www.example.org\n%s";
    struct loaded loaded;
    char given[sizeof(text) + 32], unset[sizeof(text)];

    set_variable("STATE_DIRECTORY", NULL);
    set_variable("HOME", "/h");
    set_variable("container", "podman");
    snprintf(given, sizeof(given), text, "state_dir = /var/s\n");
    snprintf(unset, sizeof(unset), text, "");
    load(&loaded, given, NULL);
    assert_int_equal(loaded.errors, 0);
    release(&loaded);
    load(&loaded, unset, NULL);
    assert_int_equal(loaded.errors, 1);
    assert_non_null(strstr(loaded.messages, "[acme] needs state_dir in a container"));
    release(&loaded);
    set_variable("STATE_DIRECTORY", "/var/lib/a"); /* a service manager made it */
    load(&loaded, unset, NULL);
    assert_int_equal(loaded.errors, 0);
    release(&loaded);
    set_variable("container", NULL);
}

static const char sections[] = "[server]\nlisten = *:80 https://*:443\n"
                               "[acme]\nenabled = on\nagree_to_terms = yes\nstate_dir = /var/s\n"
                               "[host a.example.org]\nroot = /\n"
                               "[host B.example.org c.local]\nroot = /\n"
                               "[host d.example.org]\nroot = /\ncertificate = /c\n";

TEST(hosts_give_the_names_that_are_public)
{
    struct loaded loaded;

    load(&loaded, sections, NULL);
    expect_names(&loaded, "a.example.org b.example.org");
    release(&loaded);
}

TEST(names_of_a_host_may_share_a_certificate)
{
    static const char text[] =
        "[server]\nlisten = *:80 https://*:443\n[host a.example.org b.example.org *.example.org]\n"
        "root = /\n[host c.example.org]\nroot = /\n"
        "[acme]\nenabled = on\nagree_to_terms = yes\nstate_dir = /var/s\ndns_hook = /bin/sh\n";
    struct loaded loaded;
    char file[ACME_NAME_MAX + 1];

    load(&loaded, text, "acme.certificate_per=host");
    expect_names(&loaded, "a.example.org b.example.org *.example.org c.example.org");
    assert_int_equal(loaded.config.acme_names.count, 2);
    assert_int_equal(config_acme_find(&loaded.config, SPAN("B.example.org")), 0);
    assert_int_equal(config_acme_find(&loaded.config, SPAN("c.example.org")), 1);
    assert_int_equal(config_acme_find(&loaded.config, SPAN("d.example.org")), 2);
    release(&loaded);
    load(&loaded, text, NULL);
    assert_int_equal(loaded.config.acme_names.count, 4);
    config_acme_file(loaded.config.acme_names.item[2], file);
    assert_string_equal(file, "+.example.org");
    release(&loaded);
}

TEST(addresses_share_the_first_certificate)
{
    struct loaded loaded;

    load_with(&loaded, "acme.hosts=a.example.org 192.0.2.1 b.example.org 2001:db8::1");
    expect_names(&loaded, "192.0.2.1 2001:db8::1 a.example.org b.example.org");
    assert_string_equal(loaded.config.acme_names.item[0], "192.0.2.1 2001:db8::1");
    release(&loaded);
    load_with(&loaded, "acme.hosts=192.0.2.1", "server.listen=https://*:443");
    assert_non_null(strstr(loaded.messages, "can only be checked by http-01"));
    release(&loaded);
}

TEST(secret_is_never_shown)
{
    struct loaded loaded;
    char *text;

    load_with(&loaded, "acme.hosts=a.example.org", "acme.eab_kid=k", "acme.eab_key=c2VjcmV0");
    assert_string_equal(loaded.messages, "");
    assert_string_equal(loaded.config.acme_eab_key, "c2VjcmV0");
    text = print_config(&loaded.config, true);
    assert_null(strstr(text, "c2VjcmV0"));
    assert_non_null(strstr(text, "\n# It is set; -T does not show it: eab_key = (hidden)\n"));
    free(text);
    release(&loaded);
    load(&loaded, "[acme]\neab_key = c2VjcmV0\neab_key = c2VjcmV0 # x\n",
         "acme.eab_key=c2Vj;cmV0 #");
    assert_int_equal(loaded.errors, 2);
    assert_null(strstr(loaded.messages, "c2Vj"));
    release(&loaded);
}

static char *description(const struct config *config)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    config_acme_describe(config, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

TEST(description_has_each_name_and_why_one_is_missing)
{
    struct loaded loaded;
    char *text;

    load(&loaded, sections, NULL);
    assert_int_equal(loaded.errors, 0);
    text = description(&loaded.config);
    assert_string_equal(text, "certificates by ACME from "
                              "https://acme-v02.api.letsencrypt.org/directory; to check a name, "
                              "it connects to port 80 or connects to port 443:\n"
                              "  a.example.org: one certificate with a key of kind p256\n"
                              "  b.example.org: one certificate with a key of kind p256\n"
                              "  c.local: none: a name in a domain that is not public\n"
                              "  d.example.org: none: its [host] has a certificate\n");
    free(text);
    release(&loaded);
    load(&loaded, sections, "acme.hosts=a.example.org");
    assert_int_equal(loaded.errors, 0);
    text = description(&loaded.config);
    assert_non_null(strstr(text, "  b.example.org: none: [acme] hosts does not list it\n"));
    free(text);
    release(&loaded);
}

TEST(description_has_the_user)
{
    static const struct {
        const char *setting;
        uid_t user;
        bool exists;
        const char *expected, *line; /* "": none */
    } cases[] = {
        {"acme.user=", 0, true, "webserverd-acme", "belong to user webserverd-acme\n"},
        {"acme.user=", 0, false, "", "belong to the user of the workers, as there is no user"},
        {"acme.user=", 1000, true, "", ""},
        {"acme.user=daemon", 0, true, "daemon", "belong to user daemon\n"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct loaded loaded;
        char *text;

        user = cases[i].user;
        has_own_user = cases[i].exists;
        load(&loaded, sections, cases[i].setting);
        assert_int_equal(loaded.errors, 0);
        assert_string_equal(config_acme_user(&loaded.config), cases[i].expected);
        text = description(&loaded.config);
        if (strstr(text, cases[i].line) == NULL ||
            (strstr(text, "belong to") != NULL) != (cases[i].line[0] != '\0'))
            fail_msg("case %zu: %s", i, text);
        free(text);
        release(&loaded);
    }
    user = 1000;
    has_own_user = false;
}

TEST(description_names_one_challenge)
{
    struct loaded loaded;
    char *text;

    load_with(&loaded, "acme.hosts=www.example.org", "acme.challenge=tls-alpn-01",
              "acme.key=rsa2048", "acme.directory=staging");
    assert_int_equal(loaded.errors, 0);
    text = description(&loaded.config);
    assert_string_equal(
        text, "certificates by ACME from https://acme-staging-v02.api.letsencrypt.org/directory; "
              "to check a name, it connects to port 443:\n"
              "  www.example.org: one certificate with a key of kind rsa2048\n");
    free(text);
    release(&loaded);
    load_with(&loaded, "acme.enabled=off");
    text = description(&loaded.config);
    assert_string_equal(text, "");
    free(text);
    release(&loaded);
}
