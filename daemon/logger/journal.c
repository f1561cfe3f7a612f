#include "daemon/logger/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

int log_journal_open(struct log_journal *journal)
{
    int ends[2];
    void *memory;

    *journal = LOG_JOURNAL_NONE;
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
        return -1;
    memory = mmap(NULL, sizeof(struct log_batch), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    *journal = (struct log_journal){.batch = memory, .in = ends[1], .out = ends[0]};
    return 0;
}

void log_journal_close(struct log_journal *journal)
{
    if (journal->batch == NULL)
        return;
    munmap(journal->batch, sizeof(*journal->batch));
    close(journal->in);
    close(journal->out);
    *journal = LOG_JOURNAL_NONE;
}

/* Bytes in the journal's pipe. */
static uint64_t waiting(const struct log_journal *journal)
{
    int count = 0;

    return ioctl(journal->out, FIONREAD, &count) == 0 && count > 0 ? (uint64_t)count : 0;
}

void log_journal_begin(const struct log_journal *journal, uint64_t used)
{
    struct log_batch *batch = journal->batch;

    store(&batch->begin, 0);
    store(&batch->done, 0);
    store(&batch->fed, 0);
    store(&batch->used, used);
}

/*
 * The pipe is fed while fed = done, and emptied while fed > done. A logger that died between a call
 * and its store left a count that the pipe corrects.
 */
bool log_journal_check(const struct log_journal *journal)
{
    struct log_batch *batch = journal->batch;
    uint64_t used = load(&batch->used), done = load(&batch->done), fed = load(&batch->fed);
    uint64_t in_pipe = waiting(journal);

    if (fed == done)
        fed += in_pipe;
    if (used > sizeof(batch->text) || fed > used || done > fed || load(&batch->begin) > done ||
        in_pipe > fed)
        return false;
    if (fed > done && atomic_load(&batch->stream) != 0) {
        store(&batch->fed, fed);
        store(&batch->done, fed - in_pipe);
    }
    return true;
}

static void empty_pipe(const struct log_journal *journal)
{
    char bytes[PIPE_BUF];

    while (read(journal->out, bytes, sizeof(bytes)) > 0)
        continue;
}

void log_journal_set_done(const struct log_journal *journal, uint64_t done)
{
    struct log_batch *batch = journal->batch;

    empty_pipe(journal);
    store(&batch->done, done);
    store(&batch->fed, done);
}

uint64_t log_journal_step_back(const struct log_journal *journal, uint64_t least)
{
    const struct log_batch *batch = journal->batch;
    uint64_t done = load(&batch->done);

    while (done > least && batch->text[done - 1] != '\n')
        done--;
    log_journal_set_done(journal, done);
    return done;
}

/*
 * Length of the next write: whole lines, so that nothing else that is written to the target comes
 * between the parts of a line; a pipe takes PIPE_BUF bytes at once or none. A longer line is cut.
 */
static size_t next_piece(const struct log_batch *batch, uint64_t from)
{
    uint64_t left = load(&batch->used) - from;
    size_t most = left < PIPE_BUF ? (size_t)left : PIPE_BUF;
    const char *end = memrchr(batch->text + from, '\n', most);

    return end != NULL ? (size_t)(end + 1 - (batch->text + from)) : most;
}

/* Puts as much of the rest into the journal's pipe as fits. */
static bool feed(const struct log_journal *journal)
{
    struct log_batch *batch = journal->batch;
    uint64_t used = load(&batch->used), fed = load(&batch->fed);
    ssize_t written = 1;

    while (fed < used && written > 0) {
        written = write(journal->in, batch->text + fed, next_piece(batch, fed));
        fed += written > 0 ? (uint64_t)written : 0;
    }
    if (fed == load(&batch->done))
        return false;
    store(&batch->fed, fed);
    return true;
}

/* Empties the journal's pipe into the target. */
static bool move(const struct log_journal *journal, int fd, uint64_t until_ns)
{
    struct log_batch *batch = journal->batch;
    uint64_t done = load(&batch->done), fed = load(&batch->fed);

    while (done < fed) {
        ssize_t moved = splice(journal->out, NULL, fd, NULL, fed - done, SPLICE_F_NONBLOCK);

        if (moved > 0) {
            done += (uint64_t)moved;
            store(&batch->done, done);
        } else if (moved == 0 || !log_sink_wait(fd, until_ns)) {
            return false;
        }
    }
    return true;
}

static bool write_pipe(const struct log_journal *journal, int fd, uint64_t until_ns)
{
    const struct log_batch *batch = journal->batch;

    while (load(&batch->done) < load(&batch->used)) {
        if (load(&batch->fed) == load(&batch->done) && !feed(journal))
            return false;
        if (!move(journal, fd, until_ns))
            return false;
    }
    return true;
}

/* A socket of syslog or journald takes one line at a time. */
static size_t next_write(const struct log_batch *batch, const struct log_sink *sink, uint64_t from)
{
    uint64_t left = load(&batch->used) - from;
    const char *end = memchr(batch->text + from, '\n', left);

    if (sink->regular)
        return (size_t)left;
    if (sink->kind == LOG_TARGET_FILE || end == NULL)
        return next_piece(batch, from);
    return (size_t)(end + 1 - (batch->text + from));
}

static bool write_directly(const struct log_journal *journal, struct log_sink *sink,
                           uint64_t until_ns)
{
    struct log_batch *batch = journal->batch;
    uint64_t done = load(&batch->done), used = load(&batch->used);

    while (done < used) {
        size_t piece = next_write(batch, sink, done);
        size_t written = log_sink_write(sink, LEVEL_INFO, batch->text + done, piece);

        done += written;
        store(&batch->done, done);
        store(&batch->fed, done);
        if (written < piece && !log_sink_wait(sink->fd, until_ns))
            return false;
    }
    return true;
}

bool log_journal_write(const struct log_journal *journal, struct log_sink *sink, uint64_t until_ns)
{
    atomic_store(&journal->batch->stream, !sink->regular);
    if (sink->pipe)
        return write_pipe(journal, sink->fd, until_ns);
    return write_directly(journal, sink, until_ns);
}

uint64_t log_journal_lines_done(const struct log_journal *journal)
{
    const struct log_batch *batch = journal->batch;
    uint64_t done = load(&batch->done), lines = 0;

    for (uint64_t i = 0; i < done && i < sizeof(batch->text); i++)
        lines += batch->text[i] == '\n';
    return lines;
}
