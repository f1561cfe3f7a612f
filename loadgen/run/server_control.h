/*
 * The number of workers and threads of the webserverd that is loaded, changed while it runs through
 * its control socket, and put back. Main thread.
 */
#ifndef LOADGEN_SERVER_CONTROL_H
#define LOADGEN_SERVER_CONTROL_H

#include "loadgen/plan/plan.h"

struct server_sizes {
    uint32_t workers;
    uint32_t threads; /* in each worker; 0: not known */
};

struct server_control;

/*
 * Finds the server that PLAN's requests go to, and notes its sizes. Returns NULL with WHY when there is
 * none on this machine; nothing is sent yet, so that its socket may still turn out to be closed to us.
 */
struct server_control *server_control_begin(const struct plan *plan, char *why, size_t size);

const char *server_control_name(const struct server_control *control);

/* What they were at the begin. */
struct server_sizes server_control_before(const struct server_control *control);

/* What a person says to have them so again. Returns TEXT, for which SERVER_CONTROL_BY_HAND are enough. */
enum { SERVER_CONTROL_BY_HAND = 256 };
char *server_control_by_hand(const struct server_control *control, char *text, size_t size);

/*
 * Orders SIZES and waits until they are in force, a minute at the most, or until a signal comes
 * (interrupts.h), which is left for others to take. Returns 0, or -1 with WHY.
 */
int server_control_set(struct server_control *control, struct server_sizes sizes, char *why,
                       size_t size);

/*
 * Puts back what was there at the begin, if anything else was ordered since, and frees CONTROL, which
 * may be NULL. Signals do not stop it. Returns 0, or -1 with WHY and what to do by hand.
 */
int server_control_end(struct server_control *control, char *why, size_t size);

#endif
