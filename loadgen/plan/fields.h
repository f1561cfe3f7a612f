/*
 * The header fields that a plan asks for, and a whole HTTP/1 request made of them. Both engines send
 * the same: one gives the list to libcurl, the other sends the message. Main thread.
 */
#ifndef LOADGEN_FIELDS_H
#define LOADGEN_FIELDS_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/target.h"

#include <stdbool.h>

#include <curl/curl.h>

#define FIELDS_USER_AGENT "wsload/" WEBSERVERD_VERSION

struct fields_body {
    const char *bytes; /* NULL: no body */
    size_t length;
};

/*
 * Makes the list "Name: value" of all fields but Host, User-Agent, Accept and the length of a body.
 * Returns false when memory is short. The caller frees *list with curl_slist_free_all() either way.
 */
bool fields_list(const struct plan *plan, const struct fields_body *body, struct curl_slist **list);

/*
 * Makes the request for TARGET as it goes over the wire. Returns it (the caller frees) with its length
 * in *length, or NULL when memory is short.
 */
char *fields_message(const struct plan *plan, const char *method, const struct target *target,
                     const struct curl_slist *list, const struct fields_body *body, size_t *length);

#endif
