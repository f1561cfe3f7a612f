#include "daemon/acme/http_client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { CONNECT_SECONDS = 20, REQUEST_SECONDS = 60, RETRY_AFTER_MAX_S = 7 * 86400 };

struct http_client {
    CURL *easy; /* keeps its connections between requests */
    struct curl_slist *fields;
    char *ca;
    bool (*pulse)(void *context);
    void *context;
    char reason[CURL_ERROR_SIZE];
};

struct http_client *http_client_new(const char *ca, bool (*pulse)(void *context), void *context,
                                    char *why, size_t size)
{
    static const char type[] = "Content-Type: application/jose+json";
    struct http_client *client = calloc(1, sizeof(*client));

    snprintf(why, size, "out of memory");
    if (client == NULL)
        return NULL;
    client->pulse = pulse;
    client->context = context;
    client->ca = strdup(ca);
    if (client->ca != NULL && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
        client->easy = curl_easy_init();
        client->fields = curl_slist_append(NULL, type);
        if (client->easy != NULL && client->fields != NULL)
            return client;
    }
    http_client_free(client);
    return NULL;
}

void http_client_free(struct http_client *client)
{
    if (client == NULL)
        return;
    if (client->easy != NULL)
        curl_easy_cleanup(client->easy);
    if (client->fields != NULL)
        curl_slist_free_all(client->fields);
    free(client->ca);
    free(client);
}

/* Receiving */

static size_t on_body(char *bytes, size_t size, size_t count, void *argument)
{
    struct http_response *response = argument;
    size_t length = size * count;
    char *grown;

    if (length > HTTP_BODY_MAX - response->length)
        return 0;
    grown = realloc(response->body, response->length + length + 1);
    if (grown == NULL)
        return 0;
    response->body = grown;
    memcpy(response->body + response->length, bytes, length);
    response->length += length;
    response->body[response->length] = '\0';
    return length;
}

uint32_t http_retry_after(const char *text, size_t length, int64_t now_s)
{
    char copy[64];
    struct tm when = {0};
    const char *end;
    int64_t delay = 0;

    if (length == 0 || length >= sizeof(copy))
        return 0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (strspn(copy, "0123456789") == length) {
        delay = length < 9 ? strtol(copy, NULL, 10) : RETRY_AFTER_MAX_S;
    } else {
        end = strptime(copy, "%a, %d %b %Y %H:%M:%S GMT", &when);
        if (end != NULL && *end == '\0')
            delay = (int64_t)timegm(&when) - now_s;
    }
    return delay <= 0 ? 0 : delay > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : (uint32_t)delay;
}

/* The value of the field NAME ("Name:") in LINE, without blanks around it. Length 0: another field. */
static const char *field_value(const char *line, size_t length, const char *name, size_t *found)
{
    size_t start = strlen(name);

    *found = 0;
    if (length <= start || strncasecmp(line, name, start) != 0)
        return NULL;
    while (start < length && isspace((unsigned char)line[start]))
        start++;
    while (length > start && isspace((unsigned char)line[length - 1]))
        length--;
    *found = length - start;
    return line + start;
}

static void take_text(const char *line, size_t length, const char *name, char *text)
{
    size_t found;
    const char *value = field_value(line, length, name, &found);

    if (found > 0 && found < HTTP_FIELD_MAX)
        snprintf(text, HTTP_FIELD_MAX, "%.*s", (int)found, value);
}

static size_t on_field(char *line, size_t size, size_t count, void *argument)
{
    struct http_response *response = argument;
    size_t length = size * count, found;
    const char *value = field_value(line, length, "Retry-After:", &found);

    if (found > 0)
        response->retry_after_s = http_retry_after(value, found, time(NULL));
    take_text(line, length, "Replay-Nonce:", response->nonce);
    take_text(line, length, "Location:", response->location);
    return length;
}

static int on_progress(void *argument, curl_off_t down, curl_off_t downloaded, curl_off_t up,
                       curl_off_t uploaded)
{
    const struct http_client *client = argument;

    (void)down, (void)downloaded, (void)up, (void)uploaded;
    return client->pulse(client->context) ? 0 : 1;
}

/* Sending */

static void set_options(struct http_client *client, const char *method, const char *url,
                        const char *body, struct http_response *response)
{
    struct curl_blob ca = {client->ca, strlen(client->ca), CURL_BLOB_NOCOPY};
    CURL *easy = client->easy;

    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->reason);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "webserverd/" WEBSERVERD_VERSION);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)REQUEST_SECONDS);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, response);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_field);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, response);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, client);
    if (client->ca[0] != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca);
    if (body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->fields);
    } else if (strcmp(method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
}

int http_client_send(struct http_client *client, const char *method, const char *url,
                     const char *body, struct http_response *response, char *why, size_t size)
{
    CURLcode result;

    *response = (struct http_response){.body = calloc(1, 1)};
    if (response->body == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    client->reason[0] = '\0';
    set_options(client, method, url, body, response);
    result = curl_easy_perform(client->easy);
    if (result == CURLE_OK &&
        curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &response->status) == CURLE_OK)
        return 0;
    snprintf(why, size, "%s %s: %s", method, url,
             client->reason[0] != '\0' ? client->reason : curl_easy_strerror(result));
    http_response_free(response);
    return -1;
}

void http_response_free(struct http_response *response)
{
    free(response->body);
    response->body = NULL;
}
