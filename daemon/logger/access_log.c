#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "common/log_record.h"
#include "common/segment_reader.h"
#include "common/units.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PASS_MS = 50,         /* longest time that a pass waits for room in the log */
    STALLED_MS = 1000,    /* time without progress after which it is logged */
    QUOTA_MIB_PER_S = 32, /* of lines of one thread */
    QUOTA_BURST_S = 2,
    QUOTA_REPORT_S = 60, /* a thread over its quota is logged no more often */
    BATCH_LINES = LOG_BATCH_BYTES / 64,
};

static const uint32_t undecided = UINT32_MAX; /* the first line decides the target of a batch */
static const uint32_t from_salvage = UINT32_MAX;

/* One of the files of hosts. */
struct host_file {
    struct log_sink sink;
    bool failing; /* its lines are being lost, which was logged */
    uint64_t lost_lines;
};

struct batch_line {
    uint64_t end_of_record; /* position in its ring or in the salvage */
    uint32_t slot;          /* its ring, or from_salvage */
    uint32_t end_of_line;   /* in the text */
};

struct access_log {
    const struct segment *segment;
    const struct salvage *salvage;
    const struct log_targets *targets;
    const struct log_owner *owner;
    enum log_format format;
    uint32_t sample; /* of so many successful requests one is logged */
    uint64_t successes;
    struct segment_logger *block;
    struct log_sink sink;   /* target 0 */
    struct host_file *host; /* [targets->count]: of target n host[n - 1] */
    uint64_t *quota_ns;     /* of each ring, monotonic clock; see has_quota() */
    uint64_t over_quota_ns; /* when a thread over its quota was logged; 0: never */
    int error;              /* errno of the last failed write of target 0; 0: it succeeded */
    bool reported;          /* that target 0 takes no lines */
    uint64_t progress_ns;   /* when it last took some, monotonic clock */
    uint64_t corrupt_ns;    /* monotonic clock; see report_corrupt() */
    uint64_t host_id;       /* whose name is in host_name; 0: none */
    char host_name[HOST_NAME_BYTES];

    /* The batch. It outlives a pass if its target is a pipe or socket that has no room. */
    uint32_t target;
    uint32_t used;       /* bytes of text; 0: there is no batch */
    uint32_t done;       /* bytes that the target has */
    uint32_t line_count; /* each has an entry in line */
    bool full;           /* there is a record for which it has no room, or of another target */
    uint32_t first_ring; /* of the next batch */
    uint64_t salvaged;   /* words of the salvage that are written or in the batch */
    bool salvage_logged; /* that it has lines */
    struct batch_line line[BATCH_LINES];
    char text[LOG_BATCH_BYTES + LOG_LINE_MAX];
};

/* Cursors */

static uint32_t ring_count(const struct access_log *log)
{
    return segment_count(log->segment, SEGMENT_RINGS);
}

static struct log_ring_cursor *cursor_at(const struct access_log *log, uint32_t slot)
{
    return segment_ring(log->segment, slot).cursor;
}

static uint64_t cursor_position(const struct log_ring_cursor *cursor)
{
    return atomic_load_explicit(&cursor->position, memory_order_relaxed);
}

static void set_after(struct log_ring_cursor *cursor, uint64_t position)
{
    atomic_store_explicit(&cursor->after, position, memory_order_relaxed);
}

/* Moves each used ring's cursor to the end of the batch; if DISCARDED, back to its start. */
static void move_cursors(struct access_log *log, bool discarded)
{
    for (uint32_t i = 0; i < ring_count(log); i++) {
        struct log_ring_cursor *cursor;

        if (!segment_thread_reserved(log->segment, i))
            continue;
        cursor = cursor_at(log, i);
        if (discarded)
            set_after(cursor, cursor_position(cursor));
        else
            atomic_store_explicit(&cursor->position,
                                  atomic_load_explicit(&cursor->after, memory_order_relaxed),
                                  memory_order_release);
    }
}

/* A batch and its end */

static struct log_sink *sink_of(struct access_log *log, uint32_t target)
{
    return target == 0 ? &log->sink : &log->host[target - 1].sink;
}

/*
 * Notes the batch, whose target is FILE, for the logger that follows if this one dies: see
 * salvage_judge_batch(). The size of a pipe or socket does not show what it has, so batch_bytes is
 * 0.
 */
static void note_batch(struct access_log *log, const struct stat *file)
{
    struct segment_logger *block = log->block;

    atomic_store(&block->batch_device, file->st_dev);
    atomic_store(&block->batch_inode, file->st_ino);
    atomic_store(&block->batch_size_before, (uint64_t)file->st_size);
    atomic_store(&block->batch_bytes, S_ISREG(file->st_mode) ? log->used : 0);
    atomic_store(&block->lines_after,
                 metric_get(block->metrics, METRIC_log_lines) + log->line_count);
    atomic_store(&block->bytes_after, metric_get(block->metrics, METRIC_log_bytes) + log->used);
    atomic_store(&block->salvaged_after, log->salvaged);
    atomic_store_explicit(&block->batch_open, 1, memory_order_release);
}

/*
 * Ends the batch. If it is not WRITTEN, its lines stay in the rings and the salvage. Idempotent: a
 * logger that replaces a dead one may repeat it.
 */
static void close_batch(struct access_log *log, bool written)
{
    struct segment_logger *block = log->block;

    if (written) {
        metric_set(block->metrics, METRIC_log_lines, atomic_load(&block->lines_after));
        metric_set(block->metrics, METRIC_log_bytes, atomic_load(&block->bytes_after));
        atomic_store(&block->salvaged, atomic_load(&block->salvaged_after));
    }
    move_cursors(log, !written);
    log->salvaged = atomic_load(&block->salvaged);
    log->used = 0;
    atomic_store_explicit(&block->batch_open, 0, memory_order_release);
}

/*
 * Ends a batch of which its target has only the whole lines up to `done`. The others stay in the
 * rings and the salvage, or are lost if LOSE. Returns the number of the others.
 */
static uint32_t close_partial_batch(struct access_log *log, bool lose)
{
    struct segment_logger *block = log->block;
    uint32_t lines = log->line_count, left;

    while (lines > 0 && log->line[lines - 1].end_of_line > log->done)
        lines--;
    left = log->line_count - lines;
    log->done = lines > 0 ? log->line[lines - 1].end_of_line : 0;
    if (!lose) {
        move_cursors(log, true);
        atomic_store(&block->salvaged_after, atomic_load(&block->salvaged));
        for (uint32_t i = 0; i < lines; i++)
            if (log->line[i].slot == from_salvage)
                atomic_store(&block->salvaged_after, log->line[i].end_of_record);
            else
                set_after(cursor_at(log, log->line[i].slot), log->line[i].end_of_record);
    }
    atomic_store(&block->lines_after, metric_get(block->metrics, METRIC_log_lines) + lines);
    atomic_store(&block->bytes_after, metric_get(block->metrics, METRIC_log_bytes) + log->done);
    if (atomic_load(&block->batch_bytes) > 0) {
        int fd = sink_of(log, log->target)->fd;

        if (ftruncate(fd, (off_t)(atomic_load(&block->batch_size_before) + log->done)) != 0)
            log->error = errno;
        atomic_store(&block->batch_bytes, log->done);
    }
    close_batch(log, true);
    return left;
}

/* Writing a batch */

/*
 * Writes the rest of the batch. Returns false with errno: EAGAIN if SINK had no room until
 * UNTIL_NS.
 */
static bool write_batch_text(struct access_log *log, struct log_sink *sink, uint64_t until_ns)
{
    while (log->done < log->used) {
        size_t left = log->used - log->done;
        size_t written = log_sink_write(sink, LEVEL_INFO, log->text + log->done, left);

        log->done += (uint32_t)written;
        if (written < left && !log_sink_wait(sink->fd, until_ns))
            return false;
    }
    return true;
}

static void report_host(struct access_log *log, bool failing, int error)
{
    struct host_file *host = &log->host[log->target - 1];
    const char *path = log->targets->path[log->target - 1];

    if (failing && !host->failing)
        event_log(LEVEL_ERROR,
                  "cannot write the access log %s of a [host]: %s; its lines are lost meanwhile",
                  path, strerror(error));
    else if (!failing && host->failing)
        event_log(LEVEL_INFO, "the access log %s is writable again; %" PRIu64 " %s lost", path,
                  host->lost_lines, units_plural(host->lost_lines, "line is", "lines are"));
    host->failing = failing;
    if (!failing)
        host->lost_lines = 0;
}

/* Writes the batch of a host, or loses what its file does not take. */
static void write_host_batch(struct access_log *log, uint64_t until_ns)
{
    struct host_file *host = &log->host[log->target - 1];
    struct stat before = {0};
    uint32_t lost;

    if (log_sink_is_open(&host->sink))
        fstat(host->sink.fd, &before);
    note_batch(log, &before);
    errno = EBADF;
    if (log_sink_is_open(&host->sink) && write_batch_text(log, &host->sink, until_ns)) {
        close_batch(log, true);
        report_host(log, false, 0);
        return;
    }
    report_host(log, true, errno);
    if (log_sink_is_open(&host->sink))
        metric_add(log->block->metrics, METRIC_log_write_errors, 1);
    lost = close_partial_batch(log, true);
    metric_add(log->block->metrics, METRIC_log_lost, lost);
    host->lost_lines += lost;
}

static void report_blocked(struct access_log *log)
{
    if (!log->reported)
        event_log(LEVEL_ERROR, "cannot write the access log: %s; its lines stay in memory",
                  access_log_fault(log));
    log->reported = true;
}

/*
 * Writes the batch. Returns false if target 0 does not take all of it. A file then keeps the whole
 * lines that fitted. Bytes sent to a pipe or socket cannot be removed: the batch waits until it has
 * room or its receiver is back. A slow reader is not reported.
 */
static bool write_log_batch(struct access_log *log, uint64_t until_ns)
{
    uint32_t done_before = log->done;
    struct stat before = {0};
    int error;

    if (log->target != 0) {
        write_host_batch(log, until_ns);
        return true;
    }
    fstat(log->sink.fd, &before);
    note_batch(log, &before);
    if (write_batch_text(log, &log->sink, until_ns)) {
        close_batch(log, true);
        if (log->reported)
            event_log(LEVEL_INFO, "the access log is writable again");
        log->reported = false;
        log->error = 0;
        return true;
    }
    error = errno;
    if (error == EAGAIN && !log->sink.regular) {
        uint64_t now = clock_monotonic_ns();

        if (log->done != done_before || log->error != EAGAIN)
            log->progress_ns = now;
        log->error = EAGAIN;
        if (now - log->progress_ns >= STALLED_MS * NS_PER_MS)
            report_blocked(log);
        return false;
    }
    log->error = error;
    metric_add(log->block->metrics, METRIC_log_write_errors, 1);
    if (log->sink.regular) {
        close_partial_batch(log, false);
    } else {
        log->sink.lost = true;
        log->owner->lost(log->owner->context, LOG_ACCESS);
    }
    report_blocked(log);
    return false;
}

/* Collecting a batch */

/* The name of the host with entry ENTRY; empty: none. */
static struct span host_name(struct access_log *log, uint16_t entry)
{
    uint64_t id = 0;

    if (entry < segment_count(log->segment, SEGMENT_HOSTS))
        id = atomic_load(&segment_host(log->segment, entry)->id);
    if (id == 0)
        return (struct span){.length = 0};
    if (id != log->host_id)
        log->host_id = host_name_read(log->segment, entry, log->host_name);
    return log->host_id == 0 ? (struct span){.length = 0} : span_of(log->host_name);
}

/*
 * Adds the line of the record WORDS, which ends at POSITION of the ring SLOT (or from_salvage) and
 * is for TARGET. Returns false if it is to be in another batch. A write of at most PIPE_BUF bytes
 * to a pipe is not mixed with those of others, and little is repeated if the logger dies. A file
 * that takes no lines is tried with few of them.
 */
static bool add_record(struct access_log *log, const uint64_t *words, uint32_t target,
                       uint32_t slot, uint64_t position)
{
    struct log_record record;
    size_t length, limit = PIPE_BUF;
    bool success;

    if (log_record_unpack(words, &record) != 0)
        return true;
    success = record.status < 400;
    if (success && log->successes % log->sample != 0) {
        log->successes++;
        return true;
    }
    if (log->target == undecided)
        log->target = target;
    log->full = target != log->target || log->line_count == BATCH_LINES;
    if (log->full)
        return false;
    if (log->format == LOG_FORMAT_JSON && slot != from_salvage) /* that one had other hosts */
        record.host_name = host_name(log, record.host);
    length = log_record_format(log->format, &record, log->text + log->used);
    if (sink_of(log, target)->regular && (target != 0 || log->error == 0))
        limit = LOG_BATCH_BYTES;
    log->full = log->used > 0 && log->used + length > limit;
    if (log->full)
        return false;
    log->successes += success;
    log->used += (uint32_t)length;
    log->line[log->line_count++] = (struct batch_line){position, slot, log->used};
    return true;
}

/* Logs at most once a second. */
static void report_corrupt(struct access_log *log, uint32_t slot)
{
    uint64_t now = clock_monotonic_ns();

    if (now - log->corrupt_ns < NS_PER_S)
        return;
    log->corrupt_ns = now;
    event_log(LEVEL_ERROR, "a log ring of worker %u is corrupt: access log lines are lost",
              slot / segment_threads_per_worker(log->segment));
}

/*
 * A worker cannot fill the disk as fast as it writes: lines beyond its quota stay in its ring, where
 * only its own threads wait for them. Generic cell rate algorithm, in bytes.
 */
static bool has_quota(struct access_log *log, uint32_t slot, uint64_t now_ns)
{
    if (log->quota_ns[slot] <= now_ns + QUOTA_BURST_S * NS_PER_S)
        return true;
    if (log->over_quota_ns == 0 || now_ns - log->over_quota_ns > QUOTA_REPORT_S * NS_PER_S) {
        log->over_quota_ns = now_ns;
        event_log(LEVEL_WARN,
                  "a thread of worker %u logs more than %d MiB/s: its access log lines wait",
                  slot / segment_threads_per_worker(log->segment), QUOTA_MIB_PER_S);
    }
    return false;
}

static void charge_quota(struct access_log *log, uint32_t slot, uint64_t bytes, uint64_t now_ns)
{
    uint64_t *time_ns = &log->quota_ns[slot];

    *time_ns = (*time_ns > now_ns ? *time_ns : now_ns) +
               bytes * NS_PER_S / (QUOTA_MIB_PER_S * UINT64_C(1048576));
}

/*
 * Adds the lines of one ring to the batch: at most one ring's worth, so that a thread that logs
 * faster than this process writes does not hold up the other rings.
 */
static void drain_ring(struct access_log *log, uint32_t slot)
{
    const struct log_ring ring = segment_ring(log->segment, slot);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    uint64_t begin = cursor_position(ring.cursor), position = begin;
    enum log_ring_result result = LOG_RING_RECORD;

    while (result == LOG_RING_RECORD && !log->full && position - begin < ring.capacity) {
        uint64_t next = position;

        result = log_ring_read(&ring, &next, words, LOG_RECORD_WORDS_MAX);
        if (result == LOG_RING_OVERRUN)
            report_corrupt(log, slot);
        if (result != LOG_RING_RECORD ||
            add_record(log, words, log_targets_of_entry(log->targets, log_record_host(words)), slot,
                       next))
            position = next;
    }
    set_after(ring.cursor, position);
}

/* Number of records in SALVAGE from POSITION, which may be any number. */
static uint64_t lines_in_salvage(const struct salvage *salvage, uint64_t position)
{
    uint64_t lines = 0;

    for (uint64_t at = 0; at < salvage->count; at += log_ring_words(salvage->words[at]))
        lines += at >= position;
    return lines;
}

static void drain_salvage(struct access_log *log)
{
    bool added = true;

    if (log->salvaged == 0 && !log->salvage_logged)
        event_log(LEVEL_WARN,
                  "the previous server was killed: writing its last %" PRIu64 " access log lines",
                  lines_in_salvage(log->salvage, 0));
    log->salvage_logged = true;
    move_cursors(log, true);
    while (added && log->salvaged < log->salvage->count) {
        const uint64_t *record = log->salvage->words + log->salvaged;
        uint64_t next = log->salvaged + log_ring_words(record[0]);

        added = add_record(log, record, salvage_target(record, log->targets), from_salvage, next);
        if (added)
            log->salvaged = next;
    }
}

/* Collects a batch. Returns true if more lines may be left. */
static bool collect_batch(struct access_log *log)
{
    bool salvaging = log->salvaged < log->salvage->count;
    uint64_t now_ns = clock_monotonic_ns();

    log->used = log->done = log->line_count = 0;
    log->full = false;
    log->target = undecided;
    if (salvaging) {
        drain_salvage(log);
        return true;
    }
    for (uint32_t i = 0; i < ring_count(log); i++) {
        uint32_t slot = (log->first_ring + i) % ring_count(log), used = log->used;

        if (!segment_thread_reserved(log->segment, slot) || !has_quota(log, slot, now_ns))
            continue;
        drain_ring(log, slot);
        charge_quota(log, slot, log->used - used, now_ns);
    }
    log->first_ring = log->first_ring + 1 < ring_count(log) ? log->first_ring + 1 : 0;
    return log->full;
}

/*
 * Batch by batch, while there are more lines. Each begins with another ring, so that every ring has
 * its turn.
 */
enum access_log_state access_log_drain(struct access_log *log)
{
    uint64_t until_ns = clock_monotonic_ns() + PASS_MS * NS_PER_MS;
    bool some = log->used > 0, more;

    if (!log_sink_is_open(&log->sink))
        return some || log->error != 0 ? ACCESS_LOG_BLOCKED : ACCESS_LOG_IDLE;
    if (some && !write_log_batch(log, until_ns))
        return ACCESS_LOG_BLOCKED;
    do {
        more = collect_batch(log);
        if (log->used == 0) { /* no records, or only unreadable ones */
            move_cursors(log, false);
        } else {
            some = true;
            if (!write_log_batch(log, until_ns))
                return ACCESS_LOG_BLOCKED;
        }
    } while (more && clock_monotonic_ns() < until_ns);
    return some ? ACCESS_LOG_WRITTEN : ACCESS_LOG_IDLE;
}

const char *access_log_fault(const struct access_log *log)
{
    return log->error == EAGAIN ? "its reader takes no more" : strerror(log->error);
}

void access_log_finish(struct access_log *log)
{
    if (log->used > 0)
        close_partial_batch(log, false);
}

/* Start */

/*
 * Continues behind what other loggers wrote. One that was taken over may have stored any position.
 */
static void resume_salvage(struct access_log *log)
{
    uint64_t salvaged = atomic_load(&log->block->salvaged);

    log->salvaged = 0;
    while (log->salvaged < salvaged && log->salvaged < log->salvage->count)
        log->salvaged += log_ring_words(log->salvage->words[log->salvaged]);
}

struct access_log *access_log_new(const struct access_log_setup *setup)
{
    struct access_log *log = calloc(1, sizeof(*log));

    if (log == NULL)
        return NULL;
    log->host = calloc(setup->targets->count + 1, sizeof(*log->host));
    log->quota_ns = calloc(segment_count(setup->segment, SEGMENT_RINGS), sizeof(*log->quota_ns));
    if (log->host == NULL || log->quota_ns == NULL) {
        free(log->quota_ns);
        free(log->host);
        free(log);
        return NULL;
    }
    log->segment = setup->segment;
    log->salvage = setup->salvage;
    log->block = segment_logger(setup->segment);
    log->format = setup->format;
    log->sample = setup->sample > 0 ? setup->sample : 1;
    log->owner = setup->owner;
    log->targets = setup->targets;
    log->sink.fd = -1;
    for (uint32_t i = 0; i < setup->targets->count; i++)
        log->host[i].sink.fd = -1;
    resume_salvage(log);
    return log;
}

/*
 * TARGET is open as FD: ends the batch that another logger left, if that is its file. Target 0
 * comes last.
 */
static void end_left_batch(struct access_log *log, uint32_t target, int fd)
{
    static const char *const ends[] = {
        [LEFT_BATCH_ELSEWHERE] = "writing it; some of its lines may be repeated",
        [LEFT_BATCH_WRITTEN] = "it is complete",
        [LEFT_BATCH_UNWRITTEN] = "writing it",
    };
    enum left_batch left = salvage_judge_batch(log->block, fd);

    if (left == LEFT_BATCH_ELSEWHERE && target != 0)
        return;
    event_log(LEVEL_WARN, "a logger that ended left a batch of the access log: %s", ends[left]);
    close_batch(log, left == LEFT_BATCH_WRITTEN);
    resume_salvage(log);
}

static bool is_same_file(int one_fd, int other_fd)
{
    struct stat one, other;

    return fstat(one_fd, &one) == 0 && fstat(other_fd, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* The old sink is closed last: a pipe that is open again keeps what its reader has not read. */
void access_log_use(struct access_log *log, uint32_t target, const struct log_sink *sink)
{
    struct log_sink *place = sink_of(log, target), old = *place;

    *place = *sink;
    if (log->used > 0 && target == log->target && !is_same_file(old.fd, sink->fd))
        close_partial_batch(log, false);
    else if (log->used == 0 && sink->fd >= 0 &&
             atomic_load_explicit(&log->block->batch_open, memory_order_acquire) != 0)
        end_left_batch(log, target, sink->fd);
    log_sink_close(&old);
}

void access_log_free(struct access_log *log)
{
    if (log == NULL)
        return;
    log_sink_close(&log->sink);
    for (uint32_t i = 0; i < log->targets->count; i++)
        log_sink_close(&log->host[i].sink);
    free(log->host);
    free(log->quota_ns);
    free(log);
}

/* Lines that are left */

uint64_t access_log_unwritten(const struct segment *segment, const struct salvage *salvage)
{
    uint64_t lines = lines_in_salvage(salvage, atomic_load(&segment_logger(segment)->salvaged));

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_RINGS); i++) {
        const struct log_ring ring = segment_ring(segment, i);
        uint64_t words[LOG_RECORD_WORDS_MAX], begin, position;
        struct log_record record;

        if (!segment_thread_reserved(segment, i))
            continue;
        begin = position = cursor_position(ring.cursor);
        while (position - begin < ring.capacity &&
               log_ring_read(&ring, &position, words, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD)
            lines += log_record_unpack(words, &record) == 0;
    }
    return lines;
}
