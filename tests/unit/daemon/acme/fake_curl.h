/* The libcurl of a test: a request goes to its answer_request(). */
#ifndef TESTS_FAKE_CURL_H
#define TESTS_FAKE_CURL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef curl_easy_getinfo
#undef curl_easy_setopt

struct fake_request {
    const char *method, *url, *body; /* body NULL: none */
    char protocols[16], ca[16];
    long http, no_signal, connect_s, total_s, no_progress, no_body;
};

struct fake_answer {
    CURLcode result, status_result;
    long status; /* 0: no response comes */
    const char *body, *nonce, *location, *field, *reason;
    uint32_t retry_s;
    size_t body_pieces, piece_bytes; /* instead of a body */
};

static void answer_request(const struct fake_request *request, struct fake_answer *answer);

static struct {
    bool fails_to_start, has_no_handle, has_no_list;
    int handles, lists;   /* that exist */
    size_t pieces_taken;  /* of the last body */
    int progress;         /* what the function for it has returned */
    long answered_status; /* of the last answer, as are the next two */
    CURLcode status_result;
    struct fake_request request;
    const struct curl_slist *header;
    curl_write_callback on_body, on_field;
    curl_xferinfo_callback on_progress;
    void *body_data, *field_data, *progress_data;
    char *reason;
} fake_curl;

CURLcode curl_global_init(long flags)
{
    return fake_curl.fails_to_start || flags != CURL_GLOBAL_DEFAULT ? CURLE_FAILED_INIT : CURLE_OK;
}

CURL *curl_easy_init(void)
{
    fake_curl.handles += !fake_curl.has_no_handle;
    return fake_curl.has_no_handle ? NULL : (CURL *)&fake_curl;
}

void curl_easy_cleanup(CURL *curl)
{
    (void)curl;
    fake_curl.handles--;
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *data)
{
    static struct curl_slist item;

    if (list != NULL || strcmp(data, "Content-Type: application/jose+json") != 0)
        abort();
    fake_curl.lists += !fake_curl.has_no_list;
    return fake_curl.has_no_list ? NULL : &item;
}

void curl_slist_free_all(struct curl_slist *list)
{
    (void)list;
    fake_curl.lists--;
}

void curl_easy_reset(CURL *curl)
{
    (void)curl;
    fake_curl.request = (struct fake_request){.no_progress = 1};
    fake_curl.header = NULL;
    fake_curl.reason = NULL;
}

CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    struct fake_request *request = &fake_curl.request;
    const struct curl_blob *ca;
    va_list arguments;

    (void)curl;
    va_start(arguments, option);
    switch ((int)option) {
    case CURLOPT_ERRORBUFFER:
        fake_curl.reason = va_arg(arguments, char *);
        break;
    case CURLOPT_URL:
        request->url = va_arg(arguments, const char *);
        break;
    case CURLOPT_PROTOCOLS_STR:
        snprintf(request->protocols, sizeof(request->protocols), "%s",
                 va_arg(arguments, const char *));
        break;
    case CURLOPT_POSTFIELDS:
        request->body = va_arg(arguments, const char *);
        break;
    case CURLOPT_CAINFO_BLOB:
        ca = va_arg(arguments, const struct curl_blob *);
        snprintf(request->ca, sizeof(request->ca), "%.*s", (int)ca->len, (const char *)ca->data);
        break;
    case CURLOPT_HTTP_VERSION:
        request->http = va_arg(arguments, long);
        break;
    case CURLOPT_NOSIGNAL:
        request->no_signal = va_arg(arguments, long);
        break;
    case CURLOPT_CONNECTTIMEOUT:
        request->connect_s = va_arg(arguments, long);
        break;
    case CURLOPT_TIMEOUT:
        request->total_s = va_arg(arguments, long);
        break;
    case CURLOPT_NOBODY:
        request->no_body = va_arg(arguments, long);
        break;
    case CURLOPT_NOPROGRESS:
        request->no_progress = va_arg(arguments, long);
        break;
    case CURLOPT_HTTPHEADER:
        fake_curl.header = va_arg(arguments, const struct curl_slist *);
        break;
    case CURLOPT_WRITEFUNCTION:
        fake_curl.on_body = va_arg(arguments, curl_write_callback);
        break;
    case CURLOPT_HEADERFUNCTION:
        fake_curl.on_field = va_arg(arguments, curl_write_callback);
        break;
    case CURLOPT_XFERINFOFUNCTION:
        fake_curl.on_progress = va_arg(arguments, curl_xferinfo_callback);
        break;
    case CURLOPT_WRITEDATA:
        fake_curl.body_data = va_arg(arguments, void *);
        break;
    case CURLOPT_HEADERDATA:
        fake_curl.field_data = va_arg(arguments, void *);
        break;
    case CURLOPT_XFERINFODATA:
        fake_curl.progress_data = va_arg(arguments, void *);
        break;
    default:
        if (option != CURLOPT_USERAGENT)
            abort();
    }
    va_end(arguments);
    return CURLE_OK;
}

/* BYTES have no NUL after them. Returns what the function that gets them returns. */
static inline size_t fake_curl_pass(curl_write_callback function, const char *bytes, size_t length,
                                    void *data)
{
    char *copy = malloc(length > 0 ? length : 1);
    size_t taken;

    if (copy == NULL)
        abort();
    memcpy(copy, bytes, length);
    taken = function(copy, 1, length, data);
    free(copy);
    return taken;
}

static inline void fake_curl_send_field(const char *name, const char *value)
{
    char line[4096];
    int length = snprintf(line, sizeof(line), "%s%s%s", name, value, name[0] != '\0' ? "\r\n" : "");

    if (fake_curl_pass(fake_curl.on_field, line, (size_t)length, fake_curl.field_data) !=
        (size_t)length)
        abort();
}

static inline bool fake_curl_send_body(const char *bytes, size_t length)
{
    return fake_curl_pass(fake_curl.on_body, bytes, length, fake_curl.body_data) == length;
}

CURLcode curl_easy_perform(CURL *curl)
{
    struct fake_request *request = &fake_curl.request;
    struct fake_answer answer = {.result = CURLE_OK};
    char retry[16];

    (void)curl;
    request->method = request->body != NULL ? "POST" : request->no_body != 0 ? "HEAD" : "GET";
    if ((request->body != NULL) != (fake_curl.header != NULL))
        abort();
    answer_request(request, &answer);
    fake_curl.answered_status = answer.status;
    fake_curl.status_result = answer.status_result;
    if (answer.nonce != NULL)
        fake_curl_send_field("Replay-Nonce: ", answer.nonce);
    if (answer.location != NULL)
        fake_curl_send_field("Location: ", answer.location);
    if (answer.field != NULL)
        fake_curl_send_field("", answer.field);
    snprintf(retry, sizeof(retry), "%u", answer.retry_s);
    if (answer.retry_s > 0)
        fake_curl_send_field("Retry-After: ", retry);
    if (answer.body != NULL && !fake_curl_send_body(answer.body, strlen(answer.body)))
        abort();
    fake_curl.pieces_taken = 0;
    if (answer.body_pieces > 0) {
        char *piece = malloc(answer.piece_bytes);

        if (piece == NULL)
            abort();
        memset(piece, 'b', answer.piece_bytes);
        while (fake_curl.pieces_taken < answer.body_pieces &&
               fake_curl_send_body(piece, answer.piece_bytes))
            fake_curl.pieces_taken++;
        free(piece);
    }
    fake_curl.progress = fake_curl.on_progress(fake_curl.progress_data, 0, 0, 0, 0);
    if (answer.reason != NULL)
        strcpy(fake_curl.reason, answer.reason);
    return answer.result == CURLE_OK && answer.status == 0 ? CURLE_COULDNT_CONNECT : answer.result;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    va_list arguments;

    (void)curl;
    if (info != CURLINFO_RESPONSE_CODE)
        abort();
    va_start(arguments, info);
    *va_arg(arguments, long *) = fake_curl.answered_status;
    va_end(arguments);
    return fake_curl.status_result;
}

const char *curl_easy_strerror(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT ? "no response" : "another error";
}

#endif
