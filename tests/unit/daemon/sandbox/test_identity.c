#include "daemon/sandbox/identity.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

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

static struct identity found(const char *user, const char *group, uid_t self)
{
    struct identity identity;
    struct identity_fault fault;

    assert_int_equal(identity_find(user, group, self, &identity, &fault), 0);
    return identity;
}

static void root_without_user_runs_workers_as_nobody(void **state)
{
    const struct passwd *nobody = getpwnam("nobody");
    struct identity identity = found("", "", ROOT);

    (void)state;
    assert_non_null(nobody);
    assert_true(identity.changes);
    assert_int_equal(identity.uid, nobody->pw_uid);
    assert_int_equal(identity.gid, nobody->pw_gid);
    assert_string_equal(identity.user, "nobody");
}

static void user_is_found_by_name_and_number(void **state)
{
    struct identity by_name = found("daemon", "", ROOT), by_number;
    char number[16];

    (void)state;
    snprintf(number, sizeof(number), "%u", by_name.uid);
    by_number = found(number, "", ROOT);
    assert_int_equal(by_number.uid, by_name.uid);
    assert_string_equal(by_number.user, "daemon");
}

static void group_overrides_primary_group(void **state)
{
    struct identity identity = found("daemon", "root", ROOT);

    (void)state;
    assert_int_equal(identity.gid, 0);
    assert_int_not_equal(identity.uid, 0);
}

static void without_root_identity_is_unchanged(void **state)
{
    const struct passwd *daemon = getpwnam("daemon");

    (void)state;
    assert_false(found("", "", SOMEBODY).changes);
    assert_non_null(daemon);
    assert_false(found("daemon", "", daemon->pw_uid).changes);
}

static void unusable_identity_is_an_error(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct identity identity;
        struct identity_fault fault;

        assert_int_equal(
            identity_find(cases[i].user, cases[i].group, cases[i].self, &identity, &fault), -1);
        assert_int_equal(fault.group, cases[i].group_at_fault);
        assert_non_null(strstr(fault.text, cases[i].message));
    }
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

static void taken_identity_cannot_be_undone(void **state)
{
    (void)state;
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

static void inheritable_and_ambient_capabilities_are_dropped(void **state)
{
    (void)state;
    expect_success_in_child(become_nobody_with_inheritable_capability);
}

/* As a service manager that grants no capabilities and filters the calls of @privileged. */
static int switch_without_capabilities_and_capset(void)
{
    const struct identity same = {.changes = false};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    if (become_nobody() != 0)
        return 20;
    if (filter == NULL ||
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(capset), 0) != 0 ||
        seccomp_load(filter) != 0)
        return 21;
    return identity_switch(&same) == 0 ? 0 : 22;
}

static void without_capabilities_capset_is_not_called(void **state)
{
    (void)state;
    expect_success_in_child(switch_without_capabilities_and_capset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_without_user_runs_workers_as_nobody),
        cmocka_unit_test(user_is_found_by_name_and_number),
        cmocka_unit_test(group_overrides_primary_group),
        cmocka_unit_test(without_root_identity_is_unchanged),
        cmocka_unit_test(unusable_identity_is_an_error),
        cmocka_unit_test(taken_identity_cannot_be_undone),
        cmocka_unit_test(inheritable_and_ambient_capabilities_are_dropped),
        cmocka_unit_test(without_capabilities_capset_is_not_called),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
