/* Requests to an authority, which is a libcurl of the test. */
#include "common/macros.h"
#include "daemon/acme/authority.h"
#include "tests/test.h"
#include "tests/unit/daemon/acme/fake_curl.h"
#include "tests/unit/daemon/acme/fake_master.h"
#include "tests/unit/daemon/acme/signed_request.h"
#include "tests/unit/wrapped.h"

#include <openssl/ec.h>

#define URN "urn:ietf:params:acme:error:"

enum { DAY_S = 86400, PIECES = 8 };

/* A response to METHOD for URL. Status 0: none comes. */
struct exchange {
    const char *method, *url;
    long status;
    const char *body, *nonce, *location;
    uint32_t retry_s;
};

static struct scene {
    const struct exchange *exchanges;
    size_t count, done;
    struct fake_answer answer;   /* instead of the exchanges */
    struct fake_request request; /* the last one */
    char body[1024];             /* of that */
    json_t *header, *payload;    /* of the last signed request */
    time_t now_s;                /* 0: the real time */
    struct authority authority;
} scene;

time_t __wrap_time(time_t *now)
{
    (void)now;
    return scene.now_s;
}

static void forget_request(void)
{
    json_decref(scene.header);
    json_decref(scene.payload);
    scene.header = scene.payload = NULL;
}

static void answer_request(const struct fake_request *request, struct fake_answer *answer)
{
    const struct exchange *exchange = &scene.exchanges[scene.done];

    scene.request = *request;
    snprintf(scene.body, sizeof(scene.body), "%s", request->body != NULL ? request->body : "");
    *answer = scene.answer;
    if (scene.exchanges == NULL)
        return;
    assert_true(++scene.done <= scene.count);
    assert_string_equal(request->method, exchange->method);
    assert_string_equal(request->url, exchange->url);
    if (request->body != NULL) {
        json_t *jws = json_loads(request->body, 0, NULL);

        forget_request();
        scene.header = signed_request_member(jws, "protected");
        scene.payload = signed_request_member(jws, "payload");
        assert_string_equal(authority_text(scene.header, "url"), request->url);
        json_decref(jws);
    }
    *answer = (struct fake_answer){.status = exchange->status,
                                   .body = exchange->body,
                                   .nonce = exchange->nonce,
                                   .location = exchange->location,
                                   .retry_s = exchange->retry_s};
}

static int set_up(void **state)
{
    struct authority *authority = &scene.authority;

    (void)state;
    scene = (struct scene){.answer = {.status = 200}};
    fake_master_start();
    assert_int_equal(authority_init(authority, "dir", "CA"), 0);
    authority->link = master.link;
    authority->key = EVP_EC_gen("P-256");
    assert_non_null(authority->key);
    strcpy(authority->new_nonce, "nonce");
    strcpy(authority->new_account, "account");
    strcpy(authority->nonce, "n0");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    forget_request();
    EVP_PKEY_free(scene.authority.key);
    authority_free(&scene.authority);
    assert_int_equal(fake_curl.handles, 0);
    assert_int_equal(fake_curl.lists, 0);
    fake_master_free();
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void script(const struct exchange *exchanges, size_t count)
{
    scene.exchanges = exchanges;
    scene.count = count;
    scene.done = 0;
}

static int post(struct authority_answer *answer)
{
    return authority_post(&scene.authority, "url", json_object(), answer);
}

static void assert_why(const char *why)
{
    assert_int_equal(scene.done, scene.count);
    assert_string_equal(scene.authority.why, why);
}

/* The directory */

#define DIRECTORY                                                                                  \
    "{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":\"c\",\"renewalInfo\":\"d\","           \
    "\"keyChange\":\"e\"}"

static int open_directory(const char *body)
{
    const struct exchange exchange = {"GET", "dir", 200, body, NULL, NULL, 0};

    script(&exchange, 1);
    return authority_open(&scene.authority);
}

TEST(directory_gives_the_urls)
{
    scene.authority.account_unknown = true;
    assert_int_equal(open_directory(DIRECTORY), 0);
    assert_string_equal(scene.authority.new_nonce, "a");
    assert_string_equal(scene.authority.new_account, "b");
    assert_string_equal(scene.authority.new_order, "c");
    assert_string_equal(scene.authority.renewal_info, "d");
    assert_string_equal(scene.authority.key_change, "e");
    assert_false(scene.authority.account_unknown);
    assert_int_equal(open_directory("{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":\"c\"}"),
                     0);
    assert_string_equal(scene.authority.renewal_info, "");
    assert_string_equal(scene.authority.key_change, "");
}

TEST(directory_without_urls_is_refused)
{
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"[]", "dir: the directory is not a JSON object"},
        {"", "dir: the directory is not a JSON object"},
        {"{}", "dir: the directory has no valid newNonce"},
        {"{\"newNonce\":\"a\"}", "dir: the directory has no valid newAccount"},
        {"{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":7}",
         "dir: the directory has no valid newOrder"},
    };
    static const struct exchange refusal = {"GET", "dir", 300, "", NULL, NULL, 0};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(open_directory(cases[i].body), -1);
        assert_why(cases[i].why);
    }
    script(&refusal, 1);
    assert_int_equal(authority_open(&scene.authority), -1);
    assert_why("dir answers 300: no detail is given");
}

TEST(url_that_does_not_fit_is_rejected)
{
    char url[AUTHORITY_URL_MAX + 1], body[4 * AUTHORITY_URL_MAX];

    memset(url, 'u', sizeof(url));
    for (size_t length = AUTHORITY_URL_MAX - 1; length <= AUTHORITY_URL_MAX; length++) {
        bool fits = length < AUTHORITY_URL_MAX;

        url[AUTHORITY_URL_MAX - 1] = 'u';
        url[length] = '\0';
        snprintf(body, sizeof(body),
                 "{\"newNonce\":\"%s\",\"newAccount\":\"b\",\"newOrder\":\"c\"}", url);
        assert_int_equal(open_directory(body), fits ? 0 : -1);
        snprintf(
            body, sizeof(body),
            "{\"newNonce\":\"a\",\"newAccount\":\"b\",\"newOrder\":\"c\",\"keyChange\":\"%s\"}",
            url);
        assert_int_equal(open_directory(body), 0);
        assert_string_equal(scene.authority.key_change, fits ? url : "");
    }
}

/* Requests */

TEST(answer_has_text_and_object)
{
    static const struct exchange exchanges[] = {
        {"GET", "url", 299, "{\"a\":\"b\"}", NULL, "there", 7},
        {"GET", "url", 200, "[1]", NULL, NULL, 0},
        {"GET", "url", 200, "PEM", NULL, NULL, 0},
    };
    struct authority_answer answer;

    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(authority_get(&scene.authority, "url", &answer), 0);
    assert_string_equal(authority_text(answer.json, "a"), "b");
    assert_string_equal(answer.text, "{\"a\":\"b\"}");
    assert_string_equal(answer.location, "there");
    assert_int_equal(answer.retry_after_s, 7);
    authority_answer_free(&answer);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(authority_get(&scene.authority, "url", &answer), 0);
        assert_null(answer.json);
        assert_string_equal(answer.text, i == 0 ? "[1]" : "PEM");
        authority_answer_free(&answer);
    }
}

/* Members of the last failure do not stay. */
TEST(failure_is_described)
{
    static const struct exchange exchanges[] = {
        {"POST", "url", 300, "{\"type\":\"" URN "accountDoesNotExist\"}", "n1", NULL, 9},
        {"POST", "url", 403, "{\"type\":\"" URN "unauthorized\",\"detail\":\"no\"}", "n2", NULL, 0},
        {"POST", "url", 503, "", "n3", NULL, 5},
        {"POST", "url", 0, NULL, NULL, NULL, 0},
        {"GET", "url", 404, "{\"detail\":\"gone\"}", NULL, NULL, 6},
        {"GET", "url", 0, NULL, NULL, NULL, 0},
    };
    const struct authority *authority = &scene.authority;
    struct authority_answer answer;

    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(post(&answer), -1);
    assert_string_equal(authority->why,
                        "url answers 300: no detail is given (accountDoesNotExist)");
    assert_true(authority->account_unknown && authority->status == 300 &&
                authority->retry_after_s == 9);
    assert_int_equal(post(&answer), -1);
    assert_string_equal(authority->why, "url answers 403: no (unauthorized)");
    assert_true(!authority->account_unknown && authority->status == 403 &&
                authority->retry_after_s == 0);
    assert_int_equal(post(&answer), -1);
    assert_true(authority->status == 503 && authority->retry_after_s == 5);
    assert_int_equal(post(&answer), -1);
    assert_string_equal(authority->why, "POST url: no response");
    assert_true(authority->status == 0 && authority->retry_after_s == 0);
    assert_int_equal(authority_get(&scene.authority, "url", &answer), -1);
    assert_string_equal(authority->why, "url answers 404: gone");
    assert_true(authority->status == 404 && authority->retry_after_s == 6);
    assert_int_equal(authority_get(&scene.authority, "url", &answer), -1);
    assert_true(authority->status == 0 && authority->retry_after_s == 0);
}

TEST(each_request_has_another_nonce)
{
    static const struct exchange exchanges[] = {
        {"POST", "url", 200, "{}", "n1", NULL, 0}, {"POST", "url", 200, "{}", NULL, NULL, 0},
        {"HEAD", "nonce", 204, "", "n3", NULL, 0}, {"POST", "url", 0, NULL, NULL, NULL, 0},
        {"HEAD", "nonce", 200, "", "n4", NULL, 0}, {"POST", "url", 200, "{}", "n5", NULL, 0},
    };
    static const char *const nonces[] = {"n0", "n1", "n3", "n4"};
    struct authority_answer answer;

    script(exchanges, ARRAY_LENGTH(exchanges));
    for (size_t i = 0; i < ARRAY_LENGTH(nonces); i++) {
        int failed = post(&answer);

        assert_int_equal(failed, i == 2 ? -1 : 0);
        assert_string_equal(authority_text(scene.header, "nonce"), nonces[i]);
        if (failed == 0)
            authority_answer_free(&answer);
    }
    assert_int_equal(scene.done, scene.count);
}

TEST(request_without_nonce_fails)
{
    static const struct exchange cases[] = {
        {"HEAD", "nonce", 200, "", NULL, NULL, 0},
        {"HEAD", "nonce", 0, NULL, NULL, NULL, 0},
    };
    static const struct exchange refusal[] = {
        {"HEAD", "nonce", 429, "", "n1", NULL, 0},
        {"GET", "nonce", 429, "{\"detail\":\"not so fast\"}", "n2", NULL, 0}};
    static const char *const whys[] = {"nonce answers without a nonce", "HEAD nonce: no response"};
    struct authority_answer answer;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.authority.nonce[0] = '\0';
        script(&cases[i], 1);
        assert_int_equal(post(&answer), -1);
        assert_why(whys[i]);
    }
    scene.authority.nonce[0] = '\0';
    script(refusal, 2); /* an answer to HEAD has no problem document */
    assert_int_equal(post(&answer), -1);
    assert_why("nonce answers 429: not so fast");
}

TEST(refusal_without_a_problem_document_is_quoted)
{
    static const struct exchange cases[] = {
        {"GET", "dir", 502, "upstream is down", NULL, NULL, 0},
        {"GET", "dir", 403, "{\"title\":\"No account\"}", NULL, NULL, 0},
    };
    static const char *const whys[] = {
        "dir answers 502: no problem document, but 'upstream is down'",
        "dir answers 403: No account"};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        script(&cases[i], 1);
        assert_int_equal(authority_open(&scene.authority), -1);
        assert_why(whys[i]);
    }
}

TEST(request_with_refused_nonce_is_sent_ten_times)
{
    static const struct exchange refusal = {"POST", "url", 400, "{\"type\":\"" URN "badNonce\"}",
                                            "n1",   NULL,  0};
    struct exchange exchanges[10];
    struct authority_answer answer;

    for (size_t i = 0; i < ARRAY_LENGTH(exchanges); i++)
        exchanges[i] = refusal;
    script(exchanges, ARRAY_LENGTH(exchanges));
    assert_int_equal(post(&answer), -1);
    assert_why("url answers 400: no detail is given (badNonce)");
    exchanges[1] = (struct exchange){"POST", "url", 200, "{}", "n2", NULL, 0};
    script(exchanges, 2);
    assert_int_equal(post(&answer), 0);
    authority_answer_free(&answer);
    exchanges[0].status = 403;
    script(exchanges, 1);
    assert_int_equal(post(&answer), -1);
    exchanges[0] =
        (struct exchange){"POST", "url", 400, "{\"type\":\"" URN "malformed\"}", "n1", NULL, 0};
    script(exchanges, 1);
    assert_int_equal(post(&answer), -1);
    assert_int_equal(scene.done, 1);
}

/* RFC 8555 section 6.2: requests for a new account have the key itself. */
TEST(requests_name_the_account)
{
    static const struct exchange exchanges[] = {
        {"POST", "url", 200, "{}", "n1", NULL, 0},
        {"POST", "url", 200, "{}", "n2", NULL, 0},
        {"POST", "account", 200, "{}", "n3", NULL, 0},
    };
    struct authority_answer answer;

    script(exchanges, ARRAY_LENGTH(exchanges));
    for (size_t i = 0; i < ARRAY_LENGTH(exchanges); i++) {
        assert_int_equal(authority_post(&scene.authority, exchanges[i].url, NULL, &answer), 0);
        assert_string_equal(authority_text(scene.header, "kid"), i == 1 ? "me" : "");
        assert_int_equal(json_is_object(json_object_get(scene.header, "jwk")), i != 1);
        assert_null(scene.payload); /* POST-as-GET */
        authority_answer_free(&answer);
        strcpy(scene.authority.account, "me");
    }
}

TEST(problem_has_detail_type_and_parts)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"[]", "no detail is given"},
        {"{}", "no detail is given"},
        {"{\"detail\":\"a\"}", "a"},
        {"{\"type\":\"" URN "dns\"}", "no detail is given (dns)"},
        {"{\"type\":\"about:blank\",\"detail\":\"a\"}", "a (about:blank)"},
        {"{\"detail\":\"a\",\"subproblems\":[{\"detail\":\"b\"},{\"detail\":\"c\"}]}", "a; b; c"},
        {"{\"detail\":\"0123456789012345678901234567\",\"subproblems\":[{\"detail\":\"bcd\"}]}",
         "0123456789012345678901234567; b"},
        {"{\"detail\":\"01234567890123456789012345678901234567\",\"subproblems\":[{},{}]}",
         "0123456789012345678901234567890"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_t *json = json_loads(cases[i].json, 0, NULL);
        char text[32];

        assert_non_null(json);
        authority_problem(json, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
        json_decref(json);
    }
}

/* HTTPS */

TEST(authority_needs_libcurl)
{
    static const struct {
        bool fails_to_start, has_no_handle, has_no_list;
    } cases[] = {{true, false, false}, {false, true, false}, {false, false, true}};
    struct authority authority;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        fake_curl.fails_to_start = cases[i].fails_to_start;
        fake_curl.has_no_handle = cases[i].has_no_handle;
        fake_curl.has_no_list = cases[i].has_no_list;
        assert_int_equal(authority_init(&authority, "dir", ""), -1);
        authority_free(&authority);
    }
    fake_curl.fails_to_start = fake_curl.has_no_handle = fake_curl.has_no_list = false;
}

static void get(struct authority_answer *answer)
{
    assert_int_equal(authority_get(&scene.authority, "url", answer), 0);
}

static void get_and_free(void)
{
    struct authority_answer answer;

    get(&answer);
    authority_answer_free(&answer);
}

TEST(options_are_set_for_each_request)
{
    const struct fake_request *request = &scene.request;
    struct authority_answer answer;

    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            scene.authority.nonce[0] = 'n';
            assert_int_equal(post(&answer), 0);
            authority_answer_free(&answer);
        } else {
            scene.authority.ca = i == 0 ? "CA" : ""; /* of the system */
            get_and_free();
        }
        assert_string_equal(request->method, i == 1 ? "POST" : "GET");
        assert_int_equal(scene.body[0] != '\0', i == 1);
        assert_string_equal(request->protocols, "https");
        assert_string_equal(request->ca, scene.authority.ca);
        assert_int_equal(request->http, CURL_HTTP_VERSION_1_1);
        assert_int_equal(request->no_signal, 1);
        assert_int_equal(request->connect_s, 20);
        assert_int_equal(request->total_s, 60);
        assert_int_equal(request->no_progress, 0);
    }
}

/* The reason of the request before is not reported again. */
TEST(failure_of_libcurl_is_described)
{
    static const struct {
        struct fake_answer answer;
        const char *why;
    } cases[] = {
        {{.result = CURLE_COULDNT_CONNECT, .reason = "the reason"}, "GET url: the reason"},
        {{.result = CURLE_COULDNT_CONNECT}, "GET url: no response"},
        {{.status = 200, .status_result = CURLE_UNKNOWN_OPTION}, "GET url: another error"},
    };
    struct authority_answer answer;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.answer = cases[i].answer;
        assert_int_equal(authority_get(&scene.authority, "url", &answer), -1);
        assert_string_equal(scene.authority.why, cases[i].why);
    }
}

TEST(end_of_the_master_ends_the_request)
{
    get_and_free();
    assert_int_equal(fake_curl.progress, 0);
    fake_master_end();
    get_and_free();
    assert_int_equal(fake_curl.progress, 1);
}

TEST(body_is_bounded)
{
    for (size_t more = 0; more <= 1; more++) {
        struct authority_answer answer;

        scene.answer.body_pieces = PIECES;
        scene.answer.piece_bytes = AUTHORITY_BODY_MAX / PIECES + more;
        get(&answer);
        assert_int_equal(fake_curl.pieces_taken, PIECES - more);
        assert_int_equal(answer.length, fake_curl.pieces_taken * scene.answer.piece_bytes);
        assert_int_equal(strlen(answer.text), answer.length);
        authority_answer_free(&answer);
    }
}

TEST(fields_are_read)
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
        struct authority_answer answer;

        scene.answer.field = cases[i].line;
        get(&answer);
        assert_string_equal(scene.authority.nonce, cases[i].nonce);
        assert_string_equal(answer.location, cases[i].location);
        assert_int_equal(answer.retry_after_s, cases[i].retry_s);
        authority_answer_free(&answer);
    }
}

TEST(last_field_counts)
{
    scene.answer.nonce = "a";
    scene.answer.field = "Replay-Nonce: b\r\n";
    get_and_free();
    assert_string_equal(scene.authority.nonce, "b");
}

TEST(long_field_is_ignored)
{
    char url[AUTHORITY_URL_MAX + 1];

    for (size_t length = AUTHORITY_URL_MAX - 1; length <= AUTHORITY_URL_MAX; length++) {
        struct authority_answer answer;

        memset(url, 'x', length);
        url[length] = '\0';
        scene.answer.location = url;
        get(&answer);
        assert_int_equal(strlen(answer.location), length < AUTHORITY_URL_MAX ? length : 0);
        authority_answer_free(&answer);
    }
}

TEST(retry_after_is_a_number_or_a_date)
{
    static const struct {
        const char *text;
        time_t now_s;
        uint32_t seconds;
    } cases[] = {
        {"120", 0, 120},
        {"0", 0, 0},
        {"-5", 0, 0},
        {"604799", 0, 604799},
        {"604801", 0, 7 * DAY_S},
        {"000000005", 0, 7 * DAY_S}, /* too long to be read */
        {"00000005", 0, 5},
        {"99999999999999999999", 0, 7 * DAY_S},
        {"000000000000000000000000000000000000000000000000000000000000000", 0, 7 * DAY_S},
        {"0000000000000000000000000000000000000000000000000000000000000000", 0, 0},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 0, 120},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 119, 1},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 120, 0},
        {"Thu, 01 Jan 1970 00:02:00 GMT", 500, 0},
        {"Thu, 01 Jan 2037 00:02:00 GMT", 0, 7 * DAY_S},
        {"Thu, 01 Jan 1970 00:02:00 GMTx", 0, 0},
        {"Thu, 01 Jan 1970 00:02:00", 0, 0},
    };
    char line[128];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct authority_answer answer;

        snprintf(line, sizeof(line), "Retry-After: %s\r\n", cases[i].text);
        scene.now_s = cases[i].now_s;
        scene.answer.field = line;
        get(&answer);
        if (answer.retry_after_s != cases[i].seconds)
            fail_msg("'%s' is not %u", cases[i].text, cases[i].seconds);
        authority_answer_free(&answer);
    }
}
