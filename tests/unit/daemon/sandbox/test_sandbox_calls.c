/*
 * The calls by which sandbox.c restricts a process, on kernels with any version of Landlock.
 * Neither Landlock nor seccomp is real here, so a process can look at itself after it has entered.
 */
#include "daemon/sandbox/sandbox.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILT false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BUILT false
#endif
#endif
#ifndef BUILT
#define BUILT true
#endif

enum { RULES_MAX = 8, DESCRIPTORS_MAX = 128 };

/* landlock(7): the sizes of struct landlock_ruleset_attr, and all rights, by version. */
enum { SIZE_1 = 8, SIZE_4 = 16, SIZE_6 = 24, TRUNCATE = 1 << 14 };

/* Rights of a file below a directory that may be read or written. */
enum {
    READS = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    WRITES = READS | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
             LANDLOCK_ACCESS_FS_REMOVE_FILE,
};

/* The kernel of a test. */
static struct kernel {
    int landlock;                      /* version; 0: none */
    unsigned int seccomp;              /* API level of libseccomp */
    int ruleset, rule, restrict_self;  /* errors of these calls; 0: they succeed */
    int filter, close_range, identity; /* the same */
} kernel;

struct ruleset {
    uint64_t fs, net, scoped;
};

/* The calls of a process; shared with its parent. */
static struct record {
    int status; /* of the function */
    int error;
    struct ruleset ruleset;
    size_t size; /* of it */
    struct {
        int directory;
        uint64_t access;
    } rule[RULES_MAX];
    uint32_t rules, rulesets, restrictions;
    uint32_t prepared_count, entered;
    bool openat2;
    bool open[DESCRIPTORS_MAX];
    uint32_t streams_at_null;
    int no_new_privs;
    bool ignores_size_signal;
} * record;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
unsigned int __wrap_seccomp_api_get(void);
int __real_seccomp_export_bpf(scmp_filter_ctx filter, int fd);
int __wrap_seccomp_export_bpf(scmp_filter_ctx filter, int fd);
int __wrap_seccomp_rule_add_exact(scmp_filter_ctx filter, uint32_t action, int call,
                                  unsigned int count, ...);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* Returns VALUE, or -1 with ERROR. */
static int result(int error, int value)
{
    if (error == 0)
        return value;
    errno = error;
    return -1;
}

static long create_ruleset(const void *attributes, size_t size, unsigned int flags)
{
    if (flags == LANDLOCK_CREATE_RULESET_VERSION)
        return result(kernel.landlock == 0 ? ENOSYS : 0, kernel.landlock);
    record->rulesets++;
    record->size = size;
    memcpy(&record->ruleset, attributes, size);
    return kernel.ruleset != 0 ? result(kernel.ruleset, 0)
                               : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static long add_rule(const struct landlock_path_beneath_attr *below)
{
    if (record->rules < RULES_MAX) {
        record->rule[record->rules].directory = below->parent_fd;
        record->rule[record->rules].access = below->allowed_access;
    }
    record->rules++;
    return result(kernel.rule, 0);
}

long __wrap_syscall(long number, ...)
{
    va_list arguments;
    long value = -1;

    va_start(arguments, number);
    if (number == SYS_landlock_create_ruleset) {
        const void *attributes = va_arg(arguments, void *);
        size_t size = va_arg(arguments, size_t);

        value = create_ruleset(attributes, size, va_arg(arguments, unsigned int));
    } else if (number == SYS_landlock_add_rule) {
        (void)va_arg(arguments, int);
        if (va_arg(arguments, int) == LANDLOCK_RULE_PATH_BENEATH)
            value = add_rule(va_arg(arguments, void *));
    } else if (number == SYS_landlock_restrict_self) {
        record->restrictions++;
        value = result(kernel.restrict_self, 0);
    } else if (number == SYS_seccomp) {
        record->entered++;
        value = 0;
    } else if (number == SYS_capget || number == SYS_capset) {
        value = result(kernel.identity, 0);
    }
    va_end(arguments);
    return value;
}

unsigned int __wrap_seccomp_api_get(void)
{
    return kernel.seccomp;
}

int __wrap_seccomp_export_bpf(scmp_filter_ctx filter, int fd)
{
    record->prepared_count++;
    return kernel.filter != 0 ? -kernel.filter : __real_seccomp_export_bpf(filter, fd);
}

/* It has at most one condition. */
int __wrap_seccomp_rule_add_exact(scmp_filter_ctx filter, uint32_t action, int call,
                                  unsigned int count, ...)
{
    struct scmp_arg_cmp condition;
    va_list arguments;

    va_start(arguments, count);
    if (count == 1)
        condition = va_arg(arguments, struct scmp_arg_cmp);
    va_end(arguments);
    if (call == SCMP_SYS(openat2))
        record->openat2 = action == SCMP_ACT_ALLOW;
    return seccomp_rule_add_exact_array(filter, action, call, count,
                                        count == 1 ? &condition : NULL);
}

int __wrap_close_range(unsigned int first, unsigned int last, int flags)
{
    return kernel.close_range != 0 ? result(kernel.close_range, 0)
                                   : __real_close_range(first, last, flags);
}

int __wrap_initgroups(const char *user, gid_t group)
{
    (void)user, (void)group;
    return 0;
}

int __wrap_setresgid(gid_t real, gid_t effective, gid_t saved)
{
    (void)real, (void)effective, (void)saved;
    return 0;
}

int __wrap_setresuid(uid_t real, uid_t effective, uid_t saved)
{
    (void)real, (void)effective, (void)saved;
    return 0;
}

static struct segment segment; /* receives the events */
static uint64_t next_event;

static int open_segment(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = 1}) != 0)
        return -1;
    events_attach(&segment, SEGMENT_RING_MASTER);
    return 0;
}

static int close_segment(void **state)
{
    (void)state;
    events_attach(NULL, 0);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_group_fixture = {open_segment, close_segment};

/* The text of the last event since the last call. */
static const char *event_of_child(void)
{
    static struct event_record event;
    struct event_ring ring = segment_event_ring(&segment, SEGMENT_RING_MASTER);

    event.text[0] = '\0';
    while (event_ring_read(&ring, &next_event, clock_wall_ns(), &event) == 1)
        assert_int_equal(event.level, LEVEL_ERROR);
    return event.text;
}

static int begin(void **state)
{
    (void)state;
    kernel = (struct kernel){.landlock = 7, .seccomp = 3};
    signal(SIGXFSZ, SIG_DFL); /* the caller may ignore it */
    record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return record == MAP_FAILED ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    return munmap(record, sizeof(*record));
}

const struct test_fixture test_fixture = {begin, end};

/* Records the state of this process. */
static void look_at_itself(void)
{
    struct sigaction action;

    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        record->open[fd] = fcntl(fd, F_GETFD) >= 0;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat file;

        if (fstat(fd, &file) == 0 && S_ISCHR(file.st_mode) && file.st_rdev == makedev(1, 3))
            record->streams_at_null++;
    }
    record->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    record->ignores_size_signal =
        sigaction(SIGXFSZ, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Calls CALL in a child, because it cannot be undone, and records what it does and leaves. */
static void in_child(int (*call)(void))
{
    int status;
    pid_t child;

    *record = (struct record){0};
    child = fork();
    if (child == 0) {
        errno = 0;
        record->status = call();
        record->error = errno;
        look_at_itself();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static uint32_t count_open(void)
{
    uint32_t count = 0;

    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static uint32_t count_left_open(void)
{
    uint32_t count = 0;

    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        count += record->open[fd];
    return count;
}

static void skip_unless_built(void)
{
    if (!BUILT)
        skip();
}

/* Features */

static void expect_features(int landlock, unsigned int seccomp, const char *text, bool follows,
                            bool complete)
{
    char line[64];

    kernel.landlock = landlock;
    kernel.seccomp = seccomp;
    sandbox_describe(line, sizeof(line));
    assert_string_equal(line, text);
    assert_int_equal(sandbox_config_system.can_follow_links(), follows);
    assert_int_equal(sandbox_config_system.sandbox_is_complete(), complete);
}

TEST(only_sanitizer_builds_have_no_features)
{
    struct sandbox_features features = sandbox_features();
    char line[64];

    assert_int_equal(features.built, BUILT);
    if (BUILT)
        return;
    assert_int_equal(features.landlock, 0);
    assert_false(features.seccomp);
    sandbox_describe(line, sizeof(line));
    assert_string_equal(line, "none (sanitizer build)");
    assert_true(sandbox_config_system.can_follow_links());
    assert_false(sandbox_config_system.sandbox_is_complete());
}

TEST(features_are_those_of_the_kernel)
{
    skip_unless_built();
    expect_features(0, 3, "no Landlock, seccomp", false, false);
    expect_features(1, 3, "Landlock 1, seccomp", true, false);
    expect_features(2, 3, "Landlock 2, seccomp", true, false);
    expect_features(3, 3, "Landlock 3, seccomp", true, true);
    expect_features(7, 4, "Landlock 7, seccomp", true, true);
    expect_features(7, 2, "Landlock 7, no seccomp", true, false);
    expect_features(0, 2, "no Landlock, no seccomp", false, false);
}

/* Filters */

static int prepare(void)
{
    return sandbox_prepare();
}

static void expect_filters(uint32_t count, bool openat2)
{
    in_child(prepare);
    assert_int_equal(record->status, 0);
    assert_int_equal(record->prepared_count, count);
    assert_int_equal(record->openat2, openat2);
}

TEST(filter_of_each_role_is_prepared)
{
    skip_unless_built();
    expect_filters(SANDBOX_ROLES, true);
    kernel.landlock = 3;
    expect_filters(SANDBOX_ROLES, true);
    kernel.landlock = 2;
    expect_filters(SANDBOX_ROLES, false);
    kernel.seccomp = 2;
    expect_filters(0, false);
}

TEST(first_filter_that_fails_is_an_error)
{
    skip_unless_built();
    kernel.filter = ENOMEM;
    in_child(prepare);
    assert_int_equal(record->status, -1);
    assert_int_equal(record->error, ENOMEM);
    assert_int_equal(record->prepared_count, 1);
}

/* Restricting */

static int restrict_worker(void)
{
    static const int directories[] = {40, 41};

    return sandbox_restrict(SANDBOX_WORKER, directories, ARRAY_LENGTH(directories), -1);
}

static int prepare_and_restrict_worker(void)
{
    return sandbox_prepare() == 0 ? restrict_worker() : -2;
}

static int restrict_acme_process(void)
{
    static const int directories[] = {40};

    return sandbox_restrict(SANDBOX_ACME, directories, ARRAY_LENGTH(directories), 41);
}

static void expect_ruleset(int landlock, size_t size, struct ruleset rights)
{
    kernel.landlock = landlock;
    in_child(restrict_worker);
    assert_int_equal(record->status, 0);
    assert_int_equal(record->rulesets, 1);
    assert_int_equal(record->restrictions, 1);
    assert_int_equal(record->size, size);
    assert_int_equal(record->ruleset.fs, rights.fs);
    assert_int_equal(record->ruleset.net, rights.net);
    assert_int_equal(record->ruleset.scoped, rights.scoped);
}

/* An older kernel rejects unknown rights, and a newer one allows what is not named. */
TEST(every_right_of_the_version_is_restricted)
{
    skip_unless_built();
    expect_ruleset(1, SIZE_1, (struct ruleset){0x1fff, 0, 0});
    expect_ruleset(2, SIZE_1, (struct ruleset){0x3fff, 0, 0});
    expect_ruleset(3, SIZE_1, (struct ruleset){0x7fff, 0, 0});
    expect_ruleset(4, SIZE_4, (struct ruleset){0x7fff, 3, 0});
    expect_ruleset(5, SIZE_4, (struct ruleset){0xffff, 3, 0});
    expect_ruleset(6, SIZE_6, (struct ruleset){0xffff, 3, 3});
    expect_ruleset(7, SIZE_6, (struct ruleset){0xffff, 3, 3});
}

TEST(kernel_without_landlock_restricts_no_files)
{
    skip_unless_built();
    kernel.landlock = 0;
    in_child(restrict_worker);
    assert_int_equal(record->status, 0);
    assert_int_equal(record->rulesets, 0);
    assert_int_equal(record->restrictions, 0);
    assert_int_equal(record->no_new_privs, 1);
}

TEST(acme_process_may_connect_and_write_below_one_directory)
{
    skip_unless_built();
    for (int landlock = 2; landlock <= 4; landlock++) {
        kernel.landlock = landlock;
        in_child(restrict_acme_process);
        assert_int_equal(record->status, 0);
        assert_int_equal(record->ruleset.net, landlock < 4 ? 0 : 1); /* to listen only */
        assert_int_equal(record->rules, 2);
        assert_int_equal(record->rule[0].directory, 40);
        assert_int_equal(record->rule[0].access, READS);
        assert_int_equal(record->rule[1].directory, 41);
        assert_int_equal(record->rule[1].access, landlock < 3 ? WRITES : WRITES | TRUNCATE);
    }
}

static void expect_failure(int *error, uint32_t rules, uint32_t restrictions)
{
    *error = E2BIG;
    in_child(prepare_and_restrict_worker);
    *error = 0;
    assert_int_equal(record->status, -1);
    assert_int_equal(record->error, E2BIG);
    assert_int_equal(record->rules, rules);
    assert_int_equal(record->restrictions, restrictions);
    assert_int_equal(record->entered, 0);
    assert_int_equal(count_left_open(), count_open());
}

TEST(failure_of_landlock_is_an_error)
{
    skip_unless_built();
    expect_failure(&kernel.ruleset, 0, 0);
    expect_failure(&kernel.rule, 1, 0);
    expect_failure(&kernel.restrict_self, 2, 1);
}

TEST(only_a_prepared_filter_is_entered)
{
    skip_unless_built();
    in_child(restrict_worker);
    assert_int_equal(record->entered, 0);
    in_child(prepare_and_restrict_worker);
    assert_int_equal(record->status, 0);
    assert_int_equal(record->entered, 1);
    kernel.seccomp = 2;
    in_child(prepare_and_restrict_worker);
    assert_int_equal(record->status, 0);
    assert_int_equal(record->entered, 0);
}

/* Closing */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* The lowest descriptor, neighbours with one between them, and the bounds of each range. */
static int close_around_neighbours(void)
{
    static const int kept[] = {3, 4, 10, 12}, closed[] = {5, 9, 11, 13, 14};
    const struct rlimit few = {64, 64}; /* without close_range(), each is tried */
    int keep[] = {12, 4, 3, 10};

    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return 3;
    for (int fd = 3; fd <= 14; fd++)
        if (dup2(STDIN_FILENO, fd) < 0)
            return 1;
    if (sandbox_close_others(keep, ARRAY_LENGTH(keep)) != 0)
        return 2;
    for (size_t i = 0; i < ARRAY_LENGTH(kept); i++)
        if (!is_open(kept[i]))
            return 100 + kept[i];
    for (size_t i = 0; i < ARRAY_LENGTH(closed); i++)
        if (is_open(closed[i]))
            return 200 + closed[i];
    return 0;
}

TEST(descriptors_beside_kept_ones_are_closed)
{
    in_child(close_around_neighbours);
    assert_int_equal(record->status, 0);
    kernel.close_range = ENOSYS;
    in_child(close_around_neighbours);
    assert_int_equal(record->status, 0);
}

/* Entering */

static struct config config;
static int roots[] = {30, 31}, kept[] = {32};
static const char *links[2];
static struct sandbox_setup setup;

static int begin_entering(void **state)
{
    config = (struct config){.server_jail = JAIL_ON};
    config.server_user = config.server_group = "";
    links[0] = "/dev";
    links[1] = "/";
    setup = (struct sandbox_setup){.role = SANDBOX_WORKER,
                                   .config = &config,
                                   .roots = roots,
                                   .root_count = ARRAY_LENGTH(roots),
                                   .link_root = links,
                                   .link_root_count = ARRAY_LENGTH(links),
                                   .keep = kept,
                                   .keep_count = ARRAY_LENGTH(kept)};
    return begin(state);
}

/* Opens further descriptors. The standard ones are no longer /dev/null, if they were. */
static bool open_others(void)
{
    int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (dup2(zero, fd) < 0)
            return false;
    for (int fd = 20; fd < 40; fd++)
        if (dup2(directory, fd) < 0)
            return false;
    return true;
}

static int enter(void)
{
    return open_others() ? sandbox_enter(&setup) : -2;
}

static int enter_with_closed_error_stream(void)
{
    return open_others() && close(STDERR_FILENO) == 0 ? sandbox_enter(&setup) : -2;
}

/* Standard input, output and error, and the given ones; not those of the links. */
static void expect_open_descriptors(void)
{
    assert_int_equal(count_left_open(), 6);
    assert_true(record->open[30] && record->open[31] && record->open[32]);
    assert_true(record->open[STDIN_FILENO] && record->open[STDOUT_FILENO] &&
                record->open[STDERR_FILENO]);
}

TEST_WITH(process_enters_with_its_descriptors_only, begin_entering, end)
{
    skip_unless_built();
    in_child(enter);
    assert_string_equal(event_of_child(), "");
    assert_int_equal(record->status, 0);
    expect_open_descriptors();
    assert_int_equal(record->streams_at_null, 3);
    assert_int_equal(record->rules, 4);
    assert_int_equal(record->rule[0].directory, 30);
    assert_int_equal(record->rule[1].directory, 31);
    for (int i = 0; i < 4; i++)
        assert_int_equal(record->rule[i].access, READS);
    assert_int_not_equal(record->rule[2].directory, record->rule[3].directory);
    in_child(enter_with_closed_error_stream);
    assert_int_equal(record->status, 0);
    expect_open_descriptors();
    assert_int_equal(record->streams_at_null, 3);
}

TEST_WITH(process_without_jail_is_not_restricted, begin_entering, end)
{
    config.server_jail = JAIL_OFF;
    in_child(enter);
    assert_int_equal(record->status, 0);
    expect_open_descriptors();
    assert_int_equal(record->rulesets, 0);
    assert_int_equal(record->streams_at_null, 0);
    assert_false(record->ignores_size_signal);
}

static void expect_event(const char *event)
{
    in_child(enter);
    assert_int_equal(record->status, -1);
    assert_string_equal(event_of_child(), event);
}

TEST_WITH(failure_to_enter_is_logged, begin_entering, end)
{
    const char *event;

    kernel.close_range = EPERM;
    expect_event("a worker cannot close the descriptors of the master: Operation not permitted");
    kernel.close_range = 0;
    config.server_user = "no-such-user";
    expect_event("[server] user: unknown user 'no-such-user'");
    config.server_user = "root";
    config.server_group = "no-such-group";
    expect_event("[server] group: unknown group 'no-such-group'");
    config.server_user = config.server_group = "";
    kernel.identity = EAGAIN;
    in_child(enter);
    assert_int_equal(record->status, -1);
    event = event_of_child();
    assert_memory_equal(event, "a worker cannot become user ", 28);
    assert_non_null(strstr(event, ": Resource temporarily unavailable"));
}

TEST_WITH(failure_to_restrict_is_logged, begin_entering, end)
{
    skip_unless_built();
    kernel.ruleset = ENOMEM;
    expect_event("a worker cannot enter its sandbox: Cannot allocate memory");
    expect_open_descriptors();
}

TEST_WITH(missing_directory_of_links_is_an_error, begin_entering, end)
{
    links[1] = "/no/such/directory";
    in_child(enter);
    assert_int_equal(record->status, -1);
    assert_int_equal(record->rulesets, 0);
}
