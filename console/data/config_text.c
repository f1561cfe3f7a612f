#include "console/data/config_text.h"

#include <stdio.h>
#include <string.h>

/* Appends LENGTH bytes at FROM to TEXT, separated by a blank. */
static void append(char *text, size_t size, const char *from, size_t length)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%.*s", used > 0 && length > 0 ? " " : "", (int)length,
             from);
}

static void take_section(const char *line, size_t length, char *section)
{
    size_t name = length > 1 && line[length - 1] == ']' ? length - 2 : length - 1;

    snprintf(section, CONFIG_KEY_BYTES, "%.*s", (int)name, line + 1);
}

static void take_key(const char *line, size_t length, const char *section, struct config_line *into)
{
    const char *equals = memchr(line, '=', length);
    size_t name = equals != NULL ? (size_t)(equals - line) : length, from = name;

    while (name > 0 && line[name - 1] == ' ')
        name--;
    snprintf(into->key, sizeof(into->key), "%s.%.*s", section, (int)name, line);
    from += from < length;
    while (from < length && line[from] == ' ')
        from++;
    append(into->value, sizeof(into->value), line + from, length - from);
}

/* Appends continuation lines, which are indented, to the value. */
static const char *take_rest(const char *text, struct config_line *into)
{
    while (*text == ' ' || *text == '\t') {
        size_t blank = strspn(text, " \t"), length = strcspn(text, "\n");

        if (length > blank)
            append(into->value, sizeof(into->value), text + blank, length - blank);
        text += length + (text[length] == '\n');
    }
    return text;
}

bool config_text_next(const char **text, char *section, struct config_line *line)
{
    const char *at = *text;

    *line = (struct config_line){.key = ""};
    while (*at != '\0') {
        size_t length = strcspn(at, "\n"), blank = strspn(at, "# ");
        const char *start = at;

        at += length + (at[length] == '\n');
        if (*start == '#') {
            append(line->help, sizeof(line->help), start + blank,
                   length > blank ? length - blank : 0);
        } else if (*start == '[') {
            take_section(start, length, section);
            line->help[0] = '\0';
        } else if (length == 0) {
            line->help[0] = '\0';
        } else {
            take_key(start, length, section, line);
            *text = take_rest(at, line);
            return true;
        }
    }
    *text = at;
    return false;
}

bool config_text_value(const char *text, const char *key, char *value, size_t size)
{
    char section[CONFIG_KEY_BYTES] = "";
    struct config_line line;

    value[0] = '\0';
    while (config_text_next(&text, section, &line))
        if (strcmp(line.key, key) == 0) {
            snprintf(value, size, "%s", line.value);
            return true;
        }
    return false;
}
