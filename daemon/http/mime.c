/*
 * An open-addressing hash table of extensions, at most half full; later entries replace earlier
 * ones.
 */
#include "daemon/http/mime.h"

#include "common/macros.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct mime_entry {
    const char *extension; /* NULL: free */
    size_t length;
    const char *type;
};

struct mime_table {
    size_t mask;    /* entries - 1; their number is a power of two */
    size_t longest; /* extension */
    const char *unknown;
    struct mime_entry entry[];
};

static const struct {
    const char *extension, *type;
} built_in[] = {
#define MIME(extension, type) {extension, type},
#include "common/mime.def"
#undef MIME
};

/* FNV-1a (Fowler, Noll, Vo) of the extension in lower case. */
static uint32_t hash_extension(const char *extension, size_t length)
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)extension[i];

        hash = (hash ^ (byte >= 'A' && byte <= 'Z' ? byte | 0x20u : byte)) * UINT32_C(16777619);
    }
    return hash;
}

/* The entry of EXTENSION, or the free one where it belongs. */
static const struct mime_entry *find_mime_entry(const struct mime_table *table,
                                                const char *extension, size_t length)
{
    size_t i = hash_extension(extension, length) & table->mask;

    while (table->entry[i].extension != NULL &&
           (table->entry[i].length != length ||
            strncasecmp(table->entry[i].extension, extension, length) != 0))
        i = (i + 1) & table->mask;
    return &table->entry[i];
}

static void put_entry(struct mime_table *table, const char *extension, const char *type)
{
    size_t length = strlen(extension);
    struct mime_entry *entry =
        &table->entry[find_mime_entry(table, extension, length) - table->entry];

    *entry = (struct mime_entry){extension, length, type};
    if (length > table->longest)
        table->longest = length;
}

struct mime_table *mime_table_new(const char *const *extensions, const char *const *types,
                                  size_t count)
{
    struct mime_table *table;
    size_t size = 64;

    while (size < 2 * (count + ARRAY_LENGTH(built_in)))
        size *= 2;
    table = calloc(1, sizeof(*table) + size * sizeof(table->entry[0]));
    if (table == NULL)
        return NULL;
    table->mask = size - 1;
    for (size_t i = 0; i < ARRAY_LENGTH(built_in); i++)
        put_entry(table, built_in[i].extension, built_in[i].type);
    for (size_t i = 0; i < count; i++)
        put_entry(table, extensions[i], types[i]);
    table->unknown = find_mime_entry(table, "default", strlen("default"))->type;
    return table;
}

void mime_table_free(struct mime_table *table)
{
    free(table);
}

/*
 * The text after the last dot of the last component, or NULL. A dot at the start of a name does not
 * begin an extension: ".profile" has none.
 */
static const char *find_mime_extension(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot != NULL && dot != name && dot[1] != '\0' ? dot + 1 : NULL;
}

const char *mime_type(const struct mime_table *table, const char *path)
{
    const char *extension = find_mime_extension(path);
    const char *type;
    size_t length;

    if (extension == NULL)
        return table->unknown;
    length = strlen(extension);
    if (length > table->longest)
        return table->unknown;
    type = find_mime_entry(table, extension, length)->type;
    return type != NULL ? type : table->unknown;
}
