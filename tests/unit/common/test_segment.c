/*
 * The segment: creating, attaching, rejecting damaged ones, sums, and copies of concurrently
 * written data. Both sides run in this process; every segment has a private name.
 */
#include "common/clock.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECTIONS = 32, WORKERS = 3, THREADS = 5, CACHE_ENTRIES = 7, HOSTS = 9, WHY_BYTES = 256 };

static struct segment segment;
static struct segment_reader reader;
static char name[INSTANCE_NAME_MAX + 1], why[WHY_BYTES];

static struct segment_plan plan_of(const char *instance)
{
    return (struct segment_plan){.name = instance,
                                 .socket_path = "/run/test.sock",
                                 .listening = "127.0.0.1:8080 [::1]:8080",
                                 .max_workers = WORKERS,
                                 .max_threads = THREADS,
                                 .cache_entries = CACHE_ENTRIES,
                                 .max_hosts = HOSTS,
                                 .ring_bytes = 5000}; /* rounded up to 8192 */
}

static int name_segment(void **state)
{
    (void)state;
    snprintf(name, sizeof(name), "test-segment-%d", (int)getpid());
    return 0;
}

const struct test_fixture test_group_fixture = {name_segment, NULL};

static int make_segment(void **state)
{
    struct segment_plan plan;

    (void)state;
    plan = plan_of(name);
    why[0] = '\0';
    if (segment_create(&segment, &plan, why, sizeof(why)) != 0) {
        print_error("%s\n", why);
        return -1;
    }
    return 0;
}

static bool name_exists(void)
{
    char file[INSTANCE_PATH_MAX], none[WHY_BYTES];

    return instance_find_segment(name, file, sizeof(file), none, sizeof(none)) == 0;
}

/* No test may leave files in /dev/shm. */
static int remove_segment(void **state)
{
    (void)state;
    segment_detach(&reader);
    segment_destroy(&segment);
    return name_exists() ? -1 : 0;
}

static int make_published_segment(void **state)
{
    if (make_segment(state) != 0)
        return -1;
    segment_publish(&segment);
    if (segment_attach(&reader, name, why, sizeof(why)) == SEGMENT_ATTACHED)
        return 0;
    print_error("%s\n", why);
    remove_segment(state);
    return -1;
}

/* Creating and removing */

TEST_WITH(header_describes_server, make_published_segment, remove_segment)
{
    const struct segment_header *header = &reader.map.header;

    assert_int_equal(header->magic, SEGMENT_MAGIC);
    assert_int_equal(header->major, SEGMENT_MAJOR);
    assert_int_equal(header->total_size, reader.map.size);
    assert_int_equal(header->master_pid, getpid());
    assert_true(header->start_ticks > 0);
    assert_true(header->generation > 0);
    assert_int_equal(header->metric_count, METRIC_COUNT);
    assert_string_equal(header->name, name);
    assert_string_equal(header->version, WEBSERVERD_VERSION);
    assert_string_equal(header->socket_path, "/run/test.sock");
    assert_string_equal(header->listening, "127.0.0.1:8080 [::1]:8080");
    assert_int_equal(header->section_count, SECTIONS);
}

TEST_WITH(test_permissions_are_0640, make_segment, remove_segment)
{
    mode_t mask = umask(0);
    struct stat status;

    umask(mask);
    assert_int_equal(fstat(segment.fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640 & ~mask);
}

TEST_WITH(sections_do_not_overlap, make_segment, remove_segment)
{
    for (int a = SEGMENT_METRICS; a < SEGMENT_KIND_COUNT; a++) {
        const struct segment_section *one = &segment.section[a];

        for (uint32_t i = 0; i < one->count; i++) {
            uint64_t start = one->offset + i * one->stride, end = start + one->entry_size;

            assert_true(start >= sizeof(struct segment_header) && end <= segment.size);
            for (int b = SEGMENT_METRICS; b < SEGMENT_KIND_COUNT; b++) {
                const struct segment_section *other = &segment.section[b];

                for (uint32_t j = 0; j < other->count; j++) {
                    uint64_t other_start = other->offset + j * other->stride;

                    if (a != b || i != j)
                        assert_true(other_start >= end || other_start + other->entry_size <= start);
                }
            }
        }
    }
}

TEST_WITH(blocks_are_cache_line_aligned, make_segment, remove_segment)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal((uintptr_t)segment_thread(&segment, i) % CACHE_LINE, 0);
        assert_int_equal((uintptr_t)segment_latency_of(&segment, i) % CACHE_LINE, 0);
        assert_int_equal((uintptr_t)segment_ring(&segment, i).words % CACHE_LINE, 0);
        assert_int_equal((uintptr_t)segment_ring(&segment, i).cursor % CACHE_LINE, 0);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal((uintptr_t)segment_worker(&segment, i) % CACHE_LINE, 0);
}

TEST_WITH(metrics_and_states_are_described, make_published_segment, remove_segment)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct segment_metric *line = segment_at(&reader.map, SEGMENT_METRICS, i);

        assert_string_equal(line->name, metric_table[i].name);
        assert_string_equal(line->label, metric_table[i].label);
        assert_string_equal(line->help, metric_table[i].help);
        assert_int_equal(line->scope, metric_table[i].scope);
        assert_int_equal(line->kind, metric_table[i].kind);
        assert_int_equal(line->unit, metric_table[i].unit);
        assert_int_equal(line->offset,
                         segment_blocks[line->scope].metrics_offset + i * sizeof(uint64_t));
        assert_int_equal(reader.metric[i].line, i);
        assert_int_equal(reader.metric[i].offset, line->offset);
    }
    for (uint32_t i = 0; i < THREAD_STATE_COUNT; i++) {
        const struct segment_state *line = segment_at(&reader.map, SEGMENT_STATES, i);

        assert_int_equal(line->letter, thread_state_table[i].letter);
        assert_string_equal(line->name, thread_state_table[i].name);
        assert_string_equal(line->help, thread_state_table[i].help);
    }
}

/* As in an upgrade. */
TEST_WITH(promoted_segment_has_the_name_of_the_old_one, make_published_segment, remove_segment)
{
    struct segment_plan plan = plan_of(name);
    struct segment old = segment;

    plan.beside = true;
    assert_int_equal(segment_create(&segment, &plan, why, sizeof(why)), 0);
    segment_publish(&segment);
    assert_int_equal(segment_health(&reader, clock_monotonic_ns()), SEGMENT_ALIVE);
    assert_int_equal(segment_promote(&segment), 0);
    assert_string_equal(segment.file, old.file);
    assert_int_equal(segment_health(&reader, clock_monotonic_ns()), SEGMENT_REPLACED);
    segment_destroy(&old);
    assert_true(name_exists());
    remove_segment(state);
}

/* The old server's has gone. */
TEST(promoted_segment_needs_no_old_one)
{
    struct segment_plan plan = plan_of(name);

    plan.beside = true;
    assert_int_equal(segment_create(&segment, &plan, why, sizeof(why)), 0);
    assert_false(name_exists());
    assert_int_equal(segment_promote(&segment), 0);
    assert_true(name_exists());
    remove_segment(state);
}

TEST(destroy_removes_name)
{
    make_segment(state);
    assert_true(name_exists());
    segment_destroy(&segment);
    assert_false(name_exists());
    segment_destroy(&segment); /* harmless twice */
}

/* A server removes only its own segment. */
TEST(destroy_keeps_segment_of_new_server)
{
    struct segment old;

    make_segment(state);
    old = segment;
    shm_unlink(old.file);
    make_segment(state);
    segment_destroy(&old);
    assert_true(name_exists());
    remove_segment(state);
}

TEST_WITH(config_text_is_stored, make_segment, remove_segment)
{
    static char longer[SEGMENT_CONFIG_BYTES + 100];
    const char *stored = segment_at(&segment, SEGMENT_CONFIG, 0);

    segment_store_config(&segment, "[server]\nname = x\n");
    assert_string_equal(stored, "[server]\nname = x\n");
    memset(longer, 'c', sizeof(longer) - 1);
    segment_store_config(&segment, longer);
    assert_int_equal(strlen(stored), SEGMENT_CONFIG_BYTES - 1);
}

/* Attaching */

TEST(attach_without_segment_is_absent)
{
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ABSENT);
    assert_non_null(strstr(why, name));
    segment_detach(&reader);
    segment_detach(&reader); /* harmless twice */
}

TEST(attach_with_invalid_name_fails)
{
    static const char *const names[] = {
        "",    "../x", ".hidden",
        "a/b", "a b",  "a-name-that-is-much-longer-than-the-longest-that-is-allowed"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        assert_int_equal(segment_attach(&reader, names[i], why, sizeof(why)), SEGMENT_INVALID);
}

TEST_WITH(attach_before_ready_fails, make_segment, remove_segment)
{
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_INVALID);
    assert_non_null(strstr(why, "still starting"));
}

/* Only root can play the other user. */
TEST_WITH(segment_of_another_user_is_refused, make_segment, remove_segment)
{
    char path[2 * INSTANCE_PATH_MAX];

    if (geteuid() != 0)
        skip();
    segment_publish(&segment);
    snprintf(path, sizeof(path), "/dev/shm%s", segment.file);
    assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_FOREIGN);
    assert_non_null(strstr(why, path));
    assert_non_null(strstr(why, "(uid 65534), not to root, this user or the system service"));
    assert_int_equal(chown(path, 0, (gid_t)-1), 0);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
}

TEST(damaged_header_is_rejected)
{
    static const struct {
        size_t field, size; /* of a member of struct segment_header */
        uint64_t more;      /* added to it; 0: it is filled with letters */
        const char *said;
    } cases[] = {
#define HEADER_FIELD(field)                                                                        \
    offsetof(struct segment_header, field), sizeof(((struct segment_header *)0)->field)
        {HEADER_FIELD(magic), 1, "not a webserverd segment"},
        {HEADER_FIELD(major), 1, "major version"},
        {HEADER_FIELD(total_size), 4096, "damaged"},
        {HEADER_FIELD(section_count), SEGMENT_SECTIONS_MAX + 1 - SECTIONS, "damaged"},
        {HEADER_FIELD(metric_count), UINT32_MAX - METRIC_COUNT, "smaller"},
        {HEADER_FIELD(cache_entries), 1, "too small"},
        {HEADER_FIELD(outcome_count), 1, "too small"},
        {HEADER_FIELD(name), 0, "damaged"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t value = 0;
        char *field;

        make_segment(state);
        field = (char *)segment_shared_header(&segment) + cases[i].field;
        if (cases[i].more == 0) {
            memset(field, 'n', cases[i].size);
        } else {
            memcpy(&value, field, cases[i].size);
            value += cases[i].more;
            memcpy(field, &value, cases[i].size);
        }
        segment_publish(&segment);
        assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_INVALID);
        if (strstr(why, cases[i].said) == NULL)
            fail_msg("'%s' does not say '%s'", why, cases[i].said);
        assert_null(reader.map.base);
        remove_segment(state);
    }
}

TEST_WITH(newer_minor_is_accepted, make_segment, remove_segment)
{
    segment_shared_header(&segment)->minor++;
    segment_publish(&segment);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
}

/* Every field of every section, set to invalid values. */
TEST(damaged_sections_are_rejected)
{
    static const struct {
        size_t field; /* offset in struct segment_section */
        size_t size;
        uint64_t value;
    } cases[] = {
#define SECTION_FIELD(field)                                                                       \
    offsetof(struct segment_section, field), sizeof(((struct segment_section *)0)->field)
        {SECTION_FIELD(count), 0},
        {SECTION_FIELD(count), UINT32_MAX},
        {SECTION_FIELD(offset), UINT64_MAX - 7},
        {SECTION_FIELD(offset), UINT64_C(1) << 40},
        {SECTION_FIELD(offset), 4097}, /* not aligned */
        {SECTION_FIELD(stride), 0},
        {SECTION_FIELD(stride), UINT64_MAX},
        {SECTION_FIELD(stride), (1 << 20) + 1},
        {SECTION_FIELD(entry_size), UINT64_MAX},
        {SECTION_FIELD(entry_size), 0},
        {SECTION_FIELD(entry_size), 7},
    };

    for (uint32_t line = 0; line < SECTIONS; line++) {
        for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
            struct segment_section *section;

            make_segment(state);
            section = &segment_shared_header(&segment)->section[line];
            memcpy((char *)section + cases[i].field, &cases[i].value, cases[i].size);
            segment_publish(&segment);
            if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_INVALID)
                fail_msg("section %u, case %zu was accepted", line, i);
            remove_segment(state);
        }
    }
}

/* A reader asks for each entry whether its slot is reserved. */
TEST(table_with_more_entries_than_slots_is_rejected)
{
    static const enum segment_kind kinds[] = {SEGMENT_RINGS, SEGMENT_HOST_COUNTS, SEGMENT_CACHE,
                                              SEGMENT_CLIENTS, SEGMENT_QUEUE_WAITS};

    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        struct segment_section *section;

        make_segment(state);
        section = segment_shared_header(&segment)->section;
        while (section->kind != kinds[i])
            section++;
        section->offset = segment.section[SEGMENT_WORKERS].offset;
        section->stride = section->entry_size = (section->entry_size + 63) / 64 * 64;
        section->count++;
        segment_publish(&segment);
        if (segment_attach(&reader, name, why, sizeof(why)) != SEGMENT_INVALID ||
            strstr(why, "more entries than there are slots") == NULL)
            fail_msg("section %d: %s", (int)kinds[i], why);
        remove_segment(state);
    }
}

TEST(truncated_segment_is_rejected)
{
    static const size_t sizes[] = {
        0, 1, sizeof(struct segment_header) - 1, sizeof(struct segment_header), 4096, 100000};

    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        make_segment(state);
        segment_publish(&segment);
        assert_int_equal(ftruncate(segment.fd, (off_t)sizes[i]), 0);
        assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_INVALID);
        /* Restore the header page before it is destroyed. */
        assert_int_equal(ftruncate(segment.fd, (off_t)segment.size), 0);
        remove_segment(state);
    }
}

TEST_WITH(health_follows_master, make_published_segment, remove_segment)
{
    uint64_t now = clock_monotonic_ns();
    pid_t child;

    atomic_store(&segment_master(&segment)->heartbeat_ns, now);
    assert_int_equal(segment_health(&reader, now), SEGMENT_ALIVE);
    assert_int_equal(segment_health(&reader, now + SEGMENT_SILENT_NS), SEGMENT_ALIVE);
    assert_int_equal(segment_health(&reader, now + SEGMENT_SILENT_NS + 1), SEGMENT_SILENT);
    atomic_store(&segment_master(&segment)->heartbeat_ns, 0);
    assert_int_equal(segment_health(&reader, now), SEGMENT_ALIVE);

    child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    reader.map.header.master_pid = child;
    assert_int_equal(segment_health(&reader, now), SEGMENT_DEAD);
    reader.map.header.master_pid = getpid(); /* the pid exists, but has another start time */
    reader.map.header.start_ticks++;
    assert_int_equal(segment_health(&reader, now), SEGMENT_DEAD);

    segment_destroy(&segment);
    assert_int_equal(segment_health(&reader, now), SEGMENT_STOPPED);
    make_segment(state);
    assert_int_equal(segment_health(&reader, now), SEGMENT_REPLACED);
}

/* Slots */

TEST_WITH(reserve_is_idempotent, make_published_segment, remove_segment)
{
    for (uint32_t i = 0; i < THREADS; i++)
        assert_false(segment_thread_reserved(&segment, i));
    assert_int_equal(segment_reserve_thread(&segment, 2), 0);
    assert_true(segment_thread_reserved(&reader.map, 2));
    assert_false(segment_thread_reserved(&reader.map, 1));
    assert_int_equal(segment_thread_slot(&segment, 2)->worker, SEGMENT_NO_WORKER);
    assert_int_equal(segment_ring(&segment, 2).capacity, 8192 / sizeof(uint64_t));

    /* The second call keeps the data. */
    metric_add(segment_thread(&segment, 2)->metrics, METRIC_requests, 5);
    assert_int_equal(segment_reserve_thread(&segment, 2), 0);
    assert_int_equal(segment_sum(&segment, METRIC_requests), 5);

    assert_int_equal(segment_reserve_worker(&segment, 0), 0);
    assert_true(segment_worker_reserved(&reader.map, 0));
}

static struct statvfs room_of_segment;
static int room_failure;
static bool room_is_set;

int __wrap_fstatvfs(int fd, struct statvfs *room)
{
    if (!room_is_set)
        return __real_fstatvfs(fd, room);
    *room = room_of_segment;
    return room_failure;
}

TEST_WITH(full_file_system_reserves_nothing, make_published_segment, remove_segment)
{
    const uint64_t needed = segment.section[SEGMENT_WORKERS].stride +
                            segment.section[SEGMENT_CLIENTS].stride +
                            segment.section[SEGMENT_THREADS].stride;
    const struct {
        struct statvfs room;
        int failure, result;
    } cases[] = {
        {{.f_blocks = 1000, .f_bavail = needed - 1, .f_frsize = 1}, 0, ENOSPC},
        {{.f_blocks = 1000, .f_bavail = needed, .f_frsize = 1}, 0, 0},
        {{.f_blocks = 0}, 0, 0}, /* unlimited */
        {{.f_blocks = 1000}, -1, 0},
    };

    for (uint32_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        room_of_segment = cases[i].room;
        room_failure = cases[i].failure;
        room_is_set = true;
        if (segment_reserve(&segment, i % WORKERS, 1) != cases[i].result ||
            segment_worker_reserved(&segment, i % WORKERS) != (cases[i].result == 0))
            fail_msg("case %u", i);
        room_is_set = false;
    }
}

TEST_WITH(threads_are_used_by_their_worker, make_published_segment, remove_segment)
{
    assert_int_equal(segment_threads_per_worker(&segment), THREADS);
    assert_int_equal(segment_reserve(&segment, 1, 3), 0);
    segment_use_threads(&segment, 1, 2);
    for (uint32_t i = 0; i < WORKERS * THREADS; i++) {
        assert_int_equal(segment_thread_reserved(&reader.map, i), i >= THREADS && i < THREADS + 3);
        if (!segment_thread_reserved(&reader.map, i))
            continue;
        assert_int_equal(segment_thread_slot(&reader.map, i)->thread, i - THREADS);
        assert_int_equal(segment_thread_slot(&reader.map, i)->worker,
                         i < THREADS + 2 ? 1 : SEGMENT_NO_WORKER);
    }
}

/* Pages */

/* The kernel reads one byte at ADDRESS: false if that page is hidden. */
static bool is_readable(int null, const char *address)
{
    return write(null, address, 1) == 1;
}

/* The kernel writes one byte to ADDRESS: false if that page is read-only. */
static bool is_writable(int zero, char *address)
{
    char before = *address;

    if (read(zero, address, 1) != 1)
        return false;
    *address = before;
    return true;
}

/* True if OFFSET belongs to one of the COUNT sections from KIND on, at index INDEX. */
static bool is_in(uint64_t offset, enum segment_kind kind, uint32_t index, uint32_t count)
{
    const struct segment_section *section = &segment.section[kind];
    uint64_t begin = section->offset + index * section->stride;

    return offset >= begin && offset < begin + count * section->stride;
}

static bool is_of_worker_1(uint64_t offset)
{
    return is_in(offset, SEGMENT_WORKERS, 1, 1) ||
           is_in(offset, SEGMENT_THREADS, THREADS, THREADS) ||
           is_in(offset, SEGMENT_HOST_COUNTS, THREADS, THREADS) ||
           is_in(offset, SEGMENT_CLIENTS, 1, 1) ||
           (offset >= segment.section[SEGMENT_RATE_BUCKETS].offset &&
            offset < segment.section[SEGMENT_WORKERS].offset);
}

/* What it reads besides. No text of a request or event of another process is among it. */
static bool is_read_by_worker_1(uint64_t offset)
{
    bool is_first_page = false;

    for (uint32_t i = 0; i < WORKERS; i++)
        is_first_page |= offset == segment.section[SEGMENT_WORKERS].offset +
                                       i * segment.section[SEGMENT_WORKERS].stride;
    return is_first_page || is_in(offset, SEGMENT_CLIENTS, 0, WORKERS) ||
           offset < segment.section[SEGMENT_EVENTS].offset ||
           (offset >= segment.section[SEGMENT_LOGGER].offset &&
            offset < segment.section[SEGMENT_EVENT_CURSORS].offset);
}

static bool is_none(uint64_t offset)
{
    (void)offset;
    return false;
}

static bool is_any(uint64_t offset)
{
    (void)offset;
    return true;
}

static bool is_of_logger(uint64_t offset)
{
    return offset >= segment.section[SEGMENT_LOGGER].offset &&
           offset < segment.section[SEGMENT_RATE_BUCKETS].offset;
}

static int restrict_to_worker_1(struct segment *map)
{
    return segment_restrict_worker(map, 1);
}

/* Returns an exit status: the number of the first check that failed. */
static int check_pages(int (*restrict_to)(struct segment *map), bool (*is_own)(uint64_t offset),
                       bool (*is_read)(uint64_t offset))
{
    int zero = open("/dev/zero", O_RDONLY);
    int pipes[2];

    if (zero < 0 || pipe(pipes) != 0 || restrict_to(&segment) != 0 || segment.fd != -1 ||
        segment.read_fd != -1)
        return 1;
    for (uint64_t offset = 0; offset < segment.size; offset += 4096) {
        bool readable = is_readable(pipes[1], segment.base + offset), writable;
        char byte;

        if (readable != (is_own(offset) || is_read(offset)))
            return 4;
        if (!readable)
            continue;
        if (read(pipes[0], &byte, 1) != 1)
            return 5;
        writable = is_writable(zero, segment.base + offset);
        if (writable != is_own(offset))
            return 2;
        if (!writable && mprotect(segment.base + offset, 4096, PROT_READ | PROT_WRITE) == 0)
            return 3;
    }
    return 0;
}

TEST_WITH(child_maps_only_the_pages_that_it_needs, make_published_segment, remove_segment)
{
    static const struct {
        int (*restrict_to)(struct segment *map);
        bool (*is_own)(uint64_t offset), (*is_read)(uint64_t offset);
    } cases[] = {{restrict_to_worker_1, is_of_worker_1, is_read_by_worker_1},
                 {segment_restrict_logger, is_of_logger, is_any},
                 {segment_restrict_reader, is_none, is_any}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0)
            _exit(check_pages(cases[i].restrict_to, cases[i].is_own, cases[i].is_read));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* Memory allocated for the segment. */
static uint64_t reserved_bytes(void)
{
    struct stat status;

    assert_int_equal(fstat(segment.fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

TEST_WITH(memory_is_reserved_per_slot, make_published_segment, remove_segment)
{
    uint64_t before = reserved_bytes();

    assert_true(before >= segment.section[SEGMENT_WORKERS].offset);
    assert_true(before < segment.size);
    assert_int_equal(segment_reserve_thread(&segment, 4), 0);
    assert_true(reserved_bytes() >= before + segment.section[SEGMENT_THREADS].stride);
    before = reserved_bytes();
    segment_sum(&reader.map, METRIC_requests);
    segment_sum(&reader.map, METRIC_cache_entries);
    assert_int_equal(reserved_bytes(), before); /* reading allocates no memory */
}

TEST_WITH(hosts_have_memory_in_reserved_slots, make_published_segment, remove_segment)
{
    uint64_t before, page = 4096;

    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    assert_int_equal(segment_reserve_thread(&segment, 1), 0);
    before = reserved_bytes();
    assert_int_equal(segment_reserve_hosts(&segment, 3), 0);
    assert_int_equal(reserved_bytes(), before + 2 * page); /* 3 x 1,152 bytes in each */
    assert_int_equal(segment_reserve_hosts(&segment, 2), 0);
    assert_int_equal(segment_reserve_hosts(&segment, 4), 0);
    assert_int_equal(reserved_bytes(), before + 4 * page);
    before = reserved_bytes();
    assert_int_equal(segment_reserve_thread(&segment, 2), 0);
    assert_int_equal(reserved_bytes(), before + segment.section[SEGMENT_THREADS].stride + 2 * page);
}

static bool is_required(uint32_t kind)
{
    return kind >= SEGMENT_METRICS && kind <= SEGMENT_LATENCY;
}

/* Servers of other programs have no more than the required sections. */
TEST(only_some_sections_are_required)
{
    struct sample_copy sample;

    for (uint32_t line = 0; line < SECTIONS; line++) {
        enum segment_attach_result expected;
        struct segment_section *section;

        make_segment(state);
        section = &segment_shared_header(&segment)->section[line];
        expected = is_required(section->kind) || section->kind == SEGMENT_HOSTS ||
                           section->kind == SEGMENT_HOST_COUNTS || section->kind == SEGMENT_CACHE ||
                           section->kind == SEGMENT_HITS
                       ? SEGMENT_INVALID
                       : SEGMENT_ATTACHED;
        section->kind = SEGMENT_SECTIONS_MAX;
        segment_publish(&segment);
        if (segment_attach(&reader, name, why, sizeof(why)) != expected)
            fail_msg("without line %u: %s", line, why);
        remove_segment(state);
    }
    make_segment(state);
    for (uint32_t line = 0; line < SECTIONS; line++) {
        uint32_t *kind = &segment_shared_header(&segment)->section[line].kind;

        *kind = is_required(*kind) ? *kind : SEGMENT_SECTIONS_MAX;
    }
    segment_publish(&segment);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
    assert_int_equal(segment_samples(&reader), 0);
    assert_false(segment_read_sample(&reader, SEGMENT_MAGIC - 1, &sample, NULL, 0));
    assert_int_equal(segment_reader_offload_threads(&reader), SEGMENT_OFFLOAD_THREADS);
    assert_ptr_equal(segment_reader_offload(&reader, segment_worker(&reader.map, 0), 3),
                     &segment_worker(&reader.map, 0)->offload[3]);
    assert_null(segment_ring(&reader.map, 0).cursor);
    assert_int_equal(segment_reader_sum(&reader, METRIC_log_lines), 0);
    assert_false(segment_read_certificate(&reader.map, 0, &(struct certificate_copy){0}));
    assert_int_equal(segment_event_ring(&reader.map, SEGMENT_RING_MASTER).slots, 0);
    remove_segment(state);
}

TEST(segment_without_hosts_is_accepted)
{
    struct segment_plan plan = plan_of(name);
    size_t count;

    plan.max_hosts = 0;
    assert_int_equal(segment_create(&segment, &plan, why, sizeof(why)), 0);
    segment_publish(&segment);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
    assert_null(host_totals_read_all(&reader.map, &count));
    assert_int_equal(count, 0);
    remove_segment(state);
}

TEST_WITH(sums_include_reserved_slots_only, make_published_segment, remove_segment)
{
    uint64_t sums[METRIC_COUNT];

    assert_int_equal(segment_sum(&segment, METRIC_requests), 0);
    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    assert_int_equal(segment_reserve_thread(&segment, 3), 0);
    assert_int_equal(segment_reserve_worker(&segment, 1), 0);
    metric_add(segment_thread(&segment, 0)->metrics, METRIC_requests, 10);
    metric_add(segment_thread(&segment, 3)->metrics, METRIC_requests, 7);
    metric_sub(segment_thread(&segment, 3)->metrics, METRIC_requests, 2);
    metric_set(segment_thread(&segment, 4)->metrics, METRIC_requests, 1000); /* not reserved */
    metric_set(segment_worker(&segment, 1)->metrics, METRIC_cache_bytes, 4096);
    metric_set(segment_worker(&segment, 2)->metrics, METRIC_cache_bytes, 1); /* not reserved */
    metric_set(segment_master(&segment)->metrics, METRIC_workers_started, 3);
    metric_set(segment_logger(&segment)->metrics, METRIC_log_lines, 12);

    assert_int_equal(segment_sum(&segment, METRIC_requests), 15);
    assert_int_equal(segment_reader_sum(&reader, METRIC_requests), 15);
    assert_int_equal(segment_reader_sum(&reader, METRIC_cache_bytes), 4096);
    assert_int_equal(segment_reader_sum(&reader, METRIC_workers_started), 3);
    assert_int_equal(segment_reader_sum(&reader, METRIC_log_lines), 12);
    assert_int_equal(segment_reader_sum(&reader, METRIC_bytes_sent), 0);
    segment_sum_all(&segment, sums);
    for (int i = 0; i < METRIC_COUNT; i++)
        assert_int_equal(sums[i], segment_sum(&segment, (enum metric)i));
}

/* What earlier masters counted: for the master, for slot 1, and for slot 2, which is not reserved. */
TEST_WITH(sums_include_earlier_masters, make_published_segment, remove_segment)
{
    struct histogram *all = calloc(1, sizeof(*all)), *waits = calloc(1, sizeof(*waits));
    static const uint32_t entries[] = {0, 2, 3};
    uint64_t sums[METRIC_COUNT];

    assert_non_null(all);
    assert_non_null(waits);
    assert_int_equal(segment_counted_since_ns(&segment), segment.header.started_ns);
    assert_int_equal(segment_earlier_entries(&reader.map), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(entries); i++) {
        struct histogram *latency;

        assert_int_equal(segment_reserve_earlier(&segment, entries[i]), 0);
        metric_set(segment_earlier(&segment, entries[i]), METRIC_requests, 100);
        metric_set(segment_earlier(&segment, entries[i]), METRIC_log_lines, 10);
        latency = segment_earlier_latency(&segment, entries[i]);
        histogram_record(&latency[OUTCOME_ERROR], 1000);
        histogram_record(&latency[OUTCOME_COUNT], 2000);
    }
    assert_false(segment_has_earlier(&reader.map, 1));
    assert_false(segment_has_earlier(&reader.map, WORKERS * THREADS + 1));
    assert_int_equal(segment_reserve_thread(&segment, 1), 0);
    metric_set(segment_thread(&segment, 1)->metrics, METRIC_requests, 5);
    metric_set(segment_logger(&segment)->metrics, METRIC_log_lines, 3);
    assert_int_equal(segment_sum(&segment, METRIC_requests), 305);
    assert_int_equal(segment_reader_sum(&reader, METRIC_requests), 305);
    assert_int_equal(segment_reader_sum(&reader, METRIC_log_lines), 33);
    assert_int_equal(segment_reader_earlier(&reader, 2, METRIC_requests), 100);
    assert_int_equal(segment_reader_earlier(&reader, 1, METRIC_requests), 0);
    segment_sum_all(&segment, sums);
    for (int i = 0; i < METRIC_COUNT; i++)
        assert_int_equal(sums[i], segment_sum(&segment, (enum metric)i));
    segment_add_all_latency(&reader.map, all);
    assert_int_equal(histogram_count(all), 3);
    segment_add_queue_waits(&reader.map, waits);
    assert_int_equal(histogram_count(waits), 3);
    atomic_store(&segment_master(&segment)->counted_since_ns, 7);
    assert_int_equal(segment_counted_since_ns(&reader.map), 7);
    free(all);
    free(waits);
}

TEST_WITH(host_totals_include_earlier_masters, make_published_segment, remove_segment)
{
    struct host_totals totals;

    segment_store_host(&segment, 1, 77, "one.example");
    assert_int_equal(segment_reserve_earlier_hosts(&segment, 2), 0);
    assert_null(segment_earlier_host(&reader.map, 2));
    atomic_store(&segment_earlier_host(&segment, 1)->values[HOST_METRIC_responses_2xx], 4);
    assert_true(host_totals_read(&reader.map, 1, &totals));
    assert_int_equal(host_totals_requests(&totals), 0); /* of another host */
    atomic_store(&segment_earlier_host(&segment, 1)->id, 77);
    assert_true(host_totals_read(&reader.map, 1, &totals));
    assert_int_equal(host_totals_requests(&totals), 4);
}

/* Another server: metrics have other offsets or lines, and one is missing. */
TEST_WITH(metrics_are_found_by_name, make_segment, remove_segment)
{
    struct segment_metric *requests, *closed, *started, *lines, moved;
    uint32_t swapped;

    started = segment_at(&segment, SEGMENT_METRICS, METRIC_workers_started);
    lines = segment_at(&segment, SEGMENT_METRICS, METRIC_log_lines);
    moved = *started;
    *started = *lines;
    *lines = moved;
    requests = segment_at(&segment, SEGMENT_METRICS, METRIC_requests);
    closed = segment_at(&segment, SEGMENT_METRICS, METRIC_connections_closed);
    swapped = requests->offset;
    requests->offset = closed->offset;
    closed->offset = swapped;
    snprintf(closed->name, sizeof(closed->name), "something_new");
    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    metric_set(segment_thread(&segment, 0)->metrics, METRIC_connections_closed, 42);
    metric_set(segment_thread(&segment, 0)->metrics, METRIC_requests, 1);
    segment_publish(&segment);
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
    assert_int_equal(segment_reader_sum(&reader, METRIC_requests), 42);
    assert_int_equal(segment_reader_sum(&reader, METRIC_connections_closed), 0);
    assert_int_equal(reader.metric[METRIC_connections_closed].line, -1);
    assert_int_equal(reader.metric[METRIC_workers_started].line, METRIC_log_lines);
    assert_int_equal(reader.metric[METRIC_log_lines].line, METRIC_workers_started);
}

/* Its offset, scope or name is not one of its section. */
TEST_WITH(invalid_metric_counts_as_absent, make_segment, remove_segment)
{
    struct segment_metric *line = segment_at(&segment, SEGMENT_METRICS, METRIC_requests);
    const struct segment_metric intact = *line;
    struct segment_metric wrong[4] = {intact, intact, intact, intact};

    wrong[0].offset = (uint32_t)segment.section[SEGMENT_THREADS].entry_size;
    wrong[1].offset = UINT32_MAX - 7;
    wrong[2].offset++;
    wrong[3].scope = SCOPE_WORKER;
    segment_publish(&segment);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        *line = wrong[i];
        assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
        assert_int_equal(reader.metric[METRIC_requests].line, -1);
        assert_int_equal(segment_reader_sum(&reader, METRIC_requests), 0);
        segment_detach(&reader);
    }
}

TEST_WITH(latency_is_summed, make_published_segment, remove_segment)
{
    struct histogram *all = calloc(1, sizeof(*all)), *one = calloc(1, sizeof(*one));

    assert_non_null(all);
    assert_non_null(one);
    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    assert_int_equal(segment_reserve_thread(&segment, 2), 0);
    histogram_record(&segment_latency_of(&segment, 0)[OUTCOME_HIT], 1000);
    histogram_record(&segment_latency_of(&segment, 0)[OUTCOME_MISS], 2000);
    histogram_record(&segment_latency_of(&segment, 2)[OUTCOME_OFFLOAD], 3000);
    segment_add_latency(&reader.map, 0, one);
    assert_int_equal(histogram_count(one), 2);
    segment_add_all_latency(&reader.map, all);
    assert_int_equal(histogram_count(all), 3);
    assert_int_equal(histogram_max(all), 3000);
    reader.map.header.outcome_count = 1; /* of a server that tells no outcomes apart */
    segment_add_latency(&reader.map, 0, one);
    assert_int_equal(histogram_count(one), 3);
    free(all);
    free(one);
}

TEST_WITH(cache_hits_by_worker_and_entry, make_published_segment, remove_segment)
{
    static const struct {
        uint32_t thread, slot;
        uint64_t id, hits;
    } hits[] = {
        {0, 3, 77, 5},    {1, 3, 77, 6}, {THREADS, 3, 77, 100}, /* another worker */
        {3, 3, 76, 1000},                                       /* an earlier entry */
        {0, 4, 77, 9},                                          /* another slot */
    };

    for (size_t i = 0; i < ARRAY_LENGTH(hits); i++) {
        struct segment_hits *line;

        assert_int_equal(segment_reserve_thread(&segment, hits[i].thread), 0);
        line = &segment_hits_of(&segment, hits[i].thread)[hits[i].slot];
        atomic_store(&line->hits, hits[i].hits);
        atomic_store(&line->id, hits[i].id);
    }
    assert_int_equal(segment_cache_hits(&reader.map, 0, 3, 77), 11);
    assert_int_equal(segment_cache_hits(&reader.map, 1, 3, 77), 100);
    assert_int_equal(segment_cache_hits(&reader.map, 0, 3, 76), 1000);
    assert_int_equal(segment_cache_hits(&reader.map, 0, 4, 77), 9);
    assert_int_equal(segment_cache_hits(&reader.map, 2, 3, 77), 0);
}

/* Texts, activities, cache entries */

TEST(text_is_stored_in_words)
{
    static const char *const texts[] = {
        "", "a", "1234567", "12345678", "123456789", "123456789012345", "12345678901234567890123"};
    _Atomic uint64_t words[3];
    char text[sizeof(words)];

    memset((void *)words, 0xff, sizeof(words));
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        segment_store_text(words, ARRAY_LENGTH(words), texts[i], strlen(texts[i]));
        segment_load_text(words, ARRAY_LENGTH(words), text);
        assert_string_equal(text, texts[i]);
    }
    segment_store_text(words, ARRAY_LENGTH(words), "1234567890123456789012345", 25);
    segment_load_text(words, ARRAY_LENGTH(words), text);
    assert_string_equal(text, "12345678901234567890123"); /* cut and terminated */
}

TEST_WITH(activity_is_copied, make_published_segment, remove_segment)
{
    struct segment_activity *activity;
    struct activity_copy copy;

    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    activity = &segment_thread(&segment, 0)->activity;
    atomic_store(&activity->tid, 4711);
    segment_activity_work(activity, THREAD_STATE_FILE, 100, "/a/file.html?and more", 12);
    assert_true(segment_read_activity(&segment_thread(&reader.map, 0)->activity, &copy));
    assert_int_equal(copy.state, THREAD_STATE_FILE);
    assert_int_equal(copy.since_ns, 100);
    assert_int_equal(copy.tid, 4711);
    assert_string_equal(copy.work, "/a/file.html");

    segment_activity_state(activity, THREAD_STATE_FILE, 200); /* no change: since is unchanged */
    segment_read_activity(activity, &copy);
    assert_int_equal(copy.since_ns, 100);
    segment_activity_state(activity, THREAD_STATE_IDLE, 300);
    segment_read_activity(activity, &copy);
    assert_int_equal(copy.state, THREAD_STATE_IDLE);
    assert_int_equal(copy.since_ns, 300);

    segment_activity_clear(activity, 400);
    segment_read_activity(activity, &copy);
    assert_int_equal(copy.state, THREAD_STATE_NONE);
    assert_int_equal(copy.tid, 0);
    assert_string_equal(copy.work, "");
}

/* A writer died during a change: readers do not block, and its successor recovers.
 */
TEST(activity_of_dead_writer_is_recovered)
{
    struct segment_activity activity = {.sequence = 7, .state = THREAD_STATE_LOCK};
    struct activity_copy copy;

    assert_false(segment_read_activity(&activity, &copy));
    assert_int_equal(copy.state, THREAD_STATE_LOCK);
    segment_activity_work(&activity, THREAD_STATE_READ, 1, "x", 1);
    assert_true(segment_read_activity(&activity, &copy));
    assert_int_equal(copy.state, THREAD_STATE_READ);
}

TEST_WITH(cache_entry_is_copied, make_published_segment, remove_segment)
{
    struct segment_cache_entry *entry;
    struct cache_copy copy;

    assert_int_equal(segment_reserve_worker(&segment, 0), 0);
    entry = &segment_cache(&segment, 0)[CACHE_ENTRIES - 1];
    assert_false(segment_read_cache(entry, &copy));
    segment_cache_publish(entry, 9, 1000, 4096, CACHE_SLOT_LIVE, "/style.css");
    assert_true(segment_read_cache(&segment_cache(&reader.map, 0)[CACHE_ENTRIES - 1], &copy));
    assert_int_equal(copy.id, 9);
    assert_int_equal(copy.stored_ns, 1000);
    assert_int_equal(copy.bytes, 4096);
    assert_int_equal(copy.state, CACHE_SLOT_LIVE);
    assert_string_equal(copy.path, "/style.css");
    segment_cache_state(entry, CACHE_SLOT_STALE);
    assert_true(segment_read_cache(entry, &copy));
    assert_int_equal(copy.state, CACHE_SLOT_STALE);
}

/*
 * One writer and two readers of an activity and of a cache entry at full speed. All data is
 * generated from one serial number, so inconsistent copies are detected.
 */
enum { CHANGES = 100000 };

static struct segment_activity busy_activity;
static struct segment_cache_entry busy_entry;
static atomic_bool writing;

static int text_of(uint64_t serial, char *text, size_t size)
{
    return snprintf(text, size, "%0*llu", (int)(serial % 80 + 1), (unsigned long long)serial);
}

static void *change_all(void *unused)
{
    char text[128];

    for (uint64_t serial = 1; serial <= CHANGES; serial++) {
        int length = text_of(serial, text, sizeof(text));

        segment_activity_work(&busy_activity, (enum thread_state)(serial % THREAD_STATE_COUNT),
                              serial, text, (size_t)length);
        segment_cache_publish(&busy_entry, serial, serial + 1, serial + 2, CACHE_SLOT_LIVE, text);
    }
    atomic_store(&writing, false);
    return unused;
}

struct copies {
    uint64_t mixed, backwards;
    uint64_t last_activity, last_entry;
};

static void look_once(struct copies *copies)
{
    struct activity_copy activity;
    struct cache_copy entry;
    char text[128];

    if (segment_read_activity(&busy_activity, &activity) && activity.since_ns > 0) {
        text_of(activity.since_ns, text, sizeof(text));
        copies->mixed += activity.state != activity.since_ns % THREAD_STATE_COUNT ||
                         strcmp(activity.work, text) != 0;
        copies->backwards += activity.since_ns < copies->last_activity;
        copies->last_activity = activity.since_ns;
    }
    if (!segment_read_cache(&busy_entry, &entry))
        return;
    text_of(entry.id, text, sizeof(text));
    copies->mixed += entry.stored_ns != entry.id + 1 || entry.bytes != entry.id + 2 ||
                     strcmp(entry.path, text) != 0;
    copies->backwards += entry.id < copies->last_entry;
    copies->last_entry = entry.id;
}

static void *look_often(void *argument)
{
    while (atomic_load(&writing))
        look_once(argument);
    look_once(argument);
    return NULL;
}

TEST(concurrent_copies_are_consistent)
{
    struct copies copies[2] = {{0}, {0}};
    pthread_t writer, readers[2];

    atomic_store(&writing, true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_often, &copies[i]), 0);
    assert_int_equal(pthread_create(&writer, NULL, change_all, NULL), 0);
    pthread_join(writer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(copies[i].mixed, 0);
        assert_int_equal(copies[i].backwards, 0);
        assert_int_equal(copies[i].last_activity, CHANGES);
        assert_int_equal(copies[i].last_entry, CHANGES);
    }
}

/* History */

static void write_sample(uint64_t number)
{
    struct segment_sample *sample = segment_sample(&segment, number);
    char letters[8] = "WK_..";

    atomic_store_explicit(&sample->number, 0, memory_order_relaxed);
    atomic_store_explicit(&sample->time_ns, number * NS_PER_S, memory_order_release);
    atomic_store_explicit(&sample->latency_max_ns, 5000, memory_order_release);
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        atomic_store_explicit(&sample->latency[i], 0, memory_order_release);
    atomic_store_explicit(&sample->latency[histogram_index(1000) >> HISTOGRAM_COARSE_SHIFT], 9,
                          memory_order_release);
    atomic_store_explicit(&sample->latency[histogram_index(5000) >> HISTOGRAM_COARSE_SHIFT], 1,
                          memory_order_release);
    for (uint32_t i = 0; i < METRIC_COUNT; i++)
        atomic_store_explicit(&sample->values[i], number * 1000 + i, memory_order_release);
    letters[0] = number % 2 == 0 ? 'W' : 'R';
    segment_store_text(&sample->values[METRIC_COUNT], 1, letters, THREADS);
    atomic_store_explicit(&sample->number, number + 1, memory_order_release);
    atomic_store_explicit(&segment_master(&segment)->history_next, number + 1,
                          memory_order_release);
}

TEST_WITH(history_keeps_last_samples, make_published_segment, remove_segment)
{
    struct sample_copy copy;
    char letters[THREADS + 1] = "";
    uint64_t last = SEGMENT_HISTORY_SAMPLES + 5;

    assert_int_equal(segment_samples(&reader), 0);
    assert_false(segment_read_sample(&reader, 0, &copy, letters, sizeof(letters)));
    for (uint64_t number = 0; number <= last; number++)
        write_sample(number);
    assert_int_equal(segment_samples(&reader), last + 1);
    assert_false(segment_read_sample(&reader, 5, &copy, NULL, 0)); /* overwritten */
    assert_false(segment_read_sample(&reader, last + 1, &copy, NULL, 0));
    for (uint64_t number = 6; number <= last; number++) {
        assert_true(segment_read_sample(&reader, number, &copy, letters, THREADS));
        assert_int_equal(copy.time_ns, number * NS_PER_S);
        assert_int_equal(copy.values[METRIC_requests], number * 1000 + METRIC_requests);
        assert_string_equal(letters, number % 2 == 0 ? "WK_.." : "RK_..");
    }
    assert_true(
        segment_read_sample(&reader, last, &copy, letters, 2)); /* at most as many as requested */
}

TEST_WITH(incomplete_sample_is_not_read, make_published_segment, remove_segment)
{
    struct sample_copy copy;

    write_sample(0);
    assert_true(segment_read_sample(&reader, 0, &copy, NULL, 0));
    atomic_store(&segment_sample(&segment, 0)->number, 0);
    assert_false(segment_read_sample(&reader, 0, &copy, NULL, 0));
}

/* One entry is overwritten repeatedly; a copy is of one sample or fails. */
static void *write_samples(void *unused)
{
    for (uint64_t lap = 0; lap < 2000; lap++)
        write_sample(lap * SEGMENT_HISTORY_SAMPLES);
    atomic_store(&writing, false);
    return unused;
}

static bool sample_is_of(const struct sample_copy *copy, uint64_t number)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++)
        if (copy->values[i] != number * 1000 + i)
            return false;
    return copy->time_ns == number * NS_PER_S;
}

TEST_WITH(concurrent_samples_are_consistent, make_published_segment, remove_segment)
{
    struct sample_copy copy;
    pthread_t writer;
    uint64_t mixed = 0;

    write_sample(0);
    atomic_store(&writing, true);
    assert_int_equal(pthread_create(&writer, NULL, write_samples, NULL), 0);
    while (atomic_load(&writing)) {
        uint64_t newest = segment_samples(&reader) - 1;

        mixed +=
            segment_read_sample(&reader, newest, &copy, NULL, 0) && !sample_is_of(&copy, newest);
    }
    pthread_join(writer, NULL);
    assert_int_equal(mixed, 0);
}

TEST_WITH(sample_percentiles, make_published_segment, remove_segment)
{
    struct sample_copy copy = {0};

    assert_int_equal(sample_percentile(&copy, 50), 0);
    write_sample(0);
    assert_true(segment_read_sample(&reader, 0, &copy, NULL, 0));
    assert_in_range(sample_percentile(&copy, 50), 1000, 1250);
    assert_in_range(sample_percentile(&copy, 90), 1000, 1250);
    assert_int_equal(sample_percentile(&copy, 91), 5000); /* at most the maximum */
    assert_int_equal(sample_percentile(&copy, 100), 5000);
}
