/*
 * Prepares the requests of a run: reads the files, parses the URLs, resolves the hosts, and builds
 * header fields and messages. Both engines send the same bytes: libcurl gets the list of fields,
 * the raw engine the complete message. Main thread.
 */
#ifndef LOADGEN_PREPARE_H
#define LOADGEN_PREPARE_H

#include "loadgen/plan/request_plan.h"

#define USER_AGENT "wsload/" WEBSERVERD_VERSION

/*
 * Fills *request_plan from PLAN. Returns 0, or -1 with WHY. Release with request_plan_free() in either
 * case.
 */
int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size);

/* Resolves the hosts, unless requests go to a proxy or a UNIX socket. Returns 0, or -1 with WHY. */
int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size);

/* Appends a copy of TEXT to *list. Returns false if out of memory. */
bool string_list_append(struct curl_slist **list, const char *text);

#endif
