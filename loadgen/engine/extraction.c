#include "loadgen/engine/extraction.h"

#include "common/macros.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *fail_extraction(const char *text, char *why, size_t size)
{
    snprintf(why, size, "%s", text);
    return NULL;
}

/* The value of the cookie KEY in VALUE, of a field Set-Cookie. */
static bool find_cookie(const char *key, struct span value, struct span *found)
{
    const char *end = memchr(value.start, ';', value.length), *equals;
    struct span pair = {value.start, end != NULL ? (size_t)(end - value.start) : value.length};
    struct span name;

    equals = memchr(pair.start, '=', pair.length);
    if (equals == NULL)
        return false;
    name = span_trim((struct span){pair.start, (size_t)(equals - pair.start)});
    *found = span_trim((struct span){equals + 1, (size_t)(pair.start + pair.length - equals) - 1});
    return span_is(name, (struct span){key, strlen(key)});
}

bool extraction_from_field(const struct scenario_take *take, struct span name, struct span value,
                           struct span *found)
{
    if (value.length == 0)
        value.start = "";
    *found = value;
    if (take->source == SCENARIO_COOKIE)
        return span_is_nocase(name, SPAN("Set-Cookie")) && find_cookie(take->key, value, found);
    return take->source == SCENARIO_FIELD &&
           span_is_nocase(name, (struct span){take->key, strlen(take->key)});
}

/* Reduces *found to the text between the delimiters. Returns false if they are not there. */
static bool find_between(const struct scenario_take *take, struct span *found)
{
    const char *end = found->start + found->length, *begin, *after;

    if (take->before == NULL)
        return true;
    begin = found->length > 0
                ? memmem(found->start, found->length, take->before, strlen(take->before))
            : take->before[0] == '\0' ? found->start
                                      : NULL;
    if (begin == NULL)
        return false;
    begin += strlen(take->before);
    after = take->after[0] != '\0'
                ? memmem(begin, (size_t)(end - begin), take->after, strlen(take->after))
                : end;
    if (after == NULL)
        return false;
    *found = (struct span){begin, (size_t)(after - begin)};
    return true;
}

/*
 * Reduces *found to what the group of the expression matches, in the first line with a match.
 * Searches only the begin of each line and of the whole text. Returns NULL or the reason.
 */
static const char *find_match(const struct scenario_take *take, struct span *found)
{
    size_t left =
        found->length < SCENARIO_MATCH_TEXT_BYTES ? found->length : SCENARIO_MATCH_TEXT_BYTES;
    const char *line = found->start;
    char text[SCENARIO_MATCH_LINE_BYTES + 1]; /* one line: bodies have no NUL at their end */

    while (true) {
        const char *newline = memchr(line, '\n', left);
        size_t length = newline != NULL ? (size_t)(newline - line) : left;
        size_t end = length > 0 && line[length - 1] == '\r' ? length - 1 : length;
        size_t searched = end < SCENARIO_MATCH_LINE_BYTES ? end : SCENARIO_MATCH_LINE_BYTES;
        bool cut = searched < end || (newline == NULL && found->length > SCENARIO_MATCH_TEXT_BYTES);
        regmatch_t match[2] = {{.rm_so = 0, .rm_eo = (regoff_t)searched}};
        int result;

        memcpy(text, line, searched);
        text[searched] = '\0';
        result = regexec(&take->matcher, text, ARRAY_LENGTH(match), match,
                         REG_STARTEND | (cut ? REG_NOTEOL : 0));

        if (result != 0 && result != REG_NOMATCH)
            return "out of memory for";
        if (result == 0 && match[1].rm_so >= 0) {
            *found =
                (struct span){line + match[1].rm_so, (size_t)(match[1].rm_eo - match[1].rm_so)};
            return NULL;
        }
        if (newline == NULL)
            return "no line matches";
        line = newline + 1;
        left -= length + 1;
    }
}

char *extraction_value(const struct scenario_take *take, struct span found, char *why, size_t size)
{
    const char *reason;
    char *value;

    if (!find_between(take, &found)) {
        snprintf(why, size, "no text between \"%s\" and \"%s\"", take->before, take->after);
        return NULL;
    }
    reason = take->expression != NULL ? find_match(take, &found) : NULL;
    if (reason != NULL) {
        snprintf(why, size, "%s \"%s\"", reason, take->expression);
        return NULL;
    }
    if (found.length > SCENARIO_VALUE_MAX) {
        snprintf(why, size, "value of %zu bytes, more than %d", found.length, SCENARIO_VALUE_MAX);
        return NULL;
    }
    if (memchr(found.start, '\0', found.length) != NULL)
        return fail_extraction("NUL byte in the value", why, size);
    value = strndup(found.start, found.length);
    return value != NULL ? value : fail_extraction("out of memory", why, size);
}

/* The member of VALUE at PATH, such as "items.0.id"; NULL: there is none. */
static const json_t *find_member(const json_t *value, const char *path)
{
    while (value != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        char name[256];

        if (length >= sizeof(name))
            return NULL;
        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        if (json_is_array(value))
            value = name[strspn(name, "0123456789")] == '\0' && length < 10
                        ? json_array_get(value, strtoul(name, NULL, 10))
                        : NULL;
        else
            value = json_object_get(value, name);
        path += length + (path[length] == '.');
    }
    return value;
}

/* The text of a string, number, true or false; to be freed. NULL with WHY. */
static char *text_of_span(const json_t *member, const char *path, char *why, size_t size)
{
    char *text = NULL;

    if (json_is_string(member))
        text = strdup(json_string_value(member));
    else if (json_is_number(member) || json_is_boolean(member))
        text = json_dumps(member, JSON_ENCODE_ANY);
    else {
        snprintf(why, size,
                 member == NULL ? "no JSON member '%s' in the body"
                                : "the JSON member '%s' is not a string, number, true or false",
                 path);
        return NULL;
    }
    return text != NULL ? text : fail_extraction("out of memory", why, size);
}

char *extraction_from_body(const struct scenario_take *take, struct span body, char *why,
                           size_t size)
{
    char *text, *value;
    json_error_t error;
    json_t *document;

    if (body.length == 0)
        body.start = "";
    if (take->source == SCENARIO_BODY)
        return extraction_value(take, body, why, size);
    document = json_loadb(body.start, body.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (document == NULL)
        return fail_extraction("the body is not JSON", why, size);
    text = text_of_span(find_member(document, take->key), take->key, why, size);
    json_decref(document);
    if (text == NULL)
        return NULL;
    value = extraction_value(take, (struct span){text, strlen(text)}, why, size);
    free(text);
    return value;
}
