/* Checks one answer. */
#include "../http_client.h"
#include "rfc.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

/* --- Checks for every answer --- */

/* RFC 9112 section 4: the version, three digits, and a reason. */
static void check_status_line(const struct http_answer *answer)
{
    const char *line = answer->head;

    if (strncmp(line, "HTTP/1.1 ", 9) != 0 || !isdigit(line[9]) || !isdigit(line[10]) ||
        !isdigit(line[11]) || line[12] != ' ' || !isalpha(line[13]))
        fail_msg("a malformed status line: %s", answer->head);
}

/* RFC 9110 sections 5.1 and 5.5. */
static void check_field_syntax(const struct http_answer *answer)
{
    for (size_t i = 0; i < answer->field_count; i++) {
        const char *name = answer->name[i], *value = answer->value[i];

        if (name[0] == '\0' || strspn(name, "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "abcdefghijklmnopqrstuvwxyz") != strlen(name))
            fail_msg("a malformed field name: %s", answer->head);
        for (; *value != '\0'; value++)
            if ((unsigned char)*value < ' ' || *value == 0x7f)
                fail_msg("a control byte in the field %s: %s", name, answer->head);
    }
}

static bool has(const struct http_answer *answer, const char *name)
{
    return http_field(answer, name) != NULL;
}

/* RFC 9112 section 6.3, and RFC 9110 section 8.6. */
static void check_framing(const struct http_answer *answer)
{
    bool length = has(answer, "Content-Length"), coding = has(answer, "Transfer-Encoding");

    if (length && coding)
        fail_msg("two body lengths: %s", answer->head);
    if ((answer->status < 200 || answer->status == 204) && (length || coding))
        fail_msg("a length without a body: %s", answer->head);
}

/* Required fields by status, RFC 9110 sections 6.6.1, 10.2.1, 10.2.2, 14.4, 15. */
static void check_fields_of_status(const struct http_answer *answer)
{
    static const struct {
        int status;
        const char *name;
    } needed[] = {{206, "Content-*"},
                  {301, "Location"},
                  {405, "Allow"},
                  {416, "Content-Range"},
                  {429, "Retry-After"}};

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        bool found = answer->status != needed[i].status;

        for (size_t field = 0; field < answer->field_count; field++)
            found = found || fnmatch(needed[i].name, answer->name[field], FNM_CASEFOLD) == 0;
        if (!found)
            fail_msg("missing field %s: %s", needed[i].name, answer->head);
    }
    if (answer->status >= 200 && !has(answer, "Date"))
        fail_msg("invalid date: %s", answer->head);
}

void rfc_check_any(const struct http_answer *answer, bool last)
{
    const char *connection = http_field(answer, "Connection");
    bool close = connection != NULL && strcasecmp(connection, "close") == 0;

    check_status_line(answer);
    check_field_syntax(answer);
    check_framing(answer);
    check_fields_of_status(answer);
    if (close != last)
        fail_msg("the connection %s, but the answer is: %s", last ? "ends" : "goes on",
                 answer->head);
}

/* --- Checks of one case --- */

/* Calls ACT for each part of TEXT that SEPARATOR divides. */
static void for_each_part(const struct http_answer *answer, const char *text, char separator,
                          void (*act)(const struct http_answer *, const char *))
{
    char part[512];

    while (text != NULL && *text != '\0') {
        size_t length = (size_t)(strchrnul(text, separator) - text);

        assert_true(length < sizeof(part));
        memcpy(part, text, length);
        part[length] = '\0';
        act(answer, part);
        text += text[length] == '\0' ? length : length + 1;
    }
}

static void check_field(const struct http_answer *answer, const char *line)
{
    char name[64];
    const char *colon = strchr(line, ':'), *value;

    assert_non_null(colon);
    assert_in_range(colon - line, 1, sizeof(name) - 1);
    memcpy(name, line, (size_t)(colon - line));
    name[colon - line] = '\0';
    value = http_field(answer, name);
    if (value == NULL || fnmatch(colon + 2, value, 0) != 0)
        fail_msg("expected \"%s\" in: %s", line, answer->head);
}

static void check_absent(const struct http_answer *answer, const char *name)
{
    if (has(answer, name))
        fail_msg("unexpected %s: %s", name, answer->head);
}

void rfc_check_one(const struct http_answer *answer, const struct rfc_answer *expected)
{
    if (answer->status != expected->status)
        fail_msg("expected status %d, got: %s", expected->status, answer->head);
    for_each_part(answer, expected->fields, '\n', check_field);
    for_each_part(answer, expected->without, ' ', check_absent);
    if (expected->length != 0)
        assert_int_equal(answer->body_length, expected->length);
    if (expected->body != NULL && (answer->body_length != strlen(expected->body) ||
                                   memcmp(answer->body, expected->body, answer->body_length) != 0))
        fail_msg("expected body '%s', got '%s'", expected->body, answer->body);
    if (expected->like != NULL && fnmatch(expected->like, answer->body, 0) != 0)
        fail_msg("expected a body like '%s', got '%s'", expected->like, answer->body);
}
