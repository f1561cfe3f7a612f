/* [mime]: any ending, and the media type of files whose name ends so. */
#include "daemon/config/check.h"

#include "daemon/config/value.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What media types are made of (RFC 9110 section 5.6.2). */
static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "!#$%&'*+-.^_`|~";
static const char ending_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-~";

static bool made_of(struct span text, const char *letters)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.start[i] == '\0' || strchr(letters, text.start[i]) == NULL)
            return false;
    return text.length > 0;
}

/* The place of ENDING among the pairs, or their number. */
static size_t find_ending(const struct config *config, struct span ending)
{
    size_t i = 0;

    while (i < config->mime_count &&
           (strlen(config->mime_endings[i]) != ending.length ||
            strncasecmp(config->mime_endings[i], ending.start, ending.length) != 0))
        i++;
    return i;
}

static bool check_ending(struct config_draft *draft, const struct config_entry *entry)
{
    if (made_of(entry->key, ending_letters))
        return true;
    config_report_error(&draft->report, &entry->key_place,
                        "write what follows the last dot of a file name: html, not .html",
                        "'%.*s' is not the ending of a file name", CONFIG_QUOTED(entry->key));
    return false;
}

/* TYPE/SUBTYPE, and parameters behind a ';' that are taken as they are. */
static bool check_type(struct config_draft *draft, const struct config_entry *entry)
{
    size_t length = strcspn(entry->value, ";"), slash = strcspn(entry->value, "/");
    struct span main_type = {entry->value, slash};
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    if (slash < length && made_of(main_type, token) &&
        made_of((struct span){entry->value + slash + 1, length - slash - 1}, token))
        return true;
    config_report_error(&draft->report, &place,
                        "write it as text/plain, or text/html; charset=utf-8",
                        "'%.*s' is not a media type",
                        CONFIG_QUOTED(((struct span){entry->value, strlen(entry->value)})));
    return false;
}

/* Makes room for one more pair. Returns 0 or -1; what there was stays in either case. */
static int grow(struct config_draft *draft)
{
    struct config *config = draft->config;
    size_t count = config->mime_count + 1;
    const char **endings = realloc((void *)config->mime_endings, count * sizeof(*endings));
    const char **types;
    size_t *lines;

    if (endings != NULL)
        config->mime_endings = endings;
    types = realloc((void *)config->mime_types, count * sizeof(*types));
    if (types != NULL)
        config->mime_types = types;
    lines = realloc(draft->mime_lines, count * sizeof(*lines));
    if (lines != NULL)
        draft->mime_lines = lines;
    return endings != NULL && types != NULL && lines != NULL ? 0 : -1;
}

/* Sets pair number I, which may be the first free one. Owns ENDING and TYPE from now on. */
static void set_pair(struct config_draft *draft, size_t i, char *ending, char *type, size_t line)
{
    struct config *config = draft->config;

    if (i < config->mime_count) {
        free((void *)config->mime_endings[i]);
        free((void *)config->mime_types[i]);
    } else {
        config->mime_count++;
    }
    config->mime_endings[i] = ending;
    config->mime_types[i] = type;
    draft->mime_lines[i] = line;
}

static void keep_pair(struct config_draft *draft, const struct config_entry *entry, size_t i)
{
    char *ending = strndup(entry->key.start, entry->key.length);
    char *type = strdup(entry->value);

    if (ending != NULL && type != NULL && (i < draft->config->mime_count || grow(draft) == 0)) {
        set_pair(draft, i, ending, type, entry->key_place.line);
        return;
    }
    free(ending);
    free(type);
    config_report_error(&draft->report, &entry->key_place, "", "out of memory");
}

void config_mime_take(struct config_draft *draft, const struct config_entry *entry)
{
    size_t i = find_ending(draft->config, entry->key);

    if (i < draft->config->mime_count && draft->mime_lines[i] > 0 && entry->key_place.line > 0) {
        config_report_error(&draft->report, &entry->key_place, "keep one of the two lines",
                            "'%.*s' is already set in line %zu", CONFIG_QUOTED(entry->key),
                            draft->mime_lines[i]);
        return;
    }
    if (check_ending(draft, entry) && config_entry_check(entry, &draft->report) == 0 &&
        check_type(draft, entry))
        keep_pair(draft, entry, i);
}
