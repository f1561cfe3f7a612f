/*
 * Who may come in: the rate limit by client address, shared by all workers and changed live.
 */
#include "http_client.h"
#include "server.h"

#include "common/macros.h"
#include "common/segment_reader.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int status_of(const struct server *server, const char *request, char *retry, size_t size)
{
    struct http_answer answer;
    int status;

    http_ask(server_port(server), request, &answer);
    status = answer.status;
    if (retry != NULL)
        snprintf(retry, size, "%s",
                 http_field(&answer, "Retry-After") != NULL ? http_field(&answer, "Retry-After")
                                                            : "none");
    http_answer_free(&answer);
    return status;
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"

/* One request an hour would be refilled by nothing that a test waits for: the rate is a second's. */
static void a_client_over_its_rate_gets_429(void **state)
{
    struct server *server = *state;
    char retry[32];
    int limited = 0;

    server_put_text(server, "/a", "a");
    server_put_text(server, "/errors/429.html", "slower, please");
    server_start(server, "workers.processes=2", "workers.threads=2", "ratelimit.enabled=on",
                 "ratelimit.requests_per_second=1", "ratelimit.burst=20", NULL);
    for (int i = 0; i < 60; i++) {
        int status = status_of(server, i % 3 == 0 ? GET("/a") : GET("/none"), retry, sizeof(retry));

        if (status == 429) {
            limited++;
            assert_string_equal(retry, "1");
        } else {
            assert_int_equal(status, i % 3 == 0 ? 200 : 404);
        }
    }
    assert_in_range(limited, 1, 40); /* 20 went at once, and one more for each second it took */
    server_expect_metric(server, "requests_limited", (uint64_t)limited);
    server_stop(server);
}

static void the_limit_has_a_page_and_keeps_the_connection(void **state)
{
    struct server *server = *state;
    struct http_client client;
    struct http_answer answer;

    server_put_text(server, "/errors/429.html", "slower, please");
    server_start(server, "ratelimit.enabled=on", "ratelimit.requests_per_second=1",
                 "ratelimit.burst=1", NULL);
    http_open(&client, server_port(server));
    http_say(&client, GET("/") GET("/") GET("/") GET("/"));
    http_take(&client, HTTP_WITH_BODY, &answer);
    assert_int_equal(answer.status, 403);
    http_answer_free(&answer);
    for (int i = 0; i < 3; i++) {
        http_take(&client, HTTP_WITH_BODY, &answer);
        assert_int_equal(answer.status, 429);
        assert_string_equal(answer.body, "slower, please");
        assert_null(http_field(&answer, "Connection"));
        http_answer_free(&answer);
    }
    http_close(&client);
    server_stop(server);
}

static void an_exempt_client_has_no_limit(void **state)
{
    struct server *server = *state;

    server_put_text(server, "/a", "a");
    server_start(server, "ratelimit.enabled=on", "ratelimit.requests_per_second=1",
                 "ratelimit.burst=1", "ratelimit.exempt=192.0.2.0/24 127.0.0.0/8", NULL);
    for (int i = 0; i < 30; i++)
        assert_int_equal(status_of(server, GET("/a"), NULL, 0), 200);
    assert_int_equal(server_metric(server, "requests_limited"), 0);
    server_stop(server);
}

static void consoles_see_who_is_limited(void **state)
{
    struct server *server = *state;
    struct segment_reader reader;
    uint64_t refused = 0;

    server_start(server, "ratelimit.enabled=on", "ratelimit.requests_per_second=1",
                 "ratelimit.burst=1", NULL);
    while (status_of(server, GET("/"), NULL, 0) != 429)
        continue;
    server_attach(server, &reader);
    assert_int_equal(segment_rate(&reader.map)->burst, 1);
    for (uint32_t i = 0; i < segment_count(&reader.map, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++) {
            const struct segment_rate_entry *entry =
                &segment_rate_bucket(&reader.map, i)->entry[way];

            if (entry->key == UINT64_C(0xffff7f000001))
                refused += entry->refused;
        }
    assert_true(refused >= 1);
    segment_detach(&reader);
    server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_over_its_rate_gets_429, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(the_limit_has_a_page_and_keeps_the_connection,
                                        server_set_up, server_tear_down),
        cmocka_unit_test_setup_teardown(an_exempt_client_has_no_limit, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(consoles_see_who_is_limited, server_set_up,
                                        server_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
