/*
 * The webserverd on this machine that receives the run's requests, if there is one. It is found by
 * its shared memory segment, which has its listen addresses. A run compares the server's counters
 * with its own; a sweep changes the number of workers and threads. Main thread.
 */
#ifndef LOADGEN_SERVER_H
#define LOADGEN_SERVER_H

#include "loadgen/plan/request_plan.h"
#include "loadgen/stats/result.h"

/* ---- Comparing counters. Reads the segment only. ---- */

struct server_check;

/* Finds the server. Call before the run. Returns NULL if there is none, or out of memory. */
struct server_check *server_check_begin(const struct request_plan *request_plan);

/*
 * Compares the counters after the run, in which ANSWERED requests got a complete response. Waits up
 * to one second for the server to count them. Frees CHECK, which may be NULL.
 */
void server_check_end(struct server_check *check, uint64_t answered,
                      struct server_check_result *result);

/* ---- Changing the number of workers and threads, through the control socket ---- */

struct server_sizes {
    uint32_t workers;
    uint32_t threads_per_worker; /* 0: unknown */
};

struct server_control;

/*
 * Finds the server and reads its sizes. Returns NULL with WHY if there is none. Does not connect to
 * the control socket, which may still turn out to be inaccessible.
 */
struct server_control *server_control_begin(const struct plan *plan, char *why, size_t size);

const char *server_control_name(const struct server_control *control);

/* The original sizes. */
struct server_sizes server_control_original(const struct server_control *control);

/*
 * Writes the commands that restore the original sizes. Returns TEXT, of SERVER_CONTROL_COMMANDS
 * bytes.
 */
enum { SERVER_CONTROL_COMMANDS = 256 };
char *server_control_format_commands(const struct server_control *control, char *text, size_t size);

/*
 * Sets SIZES and waits until they are in effect, for up to a minute, or until a signal arrives
 * (interrupts.h), which is left pending for the caller. Returns 0, or -1 with WHY.
 */
int server_control_set(struct server_control *control, struct server_sizes sizes, char *why,
                       size_t size);

/*
 * Restores the original sizes if they were changed, and frees CONTROL, which may be NULL. Ignores
 * signals. Returns 0, or -1 with WHY, which contains the commands to restore them by hand.
 */
int server_control_end(struct server_control *control, char *why, size_t size);

#endif
