#include "loadgen/plan/import.h"

#include "common/macros.h"

#include "loadgen/plan/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void skip_mark(FILE *in)
{
    char mark[3];

    if (fread(mark, 1, sizeof(mark), in) != sizeof(mark) || memcmp(mark, "\xef\xbb\xbf", 3) != 0)
        rewind(in);
}

json_t *import_read(const char *file, const char *what, char *why, size_t size)
{
    FILE *in = fopen(file, "re");
    json_error_t error;
    json_t *document;

    if (in == NULL) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        return NULL;
    }
    skip_mark(in);
    document = json_loadf(in, JSON_ALLOW_NUL, &error);
    fclose(in);
    if (document == NULL)
        snprintf(why, size, "%s:%d: not %s: %s", file, error.line, what, error.text);
    return document;
}

const char *import_string(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

bool import_is_of_connection(const char *name)
{
    static const char *const names[] = {
        "Host",   "Content-Length",   "Transfer-Encoding",   "Connection", "Keep-Alive",
        "TE",     "Proxy-Connection", "Proxy-Authorization", "Upgrade",    "HTTP2-Settings",
        "Expect", "Trailer"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return name[0] == ':';
}

bool import_append_field(struct curl_slist **fields, const char *name, const char *value)
{
    char *line;
    bool good;

    if (asprintf(&line, "%s: %s", name, value) < 0)
        return false;
    good = string_list_append(fields, line);
    free(line);
    return good;
}

static bool has_content_type(const struct curl_slist *fields)
{
    for (; fields != NULL; fields = fields->next)
        if (strncasecmp(fields->data, "Content-Type:", strlen("Content-Type:")) == 0)
            return true;
    return false;
}

bool import_append_content_type(struct curl_slist **fields, const char *type)
{
    return type == NULL || type[0] == '\0' || !message_is_value(type) ||
           has_content_type(*fields) || import_append_field(fields, "Content-Type", type);
}
