#include "daemon/logger/access_log.h"

#include "common/clock.h"
#include "common/host_totals.h"
#include "common/log_record.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/logger/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PASS_MS = 50,     /* longest time that a pass waits for room in the log */
    STALLED_MS = 1000 /* time without progress after which it is logged */
};

/* Of a batch that is being collected: its first record decides. */
static const uint32_t undecided = UINT32_MAX;

/* One of the files of hosts. */
struct host_file {
    struct log_sink sink;
    bool failing;  /* its lines are being lost, which was logged */
    uint64_t lost; /* since then */
};

struct access_log {
    const struct segment *segment;
    const struct log_journal *journal;
    const struct salvage *salvage;
    const struct log_targets *targets;
    struct host_file *host; /* [targets->count]: of target n host[n - 1] */
    uint32_t target;        /* of the batch */
    bool mixed;             /* the batch ended before a record of another target */
    bool inherited;         /* the open batch is that of another logger, which was not logged yet */
    uint64_t salvaged;      /* words of the salvage that are written or in the batch */
    struct segment_logger *block;
    enum log_format format;
    const struct log_owner *owner;
    struct log_sink sink; /* of target 0 */
    int error;            /* errno of the last failed write */
    bool reported;        /* that the log takes no lines */
    uint64_t progress_ns; /* when it last took some, monotonic clock */
    uint32_t first_ring;  /* the first one of the next batch */
    uint64_t corrupt_ns;  /* monotonic clock; see report_corrupt() */
    uint64_t used, lines; /* of the batch that is being collected */
    uint64_t host_id;     /* whose name is in HOST_NAME; 0: none */
    char host_name[HOST_NAME_BYTES];
};

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* Cursors */

static uint32_t ring_count(const struct access_log *log)
{
    return segment_count(log->segment, SEGMENT_RINGS);
}

static struct log_ring_cursor *cursor_at(const struct access_log *log, uint32_t slot)
{
    return segment_ring(log->segment, slot).cursor;
}

static uint64_t position_of(const struct log_ring_cursor *cursor)
{
    return atomic_load_explicit(&cursor->position, memory_order_relaxed);
}

static void set_after(struct log_ring_cursor *cursor, uint64_t position)
{
    atomic_store_explicit(&cursor->after, position, memory_order_relaxed);
}

/* Moves each ring's cursor to the end of the batch; if DISCARDED, back to its start. */
static void move_cursors(struct access_log *log, bool discarded)
{
    for (uint32_t i = 0; i < ring_count(log); i++) {
        struct log_ring_cursor *cursor = cursor_at(log, i);

        if (discarded)
            set_after(cursor, position_of(cursor));
        else
            atomic_store_explicit(&cursor->position,
                                  atomic_load_explicit(&cursor->after, memory_order_relaxed),
                                  memory_order_release);
    }
}

/* Idempotent: a logger that replaces a dead one may repeat it. */
static void close_batch(struct access_log *log, bool written)
{
    struct segment_logger *block = log->block;

    if (written) {
        metric_set(block->metrics, METRIC_log_lines,
                   atomic_load_explicit(&block->lines_after, memory_order_relaxed));
        metric_set(block->metrics, METRIC_log_bytes,
                   atomic_load_explicit(&block->bytes_after, memory_order_relaxed));
        metric_set(block->metrics, METRIC_log_lost, load(&log->journal->batch->lost_after));
    }
    move_cursors(log, !written);
    if (written)
        store(&log->journal->batch->salvaged, load(&log->journal->batch->salvaged_after));
    log->salvaged = load(&log->journal->batch->salvaged);
    atomic_store_explicit(&block->batch_open, 0, memory_order_release);
}

/* Writing a batch */

static bool batch_is_open(const struct access_log *log)
{
    return atomic_load_explicit(&log->block->batch_open, memory_order_acquire) != 0;
}

static void open_batch(struct access_log *log)
{
    struct segment_logger *block = log->block;

    log_journal_begin(log->journal, log->used);
    store(&log->journal->batch->target, log_targets_key(log->targets, log->target));
    store(&log->journal->batch->lost_after, metric_get(block->metrics, METRIC_log_lost));
    store(&log->journal->batch->salvaged_after, log->salvaged);
    store(&block->batch_bytes, 0);
    store(&block->lines_after, metric_get(block->metrics, METRIC_log_lines) + log->lines);
    store(&block->bytes_after, metric_get(block->metrics, METRIC_log_bytes) + log->used);
    atomic_store_explicit(&block->batch_open, 1, memory_order_release);
}

/* Records the file that gets the rest of the batch. With batch_bytes 0, `done` shows what it has. */
static void record_target(struct access_log *log, const struct stat *file)
{
    struct segment_logger *block = log->block;
    struct log_batch *batch = log->journal->batch;

    store(&block->batch_bytes, 0);
    store(&batch->begin, load(&batch->done));
    store(&block->batch_device, file->st_dev);
    store(&block->batch_inode, file->st_ino);
    store(&block->batch_size_before, (uint64_t)file->st_size);
    store(&block->batch_bytes, load(&batch->used) - load(&batch->done));
}

static void report_blocked(struct access_log *log)
{
    if (!log->reported)
        event_log(LEVEL_ERROR, "cannot write the access log: %s; its lines stay in memory",
                  access_log_fault(log));
    log->reported = true;
}

/* A slow reader is not reported. */
static void check_stalled(struct access_log *log, uint64_t done_before)
{
    uint64_t now = clock_monotonic_ns();

    if (load(&log->journal->batch->done) != done_before || log->error != EAGAIN)
        log->progress_ns = now;
    log->error = EAGAIN;
    if (now - log->progress_ns >= STALLED_MS * NS_PER_MS)
        report_blocked(log);
}

/* A file keeps the whole lines that fitted. */
static void cut_partial_line(struct access_log *log, int fd, const struct stat *before)
{
    uint64_t begin = load(&log->journal->batch->begin);
    off_t fitted = (off_t)(log_journal_step_back(log->journal, begin) - begin);

    if (S_ISREG(before->st_mode) && ftruncate(fd, before->st_size + fitted) != 0)
        log->error = errno;
    store(&log->block->batch_bytes, 0);
}

/*
 * Bytes sent to a pipe or socket cannot be removed: the rest of the batch follows when the receiver is
 * back.
 */
static void write_failed(struct access_log *log, const struct stat *before, int error)
{
    log->error = error;
    metric_add(log->block->metrics, METRIC_log_write_errors, 1);
    if (!S_ISREG(before->st_mode)) {
        log->sink.lost = true;
        log->owner->lost(log->owner->context, LOG_ACCESS);
    } else {
        cut_partial_line(log, log->sink.fd, before);
    }
    report_blocked(log);
}

/* Counts the lines of the open batch that its file does not have as lost, and closes the batch. */
static void lose_rest(struct access_log *log)
{
    struct segment_logger *block = log->block;
    struct log_batch *batch = log->journal->batch;
    uint64_t done = load(&batch->done), used = load(&batch->used), lost = 0;

    for (uint64_t i = done; i < used; i++)
        lost += batch->text[i] == '\n';
    store(&block->lines_after,
          metric_get(block->metrics, METRIC_log_lines) + log_journal_lines_done(log->journal));
    store(&block->bytes_after, metric_get(block->metrics, METRIC_log_bytes) + done);
    store(&batch->lost_after, metric_get(block->metrics, METRIC_log_lost) + lost);
    log->host[log->target - 1].lost += lost;
    close_batch(log, true);
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
                  host->lost, units_plural(host->lost, "line is", "lines are"));
    host->failing = failing;
    if (!failing)
        host->lost = 0;
}

/* Writes the rest of the open batch of a host, or loses it. */
static void write_rest_of_host(struct access_log *log, uint64_t until_ns)
{
    struct log_sink *sink = &log->host[log->target - 1].sink;
    struct stat before = {0};

    if (!log_sink_is_open(sink)) {
        report_host(log, true, EBADF);
        lose_rest(log);
        return;
    }
    if (fstat(sink->fd, &before) != 0)
        before.st_size = 0;
    record_target(log, &before);
    if (log_journal_write(log->journal, sink, until_ns)) {
        close_batch(log, true);
        report_host(log, false, 0);
        return;
    }
    metric_add(log->block->metrics, METRIC_log_write_errors, 1);
    report_host(log, true, errno);
    cut_partial_line(log, sink->fd, &before);
    lose_rest(log);
}

/* Writes the rest of the open batch. */
static bool write_rest(struct access_log *log, uint64_t until_ns)
{
    struct log_batch *batch = log->journal->batch;
    uint64_t done_before = load(&batch->done);
    struct stat before = {0};

    if (log->target != 0) {
        write_rest_of_host(log, until_ns);
        return true;
    }
    if (fstat(log->sink.fd, &before) != 0)
        before.st_size = 0;
    record_target(log, &before);
    if (!log_journal_write(log->journal, &log->sink, until_ns)) {
        if (errno == EAGAIN && !log->sink.regular)
            check_stalled(log, done_before);
        else
            write_failed(log, &before, errno);
        return false;
    }
    close_batch(log, true);
    if (log->reported)
        event_log(LEVEL_INFO, "the access log is writable again");
    log->reported = false;
    log->error = 0;
    return true;
}

/* Collecting a batch */

/* The name of the host with entry ENTRY; empty: none. */
static struct span host_name(struct access_log *log, uint16_t entry)
{
    uint64_t id = 0;

    if (entry < segment_count(log->segment, SEGMENT_HOSTS))
        id = load(&segment_host(log->segment, entry)->id);
    if (id == 0)
        return (struct span){.length = 0};
    if (id != log->host_id)
        log->host_id = host_name_read(log->segment, entry, log->host_name);
    return log->host_id == 0 ? (struct span){.length = 0}
                             : (struct span){log->host_name, strlen(log->host_name)};
}

/* SALVAGED: the record is from another segment, which had other hosts. */
static void add_line(struct access_log *log, const uint64_t *words, bool salvaged)
{
    struct log_record record;

    if (log_record_unpack(words, &record) != 0)
        return;
    if (log->format == LOG_FORMAT_JSON && !salvaged)
        record.host_name = host_name(log, record.host);
    log->used += log_record_format(log->format, &record, log->journal->batch->text + log->used);
    log->lines++;
}

/* True if a record of TARGET belongs to the batch that is being collected. */
static bool is_of_batch(struct access_log *log, uint32_t target)
{
    if (log->target == undecided)
        log->target = target;
    return target == log->target;
}

/* Logs at most once a second. */
static void report_corrupt(struct access_log *log, uint32_t slot)
{
    uint64_t now = clock_monotonic_ns();

    if (now - log->corrupt_ns < NS_PER_S)
        return;
    log->corrupt_ns = now;
    event_log(LEVEL_ERROR, "a log ring of worker slot %u is corrupt: access log lines are lost",
              slot / segment_threads_per_worker(log->segment));
}

/*
 * Adds the lines of one ring to the batch: at most one ring's worth, so that a thread that logs
 * faster than this process writes does not hold up the other rings.
 */
static void drain_ring(struct access_log *log, uint32_t slot)
{
    const struct log_ring ring = segment_ring(log->segment, slot);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    uint64_t begin = position_of(ring.cursor), position = begin;
    enum log_ring_result result = LOG_RING_RECORD;

    while (result == LOG_RING_RECORD && log->used < LOG_BATCH_BYTES &&
           position - begin < ring.capacity) {
        uint64_t at = position;

        result = log_ring_read(&ring, &position, words, LOG_RECORD_WORDS_MAX);
        if (result == LOG_RING_RECORD && log->targets->count > 0 &&
            !is_of_batch(log, log_targets_of_entry(log->targets, log_record_host(words)))) {
            log->mixed = true;
            position = at;
            break;
        }
        if (result == LOG_RING_RECORD)
            add_line(log, words, false);
        else if (result == LOG_RING_OVERRUN)
            report_corrupt(log, slot);
    }
    set_after(ring.cursor, position);
}

static void drain_rings(struct access_log *log)
{
    for (uint32_t i = 0; i < ring_count(log); i++) {
        uint32_t slot = (log->first_ring + i) % ring_count(log);

        if (segment_thread_reserved(log->segment, slot))
            drain_ring(log, slot);
    }
    log->first_ring = log->first_ring + 1 < ring_count(log) ? log->first_ring + 1 : 0;
}

static uint64_t lines_in_salvage(const struct salvage *salvage, uint64_t position)
{
    uint64_t lines = 0;

    for (; position < salvage->count; lines++)
        position += log_ring_words(salvage->words[position]);
    return lines;
}

static void drain_salvage(struct access_log *log)
{
    if (log->salvaged == 0)
        event_log(LEVEL_WARN,
                  "the previous server was killed: writing its last %" PRIu64 " access log lines",
                  lines_in_salvage(log->salvage, 0));
    while (log->salvaged < log->salvage->count && log->used < LOG_BATCH_BYTES) {
        const uint64_t *record = log->salvage->words + log->salvaged;

        if (!is_of_batch(log, salvage_target(record, log->targets)))
            break;
        add_line(log, record, true);
        log->salvaged += log_ring_words(record[0]);
    }
}

/* Collects a batch. Returns true if more lines may be left. */
static bool collect_batch(struct access_log *log)
{
    bool salvaging = log->salvaged < log->salvage->count;

    log->used = log->lines = 0;
    log->mixed = false;
    log->target = log->targets->count > 0 ? undecided : 0;
    if (salvaging)
        drain_salvage(log);
    else
        drain_rings(log);
    if (log->target == undecided)
        log->target = 0;
    return salvaging || log->mixed || log->used >= LOG_BATCH_BYTES;
}

/*
 * Batch by batch, while they are full or end before another target. Each begins with another ring, so
 * that every ring has its turn.
 */
enum access_log_state access_log_drain(struct access_log *log)
{
    uint64_t until_ns = clock_monotonic_ns() + PASS_MS * NS_PER_MS;
    bool some = batch_is_open(log), more = true;

    if (!log_sink_is_open(&log->sink))
        return some || log->error != 0 ? ACCESS_LOG_BLOCKED : ACCESS_LOG_IDLE;
    if (some && !write_rest(log, until_ns))
        return ACCESS_LOG_BLOCKED;
    for (uint32_t batch = 0; more && (batch < ring_count(log) || log->mixed); batch++) {
        more = collect_batch(log);
        some = some || log->lines > 0;
        if (log->used == 0) { /* no records, or only unreadable ones */
            move_cursors(log, false);
        } else {
            open_batch(log);
            if (!write_rest(log, until_ns))
                return ACCESS_LOG_BLOCKED;
        }
        more = more && clock_monotonic_ns() < until_ns;
    }
    return some ? ACCESS_LOG_WRITTEN : ACCESS_LOG_IDLE;
}

const char *access_log_fault(const struct access_log *log)
{
    return log->error == EAGAIN ? "its reader takes no more" : strerror(log->error);
}

/* Continuing a batch */

static bool same_file(const struct segment_logger *block, const struct stat *file)
{
    return load(&block->batch_device) == file->st_dev && load(&block->batch_inode) == file->st_ino;
}

/* The size of a file shows what it has; a file that was cut or replaced meanwhile has nothing. */
static void find_end_in_file(const struct access_log *log, const struct stat *file)
{
    const struct segment_logger *block = log->block;
    const struct log_batch *batch = log->journal->batch;
    const struct batch_record record = {load(&block->batch_device), load(&block->batch_inode),
                                        load(&block->batch_size_before), load(&block->batch_bytes)};
    uint64_t begin = load(&batch->begin), used = load(&batch->used);

    switch (batch_end_of(&record, file, sizeof(batch->text))) {
    case BATCH_WRITTEN:
        log_journal_set_done(log->journal, used);
        break;
    case BATCH_PARTIAL:
        log_journal_set_done(log->journal, begin + (uint64_t)file->st_size - record.size_before);
        break;
    case BATCH_UNWRITTEN:
    case BATCH_FORGED:
        log_journal_set_done(log->journal, begin);
        break;
    }
}

/* Finds out what the open batch's target has of it, and continues there in the new sink. */
static void continue_batch(struct access_log *log, int fd)
{
    const struct log_batch *batch = log->journal->batch;
    struct stat file = {0};

    if (fstat(fd, &file) != 0)
        return;
    if (!log_journal_check(log->journal)) {
        event_log(LEVEL_ERROR, "the record of an unfinished batch of the access log is invalid: "
                               "writing all its lines");
        close_batch(log, false);
        return;
    }
    if (atomic_load(&batch->stream) == 0 && load(&log->block->batch_bytes) > 0)
        find_end_in_file(log, &file);
    else if (atomic_load(&batch->stream) != 0 && !same_file(log->block, &file))
        log_journal_step_back(log->journal, 0);
}

static void report_continued(const struct access_log *log)
{
    const struct log_batch *batch = log->journal->batch;

    event_log(LEVEL_WARN,
              "a logger that ended left a batch of the access log: %" PRIu64 " of %" PRIu64
              " bytes were written, writing the rest",
              load(&batch->done), load(&batch->used));
}

/* Start */

struct access_log *access_log_new(const struct access_log_setup *setup)
{
    struct access_log *log = calloc(1, sizeof(*log));

    if (log == NULL)
        return NULL;
    log->host = calloc(setup->targets->count + 1, sizeof(*log->host));
    if (log->host == NULL) {
        free(log);
        return NULL;
    }
    log->segment = setup->segment;
    log->journal = setup->journal;
    log->salvage = setup->salvage;
    log->salvaged = load(&setup->journal->batch->salvaged);
    log->block = segment_logger(setup->segment);
    log->format = setup->format;
    log->owner = setup->owner;
    log->targets = setup->targets;
    log->target = log_targets_find(setup->targets, load(&setup->journal->batch->target));
    log->inherited = batch_is_open(log);
    log->sink.fd = -1;
    for (uint32_t i = 0; i < setup->targets->count; i++)
        log->host[i].sink.fd = -1;
    return log;
}

/* The old sink is closed last: a pipe that is open again keeps what its reader has not read. */
void access_log_use(struct access_log *log, uint32_t target, const struct log_sink *sink)
{
    struct log_sink *place = target == 0 ? &log->sink : &log->host[target - 1].sink, old = *place;

    *place = *sink;
    if (sink->fd >= 0 && batch_is_open(log) && target == log->target) {
        continue_batch(log, sink->fd);
        if (log->inherited)
            report_continued(log);
        log->inherited = false;
    }
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
    free(log);
}

/* Lines that are left */

static uint64_t lines_in_ring(const struct log_ring *ring)
{
    uint64_t begin = position_of(ring->cursor), position = begin, lines = 0;
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record;

    while (position - begin < ring->capacity &&
           log_ring_read(ring, &position, words, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD)
        lines += log_record_unpack(words, &record) == 0;
    return lines;
}

uint64_t access_log_unwritten(const struct segment *segment, const struct log_journal *journal,
                              const struct salvage *salvage)
{
    uint64_t lines = lines_in_salvage(salvage, load(&journal->batch->salvaged)), done = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_RINGS); i++)
        if (segment_thread_reserved(segment, i)) {
            const struct log_ring ring = segment_ring(segment, i);

            lines += lines_in_ring(&ring);
        }
    if (atomic_load_explicit(&segment_logger(segment)->batch_open, memory_order_acquire) != 0)
        done = log_journal_lines_done(journal);
    return lines > done ? lines - done : 0;
}
