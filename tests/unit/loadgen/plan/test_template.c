/* Variables in requests: what they are replaced by, the order of the rows, and errors. */
#include "plan_fixture.h"

#include "common/macros.h"

static const char *const table = path, *const list = second_path;

static void plan_table(void)
{
    reset_plan();
    plan.csv_file = table;
}

/* The message of entry I without Host, User-Agent and Accept. */
static const char *message(size_t i)
{
    static char text[1024];
    const struct request *request = &request_plan.requests[request_plan.entries[i].request];
    char *host, *rest;

    snprintf(text, sizeof(text), "%.*s", (int)request->message_length, request->message);
    host = strstr(text, "Host: ");
    rest = strstr(text, "*/*\r\n");
    assert_true(host != NULL && rest != NULL);
    memmove(host, rest + 5, strlen(rest + 5) + 1);
    return text;
}

TEST(field_with_a_variable_replaces_a_recorded_one)
{
    plan_table();
    plan.har_file = list;
    plan.headers[0] = "cookie: id={{id}}";
    plan.header_count = 1;
    write_file(list, "{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": "
                     "\"http://w.test/{{id}}\", \"headers\": [{\"name\": \"Cookie\", \"value\": "
                     "\"old\"}, {\"name\": \"X\", \"value\": \"y{{id}}\"}]}}]}}");
    write_file(table, "id\n7\n8\n");
    prepare();
    assert_int_equal(request_plan.entry_count, 2);
    assert_string_equal(message(0), "GET /7 HTTP/1.1\r\nX: y7\r\ncookie: id=7\r\n\r\n");
    assert_string_equal(message(1), "GET /8 HTTP/1.1\r\nX: y8\r\ncookie: id=8\r\n\r\n");
    request_plan_free(&request_plan);
}

/* Without a table, braces mean nothing. */
TEST(braces_without_a_table_are_sent)
{
    reset_plan();
    plan.headers[0] = "X: {{id}}";
    plan.header_count = 1;
    prepare();
    assert_string_equal(message(0), "GET /base HTTP/1.1\r\nX: {{id}}\r\n\r\n");
    request_plan_free(&request_plan);
}

static uint64_t random_state;

/* The paths of the next COUNT requests of a slot, without slashes, or '-' when none is left. */
static const char *next_paths(size_t *position, int count)
{
    static char text[64];
    size_t used = 0;

    for (int i = 0; i < count; i++) {
        const struct request_entry *next =
            request_plan_next(&request_plan, position, &random_state);
        const char *start =
            next != NULL ? strchr(request_plan.requests[next->request].target.text + 7, '/') + 1
                         : "-";

        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? " " : "", start);
    }
    return text;
}

TEST(rows_follow_each_other)
{
    size_t one = 0, other = 0;

    plan_table();
    plan.urls_file = list;
    write_file(list, "/a{{id}}\n/b{{id}}\n");
    write_file(table, "id\n1\n2\n3\n");
    prepare();
    assert_int_equal(request_plan.entry_count, 6);
    assert_string_equal(next_paths(&one, 8), "a1 b1 a2 b2 a3 b3 a1 b1");
    assert_int_equal(request_plan_limit(&request_plan), 0);
    request_plan.cursor = 0;
    plan.rows = PLAN_ROWS_ONCE;
    assert_string_equal(next_paths(&one, 8), "a1 b1 a2 b2 a3 b3 - -");
    assert_int_equal(request_plan_limit(&request_plan), 6);
    request_plan.cursor = 0;
    plan.order = PLAN_ORDER_EACH;
    assert_string_equal(next_paths(&one, 3), "a1 b1 a2");
    assert_string_equal(next_paths(&other, 3), "a3 b3 -");
    assert_string_equal(next_paths(&one, 3), "b2 - -");
    request_plan.cursor = 0;
    plan.rows = PLAN_ROWS_SEQUENCE;
    one = other = 0;
    assert_string_equal(next_paths(&one, 1), "a1");
    assert_string_equal(next_paths(&other, 5), "a2 b2 a3 b3 a1");
    assert_string_equal(next_paths(&one, 2), "b1 a2");
    request_plan_free(&request_plan);
}

TEST(random_rows_keep_the_requests_of_a_row_together)
{
    unsigned seen[4] = {0};
    size_t one = 0;

    plan_table();
    plan.urls_file = list;
    plan.rows = PLAN_ROWS_RANDOM;
    write_file(list, "/a{{id}}\n/b{{id}}\n");
    write_file(table, "id\n1\n2\n3\n");
    prepare();
    for (int i = 0; i < 3000; i++) {
        const char *paths = next_paths(&one, 2);

        assert_int_equal(paths[0], 'a');
        assert_int_equal(paths[3], 'b');
        assert_int_equal(paths[1], paths[4]);
        seen[paths[1] - '0']++;
    }
    for (int row = 1; row <= 3; row++)
        assert_in_range(seen[row], 900, 1100);
    request_plan_free(&request_plan);
}

TEST(invalid_variables_are_rejected)
{
    static const struct {
        const char *url, *header, *table, *why;
    } cases[] = {
        {"/{{idd}}", "A: b", "id,name\n1,2\n", ": no column 'idd' for {{idd}} (columns: id, name)"},
        {"/", "A: {{ id }}", "id\n1\n", ": no column ' id ' for {{ id }} (columns: id)"},
        {"/x", "A: b", "id\n1\n", ": no URL, header field or body has a variable such as {{id}}"},
        {"/x", "A: {{id}}", "id\n1\n\"2\n3\"\n",
         ":3: control character in a value for the header "
         "field 'A: {{id}}'"},
        {"{{{id}}}", "A: b", "id\nftp://x/\n",
         ":2: invalid URL 'ftp://x/': only http:// and https:// are supported"},
        {"/{{id}}", "A: b", "id\n", ":1: no rows"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        plan_table();
        plan.urls_file = list;
        plan.headers[0] = cases[i].header;
        plan.header_count = 1;
        write_file(list, cases[i].url);
        write_file(table, cases[i].table);
        check_rejected(cases[i].why);
    }
}
