#include "daemon/sandbox/seccomp.h"

#include "daemon/base/memory_file.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

bool seccomp_possible(void)
{
    return seccomp_api_get() >= 3;
}

static int allow(scmp_filter_ctx filter, const char *name)
{
    int call = seccomp_syscall_resolve_name(name);

    return call < 0 ? 0 : seccomp_rule_add_exact(filter, SCMP_ACT_ALLOW, call, 0);
}

static int allow_restricted(scmp_filter_ctx filter, const struct restricted_call *rule)
{
    const struct call_condition *when = &rule->when[0], *and = &rule->when[1];
    const struct scmp_arg_cmp both[] = {
        SCMP_CMP(when->argument, SCMP_CMP_MASKED_EQ, when->mask, when->value),
        SCMP_CMP(and->argument, SCMP_CMP_MASKED_EQ, and->mask, and->value),
    };
    unsigned int count = and->mask != 0 ? 2 : 1;
    int call = seccomp_syscall_resolve_name(rule->name);

    return call < 0 ? 0 : seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, call, count, both);
}

static int allow_all(scmp_filter_ctx filter, const char *const *calls,
                     const struct restricted_call *restricted)
{
    int failed = 0;

    for (; *calls != NULL && failed == 0; calls++)
        failed = allow(filter, *calls);
    for (; restricted->name != NULL && failed == 0; restricted++)
        failed = allow_restricted(filter, restricted);
    return failed;
}

/* Placeholder for the PID of the process that loads the filter; larger than any PID. */
enum { OWN_PID = 0x5e1f5e1f };

/*
 * A filter cannot check flags that are in memory. On ENOSYS glibc falls back from clone3() to
 * clone(), and files_open() from openat2() to openat(), whose flags are arguments.
 */
static int add_calls_with_hidden_flags(scmp_filter_ctx filter, bool allow_openat2)
{
    const uint32_t missing = SCMP_ACT_ERRNO(ENOSYS);
    int failed = seccomp_rule_add_exact(filter, missing, SCMP_SYS(clone3), 0);

    if (failed != 0)
        return failed;
    return seccomp_rule_add_exact(filter, allow_openat2 ? SCMP_ACT_ALLOW : missing,
                                  SCMP_SYS(openat2), 0);
}

static int add_rules(scmp_filter_ctx filter, const struct sandbox_profile *profile,
                     bool allow_openat2)
{
    /* For abort() and raise(): signals to the process itself only. */
    int failed = seccomp_rule_add_exact(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                        SCMP_A0(SCMP_CMP_EQ, OWN_PID, 0));

    if (failed == 0)
        failed = allow_all(filter, sandbox_common_calls, sandbox_common_restricted);
    if (failed == 0)
        failed = allow_all(filter, profile->calls, profile->restricted);
    return failed != 0 ? failed : add_calls_with_hidden_flags(filter, allow_openat2);
}

/* A filter as a BPF program. A child inherits it and loads it without allocating. */
struct program {
    struct sock_filter code[BPF_MAXINSNS];
    unsigned short length; /* 0: not prepared */
};

static struct program programs[SANDBOX_ROLES];

static int read_program(int fd, struct program *program)
{
    ssize_t got = pread(fd, program->code, sizeof(program->code), 0);
    size_t found = 0, length;

    if (got < 0)
        return -errno;
    length = (size_t)got / sizeof(program->code[0]);
    for (size_t i = 0; i < length; i++)
        found += program->code[i].k == OWN_PID;
    if (found != 1)
        return -EPROTO; /* the PID could not be filled in */
    program->length = (unsigned short)length;
    return 0;
}

static int export_program(scmp_filter_ctx filter, struct program *program)
{
    int fd = memory_file_open("filter");
    int failed;

    if (fd < 0)
        return -errno;
    failed = seccomp_export_bpf(filter, fd);
    if (failed == 0)
        failed = read_program(fd, program);
    close(fd);
    return failed;
}

/* SCMP_ACT_KILL would end only the thread and leave its connections open. */
static int set_attributes(scmp_filter_ctx filter)
{
    int failed = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    /* Binary search over the system calls instead of a linear one. */
    return failed != 0 ? failed : seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
}

int seccomp_prepare(enum sandbox_role role, bool allow_openat2)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int failed;

    if (filter == NULL) {
        errno = ENOMEM;
        return -1;
    }
    failed = set_attributes(filter);
    if (failed == 0)
        failed = add_rules(filter, &sandbox_profiles[role], allow_openat2);
    if (failed == 0)
        failed = export_program(filter, &programs[role]);
    seccomp_release(filter);
    errno = -failed;
    return failed == 0 ? 0 : -1;
}

int seccomp_enter(enum sandbox_role role)
{
    struct program *program = &programs[role];
    const struct sock_fprog filter = {program->length, program->code};

    for (size_t i = 0; i < program->length; i++)
        if (program->code[i].k == OWN_PID)
            program->code[i].k = (uint32_t)getpid();
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}
