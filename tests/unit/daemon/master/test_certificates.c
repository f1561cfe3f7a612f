/*
 * The table of certificates in shared memory; renewed certificates; when the keys of session tickets are rotated, and
 * that the next master gets them.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/tickets.h"
#include "tests/test.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/own_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DAY_S = 86400 };

static struct config config;
static struct master master;
static uint32_t ending; /* certificates that end soon */

static int begin(void **state)
{
    (void)state;
    config = (struct config){.acme_enabled = false};
    master = (struct master){.config = &config};
    return own_segment_create(&master.segment, (struct segment_plan){0});
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&master.segment);
    return 0;
}

static void publish(const struct tls_description *all, size_t count)
{
    struct certificate_table table = {.master = &master};

    for (size_t i = 0; i < count; i++)
        certificates_publish_one(&table, &all[i]);
    segment_store_certificate_count(&master.segment, table.count);
    ending = table.ending;
}

static struct certificate_copy entry(uint32_t number)
{
    struct certificate_copy copy;

    assert_true(segment_read_certificate(&master.segment, number, &copy));
    return copy;
}

TEST_WITH(names_of_a_certificate_are_joined, begin, end)
{
    char *names[] = {"a.example", "b.example", "c.example"};
    const struct tls_description all[] = {
        {.issuer = "CA", .name = names, .name_count = 3, .not_before_s = 1, .not_after_s = 2},
        {.issuer = "", .name = names + 2, .name_count = 1}};
    struct certificate_copy copy;

    publish(all, ARRAY_LENGTH(all));
    copy = entry(0);
    assert_string_equal(copy.names, "a.example b.example c.example");
    assert_string_equal(copy.issuer, "CA");
    assert_int_equal(copy.not_before_s, 1);
    assert_int_equal(copy.not_after_s, 2);
    assert_int_equal(copy.next_attempt_s, 0);
    assert_string_equal(copy.error, "");
    assert_string_equal(entry(1).names, "c.example");
    assert_false(segment_read_certificate(&master.segment, 2, &copy));
}

/* Both names with a blank fill the entry and its NUL, or need one byte more. */
TEST_WITH(name_that_does_not_fit_is_left_out, begin, end)
{
    char first[sizeof(entry(0).names)], longer[sizeof(first) + 10],
        *names[] = {first, "b.example"}, *long_name[] = {longer, "b.example"};
    const struct tls_description two = {.issuer = "", .name = names, .name_count = 2},
                                 one = {.issuer = "", .name = long_name, .name_count = 2};

    memset(first, 'a', sizeof(first));
    first[sizeof(first) - 1 - strlen(" b.example")] = '\0';
    publish(&two, 1);
    assert_int_equal(strlen(entry(0).names), sizeof(first) - 1);
    assert_string_equal(entry(0).names + strlen(first), " b.example");
    first[strlen(first)] = 'a';
    first[sizeof(first) - strlen(" b.example")] = '\0';
    publish(&two, 1);
    assert_string_equal(entry(0).names, first);
    memset(longer, 'l', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    publish(&one, 1);
    assert_int_equal(strlen(entry(0).names), sizeof(first) - 1);
}

TEST_WITH(certificates_that_end_soon_are_counted, begin, end)
{
    static const struct {
        int64_t days, left_days;
        bool ends;
    } cases[] = {
        {90, 13, true}, {90, 15, false}, {30, 11, false}, {30, 9, true}, {90, -1, true},
    };
    int64_t now_s = (int64_t)(clock_wall_ns() / NS_PER_S);

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const int64_t end_s = now_s + cases[i].left_days * DAY_S + DAY_S / 2;
        const struct tls_description one = {
            .issuer = "", .not_before_s = end_s - cases[i].days * DAY_S, .not_after_s = end_s};

        publish(&one, 1);
        assert_int_equal(ending, cases[i].ends);
    }
    publish(NULL, 0);
    assert_int_equal(ending, 0);
}

TEST_WITH(table_has_a_maximum, begin, end)
{
    static struct tls_description many[SEGMENT_CERTIFICATES_MAX + 2];
    struct certificate_copy copy;

    for (size_t i = 0; i < ARRAY_LENGTH(many); i++)
        many[i] = (struct tls_description){.issuer = "", .not_after_s = 1};
    publish(many, ARRAY_LENGTH(many));
    assert_true(segment_read_certificate(&master.segment, SEGMENT_CERTIFICATES_MAX - 1, &copy));
    assert_false(segment_read_certificate(&master.segment, SEGMENT_CERTIFICATES_MAX, &copy));
    assert_int_equal(ending, SEGMENT_CERTIFICATES_MAX + 2);
}

TEST_WITH(plan_of_its_only_name_is_shown, begin, end)
{
    char *configured[] = {"a.example", "b.example"}, *names[] = {"B.example", "c.example"};
    struct acme_plan plan[] = {
        {.known = true, .next_s = 10},
        {.known = true, .next_s = 20, .failures = 3, .error = "refused"},
    };
    struct tls_description one = {.issuer = "", .name = names, .name_count = 1};

    config.acme_names = (struct config_words){configured, ARRAY_LENGTH(configured)};
    master.certificates.process.plan = plan;
    master.certificates.process.plan_count = ARRAY_LENGTH(plan);
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 20);
    assert_int_equal(entry(0).failures, 3);
    assert_string_equal(entry(0).error, "refused");
    one.name_count = 2;
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 0);
    one.name_count = 1;
    plan[1].known = false;
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 0);
    plan[1].known = true;
    master.certificates.process.plan_count = 1; /* of the configuration before */
    publish(&one, 1);
    assert_int_equal(entry(0).next_attempt_s, 0);
}

/* The keys of session tickets */

enum { TIMEOUT_MS = 10000 };
#define START_NS (1000 * NS_PER_S)
#define HALF_NS  (TIMEOUT_MS / 2 * NS_PER_MS)

static struct config tickets_config = {.tls_session_timeout = TIMEOUT_MS};

static struct message_ticket_keys keys_of(const struct certificates *certificates)
{
    struct message_ticket_keys keys;

    memset(&keys, 0, sizeof(keys));
    tls_tickets_export(certificates->tickets, &keys);
    return keys;
}

TEST(keys_are_rotated_after_half_of_the_session_timeout)
{
    struct master own = {.config = &tickets_config,
                         .certificates = {.tickets = tls_tickets_new(), .tickets_ns = START_NS}};
    const struct certificates *certificates = &own.certificates;
    struct message_ticket_keys before, after;

    assert_non_null(certificates->tickets);
    before = keys_of(certificates);
    certificates_rotate_tickets(&own, START_NS + HALF_NS - 1);
    assert_int_equal(keys_of(certificates).count, before.count);
    certificates_rotate_tickets(&own, START_NS + HALF_NS);
    after = keys_of(certificates);
    assert_int_equal(after.count, before.count + 1);
    assert_memory_equal(&after.key[1], &before.key[0], sizeof(before.key[0]));
    assert_int_equal(certificates->tickets_ns, START_NS + HALF_NS);
    certificates_rotate_tickets(&own, START_NS + 2 * HALF_NS - 1);
    assert_int_equal(certificates->tickets_ns, START_NS + HALF_NS);
    certificates_rotate_tickets(&own, START_NS + 2 * HALF_NS);
    assert_int_equal(certificates->tickets_ns, START_NS + 2 * HALF_NS);
    tls_tickets_free(certificates->tickets);
}

TEST(master_without_tls_has_no_keys)
{
    struct master own = {.config = &tickets_config};

    certificates_rotate_tickets(&own, START_NS);
    assert_int_equal(certificates_save_tickets(&own.certificates), -1);
    certificates_restore_tickets(&own.certificates, -1);
    assert_null(own.certificates.tickets);
}

TEST(next_master_gets_keys_and_their_time)
{
    struct certificates old = {.tickets = tls_tickets_new(), .tickets_ns = START_NS}, next = {0};
    struct message_ticket_keys given, taken;
    int fd;

    assert_non_null(old.tickets);
    fd = certificates_save_tickets(&old);
    assert_true(fd >= 0);
    certificates_restore_tickets(&next, fd);
    assert_non_null(next.tickets);
    assert_int_equal(next.tickets_ns, START_NS);
    given = keys_of(&old);
    taken = keys_of(&next);
    assert_memory_equal(&taken, &given, sizeof(given));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    tls_tickets_free(old.tickets);
    tls_tickets_free(next.tickets);
}

/* Renewals: the master does not wait for the children that check certificates */

static struct self_signed files;
static char *certificate_files[] = {files.certificate}, *key_files[] = {files.key};

static int begin_renewals(void **state)
{
    char why[512];

    if (begin(state) != 0)
        return -1;
    own_directory_make();
    config = (struct config){.tls_certificate = {certificate_files, 1},
                             .tls_key = {key_files, 1},
                             .server_user = (char *)"",
                             .server_group = (char *)""};
    master.life.state = LIFE_serving;
    master.base = event_base_new();
    if (sandbox_prepare() != 0 || master.base == NULL ||
        self_signed_write(&files, own_directory, "a.example", why, sizeof(why)) != 0)
        return -1;
    master.certificates.set = certificate_set_load(&config, -1, why, sizeof(why));
    return master.certificates.set != NULL ? 0 : -1;
}

static int end_renewals(void **state)
{
    certificates_free(&master.certificates);
    certificate_set_free(master.certificates.set);
    event_base_free(master.base);
    return own_directory_remove() == 0 ? end(state) : -1;
}

/* As the event loop of the master does, up to the last check. */
static void await_checks(void)
{
    while (master.certificates.checks != NULL)
        assert_int_equal(event_base_loop(master.base, EVLOOP_ONCE), 0);
}

TEST_WITH(renewed_certificates_are_used_after_their_checks, begin_renewals, end_renewals)
{
    struct certificate_set *before = master.certificates.set;
    uint32_t number = certificate_set_number(before);

    assert_true(certificates_renew(&master));
    assert_non_null(master.certificates.checks);
    assert_ptr_equal(master.certificates.set, before); /* the child may not even have begun */
    assert_false(certificates_renew(&master));
    assert_false(reload_renew(&master, RENEWAL_USERS));
    await_checks();
    assert_true(certificate_set_number(master.certificates.set) > number);
    assert_false(master.certificates.pending);
}

TEST_WITH(unusable_certificates_change_nothing, begin_renewals, end_renewals)
{
    const struct certificate_set *before = master.certificates.set;

    assert_int_equal(truncate(files.certificate, 0), 0);
    assert_true(certificates_renew(&master));
    await_checks();
    assert_ptr_equal(master.certificates.set, before);
    unlink(files.certificate);
    assert_true(certificates_renew(&master));
    assert_null(master.certificates.checks);
    assert_ptr_equal(master.certificates.set, before);
}

/* The supervisor reaps all children of the master. */
TEST_WITH(check_that_was_reaped_counts, begin_renewals, end_renewals)
{
    const struct certificate_set *before = master.certificates.set;
    int status;
    pid_t pid;

    assert_true(certificates_renew(&master));
    pid = waitpid(-1, &status, 0);
    assert_true(certificates_reaped(&master.certificates, pid, status));
    assert_false(certificates_reaped(&master.certificates, pid, status));
    await_checks();
    assert_ptr_not_equal(master.certificates.set, before);
    assert_false(certificates_reaped(&master.certificates, pid, status));
}

/* A reload loads all certificates; if it fails, they are loaded later. */
TEST_WITH(abandoned_checks_are_pending, begin_renewals, end_renewals)
{
    const struct certificate_set *before = master.certificates.set;

    assert_true(certificates_renew(&master));
    certificates_abandon_checks(&master.certificates);
    assert_null(master.certificates.checks);
    assert_true(master.certificates.pending);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_ptr_equal(master.certificates.set, before);
    assert_true(certificates_renew(&master));
    master.reload.waiting = true;
    await_checks();
    assert_true(master.certificates.pending);
    assert_ptr_equal(master.certificates.set, before);
}
