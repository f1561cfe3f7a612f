/*
 * Entries of hosts through reloads, and what threads keep of their counts. Each configuration is a
 * list of names.
 */
#include "daemon/master/host_table.h"

#include "common/macros.h"
#include "common/segment_reader.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 8, ROOM = 5 };

static struct segment segment;
static struct host_table table;

struct names {
    const char *name[NAMES_MAX]; /* NULL at the end */
};

static int set_up(void **state)
{
    (void)state;
    table = (struct host_table){.entry = NULL};
    return own_segment_create(&segment,
                              (struct segment_plan){.max_threads = 2, .max_hosts = ROOM}) != 0 ||
           segment_reserve_thread(&segment, 0) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    host_table_free(&table);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void assign(const struct names *names)
{
    char *name[NAMES_MAX], why[256];
    struct config_host hosts[NAMES_MAX];
    struct config config = {.hosts = hosts};

    for (; names->name[config.host_count] != NULL; config.host_count++) {
        name[config.host_count] = (char *)(uintptr_t)names->name[config.host_count];
        hosts[config.host_count] =
            (struct config_host){.names = &name[config.host_count], .name_count = 1};
    }
    assert_int_equal(host_table_assign(&table, &segment, &config, why, sizeof(why)), 0);
}

static void reload(const struct names *names)
{
    assign(names);
    host_table_commit(&table, &segment);
}

/* The published names in the order of the entries, each followed by a blank; "-": not in use. */
static const char *published(void)
{
    static char text[ROOM * 64];
    struct host_totals totals;

    text[0] = '\0';
    for (uint32_t i = 0; i < ROOM; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
                 host_totals_read(&segment, i, &totals) ? totals.name : "-");
    return text;
}

static void claim(uint32_t thread)
{
    host_counts_claim(segment_host_counts_of(&segment, thread), table.place, table.count);
}

/* A request for the site NUMBER on thread 0. */
static void count(size_t number)
{
    host_counts_add(&segment_host_counts_of(&segment, 0)[table.place[number].entry], 200, 10, 1000);
}

static uint64_t requests_of(const char *name)
{
    struct host_totals totals;

    for (uint32_t i = 0; i < ROOM; i++)
        if (host_totals_read(&segment, i, &totals) && strcmp(totals.name, name) == 0)
            return host_totals_requests(&totals);
    fail_msg("no host %s", name);
    return 0;
}

TEST(hosts_keep_their_entries_through_reloads)
{
    reload(&(struct names){{"a", "b", NULL}});
    assert_string_equal(published(), "* a b - - ");
    claim(0);
    count(1);
    count(2);
    count(2);
    reload(&(struct names){{"b", "c", "a", NULL}});
    assert_string_equal(published(), "* a b c - ");
    claim(0);
    count(1); /* b is the first now */
    assert_int_equal(requests_of("a"), 1);
    assert_int_equal(requests_of("b"), 3);
    assert_int_equal(requests_of("c"), 0);
}

TEST(entry_of_a_removed_host_begins_at_zero)
{
    reload(&(struct names){{"a", "b", NULL}});
    claim(0);
    count(1);
    reload(&(struct names){{"b", NULL}});
    assert_string_equal(published(), "* - b - - ");
    reload(&(struct names){{"new", "b", NULL}});
    assert_string_equal(published(), "* new b - - ");
    count(1); /* by a worker of the old configuration, which has not claimed the entry */
    assert_int_equal(requests_of("new"), 0);
    claim(0);
    count(1);
    assert_int_equal(requests_of("new"), 1);
}

TEST(abandoned_reload_frees_its_entries)
{
    reload(&(struct names){{"a", "b", NULL}});
    claim(0);
    count(1);
    assign(&(struct names){{"c", "b", NULL}});
    assert_string_equal(published(), "* a b c - ");
    host_table_abandon(&table, &segment);
    assert_string_equal(published(), "* a b - - ");
    assert_int_equal(table.count, 3);
    count(1);
    assert_int_equal(requests_of("a"), 2);
}

TEST(hosts_may_come_and_go_altogether)
{
    reload(&(struct names){{NULL}});
    assert_null(table.place);
    assert_string_equal(published(), "- - - - - ");
    reload(&(struct names){{"a", NULL}});
    assert_string_equal(published(), "* a - - - ");
    reload(&(struct names){{NULL}});
    assert_null(table.place);
    assert_string_equal(published(), "- - - - - ");
    reload(&(struct names){{"b", NULL}});
    assert_string_equal(published(), "* b - - - ");
}

TEST(hosts_beyond_the_table_share_the_first_entry)
{
    reload(&(struct names){{"a", "b", "c", "d", "e", "f", NULL}});
    assert_string_equal(published(), "* a b c d ");
    assert_int_equal(table.place[5].entry, 0);
    assert_int_equal(table.place[6].entry, 0);
    claim(0);
    count(0);
    count(6);
    assert_int_equal(requests_of("*"), 2);
    reload(&(struct names){{"e", "f", NULL}});
    reload(&(struct names){{"e", "f", NULL}});
    assert_string_equal(published(), "* e f - - ");
}

/* The hosts a to e, of which WITH has a file of its own. */
static int assign_logs_of(const char *with, char *why, size_t size)
{
    char path[] = "/log", all[] = "/all", name[5][2], *names[5];
    struct config_host hosts[5];
    const struct config config = {
        .log_access = all, .hosts = hosts, .host_count = ARRAY_LENGTH(hosts)};
    struct log_targets targets;
    int result;

    for (size_t i = 0; i < ARRAY_LENGTH(hosts); i++) {
        memcpy(name[i], (const char[]){(char)('a' + i), '\0'}, 2);
        names[i] = name[i];
        hosts[i] = (struct config_host){
            .names = &names[i], .name_count = 1, .access_log = *with == name[i][0] ? path : all};
    }
    assert_int_equal(log_targets_make(&targets, &config), 0);
    result = host_table_assign_logs(&table, &config, &targets, why, size);
    for (uint32_t i = 0; i < ROOM && result == 0; i++)
        assert_int_equal(log_targets_of_entry(&targets, i), i == (uint32_t)(*with - 'a' + 1));
    log_targets_free(&targets);
    return result;
}

TEST(host_with_a_log_needs_an_entry_of_its_own)
{
    char why[256];

    reload(&(struct names){{"a", "b", "c", "d", "e", NULL}});
    assert_int_equal(assign_logs_of("a", why, sizeof(why)), 0);
    assert_int_equal(assign_logs_of("d", why, sizeof(why)), 0);
    assert_int_equal(assign_logs_of("e", why, sizeof(why)), -1);
    assert_string_equal(why,
                        "[host e] cannot have an access_log: the table of hosts has 5 entries, "
                        "and a restart or an upgrade makes another one (at most 16384)");
}

TEST(room_is_twice_the_hosts)
{
    static const struct {
        size_t hosts;
        uint32_t room;
    } cases[] = {{0, 64}, {31, 64}, {32, 66}, {1000, 2002}, {100000, SEGMENT_HOSTS_MAX}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(host_table_room(&(struct config){.host_count = cases[i].hosts}),
                         cases[i].room);
}
