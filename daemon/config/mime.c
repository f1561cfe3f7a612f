#include "daemon/config/mime.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char extension_bytes[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-~";

/* The index of EXTENSION among the pairs; mime_count if it is new. */
static size_t find_extension(const struct config *config, struct span extension)
{
    size_t i = 0;

    while (i < config->mime_count &&
           (strlen(config->mime_extensions[i]) != extension.length ||
            strncasecmp(config->mime_extensions[i], extension.start, extension.length) != 0))
        i++;
    return i;
}

static bool check_extension(struct config_report *report, const struct config_entry *entry)
{
    if (config_consists_of(entry->key, extension_bytes))
        return true;
    config_report_error(report, &entry->key_place,
                        "write the extension without the dot: html, not .html",
                        "'%.*s' is not a file name extension", CONFIG_QUOTED(entry->key));
    return false;
}

/* TYPE/SUBTYPE; parameters after a ';' are not checked. */
static bool check_type(struct config_report *report, const struct config_entry *entry)
{
    size_t length = strcspn(entry->value, ";"), slash = strcspn(entry->value, "/");
    struct span main_type = {entry->value, slash};
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    if (slash < length && config_is_token(main_type) &&
        config_is_token((struct span){entry->value + slash + 1, length - slash - 1}))
        return true;
    config_report_error(report, &place, "examples: text/plain, text/html; charset=utf-8",
                        "'%.*s' is not a media type",
                        CONFIG_QUOTED(((struct span){entry->value, strlen(entry->value)})));
    return false;
}

/* Makes room for one more pair. Returns 0 or -1; existing pairs are kept in both cases. */
static int grow(struct config *config, size_t **lines)
{
    size_t count = config->mime_count + 1;
    const char **extensions = realloc((void *)config->mime_extensions, count * sizeof(*extensions));
    const char **types = realloc((void *)config->mime_types, count * sizeof(*types));
    size_t *more = realloc(*lines, count * sizeof(**lines));

    if (extensions != NULL)
        config->mime_extensions = extensions;
    if (types != NULL)
        config->mime_types = types;
    if (more != NULL)
        *lines = more;
    return extensions != NULL && types != NULL && more != NULL ? 0 : -1;
}

/* Sets pair I, which may be new. */
static void store_pair(struct config *config, size_t **lines, const struct config_entry *entry,
                       size_t i, struct config_report *report)
{
    char *extension = strndup(entry->key.start, entry->key.length);
    char *type = strdup(entry->value);

    if (extension == NULL || type == NULL ||
        (i == config->mime_count && grow(config, lines) != 0)) {
        free(extension);
        free(type);
        config_report_error(report, &entry->key_place, "", "out of memory");
        return;
    }
    if (i < config->mime_count) {
        free((void *)config->mime_extensions[i]);
        free((void *)config->mime_types[i]);
    } else {
        config->mime_count++;
    }
    config->mime_extensions[i] = extension;
    config->mime_types[i] = type;
    (*lines)[i] = entry->key_place.line;
}

void config_mime_add(struct config *config, size_t **lines, const struct config_entry *entry,
                     struct config_report *report)
{
    size_t i = find_extension(config, entry->key);

    if (i < config->mime_count && (*lines)[i] > 0 && entry->key_place.line > 0)
        config_report_duplicate(report, entry, (*lines)[i]);
    else if (check_extension(report, entry) && config_entry_check(entry, report) == 0 &&
             check_type(report, entry))
        store_pair(config, lines, entry, i, report);
}
