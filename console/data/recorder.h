/*
 * Writes a recording (console/data/recording.h) of the segment that a reader is attached to. The
 * console's only thread.
 */
#ifndef CONSOLE_RECORDER_H
#define CONSOLE_RECORDER_H

#include "console/data/processes.h"

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recorder;

/* Creates the file PATH, which must not exist. NULL after a sentence in WHY. */
struct recorder *recorder_create(const char *path, char *why, size_t size);

/* What the daemon's `config` command told last (copied), or "": the next moment has it. */
void recorder_note_origins(struct recorder *recorder, const char *origins);

/*
 * Adds the present. NEWCOMER: another daemon than before. PROCESSES may be NULL. Returns 0, or -1
 * with a sentence in WHY: nothing more is then written.
 */
int recorder_add(struct recorder *recorder, const struct segment_reader *reader, bool newcomer,
                 const struct process_table *processes, uint64_t now_ns, uint64_t wall_ns,
                 char *why, size_t size);

/* Adds that the daemon has ended, in HOW's words. Results as above. */
int recorder_add_end(struct recorder *recorder, const char *how, uint64_t now_ns, uint64_t wall_ns,
                     char *why, size_t size);

/* Bytes written so far. */
uint64_t recorder_bytes(const struct recorder *recorder);

/* Ends the file. Returns 0, or -1 with a sentence in WHY when it is not whole. */
int recorder_close(struct recorder *recorder, char *why, size_t size);

#endif
