/*
 * The master's side of the segment: creating it, reserving slots, publishing what threads do, and
 * removing it. See common/segment.h for the layout.
 */
#ifndef COMMON_SEGMENT_WRITER_H
#define COMMON_SEGMENT_WRITER_H

#include "common/segment.h"

struct segment_plan {
    const char *name;        /* of the instance */
    const char *socket_path; /* of the control socket */
    const char *listening;   /* addresses, separated by spaces */
    uint32_t max_workers;
    uint32_t max_threads;
    uint32_t cache_entries;
    uint64_t ring_bytes; /* of each log ring; rounded up to a power of two */
    bool beside;         /* a server of that name runs: create it as /webserverd.NAME.new */
};

/*
 * Creates /webserverd.NAME exclusively, lays it out and reserves memory for all fixed sections; it is
 * not `ready` yet. Returns 0 and fills *segment, or -1 with WHY saying what failed. A segment of that
 * name that is there already is an error (EEXIST): the caller knows whether it is dead. The master.
 */
int segment_create(struct segment *segment, const struct segment_plan *plan, char *why,
                   size_t size);

/* Stores `ready`: from now on readers may attach. The master. */
void segment_publish(struct segment *segment);

/* Gives a segment that was created beside another its name. Returns 0, or -1 with errno. The master. */
int segment_promote(const struct segment *segment);

/* Removes the /webserverd.NAME.new that a successor has left behind. The master before it. */
void segment_remove_new(const char *name);

/* Unmaps, and removes the name if it still is this segment's. The master, at the end. */
void segment_destroy(struct segment *segment);

/*
 * Reserves the memory of a slot, once; its blocks are zero at first. Returns 0, or an errno (ENOSPC
 * when /dev/shm is full). The master.
 */
int segment_reserve_worker(struct segment *segment, uint32_t slot);
int segment_reserve_thread(struct segment *segment, uint32_t slot);

/* Stores the configuration in force (cut at SEGMENT_CONFIG_BYTES - 1). The master. */
void segment_store_config(struct segment *segment, const char *text);

/* Stores the addresses listened on, cut to what fits; a reader may see half of a change. The master. */
void segment_store_listening(struct segment *segment, const char *addresses);

/*
 * Publishes what a thread does. segment_activity_state() changes only the letter; _work() also says
 * on what. NOW_NS is the monotonic clock. The thread itself; at its start and end it stores its tid.
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

/* Marks a slot as having no thread. The thread at its end, or the master for one that died. */
void segment_activity_clear(struct segment_activity *activity, uint64_t now_ns);

/* Publishes what a cache slot holds. Under the worker's cache lock. */
void segment_cache_publish(struct segment_cache_entry *entry, uint64_t id, uint64_t stored_ns,
                           uint64_t bytes, enum segment_cache_state state, const char *path);
void segment_cache_state(struct segment_cache_entry *entry, enum segment_cache_state state);

#endif
