/*
 * Reads a recording (console/data/recorder.h) and rebuilds the server's shared memory of any moment of
 * it. Nothing in the file is believed unchecked. The console's only thread.
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
 * Opens the file PATH and finds its chunks. NULL after a sentence in WHY. A file that ends in the
 * middle of a chunk is opened; replay_flaw() then says so.
 */
struct replay *replay_open(const char *path, char *why, size_t size);
void replay_close(struct replay *replay);

/* What is wrong with the file, or NULL. */
const char *replay_flaw(const struct replay *replay);

/* From the first chunk to the last. */
uint64_t replay_length_ns(const struct replay *replay);

enum replay_step {
    REPLAY_STEPPED, /* the next chunk is in force */
    REPLAY_WAITS,   /* the next one is later than UNTIL, or there is none */
    REPLAY_BROKEN,  /* the file is damaged here; replay_flaw() says how */
};

/* Puts the next chunk in force if it is at or before UNTIL_NS from the beginning. */
enum replay_step replay_next(struct replay *replay, uint64_t until_ns);

/* Goes to before the last chunk that says all and is at or before AT_NS. */
void replay_seek(struct replay *replay, uint64_t at_ns);

/* Where the chunk in force is, from the beginning. */
uint64_t replay_at_ns(const struct replay *replay);

/* The recorded clocks of the chunk in force. */
uint64_t replay_now_ns(const struct replay *replay);
uint64_t replay_wall_ns(const struct replay *replay);

/* The reader of the moment; NULL before the first step. Valid until the next step. */
const struct segment_reader *replay_reader(const struct replay *replay);

/* True when the chunk in force has begun with another daemon, or is the first one after a seek. */
bool replay_new_daemon(const struct replay *replay);

/* How the daemon had ended then; NULL while it ran. */
const char *replay_ended(const struct replay *replay);

/* What the daemon's `config` command told of the configuration of then; "" when it is not known. */
const char *replay_origins(const struct replay *replay);

/* The processes of then; NULL when nothing is known. */
const struct process_table *replay_processes(const struct replay *replay);

#endif
