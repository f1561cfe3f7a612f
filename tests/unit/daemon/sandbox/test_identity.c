#include "daemon/sandbox/identity.h"

#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOT = 0, SOMEBODY = 4242 };

/* A user database without names, in which every number has an entry. */
static struct {
    bool used;        /* false: the database of the system */
    int error;        /* errno of a name that is not found; 0: errno stays as it is */
    const char *name; /* of each user */
} database;

static void *find_nothing(void)
{
    if (database.error != 0)
        errno = database.error;
    return NULL;
}

struct passwd *__wrap_getpwnam(const char *name)
{
    return database.used ? find_nothing() : __real_getpwnam(name);
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
    static char name[IDENTITY_NAME_MAX + 1];
    static struct passwd entry = {.pw_name = name};

    if (!database.used)
        return __real_getpwuid(uid);
    snprintf(name, sizeof(name), "%s", database.name);
    entry.pw_uid = uid;
    errno = EIO; /* as a call may leave it that succeeds */
    return &entry;
}

struct group *__wrap_getgrnam(const char *name)
{
    return database.used ? find_nothing() : __real_getgrnam(name);
}

struct group *__wrap_getgrgid(gid_t gid)
{
    static struct group entry;

    entry.gr_gid = gid;
    return database.used ? &entry : __real_getgrgid(gid);
}

static int use_database(void **state)
{
    (void)state;
    database.used = true;
    database.error = ENOENT;
    database.name = "somebody";
    return 0;
}

static int use_system_database(void **state)
{
    (void)state;
    database.used = false;
    return 0;
}

static struct identity found(const char *user, const char *group, uid_t self)
{
    struct identity identity;
    struct identity_fault fault;

    assert_int_equal(identity_find(user, group, self, &identity, &fault), 0);
    return identity;
}

TEST(root_without_user_runs_workers_as_nobody)
{
    const struct passwd *nobody = getpwnam("nobody");
    struct identity identity = found("", "", ROOT);

    assert_non_null(nobody);
    assert_true(identity.changes);
    assert_int_equal(identity.uid, nobody->pw_uid);
    assert_int_equal(identity.gid, nobody->pw_gid);
    assert_string_equal(identity.user, "nobody");
}

TEST(user_is_found_by_name_and_number)
{
    struct identity by_name = found("daemon", "", ROOT), by_number;
    char number[16];

    snprintf(number, sizeof(number), "%u", by_name.uid);
    by_number = found(number, "", ROOT);
    assert_int_equal(by_number.uid, by_name.uid);
    assert_string_equal(by_number.user, "daemon");
}

TEST(group_overrides_primary_group)
{
    struct identity identity = found("daemon", "root", ROOT);

    assert_int_equal(identity.gid, 0);
    assert_int_not_equal(identity.uid, 0);
}

TEST(without_root_identity_is_unchanged)
{
    const struct passwd *daemon = getpwnam("daemon");

    assert_false(found("", "", SOMEBODY).changes);
    assert_non_null(daemon);
    assert_false(found("daemon", "", daemon->pw_uid).changes);
}

TEST(unusable_identity_is_an_error)
{
    static const struct {
        const char *user, *group;
        uid_t self;
        bool group_at_fault;
        const char *message;
    } cases[] = {
        {"no-such-user", "", ROOT, false, "unknown user 'no-such-user'"},
        {"", "no-such-group", ROOT, true, "unknown group 'no-such-group'"},
        {"99999999999999999999", "", ROOT, false, "unknown user"},
        {"daemon", "", SOMEBODY, false, "only root"},
        {"", "daemon", SOMEBODY, true, "only root"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct identity identity;
        struct identity_fault fault;

        assert_int_equal(
            identity_find(cases[i].user, cases[i].group, cases[i].self, &identity, &fault), -1);
        assert_int_equal(fault.group, cases[i].group_at_fault);
        assert_non_null(strstr(fault.text, cases[i].message));
    }
}

TEST_WITH(only_a_decimal_id_is_looked_up_as_a_number, use_database, use_system_database)
{
    static const struct {
        const char *text;
        bool valid;
        uint32_t number;
    } cases[] = {
        {"0", true, 0},           {"7", true, 7},
        {"90", true, 90},         {"4294967294", true, UINT32_MAX - 1},
        {"4294967295", false, 0}, /* setresuid(2): unchanged */
        {"4294967296", false, 0}, {"99999999999999999999", false, 0},
        {"+7", false, 0},         {" 7", false, 0},
        {"-7", false, 0},         {"7x", false, 0},
        {"x7", false, 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct identity user, group;
        struct identity_fault fault;
        int result = cases[i].valid ? 0 : -1;

        assert_int_equal(identity_find(cases[i].text, "", ROOT, &user, &fault), result);
        assert_int_equal(identity_find("1", cases[i].text, ROOT, &group, &fault), result);
        if (result != 0)
            continue;
        assert_int_equal(user.uid, cases[i].number);
        assert_int_equal(group.gid, cases[i].number);
    }
}

/* Expects that user and group "x" are not found, and that both messages begin with WHAT. */
static void expect_fault(const char *what)
{
    struct identity identity;
    struct identity_fault fault;
    char message[64];

    errno = EIO; /* of an earlier call */
    assert_int_equal(identity_find("x", "", ROOT, &identity, &fault), -1);
    assert_false(fault.group);
    snprintf(message, sizeof(message), "%s user 'x'", what);
    assert_memory_equal(fault.text, message, strlen(message));
    errno = EIO;
    assert_int_equal(identity_find("1", "x", ROOT, &identity, &fault), -1);
    assert_true(fault.group);
    snprintf(message, sizeof(message), "%s group 'x'", what);
    assert_memory_equal(fault.text, message, strlen(message));
}

TEST_WITH(failed_lookup_is_not_an_unknown_name, use_database, use_system_database)
{
    static const int unknown[] = {0, ENOENT, ESRCH, EBADF, EPERM},
                     failed[] = {EIO, EMFILE, ENFILE, ENOMEM};

    for (size_t i = 0; i < ARRAY_LENGTH(unknown); i++) {
        database.error = unknown[i];
        expect_fault("unknown");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(failed); i++) {
        database.error = failed[i];
        expect_fault("cannot look up the");
    }
}

TEST_WITH(user_name_that_does_not_fit_is_an_error, use_database, use_system_database)
{
    char name[IDENTITY_NAME_MAX + 1];
    struct identity identity;
    struct identity_fault fault;

    memset(name, 'n', sizeof(name));
    name[IDENTITY_NAME_MAX] = '\0';
    database.name = name;
    assert_int_equal(identity_find("1", "", ROOT, &identity, &fault), -1);
    assert_false(fault.group);
    assert_string_equal(fault.text, "the name '1' is too long");
    name[IDENTITY_NAME_MAX - 1] = '\0';
    assert_string_equal(found("1", "", ROOT).user, name);
}

TEST(check_reports_which_name_is_at_fault)
{
    bool group_at_fault = true;
    char why[128] = "", start[8];

    assert_int_equal(identity_check("", "", &group_at_fault, why, sizeof(why)), 0);
    assert_string_equal(why, "");
    assert_int_equal(identity_check("no-such-user", "", &group_at_fault, why, sizeof(why)), -1);
    assert_false(group_at_fault);
    assert_string_equal(why, "unknown user 'no-such-user'");
    assert_int_equal(identity_check("", "no-such-group", &group_at_fault, start, sizeof(start)),
                     -1);
    assert_true(group_at_fault);
    assert_int_equal(strlen(start), sizeof(start) - 1);
}

/* Runs in a child, as it cannot be undone. The exit status is the step that failed. */
static int become_nobody(void)
{
    struct identity identity = found("", "", ROOT);

    if (identity_switch(&identity) != 0)
        return 1;
    if (geteuid() != identity.uid || getegid() != identity.gid || getgroups(0, NULL) > 1)
        return 2;
    if (setresuid(0, 0, 0) == 0 || chroot("/") == 0)
        return 3;
    return 0;
}

/* Runs STEP in a child and expects that it returns 0. Without root, the test is skipped. */
static void expect_success_in_child(int (*step)(void))
{
    int status;
    pid_t child;

    if (geteuid() != 0)
        skip();
    child = fork();
    if (child == 0)
        _exit(step());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(taken_identity_cannot_be_undone)
{
    expect_success_in_child(become_nobody);
}

typedef struct __user_cap_data_struct capability_sets[_LINUX_CAPABILITY_U32S_3];

static long call_with_capabilities(long number, capability_sets sets)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(number, &header, sets);
}

/* The change of the user clears the effective and the permitted capabilities only. */
static int become_nobody_with_inheritable_capability(void)
{
    capability_sets sets, none = {{0}};

    if (call_with_capabilities(SYS_capget, sets) != 0)
        return 10;
    sets[0].inheritable = 1U << CAP_NET_BIND_SERVICE;
    if (call_with_capabilities(SYS_capset, sets) != 0)
        return 11;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0) != 0)
        return 12;
    if (become_nobody() != 0)
        return 13;
    if (call_with_capabilities(SYS_capget, sets) != 0 || memcmp(sets, none, sizeof(none)) != 0)
        return 14;
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_NET_BIND_SERVICE, 0, 0);
}

TEST(inheritable_and_ambient_capabilities_are_dropped)
{
    expect_success_in_child(become_nobody_with_inheritable_capability);
}

/* True if prctl(PR_CAP_AMBIENT) fails with ERROR from now on. */
static bool deny_ambient(int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    return filter != NULL &&
           seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), SCMP_SYS(prctl), 1,
                            SCMP_A0(SCMP_CMP_EQ, PR_CAP_AMBIENT, 0)) == 0 &&
           seccomp_load(filter) == 0;
}

static int drop_without_ambient_set(void)
{
    const struct identity same = {.changes = false};
    capability_sets sets, none = {{0}};

    if (!deny_ambient(EINVAL))
        return 30;
    if (identity_switch(&same) != 0)
        return 31;
    return call_with_capabilities(SYS_capget, sets) == 0 && memcmp(sets, none, sizeof(none)) == 0
               ? 0
               : 32;
}

static int fail_to_clear_ambient_set(void)
{
    const struct identity same = {.changes = false};

    if (!deny_ambient(EPERM))
        return 40;
    return identity_switch(&same) == -1 && errno == EPERM ? 0 : 41;
}

/* Linux before 4.3 has no ambient capabilities. */
TEST(ambient_capabilities_may_be_missing_but_not_stay)
{
    expect_success_in_child(drop_without_ambient_set);
    expect_success_in_child(fail_to_clear_ambient_set);
}

/* As a service manager that filters calls of @privileged or @setuid. */
static bool filter_call(int number)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    return filter != NULL && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0) == 0 &&
           seccomp_load(filter) == 0;
}

static int switch_without_capabilities_and_capset(void)
{
    const struct identity same = {.changes = false};

    if (become_nobody() != 0)
        return 20;
    if (!filter_call(SCMP_SYS(capset)))
        return 21;
    if (identity_check_switch() != 0)
        return 22;
    return identity_switch(&same) == 0 ? 0 : 23;
}

static int check_with_capabilities_and_without_capset(void)
{
    capability_sets sets;

    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || call_with_capabilities(SYS_capget, sets) != 0 ||
        setresuid(SOMEBODY, SOMEBODY, SOMEBODY) != 0 || identity_check_switch() != 0)
        return 24;
    if (!filter_call(SCMP_SYS(capset)))
        return 25;
    return identity_check_switch() != 0 && errno == EPERM ? 0 : 26;
}

TEST(without_capabilities_capset_is_not_called)
{
    expect_success_in_child(switch_without_capabilities_and_capset);
    expect_success_in_child(check_with_capabilities_and_without_capset);
}

static int check_root_without_setgid(void)
{
    capability_sets sets;

    if (identity_check_switch() != 0 || call_with_capabilities(SYS_capget, sets) != 0)
        return 27;
    sets[0].effective &= ~(1U << CAP_SETGID);
    if (call_with_capabilities(SYS_capset, sets) != 0)
        return 28;
    return identity_check_switch() != 0 && errno == EPERM ? 0 : 29;
}

static int check_root_without_setresuid(void)
{
    if (!filter_call(SCMP_SYS(setresuid)))
        return 30;
    return identity_check_switch() != 0 && errno == EPERM ? 0 : 31;
}

TEST(root_that_may_not_change_its_user_is_refused)
{
    expect_success_in_child(check_root_without_setgid);
    expect_success_in_child(check_root_without_setresuid);
}
