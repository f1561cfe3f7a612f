/* Clients by address: merging the tables of workers and rate limit, joining them with the top clients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/client_address.h"
#include "common/clock.h"
#include "common/segment_writer.h"
#include "console/data/lists.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOW_NS (1000 * NS_PER_S)

static struct segment segment;
static struct segment_reader reader;
static struct client_list list;
static struct clients clients;

static int begin(void **state)
{
    char name[48], why[256];
    struct segment_plan plan = {.name = name,
                                .socket_path = "",
                                .listening = "",
                                .max_workers = 3,
                                .max_threads = 1,
                                .cache_entries = 16,
                                .ring_bytes = 16 * 1024};

    (void)state;
    snprintf(name, sizeof(name), "scr-clients-%d", (int)getpid());
    if (segment_create(&segment, &plan, why, sizeof(why)) != 0)
        return -1;
    segment_reserve_worker(&segment, 0);
    segment_reserve_worker(&segment, 2);
    segment_publish(&segment);
    return segment_attach(&reader, name, why, sizeof(why)) == SEGMENT_ATTACHED ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    client_list_release(&list);
    clients_release(&clients);
    segment_detach(&reader);
    segment_destroy(&segment);
    return 0;
}

static void connect_to(uint32_t worker, uint32_t place, const char *address, uint64_t count)
{
    struct segment_client *peer = &segment_clients(&segment, worker)[place];

    atomic_store(&peer->key, client_key_parse(address));
    atomic_store(&peer->count, count);
}

static void limit(uint32_t per_second, uint32_t burst)
{
    struct segment_rate *rate = segment_rate(&segment);

    atomic_store(&rate->requests_per_second, per_second);
    atomic_store(&rate->burst, burst);
    atomic_store(&rate->enabled, 1);
}

static void use_up(uint32_t bucket, const char *address, uint64_t time_ns, uint64_t refused)
{
    struct segment_rate_entry *entry = &segment_rate_bucket(&segment, bucket)->entry[1];

    atomic_store(&entry->key, client_key_parse(address));
    atomic_store(&entry->time_ns, time_ns);
    atomic_store(&entry->rejected, refused);
}

static const struct client_row *row_of(const char *address)
{
    return client_list_find(&list, client_key_parse(address));
}

static void tables_of_workers_and_rate_limit_are_merged(void **state)
{
    (void)state;
    connect_to(0, 7, "192.0.2.1", 3);
    connect_to(2, 4095, "192.0.2.1", 4);
    connect_to(2, 1, "192.0.2.2", 0); /* disconnected */
    use_up(5, "192.0.2.1", NOW_NS + NS_PER_S / 2, 9);
    use_up(6, "192.0.2.3", NOW_NS - 1, 0);            /* has its full burst again */
    use_up(7, "192.0.2.4", SEGMENT_RATE_CHANGING, 1); /* being replaced */
    assert_int_equal(client_list_take(&list, &reader, NOW_NS), 0);
    assert_false(list.limits);
    assert_int_equal(list.count, 1); /* rate limit off: its table is ignored */
    assert_int_equal(row_of("192.0.2.1")->connections, 7);
    limit(20, 30);
    assert_int_equal(client_list_take(&list, &reader, NOW_NS), 0);
    assert_true(list.limits);
    assert_int_equal(list.count, 1);
    assert_float_equal(row_of("192.0.2.1")->used, 10, 0.001);
    assert_int_equal(row_of("192.0.2.1")->limited, 9);
    assert_int_equal(row_of("192.0.2.1")->connections, 7);
    assert_null(row_of("192.0.2.2"));
}

static void ask(struct sketch *sketch, const char *address, double count)
{
    struct sketch_item item = {.key = address, .length = strlen(address), .count = count};

    sketch_add(sketch, SKETCH_BY_COUNT, &item);
}

static void clients_with_requests_come_before_connected_ones(void **state)
{
    static struct sketch sketch;

    (void)state;
    connect_to(0, 1, "192.0.2.1", 2);
    connect_to(0, 2, "192.0.2.8", 5);
    connect_to(2, 3, "192.0.2.9", 6);
    ask(&sketch, "192.0.2.7", 10);
    ask(&sketch, "192.0.2.1", 20);
    ask(&sketch, "unix:", 5);
    sketch_sort(&sketch, SKETCH_BY_COUNT);
    assert_int_equal(client_list_take(&list, &reader, NOW_NS), 0);
    assert_int_equal(clients_join(&clients, &sketch, &list), 0);
    assert_int_equal(clients.count, 5);
    assert_string_equal(clients.client[0].requests->key, "192.0.2.1");
    assert_int_equal(clients.client[0].row->connections, 2);
    assert_null(clients.client[1].row);
    assert_null(clients.client[2].row);
    assert_null(clients.client[3].requests);
    assert_int_equal(clients.client[3].row->connections, 6);
    assert_int_equal(clients.client[4].row->connections, 5);
    assert_int_equal(clients_join(&clients, &sketch, NULL), 0); /* a past moment */
    assert_int_equal(clients.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tables_of_workers_and_rate_limit_are_merged, begin, end),
        cmocka_unit_test_setup_teardown(clients_with_requests_come_before_connected_ones, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
