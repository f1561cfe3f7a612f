/*
 * A load run from its start to the moment when it is kept: wsload's process, what both ends say
 * meanwhile, the marks of what was changed, and the comparison of both counts. The console's only
 * thread.
 */
#ifndef CONSOLE_LOAD_SESSION_H
#define CONSOLE_LOAD_SESSION_H

#include "console/data/child.h"
#include "console/load/store.h"
#include "console/scene/scene.h"

#include <stdbool.h>
#include <stdint.h>

enum load_phase {
    LOAD_NOT_RUN,
    LOAD_RUNNING,
    LOAD_SETTLING, /* the client has ended; the server's count may still move */
    LOAD_DONE,
};

struct load_session {
    struct child child;
    enum load_phase phase;
    struct load_run *run; /* the one under way, or the last one */
    struct run_store *store;
    const struct scene *scene; /* during an update */
    struct controller *controller;
    uint64_t event_ns;            /* of the last change of the server that was marked */
    uint64_t ended_ns;            /* when the client ended */
    uint64_t counted, counted_ns; /* the server's count when last looked, and since when */
};

/* SESSION is all zero; runs that end go to STORE (borrowed). Returns 0, or -1 when memory is out. */
int load_session_init(struct load_session *session, struct run_store *store);

/* Ends the client, if it runs, and frees. */
void load_session_release(struct load_session *session);

/* Starts a run, or says why not. */
void load_session_start(struct load_session *session, const struct load_settings *settings,
                        const struct scene *scene);

/* Takes what has come; after each sample, and when the child's descriptor is readable. */
void load_session_update(struct load_session *session, const struct scene *scene);

/* Until both counts have been compared. */
bool load_session_under_way(const struct load_session *session);

#endif
