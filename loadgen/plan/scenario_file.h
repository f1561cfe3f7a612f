/*
 * Reads scenarios from a file: a list of requests as in request_file.h, in named groups, with lines below a request
 * that add to it. # begins a comment; blanks at the begin of a line mean nothing.
 *
 *     scenario NAME [WEIGHT]          begins a scenario
 *     [METHOD] URL                    a step
 *     field NAME: VALUE               a header field of the step
 *     body TEXT                       its body; each further line "body" adds a line
 *     expect STATUS[,STATUS ...]      the statuses with which the scenario goes on
 *     take NAME SOURCE [between "A" "B"]
 *                                     {{NAME}} of later steps; SOURCE is field NAME, cookie NAME, json PATH or body
 *     think TIME[-TIME]               between the response and the next step
 */
#ifndef LOADGEN_SCENARIO_FILE_H
#define LOADGEN_SCENARIO_FILE_H

#include "loadgen/plan/scenario.h"

/*
 * Fills the scenarios of SET, whose table must be read already, from the file of PLAN. Returns 0, or -1 with WHY.
 * Main thread.
 */
int scenario_file_read(struct scenario_set *set, const struct plan *plan, char *why, size_t size);

#endif
