/* Lists: events by kind, cache entries, clients by address, certificates. */
#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "console/data/lists.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <string.h>

#define NOW_NS (1000 * NS_PER_S)

static struct segment segment;
static struct segment_reader reader;
static struct event_list *events;
static const struct event_row *rows[EVENT_LIST_SINGLE];
static struct cache_list cache;
static struct client_list connected;
static struct clients clients;
static struct certificate_list certificates;

static int begin(void **state)
{
    (void)state;
    if (own_segment_create(&segment,
                           (struct segment_plan){.max_workers = 3, .cache_entries = 16}) != 0)
        return -1;
    segment_reserve_worker(&segment, 0);
    segment_reserve_worker(&segment, 2);
    segment_publish(&segment);
    events = event_list_create();
    return segment_attach_copy(&reader, segment.base, segment.size) != NULL || events == NULL;
}

static int end(void **state)
{
    (void)state;
    event_list_destroy(events);
    cache_list_release(&cache);
    client_list_release(&connected);
    clients_release(&clients);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

/* Events */

static void event(uint64_t second, enum level level, const char *text)
{
    struct event_record record = {
        .time_ns = second * NS_PER_S, .level = (uint8_t)level, .role = ROLE_MASTER, .pid = 7};

    snprintf(record.text, sizeof(record.text), "%s", text);
    event_list_add(events, &record);
}

static size_t kinds(enum level min_level, uint64_t until_s)
{
    return event_list_rows(events, false, min_level, until_s * NS_PER_S, rows, ARRAY_LENGTH(rows));
}

TEST(events_that_differ_in_numbers_are_one_kind)
{
    event(10, LEVEL_ERROR, "worker 0 (pid 120) was killed: starting another");
    event(11, LEVEL_INFO, "stopping");
    event(12, LEVEL_ERROR, "worker 1 (pid 7) was killed: starting another");
    event(13, LEVEL_WARN, "worker 1 (pid 7) was killed: starting another");
    assert_int_equal(kinds(LEVEL_DEBUG, 20), 3);
    assert_int_equal(rows[0]->level, LEVEL_WARN);
    assert_int_equal(rows[1]->count, 2);
    assert_int_equal(rows[1]->first_ns, 10 * NS_PER_S);
    assert_int_equal(rows[1]->last_ns, 12 * NS_PER_S);
    assert_string_equal(rows[1]->text, "worker 1 (pid 7) was killed: starting another");
    assert_int_equal(kinds(LEVEL_WARN, 20), 2);
    assert_int_equal(kinds(LEVEL_DEBUG, 10), 1);
    assert_int_equal(event_list_total(events, LEVEL_ERROR), 2);
}

TEST(single_events_are_newest_first)
{
    for (uint64_t i = 0; i < EVENT_LIST_SINGLE + 10; i++)
        event(100 + i, LEVEL_INFO, "again");
    assert_int_equal(
        event_list_rows(events, true, LEVEL_INFO, UINT64_MAX, rows, ARRAY_LENGTH(rows)),
        EVENT_LIST_SINGLE);
    assert_int_equal(rows[0]->last_ns, (100 + EVENT_LIST_SINGLE + 9) * NS_PER_S);
    assert_int_equal(rows[EVENT_LIST_SINGLE - 1]->last_ns, 110 * NS_PER_S);
    assert_int_equal(event_list_rows(events, true, LEVEL_WARN, UINT64_MAX, rows, 10), 0);
    assert_int_equal(kinds(LEVEL_INFO, 99999), 1);
    assert_int_equal(rows[0]->count, EVENT_LIST_SINGLE + 10);
}

TEST(oldest_kind_is_replaced)
{
    char text[EVENT_TEXT_BYTES];

    for (uint64_t i = 0; i < EVENT_LIST_KINDS + 1; i++) {
        snprintf(text, sizeof(text), "kind %c%c", (char)('a' + i / 26), (char)('a' + i % 26));
        event(100 + i, LEVEL_INFO, text);
    }
    assert_int_equal(kinds(LEVEL_INFO, 99999), EVENT_LIST_KINDS);
    assert_string_equal(rows[EVENT_LIST_KINDS - 1]->text, "kind ab");
}

/* Cache entries */

static void add(const char *path, uint64_t bytes, uint64_t hits, uint64_t stored_ns)
{
    struct cache_copy copy = {
        .id = 1, .stored_ns = stored_ns, .bytes = bytes, .state = CACHE_SLOT_LIVE};

    snprintf(copy.path, sizeof(copy.path), "%s", path);
    assert_int_equal(cache_list_add(&cache, &copy, hits), 0);
}

static void assert_order(enum cache_order order, bool reversed, const char *expected)
{
    const struct cache_row *sorted[8];
    char paths[8 * sizeof(sorted[0]->path)] = "";

    cache_list_sort(&cache, order, reversed, sorted);
    for (size_t i = 0; i < cache.count; i++)
        strcat(paths, sorted[i]->path);
    assert_string_equal(paths, expected);
}

TEST(copies_of_a_path_are_merged_and_sorted)
{
    add("/b", 100, 5, 30);
    add("/a", 300, 1, 10);
    add("/c", 50, 9, 20);
    add("/b", 150, 6, 25);
    cache_list_finish(&cache);
    assert_int_equal(cache.count, 3);
    assert_int_equal(cache.bytes, 600);
    assert_int_equal(cache.rows[1].copies, 2);
    assert_int_equal(cache.rows[1].hits, 11);
    assert_int_equal(cache.rows[1].stored_ns, 25);
    assert_order(CACHE_BY_HITS, false, "/b/c/a");
    assert_order(CACHE_BY_SIZE, false, "/a/b/c");
    assert_order(CACHE_BY_AGE, false, "/b/c/a");
    assert_order(CACHE_BY_PATH, false, "/a/b/c");
    assert_order(CACHE_BY_PATH, true, "/c/b/a");
}

TEST(empty_cache_is_an_empty_list)
{
    cache_list_finish(&cache);
    assert_int_equal(cache.count, 0);
    cache_list_sort(&cache, CACHE_BY_HITS, false, NULL);
}

static void store(uint32_t slot, uint32_t state, const char *path)
{
    struct segment_cache_entry *entry = &segment_cache(&segment, 0)[slot];

    atomic_store(&entry->id, slot + 1);
    atomic_store(&entry->bytes, 10);
    atomic_store(&entry->state, state);
    segment_store_text(entry->path, SEGMENT_CACHE_PATH_WORDS, path, strlen(path));
}

TEST(tables_of_a_segment_are_read)
{
    store(3, CACHE_SLOT_LIVE, "/caf\xc3\xa9");
    store(9, CACHE_SLOT_STALE, "/y\x01");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cache_list_take(&cache, &reader, 7), 0);
        assert_int_equal(cache.count, 2);
        assert_string_equal(cache.rows[1].path, "/y\x01");
        assert_string_equal(cache.rows[1].text, "/y\\x01");
        assert_string_equal(cache.rows[0].text, "/caf\xc3\xa9");
        assert_int_equal(cache.rows[1].stale, 1);
        assert_int_equal(cache.bytes, 20);
    }
}

/* Clients */

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
    return client_list_find(&connected, client_key_parse(address));
}

TEST(tables_of_workers_and_rate_limit_are_merged)
{
    connect_to(0, 7, "192.0.2.1", 3);
    connect_to(2, 4095, "192.0.2.1", 4);
    connect_to(2, 1, "192.0.2.2", 0); /* disconnected */
    use_up(5, "192.0.2.1", NOW_NS + NS_PER_S / 2, 9);
    use_up(6, "192.0.2.3", NOW_NS - 1, 0);            /* has its full burst again */
    use_up(7, "192.0.2.4", SEGMENT_RATE_CHANGING, 1); /* being replaced */
    assert_int_equal(client_list_take(&connected, &reader, NOW_NS), 0);
    assert_false(connected.limits);
    assert_int_equal(connected.count, 1); /* rate limit off: its table is ignored */
    assert_int_equal(row_of("192.0.2.1")->connections, 7);
    limit(20, 30);
    assert_int_equal(client_list_take(&connected, &reader, NOW_NS), 0);
    assert_true(connected.limits);
    assert_int_equal(connected.count, 1);
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

TEST(clients_with_requests_come_before_connected_ones)
{
    static struct sketch sketch;

    connect_to(0, 1, "192.0.2.1", 2);
    connect_to(0, 2, "192.0.2.8", 5);
    connect_to(2, 3, "192.0.2.9", 6);
    ask(&sketch, "192.0.2.7", 10);
    ask(&sketch, "192.0.2.1", 20);
    ask(&sketch, "unix:", 5);
    sketch_sort(&sketch, SKETCH_BY_COUNT);
    assert_int_equal(client_list_take(&connected, &reader, NOW_NS), 0);
    assert_int_equal(clients_join(&clients, &sketch, &connected), 0);
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

/* Certificates */

static void take_certificate(const struct certificate_copy *copy)
{
    segment_store_certificate(&segment, 0, copy);
    segment_store_certificate_count(&segment, 1);
    certificate_list_take(&certificates, &reader);
    assert_int_equal(certificates.count, 1);
}

TEST(control_characters_become_question_marks)
{
    take_certificate(
        &(struct certificate_copy){.names = "a.example\x1b]0;title\a",
                                   .issuer = "/CN=\x1b[31mred\x7f",
                                   .error = "refused\r\n\t\x1b[2J\x1b[H\b\x01 at last"});
    assert_string_equal(certificates.row[0].names, "a.example?]0;title?");
    assert_string_equal(certificates.row[0].issuer, "/CN=?[31mred?");
    assert_string_equal(certificates.row[0].error, "refused????[2J?[H?? at last");
}

TEST(no_control_character_is_left_in_any_place)
{
    struct certificate_copy copy = {.names = "a.example", .issuer = "/CN=A"};

    for (size_t i = 0; i + 1 < sizeof(copy.error); i++)
        copy.error[i] = (char)(i % ' ' + 1);
    take_certificate(&copy);
    assert_int_equal(strlen(certificates.row[0].error), sizeof(copy.error) - 1);
    for (size_t i = 0; i + 1 < sizeof(copy.error); i++)
        assert_true(certificates.row[0].error[i] >= ' ');
}

TEST(other_text_is_unchanged)
{
    take_certificate(
        &(struct certificate_copy){.names = "a.example b.example",
                                   .issuer = "/O=Ünder/CN=X 1",
                                   .error = "answers 429: zu viele Aufträge (rateLimited) ~",
                                   .failures = 3});
    assert_string_equal(certificates.row[0].names, "a.example b.example");
    assert_string_equal(certificates.row[0].issuer, "/O=Ünder/CN=X 1");
    assert_int_equal(certificates.row[0].failures, 3);
    assert_string_equal(certificates.row[0].error,
                        "answers 429: zu viele Aufträge (rateLimited) ~");
}
