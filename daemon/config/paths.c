#include "daemon/config/internal.h"

#include "daemon/base/hash.h"
#include "daemon/http/target.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODED_MAX = TARGET_PATH_MAX + 3 };

/* Reading and printing */

/* Removes the quotes around TEXT. False: one is missing, or a blank is not between them. */
static bool unquote_path(struct span *text)
{
    if (text->length == 0 || text->start[0] != '"')
        return text->length == 0 || memchr(text->start, ' ', text->length) == NULL;
    if (text->length < 2 || text->start[text->length - 1] != '"')
        return false;
    *text = (struct span){text->start + 1, text->length - 2};
    return text->length == 0 || memchr(text->start, '"', text->length) == NULL;
}

/* TEXT with its blanks percent-encoded, in BUFFER; empty: it is too long for a path. */
static struct span encode_blanks(struct span text, char buffer[ENCODED_MAX])
{
    size_t length = 0;

    for (size_t i = 0; i < text.length; i++) {
        if (length >= TARGET_PATH_MAX)
            return (struct span){buffer, 0};
        if (text.start[i] == ' ')
            length = (size_t)(stpcpy(buffer + length, "%20") - buffer);
        else
            buffer[length++] = text.start[i];
    }
    return (struct span){buffer, length};
}

const char *config_path_read(struct span text, struct config_path *path)
{
    char buffer[ENCODED_MAX];
    struct target target;

    if (!unquote_path(&text))
        return "write a path with blanks in double quotes";
    if (text.length == 0 || text.start[0] != '/')
        return "a path begins with '/'";
    path->below = text.length >= 2 && memcmp(text.start + text.length - 2, "/*", 2) == 0;
    text.length -= path->below;
    if (memchr(text.start, '*', text.length) != NULL)
        return "only the last segment of a path can be '*'; write %2A for the character";
    if (memchr(text.start, '?', text.length) != NULL)
        return "a path has no query; write %3F for the character";
    if (target_canonical(encode_blanks(text, buffer), &target) != 0)
        return "no request can have this path";
    memcpy(path->text, target.path, target.length + 1);
    path->length = target.length;
    return NULL;
}

void config_path_print(const char *path, FILE *out)
{
    for (; *path != '\0'; path++)
        if (isalnum((unsigned char)*path) || strchr("/-._~!$&'()+,@", *path) != NULL)
            fputc(*path, out);
        else
            fprintf(out, "%%%02X", (unsigned char)*path);
}

/* The index */

/* The rules with one path: for all requests, and for those without TLS. */
struct path_place {
    uint64_t hash;
    const char *path; /* NULL: an empty place */
    size_t length;
    uint32_t host;
    bool below;
    size_t rule[2]; /* PATH_INDEX_NONE: none */
};

/* A hash table with open addressing, at most half full. */
struct path_index {
    enum path_order order;
    size_t mask;
    struct path_place place[];
};

static const uint64_t first_hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

static uint64_t hash_next(uint64_t hash, char byte)
{
    return (hash ^ (unsigned char)byte) * UINT64_C(0x100000001b3);
}

/* HASH is that of the bytes of the path. */
static uint64_t hash_of_key(uint64_t hash, uint32_t host, bool below)
{
    return hash_mix(hash ^ host, UINT64_C(0x9e3779b97f4a7c15) + below);
}

struct path_index *path_index_new(size_t paths, enum path_order order)
{
    size_t places = 4;
    struct path_index *index;

    while (places < 2 * paths)
        places *= 2;
    index = calloc(1, sizeof(*index) + places * sizeof(struct path_place));
    if (index != NULL)
        *index = (struct path_index){order, places - 1};
    return index;
}

/* The place of PATH, or an empty one for it. HASH is that of the key. */
static const struct path_place *find_path_place(const struct path_index *index, uint64_t hash,
                                                uint32_t host, struct span path, bool below)
{
    const struct path_place *place;
    size_t i = hash & index->mask;

    for (; (place = &index->place[i])->path != NULL; i = (i + 1) & index->mask)
        if (place->hash == hash && place->host == host && place->below == below &&
            span_is(path, (struct span){place->path, place->length}))
            break;
    return place;
}

void path_index_add(struct path_index *index, uint32_t host, struct span path, bool below,
                    bool plain, size_t rule)
{
    uint64_t hash_of_path = first_hash;

    for (size_t i = 0; i < path.length; i++)
        hash_of_path = hash_next(hash_of_path, path.start[i]);
    for (int part = false; part <= below; part++) { /* the path itself, then those below it */
        uint64_t hash = hash_of_key(hash_of_path, host, part);
        struct path_place *place =
            (struct path_place *)find_path_place(index, hash, host, path, part);

        if (place->path == NULL)
            *place = (struct path_place){hash, path.start, path.length,
                                         host, part,       {PATH_INDEX_NONE, PATH_INDEX_NONE}};
        if (place->rule[plain] == PATH_INDEX_NONE)
            place->rule[plain] = rule;
    }
}

/* FOUND, or a rule of PLACE that comes before it. */
static size_t first_rule(const struct path_index *index, const struct path_place *place,
                         bool secure, size_t found)
{
    if (place->path == NULL)
        return found;
    if (index->order == PATH_LONGEST_FIRST)
        return place->rule[0];
    if (place->rule[0] < found)
        found = place->rule[0];
    return !secure && place->rule[1] < found ? place->rule[1] : found;
}

size_t path_index_find_in(const struct path_index *index, uint32_t host, struct span path,
                          bool below, bool secure)
{
    size_t found = PATH_INDEX_NONE;
    uint64_t hash = first_hash;
    const struct path_place *place;

    for (size_t i = 0; i < path.length; i++) {
        if (path.start[i] == '/') {
            place = find_path_place(index, hash_of_key(hash, host, true), host,
                                    (struct span){path.start, i}, true);
            found = first_rule(index, place, secure, found);
        }
        hash = hash_next(hash, path.start[i]);
    }
    place = find_path_place(index, hash_of_key(hash, host, below), host, path, below);
    return first_rule(index, place, secure, found);
}

size_t path_index_find(const struct path_index *index, uint32_t host, const char *path, bool secure)
{
    struct span all = span_of(path);
    size_t rule = PATH_INDEX_NONE;

    if (index == NULL)
        return PATH_INDEX_NONE;
    if (host != 0)
        rule = path_index_find_in(index, host, all, false, secure);
    return rule != PATH_INDEX_NONE ? rule : path_index_find_in(index, 0, all, false, secure);
}

void path_index_free(struct path_index *index)
{
    free(index);
}

/* Scopes of sections */

int config_scope_read(struct config_scope *scope, struct span argument)
{
    struct config_path path = {.length = 0};
    struct span host = SPAN("");

    if (argument.length > 0)
        config_argument_cut_host(&argument, &host);
    if (argument.length > 0)
        config_path_read(argument, &path); /* the reader has checked it */
    if (path.length > 0 && path.text[path.length - 1] == '/')
        path.text[--path.length] = '\0';
    *scope =
        (struct config_scope){strndup(host.start, host.length), strndup(path.text, path.length),
                              hash_bytes(path.text, path.length, 0)};
    if (scope->host != NULL && scope->prefix != NULL)
        return 0;
    config_scope_free(scope);
    return -1;
}

static struct path_index *index_scopes(const struct config *config, const void *sections,
                                       size_t count, size_t size)
{
    struct path_index *index = path_index_new(2 * count, PATH_LONGEST_FIRST);

    for (size_t i = 0; index != NULL && i < count; i++) {
        const struct config_scope *scope = (const void *)((const char *)sections + i * size);
        uint32_t host = config_host_number(config, scope->host);
        struct span path = span_of(scope->prefix);

        path_index_add(index, host, path, true, false, i);
    }
    return index;
}

void config_scope_free(struct config_scope *scope)
{
    free(scope->host);
    free(scope->prefix);
    *scope = (struct config_scope){.host = NULL};
}

bool config_scopes_equal(const struct config_scope *scope, const struct config_scope *other)
{
    return scope->hash == other->hash && strcmp(scope->prefix, other->prefix) == 0 &&
           strcasecmp(scope->host, other->host) == 0;
}

void config_scope_print(const struct config_scope *scope, const char *section, FILE *out)
{
    fprintf(out, "\n[%s%s%s%s", section, scope->host[0] != '\0' ? " host " : "", scope->host,
            scope->prefix[0] != '\0' ? " " : "");
    config_path_print(scope->prefix, out);
    fputs("]\n", out);
}

int config_paths_index(struct config *config)
{
    config->access_index =
        index_scopes(config, config->access, config->access_count, sizeof(*config->access));
    config->cors_index =
        index_scopes(config, config->cors, config->cors_count, sizeof(*config->cors));
    config->redirect_index = config_redirects_index(config);
    return config->access_index != NULL && config->cors_index != NULL &&
                   config->redirect_index != NULL
               ? 0
               : -1;
}
