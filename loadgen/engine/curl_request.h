/* What a plan asks for, as options of a libcurl easy handle, which keeps them. */
#ifndef LOADGEN_CURL_REQUEST_H
#define LOADGEN_CURL_REQUEST_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/work.h"

#include <stdbool.h>

#include <curl/curl.h>

/*
 * Makes the list of header fields as libcurl wants it. Returns false when memory is short. The caller
 * frees *list with curl_slist_free_all() either way.
 */
bool curl_request_headers(const struct work *work, struct curl_slist **list);

/* Sets how to connect: timeouts, TLS, sockets. Returns false when libcurl refuses. */
bool curl_request_set_connection(const struct plan *plan, const struct work *work, CURL *easy);

/* Sets what all requests have in common; HEADERS outlives the handle. The same result. */
bool curl_request_set_common(const struct work *work, const struct curl_slist *headers, CURL *easy);

/* Makes it send REQUEST; BEFORE is what it sent last, or NULL. */
void curl_request_choose(CURL *easy, const struct work *work, const struct request *request,
                         const struct request *before);

#endif
