/*
 * A load run from start to end: starts wsload, collects its progress and the server's metrics, marks
 * changes, compares both request counts, and stores the run. Single thread.
 */
#ifndef CONSOLE_LOAD_SESSION_H
#define CONSOLE_LOAD_SESSION_H

#include "console/data/child.h"
#include "console/load/run.h"
#include "console/scene/scene.h"

#include <stdbool.h>
#include <stdint.h>

enum load_phase {
    LOAD_NOT_RUN,
    LOAD_RUNNING,
    LOAD_SETTLING, /* wsload has exited; the server's count may still change */
    LOAD_DONE,
};

struct load_session {
    struct child child; /* wsload */
    enum load_phase phase;
    struct load_run *run; /* the current or the last one */
    struct load_store *store;
    const struct scene *scene; /* during an update */
    struct controller *controller;
    uint64_t event_ns;   /* time of the last event that was marked */
    uint64_t ended_ns;   /* when wsload exited */
    uint64_t counted;    /* the server's count at the last update */
    uint64_t counted_ns; /* since when it has not changed */
};

/* SESSION is all zero. Runs are added to STORE (borrowed). Returns 0, or -1 if out of memory. */
int load_session_init(struct load_session *session, struct load_store *store);

/* Stops wsload if it runs, and frees. */
void load_session_release(struct load_session *session);

/* Starts a run, or reports why it cannot. */
void load_session_start(struct load_session *session, const struct load_settings *settings,
                        const struct scene *scene);

/* Call after each sample, and when the child's descriptor is readable. */
void load_session_update(struct load_session *session, const struct scene *scene);

/* True until both counts have been compared. */
bool load_session_active(const struct load_session *session);

#endif
