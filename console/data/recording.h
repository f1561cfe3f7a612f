/*
 * The format of a recording, its writer (recorder.c) and its reader (replay.c). A recording holds
 * the segment of the server over time: first in full, then the changes. A replay uses the same
 * reader as the live console and shows the same data.
 *
 *     file    = head chunk*
 *     head    = "WSCONREC" version(u16) 0(u16) byte-order mark(u32)
 *     chunk   = mark(u32) kind(u32) time(u64) wall(u64) raw(u32) packed(u32) check(u32) 0(u32)
 *               then PACKED bytes of zlib's deflate, RAW when inflated; CHECK is their CRC-32
 *
 *     kind WHOLE    the full segment: part SIZE, then runs for all words that are not zero
 *     kind CHANGES  runs for the words that changed since the chunk before
 *     kind ENDED    the daemon ended: part WORDS says how
 *     kind NOTE     a note of the user about the moment WALL: part WORDS has its text
 *
 *     part SIZE       1, size of the segment (varint)
 *     part RUN        2, distance from the end of the run before (varint), length (varint), bytes
 *     part PROCESSES  3, length (varint), struct process_table
 *     part WORDS      4, length (varint), text
 *     part ORIGINS    5, length (varint), the daemon's answer to `config`; length 0: unknown
 *
 * Times are ns: the monotonic clock of the server's machine, and the wall clock. Varints have seven
 * bits a byte, lowest first. A reader checks every length; if the file ends within a chunk, the
 * recording ends with the chunk before. (2026-11)
 *
 * Functions: the console's only thread.
 */
#ifndef CONSOLE_RECORDING_H
#define CONSOLE_RECORDING_H

#include "console/data/marks.h"
#include "console/data/processes.h"

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORDING_MAGIC "WSCONREC"

enum {
    RECORDING_VERSION = 2,                 /* 1 holds segments of major version 2 */
    RECORDING_RAW_MAX = 256 * 1024 * 1024, /* largest chunk, inflated */
    RECORDING_RING_WORDS = 8192,           /* see recording_ring_words() */
};

#define RECORDING_BYTE_ORDER UINT32_C(0x01020304)
#define RECORDING_CHUNK_MARK UINT32_C(0x4b4e4843) /* "CHNK" */

enum recording_kind { RECORDING_WHOLE = 1, RECORDING_CHANGES, RECORDING_ENDED, RECORDING_NOTE };
enum recording_part { PART_SIZE = 1, PART_RUN, PART_PROCESSES, PART_WORDS, PART_ORIGINS };

struct recording_head {
    char magic[8];
    uint16_t version, reserved;
    uint32_t byte_order;
};

struct recording_chunk {
    uint32_t mark, kind;
    uint64_t time_ns, wall_ns;
    uint32_t raw, packed, check, reserved;
};

struct recorder;

/* How many of the newest words of a log ring with CAPACITY words a chunk has. */
static inline uint64_t recording_ring_words(uint64_t capacity)
{
    return capacity / 2 < RECORDING_RING_WORDS ? capacity / 2 : RECORDING_RING_WORDS;
}

/* Creates the file PATH, which must not exist. NULL after a message in WHY. */
struct recorder *recorder_create(const char *path, char *why, size_t size);

/* Sets the daemon's last answer to `config` (copied), or ""; the next chunk stores it. */
void recorder_set_origins(struct recorder *recorder, const char *origins);

/*
 * Adds the current state of the segment. NEW_DAEMON: another daemon than before. PROCESSES may be
 * NULL. Returns 0, or -1 with a message in WHY: close the recorder.
 */
int recorder_add(struct recorder *recorder, const struct segment_reader *reader, bool new_daemon,
                 const struct process_table *processes, uint64_t now_ns, uint64_t wall_ns,
                 char *why, size_t size);

/* Records that the daemon ended; HOW is shown in a replay. Result as above. */
int recorder_add_end(struct recorder *recorder, const char *how, uint64_t now_ns, uint64_t wall_ns,
                     char *why, size_t size);

/* Records the note TEXT about the moment WALL_NS. Result as above. */
int recorder_add_note(struct recorder *recorder, const char *text, uint64_t now_ns,
                      uint64_t wall_ns, char *why, size_t size);

/* Bytes written so far. */
uint64_t recorder_bytes(const struct recorder *recorder);

/*
 * Closes the file. Returns 0, or -1 with a message in WHY if it is incomplete. RECORDER may be
 * NULL.
 */
int recorder_close(struct recorder *recorder, char *why, size_t size);

/*
 * A replay reads a recording and rebuilds the server's segment at any recorded time. The file is
 * untrusted.
 */
struct replay;

/*
 * Opens the file PATH and indexes its chunks. NULL after a message in WHY. A truncated or damaged
 * file can be replayed up to the damage: see replay_error().
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

/* Makes the first chunk the next one to apply. */
void replay_rewind(struct replay *replay);

/* Time of the current chunk (the one applied last), counted from the first chunk. */
uint64_t replay_at_ns(const struct replay *replay);

/* Recorded clocks of the current chunk. */
uint64_t replay_now_ns(const struct replay *replay);
uint64_t replay_wall_ns(const struct replay *replay);

/* A reader of the rebuilt segment; NULL before the first step. Valid until the next step. */
const struct segment_reader *replay_reader(const struct replay *replay);

/* True if the current chunk is of another daemon, or the first one. */
bool replay_new_daemon(const struct replay *replay);

/* How the daemon ended; NULL: it was running at this time. */
const char *replay_ended(const struct replay *replay);

/* The daemon's answer to `config`; "": unknown. */
const char *replay_origins(const struct replay *replay);

/* All notes of the recording, as marks. */
const struct marks *replay_notes(const struct replay *replay);

/* NULL: unknown. */
const struct process_table *replay_processes(const struct replay *replay);

#endif
