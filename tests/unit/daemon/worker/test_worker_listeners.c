/* Which thread has which listen socket of a worker. */
#include "daemon/worker/listeners.h"

#include "daemon/base/events.h"
#include "daemon/connection/listen_socket.h"
#include "tests/unit/open_descriptors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 3, IDS = 64, NOBODY = -1 };

/* Stands for that of listen_socket.c: an assignment. */
struct listen_socket {
    uint32_t id, thread;
    bool revoked;
};

static struct serving_thread *threads[THREADS]; /* only their addresses are used */
static struct worker_listeners listeners;
static ino_t file_of_id[IDS];
static struct listen_socket assigned[4 * IDS];
static int assignments, revocations, events;
static bool assign_fails, out_of_memory;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
PRINTF_LIKE(2, 3) void __wrap_event_log(enum level level, const char *format, ...);
struct listen_socket *__wrap_listen_socket_assign(struct event_loop *loop, int fd, uint8_t opening);
void __wrap_listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

void __wrap_event_log(enum level level, const char *format, ...)
{
    (void)format;
    assert_int_equal(level, LEVEL_ERROR);
    events++;
}

static uint32_t thread_of(const struct event_loop *loop)
{
    uint32_t thread = 0;

    while (thread < THREADS && loop != &threads[thread]->loop)
        thread++;
    assert_true(thread < THREADS);
    return thread;
}

struct listen_socket *__wrap_listen_socket_assign(struct event_loop *loop, int fd, uint8_t opening)
{
    struct stat file;
    uint32_t id = 0;

    assert_int_equal(fstat(fd, &file), 0);
    close(fd);
    if (assign_fails)
        return NULL;
    while (id < IDS && file_of_id[id] != file.st_ino)
        id++;
    assert_true(id < IDS);
    assert_int_equal(opening, id % (OPENING_ALL + 1));
    assigned[assignments] = (struct listen_socket){.id = id, .thread = thread_of(loop)};
    return &assigned[assignments++];
}

void __wrap_listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener)
{
    assert_int_equal(listener->thread, thread_of(loop));
    assert_false(listener->revoked);
    listener->revoked = true;
    revocations++;
}

void *__wrap_realloc(void *memory, size_t size)
{
    return out_of_memory ? NULL : __real_realloc(memory, size);
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        threads[i] = calloc(1, sizeof(*threads[i]));
        if (threads[i] == NULL)
            return -1;
    }
    listeners = (struct worker_listeners){.item = NULL};
    memset(file_of_id, 0, sizeof(file_of_id));
    assignments = revocations = events = 0;
    assign_fails = out_of_memory = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    worker_listeners_drop_all(&listeners);
    free(listeners.item);
    for (int i = 0; i < THREADS; i++)
        free(threads[i]);
    return 0;
}

static bool add(uint32_t row, uint32_t id)
{
    const struct message_listen_socket message = {
        .id = id, .row = row, .opening = (uint8_t)(id % (OPENING_ALL + 1))};
    int fd = memfd_create("socket", MFD_CLOEXEC);
    struct stat file;

    assert_int_equal(fstat(fd, &file), 0);
    file_of_id[id] = file.st_ino;
    return worker_listeners_add(&listeners, &message, fd);
}

static void assign(uint32_t count)
{
    worker_listeners_assign(&listeners, threads, count);
}

/* The thread that the socket with ID is assigned to. */
static int owner_of(uint32_t id)
{
    int owner = NOBODY;

    for (int i = 0; i < assignments; i++)
        if (assigned[i].id == id && !assigned[i].revoked)
            owner = (int)assigned[i].thread;
    return owner;
}

/* Ids 1 to 5, in the rows 0, 0, 1, 2 and 7. */
static void add_five(void)
{
    assert_true(add(2, 4));
    assert_true(add(0, 2));
    assert_true(add(7, 5));
    assert_true(add(0, 1));
    assert_true(add(1, 3));
}

static void expect_owners(int one, int two, int three, int four, int five)
{
    assert_int_equal(owner_of(1), one);
    assert_int_equal(owner_of(2), two);
    assert_int_equal(owner_of(3), three);
    assert_int_equal(owner_of(4), four);
    assert_int_equal(owner_of(5), five);
}

static void rows_are_assigned_to_the_threads_in_turn(void **state)
{
    (void)state;
    add_five();
    assign(0);
    assert_int_equal(assignments, 0);
    assign(2);
    expect_owners(0, 0, 1, 0, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(assigned[i].id, i + 1); /* by row, then by id */
    assert_int_equal(assignments, 5);
    assert_int_equal(revocations, 0);
    assert_int_equal(events, 0);
}

static void only_sockets_that_change_their_thread_are_revoked(void **state)
{
    (void)state;
    add_five();
    assign(2);
    assign(2);
    assert_int_equal(assignments, 5);
    assign(3);
    expect_owners(0, 0, 1, 2, 0);
    assert_int_equal(assignments, 7);
    assert_int_equal(revocations, 2);
}

/* It closes them itself. */
static void sockets_of_an_exiting_thread_are_not_revoked(void **state)
{
    (void)state;
    add_five();
    assign(3);
    assign(2);
    assert_int_equal(revocations, 1); /* 5, from 0 to 1 */
    assert_int_equal(owner_of(4), 0);
    assert_int_equal(owner_of(5), 1);
    worker_listeners_drop(&listeners, 3, threads, 1); /* of thread 1 */
    assert_int_equal(revocations, 1);
}

static void many_sockets_are_kept_in_order(void **state)
{
    (void)state;
    for (uint32_t id = IDS; id-- > 0;)
        assert_true(add(id / 2, id));
    assign(THREADS);
    assert_int_equal(assignments, IDS);
    for (uint32_t id = 0; id < IDS; id++) {
        assert_int_equal(assigned[id].id, id);
        assert_int_equal(assigned[id].thread, id / 2 % THREADS);
    }
}

static void dropped_socket_is_revoked_and_closed(void **state)
{
    int descriptors;

    (void)state;
    add_five();
    assign(2);
    descriptors = open_descriptors();
    worker_listeners_drop(&listeners, 9, threads, 2); /* unknown */
    assert_int_equal(open_descriptors(), descriptors);
    worker_listeners_drop(&listeners, 1, threads, 2);
    worker_listeners_drop(&listeners, 3, threads, 2);
    expect_owners(NOBODY, 0, NOBODY, 0, 1);
    assert_int_equal(open_descriptors(), descriptors - 2);
    assert_int_equal(listeners.count, 3);
    assign(2); /* the rows 0, 2 and 7 are left */
    expect_owners(NOBODY, 0, NOBODY, 1, 0);
    worker_listeners_drop_all(&listeners);
    assert_int_equal(open_descriptors(), descriptors - 5);
    assert_int_equal(listeners.count, 0);
}

static void failed_assignment_is_repeated(void **state)
{
    struct rlimit before, none;

    (void)state;
    assert_true(add(0, 1));
    assign_fails = true;
    assign(1);
    assert_int_equal(events, 1);
    assign_fails = false;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assign(1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(events, 2);
    assert_int_equal(assignments, 0);
    assign(1);
    assert_int_equal(owner_of(1), 0);
    assign(1);
    assert_int_equal(assignments, 1);
    assert_int_equal(events, 2);
    assert_int_equal(revocations, 0);
}

static void socket_without_memory_is_closed(void **state)
{
    int descriptors;

    (void)state;
    for (uint32_t id = 0; id < 16; id++)
        assert_true(add(0, id));
    descriptors = open_descriptors();
    out_of_memory = true;
    assert_false(add(0, 16));
    out_of_memory = false;
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(listeners.count, 16);
    assert_int_equal(events, 1);
    assert_true(add(0, 17));
    assert_int_equal(listeners.count, 17);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_are_assigned_to_the_threads_in_turn),
        TEST(only_sockets_that_change_their_thread_are_revoked),
        TEST(sockets_of_an_exiting_thread_are_not_revoked),
        TEST(many_sockets_are_kept_in_order),
        TEST(dropped_socket_is_revoked_and_closed),
        TEST(failed_assignment_is_repeated),
        TEST(socket_without_memory_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
