#include "daemon/config/changes.h"

#include "daemon/base/memstream.h"
#include "daemon/config/keys.h"
#include "daemon/config/print.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A part of a printed configuration. */
struct section {
    const char *title, *lines;
    size_t title_length, length;
};

/* NULL: out of memory. */
static char *print(const struct config *config)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return NULL;
    config_print(config, memory);
    if (memstream_close(memory, &text) == 0)
        return text;
    free(text);
    return NULL;
}

/* Ends before the comment of the next section. */
static size_t lines_length(const char *lines)
{
    const char *end = lines;

    while (*end != '\0' && *end != '[' && strncmp(end, "\n#", 2) != 0) {
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    while (end > lines && end[-1] == '\n')
        end--;
    return (size_t)(end - lines);
}

/* The first section at or after AT. */
static bool next_section(const char *at, struct section *section)
{
    const char *title = *at == '[' ? at : strstr(at, "\n[");

    if (title == NULL)
        return false;
    section->title = title + (*title == '\n');
    section->title_length = strcspn(section->title, "\n");
    section->lines = section->title + section->title_length;
    section->lines += *section->lines == '\n';
    section->length = lines_length(section->lines);
    return true;
}

static bool same_title(const struct section *one, const struct section *other)
{
    return one->title_length == other->title_length &&
           memcmp(one->title, other->title, one->title_length) == 0;
}

static bool same_lines(const struct section *one, const struct section *other)
{
    return one->length == other->length && memcmp(one->lines, other->lines, one->length) == 0;
}

static bool find(const char *text, const struct section *wanted, struct section *section)
{
    for (bool more = next_section(text, section); more;
         more = next_section(section->lines, section))
        if (same_title(section, wanted))
            return true;
    return false;
}

static bool has_keys(const struct section *section)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *name = config_keys[i].section;

        if (section->title_length == strlen(name) + 2 &&
            memcmp(section->title + 1, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

int config_changed_sections(const struct config *before, const struct config *after,
                            void (*found)(void *owner, const char *title, size_t length),
                            void *owner)
{
    char *old = print(before), *new = print(after);
    struct section one, other;
    bool more;
    int result = old != NULL && new != NULL ? 0 : -1;

    for (more = result == 0 && next_section(new, &one); more; more = next_section(one.lines, &one))
        if (!has_keys(&one) &&
            (find(old, &one, &other) ? !same_lines(&one, &other) : one.length > 0))
            found(owner, one.title, one.title_length);
    for (more = result == 0 && next_section(old, &one); more; more = next_section(one.lines, &one))
        if (!has_keys(&one) && one.length > 0 && !find(new, &one, &other))
            found(owner, one.title, one.title_length);
    free(old);
    free(new);
    return result;
}
