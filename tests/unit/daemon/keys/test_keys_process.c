/* Links from the keys process to a worker: what it receives, and that a failure leaves no descriptor open. */
#include "daemon/keys/process.h"
#include "daemon/tls/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SET = 7, KEYS = 2, WORKER = 3 };

static int keys_fd; /* stands for the file of the keys */

/* The linker puts these in the place of those of context.c (--wrap). */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
uint32_t __wrap_tls_context_number(const struct tls_context *context);
uint32_t __wrap_tls_context_key_count(const struct tls_context *context);
int __wrap_tls_context_keys(const struct tls_context *context);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

uint32_t __wrap_tls_context_number(const struct tls_context *context)
{
    (void)context;
    return SET;
}

uint32_t __wrap_tls_context_key_count(const struct tls_context *context)
{
    (void)context;
    return KEYS;
}

int __wrap_tls_context_keys(const struct tls_context *context)
{
    (void)context;
    return keys_fd;
}

struct scene {
    struct keys_process process; /* as the master sees it */
    int other_fd;                /* the other end of its channel, which takes the messages */
    int sets, clients;           /* messages received there */
    int link_fd;                 /* received with the last one */
};

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct scene *scene = owner;

    (void)length;
    assert_true(fd >= 0);
    if (kind == MESSAGE_KEYS_SET) {
        const struct message_keys_set *set = data;

        assert_int_equal(set->set, SET);
        assert_int_equal(set->count, KEYS);
        assert_int_equal(scene->clients, 0);
        scene->sets++;
        close(fd);
    } else {
        const struct message_keys_client *client = data;

        assert_int_equal(kind, MESSAGE_KEYS_CLIENT);
        assert_int_equal(client->set, SET);
        assert_int_equal(client->worker, WORKER);
        assert_int_equal(client->pid, getpid());
        scene->clients++;
        scene->link_fd = fd;
    }
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("a fault: it %s", what);
}

static struct channel *open_end(struct scene *scene, int fd, enum message_route receives)
{
    const struct channel_owner owner = {
        .message = on_message, .closed = child_ignore_closed, .fault = on_fault, .owner = scene};
    struct channel *channel = channel_open(scene->process.base, fd, receives, &owner);

    assert_non_null(channel);
    return channel;
}

static void open_scene(struct scene *scene)
{
    int fds[2];

    *scene = (struct scene){.process.base = event_base_new(), .link_fd = -1};
    assert_non_null(scene->process.base);
    assert_int_equal(channel_pair(fds), 0);
    scene->process.child.channel = open_end(scene, fds[0], ROUTE_KEYS_REPORTS);
    scene->other_fd = fds[1];
    keys_fd = memfd_create("keys", MFD_CLOEXEC);
    assert_true(keys_fd >= 0);
}

static void close_scene(const struct scene *scene)
{
    channel_close(scene->process.child.channel);
    event_base_free(scene->process.base);
    close(keys_fd);
}

static size_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static int link_worker(const struct scene *scene)
{
    return keys_process_link(&scene->process, NULL, WORKER, getpid());
}

static void link_has_two_ends_and_its_keys_come_first(void **state)
{
    struct channel *other;
    struct scene scene;
    char byte = 'x';
    int fd;

    (void)state;
    open_scene(&scene);
    other = open_end(&scene, scene.other_fd, ROUTE_KEYS_ORDERS);
    fd = link_worker(&scene);
    assert_true(fd >= 0);
    while (scene.clients == 0)
        assert_int_equal(event_base_loop(scene.process.base, EVLOOP_ONCE), 0);
    assert_int_equal(scene.sets, 1);
    assert_int_equal(send(fd, &byte, 1, 0), 1);
    assert_int_equal(recv(scene.link_fd, &byte, 1, 0), 1);
    close(fd);
    close(scene.link_fd);
    channel_close(other);
    close_scene(&scene);
}

static void failed_link_leaves_no_descriptor_open(void **state)
{
    struct scene scene;
    size_t before;

    (void)state;
    open_scene(&scene);
    close(scene.other_fd);
    before = count_descriptors();
    assert_int_equal(link_worker(&scene), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(count_descriptors(), before);
    close_scene(&scene);
}

static void must_not_fork(void *context)
{
    (void)context;
    fail_msg("a second process was started");
}

/* The caller gives all workers new links to a process that was started. */
static void process_that_runs_is_not_started_again(void **state)
{
    struct scene scene;
    struct keys_setup setup = {.command_fd = -1};

    (void)state;
    open_scene(&scene);
    scene.process.child.pid = getpid();
    scene.process.pinged_ns = 1;
    assert_false(keys_process_start(&scene.process, &setup, must_not_fork, NULL));
    assert_int_equal(scene.process.pinged_ns, 1);
    assert_int_equal(setup.command_fd, -1);
    close(scene.other_fd);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_has_two_ends_and_its_keys_come_first),
        cmocka_unit_test(failed_link_leaves_no_descriptor_open),
        cmocka_unit_test(process_that_runs_is_not_started_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
