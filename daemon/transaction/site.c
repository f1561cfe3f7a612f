#include "daemon/transaction/site.h"

#include "common/log_record.h"
#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/base/hash.h"
#include "daemon/config/hosts.h"
#include "daemon/config/load.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 255 }; /* a longer host is not the name of a site */

/* Opening */

static_assert((int)FILES_LINKS_INSIDE == SYMLINKS_INSIDE &&
                  (int)FILES_LINKS_FOLLOW == SYMLINKS_FOLLOW,
              "values of [files] symlinks equal enum files_links");

/* Link roots are real paths, because the kernel reports the real paths of the files below them. */
static int open_site_link_roots(struct files_root *root, const struct config *config)
{
    const struct config_words *into = &config->files_follow_into;
    const char **link_root = into->count > 0 ? calloc(into->count, sizeof(*link_root)) : NULL;

    root->link_root = link_root;
    for (size_t i = 0; link_root != NULL && i < into->count; i++) {
        link_root[i] = realpath(into->item[i], NULL);
        if (link_root[i] == NULL)
            return -1;
        root->link_root_count++;
    }
    return link_root == NULL && into->count > 0 ? -1 : 0;
}

static int open_root(const char *path, const int *held, size_t i)
{
    return held != NULL ? held[i] : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The first site's root, and what all roots share. */
static int open_first(struct site *site, const int *held)
{
    site->root.links = (enum files_links)site->config->files_symlinks;
    if (open_site_link_roots(&site->root, site->config) != 0)
        return -1;
    site->root.fd = open_root(site->config->server_root, held, 0);
    site->root.descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return site->root.fd >= 0 && site->root.descriptors >= 0 ? 0 : -1;
}

/* All but the directory itself is the same for all sites. */
static int open_other(struct site *site, const struct site *first, const int *held)
{
    site->root = first->root;
    site->shares_root = strcmp(site->own->root, site->config->server_root) == 0;
    if (!site->shares_root)
        site->root.fd = open_root(site->own->root, held, site->number);
    return site->root.fd >= 0 ? 0 : -1;
}

int sites_open(struct sites *sites, const struct config *config, const int *held)
{
    struct site *site = calloc(config->host_count + 1, sizeof(*site));

    *sites = (struct sites){.site = site, .fallback = site};
    if (site == NULL)
        return -1;
    for (size_t i = 0; i <= config->host_count; i++) {
        site[i] = (struct site){.number = (uint32_t)i,
                                .config = config,
                                .own = i > 0 ? &config->hosts[i - 1] : NULL,
                                .root = {.fd = -1, .descriptors = -1}};
        sites->count++;
        if ((i == 0 ? open_first(site, held) : open_other(&site[i], site, held)) != 0)
            return -1;
    }
    return 0;
}

void sites_warn_of_roots(const struct sites *sites)
{
    for (uint32_t i = 0; i < sites->count; i++) {
        const struct site *site = &sites->site[i];
        struct stat status;

        if (site->shares_root || fstatat(site->root.fd, ".", &status, 0) == 0 || errno != EACCES)
            continue;
        event_log(LEVEL_WARN,
                  "the workers run as user %u, who may not enter %s: its files are answered 403 "
                  "(chmod o+rx, or set server.user)",
                  (unsigned int)geteuid(),
                  site->own != NULL ? site->own->root : site->config->server_root);
    }
}

/* Names */

struct site_name {
    uint64_t hash;
    struct span text; /* a wildcard begins with its dot; start NULL: an empty place */
    const struct site *site;
};

/* A table with open addressing, at most half full. */
struct site_names {
    uint64_t seed;
    size_t mask;
    bool wildcards; /* there are some */
    struct site_name place[];
};

static struct site_name *site_name_place(struct site_names *names, struct span text)
{
    uint64_t hash = hash_bytes(text.start, text.length, names->seed);
    size_t i = hash & names->mask;

    while (names->place[i].text.start != NULL &&
           (names->place[i].hash != hash || !span_is(names->place[i].text, text)))
        i = (i + 1) & names->mask;
    names->place[i].hash = hash;
    return &names->place[i];
}

static const struct site *look_up_site_name(const struct site_names *names, struct span text)
{
    uint64_t hash = hash_bytes(text.start, text.length, names->seed);

    for (size_t i = hash & names->mask; names->place[i].text.start != NULL;
         i = (i + 1) & names->mask)
        if (names->place[i].hash == hash && span_is(names->place[i].text, text))
            return names->place[i].site;
    return NULL;
}

static void add_site_names(struct site_names *names, const struct site *site)
{
    for (size_t i = 0; i < site->own->name_count; i++) {
        const char *name = site->own->names[i];
        struct span text = span_of(name);
        struct site_name *place;

        if (name[0] == '*') {
            names->wildcards = true;
            text = (struct span){name + 1, text.length - 1};
        }
        place = site_name_place(names, text);
        place->text = text;
        place->site = site;
    }
}

static int make_names(struct sites *sites)
{
    const struct config *config = sites->site[0].config;
    size_t count = 0, places = 16;

    for (size_t i = 0; i < config->host_count; i++)
        count += config->hosts[i].name_count;
    while (places < 2 * count)
        places *= 2;
    if (count == 0)
        return 0;
    sites->names = calloc(1, sizeof(*sites->names) + places * sizeof(struct site_name));
    if (sites->names == NULL ||
        getrandom(&sites->names->seed, sizeof(sites->names->seed), 0) != sizeof(sites->names->seed))
        return -1;
    sites->names->mask = places - 1;
    for (uint32_t i = 1; i < sites->count; i++) {
        add_site_names(sites->names, &sites->site[i]);
        if (strcasecmp(config->server_default_host, config->hosts[i - 1].names[0]) == 0)
            sites->fallback = &sites->site[i];
    }
    return 0;
}

/* Filling */

static int make_hsts(struct site *site, const char *value)
{
    char *line;
    int length;

    if (value[0] == '\0')
        return 0;
    length = asprintf(&line, "Strict-Transport-Security: %s\r\n", value);
    if (length < 0)
        return -1;
    site->hsts = (struct span){line, (size_t)length};
    return 0;
}

/* The codings whose extension is in [files] coded_names. */
static void set_coded_names(struct site *site)
{
    const struct config_words *names = &site->config->files_coded_names;

    for (size_t i = 0; i < names->count; i++)
        for (int coding = CODING_IDENTITY + 1; coding < CODING_COUNT; coding++)
            if (strcmp(names->item[i], coding_extensions[coding].start + 1) == 0)
                site->source.coded_names[coding] = true;
}

static void fill_source(struct site *site, const struct mime_table *mime)
{
    const struct config *config = site->config;

    site->source = (struct resource_source){
        .site = site->number,
        .headers = &site->headers,
        .memory_limit = config->cache_max_object,
        .copy_limit = config->cache_max_copy < config->cache_max_object ? config->cache_max_copy
                                                                        : config->cache_max_object,
        .precompressed = (enum config_precompressed)config->cache_precompressed,
        .mime = mime,
        .root = &site->root,
    };
    if (config->cache_compress && config->cache_enabled)
        site->source.levels =
            (struct compression_levels){{[CODING_GZIP] = (uint8_t)config->cache_gzip_level,
                                         [CODING_ZSTD] = (uint8_t)config->cache_zstd_level,
                                         [CODING_BR] = (uint8_t)config->cache_brotli_level}};
    set_coded_names(site);
}

static int fill_site(struct site *site, const struct mime_table *mime)
{
    const struct config *config = site->config;
    const struct config_host *own = site->own;

    site->index = own != NULL ? own->index : config->server_index;
    site->extensions = own != NULL ? own->extensions : config->files_extensions;
    site->fallback = own != NULL ? own->fallback : config->files_fallback;
    site->error_pages = own != NULL ? own->error_pages : config->files_error_pages;
    site->autoindex = own != NULL ? own->autoindex : config->files_autoindex;
    site->logged = config_host_is_logged(config, own);
    site->coding_logged = config_logs_field(config, "coding");
    site->id_logged = config_logs_field(config, "request_id");
    site->host_logged = config->log_format == LOG_FORMAT_JSON &&
                        (own == NULL || own->name_count > 1 || own->names[0][0] == '*');
    fill_source(site, mime);
    return header_rules_of_host(config, own, &site->headers) == 0
               ? make_hsts(site, own != NULL ? own->hsts : config->tls_hsts)
               : -1;
}

int sites_fill(struct sites *sites, const struct mime_table *mime)
{
    for (uint32_t i = 0; i < sites->count; i++)
        if (fill_site(&sites->site[i], mime) != 0)
            return -1;
    return make_names(sites);
}

/* Closing */

void sites_close(struct sites *sites)
{
    const struct files_root *shared;

    if (sites->site == NULL)
        return;
    shared = &sites->site[0].root;
    for (size_t i = 0; i < shared->link_root_count; i++)
        free((void *)shared->link_root[i]);
    free((void *)shared->link_root);
    if (shared->descriptors >= 0)
        close(shared->descriptors);
    for (uint32_t i = 0; i < sites->count; i++) {
        struct site *site = &sites->site[i];

        if (!site->shares_root && site->root.fd >= 0)
            close(site->root.fd);
        free((void *)site->headers.rule);
        free((void *)(uintptr_t)site->hsts.start);
    }
    free(sites->names);
    free(sites->site);
    *sites = (struct sites){.count = 0};
}

/* Finding */

struct span site_host_name(struct span host)
{
    const char *end = host.length == 0 ? NULL : memrchr(host.start, ':', host.length);

    if (end != NULL && memchr(end, ']', host.length - (size_t)(end - host.start)) == NULL)
        host.length = (size_t)(end - host.start); /* a colon before ']' is part of an address */
    if (host.length > 1 && host.start[host.length - 1] == '.')
        host.length--;
    return host;
}

/* The site of the longest wildcard that covers NAME, in lower case. */
static const struct site *find_wildcard(const struct site_names *names, struct span name)
{
    const struct site *site = NULL;
    size_t dot = 1; /* the star matches at least one byte */

    for (; site == NULL && dot < name.length; dot++)
        if (name.start[dot] == '.')
            site = look_up_site_name(names, (struct span){name.start + dot, name.length - dot});
    return site;
}

static const struct site *find_site_by_name(const struct sites *sites, struct span host)
{
    char lower[NAME_MAX_BYTES];
    const struct site *site;
    struct span name;

    host = site_host_name(host);
    if (host.length == 0 || host.length > sizeof(lower) || host.start[0] == '.')
        return sites->fallback;
    for (size_t i = 0; i < host.length; i++) {
        char byte = host.start[i];

        lower[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte | 0x20) : byte;
    }
    name = (struct span){lower, host.length};
    site = look_up_site_name(sites->names, name);
    if (site == NULL && sites->names->wildcards)
        site = find_wildcard(sites->names, name);
    return site != NULL ? site : sites->fallback;
}

const struct site *site_find(const struct sites *sites, struct site_memo *memo, struct span host)
{
    const struct site *site;

    if (LIKELY(sites->names == NULL))
        return sites->fallback;
    if (memo->site != NULL && span_is(host, (struct span){memo->host, memo->length}))
        return memo->site;
    site = find_site_by_name(sites, host);
    if (host.length > sizeof(memo->host))
        return site;
    if (host.length > 0)
        memcpy(memo->host, host.start, host.length);
    memo->length = host.length;
    memo->site = site;
    return site;
}
