/*
 * What the rooms of the supervisor share: the table of workers, and the words for which of them is
 * meant. supervisor.c has the grid of states and events, reconcile.c brings what is towards what is
 * wanted, census.c counts. Nobody else includes this.
 */
#ifndef DAEMON_SUPERVISION_H
#define DAEMON_SUPERVISION_H

#include "daemon/logger/process.h"
#include "daemon/master/listener_assign.h"
#include "daemon/master/supervisor.h"

enum { MOST_WORKERS = 64 }; /* the limit of max_processes */

struct supervisor {
    struct master *master;
    struct supervisor_owner owner;
    struct worker_process_owner worker_owner;
    uint32_t slots;
    struct worker_process *worker; /* [slots] */
    uint32_t generation;           /* that workers should be of */
    uint32_t generations;          /* the number of the newest one there has been */
    bool apart; /* new workers get no lanes while old ones serve: all change at once */
    struct dealer dealer;
    struct backoff backoff;
    struct event *retry; /* reconcile again when the back-off is over */

    struct logger_process logger;
    bool stopping; /* no worker is wanted any more */
    bool retiring; /* and idle connections may still have an answer */
};

enum worker_event {
    EVENT_START,  /* one more worker is wanted, here */
    EVENT_REPORT, /* it says how many threads serve */
    EVENT_LEAVE,  /* one is too many: this one */
    EVENT_STOP,   /* the server stops */
    EVENT_EXIT,   /* the process has ended */
    EVENT_COUNT
};

void supervisor_happen(struct supervisor *supervisor, struct worker_process *worker,
                       enum worker_event event);

/* Forks the logger unless it is there. */
void supervisor_start_logger(struct supervisor *supervisor);

/* Which worker is meant */

typedef bool worker_test(const struct supervisor *supervisor, const struct worker_process *worker);

worker_test census_current;    /* starts or serves, of the generation that is wanted */
worker_test census_old;        /* starts or serves, of another */
worker_test census_old_serves; /* serves, of another */
worker_test census_serves;     /* serves */
worker_test census_leaving;
worker_test census_threadless; /* current, and waits for thread slots that others have */

uint32_t census_count(const struct supervisor *supervisor, worker_test *test);

/* The one in the highest slot, or NULL. */
struct worker_process *census_highest(struct supervisor *supervisor, worker_test *test);

#endif
