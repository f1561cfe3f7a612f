/* The HTTP client with a libcurl of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/acme/http_client.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef curl_easy_getinfo
#undef curl_easy_setopt

enum { DAY_S = 86400, FIELDS_MAX = 4, PIECES = 8 };

/* The library, and what it was given. */
static struct scene {
    bool no_handle, no_list;
    CURLcode init, performed, got_status;
    bool report; /* writes a reason */
    int handles, lists, pulses;
    bool ends; /* on_pulse() ends the request */

    const char *fields[FIELDS_MAX];
    size_t body_bytes; /* sent in PIECES */
    size_t taken;      /* of them */
    int progress;      /* result of the function */

    char url[64], protocols[16], posted[64], ca[16];
    long http, no_signal, connect_s, total_s, no_body, no_progress;
    const struct curl_slist *header;
    curl_write_callback write, header_function;
    curl_xferinfo_callback xferinfo;
    void *write_data, *header_data, *xferinfo_data;
    char *reason;
} scene;

CURLcode curl_global_init(long flags)
{
    assert_int_equal(flags, CURL_GLOBAL_DEFAULT);
    return scene.init;
}

CURL *curl_easy_init(void)
{
    if (scene.no_handle)
        return NULL;
    scene.handles++;
    return (CURL *)&scene;
}

void curl_easy_cleanup(CURL *curl)
{
    assert_ptr_equal(curl, &scene);
    scene.handles--;
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *data)
{
    static struct curl_slist item;

    assert_null(list);
    assert_string_equal(data, "Content-Type: application/jose+json");
    scene.lists += scene.no_list ? 0 : 1;
    return scene.no_list ? NULL : &item;
}

void curl_slist_free_all(struct curl_slist *list)
{
    assert_non_null(list);
    scene.lists--;
}

/* All options have their default again. */
void curl_easy_reset(CURL *curl)
{
    assert_ptr_equal(curl, &scene);
    scene.url[0] = scene.protocols[0] = scene.posted[0] = scene.ca[0] = '\0';
    scene.http = scene.no_signal = scene.connect_s = scene.total_s = scene.no_body = 0;
    scene.no_progress = 1;
    scene.header = NULL;
}

CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    const struct curl_blob *ca;
    va_list arguments;

    assert_ptr_equal(curl, &scene);
    va_start(arguments, option);
    switch ((int)option) {
    case CURLOPT_ERRORBUFFER:
        scene.reason = va_arg(arguments, char *);
        break;
    case CURLOPT_URL:
        snprintf(scene.url, sizeof(scene.url), "%s", va_arg(arguments, const char *));
        break;
    case CURLOPT_PROTOCOLS_STR:
        snprintf(scene.protocols, sizeof(scene.protocols), "%s", va_arg(arguments, const char *));
        break;
    case CURLOPT_POSTFIELDS:
        snprintf(scene.posted, sizeof(scene.posted), "%s", va_arg(arguments, const char *));
        break;
    case CURLOPT_CAINFO_BLOB:
        ca = va_arg(arguments, const struct curl_blob *);
        snprintf(scene.ca, sizeof(scene.ca), "%.*s", (int)ca->len, (const char *)ca->data);
        break;
    case CURLOPT_HTTP_VERSION:
        scene.http = va_arg(arguments, long);
        break;
    case CURLOPT_NOSIGNAL:
        scene.no_signal = va_arg(arguments, long);
        break;
    case CURLOPT_CONNECTTIMEOUT:
        scene.connect_s = va_arg(arguments, long);
        break;
    case CURLOPT_TIMEOUT:
        scene.total_s = va_arg(arguments, long);
        break;
    case CURLOPT_NOBODY:
        scene.no_body = va_arg(arguments, long);
        break;
    case CURLOPT_NOPROGRESS:
        scene.no_progress = va_arg(arguments, long);
        break;
    case CURLOPT_HTTPHEADER:
        scene.header = va_arg(arguments, const struct curl_slist *);
        break;
    case CURLOPT_WRITEFUNCTION:
        scene.write = va_arg(arguments, curl_write_callback);
        break;
    case CURLOPT_HEADERFUNCTION:
        scene.header_function = va_arg(arguments, curl_write_callback);
        break;
    case CURLOPT_XFERINFOFUNCTION:
        scene.xferinfo = va_arg(arguments, curl_xferinfo_callback);
        break;
    case CURLOPT_WRITEDATA:
        scene.write_data = va_arg(arguments, void *);
        break;
    case CURLOPT_HEADERDATA:
        scene.header_data = va_arg(arguments, void *);
        break;
    case CURLOPT_XFERINFODATA:
        scene.xferinfo_data = va_arg(arguments, void *);
        break;
    default:
        assert_int_equal(option, CURLOPT_USERAGENT);
    }
    va_end(arguments);
    return CURLE_OK;
}

static void send_body(void)
{
    size_t length = scene.body_bytes / PIECES;
    char *piece = malloc(length);

    assert_non_null(piece);
    memset(piece, 'b', length);
    while (scene.taken < scene.body_bytes &&
           scene.write(piece, 1, length, scene.write_data) == length)
        scene.taken += length;
    free(piece);
}

/* Lines have their end, and no NUL. */
static void send_field(const char *line)
{
    size_t length = strlen(line);
    char *copy = malloc(length);

    assert_non_null(copy);
    memcpy(copy, line, length);
    assert_int_equal(scene.header_function(copy, 1, length, scene.header_data), length);
    free(copy);
}

CURLcode curl_easy_perform(CURL *curl)
{
    assert_ptr_equal(curl, &scene);
    for (size_t i = 0; i < FIELDS_MAX && scene.fields[i] != NULL; i++)
        send_field(scene.fields[i]);
    if (scene.body_bytes > 0)
        send_body();
    scene.progress = scene.xferinfo(scene.xferinfo_data, 0, 0, 0, 0);
    if (scene.report)
        strcpy(scene.reason, "the reason");
    return scene.performed;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    va_list arguments;

    assert_ptr_equal(curl, &scene);
    assert_int_equal(info, CURLINFO_RESPONSE_CODE);
    va_start(arguments, info);
    *va_arg(arguments, long *) = 201;
    va_end(arguments);
    return scene.got_status;
}

const char *curl_easy_strerror(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT ? "cannot connect" : "another error";
}

static bool on_pulse(void *context)
{
    assert_ptr_equal(context, &scene);
    scene.pulses++;
    return !scene.ends;
}

static int set_up(void **state)
{
    (void)state;
    scene = (struct scene){.init = CURLE_OK};
    return 0;
}

static struct http_client *new_client(const char *ca)
{
    char why[128];
    struct http_client *client = http_client_new(ca, on_pulse, &scene, why, sizeof(why));

    assert_non_null(client);
    return client;
}

static int send_request(const char *method, const char *body, struct http_response *response,
                        char *why, size_t size)
{
    struct http_client *client = new_client("CA");
    int failed = http_client_send(client, method, "https://a/", body, response, why, size);

    http_client_free(client);
    assert_int_equal(scene.handles, 0);
    assert_int_equal(scene.lists, 0);
    return failed;
}

/* Sends a GET. The caller frees the response. */
static struct http_response get(void)
{
    struct http_response response;
    char why[128];

    assert_int_equal(send_request("GET", NULL, &response, why, sizeof(why)), 0);
    return response;
}

/* The client */

static void client_needs_the_library(void **state)
{
    static const struct {
        CURLcode init;
        bool no_handle, no_list;
        const char *why;
    } cases[] = {
        {CURLE_FAILED_INIT, false, false, "out of memory"},
        {CURLE_OK, true, false, "out of memory"},
        {CURLE_OK, false, true, "out of memory"},
    };
    char why[256];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        set_up(state);
        scene.init = cases[i].init;
        scene.no_handle = cases[i].no_handle;
        scene.no_list = cases[i].no_list;
        assert_null(http_client_new("", on_pulse, &scene, why, sizeof(why)));
        assert_string_equal(why, cases[i].why);
        assert_int_equal(scene.handles, 0);
        assert_int_equal(scene.lists, 0);
    }
    http_client_free(NULL);
}

/* Requests */

static void options_depend_on_the_method(void **state)
{
    static const struct {
        const char *method, *body;
        long no_body;
    } cases[] = {{"GET", NULL, 0}, {"HEAD", NULL, 1}, {"POST", "{}", 0}};
    struct http_response response;
    char why[128];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        set_up(state);
        assert_int_equal(send_request(cases[i].method, cases[i].body, &response, why, sizeof(why)),
                         0);
        assert_int_equal(response.status, 201);
        assert_string_equal(response.body, "");
        http_response_free(&response);
        assert_null(response.body);
        assert_int_equal(scene.no_body, cases[i].no_body);
        assert_string_equal(scene.posted, cases[i].body != NULL ? cases[i].body : "");
        assert_int_equal(scene.header != NULL, cases[i].body != NULL);
        assert_string_equal(scene.url, "https://a/");
        assert_string_equal(scene.protocols, "https");
        assert_string_equal(scene.ca, "CA");
        assert_int_equal(scene.http, CURL_HTTP_VERSION_1_1);
        assert_int_equal(scene.no_signal, 1);
        assert_int_equal(scene.connect_s, 20);
        assert_int_equal(scene.total_s, 60);
        assert_int_equal(scene.no_progress, 0);
    }
}

static void options_do_not_stay(void **state)
{
    struct http_client *client = new_client("");
    struct http_response response;
    char why[128];

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(http_client_send(client, i == 0 ? "POST" : "GET", "https://a/",
                                          i == 0 ? "{}" : NULL, &response, why, sizeof(why)),
                         0);
        http_response_free(&response);
    }
    assert_string_equal(scene.posted, "");
    assert_string_equal(scene.ca, ""); /* those of the system */
    http_client_free(client);
}

static void failure_is_described(void **state)
{
    static const struct {
        CURLcode performed, got_status;
        bool report;
        const char *why;
    } cases[] = {
        {CURLE_COULDNT_CONNECT, CURLE_OK, false, "GET https://a/: cannot connect"},
        {CURLE_COULDNT_CONNECT, CURLE_OK, true, "GET https://a/: the reason"},
        {CURLE_OK, CURLE_UNKNOWN_OPTION, false, "GET https://a/: another error"},
    };
    struct http_response response;
    char why[128];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        set_up(state);
        scene.performed = cases[i].performed;
        scene.got_status = cases[i].got_status;
        scene.report = cases[i].report;
        assert_int_equal(send_request("GET", NULL, &response, why, sizeof(why)), -1);
        assert_string_equal(why, cases[i].why);
        assert_null(response.body);
    }
}

/* That of the request before is not reported again. */
static void reason_does_not_stay(void **state)
{
    struct http_client *client = new_client("");
    struct http_response response;
    char why[128];

    (void)state;
    scene.performed = CURLE_COULDNT_CONNECT;
    for (int i = 0; i < 2; i++) {
        scene.report = i == 0;
        assert_int_equal(
            http_client_send(client, "GET", "https://a/", NULL, &response, why, sizeof(why)), -1);
        assert_string_equal(why, i == 0 ? "GET https://a/: the reason"
                                        : "GET https://a/: cannot connect");
    }
    http_client_free(client);
}

static void pulse_ends_the_request(void **state)
{
    for (int ends = 0; ends <= 1; ends++) {
        struct http_response response;

        set_up(state);
        scene.ends = ends != 0;
        response = get();
        http_response_free(&response);
        assert_int_equal(scene.pulses, 1);
        assert_int_equal(scene.progress, ends);
    }
}

/* Responses */

static void body_is_bounded(void **state)
{
    for (int more = 0; more <= 1; more++) {
        size_t piece = HTTP_BODY_MAX / PIECES + (size_t)more;
        struct http_response response;

        set_up(state);
        scene.body_bytes = piece * PIECES;
        response = get();
        assert_int_equal(scene.taken, piece * (size_t)(PIECES - more));
        assert_int_equal(response.length, scene.taken);
        assert_int_equal(strlen(response.body), scene.taken);
        http_response_free(&response);
    }
}

static void fields_are_read(void **state)
{
    static const struct {
        const char *line, *nonce, *location;
        uint32_t retry_s;
    } cases[] = {
        {"Replay-Nonce: abc\r\n", "abc", "", 0},
        {"replay-nonce:abc", "abc", "", 0},
        {"LOCATION: \t https://a/b \t\r\n", "", "https://a/b", 0},
        {"Retry-After: 120\r\n", "", "", 120},
        {"Retry-After: soon\r\n", "", "", 0},
        {"Location:\r\n", "", "", 0},
        {"Location:", "", "", 0},
        {"Location: ", "", "", 0},
        {"Locatio", "", "", 0},
        {"X-Location: a\r\n", "", "", 0},
        {"\r\n", "", "", 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http_response response;

        set_up(state);
        scene.fields[0] = cases[i].line;
        response = get();
        assert_string_equal(response.nonce, cases[i].nonce);
        assert_string_equal(response.location, cases[i].location);
        assert_int_equal(response.retry_after_s, cases[i].retry_s);
        http_response_free(&response);
    }
}

static void last_field_counts(void **state)
{
    struct http_response response;

    (void)state;
    scene.fields[0] = "Replay-Nonce: a\r\n";
    scene.fields[1] = "Retry-After: 7\r\n";
    scene.fields[2] = "Replay-Nonce: b\r\n";
    scene.fields[3] = "Other: c\r\n";
    response = get();
    assert_string_equal(response.nonce, "b");
    assert_int_equal(response.retry_after_s, 7);
    http_response_free(&response);
}

static void long_field_is_ignored(void **state)
{
    char line[HTTP_FIELD_MAX + 32];

    for (size_t length = HTTP_FIELD_MAX - 1; length <= HTTP_FIELD_MAX; length++) {
        struct http_response response;

        set_up(state);
        strcpy(line, "Location: ");
        memset(line + 10, 'x', length);
        line[10 + length] = '\0';
        scene.fields[0] = line;
        response = get();
        assert_int_equal(strlen(response.location), length < HTTP_FIELD_MAX ? length : 0);
        http_response_free(&response);
    }
}

static void retry_after_is_a_number_or_a_date(void **state)
{
    static const struct {
        const char *text;
        size_t length;
        int64_t now_s;
        uint32_t seconds;
    } cases[] = {
        {"120", 3, 0, 120},
        {"1205", 3, 0, 120},
        {"0", 1, 0, 0},
        {"", 0, 0, 0},
        {"-5", 2, 0, 0},
        {"5 ", 2, 0, 0},
        {"604799", 6, 0, 604799},
        {"604801", 6, 0, 7 * DAY_S},
        {"000000005", 9, 0, 7 * DAY_S}, /* too long to be read */
        {"00000005", 8, 0, 5},
        {"99999999999999999999", 20, 0, 7 * DAY_S},
        {"000000000000000000000000000000000000000000000000000000000000000", 63, 0, 7 * DAY_S},
        {"0000000000000000000000000000000000000000000000000000000000000000", 64, 0, 0},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 29, 0, 120},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 29, 119, 1},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 29, 120, 0},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 29, 500, 0},
        {"Thu, 01 Jan 2037 00:02:00 GMT", 29, 0, 7 * DAY_S},
        {"Thu, 01 Jan 1970 00:02:00 GMTx", 30, 0, 0},
        {"Thu, 01 Jan 1970 00:02:00", 25, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (http_retry_after(cases[i].text, cases[i].length, cases[i].now_s) != cases[i].seconds)
            fail_msg("'%s' is not %u", cases[i].text, cases[i].seconds);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(client_needs_the_library),
        TEST(options_depend_on_the_method),
        TEST(options_do_not_stay),
        TEST(failure_is_described),
        TEST(reason_does_not_stay),
        TEST(pulse_ends_the_request),
        TEST(body_is_bounded),
        TEST(fields_are_read),
        TEST(last_field_counts),
        TEST(long_field_is_ignored),
        TEST(retry_after_is_a_number_or_a_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
