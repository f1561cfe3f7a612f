/*
 * Readers of files that fill a request plan before the run (request_plan_prepare()). Main thread.
 */
#ifndef LOADGEN_PLAN_INTERNAL_H
#define LOADGEN_PLAN_INTERNAL_H

#include "loadgen/plan/request_plan.h"
#include "loadgen/plan/scenario.h"

/*
 * Reads the requests of a HAR 1.2 recording (HTTP Archive), as browsers save it: method, path,
 * header fields and body, in recorded order. They go to the server of the first request of the
 * plan, whatever the recorded host was. Only requests to the host of the first recorded one are
 * kept: a page also loads from hosts of others.
 *
 * Fields that the connection or the length of the body decide (Host, Connection, Content-Length,
 * ...) are not kept. A body must be recorded as text.
 *
 * Adds the requests of FILE; with TIMES, each entry gets its recorded think time. Counts requests
 * that are not kept as skipped. Returns 0, or -1 with WHY.
 */
int har_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                  size_t size);

/*
 * Reads requests from a file, one per line:
 *
 *     [METHOD] URL [WEIGHT]                              a list; # begins a comment
 *     host - - [time] "GET /path HTTP/1.1" 200 …         an access log, common or combined
 *     {"time": …, "method": …, "target": …} or "request" an access log in JSON
 *
 * The format is recognized line by line. An invalid line of a log is skipped and counted: a log
 * that was copied while it was written ends with an incomplete line.
 *
 * Adds the requests of FILE; with TIMES it must be an access log with times. Returns 0, or -1 with
 * WHY.
 */
int request_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                      size_t size);

/*
 * Variables: {{NAME}} in a URL, a header field or a body stands for the value of column NAME of a
 * table (--csv). The requests of a run are first kept as templates, then made for each row of the
 * table. So a request costs no more during the run than one without variables, but each of its
 * forms takes memory. Main thread.
 *
 * Replaces the templates of REQUEST_PLAN and their entries by the requests of each row: first those
 * of the first row, in the order of the entries. Returns 0, or -1 with WHY.
 */
int expansion_make(struct request_plan *request_plan, const char *file, char *why, size_t size);

/*
 * Reads scenarios from a file: a list of requests in named groups, with lines
 * below a request that add to it. # begins a comment; blanks at the begin of a line mean nothing.
 *
 *     scenario NAME [WEIGHT]          begins a scenario
 *     [METHOD] URL                    a step
 *     field NAME: VALUE               a header field of the step
 *     body TEXT                       its body; each further line "body" adds a line
 *     expect STATUS[,STATUS ...]      the statuses with which the scenario goes on
 *     take NAME SOURCE [between "A" "B"]
 *                                     {{NAME}} of later steps; SOURCE is field NAME, cookie NAME,
 *                                     json PATH or body
 *     think TIME[-TIME]               between the response and the next step
 *
 * Fills the scenarios of SET, whose table must be read already, from the file of PLAN. Returns 0,
 * or -1 with WHY. Main thread.
 */
int scenario_file_read(struct scenario_set *set, const struct plan *plan, char *why, size_t size);

/* Adds the requests of all steps without variables to the plan. Returns 0, or -1 with WHY. */
int scenario_requests_add(struct request_plan *request_plan, char *why, size_t size);

#endif
