#include "loadgen/engine/curl_result.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>

static long info_long(CURL *easy, CURLINFO which)
{
    long value = 0;

    curl_easy_getinfo(easy, which, &value);
    return value;
}

static uint64_t info_offset(CURL *easy, CURLINFO which)
{
    curl_off_t value = 0;

    curl_easy_getinfo(easy, which, &value);
    return value > 0 ? (uint64_t)value : 0;
}

static enum error_kind kind_of_connect_failure(CURL *easy)
{
    switch (info_long(easy, CURLINFO_OS_ERRNO)) {
    case ECONNREFUSED:
        return ERROR_KIND_REFUSED;
    case EADDRNOTAVAIL:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return ERROR_KIND_LOCAL;
    case ECONNRESET:
        return ERROR_KIND_CLOSED;
    case ETIMEDOUT:
        return ERROR_KIND_CONNECT_TIMEOUT;
    default:
        return ERROR_KIND_OTHER;
    }
}

/* libcurl has one code for a connection that broke, a proxy that said no, and chunks without sense. */
static enum error_kind kind_of_receive_failure(const char *said)
{
    if (strstr(said, "proxy") != NULL || strstr(said, "tunnel") != NULL)
        return ERROR_KIND_OTHER;
    return strstr(said, "chunk") != NULL ? ERROR_KIND_MALFORMED : ERROR_KIND_CLOSED;
}

static enum error_kind kind_of(const struct curl_ending *ending)
{
    switch (ending->code) {
    case CURLE_OK:
        return ERROR_KIND_NONE;
    case CURLE_COULDNT_CONNECT:
        return kind_of_connect_failure(ending->easy);
    case CURLE_INTERFACE_FAILED: /* all of --local-port are taken, or no such --interface */
        return info_long(ending->easy, CURLINFO_OS_ERRNO) == EADDRINUSE ? ERROR_KIND_LOCAL
                                                                        : ERROR_KIND_OTHER;
    case CURLE_RECV_ERROR:
        return kind_of_receive_failure(ending->said);
    case CURLE_ABORTED_BY_CALLBACK: /* a second sending was refused */
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return ERROR_KIND_CLOSED;
    case CURLE_OPERATION_TIMEDOUT:
        return ending->sendings == 0 ? ERROR_KIND_CONNECT_TIMEOUT : ERROR_KIND_TIMEOUT;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* not HTTP/1: the scheme was checked before */
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_FILESIZE_EXCEEDED:
        return ERROR_KIND_MALFORMED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return ERROR_KIND_RESOLVE;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        return ERROR_KIND_TLS;
    default:
        return ERROR_KIND_OTHER;
    }
}

/* Time of the connection, TLS included. */
static uint64_t connect_ns(CURL *easy)
{
    uint64_t tls_us = info_offset(easy, CURLINFO_APPCONNECT_TIME_T);

    return NS_PER_US * (tls_us > 0 ? tls_us : info_offset(easy, CURLINFO_CONNECT_TIME_T));
}

bool curl_result_connected(CURL *easy)
{
    return info_long(easy, CURLINFO_NUM_CONNECTS) > 0;
}

struct exchange curl_result_read(const struct curl_ending *ending)
{
    CURL *easy = ending->easy;
    bool connected = ending->sendings > 0 && curl_result_connected(easy);

    return (struct exchange){
        .error = kind_of(ending),
        .status = (uint32_t)info_long(easy, CURLINFO_RESPONSE_CODE),
        .connected = connected,
        .connect_ns = connected ? connect_ns(easy) : 0,
        .first_byte_ns = NS_PER_US * info_offset(easy, CURLINFO_STARTTRANSFER_TIME_T),
        .head_bytes = (uint64_t)info_long(easy, CURLINFO_HEADER_SIZE),
        .body_bytes = info_offset(easy, CURLINFO_SIZE_DOWNLOAD_T),
    };
}

bool curl_result_is_http2(CURL *easy)
{
    return info_long(easy, CURLINFO_HTTP_VERSION) == CURL_HTTP_VERSION_2_0;
}

const char *curl_result_text(const struct curl_ending *ending)
{
    long os_error = info_long(ending->easy, CURLINFO_OS_ERRNO);

    if (ending->code == CURLE_COULDNT_CONNECT && os_error != 0)
        return strerror((int)os_error);
    return ending->said[0] != '\0' ? ending->said : curl_easy_strerror(ending->code);
}
