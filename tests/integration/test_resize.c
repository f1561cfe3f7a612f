/*
 * Threads and workers come and go under load: every request is answered, once, and every answer is
 * counted and logged, once.
 */
#include "http_client.h"
#include "load.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"

#include "common/control_client.h"
#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3 };

static const char page[] = "<p>a page of the test</p>\n";

static struct load_plan plan_for(const struct server *server, bool each_connects)
{
    return (struct load_plan){.port = server_port(server),
                              .clients = each_connects ? 4 : 8,
                              .each_connects = each_connects,
                              .target = "/page.html",
                              .body = page,
                              .body_length = sizeof(page) - 1};
}

static void check_all(const struct server *server, const struct load_result *kept,
                      const struct load_result *connecting)
{
    load_check(kept);
    load_check(connecting);
    log_check_load(server, "/page.html", sizeof(page) - 1, kept->answers + connecting->answers);
    server_expect_metric(server, "log_lines", kept->answers + connecting->answers);
    server_expect_metric(server, "connections_open", 0);
    server_expect_metric(server, "workers_died", 0);
    server_expect_metric(server, "dispatch_pending", 0);
}

/* Two loads at once, one that keeps its connections and one that does not, through all steps. */
static void resize_under_load(struct server *server, const char *dispatch, const char *balance)
{
    static const char *const steps[] = {"threads 1", "threads 16", "threads 3",
                                        "workers 1", "workers 4",  "workers 2"};
    struct load_plan kept_plan, connecting_plan;
    struct load_result kept_result, connecting_result;
    struct load *kept, *connecting;

    server_put_text(server, "/page.html", page);
    server_start(server, dispatch, balance, NULL);
    kept_plan = plan_for(server, false);
    connecting_plan = plan_for(server, true);
    kept = load_start(&kept_plan);
    connecting = load_start(&connecting_plan);
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        load_pass(kept, LOAD_STEP);
        load_pass(connecting, LOAD_STEP / 4);
        server_do(server, "%s", steps[i]);
    }
    load_pass(kept, LOAD_STEP);
    load_pass(connecting, LOAD_STEP / 4);
    kept_result = load_finish(kept);
    connecting_result = load_finish(connecting);
    check_all(server, &kept_result, &connecting_result);
    server_stop(server);
}

static void no_request_is_lost_when_the_kernel_hands_out_connections(void **state)
{
    resize_under_load(*state, "workers.dispatch=kernel", "workers.balance=round-robin");
}

static void no_request_is_lost_when_the_master_goes_round(void **state)
{
    resize_under_load(*state, "workers.dispatch=master", "workers.balance=round-robin");
}

static void no_request_is_lost_when_the_master_picks_the_least_busy(void **state)
{
    resize_under_load(*state, "workers.dispatch=master", "workers.balance=least-connections");
}

/* Asks for a change and does not wait until it is in force. */
static void ask_for(const struct server *server, const char *what, int number)
{
    struct control_client client;
    char line[32], why[256];

    snprintf(line, sizeof(line), "%s %d", what, number);
    if (control_connect(&client, server_socket(server), why, sizeof(why)) != CONTROL_WAITING ||
        control_send(&client, line, why, sizeof(why)) != CONTROL_WAITING)
        fail_msg("%s", why);
    control_close(&client);
}

static void no_request_is_lost_when_changes_come_thick_and_fast(void **state)
{
    struct server *server = *state;
    struct load_plan kept_plan, connecting_plan;
    struct load_result kept_result, connecting_result;
    struct load *kept, *connecting;
    unsigned seed = 1;

    server_put_text(server, "/page.html", page);
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    kept_plan = plan_for(server, false);
    connecting_plan = plan_for(server, true);
    kept = load_start(&kept_plan);
    connecting = load_start(&connecting_plan);
    for (int i = 0; i < 40; i++) {
        ask_for(server, "threads", 1 + rand_r(&seed) % 6);
        ask_for(server, "workers", 1 + rand_r(&seed) % 4);
        load_pass(connecting, 1);
    }
    server_do(server, "threads 2");
    server_do(server, "workers 3");
    load_pass(kept, LOAD_STEP);
    load_pass(connecting, LOAD_STEP / 4);
    kept_result = load_finish(kept);
    connecting_result = load_finish(connecting);
    check_all(server, &kept_result, &connecting_result);
    server_stop(server);
}

/* Opens a connection and waits until it is seen where the master put it. */
static void arrive(const struct server *server, struct http_client *client, uint64_t open)
{
    http_open(client, server_port(server));
    server_expect_metric(server, "connections_open", open);
}

static void expect_received(const struct segment_reader *reader, const uint64_t *counts)
{
    for (uint32_t slot = 0; slot < WORKERS; slot++)
        assert_int_equal(segment_reader_metric(reader, segment_worker(&reader->map, slot)->metrics,
                                               METRIC_connections_received),
                         counts[slot]);
}

/* Nine connections, three for each worker; then those of one worker end, and three more come. */
static void connections_go_to_the_worker_whose_turn_it_is_or_that_has_fewest(void **state)
{
    static const struct {
        const char *balance;
        uint64_t received[WORKERS]; /* afterwards */
    } cases[] = {{"workers.balance=round-robin", {4, 4, 4}},
                 {"workers.balance=least-connections", {6, 3, 3}}};
    static const uint64_t even[WORKERS] = {3, 3, 3};
    struct server *server = *state;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_client client[3 * WORKERS];
        struct segment_reader reader;

        server_start(server, "workers.dispatch=master", cases[i].balance, "workers.processes=3",
                     NULL);
        server_attach(server, &reader);
        for (uint64_t n = 0; n < 3 * WORKERS; n++)
            arrive(server, &client[n], n + 1);
        expect_received(&reader, even);
        for (int n = 0; n < 3 * WORKERS; n += WORKERS) /* all of worker 0 */
            http_close(&client[n]);
        server_expect_metric(server, "connections_open", 6);
        for (uint64_t n = 0; n < 3; n++)
            arrive(server, &client[n * WORKERS], 6 + n + 1);
        expect_received(&reader, cases[i].received);
        for (int n = 0; n < 3 * WORKERS; n++)
            http_close(&client[n]);
        segment_detach(&reader);
        server_stop(server);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, server_set_up, server_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_request_is_lost_when_the_kernel_hands_out_connections),
        TEST(no_request_is_lost_when_the_master_goes_round),
        TEST(no_request_is_lost_when_the_master_picks_the_least_busy),
        TEST(no_request_is_lost_when_changes_come_thick_and_fast),
        TEST(connections_go_to_the_worker_whose_turn_it_is_or_that_has_fewest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
