#include "loadgen/curl_request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    BUFFERS_BYTES = 64 * 1024 * 1024, /* receive buffers of all connections together, about */
    SMALLEST_BUFFER_BYTES = 16 * 1024,
    LARGEST_BUFFER_BYTES = 512 * 1024, /* large bodies cost half of what they do with 16 KiB */
};

static bool append_header(struct curl_slist **list, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*list, header);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* "Name:" with nothing behind it would make libcurl leave a field out; "Name;" sends it empty. */
static bool append_empty_header(struct curl_slist **list, const char *header)
{
    char *text = strdup(header);
    bool good;

    if (text == NULL)
        return false;
    strcpy(strchr(text, ':'), ";");
    good = append_header(list, text);
    free(text);
    return good;
}

static bool has_header(const struct plan *plan, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < plan->header_count; i++)
        if (strncasecmp(plan->headers[i], name, length) == 0 && plan->headers[i][length] == ':')
            return true;
    return false;
}

/* Methods whose requests usually carry a body say that there is none (RFC 9110 section 8.6). */
static bool wants_length(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
           strcmp(method, "PATCH") == 0;
}

bool curl_request_headers(const struct plan *plan, struct curl_slist **list)
{
    bool good = true;

    *list = NULL;
    for (size_t i = 0; good && i < plan->header_count; i++) {
        const char *value = strchr(plan->headers[i], ':') + 1;

        good = value[strspn(value, " \t")] != '\0' ? append_header(list, plan->headers[i])
                                                   : append_empty_header(list, plan->headers[i]);
    }
    if (good && !plan->keepalive && !has_header(plan, "Connection"))
        good = append_header(list, "Connection: close");
    if (good && wants_length(plan->method))
        good = append_header(list, "Content-Length: 0");
    return good;
}

static bool set_method(CURL *easy, const char *method)
{
    if (strcmp(method, "GET") == 0)
        return true;
    if (strcmp(method, "HEAD") == 0)
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
}

static long buffer_bytes(const struct plan *plan)
{
    long even = BUFFERS_BYTES / (long)plan->connections;

    return even < SMALLEST_BUFFER_BYTES  ? SMALLEST_BUFFER_BYTES
           : even > LARGEST_BUFFER_BYTES ? LARGEST_BUFFER_BYTES
                                         : even;
}

bool curl_request_set(const struct curl_request *request, CURL *easy)
{
    const struct plan *plan = request->plan;

    return curl_easy_setopt(easy, CURLOPT_CURLU, request->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_RESOLVE, request->addresses) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT, "wsload/" WEBSERVERD_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, plan->keepalive ? 0L : 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, plan->keepalive ? 0L : 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)plan->timeout_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)plan->connect_timeout_ms) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes(plan)) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           set_method(easy, plan->method);
}
