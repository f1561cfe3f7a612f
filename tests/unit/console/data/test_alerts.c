#include "common/clock.h"
#include "console/data/alerts.h"
#include "tests/test.h"

#include <string.h>

TEST(rules_are_read_with_units)
{
    static const struct {
        const char *text, *normal;
        double limit;
        uint64_t for_ns;
        bool below, percent;
    } cases[] = {
        {"p99 > 20ms for 5s", "p99 > 20ms for 5s", 20e6, 5 * NS_PER_S, false, false},
        {"  p99>500us ", "p99 > 500us", 500e3, 0, false, false},
        {"max > 1.5s", "max > 1.5s", 1.5e9, 0, false, false},
        {"5xx > 1%", "5xx > 1%", 1, 0, false, true},
        {"queue > 100", "queue > 100", 100, 0, false, false},
        {"requests<5k for 2m", "requests < 5k for 2m", 5000, 120 * NS_PER_S, true, false},
        {"cache_hit_ratio < 80%", "cache_hit_ratio < 80%", 80, 0, true, true},
        {"cache_bytes > 64M", "cache_bytes > 64M", 64 << 20, 0, false, false},
        {"worker died", "worker died", 0, 0, false, false},
        {"certificate ends", "certificate ends", 0, 0, false, false},
        {"cpu wait > 20%", "cpu wait > 20%", 20, 0, false, true},
        {"p99 rise > 4", "p99 rise > 4", 4, 0, false, false},
        {"log dropping for 1s", "log dropping for 1s", 0, NS_PER_S, false, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct alert_rule rule;
        char why[256] = "";

        if (alert_rule_parse(&rule, cases[i].text, why, sizeof(why)) != 0)
            fail_msg("'%s': %s", cases[i].text, why);
        assert_string_equal(rule.text, cases[i].normal);
        assert_true(rule.limit >= cases[i].limit && rule.limit <= cases[i].limit);
        assert_int_equal(rule.for_ns, cases[i].for_ns);
        assert_int_equal(rule.below, cases[i].below);
        assert_int_equal(rule.percent, cases[i].percent);
    }
}

TEST(invalid_rules_are_explained)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "unknown metric ''"},
        {"> 5", "unknown metric ''"},
        {"p98 > 1ms", "unknown metric 'p98'; did you mean 'p9"},
        {"p99 > 20", "invalid value '20' (examples: 500us, 20ms, 1s)"},
        {"p99 >", "invalid value ''"},
        {"p99 > 1%", "is not a percentage: give a number without %"},
        {"p99 rise > 4%", "is not a percentage: give a number without %"},
        {"queue > 1%", "is not a percentage: give a number without %"},
        {"queue > -1", "invalid value '-1'"},
        {"queue > nan", "invalid value 'nan'"},
        {"5xx > x%", "invalid percentage 'x%'"},
        {"5xx > 1% for x", "invalid duration 'x'"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct alert_rule rule;
        char why[256] = "";

        assert_int_equal(alert_rule_parse(&rule, cases[i].text, why, sizeof(why)), -1);
        if (strstr(why, cases[i].why) == NULL)
            fail_msg("'%s': %s", cases[i].text, why);
    }
}

static struct alerts alerts;
static struct marks marks;
static struct model *model;
static struct histogram queue_waits[3], latency;
static struct snapshot snapshot;
static const struct process_table *processes; /* NULL: none */

static int begin(void **state)
{
    (void)state;
    memset(&alerts, 0, sizeof(alerts));
    memset(&marks, 0, sizeof(marks));
    snapshot = (struct snapshot){.time_ns = 100 * NS_PER_S};
    processes = NULL;
    model = model_create();
    return model == NULL;
}

static int end(void **state)
{
    (void)state;
    model_destroy(model);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

/* Makes the queue DEPTH deep at SECOND and evaluates the only alert. */
static enum alert_change at(uint64_t second, uint64_t depth)
{
    const struct alert_facts facts = {.model = model};
    uint64_t recorded;

    snapshot.time_ns = second * NS_PER_S;
    snapshot.sums[METRIC_offload_queue_depth] = depth;
    assert_int_equal(model_take(model, &snapshot, false), 0);
    recorded = alerts.recorded;
    alerts_update(&alerts, &facts, snapshot.time_ns, 1000 * NS_PER_S + snapshot.time_ns);
    return alerts.recorded > recorded ? alerts_record(&alerts, 0)->change : ALERT_SAME;
}

TEST(alert_begins_after_its_time_and_ends_after_a_pause)
{
    char why[256];
    size_t more;

    assert_int_equal(alerts_add(&alerts, "queue > 100 for 3s", why, sizeof(why)), 0);
    assert_null(alerts_worst(&alerts, &more));
    assert_int_equal(at(10, 100), ALERT_SAME); /* not above */
    assert_int_equal(at(11, 101), ALERT_SAME);
    assert_int_equal(at(13, 101), ALERT_SAME);
    assert_int_equal(at(14, 150), ALERT_BEGAN);
    assert_int_equal(at(15, 180), ALERT_SAME);
    assert_ptr_equal(alerts_worst(&alerts, &more), &alerts.alert[0]);
    assert_int_equal(more, 0);
    assert_int_equal(at(16, 90), ALERT_SAME);
    assert_int_equal(at(19, 101), ALERT_SAME); /* no second alert */
    assert_int_equal(at(23, 90), ALERT_SAME);
    assert_int_equal(at(24, 90), ALERT_ENDED);
    assert_null(alerts_worst(&alerts, &more));
    assert_int_equal(alerts_acknowledge(&alerts), 1);
    assert_int_equal(alerts_acknowledge(&alerts), 0);
    assert_int_equal(at(25, 101), ALERT_SAME); /* its time starts again */
    assert_int_equal(alerts.recorded, 2);
    assert_string_equal(alerts.record[0].value, "150");
    assert_string_equal(alerts.record[1].value, "180"); /* the worst one */
}

/* Samples a server with a second between; RATES are added each time. Returns the health line. */
struct growth {
    enum metric metric;
    uint64_t each_s;
};

static const char *health_after(const struct growth *rates, size_t count, unsigned seconds)
{
    static char text[ALERT_WORDS_BYTES];
    const struct alert_facts facts = {.model = model, .processes = processes};
    const struct alert *worst;
    size_t more;

    for (unsigned i = 0; i < seconds; i++) {
        snapshot.time_ns += NS_PER_S;
        snapshot.wall_ns = snapshot.time_ns;
        for (size_t j = 0; j < count; j++)
            snapshot.sums[rates[j].metric] = metric_table[rates[j].metric].kind == KIND_GAUGE
                                                 ? rates[j].each_s
                                                 : snapshot.sums[rates[j].metric] + rates[j].each_s;
        assert_int_equal(model_take(model, &snapshot, true), 0);
        alerts_update(&alerts, &facts, snapshot.time_ns, snapshot.time_ns);
    }
    worst = alerts_worst(&alerts, &more);
    return worst != NULL ? alert_describe(worst, &facts, &marks, text, sizeof(text)) : "healthy";
}

/* Forgets everything but the rules that are always there. */
static void begin_health(void)
{
    model_destroy(model);
    begin(NULL);
    alerts_add_defaults(&alerts);
    assert_int_equal(alerts.count, HEALTH_RULES);
}

/* A server with the only WORKER and the only THREAD, which may be NULL. */
static void serve_with(struct worker_sample *worker, struct thread_sample *thread)
{
    snapshot.workers = worker;
    snapshot.worker_count = worker != NULL;
    snapshot.worker_room = 3;
    snapshot.queue_waits = queue_waits;
    snapshot.threads = thread;
    snapshot.thread_count = snapshot.thread_room = thread != NULL;
    snapshot.latency = &latency;
}

TEST(default_rules_name_the_cause)
{
    static const struct {
        struct growth rates[3];
        const char *health;
    } cases[] = {
        {{{METRIC_requests, 1000}}, "healthy"},
        {{{METRIC_responses_404, 500}, {METRIC_connections_timed_out, 20}}, "healthy"},
        {{{METRIC_responses_503, 10}}, "healthy"},
        {{{METRIC_responses_503, 11}}, "1.1% of the responses are 5xx"},
        {{{METRIC_responses_503, 50}, {METRIC_offload_rejected, 50}},
         "offload queue full: 50/s answered 503"},
        {{{METRIC_queue_dropped, 7}}, "connection queue full: 7/s dropped"},
        {{{METRIC_accept_queue, 300}}, "accept queue: 300 connections wait"},
        {{{METRIC_queue_oldest, 2500000000}}, "connection queue: the oldest waits 2.50 s"},
        {{{METRIC_maintenance, 1}}, "maintenance: requests are answered 503"},
        {{{METRIC_accept_pauses, 1}}, "connections.max reached: accepting pauses"},
        {{{METRIC_connections_shed_descriptors, 4}},
         "descriptors short: 4/s idle connections closed"},
        {{{METRIC_connections_shed_memory, 4}}, "memory short: 4/s idle connections closed"},
        {{{METRIC_log_dropped, 12}}, "log lines dropped: 12/s"},
        {{{METRIC_log_write_errors, 1}}, "the access log cannot be written"},
        {{{METRIC_connections_refused, 2}}, "memory short: 2/s connections refused"},
        {{{METRIC_accept_errors, 2}}, "descriptors or memory short: 2/s accepts fail"},
        {{{METRIC_offload_jobs, 10}, {METRIC_offload_wait, 3000000000}},
         "slow disk or few offload threads: jobs wait 300 ms"},
        {{{METRIC_connections_too_slow, 1}}, "clients do not read: 1/s closed"},
        {{{METRIC_connections_stalled, 3}}, "connections whose client does not read: 3"},
        {{{METRIC_certificates_ending, 1}}, "a certificate ends soon"},
        {{{METRIC_connections_too_slow, 1}, {METRIC_workers_died, 1}}, "a worker died"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_health();
        snapshot.sums[METRIC_requests] = 1000;
        health_after(&(struct growth){METRIC_requests, 1000}, 1, 2);
        for (unsigned second = 0; second < 6; second++) {
            const struct growth requests = {METRIC_requests, 0};
            struct growth rates[4] = {requests, cases[i].rates[0], cases[i].rates[1],
                                      cases[i].rates[2]};

            rates[0].each_s = cases[i].rates[0].metric == METRIC_requests ? 0 : 1000;
            health_after(rates, 3, 1);
        }
        assert_string_equal(health_after(NULL, 0, 0), cases[i].health);
    }
}

TEST(dead_worker_is_named_until_it_is_acknowledged)
{
    struct worker_sample worker = {.slot = 2, .pid = 9, .state = WORKER_SERVING};

    begin_health();
    marks_add(&marks, MARK_crash, 7, "worker 2 (pid 8) was killed by signal 9: starting another");
    marks_add(&marks, MARK_crash, UINT64_MAX,
              "worker 1 (pid 7) crashed: starting another"); /* later */
    serve_with(&worker, NULL);
    assert_string_equal(health_after(NULL, 0, 2), "healthy");
    assert_string_equal(health_after(&(struct growth){METRIC_workers_died, 1}, 1, 1),
                        "worker 2 died");
    assert_string_equal(health_after(NULL, 0, 12), "worker 2 died 12 s ago, replaced");
    worker.pid = 8;
    assert_string_equal(health_after(NULL, 0, 0), "worker 2 died 12 s ago, not replaced yet");
    assert_int_equal(alerts_unseen(&alerts), 1);
    alerts_acknowledge(&alerts);
    assert_string_equal(health_after(NULL, 0, 0), "healthy");
}

TEST(value_of_an_ended_alert_has_its_age)
{
    begin_health();
    assert_string_equal(health_after(&(struct growth){METRIC_queue_dropped, 5}, 1, 3),
                        "connection queue full: 5/s dropped");
    assert_string_equal(health_after(NULL, 0, 4), "connection queue full: 5/s dropped, 4 s ago");
}

TEST(dead_logger_is_named)
{
    begin_health();
    assert_string_equal(health_after(NULL, 0, 2), "healthy");
    marks_add(&marks, MARK_crash, 7, "the logger (pid 8) was killed by signal 9: starting another");
    assert_string_equal(health_after(&(struct growth){METRIC_processes_died, 1}, 1, 1),
                        "the logger died");
    assert_string_equal(health_after(NULL, 0, 4), "the logger died 4 s ago");
}

/* Also if no connection and no line is dropped. */
TEST(long_waits_for_queue_and_log_are_named)
{
    static const struct {
        uint64_t length, oldest_ms, log_wait_ms;
        const char *health;
    } cases[] = {{8, 1500, 0, "connection queue full: the oldest waits 1.50 s"},
                 {8, 90, 0, "healthy"},
                 {7, 1500, 0, "healthy"},
                 {0, 0, 600, "slow disk of the log: a thread waits 600 ms for it"},
                 {0, 0, 400, "healthy"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct worker_sample worker = {
            .state = WORKER_SERVING,
            .values = {[METRIC_queue_capacity] = 8,
                       [METRIC_queue_length] = cases[i].length,
                       [METRIC_queue_oldest] = cases[i].oldest_ms * NS_PER_MS}};
        struct thread_sample thread = {
            .activity = {.state = THREAD_STATE_LOG, .since_ns = NS_PER_S}};

        begin_health();
        serve_with(&worker, &thread);
        snapshot.states_ns = NS_PER_S + cases[i].log_wait_ms * NS_PER_MS;
        assert_string_equal(health_after(NULL, 0, 4), cases[i].health);
    }
}

/* What does not run or answer is named, by its process if that is stopped. */
TEST(stopped_worker_and_silent_thread_are_named)
{
    static const struct {
        bool stopped, logger_stopped;
        uint64_t worker_silent_ns, thread_silent_ns;
        float cpu_wait, machine;
        const char *health;
    } cases[] = {
        {false, false, NS_PER_S, 2 * NS_PER_S, 0, 0.9F, "healthy"},
        {false, false, 0, 4 * NS_PER_S, 0, 0.9F, "thread 2.1 has not answered for 4 s"},
        {false, false, 0, 4 * NS_PER_S, 0.9F, 0.9F, "healthy"}, /* it has no CPU */
        {false, false, 0, 4 * NS_PER_S, 0, 0.98F, "healthy"},   /* nor has any other */
        {false, false, 0, 12 * NS_PER_S, 0.9F, 0.9F, "thread 2.1 has not answered for 12 s"},
        {false, false, 5 * NS_PER_S, 4 * NS_PER_S, 0, 0.9F,
         "the main thread of worker 2 has not answered for 5 s"},
        {true, false, 5 * NS_PER_S, 5 * NS_PER_S, 0, 0.9F, "worker 2 does not run (stopped)"},
        {false, true, 0, 0, 0, 0.9F, "the logger does not run (stopped)"},
    };
    static struct process_table table = {
        .count = 2,
        .process = {{.role = ROLE_WORKER, .slot = 2, .pid = 9}, {.role = ROLE_LOGGER, .pid = 10}}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct worker_sample worker = {
            .slot = 2, .pid = 9, .state = WORKER_SERVING, .silent_ns = cases[i].worker_silent_ns};
        struct thread_sample thread = {.worker = 2,
                                       .thread = 1,
                                       .activity = {.state = THREAD_STATE_NONE + 1},
                                       .silent_ns = cases[i].thread_silent_ns};

        begin_health();
        serve_with(&worker, &thread);
        processes = &table;
        table.stopped[0] = cases[i].stopped;
        table.stopped[1] = cases[i].logger_stopped;
        table.shortage = (struct cpu_shortage){1, cases[i].cpu_wait, cases[i].machine, 0};
        assert_string_equal(health_after(NULL, 0, 1), cases[i].health);
        table.stopped[0] = table.stopped[1] = false;
        worker.silent_ns = thread.silent_ns = 0;
        assert_string_equal(health_after(NULL, 0, 2), "healthy");
    }
}

/* Threads that wake up wait a little; at full load they wait much, but no response is late. */
TEST(cpu_is_short_only_if_responses_are_late)
{
    static const struct {
        float server, machine, stolen;
        uint64_t latency_ns;
        const char *health;
    } cases[] = {
        {0.395F, 0.013F, 0, 50 * NS_PER_MS, "healthy"},
        {0.65F, 0.99F, 0, 80 * 1000, "healthy"},
        {0.1F, 0.99F, 0, 50 * NS_PER_MS, "healthy"},
        {0, 0, 0.5F, 80 * 1000, "healthy"},
        {0.65F, 0.99F, 0, 50 * NS_PER_MS, "CPU short: threads wait 65% of their time"},
        {0, 0, 0.5F, 50 * NS_PER_MS, "CPU short: the host of this machine takes 50%"},
    };
    static struct process_table table;
    struct thread_sample thread = {.activity = {.state = THREAD_STATE_NONE + 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_health();
        serve_with(NULL, &thread);
        processes = &table;
        table.shortage =
            (struct cpu_shortage){1, cases[i].server, cases[i].machine, cases[i].stolen};
        for (unsigned second = 0; second < 10; second++) {
            histogram_record(&latency, cases[i].latency_ns);
            health_after(NULL, 0, 1);
        }
        assert_string_equal(health_after(NULL, 0, 0), cases[i].health);
    }
}

/* A rule that stays keeps its state; the default rules stay. */
TEST(user_rules_are_replaced)
{

    begin_health();
    alerts_set_list(&alerts, "queue > 100; p99 > 1s");
    assert_int_equal(alerts.count, HEALTH_RULES + 2);
    assert_string_equal(health_after(&(struct growth){METRIC_offload_queue_depth, 200}, 1, 1),
                        "queue > 100: 200");
    alerts_set_list(&alerts, "p99 > 2s; queue>100");
    assert_int_equal(alerts.count, HEALTH_RULES + 2);
    assert_string_equal(health_after(NULL, 0, 0), "queue > 100: 200");
    alerts_set_list(&alerts, "");
    assert_int_equal(alerts.count, HEALTH_RULES);
    assert_string_equal(health_after(NULL, 0, 0), "healthy");
}

TEST(list_is_written_as_it_is_read)
{
    char list[ALERT_LIST_BYTES], why[256];

    assert_int_equal(alerts_add_list(&alerts, "p99>1ms;queue > 5 ; p99 > 1ms;", why, sizeof(why)),
                     0);
    alerts_write(&alerts, list, sizeof(list));
    assert_string_equal(list, "p99 > 1ms; queue > 5");
    assert_false(alerts_remove(&alerts, "p99 > 2ms"));
    assert_true(alerts_remove(&alerts, "p99>1ms"));
    alerts_write(&alerts, list, sizeof(list));
    assert_string_equal(list, "queue > 5");
    assert_int_equal(alerts_add_list(&alerts, "5xx > 1%; nonsense", why, sizeof(why)), -1);
}
