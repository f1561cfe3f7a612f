#include "loadgen/engine/curl_handle.h"

#include "common/clock.h"

#include "loadgen/plan/message.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libcurl 7 allocates a buffer for each request: a small one is in the lists of freed blocks. */
enum {
    BUFFERS_BYTES = 64 * 1024 * 1024, /* approximate total of all receive buffers */
    BUFFER_BYTES_MIN = 16 * 1024,
    BUFFER_BYTES_MAX = 512 * 1024, /* large bodies cost half as much CPU time as with 16 KiB */
};

/*
 * With a limit, libcurl rejects a Content-Length that does not fit; without one it ignores the
 * field.
 */
#define LENGTH_MAX ((curl_off_t)INT64_MAX)

static long buffer_bytes(const struct plan *plan)
{
    long even = BUFFERS_BYTES / (long)plan_slots(plan, plan->connections);

    return even < BUFFER_BYTES_MIN   ? BUFFER_BYTES_MIN
           : even > BUFFER_BYTES_MAX ? BUFFER_BYTES_MAX
                                     : even;
}

static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return text == NULL || curl_easy_setopt(easy, option, text) == CURLE_OK;
}

/*
 * libcurl's options for TLS 1.2 and TLS 1.3 are separate; the names of TLS 1.3 begin with "TLS_".
 */
static bool set_ciphers(const char *ciphers, CURL *easy)
{
    char older[1024] = "", newer[1024] = "", words[1024], *rest = NULL;

    if (ciphers == NULL)
        return true;
    snprintf(words, sizeof(words), "%s", ciphers);
    for (const char *word = strtok_r(words, ":", &rest); word; word = strtok_r(NULL, ":", &rest)) {
        char *list = strncmp(word, "TLS_", 4) == 0 ? newer : older;
        size_t used = strlen(list);

        snprintf(list + used, sizeof(older) - used, "%s%s", used > 0 ? ":" : "", word);
    }
    return (older[0] == '\0' || set_text(easy, CURLOPT_SSL_CIPHER_LIST, older)) &&
           (newer[0] == '\0' || set_text(easy, CURLOPT_TLS13_CIPHERS, newer));
}

/*
 * CURLOPT_SSL_CTX_FUNCTION. libcurl disables session tickets, without which few servers resume
 * sessions of TLS 1.2.
 */
static CURLcode on_ssl_context(CURL *easy, void *ssl_context, void *context)
{
    static const unsigned char http2[] = {2, 'h', '2'};
    const struct plan *plan = context;

    (void)easy;
    if (plan->resume)
        SSL_CTX_clear_options(ssl_context, SSL_OP_NO_TICKET);
    if (plan->engine == PLAN_ENGINE_RAW && plan->http == PLAN_HTTP_2 &&
        SSL_CTX_set_alpn_protos(ssl_context, http2, sizeof(http2)) != 0)
        return CURLE_OUT_OF_MEMORY;
    return CURLE_OK;
}

/*
 * Each request copies the names of CA files, so that they are only set where TLS is used. libcurl
 * caches the certificates for all connections of a multi handle, but not if CURLOPT_CAPATH is set:
 * then each connection reads them all again, which takes 20 ms of CPU time.
 */
static bool set_ca_files(const struct plan *plan, const struct request_plan *request_plan,
                         CURL *easy)
{
    bool is_default = plan->ca_file == NULL && request_plan_has_tls(request_plan);

    return curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           (is_default || curl_easy_setopt(easy, CURLOPT_CAINFO, plan->ca_file) == CURLE_OK) &&
           (plan->proxy != NULL ||
            (curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, NULL) == CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, NULL) == CURLE_OK));
}

/*
 * If libcurl negotiated HTTP/2 for the raw engine, it would put its own frames around ours. Other
 * TLS libraries than OpenSSL have no such context; the raw engine then has no HTTP/2 over TLS.
 */
static bool set_tls(const struct plan *plan, const struct request_plan *request_plan, CURL *easy)
{
    bool own_alpn = plan->engine == PLAN_ENGINE_RAW && plan->http == PLAN_HTTP_2;
    long version = plan->tls_max == 12   ? CURL_SSLVERSION_MAX_TLSv1_2
                   : plan->tls_max == 13 ? CURL_SSLVERSION_MAX_TLSv1_3
                                         : CURL_SSLVERSION_MAX_NONE;
    CURLcode context = curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_context);

    if (context == CURLE_OK)
        context = curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, (void *)(uintptr_t)plan);
    return (context == CURLE_OK || !own_alpn) &&
           curl_easy_setopt(easy, CURLOPT_SSL_ENABLE_ALPN, own_alpn ? 0L : 1L) == CURLE_OK &&
           (!plan->insecure || (curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L) == CURLE_OK &&
                                curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L) == CURLE_OK)) &&
           set_ca_files(plan, request_plan, easy) &&
           set_text(easy, CURLOPT_SSLCERT, plan->certificate) &&
           set_text(easy, CURLOPT_SSLKEY, plan->key) && set_ciphers(plan->ciphers, easy) &&
           set_text(easy, CURLOPT_SSL_EC_CURVES, plan->groups) &&
           curl_easy_setopt(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_DEFAULT | version) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, plan->resume ? 1L : 0L) == CURLE_OK;
}

/*
 * HTTP/2 without TLS uses prior knowledge: an Upgrade would add a request. For the raw engine,
 * libcurl only connects.
 */
static long version_of(const struct plan *plan, const struct request_plan *request_plan)
{
    switch (plan->http) {
    case PLAN_HTTP_1_0:
        return CURL_HTTP_VERSION_1_0;
    case PLAN_HTTP_2:
        if (plan->engine == PLAN_ENGINE_RAW)
            break;
        return request_plan->requests[0].target.tls ? CURL_HTTP_VERSION_2TLS
                                                    : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    case PLAN_HTTP_1_1:
        break;
    }
    return CURL_HTTP_VERSION_1_1;
}

/* Ignores the proxies of the environment. The raw engine needs a tunnel through an HTTP proxy. */
static bool set_route(const struct plan *plan, CURL *easy)
{
    long family = plan->family == AF_INET    ? CURL_IPRESOLVE_V4
                  : plan->family == AF_INET6 ? CURL_IPRESOLVE_V6
                                             : CURL_IPRESOLVE_WHATEVER;

    return set_text(easy, CURLOPT_PROXY, plan->proxy) &&
           curl_easy_setopt(easy, CURLOPT_NOPROXY, plan->proxy != NULL ? "" : "*") == CURLE_OK &&
           (plan->engine != PLAN_ENGINE_RAW ||
            curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_IPRESOLVE, family) == CURLE_OK &&
           set_text(easy, CURLOPT_UNIX_SOCKET_PATH, plan->unix_socket) &&
           set_text(easy, CURLOPT_INTERFACE, plan->interface) &&
           (plan->local_port == 0 ||
            (curl_easy_setopt(easy, CURLOPT_LOCALPORT, (long)plan->local_port) == CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_LOCALPORTRANGE, (long)plan->local_ports) == CURLE_OK));
}

bool curl_handle_set_timeouts(const struct plan *plan, CURL *easy, bool on)
{
    return curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, on ? (long)plan->timeout_ms : 0L) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                            on ? (long)plan->connect_timeout_ms : 0L) == CURLE_OK;
}

/* Cached addresses never expire: else each request would search libcurl's cache for expired ones. */
bool curl_handle_set_connection(const struct plan *plan, const struct request_plan *request_plan,
                                CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_CONNECT_TO, request_plan->connect_to) == CURLE_OK &&
           set_route(plan, easy) && set_tls(plan, request_plan, easy) &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version_of(plan, request_plan)) ==
               CURLE_OK &&
           curl_handle_set_timeouts(plan, easy, true) &&
           curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, -1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES_MIN) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
}

bool curl_handle_enlarge_buffer(const struct plan *plan, CURL *easy, uint64_t body_bytes)
{
    if (body_bytes < 4 * BUFFER_BYTES_MIN)
        return false;
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes(plan));
    return true;
}

bool curl_handle_set_common(const struct plan *plan, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, LENGTH_MAX) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, plan->keepalive ? 0L : 1L) == CURLE_OK;
}

static void set_method(CURL *easy, const struct request *request)
{
    bool plain = strcmp(request->method, "GET") == 0 && request->body == NULL;

    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
    curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (plain)
        return;
    if (request->body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_length);
    }
    if (request->head && request->body == NULL)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

void curl_handle_set_request(CURL *easy, const struct request *request,
                             const struct request *before)
{
    if (request == before)
        return;
    curl_easy_setopt(easy, CURLOPT_CURLU, request->target.url);
    if (before == NULL || before->addresses != request->addresses)
        curl_easy_setopt(easy, CURLOPT_RESOLVE, request->addresses);
    if (before == NULL || before->fields != request->fields)
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->fields);
    if (before == NULL || before->closes != request->closes)
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, request->closes ? 1L : 0L);
    if (before == NULL || before->body != request->body ||
        strcmp(before->method, request->method) != 0)
        set_method(easy, request);
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

/*
 * CURLE_RECV_ERROR: the connection broke, a proxy rejected it, or libcurl rejected chunks or head.
 */
static enum error_kind kind_of_receive_failure(const char *text)
{
    if (strstr(text, "proxy") != NULL || strstr(text, "tunnel") != NULL)
        return ERROR_KIND_OTHER;
    return strstr(text, "chunk") != NULL || strstr(text, "response headers") != NULL
               ? ERROR_KIND_MALFORMED
               : ERROR_KIND_CLOSED;
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
    case CURLE_HTTP2_STREAM: /* reset */
        return ERROR_KIND_CLOSED;
    case CURLE_OPERATION_TIMEDOUT:
        return ending->attempts == 0 ? ERROR_KIND_CONNECT_TIMEOUT : ERROR_KIND_TIMEOUT;
    case CURLE_OUT_OF_MEMORY: /* before 8.6 also for a line beyond its limit */
        return info_offset(ending->easy, CURLINFO_STARTTRANSFER_TIME_T) > 0 ? ERROR_KIND_MALFORMED
                                                                            : ERROR_KIND_OTHER;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* not HTTP/1: the scheme is checked before */
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_FILESIZE_EXCEEDED:
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE: /* the head, or a line of it */
#endif
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

uint64_t curl_handle_handshake_ns(CURL *easy)
{
    uint64_t tls_us = info_offset(easy, CURLINFO_APPCONNECT_TIME_T);
    uint64_t tcp_us = info_offset(easy, CURLINFO_CONNECT_TIME_T);

    return tls_us > tcp_us ? NS_PER_US * (tls_us - tcp_us) : 0;
}

bool curl_handle_negotiation(CURL *easy, const struct plan *plan, struct negotiation *negotiation,
                             bool *resumed)
{
    struct curl_tlssessioninfo *session = NULL;
    SSL *ssl = NULL;
    const char *group;
    const unsigned char *alpn = NULL;
    unsigned length = 0;

    *negotiation = (struct negotiation){0};
    *resumed = false;
    curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &session);
    if (session != NULL && session->backend == CURLSSLBACKEND_OPENSSL)
        ssl = session->internals;
    if (ssl == NULL && plan->http != PLAN_HTTP_2)
        return false;
    snprintf(negotiation->http, sizeof(negotiation->http), "%s",
             ssl == NULL ? "HTTP/2" : "HTTP/1.1");
    if (ssl == NULL)
        return true;
    SSL_get0_alpn_selected(ssl, &alpn, &length);
    if (length == 2 && memcmp(alpn, "h2", 2) == 0)
        snprintf(negotiation->http, sizeof(negotiation->http), "HTTP/2");
    snprintf(negotiation->tls, sizeof(negotiation->tls), "%s", SSL_get_version(ssl));
    snprintf(negotiation->cipher, sizeof(negotiation->cipher), "%s", SSL_get_cipher_name(ssl));
    group = SSL_group_to_name(ssl, (int)SSL_get_negotiated_group(ssl));
    snprintf(negotiation->group, sizeof(negotiation->group), "%s", group != NULL ? group : "");
    *resumed = SSL_session_reused(ssl) == 1;
    return true;
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
        .handshake_ns = connected ? curl_handle_handshake_ns(easy) : 0,
        .first_byte_ns = NS_PER_US * info_offset(easy, CURLINFO_STARTTRANSFER_TIME_T),
        .head_bytes = (uint64_t)info_long(easy, CURLINFO_HEADER_SIZE),
        .body_bytes = info_offset(easy, CURLINFO_SIZE_DOWNLOAD_T),
    };
}

/* Whether a field Connection of the response has the word "close". */
static bool server_closes(CURL *easy)
{
    struct curl_header *field;

    for (size_t i = 0;
         curl_easy_header(easy, "Connection", i, CURLH_HEADER, -1, &field) == CURLHE_OK; i++)
        if (strcasestr(field->value, "close") != NULL)
            return true;
    return false;
}

bool curl_handle_closed_early(CURL *easy, const struct request *request)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_off_t length = -1;

    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return fd == CURL_SOCKET_BAD && length >= 0 &&
           info_long(easy, CURLINFO_HTTP_VERSION) == CURL_HTTP_VERSION_1_1 &&
           info_offset(easy, CURLINFO_SIZE_UPLOAD_T) == request->body_length &&
           !server_closes(easy);
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
