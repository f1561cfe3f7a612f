/*
 * The RFC cases: each line of each table in rfc/ is one test, with one server per table; and again
 * over TLS. At the end the server must have counted and logged every response.
 */
#include "log_check.h"
#include "rfc/rfc.h"
#include "scratch.h"
#include "server.h"
#include "tls_relay.h"

#include "common/macros.h"
#include "daemon/tls/managed.h"
#include "tests/part.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct rfc_case message_cases[] = {
#include "rfc/message.def"
};
static const struct rfc_case target_cases[] = {
#include "rfc/target.def"
};
static const struct rfc_case method_cases[] = {
#include "rfc/method.def"
};
static const struct rfc_case framing_cases[] = {
#include "rfc/framing.def"
};
static const struct rfc_case connection_cases[] = {
#include "rfc/connection.def"
};
static const struct rfc_case limit_cases[] = {
#include "rfc/limit.def"
};

static const struct rfc_case headers_cases[] = {
#include "rfc/headers.def"
};

static const struct rfc_case conditionals_cases[] = {
#include "rfc/conditionals.def"
};

static const struct rfc_case codings_cases[] = {
#include "rfc/codings.def"
};

static const struct rfc_case made_cases[] = {
#include "rfc/made.def"
};

static const struct rfc_case ranges_cases[] = {
#include "rfc/ranges.def"
};

static const struct rfc_case alone_cases[] = {
#include "rfc/alone.def"
};

static const struct rfc_case fallback_cases[] = {
#include "rfc/fallback.def"
};

static const struct rfc_case extensions_cases[] = {
#include "rfc/extensions.def"
};

static const struct rfc_case listing_cases[] = {
#include "rfc/listing.def"
};

static const struct rfc_case arithmetic_cases[] = {
#include "rfc/arithmetic.def"
};

struct table {
    const char *name;
    const struct rfc_case *cases;
    size_t count;
    const char *const *options; /* NULL-terminated */
};

static const struct table tables[] = {
#define RFC_TABLE(name, ...)                                                                       \
    {#name, name##_cases, ARRAY_LENGTH(name##_cases), (const char *const[]){__VA_ARGS__, NULL}},
#include "rfc/tables.def"
#undef RFC_TABLE
};

/* The current table; a test function receives only its case. */
static const struct table *table;
static bool over_tls;
static struct tls_relay *relay;
static struct server *server;
static struct rfc_runner runner;
static uint64_t responses;

/* All files have one mtime, which the tables can name. */
static void put_file(const char *path, const char *text)
{
    static const struct timespec times[2] = {{.tv_sec = 784111777}, {.tv_sec = 784111777}};
    char full[SCRATCH_PATH_MAX];

    server_put_text(server, path, text);
    snprintf(full, sizeof(full), "%s/www%s", server_directory(server), path);
    assert_int_equal(utimensat(AT_FDCWD, full, times, 0), 0);
}

static void put_site(void)
{
    static const struct {
        const char *path, *text;
    } files[] = {
#define SITE_FILE(path, text) {path, text},
#include "rfc/site.def"
#undef SITE_FILE
    };

    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        put_file(files[i].path, files[i].text);
}

enum { OPTIONS_MAX = 20, OPTION_BYTES = PATH_MAX + 32 };

static void start_over_tls(void)
{
    static char text[3][OPTION_BYTES];
    const char *options[OPTIONS_MAX] = {text[0], text[1], text[2]};
    struct self_signed files;
    char why[256];

    for (size_t i = 0; table->options[i] != NULL; i++) {
        assert_true(i + 4 < OPTIONS_MAX);
        options[i + 3] = table->options[i];
    }
    if (self_signed_write(&files, server_directory(server), "localhost", why, sizeof(why)) != 0)
        fail_msg("%s", why);
    snprintf(text[0], OPTION_BYTES, "server.listen=https://127.0.0.1:0");
    snprintf(text[1], OPTION_BYTES, "tls.certificate=%s", files.certificate);
    snprintf(text[2], OPTION_BYTES, "tls.key=%s", files.key);
    server_start_under(server, NULL, options);
    relay = tls_relay_start(server_port(server));
    server_set_port(server, tls_relay_port(relay));
}

static int start(void **state)
{
    void *made = NULL;

    (void)state;
    if (server_set_up(&made) != 0)
        return -1;
    server = made;
    responses = 0;
    put_site();
    if (over_tls)
        start_over_tls();
    else
        server_start_under(server, NULL, table->options);
    runner = (struct rfc_runner){.server = server, .over_tls = over_tls};
    return 0;
}

static int stop(void **state)
{
    void *made = server;

    (void)state;
    rfc_end(&runner);
    if (over_tls)
        tls_relay_stop(relay);
    server_expect_metric(server, "requests", responses);
    free(log_with_lines(server, responses));
    server_stop(server);
    assert_int_equal(log_count_lines(server), responses);
    return server_tear_down(&made);
}

static void run_case(void **state)
{
    responses += rfc_run(&runner, *state);
}

static int run_table(void)
{
    struct CMUnitTest *tests = calloc(table->count, sizeof(*tests));
    char(*names)[160] = calloc(table->count, sizeof(*names));
    int failed = 1;

    if (tests != NULL && names != NULL) {
        for (size_t i = 0; i < table->count; i++) {
            const struct rfc_case *one = &table->cases[i];

            snprintf(names[i], sizeof(names[i]), "%s%s, RFC %s: %s", table->name,
                     over_tls ? " over TLS" : "", one->rule, one->title);
            tests[i] = (struct CMUnitTest){
                .name = names[i], .test_func = run_case, .initial_state = (void *)(uintptr_t)one};
        }
        failed = _cmocka_run_group_tests(table->name, tests, table->count, start, stop);
    }
    free(tests);
    free(names);
    return failed;
}

/* How often a table runs: also over TLS, in which a sanitizer sees no other code of these modules. */
#ifdef TEST_SANITIZER
enum { RUNS = 1 };
#else
enum { RUNS = 2 };
#endif

/* An argument selects one table. A part of the test has whole tables, because each needs servers. */
int main(int argc, char **argv)
{
    bool selected[ARRAY_LENGTH(tables)];
    int failed = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(tables); i++)
        selected[i] = part_has(i) && (argc < 2 || strcmp(argv[1], tables[i].name) == 0);
    unsetenv("TEST_PART");
    for (size_t i = 0; i < ARRAY_LENGTH(tables); i++) {
        table = &tables[i];
        for (int run = 0; run < RUNS && selected[i]; run++) {
            over_tls = run == 1;
            failed += run_table();
        }
    }
    return failed != 0;
}
