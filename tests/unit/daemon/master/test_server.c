/* The keys of session tickets: when they are rotated, and that the next master gets them. */
#include "daemon/master/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "daemon/tls/tickets.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { TIMEOUT_MS = 10000 };
#define START_NS (1000 * NS_PER_S)
#define HALF_NS  (TIMEOUT_MS / 2 * NS_PER_MS)

static struct config config = {.tls_session_timeout = TIMEOUT_MS};

static struct message_ticket_keys keys_of(const struct server *server)
{
    struct message_ticket_keys keys;

    memset(&keys, 0, sizeof(keys));
    tls_tickets_export(server->tickets, &keys);
    return keys;
}

static void keys_are_rotated_after_half_of_the_session_timeout(void **state)
{
    struct server server = {
        .config = &config, .tickets = tls_tickets_new(), .tickets_ns = START_NS};
    struct message_ticket_keys before, after;

    (void)state;
    assert_non_null(server.tickets);
    before = keys_of(&server);
    assert_false(server_rotate_tickets(&server, START_NS + HALF_NS - 1));
    assert_int_equal(keys_of(&server).count, before.count);
    assert_true(server_rotate_tickets(&server, START_NS + HALF_NS));
    after = keys_of(&server);
    assert_int_equal(after.count, before.count + 1);
    assert_memory_equal(&after.key[1], &before.key[0], sizeof(before.key[0]));
    assert_int_equal(server.tickets_ns, START_NS + HALF_NS);
    assert_false(server_rotate_tickets(&server, START_NS + 2 * HALF_NS - 1));
    assert_true(server_rotate_tickets(&server, START_NS + 2 * HALF_NS));
    tls_tickets_free(server.tickets);
}

static void server_without_tls_has_no_keys(void **state)
{
    struct server server = {.config = &config};

    (void)state;
    assert_false(server_rotate_tickets(&server, START_NS));
    assert_int_equal(server_save_tickets(&server), -1);
    server_restore_tickets(&server, -1);
    assert_null(server.tickets);
}

static void next_master_gets_keys_and_their_time(void **state)
{
    struct server old = {.config = &config, .tickets = tls_tickets_new(), .tickets_ns = START_NS},
                  next = {.config = &config};
    struct message_ticket_keys given, taken;
    int fd;

    (void)state;
    assert_non_null(old.tickets);
    fd = server_save_tickets(&old);
    assert_true(fd >= 0);
    server_restore_tickets(&next, fd);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_rotated_after_half_of_the_session_timeout),
        cmocka_unit_test(server_without_tls_has_no_keys),
        cmocka_unit_test(next_master_gets_keys_and_their_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
