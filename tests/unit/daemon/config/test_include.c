/* Included files, and variables in values. */
#include "common/macros.h"
#include "daemon/config/keys.h"
#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64]; /* also the working directory */

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/test_include_XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory) + mkdir("conf.d", 0700) + mkdir("conf.d/sub", 0700), 0);
    return 0;
}

static int remove_directory(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(chdir("/") + system(command), 0);
    return 0;
}

const struct test_fixture test_group_fixture = {make_directory, remove_directory};

static void put(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* Loads main.ini with TEXT. */
static void load_main(struct loaded *loaded, const char *text)
{
    static const char *const root[] = {ROOT};

    put("main.ini", text);
    load_file(loaded, "main.ini", root, 1);
}

static void expect_error(const char *text, const char *message)
{
    struct loaded loaded;

    load_main(&loaded, text);
    if (loaded.errors == 0 || strstr(loaded.messages, message) == NULL)
        fail_msg("no message '%s' for:\n%s\nbut: %s", message, text, loaded.messages);
    release(&loaded);
}

TEST(included_files_are_read_in_order_of_their_names)
{
    struct loaded loaded;
    char expected[160];

    put("conf.d/20-b.ini", "[host b.test]\nroot = sub\n[headers]\nX-B = 1\n");
    put("conf.d/10-a.ini", "[host a.test]\n[headers]\nX-A = 1\n");
    put("conf.d/30-c.txt", "this is not read\n");
    load_main(&loaded, "include = conf.d/*.ini\n[workers]\ninclude = none.d/*.ini\nprocesses = 3\n"
                       "include = conf.d/no-such-[a-z].ini ; a comment\nmax_processes = 5\n");
    assert_string_equal(loaded.messages, "");
    assert_int_equal(loaded.config.workers_processes, 3);
    assert_int_equal(loaded.config.workers_max_processes, 5); /* the section goes on */
    assert_int_equal(loaded.config.host_count, 2);
    assert_string_equal(loaded.config.hosts[0].names[0], "a.test");
    assert_string_equal(loaded.config.headers[0].name, "X-A");
    assert_string_equal(loaded.config.headers[1].line.source, "conf.d/20-b.ini");
    assert_int_equal(loaded.config.headers[1].line.number, 4);
    snprintf(expected, sizeof(expected), "%s/conf.d/sub", directory); /* below that of its file */
    assert_string_equal(loaded.config.hosts[1].root, expected);
    assert_string_equal(config_origin(&loaded.config, KEY_workers_processes), "main.ini:4");
    snprintf(expected, sizeof(expected), "%s/conf.d", directory); /* for [server] watch */
    assert_int_equal(loaded.config.file_count, 5);
    assert_string_equal(loaded.config.sources.item[0], "main.ini");
    assert_string_equal(loaded.config.sources.item[1], expected);
    assert_string_equal(loaded.config.sources.item[3], "conf.d/20-b.ini");
    release(&loaded);
}

TEST(bad_include_is_an_error_with_file_and_line)
{
    put("conf.d/bad.ini", "\n[server]\nlisen = 1\n");
    expect_error("include = conf.d/bad.ini\n",
                 "conf.d/bad.ini:3:1: error: [server] has no key 'lisen'\n    lisen = 1\n");
    expect_error("\ninclude = none.ini\n", "main.ini:2:11: error: cannot include none.ini: No such "
                                           "file or directory\n    include = none.ini\n");
    expect_error("include =\n", "main.ini:1:10: error: no path given");
    expect_error("include = conf.d\n", "cannot include conf.d: it is a directory");
    expect_error("include = /dev/null\n", "cannot include /dev/null: it is not a regular file");
    put("conf.d/name.ini",
        "[server]\nname = a\n[host a.test]\nroot = /\n[headers]\nX-A = 1\n[mime]\n"
        "x = a/b\n[redirect]\n/a/* = 404\n");
    expect_error("include = conf.d/name.ini\n[server]\nname = b\n",
                 "main.ini:3:1: error: 'name' is already set in conf.d/name.ini:2\n");
    expect_error("include = conf.d/name.ini\n[host a.test]\nroot = /\n",
                 "'root' is already set in conf.d/name.ini:4\n");
    expect_error("include = conf.d/name.ini\n[headers]\nX-A = b\n",
                 "'X-A' is already set in conf.d/name.ini:6\n");
    expect_error("include = conf.d/name.ini\n[mime]\nx = a/b\n",
                 "'x' is already set in conf.d/name.ini:8\n");
    expect_error("include = conf.d/name.ini\n[redirect]\n/a/b = 403\n",
                 "main.ini:3:1: error: the rule for /a/b never applies: /a/* in "
                 "conf.d/name.ini:10 is first\n");
}

TEST(circle_of_includes_is_refused)
{
    expect_error("include = main.ini\n", "main.ini:1:11: error: main.ini includes itself\n");
    put("conf.d/x.ini", "include = ../conf.d/y*\n");
    put("conf.d/y.ini", "[server]\nname = a\ninclude = x.ini\n");
    expect_error("include = conf.d/x.ini\n",
                 "conf.d/../conf.d/y.ini:3:11: error: conf.d/../conf.d/x.ini includes itself\n");
    for (int i = 0; i < 20; i++) {
        char path[32], text[64];

        snprintf(path, sizeof(path), "conf.d/deep%d", i);
        snprintf(text, sizeof(text), "include = deep%d\n", i + 1);
        put(path, text);
    }
    expect_error("include = conf.d/deep0\n", "files include each other more than 16 deep\n");
}

TEST(variables_are_replaced_in_values_and_sections)
{
    struct loaded loaded;

    put("token", "from a file\n");
    assert_int_equal(setenv("WEB_PORT", "8123", 1) + setenv("WEB_HOST", "a.test b.test", 1) +
                         setenv("WEB_EMPTY", "", 1) + setenv("CREDENTIALS_DIRECTORY", directory, 1),
                     0);
    load_main(&loaded,
              "[server]\nlisten = 127.0.0.1:${WEB_PORT}${WEB_EMPTY}\nname = ${WEB_NONE:-shop}\n"
              "[host ${WEB_HOST}]\nroot = ${WEB_EMPTY:-/}\n[headers host a.test]\n"
              "X-A = ${file:token}, $ $${WEB_PORT} $$${x} $WEB_PORT 100%\n[metrics]\n"
              "realm = ${WEB_EMPTY:-}Metrics\n[tls]\nhsts = max-age=${WEB_PORT}; preload\n");
    assert_string_equal(loaded.messages, "");
    assert_string_equal(loaded.config.server_listen.item[0].text, "127.0.0.1:8123");
    assert_string_equal(loaded.config.server_name, "shop");
    assert_int_equal(loaded.config.hosts[0].name_count, 2);
    assert_string_equal(loaded.config.hosts[0].root, "/");
    assert_string_equal(loaded.config.headers[0].value,
                        "from a file, $ ${WEB_PORT} $${x} $WEB_PORT 100%");
    assert_string_equal(loaded.config.tls_hsts, "max-age=8123; preload");
    assert_string_equal(config_origin(&loaded.config, KEY_server_listen),
                        "main.ini:2: 127.0.0.1:${WEB_PORT}${WEB_EMPTY}");
    release(&loaded);
}

TEST(credential_of_a_path_is_its_file)
{
    struct loaded loaded;
    char expected[160];

    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", directory, 1), 0);
    load_main(&loaded, "[tls]\ncertificate = /a /b\nkey = ${file:tls.key} ${file:/run/x}\n"
                       "[host a.test]\nroot = ${file:conf.d}\n");
    assert_string_equal(loaded.messages, "");
    snprintf(expected, sizeof(expected), "%s/tls.key", directory);
    assert_string_equal(loaded.config.tls_key.item[0], expected);
    assert_string_equal(loaded.config.tls_key.item[1], "/run/x");
    snprintf(expected, sizeof(expected), "%s/conf.d", directory);
    assert_string_equal(loaded.config.hosts[0].root, expected);
    release(&loaded);
}

TEST(bad_variable_is_an_error_with_its_place)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"name = a${WEB_NONE}b\n", "main.ini:2:9: error: the environment has no WEB_NONE\n"
                                   "    name = a${WEB_NONE}b\n            ^^^^^^^^^^^\n"},
        {"name = ${WEB_NONE\n", "main.ini:2:8: error: the '}' is missing\n"},
        {"name = ${}\n", "this is not a valid variable\n"},
        {"name = ${1A}\n", "this is not a valid variable\n"},
        {"name = ${A-b}\n", "this is not a valid variable\n"},
        {"name = ${A:-${B}}\n", "this is not a valid variable\n"},
        {"name = ${file:}\n", "this is not the name of a credential\n"},
        {"name = ${file:../x}\n", "this is not the name of a credential\n"},
        {"name = ${file:none}\n", "/none: No such file or directory\n"},
        {"name = ${file:lines}\n", "its value has a control character (byte 0x0a)\n"},
        {"name = ${file:/dev/zero}\n", "File too large\n"},
        {"name = x${WEB_LINES}\n", "main.ini:2:9: error: its value has a control character"},
        {"name = ${WEB_BLANK}\n", "main.ini:2:8: error: ' ' is not valid in a name\n"
                                  "    name = ${WEB_BLANK}\n           ^^^^^^^^^^^^\n"},
        {"[host ${WEB_NONE}]\n", "main.ini:2:7: error: the environment has no WEB_NONE\n"},
        {"[host ${WEB_LONG}]\n", "main.ini:2:7: error: the section does not take this argument"},
    };
    char text[128];

    put("lines", "a\nb\n");
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", directory, 1) +
                         setenv("WEB_LINES", "a\033[31m", 1) + setenv("WEB_BLANK", "a b", 1) +
                         setenv("WEB_LONG", "a..b", 1),
                     0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        snprintf(text, sizeof(text), "[server]\n%s", cases[i].text);
        expect_error(text, cases[i].message);
    }
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    expect_error("[server]\nname = ${file:x}\n", "CREDENTIALS_DIRECTORY is not set\n");
}

TEST(printed_values_are_not_variables)
{
    struct loaded first, second;
    char *printed;

    put("conf.d/host.ini", "[host a.test]\nfallback = /i.html\n");
    load_main(&first, "[server]\nname = ${WEB_NONE:-shop}\n[headers]\nX-A = $${b} $$${c}\n[mime]\n"
                      "x = a/b\n[redirect]\n/a = 404\ninclude = conf.d/host.ini\n");
    assert_string_equal(first.messages, "");
    printed = print_config(&first.config, true);
    assert_non_null(strstr(printed, "\n# main.ini:2: ${WEB_NONE:-shop}\nname = shop\n"));
    assert_non_null(strstr(printed, "\n# main.ini:4\nX-A = $${b} $$${c}\n"));
    assert_non_null(strstr(printed, "\n# main.ini:8\n/a = 404\n"));
    assert_non_null(strstr(printed, "\n# main.ini:6\nx = a/b\n"));
    assert_non_null(strstr(printed, "\n[host a.test]\n# conf.d/host.ini:2\nfallback = /i.html\n"));
    assert_non_null(strstr(printed, "exists.\nindex = index.html\n"));
    assert_non_null(strstr(printed, "\n# -o 1\nroot = /\n"));
    load_bytes(&second, printed, strlen(printed), NULL, 0);
    assert_string_equal(second.messages, "");
    assert_string_equal(second.config.headers[0].value, "${b} $${c}");
    free(printed);
    release(&first);
    release(&second);
}
