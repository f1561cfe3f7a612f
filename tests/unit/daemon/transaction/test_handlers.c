/*
 * The handlers and who may have their responses, from outside: redirects, the challenge of ACME,
 * arithmetic, listings and passwords of [access].
 */
#include "tests/unit/own_site.h"

#include "common/segment_reader.h"

#define BASIC(base64) "Authorization: Basic " base64 "\r\n"
#define ANN_RIGHT     BASIC("YW5uOnNlY3JldA==") /* ann:secret */
#define ANN_WRONG     BASIC("YW5uOndyb25n")     /* ann:wrong */
#define CHALLENGE     "/.well-known/acme-challenge/"

enum { LOCATION_MAX = 6 * 1024 };

static int set_up(void **state)
{
    (void)state;
    own_site_make();
    own_site_put_text("../users",
                      "ann:$5$rounds=1000$salt$CCvcOM6b7TEJDPb37Aec/9UpOg4QhPNAxPpL9ZzjTB7\n");
    own_site_open("[files]\nautoindex = on\nerror_pages =\n[cache]\nprecompressed = "
                  "off\n[arithmetic]\nenabled = on\n"
                  "[redirect]\n/old/* = 308 /new?a&b\n/blog/* = 307 https://blog.example/*\n"
                  "/keep = 301 /new\nhttp /secure/* = 308 https:\n/gone/* = 410\n"
                  "[access /private]\nusers = users\n");
    return 0;
}

const struct test_fixture test_fixture = {set_up, own_site_close};

static int get(const char *target)
{
    return own_site_get(target, "");
}

/* Returns the next request's target: PREFIX and LENGTH letters. */
static const char *long_target(const char *prefix, size_t length)
{
    static char target[8 * 1024];
    size_t used = (size_t)snprintf(target, sizeof(target), "%s", prefix);

    memset(target + used, 'q', length);
    target[used + length] = '\0';
    return target;
}

/* --- Redirects --- */

TEST(redirects_lead_to_their_targets)
{
    static const struct {
        const char *request;
        int status;
        const char *location;
    } cases[] = {
        {"GET /old/x HTTP/1.1\r\nHost: own\r\n", 308, "/new?a&b"},
        {"GET /old/x?q HTTP/1.1\r\nHost: own\r\n", 308, "/new?a&b"},
        {"GET /blog/a%20b/c HTTP/1.1\r\nHost: own\r\n", 307, "https://blog.example/a%20b/c"},
        {"GET /keep?q=%41&\" HTTP/1.1\r\nHost: own\r\n", 301, "/new?q=%41&%22"},
        {"GET /keep? HTTP/1.1\r\nHost: own\r\n", 301, "/new?"},
        {"GET /secure/x%20y?q HTTP/1.1\r\nHost: a.example:8080\r\n", 308,
         "https://a.example/secure/x%20y?q"},
        {"GET /secure/ HTTP/1.1\r\nHost: [::1]\r\n", 308, "https://[::1]/secure/"},
        {"GET /secure/ HTTP/1.1\r\nHost: [::1]:8080\r\n", 308, "https://[::1]/secure/"},
        {"GET /secure/ HTTP/1.1\r\nHost: a.\r\n", 308, "https://a/secure/"},
        {"GET /secure/ HTTP/1.0\r\n", 400, ""}, /* there is no URL */
        {"GET /gone/x HTTP/1.1\r\nHost: own\r\n", 410, ""},
        {"GET /a%20b/%C3%BC?x=%41&y=\" HTTP/1.1\r\nHost: own\r\n", 301,
         "/a%20b/%C3%BC/?x=%41&y=%22"},
        {"GET /a%20b HTTP/1.1\r\nHost: own\r\n", 301, "/a%20b/"},
    };
    char path[96];

    snprintf(path, sizeof(path), "%s/www/a b", own_directory);
    assert_int_equal(mkdir(path, 0755), 0);
    strcat(path, "/\xc3\xbc");
    assert_int_equal(mkdir(path, 0755), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        if (own_site_request(cases[i].request) != cases[i].status)
            fail_msg("%s: %d", cases[i].request, answer.status);
        assert_string_equal(own_site_field("Location"), cases[i].location);
    }
}

TEST(location_that_is_too_long_is_414)
{
    assert_int_equal(get(long_target("/keep?", LOCATION_MAX - strlen("/new?"))), 301);
    assert_int_equal(strlen(own_site_field("Location")), LOCATION_MAX);
    assert_int_equal(get(long_target("/keep?", LOCATION_MAX - strlen("/new?") + 1)), 414);
}

TEST(without_memory_a_redirect_is_503)
{
    own_system.failing_allocations = 1;
    assert_int_equal(get("/old/"), 503);
    assert_int_equal(atomic_load(&own_system.failing_allocations), 0);
    own_system.no_stream = true;
    assert_int_equal(get("/old/"), 503);
    own_system.no_stream = false;
    assert_int_equal(get("/old/"), 308);
}

/* --- ACME --- */

TEST(challenge_is_answered_while_it_is_pending)
{
    static const char *const others[] = {CHALLENGE "toke", CHALLENGE "token2", CHALLENGE "Token",
                                         CHALLENGE, "/.well-known/acme-challenga/token"};
    struct challenge_copy challenge = {
        .kind = CHALLENGE_HTTP_01, .token = "token", .thumbprint = "thumb"};

    assert_int_equal(get(CHALLENGE "token"), 404);
    segment_store_challenge(&own_site.segment, &challenge);
    assert_int_equal(get(CHALLENGE "token"), 200);
    assert_string_equal(answer.body, "token.thumb");
    assert_string_equal(own_site_field("Content-Type"), "application/octet-stream");
    assert_string_equal(own_site_field("Cache-Control"), "no-store");
    assert_int_equal(own_site_request("HEAD " CHALLENGE "token HTTP/1.1\r\nHost: own\r\n"), 200);
    assert_string_equal(answer.body, "");
    own_site_request("OPTIONS " CHALLENGE "token HTTP/1.1\r\nHost: own\r\n");
    assert_string_equal(own_site_field("Allow"), "GET, HEAD, OPTIONS");
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        assert_int_equal(get(others[i]), 404);
    own_system.failing_allocations = 1;
    assert_int_equal(get(CHALLENGE "token"), 503);
    challenge.kind = CHALLENGE_TLS_ALPN_01;
    segment_store_challenge(&own_site.segment, &challenge);
    assert_int_equal(get(CHALLENGE "token"), 404);
    segment_store_challenge(&own_site.segment, &(struct challenge_copy){.kind = CHALLENGE_HTTP_01});
    assert_int_equal(get(CHALLENGE), 404);
}

/* --- Arithmetic --- */

TEST(arithmetic_is_exact_and_says_why_a_query_is_invalid)
{
    static const struct {
        const char *query;
        int status;
        const char *text;
    } cases[] = {
        {"fibonacci?n=0", 200, "0"},
        {"fibonacci?n=1", 200, "1"},
        {"fibonacci?n=2", 200, "1"},
        {"fibonacci?n=10", 200, "55"},
        {"fibonacci?n=50", 200, "12586269025"},
        {"fibonacci?n=92", 200, "7540113804746346429"},
        {"fibonacci?n=93", 200, "12200160415121876738"},
        {"fibonacci?n=-0", 200, "0"},
        {"fibonacci?n=0010", 200, "55"},
        {"square?n=0", 200, "0"},
        {"square?n=-7", 200, "49"},
        {"square?n=3037000500", 200, "9223372037000250000"},
        {"square?n=4294967295", 200, "18446744065119617025"},
        {"square?n=-4294967295", 200, "18446744065119617025"},
        {"cube?n=3", 200, "27"},
        {"cube?n=-3", 200, "-27"},
        {"cube?n=2642245", 200, "18446724184312856125"},
        {"cube?n=-2097152", 200, "-9223372036854775808"},
        {"cube?n=1&", 200, "1"},
        {"cube?%6e=%2D1%32", 200, "-1728"},
        {"square?work=1ms&n=5", 200, "25"},
        {"square?n=5&work=0", 200, "25"},
        {"cube?&n=1&", 400, "unknown parameter '' (valid: n, work)"},
        {"fibonacci", 400, "n is missing (example: fibonacci?n=10)"},
        {"cube?work=1ms", 400, "n is missing (example: cube?n=10)"},
        {"fibonacci?n", 400, "invalid n '' (examples: 10, -3)"},
        {"fibonacci?n=-", 400, "invalid n '-' (examples: 10, -3)"},
        {"fibonacci?n=+1", 400, "invalid n '+1' (examples: 10, -3)"},
        {"fibonacci?n=1.5", 400, "invalid n '1.5' (examples: 10, -3)"},
        {"fibonacci?n=%2531", 400, "invalid n '%2531' (examples: 10, -3)"},
        {"fibonacci?n=%31%2", 400, "invalid n '1%2' (examples: 10, -3)"},
        {"fibonacci?n=%zz%3", 400, "invalid n '%zz%3' (examples: 10, -3)"},
        {"fibonacci?n=%00", 400, "invalid n '%00' (examples: 10, -3)"},
        {"fibonacci?n=0x10", 400, "invalid n '0x10' (examples: 10, -3)"},
        {"fibonacci?n=94", 400, "n: 94 is out of range for fibonacci (0 to 93)"},
        {"fibonacci?n=-1", 400, "n: -1 is out of range for fibonacci (0 to 93)"},
        {"square?n=4294967296", 400,
         "n: 4294967296 is out of range for square (-4294967295 to 4294967295)"},
        {"square?n=-4294967296", 400,
         "n: -4294967296 is out of range for square (-4294967295 to 4294967295)"},
        {"square?n=-99999999999999999999", 400,
         "n: -99999999999999999999 is out of range for square (-4294967295 to 4294967295)"},
        {"cube?n=2642246", 400, "n: 2642246 is out of range for cube (-2097152 to 2642245)"},
        {"cube?n=-2097153", 400, "n: -2097153 is out of range for cube (-2097152 to 2642245)"},
        {"cube?n=1&n=1", 400, "n is repeated"},
        {"cube?work=1ms&n=1&work=1ms", 400, "work is repeated"},
        {"cube?n=1&m=1", 400, "unknown parameter 'm' (valid: n, work)"},
        {"cube?N=1", 400, "unknown parameter 'N' (valid: n, work)"},
        {"cube?n=1&work=", 400, "invalid work '' (example: 2ms)"},
        {"cube?n=1&work=-1ms", 400, "invalid work '-1ms' (example: 2ms)"},
        {"cube?n=1&work=101ms", 400, "work: 101ms is out of range (0 to 100ms)"},
        {"cube?n=1&work=1", 400, "work: 1 is out of range (0 to 100ms)"},
    };
    char target[128], text[128];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        snprintf(target, sizeof(target), "/arithmetic/%s", cases[i].query);
        snprintf(text, sizeof(text), "%s\n", cases[i].text);
        if (get(target) != cases[i].status || strcmp(answer.body, text) != 0)
            fail_msg("%s: %d %s", target, answer.status, answer.body);
        assert_int_equal(answer.waits, strcmp(cases[i].query, "square?work=1ms&n=5") == 0);
    }
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(get(i == 0 ? "/arithmetic/root?n=4" : "/arithmetic/"), 404);
}

/* --- Missing files --- */

static int set_up_with_candidates(void **state)
{
    static const char *const directories[] = {"d", "both", "bare", "dir"};
    static const char *const files[] = {
        "app.html",    "d/index.htm", "both/index.htm", "both/index.html", "about.html",
        "about.htm",   "exact",       "exact.html",     "dir.html",        "v1.2.html",
        "looped.html", ".hid.html",   "a-page.html"};
    char path[64];

    (void)state;
    own_site_make();
    for (size_t i = 0; i < ARRAY_LENGTH(directories); i++) {
        snprintf(path, sizeof(path), "%s/www/%s", own_directory, directories[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        own_site_put_text(files[i], files[i]);
    own_site_open("[server]\nindex = index.html, index.htm\n[files]\nerror_pages =\n"
                  "extensions = html htm\nredirect_extensions = on\nfallback = /app.html\n"
                  "[redirect]\n/looped = 301 /looped.html\n/tried = try file 410\n");
    return 0;
}

/* [server] index, [files] extensions, redirect_extensions and fallback. BODY is the file's name. */
TEST_WITH(first_file_that_exists_is_served, set_up_with_candidates, own_site_close)
{
    static const struct {
        const char *target;
        int status;
        const char *body, *location;
    } cases[] = {
        {"/d/", 200, "d/index.htm", ""},
        {"/both/", 200, "both/index.html", ""},
        {"/bare/", 200, "app.html", ""},
        {"/bare", 301, NULL, "/bare/"},
        {"/about", 200, "about.html", ""},
        {"/exact", 200, "exact", ""},
        {"/dir", 200, "dir.html", ""},
        {"/dir/", 200, "app.html", ""},
        {"/v1.2", 200, "v1.2.html", ""},
        {"/none", 200, "app.html", ""},
        {"/none.html", 404, NULL, ""},
        {"/.hid", 404, NULL, ""},
        {"/exact/none", 200, "app.html", ""},
        {"/tried", 410, NULL, ""},
        /* the shorter path of the same file */
        {"/about.html", 301, NULL, "/about"},
        {"/about.html?a=b", 301, NULL, "/about?a=b"},
        {"/a%2Dpage.html", 301, NULL, "/a-page"},
        {"/dir.html", 301, NULL, "/dir"},
        {"/d/index.htm", 301, NULL, "/d/"},
        {"/both/index.html", 301, NULL, "/both/"},
        {"/both/index.htm", 200, "both/index.htm", ""}, /* "/both/" is another file */
        {"/about.htm", 200, "about.htm", ""},
        {"/exact.html", 200, "exact.html", ""},
        {"/looped.html", 200, "looped.html", ""}, /* a rule leads from "/looped" here */
    };

    for (size_t i = 0; i < 2 * ARRAY_LENGTH(cases); i++) {
        size_t number = i % ARRAY_LENGTH(cases);

        own_system.cold = i == number; /* then from the caches */
        if (get(cases[number].target) != cases[number].status)
            fail_msg("%s: %d", cases[number].target, answer.status);
        if (cases[number].body != NULL)
            assert_string_equal(answer.body, cases[number].body);
        assert_string_equal(own_site_field("Location"), cases[number].location);
    }
    own_site_put_text("d/index.html", "new");
    own_site_put_text("bare/index.htm", "new");
    own_system.late_ns += 2 * NS_PER_S;
    assert_int_equal(get("/d/"), 200);
    assert_string_equal(answer.body, "new");
    assert_int_equal(get("/bare/"), 200);
    assert_string_equal(answer.body, "new");
}

/* --- Listings --- */

/* The first lookup finds no index file; when the offload thread lists the directory, it has one. */
TEST(listing_of_a_directory_with_an_index_is_the_index)
{
    assert_int_equal(get("/index.html"), 404);
    own_site_put_text("index.html", "index");
    assert_int_equal(get("/"), 200);
    assert_string_equal(answer.body, "index");
}

TEST(listing_without_a_job_is_503)
{
    own_site_get("/", "");
    own_site_fill_queue();
    assert_int_equal(get("/"), 503);
    own_site_empty_queue();
    own_system.failing_in_offload = 1000000;
    assert_int_equal(get("/"), 503);
}

/* --- Passwords --- */

TEST(password_without_memory_is_503)
{
    own_system.failing_allocations = 1;
    assert_int_equal(own_site_get("/private", ANN_RIGHT), 503);
    assert_int_equal(own_site_metric(METRIC_offload_rejected), 1);
}

/* Cold files and guesses do not wait for each other. */
TEST(password_is_verified_while_the_offload_queue_is_full)
{
    int status;

    own_site_fill_queue();
    status = own_site_get("/private", ANN_WRONG);
    own_site_empty_queue();
    assert_int_equal(status, 401);
    assert_int_equal(own_site_metric(METRIC_logins_failed), 1);
}
