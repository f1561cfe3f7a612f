#include "loadgen/engine/curl_handle.h"

#include "common/clock.h"

#include "loadgen/plan/prepare.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFERS_BYTES = 64 * 1024 * 1024, /* approximate total of all receive buffers */
    BUFFER_BYTES_MIN = 16 * 1024,
    BUFFER_BYTES_MAX = 512 * 1024, /* large bodies cost half as much CPU time as with 16 KiB */
};

/* libcurl omits a field "Name:" without a value; "Name;" sends it empty. */
static bool append_field(struct curl_slist **list, const char *field)
{
    const char *value = strchr(field, ':') + 1;
    char *text;
    bool good;

    if (value[strspn(value, " \t")] != '\0')
        return string_list_append(list, field);
    text = strdup(field);
    if (text == NULL)
        return false;
    strcpy(strchr(text, ':'), ";");
    good = string_list_append(list, text);
    free(text);
    return good;
}

/* Without "Expect:" libcurl waits for "100 Continue" before it sends a large body. */
bool curl_handle_make_headers(const struct request_plan *request_plan, struct curl_slist **list)
{
    bool good = true;

    *list = NULL;
    for (const struct curl_slist *field = request_plan->headers; good && field != NULL;
         field = field->next)
        good = append_field(list, field->data);
    return good && (request_plan->body == NULL || string_list_append(list, "Expect:"));
}

static long buffer_bytes(const struct plan *plan)
{
    long even = BUFFERS_BYTES / (long)plan->connections;

    return even < BUFFER_BYTES_MIN   ? BUFFER_BYTES_MIN
           : even > BUFFER_BYTES_MAX ? BUFFER_BYTES_MAX
                                     : even;
}

static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return text == NULL || curl_easy_setopt(easy, option, text) == CURLE_OK;
}

/*
 * libcurl caches the CA certificates for all connections of a multi handle, but not if CURLOPT_CAPATH is
 * set: then each connection reads them all again, which takes 20 ms of CPU time.
 */
static bool set_tls(const struct plan *plan, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           (!plan->insecure || (curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L) == CURLE_OK &&
                                curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L) == CURLE_OK)) &&
           set_text(easy, CURLOPT_CAINFO, plan->ca_file) &&
           set_text(easy, CURLOPT_SSLCERT, plan->certificate) &&
           set_text(easy, CURLOPT_SSLKEY, plan->key);
}

static long family_of(const struct plan *plan)
{
    return plan->family == AF_INET    ? CURL_IPRESOLVE_V4
           : plan->family == AF_INET6 ? CURL_IPRESOLVE_V6
                                      : CURL_IPRESOLVE_WHATEVER;
}

/* HTTP/2 without TLS uses prior knowledge: an Upgrade would add a request. */
static long version_of(const struct plan *plan, const struct request_plan *request_plan)
{
    switch (plan->http) {
    case PLAN_HTTP_1_0:
        return CURL_HTTP_VERSION_1_0;
    case PLAN_HTTP_2:
        return request_plan->requests[0].target.tls ? CURL_HTTP_VERSION_2TLS
                                                    : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    case PLAN_HTTP_1_1:
        break;
    }
    return CURL_HTTP_VERSION_1_1;
}

/* Ignores the proxies of the environment. The raw engine needs a tunnel through an HTTP proxy. */
static bool set_proxy(const struct plan *plan, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_PROXY, plan->proxy != NULL ? plan->proxy : "") ==
               CURLE_OK &&
           set_text(easy, CURLOPT_NOPROXY, plan->proxy != NULL ? "" : NULL) &&
           (plan->engine != PLAN_ENGINE_RAW ||
            curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L) == CURLE_OK);
}

static bool set_route(const struct plan *plan, CURL *easy)
{
    return set_proxy(plan, easy) && set_text(easy, CURLOPT_INTERFACE, plan->interface) &&
           (plan->local_port == 0 ||
            (curl_easy_setopt(easy, CURLOPT_LOCALPORT, (long)plan->local_port) == CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_LOCALPORTRANGE, (long)plan->local_ports) == CURLE_OK));
}

bool curl_handle_set_connection(const struct plan *plan, const struct request_plan *request_plan,
                                CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_CONNECT_TO, request_plan->connect_to) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_IPRESOLVE, family_of(plan)) == CURLE_OK &&
           set_text(easy, CURLOPT_UNIX_SOCKET_PATH, plan->unix_socket) && set_tls(plan, easy) &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version_of(plan, request_plan)) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)plan->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)plan->connect_timeout_ms) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes(plan)) == CURLE_OK &&
           set_route(plan, easy) && curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
}

bool curl_handle_set_common(const struct request_plan *request_plan,
                            const struct curl_slist *headers, CURL *easy)
{
    const struct plan *plan = request_plan->plan;

    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, USER_AGENT) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, plan->keepalive ? 0L : 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, plan->keepalive ? 0L : 1L) == CURLE_OK;
}

static void set_method(CURL *easy, const struct request_plan *request_plan,
                       const struct request *request)
{
    bool plain = strcmp(request->method, "GET") == 0 && request_plan->body == NULL;

    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
    curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (plain)
        return;
    if (request_plan->body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_plan->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request_plan->body_length);
    }
    if (request->head && request_plan->body == NULL)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

void curl_handle_set_request(CURL *easy, const struct request_plan *request_plan,
                             const struct request *request, const struct request *before)
{
    if (request == before)
        return;
    curl_easy_setopt(easy, CURLOPT_CURLU, request->target.url);
    if (before == NULL || before->addresses != request->addresses)
        curl_easy_setopt(easy, CURLOPT_RESOLVE, request->addresses);
    if (before == NULL || strcmp(before->method, request->method) != 0)
        set_method(easy, request_plan, request);
}

/* ---- Results ---- */

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

/* CURLE_RECV_ERROR: the connection broke, a proxy rejected it, or the chunks were malformed. */
static enum error_kind kind_of_receive_failure(const char *text)
{
    if (strstr(text, "proxy") != NULL || strstr(text, "tunnel") != NULL)
        return ERROR_KIND_OTHER;
    return strstr(text, "chunk") != NULL ? ERROR_KIND_MALFORMED : ERROR_KIND_CLOSED;
}

static enum error_kind kind_of(const struct curl_ending *ending)
{
    switch (ending->code) {
    case CURLE_OK:
        return ERROR_KIND_NONE;
    case CURLE_COULDNT_CONNECT:
        return kind_of_connect_failure(ending->easy);
    case CURLE_INTERFACE_FAILED: /* all ports of --local-port in use, or unknown --interface */
        return info_long(ending->easy, CURLINFO_OS_ERRNO) == EADDRINUSE ? ERROR_KIND_LOCAL
                                                                        : ERROR_KIND_OTHER;
    case CURLE_RECV_ERROR:
        return kind_of_receive_failure(ending->error_text);
    case CURLE_ABORTED_BY_CALLBACK: /* on_prerequest() rejected a retry */
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return ERROR_KIND_CLOSED;
    case CURLE_OPERATION_TIMEDOUT:
        return ending->attempts == 0 ? ERROR_KIND_CONNECT_TIMEOUT : ERROR_KIND_TIMEOUT;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* not HTTP/1: the scheme is checked before */
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

/* Connecting, including TLS. */
static uint64_t connect_ns(CURL *easy)
{
    uint64_t tls_us = info_offset(easy, CURLINFO_APPCONNECT_TIME_T);

    return NS_PER_US * (tls_us > 0 ? tls_us : info_offset(easy, CURLINFO_CONNECT_TIME_T));
}

bool curl_handle_connected(CURL *easy)
{
    return info_long(easy, CURLINFO_NUM_CONNECTS) > 0;
}

struct transaction curl_handle_result(const struct curl_ending *ending)
{
    CURL *easy = ending->easy;
    bool connected = ending->attempts > 0 && curl_handle_connected(easy);

    return (struct transaction){
        .error = kind_of(ending),
        .status = (uint32_t)info_long(easy, CURLINFO_RESPONSE_CODE),
        .connected = connected,
        .connect_ns = connected ? connect_ns(easy) : 0,
        .first_byte_ns = NS_PER_US * info_offset(easy, CURLINFO_STARTTRANSFER_TIME_T),
        .head_bytes = (uint64_t)info_long(easy, CURLINFO_HEADER_SIZE),
        .body_bytes = info_offset(easy, CURLINFO_SIZE_DOWNLOAD_T),
    };
}

bool curl_handle_is_http2(CURL *easy)
{
    return info_long(easy, CURLINFO_HTTP_VERSION) == CURL_HTTP_VERSION_2_0;
}

const char *curl_handle_error_text(const struct curl_ending *ending)
{
    long os_error = info_long(ending->easy, CURLINFO_OS_ERRNO);

    if (ending->code == CURLE_COULDNT_CONNECT && os_error != 0)
        return strerror((int)os_error);
    return ending->error_text[0] != '\0' ? ending->error_text : curl_easy_strerror(ending->code);
}
