/*
 * Creating, filling and removing a segment; see common/segment.h for the layout.
 */
#ifndef COMMON_SEGMENT_WRITER_H
#define COMMON_SEGMENT_WRITER_H

#include "common/segment.h"

struct segment_plan {
    const char *name;        /* the instance's */
    const char *socket_path; /* where commands are sent */
    const char *listening;   /* addresses, separated by spaces */
    uint32_t max_workers;
    uint32_t max_threads; /* each worker has as many slots */
    uint32_t cache_entries;
    uint32_t max_hosts;  /* at most SEGMENT_HOSTS_MAX; 0: no sections for hosts */
    uint64_t ring_bytes; /* size of each log ring; rounded up to a power of two */
    bool beside;         /* a server of that name runs: create one that nobody finds */
};

/*
 * Creates /webserverd.NAME.RANDOM, lays it out and reserves memory for all fixed sections; `ready`
 * is still 0. Returns 0, or -1 with errno and WHY. Master.
 */
int segment_create(struct segment *segment, const struct segment_plan *plan, char *why,
                   size_t size);

/* Sets `ready`: readers may attach from now on. Master. */
void segment_publish(struct segment *segment);

/*
 * One that was created beside another replaces it under its name. Returns 0, or -1 with errno.
 * Master.
 */
int segment_promote(struct segment *segment);

/* Unmaps the segment; removes the name if it still refers to it. Master, at exit. */
void segment_destroy(struct segment *segment);

/*
 * Reserve the memory of a slot, zeroed; do nothing if it is reserved. segment_reserve() reserves
 * worker SLOT and its first THREADS thread slots, or nothing if there is no room for all. Return 0
 * or an errno (ENOSPC if /dev/shm is full). Master.
 */
int segment_reserve_worker(struct segment *segment, uint32_t slot);
int segment_reserve_thread(struct segment *segment, uint32_t slot);
int segment_reserve(struct segment *segment, uint32_t slot, uint32_t threads);

/*
 * Reserves the first COUNT entries of HOST_COUNTS in all reserved thread slots, and in those that
 * are reserved later. Returns 0 or an errno. Master.
 */
int segment_reserve_hosts(struct segment *segment, uint32_t count);

/*
 * Reserve entry I of EARLIER, and the first COUNT entries of EARLIER_HOSTS, zeroed. Return 0 or an
 * errno. Master.
 */
int segment_reserve_earlier(struct segment *segment, uint32_t i);
int segment_reserve_earlier_hosts(struct segment *segment, uint32_t count);

/* Stores entry I of HOSTS, which is reserved. ID 0 frees it. Master. */
void segment_store_host(const struct segment *segment, uint32_t i, uint64_t id, const char *name);

/* Marks the first THREADS threads of worker SLOT as in use, and the others as unused. Master. */
void segment_use_threads(struct segment *segment, uint32_t slot, uint32_t threads);

/*
 * Called once by a child process that has one thread: maps the pages of worker SLOT, or of the
 * logger, read-write, others read-only from a read-only descriptor, and closes the descriptors, so
 * that mprotect() cannot undo it. (mremap() could, which can make a shared mapping longer; the
 * sandbox refuses it.) A worker cannot read what it does not need: of others it maps only the first
 * page of their blocks and their tables of clients. Returns 0, or -1 with errno; then the child
 * must exit.
 */
int segment_restrict_worker(struct segment *segment, uint32_t slot);
int segment_restrict_logger(struct segment *segment);

/* The same for a child process that only reads the segment: all pages are read-only. */
int segment_restrict_reader(struct segment *segment);

/* Called once by a child process that does not use the segment: unmaps and closes it. */
void segment_forget(struct segment *segment);

/* Stores the configuration in force, cut to SEGMENT_CONFIG_BYTES - 1. Master. */
void segment_store_config(struct segment *segment, const char *text);

struct certificate_copy; /* segment_reader.h, as is the next */
struct challenge_copy;

/* Stores the pending challenge of ACME; an empty token: none is pending. Master. */
void segment_store_challenge(const struct segment *segment, const struct challenge_copy *challenge);

/* Stores entry NUMBER of the certificates in use, and the number of entries in use. Master. */
void segment_store_certificate(const struct segment *segment, uint32_t number,
                               const struct certificate_copy *certificate);
void segment_store_certificate_count(const struct segment *segment, uint32_t count);

/* Stores the listen addresses, cut if too long; not atomic for readers. Master. */
void segment_store_listening(struct segment *segment, const char *addresses);

/*
 * Publish what a thread does: segment_activity_state() only the state, segment_activity_work() also
 * the text. NOW_NS is the monotonic clock. Called by the thread itself.
 */
static inline void segment_activity_state(struct segment_activity *activity,
                                          enum thread_state state, uint64_t now_ns)
{
    if (atomic_load_explicit(&activity->state, memory_order_relaxed) == (uint32_t)state)
        return;
    atomic_store_explicit(&activity->since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&activity->state, (uint32_t)state, memory_order_relaxed);
}

void segment_activity_work(struct segment_activity *activity, enum thread_state state,
                           uint64_t now_ns, const char *work, size_t length);

/*
 * Marks a slot as unused. Called by the thread when it exits, or by the master for a dead thread.
 */
void segment_activity_clear(struct segment_activity *activity, uint64_t now_ns);

/* Publish the entry of a cache slot, or its state. Under the cache lock of the worker. */
void segment_cache_publish(struct segment_cache_entry *entry, uint64_t id, uint64_t stored_ns,
                           uint64_t bytes, enum segment_cache_state state, const char *path);
void segment_cache_state(struct segment_cache_entry *entry, enum segment_cache_state state);

#endif
