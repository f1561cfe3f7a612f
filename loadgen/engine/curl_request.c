#include "loadgen/engine/curl_request.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFERS_BYTES = 64 * 1024 * 1024, /* receive buffers of all connections together, about */
    SMALLEST_BUFFER_BYTES = 16 * 1024,
    LARGEST_BUFFER_BYTES = 512 * 1024, /* large bodies cost half of what they do with 16 KiB */
};

static bool append(struct curl_slist **list, const char *field)
{
    struct curl_slist *longer = curl_slist_append(*list, field);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* "Name:" with nothing behind it would make libcurl leave a field out; "Name;" sends it empty. */
static bool append_field(struct curl_slist **list, const char *field)
{
    const char *value = strchr(field, ':') + 1;
    char *text;
    bool good;

    if (value[strspn(value, " \t")] != '\0')
        return append(list, field);
    text = strdup(field);
    if (text == NULL)
        return false;
    strcpy(strchr(text, ':'), ";");
    good = append(list, text);
    free(text);
    return good;
}

/* libcurl would ask for permission before it sends a large body. */
bool curl_request_headers(const struct work *work, struct curl_slist **list)
{
    bool good = true;

    *list = NULL;
    for (const struct curl_slist *field = work->headers; good && field != NULL; field = field->next)
        good = append_field(list, field->data);
    return good && (work->body == NULL || append(list, "Expect:"));
}

static long buffer_bytes(const struct plan *plan)
{
    long even = BUFFERS_BYTES / (long)plan->connections;

    return even < SMALLEST_BUFFER_BYTES  ? SMALLEST_BUFFER_BYTES
           : even > LARGEST_BUFFER_BYTES ? LARGEST_BUFFER_BYTES
                                         : even;
}

static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return text == NULL || curl_easy_setopt(easy, option, text) == CURLE_OK;
}

/*
 * libcurl keeps the authorities that it has read for all connections of a multi handle, unless there is
 * a folder of them too: then each connection would read all the hundreds anew, for 20 ms of processor
 * time.
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

/* HTTP/2 without TLS is begun at once: an upgrade would be a request that nobody asked for. */
static long version_of(const struct plan *plan, const struct work *work)
{
    switch (plan->http) {
    case PLAN_HTTP_1_0:
        return CURL_HTTP_VERSION_1_0;
    case PLAN_HTTP_2:
        return work->requests[0].target.tls ? CURL_HTTP_VERSION_2TLS
                                            : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    case PLAN_HTTP_1_1:
        break;
    }
    return CURL_HTTP_VERSION_1_1;
}

/* Whatever the environment says. The raw engine has no other request for proxies: it wants a tunnel. */
static bool set_proxy(const struct plan *plan, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_PROXY, plan->proxy != NULL ? plan->proxy : "") ==
               CURLE_OK &&
           set_text(easy, CURLOPT_NOPROXY, plan->proxy != NULL ? "" : NULL) &&
           (plan->engine != PLAN_ENGINE_RAW ||
            curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L) == CURLE_OK);
}

/* Between here and there. */
static bool set_way(const struct plan *plan, CURL *easy)
{
    return set_proxy(plan, easy) && set_text(easy, CURLOPT_INTERFACE, plan->interface) &&
           (plan->local_port == 0 ||
            (curl_easy_setopt(easy, CURLOPT_LOCALPORT, (long)plan->local_port) == CURLE_OK &&
             curl_easy_setopt(easy, CURLOPT_LOCALPORTRANGE, (long)plan->local_ports) == CURLE_OK));
}

bool curl_request_set_connection(const struct plan *plan, const struct work *work, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_CONNECT_TO, work->redirections) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_IPRESOLVE, family_of(plan)) == CURLE_OK &&
           set_text(easy, CURLOPT_UNIX_SOCKET_PATH, plan->unix_socket) && set_tls(plan, easy) &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version_of(plan, work)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)plan->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)plan->connect_timeout_ms) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes(plan)) == CURLE_OK &&
           set_way(plan, easy) && curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
}

bool curl_request_set_common(const struct work *work, const struct curl_slist *headers, CURL *easy)
{
    const struct plan *plan = work->plan;

    return curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, FIELDS_USER_AGENT) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, plan->keepalive ? 0L : 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, plan->keepalive ? 0L : 1L) == CURLE_OK;
}

static void set_method(CURL *easy, const struct work *work, const struct request *request)
{
    bool plain = strcmp(request->method, "GET") == 0 && work->body == NULL;

    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
    curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (plain)
        return;
    if (work->body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, work->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)work->body_length);
    }
    if (request->head && work->body == NULL)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
}

void curl_request_choose(CURL *easy, const struct work *work, const struct request *request,
                         const struct request *before)
{
    if (request == before)
        return;
    curl_easy_setopt(easy, CURLOPT_CURLU, request->target.url);
    if (before == NULL || before->addresses != request->addresses)
        curl_easy_setopt(easy, CURLOPT_RESOLVE, request->addresses);
    if (before == NULL || strcmp(before->method, request->method) != 0)
        set_method(easy, work, request);
}
