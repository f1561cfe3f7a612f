/* An open-addressing hash table of endings, at most half full; a later entry replaces an earlier.
 */
#include "daemon/http/mime.h"

#include "common/macros.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct mime_entry {
    const char *ending; /* NULL: free */
    size_t length;
    const char *type;
};

struct mime_table {
    size_t mask;    /* entries - 1; their number is a power of two */
    size_t longest; /* ending */
    struct mime_entry entry[];
};

static const struct {
    const char *ending, *type;
} built_in[] = {
#define MIME(ending, type) {ending, type},
#include "common/mime.def"
#undef MIME
};

/* FNV-1a (Fowler, Noll, Vo) over small letters. */
static uint32_t hash_ending(const char *ending, size_t length)
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)ending[i];

        hash = (hash ^ (byte >= 'A' && byte <= 'Z' ? byte | 0x20u : byte)) * UINT32_C(16777619);
    }
    return hash;
}

/* Where ENDING is, or the free entry where it belongs. */
static const struct mime_entry *find_entry(const struct mime_table *table, const char *ending,
                                           size_t length)
{
    size_t i = hash_ending(ending, length) & table->mask;

    while (table->entry[i].ending != NULL &&
           (table->entry[i].length != length ||
            strncasecmp(table->entry[i].ending, ending, length) != 0))
        i = (i + 1) & table->mask;
    return &table->entry[i];
}

static void put_entry(struct mime_table *table, const char *ending, const char *type)
{
    size_t length = strlen(ending);
    struct mime_entry *entry = &table->entry[find_entry(table, ending, length) - table->entry];

    *entry = (struct mime_entry){ending, length, type};
    if (length > table->longest)
        table->longest = length;
}

struct mime_table *mime_table_new(const char *const *endings, const char *const *types,
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
        put_entry(table, built_in[i].ending, built_in[i].type);
    for (size_t i = 0; i < count; i++)
        put_entry(table, endings[i], types[i]);
    return table;
}

void mime_table_free(struct mime_table *table)
{
    free(table);
}

/*
 * What stands behind the last dot of the last segment. A dot that begins the segment makes a hidden
 * name, not an ending: ".profile", ".html". NULL: there is none.
 */
static const char *find_ending(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot != NULL && dot != name && dot[1] != '\0' ? dot + 1 : NULL;
}

const char *mime_type(const struct mime_table *table, const char *path)
{
    static const char unknown[] = "application/octet-stream";
    const char *ending = find_ending(path);
    const char *type;
    size_t length;

    if (ending == NULL)
        return unknown;
    length = strlen(ending);
    if (length > table->longest)
        return unknown;
    type = find_entry(table, ending, length)->type;
    return type != NULL ? type : unknown;
}
