#include "daemon/config/print.h"

#include "daemon/config/keys.h"
#include "daemon/config/reader.h"
#include "daemon/config/value.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { COMMENT_WIDTH = 96 };

/* Breaks only at a single blank, because the reader joins lines with one. */
static bool breakable(const char *text, size_t i)
{
    return text[i] == ' ' && i > 0 && !isspace((unsigned char)text[i - 1]) &&
           !isspace((unsigned char)text[i + 1]);
}

/* Where to break TEXT: at the last blank within WIDTH, else at the next one. */
static size_t fitting(const char *text, size_t width)
{
    size_t length = strlen(text), end = width;

    if (length <= width)
        return length;
    while (end > 0 && !breakable(text, end))
        end--;
    if (end > 0)
        return end;
    for (end = width; end < length && !breakable(text, end); end++)
        continue;
    return end;
}

/*
 * Prints TEXT in lines of at most WIDTH bytes; the first begins with FIRST, the others with REST.
 */
static void print_wrapped(FILE *out, const char *first, const char *rest, const char *text,
                          size_t width)
{
    const char *start = first;

    do {
        size_t end = fitting(text, width - strlen(start));

        fprintf(out, "%s%.*s\n", start, (int)end, text);
        text += end;
        text += *text == ' ';
        start = rest;
    } while (*text != '\0');
}

static void print_value(FILE *out, const char *name, const char *value)
{
    char *start;

    if (asprintf(&start, "%s = ", name) < 0)
        return;
    print_wrapped(out, start, "    ", value, CONFIG_LINE_MAX);
    free(start);
}

static void print_key(FILE *out, const struct config_key *key, const struct config *config)
{
    char *value = config_value_text(key, (const char *)config + key->offset);

    print_wrapped(out, "# ", "# ", key->help, COMMENT_WIDTH);
    if (value != NULL)
        print_value(out, key->name, value);
    free(value);
}

/* Prints the section line of the scope of line FIRST, if any, and all lines of that scope. */
static void print_scope(FILE *out, const struct config *config, size_t first)
{
    const char *scope = config->headers[first].scope;

    if (scope[0] != '\0')
        fprintf(out, "\n[headers %s]\n", scope);
    for (size_t i = first; i < config->header_count; i++)
        if (strcmp(config->headers[i].scope, scope) == 0)
            print_value(out, config->headers[i].name, config->headers[i].value);
}

static bool scope_is_new(const struct config *config, size_t i)
{
    for (size_t before = 0; before < i; before++)
        if (strcmp(config->headers[before].scope, config->headers[i].scope) == 0)
            return false;
    return true;
}

static void print_headers(FILE *out, const struct config *config)
{
    for (int narrow = 0; narrow <= 1; narrow++) /* [headers] itself first */
        for (size_t i = 0; i < config->header_count; i++)
            if ((config->headers[i].scope[0] != '\0') == narrow && scope_is_new(config, i))
                print_scope(out, config, i);
}

static void print_section(FILE *out, const struct config_section *section,
                          const struct config *config)
{
    fprintf(out, "# %s\n[%s]\n", section->help, section->name);
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(config_keys[i].section, section->name) == 0)
            print_key(out, &config_keys[i], config);
    if (strcmp(section->name, "headers") == 0)
        print_headers(out, config);
}

void config_print(const struct config *config, FILE *out)
{
    for (size_t i = 0; i < config_section_count; i++) {
        if (i > 0)
            fputc('\n', out);
        print_section(out, &config_sections[i], config);
    }
    for (size_t i = 0; i < config->mime_count; i++)
        print_value(out, config->mime_extensions[i], config->mime_types[i]);
}
