/* What libcurl says about a request that ended, in our terms. Any thread; one at a time for a
 * handle. */
#ifndef LOADGEN_CURL_RESULT_H
#define LOADGEN_CURL_RESULT_H

#include "loadgen/stats/tally.h"

#include <curl/curl.h>

struct curl_ending {
    CURL *easy; /* not yet used again */
    CURLcode code;
    const char *said;  /* the contents of its CURLOPT_ERRORBUFFER */
    uint32_t sendings; /* how often the request was about to be sent; 0: no connection came up */
};

/* All but the times that its user knows better. */
struct exchange curl_result_read(const struct curl_ending *ending);

/* Whether a connection was established for the request. */
bool curl_result_connected(CURL *easy);

/* Whether an answer came in HTTP/2. */
bool curl_result_is_http2(CURL *easy);

/* Why it failed, in words; valid until the next call. For one that failed. */
const char *curl_result_text(const struct curl_ending *ending);

#endif
