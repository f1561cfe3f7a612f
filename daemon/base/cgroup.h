/*
 * Limits of memory and CPU time of the control groups that a process is in (cgroups(7)): of its own
 * group and of those above, versions 1 and 2. Pages of files count as free, because the kernel drops
 * them when it needs memory.
 *
 * Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
 */
#ifndef DAEMON_CGROUP_H
#define DAEMON_CGROUP_H

#include <stdint.h>

struct cgroup;

/*
 * SELF is /proc/self/cgroup, ROOT is /sys/fs/cgroup or a directory like it. Returns NULL if the
 * process is in no group whose memory is controlled, or if out of memory.
 */
struct cgroup *cgroup_open(const char *self, const char *root);
void cgroup_close(struct cgroup *cgroup);

struct cgroup_memory {
    uint64_t limit_bytes; /* 0: no group has a limit */
    uint64_t used_bytes;  /* at most the limit */
};

/* Of the group where the least part of the limit is free. Reads a few small files. */
struct cgroup_memory cgroup_memory(const struct cgroup *cgroup);

/*
 * SELF and ROOT as above. How many CPUs the process may use at a time by the lowest limit, rounded
 * up; 0: no group has a limit.
 */
uint32_t cgroup_cpus(const char *self, const char *root);

#endif
