/*
 * Easy handles of libcurl: sets their options from a plan and reads the result of a transfer. One
 * thread at a time per handle.
 */
#ifndef LOADGEN_CURL_HANDLE_H
#define LOADGEN_CURL_HANDLE_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/request_plan.h"
#include "loadgen/stats/tally.h"

#include <stdbool.h>

#include <curl/curl.h>

/* ---- Options. A handle keeps them from request to request. ---- */

/* Sets how to connect: timeouts, TLS, sockets. Returns false if libcurl rejects an option. */
bool curl_handle_set_connection(const struct plan *plan, const struct request_plan *request_plan,
                                CURL *easy);

/*
 * Sets the timeouts of the plan, or none. libcurl also applies them to the transfer in progress, but
 * does not wake up for those that it did not have when the transfer began. Returns false if it
 * rejects one.
 */
bool curl_handle_set_timeouts(const struct plan *plan, CURL *easy, bool on);

/*
 * Sets a large receive buffer if BODY_BYTES, a response, is large. Returns whether it did; from the
 * next request on.
 */
bool curl_handle_enlarge_buffer(const struct plan *plan, CURL *easy, uint64_t body_bytes);

/* Sets the options common to all requests. Returns false if libcurl rejects one. */
bool curl_handle_set_common(const struct plan *plan, CURL *easy);

/*
 * Sets the options of REQUEST, which must outlive the transfer. BEFORE is the previous request of
 * the handle, or NULL: unchanged options are skipped.
 */
void curl_handle_set_request(CURL *easy, const struct request *request,
                             const struct request *before);

/* ---- Results ---- */

/* A completed transfer; valid until the handle is used again. */
struct curl_ending {
    CURL *easy;
    CURLcode code;
    const char *error_text; /* the contents of its CURLOPT_ERRORBUFFER */
    uint32_t attempts; /* how often libcurl was about to send the request; 0: never connected */
};

/* The result, without latency_ns, service_ns, bad_status and bad_content. */
struct transaction curl_handle_result(const struct curl_ending *ending);

/*
 * Sets *negotiation to the protocols of the connection in use, and *resumed to whether it resumed a
 * TLS session. From within CURLOPT_PREREQFUNCTION. Returns false if nothing was negotiated: HTTP/1
 * without TLS.
 */
bool curl_handle_negotiation(CURL *easy, const struct plan *plan, struct negotiation *negotiation,
                             bool *resumed);

/* Duration of the TLS handshake of the connection established for the last transfer; 0: no TLS. */
uint64_t curl_handle_handshake_ns(CURL *easy);

/* Whether a connection was established for the request. */
bool curl_handle_connected(CURL *easy);

/*
 * Whether libcurl closed the connection after a complete response to REQUEST that lets it stay
 * open.
 */
bool curl_handle_closed_early(CURL *easy, const struct request *request);

/* Whether the response was HTTP/2. */
bool curl_handle_is_http2(CURL *easy);

/* The reason why a transfer failed; valid until the next call. */
const char *curl_handle_error_text(const struct curl_ending *ending);

#endif
