/* Paths in sections: their syntax, which is the same in all of them, and the rules found by path. */
#include "common/macros.h"
#include "daemon/config/config.h"
#include "daemon/config/internal.h"
#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text, *path; /* NULL: an error */
    bool below;
} paths[] = {
    {"/", "/", false},
    {"/*", "/", true},
    {"/priv", "/priv", false},
    {"/priv/", "/priv/", false},
    {"/priv/*", "/priv/", true},
    {"/a%20b", "/a b", false},
    {"\"/a b\"", "/a b", false},
    {"\"/a b/*\"", "/a b/", true},
    {"\"/a%20b\"", "/a b", false},
    {"/caf%C3%A9", "/caf\xc3\xa9", false},
    {"/caf\xc3\xa9", "/caf\xc3\xa9", false},
    {"/pub/../priv", "/priv", false},
    {"/priv/.", "/priv/", false},
    {"/priv/./", "/priv/", false},
    {"/priv/%2e%2E/x", "/x", false},
    {"//priv///x", "/priv/x", false},
    {"/a:b;c", "/a:b;c", false},
    {"\"/a:b=c;d\"", "/a:b=c;d", false},
    {"/2%2A3", "/2*3", false},
    {"/%2541", "/%41", false},
    {"", NULL, false},
    {"priv", NULL, false},
    {"*", NULL, false},
    {"/priv*", NULL, false},
    {"/*/priv", NULL, false},
    {"/priv/**", NULL, false},
    {"/priv /pub", NULL, false},
    {"\"/a b", NULL, false},
    {"/a b\"", NULL, false},
    {"\"/a\" \"/b\"", NULL, false},
    {"\"\"", NULL, false},
    {"\"", NULL, false},
    {"/a?b", NULL, false},
    {"/a#b", NULL, false},
    {"/..", NULL, false},
    {"/a/../..", NULL, false},
    {"/a%2Fb", NULL, false},
    {"/a%00b", NULL, false},
    {"/a%zz", NULL, false},
    {"/a\\b", NULL, false},
    {"http://host/a", NULL, false},
};

TEST(path_is_decoded_and_normalised_or_an_error)
{
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        struct config_path path;
        const char *fault = config_path_read(span_of(paths[i].text), &path);

        if ((fault == NULL) != (paths[i].path != NULL))
            fail_msg("'%s': %s", paths[i].text, fault != NULL ? fault : "no error");
        if (fault != NULL)
            continue;
        assert_string_equal(path.text, paths[i].path);
        assert_int_equal(path.length, strlen(paths[i].path));
        assert_int_equal(path.below, paths[i].below);
    }
}

TEST(longest_path_is_read_and_a_longer_one_is_an_error)
{
    static char text[3 * TARGET_PATH_MAX];
    struct config_path path;

    memset(text, ' ', sizeof(text));
    memcpy(text, "\"/", 2);
    text[TARGET_PATH_MAX] = '"';
    assert_non_null(config_path_read((struct span){text, TARGET_PATH_MAX + 1}, &path));
    memset(text, 'a', sizeof(text));
    text[0] = '/';
    assert_null(config_path_read((struct span){text, TARGET_PATH_MAX - 1}, &path));
    assert_int_equal(path.length, TARGET_PATH_MAX - 1);
    assert_non_null(config_path_read((struct span){text, TARGET_PATH_MAX}, &path));
    assert_non_null(config_path_read((struct span){text, sizeof(text)}, &path));
}

/* Titles are for REQUEST, and so is the redirect if REDIRECTED. */
static void expect_sections(const struct config *config, const char *request, bool redirected)
{
    char fields[HEADER_RULES_MAX];
    struct header_rules rules;

    assert_ptr_equal(access_find(config, 0, request), config->access);
    assert_ptr_equal(cors_find(config, 0, request), config->cors);
    assert_int_equal(header_rules_of_host(config, NULL, &rules), 0);
    assert_true(header_rules_write(&rules, request, HEADER_OF_RESPONSE, fields) > 0);
    free((void *)rules.rule);
    assert_ptr_equal(redirect_find(config, 0, request, true),
                     redirected ? config->redirects : NULL);
}

/*
 * Each section with a path takes the same ones, and protects, answers or marks the same requests: a
 * title or a star the path and all below it, a redirect without a star only the path.
 */
TEST(path_means_the_same_in_every_section)
{
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        const char *path = paths[i].text;
        bool quoted_wrongly = strchr(path, '"') != NULL && paths[i].path == NULL;
        struct loaded loaded;
        char text[1024], request[64];

        if (path[0] == '\0' || quoted_wrongly)
            continue;
        snprintf(text, sizeof(text),
                 "[access %s]\ndeny = any\n[cors %s]\norigins = *\n[headers %s]\nX-A = b\n"
                 "[redirect]\n%s = 410\n[files]\nerror_pages = %s\n[host h.test]\n"
                 "error_pages = %s\n",
                 path, path, path, path, path, path);
        load(&loaded, text, NULL);
        if (paths[i].path == NULL) {
            if (loaded.errors < 6)
                fail_msg("%s: %s", path, loaded.messages);
            release(&loaded);
            continue;
        }
        assert_string_equal(loaded.messages, "");
        assert_string_equal(loaded.config.files_error_pages, paths[i].path);
        assert_string_equal(loaded.config.hosts[0].error_pages, paths[i].path);
        expect_sections(&loaded.config, paths[i].path, true);
        strcpy(request, paths[i].path);
        if (request[strlen(request) - 1] == '/')
            request[strlen(request) - 1] = '\0';
        if (request[0] != '\0')
            expect_sections(&loaded.config, request,
                            paths[i].below || strcmp(request, paths[i].path) == 0);
        strcat(request, "/below");
        expect_sections(&loaded.config, request, paths[i].below);
        release(&loaded);
    }
}

TEST(scope_ends_at_a_segment)
{
    static const struct {
        const char *path;
        int section; /* -1: none */
    } requests[] = {
        {"/", -1},           {"/priv", 0},       {"/priv/", 0},    {"/priv/x", 0},
        {"/private", -1},    {"/priv.html", -1}, {"/priv/pub", 1}, {"/priv/pub/x", 1},
        {"/priv/public", 0}, {"/x/priv", -1},
    };
    struct loaded loaded;

    load(&loaded, "[access /priv/*]\nallow = none\n[access /priv/pub/]\nallow = any\n", NULL);
    assert_string_equal(loaded.messages, "");
    for (size_t i = 0; i < ARRAY_LENGTH(requests); i++) {
        const struct config_access *rule = access_find(&loaded.config, 0, requests[i].path);

        if (rule != (requests[i].section < 0 ? NULL : &loaded.config.access[requests[i].section]))
            fail_msg("%s", requests[i].path);
    }
    release(&loaded);
}

TEST(rules_of_the_host_come_first)
{
    struct loaded loaded;
    const struct config *config = &loaded.config;

    load(&loaded,
         "[host a.test]\nroot = /\n[host b.test]\nroot = /\n[redirect]\n/x/y = 301 /0\nhttp /x/* = "
         "301 "
         "/1\n/x/* = 301 /2\n[redirect host B.test]\n/x/* = 301 /3\n[access]\nallow = any\n[access "
         "host "
         "a.test]\nallow = none\n[access /x]\nallow = any\n",
         NULL);
    assert_string_equal(loaded.messages, "");
    assert_string_equal(redirect_find(config, 0, "/x/y", false)->target, "/0");
    assert_string_equal(redirect_find(config, 1, "/x/z", false)->target, "/1");
    assert_string_equal(redirect_find(config, 1, "/x/z", true)->target, "/2");
    assert_string_equal(redirect_find(config, 2, "/x/y", true)->target, "/3");
    assert_string_equal(redirect_find(config, 2, "/x", true)->target, "/3");
    assert_null(redirect_find(config, 2, "/xy", true));
    assert_true(config->redirects_by_scheme);
    assert_ptr_equal(access_find(config, 1, "/x/y"), &config->access[1]);
    assert_ptr_equal(access_find(config, 2, "/x/y"), &config->access[2]);
    release(&loaded);
}

enum { RULES = 20000 };
#define LAST_RULE "/20000 = 301 /0\n"

/* Rule I leads to rule I + 1; LAST is its target if it is not empty. */
static char *chain_of_rules(const char *below, const char *target, const char *last)
{
    char *text = malloc((size_t)RULES * 50), *at = text;

    assert_non_null(text);
    at = stpcpy(at, "[redirect]\n");
    for (int i = 0; i < RULES; i++)
        if (target != NULL)
            at += sprintf(at, "/%d%s = 301 %s%d%s\n", i, below, target, i + 1, below);
        else
            at += sprintf(at, "/%d = 301 /flat\n", i);
    strcpy(at, last);
    return text;
}

TEST(long_chain_is_checked_in_linear_time)
{
    static const struct {
        const char *below, *target, *last;
        bool loops;
    } chains[] = {
        {"", "/", "", false},   {"", "/", LAST_RULE, true},
        {"/*", "/", "", false}, {"", "https://h.test/", "[host h.test]\nroot = /\n", false},
        {"", NULL, "", false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(chains); i++) {
        char *text = chain_of_rules(chains[i].below, chains[i].target, chains[i].last);
        struct loaded loaded;

        load(&loaded, text, NULL);
        assert_int_equal(loaded.errors, chains[i].loops ? RULES + 1 : 0);
        if (!chains[i].loops)
            assert_int_equal(loaded.config.redirect_count, RULES);
        release(&loaded);
        free(text);
    }
}

TEST(override_comes_before_the_rules_of_the_file)
{
    struct loaded loaded;

    load(&loaded, "[redirect]\n/a/* = 301 /new\n", "redirect./a/x.html = 410");
    assert_string_equal(loaded.messages, "");
    assert_int_equal(redirect_find(&loaded.config, 0, "/a/x.html", true)->status, 410);
    assert_int_equal(redirect_find(&loaded.config, 0, "/a/y.html", true)->status, 301);
    release(&loaded);
}
