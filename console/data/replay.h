/*
 * Reads a recording (console/data/recorder.h) and rebuilds the server's segment at any recorded
 * time. The file is untrusted. The console's only thread.
 */
#ifndef CONSOLE_REPLAY_H
#define CONSOLE_REPLAY_H

#include "console/data/processes.h"

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct replay;

/*
 * Opens the file PATH and indexes its chunks. NULL after a message in WHY. A truncated or damaged file
 * can be replayed up to the damage: see replay_error().
 */
struct replay *replay_open(const char *path, char *why, size_t size);
void replay_close(struct replay *replay);

/* Why the file cannot be read to its end, or NULL. */
const char *replay_error(const struct replay *replay);

/* Time from the first to the last chunk. */
uint64_t replay_length_ns(const struct replay *replay);

enum replay_step {
    REPLAY_STEPPED, /* the next chunk was applied */
    REPLAY_WAITS,   /* the next chunk is after UNTIL_NS, or there is none */
    REPLAY_BROKEN,  /* the next chunk is damaged; see replay_error() */
};

/* Applies the next chunk if it is not after UNTIL_NS, counted from the first chunk. */
enum replay_step replay_next(struct replay *replay, uint64_t until_ns);

/* Makes the last chunk of kind WHOLE that is not after AT_NS the next one to apply. */
void replay_seek(struct replay *replay, uint64_t at_ns);

/* Time of the current chunk (the one applied last), counted from the first chunk. */
uint64_t replay_at_ns(const struct replay *replay);

/* Recorded clocks of the current chunk. */
uint64_t replay_now_ns(const struct replay *replay);
uint64_t replay_wall_ns(const struct replay *replay);

/* A reader of the rebuilt segment; NULL before the first step. Valid until the next step. */
const struct segment_reader *replay_reader(const struct replay *replay);

/* True if the current chunk is of another daemon, or the first one after a seek. */
bool replay_new_daemon(const struct replay *replay);

/* How the daemon ended; NULL: it was running at this time. */
const char *replay_ended(const struct replay *replay);

/* The daemon's answer to `config`; "": unknown. */
const char *replay_origins(const struct replay *replay);

/* NULL: unknown. */
const struct process_table *replay_processes(const struct replay *replay);

#endif
