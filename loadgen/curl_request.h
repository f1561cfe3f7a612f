/* The request that a plan asks for, as options of a libcurl easy handle, which keeps them. */
#ifndef LOADGEN_CURL_REQUEST_H
#define LOADGEN_CURL_REQUEST_H

#include "loadgen/plan.h"

#include <stdbool.h>

#include <curl/curl.h>

/* All of it outlives the easy handles. */
struct curl_request {
    const struct plan *plan;
    CURLU *url;
    struct curl_slist *addresses; /* for CURLOPT_RESOLVE; may be NULL */
    struct curl_slist *headers;   /* from curl_request_headers() */
};

/*
 * Makes the list of header fields. Returns false when memory is short. The caller frees *list with
 * curl_slist_free_all() either way.
 */
bool curl_request_headers(const struct plan *plan, struct curl_slist **list);

/* Sets everything that says what is sent, and for how long. Returns false when libcurl refuses. */
bool curl_request_set(const struct curl_request *request, CURL *easy);

#endif
