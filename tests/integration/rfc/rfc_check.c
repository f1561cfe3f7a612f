/* Checks one response. */
#include "../http_client.h"
#include "rfc.h"
#include "tests/test.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

/* --- Checks for every response --- */

/* RFC 9112 section 4: the version, three digits, and a reason. */
static void check_status_line(const struct http_response *response)
{
    const char *line = response->head;

    if (strncmp(line, "HTTP/1.1 ", 9) != 0 || !isdigit(line[9]) || !isdigit(line[10]) ||
        !isdigit(line[11]) || line[12] != ' ' || !isalpha(line[13]))
        fail_msg("a malformed status line: %s", response->head);
}

/* RFC 9110 sections 5.1 and 5.5. */
static void check_field_syntax(const struct http_response *response)
{
    for (size_t i = 0; i < response->field_count; i++) {
        const char *name = response->name[i], *value = response->value[i];

        if (name[0] == '\0' || strspn(name, "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "abcdefghijklmnopqrstuvwxyz") != strlen(name))
            fail_msg("a malformed field name: %s", response->head);
        for (; *value != '\0'; value++)
            if ((unsigned char)*value < ' ' || *value == 0x7f)
                fail_msg("a control byte in the field %s: %s", name, response->head);
    }
}

static bool has(const struct http_response *response, const char *name)
{
    return http_field(response, name) != NULL;
}

/* RFC 9112 section 6.3, and RFC 9110 section 8.6. */
static void check_framing(const struct http_response *response)
{
    bool length = has(response, "Content-Length"), coding = has(response, "Transfer-Encoding");

    if (length && coding)
        fail_msg("two body lengths: %s", response->head);
    if ((response->status < 200 || response->status == 204) && (length || coding))
        fail_msg("a length without a body: %s", response->head);
}

/* Required fields by status, RFC 9110 sections 6.6.1, 10.2.1, 10.2.2, 14.4, 15. */
static void check_fields_of_status(const struct http_response *response)
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
        bool found = response->status != needed[i].status;

        for (size_t field = 0; field < response->field_count; field++)
            found = found || fnmatch(needed[i].name, response->name[field], FNM_CASEFOLD) == 0;
        if (!found)
            fail_msg("missing field %s: %s", needed[i].name, response->head);
    }
    if (response->status >= 200 && !has(response, "Date"))
        fail_msg("invalid date: %s", response->head);
}

/* Errors that depend on more than the target: RFC 6585 sections 4 and 5, RFC 9111 section 3. */
static void check_is_not_stored(const struct http_response *response)
{
    const char *control = http_field(response, "Cache-Control");

    switch (response->status) {
    case 403:
    case 404:
    case 405:
    case 406:
        return;
    default:
        if (response->status >= 400 && (control == NULL || strcmp(control, "no-store") != 0))
            fail_msg("a cache may store: %s", response->head);
    }
}

void rfc_check_any(const struct http_response *response, bool last)
{
    const char *connection = http_field(response, "Connection");
    bool close = connection != NULL && strcasecmp(connection, "close") == 0;

    check_status_line(response);
    check_field_syntax(response);
    check_framing(response);
    check_fields_of_status(response);
    check_is_not_stored(response);
    if (close != last)
        fail_msg("the connection %s, but the response is: %s", last ? "ends" : "goes on",
                 response->head);
}

/* --- Checks of one case --- */

/* Calls ACT for each part of TEXT that SEPARATOR divides. */
static void for_each_part(const struct http_response *response, const char *text, char separator,
                          void (*act)(const struct http_response *, const char *))
{
    char part[512];

    while (text != NULL && *text != '\0') {
        size_t length = (size_t)(strchrnul(text, separator) - text);

        assert_true(length < sizeof(part));
        memcpy(part, text, length);
        part[length] = '\0';
        act(response, part);
        text += text[length] == '\0' ? length : length + 1;
    }
}

static void check_field(const struct http_response *response, const char *line)
{
    char name[64];
    const char *colon = strchr(line, ':'), *value;

    assert_non_null(colon);
    assert_in_range(colon - line, 1, sizeof(name) - 1);
    memcpy(name, line, (size_t)(colon - line));
    name[colon - line] = '\0';
    value = http_field(response, name);
    if (value == NULL || fnmatch(colon + 2, value, 0) != 0)
        fail_msg("expected \"%s\" in: %s", line, response->head);
}

static void check_absent(const struct http_response *response, const char *name)
{
    if (has(response, name))
        fail_msg("unexpected %s: %s", name, response->head);
}

void rfc_check_one(const struct http_response *response, const struct rfc_response *expected)
{
    if (response->status != expected->status)
        fail_msg("expected status %d, got: %s", expected->status, response->head);
    for_each_part(response, expected->fields, '\n', check_field);
    for_each_part(response, expected->without, ' ', check_absent);
    if (expected->length != 0)
        assert_int_equal(response->body_length, expected->length);
    if (expected->body != NULL &&
        (response->body_length != strlen(expected->body) ||
         memcmp(response->body, expected->body, response->body_length) != 0))
        fail_msg("expected body '%s', got '%s'", expected->body, response->body);
    if (expected->like != NULL && fnmatch(expected->like, response->body, 0) != 0)
        fail_msg("expected a body like '%s', got '%s'", expected->like, response->body);
}
