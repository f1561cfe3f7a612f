/*
 * The batch of the access log that is being written, in memory that the master and all its loggers
 * share. It outlives a killed logger, whose successor continues at the exact byte: the file shows how
 * much it has; of a pipe the journal knows, because bytes reach it through a pipe of the journal:
 *
 *   text ──write()──▶ journal's pipe ──splice()──▶ target
 *
 * The kernel moves a byte out of the one pipe and into the other in one step, so what is not in the
 * journal's pipe any more is in the target. Of a socket or terminal the journal may lag by one write,
 * which is then repeated.
 *
 * The master opens it; the running logger uses it. A logger may have been taken over, so its
 * successor checks the content.
 */
#ifndef DAEMON_LOGGER_JOURNAL_H
#define DAEMON_LOGGER_JOURNAL_H

#include "common/log_record.h"
#include "daemon/logger/sink.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOG_BATCH_BYTES = 512 * 1024 }; /* of a full batch; its last line may exceed it */

struct log_batch {
    _Atomic uint64_t used;  /* bytes of text */
    _Atomic uint64_t begin; /* where the part for this target begins; an earlier one has the rest */
    _Atomic uint64_t done;  /* bytes that the targets have */
    _Atomic uint64_t fed;   /* bytes that were put into the pipe; more than done: not yet empty */
    _Atomic uint64_t target;         /* log_targets_key() of the file that all lines are for */
    _Atomic uint64_t lost_after;     /* log_lost after the batch */
    _Atomic uint64_t salvaged;       /* words of the salvage that are written */
    _Atomic uint64_t salvaged_after; /* the same after the batch */
    _Atomic uint32_t stream;         /* the target is not a regular file */
    char text[LOG_BATCH_BYTES + LOG_LINE_MAX];
};

struct log_journal {
    struct log_batch *batch; /* NULL: not open */
    int in, out;             /* ends of its pipe */
};

#define LOG_JOURNAL_NONE ((struct log_journal){.batch = NULL, .in = -1, .out = -1})

/* Returns 0, or -1 with errno and *JOURNAL not open. */
int log_journal_open(struct log_journal *journal);
void log_journal_close(struct log_journal *journal);

/* Begins a batch: writes of text[0] to text[USED - 1] follow. */
void log_journal_begin(const struct log_journal *journal, uint64_t used);

/* Updates `done` after the death of another logger. Returns false if the content is invalid. */
bool log_journal_check(const struct log_journal *journal);

/* The target has the text up to DONE, and lacks the rest. */
void log_journal_set_done(const struct log_journal *journal, uint64_t done);

/* Moves `done` back to the beginning of a line, or to LEAST. Returns it. */
uint64_t log_journal_step_back(const struct log_journal *journal, uint64_t least);

/*
 * Writes the rest of the batch. Returns true if all is written, else false with errno: EAGAIN if the
 * target has had no room until UNTIL_NS (monotonic clock).
 */
bool log_journal_write(const struct log_journal *journal, struct log_sink *sink, uint64_t until_ns);

/* Number of whole lines of the batch that the targets have. */
uint64_t log_journal_lines_done(const struct log_journal *journal);

#endif
