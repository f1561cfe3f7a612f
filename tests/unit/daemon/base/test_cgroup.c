/* Memory in use and CPU time of a control group, from files like those of the kernel. */
#include "common/macros.h"
#include "daemon/base/cgroup.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 8 };

/* Contents of the files below a root, and the use that follows from them. */
static const struct {
    const char *name;
    const char *self;
    struct {
        const char *path, *text;
    } file[FILES];
    uint64_t used; /* in thousandths of the limit */
    bool none;     /* no group controls memory */
} cases[] = {
    {"version 2",
     "0::/system.slice/web.service\n",
     {{"system.slice/web.service/memory.max", "1000\n"},
      {"system.slice/web.service/memory.current", "500\n"}},
     500,
     false},
    {"pages of files are free",
     "0::/web\n",
     {{"web/memory.max", "1000\n"},
      {"web/memory.current", "900\n"},
      {"web/memory.stat", "anon 300\nfile 600\ninactive_file 100\nactive_file 500\n"}},
     300,
     false},
    {"without a limit",
     "0::/web\n",
     {{"web/memory.max", "max\n"}, {"web/memory.current", "900\n"}},
     0,
     false},
    {"the group above has less",
     "0::/slice/web\n",
     {{"slice/web/memory.max", "1000\n"},
      {"slice/web/memory.current", "500\n"},
      {"slice/memory.max", "2000\n"},
      {"slice/memory.current", "1900\n"}},
     950,
     false},
    {"only the group above has a limit",
     "0::/slice/web\n",
     {{"slice/web/memory.max", "max\n"},
      {"slice/web/memory.current", "500\n"},
      {"slice/memory.max", "2000\n"},
      {"slice/memory.current", "1900\n"}},
     950,
     false},
    {"a container sees its own group as the root",
     "0::/docker/0123\n",
     {{"memory.max", "1000\n"}, {"memory.current", "700\n"}},
     700,
     false},
    {"version 1",
     "5:cpu,cpuacct:/\n4:memory:/web\n0::/web\n",
     {{"memory/web/memory.limit_in_bytes", "1000\n"},
      {"memory/web/memory.usage_in_bytes", "900\n"},
      {"memory/web/memory.stat", "cache 600\nactive_file 1\ntotal_inactive_file 100\n"
                                 "total_active_file 200\n"}},
     600,
     false},
    {"version 1 without a limit",
     "4:memory:/web\n",
     {{"memory/web/memory.limit_in_bytes", "9223372036854771712\n"},
      {"memory/web/memory.usage_in_bytes", "900\n"}},
     0,
     false},
    {"version 1 with several controllers",
     "4:cpu,memory,blkio:/web\n",
     {{"memory/web/memory.limit_in_bytes", "1000\n"},
      {"memory/web/memory.usage_in_bytes", "250\n"}},
     250,
     false},
    {"both versions, memory in version 1",
     "0::/web\n4:memory:/web\n",
     {{"memory/web/memory.limit_in_bytes", "1000\n"},
      {"memory/web/memory.usage_in_bytes", "250\n"}},
     250,
     false},
    {"more in use than the limit",
     "0::/web\n",
     {{"web/memory.max", "1000\n"}, {"web/memory.current", "1200\n"}},
     1000,
     false},
    {"a limit of 0",
     "0::/web\n",
     {{"web/memory.max", "0\n"}, {"web/memory.current", "0\n"}},
     0,
     false},
    {"memory is not controlled",
     "3:cpuset:/web\n0::/web\n",
     {{"web/cgroup.procs", "1\n"}},
     0,
     true},
    {"another controller's name", "3:memoryless:/web\n", {{"web/cgroup.procs", "1\n"}}, 0, true},
    {"no groups", "", {{"x", ""}}, 0, true},
    {"malformed", "memory\n4\n\n:\n", {{"x", ""}}, 0, true},
};

static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_all(const char *root)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static uint64_t permille(struct cgroup_memory memory)
{
    return memory.limit_bytes > 0 ? memory.used_bytes * 1000 / memory.limit_bytes : 0;
}

TEST(use_follows_from_files)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char root[] = "/tmp/test_cgroup.XXXXXX", self[64];
        struct cgroup *cgroup;

        print_message("%s\n", cases[i].name);
        assert_non_null(mkdtemp(root));
        put(root, "self", cases[i].self);
        for (size_t n = 0; n < FILES && cases[i].file[n].path != NULL; n++)
            put(root, cases[i].file[n].path, cases[i].file[n].text);
        snprintf(self, sizeof(self), "%s/self", root);
        cgroup = cgroup_open(self, root);
        if (cases[i].none) {
            assert_null(cgroup);
        } else {
            assert_non_null(cgroup);
            assert_int_equal(permille(cgroup_memory(cgroup)), cases[i].used);
        }
        cgroup_close(cgroup);
        remove_all(root);
    }
}

TEST(missing_files_are_no_limit)
{
    char root[] = "/tmp/test_cgroup.XXXXXX", self[64];
    struct cgroup *cgroup;

    assert_non_null(mkdtemp(root));
    put(root, "self", "0::/web\n");
    put(root, "web/memory.current", "500\n");
    put(root, "web/memory.max", "1000\n");
    snprintf(self, sizeof(self), "%s/self", root);
    cgroup = cgroup_open(self, root);
    assert_non_null(cgroup);
    remove_all(root);
    assert_int_equal(cgroup_memory(cgroup).limit_bytes, 0);
    cgroup_close(cgroup);
    assert_null(cgroup_open("/nonexistent", "/sys/fs/cgroup"));
}

TEST(cpus_are_those_of_the_lowest_limit)
{
    static const struct {
        const char *self;
        const char *path[3], *text[3];
        uint32_t cpus;
    } limits[] = {
        {"0::/web\n", {"web/cgroup.procs", "web/cpu.max"}, {"1\n", "200000 100000\n"}, 2},
        {"0::/web\n", {"web/cgroup.procs", "web/cpu.max"}, {"1\n", "max 100000\n"}, 0},
        {"0::/web\n", {"web/cgroup.procs", "web/cpu.max"}, {"1\n", "150000 100000\n"}, 2},
        {"0::/web\n", {"web/cgroup.procs", "web/cpu.max"}, {"1\n", "5000 100000\n"}, 1},
        {"0::/s/web\n",
         {"s/web/cgroup.procs", "s/web/cpu.max", "s/cpu.max"},
         {"1\n", "max 100000\n", "300000 100000\n"},
         3},
        {"0::/docker/1\n", {"cgroup.procs", "cpu.max"}, {"1\n", "100000 50000\n"}, 2},
        {"3:cpuset:/a\n2:cpu,cpuacct:/web\n0::/\n",
         {"cpu/web/cgroup.procs", "cpu/web/cpu.cfs_quota_us", "cpu/web/cpu.cfs_period_us"},
         {"1\n", "400000\n", "100000\n"},
         4},
        {"2:cpu:/web\n",
         {"cpu/web/cgroup.procs", "cpu/web/cpu.cfs_quota_us", "cpu/web/cpu.cfs_period_us"},
         {"1\n", "-1\n", "100000\n"},
         0},
        {"2:cpuacct:/web\n", {"cpu/web/cgroup.procs"}, {"1\n"}, 0},
        {"0::/web\n", {"web/cgroup.procs", "web/cpu.max"}, {"1\n", "rubbish\n"}, 0},
        {"", {"x"}, {""}, 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        char root[] = "/tmp/test_cgroup.XXXXXX", self[64];

        assert_non_null(mkdtemp(root));
        put(root, "self", limits[i].self);
        for (size_t n = 0; n < ARRAY_LENGTH(limits[i].path) && limits[i].path[n] != NULL; n++)
            put(root, limits[i].path[n], limits[i].text[n]);
        snprintf(self, sizeof(self), "%s/self", root);
        if (cgroup_cpus(self, root) != limits[i].cpus)
            fail_msg("case %zu: %u CPUs", i, cgroup_cpus(self, root));
        remove_all(root);
    }
}
