/*
 * Directory listings as HTML or JSON. They show exactly what would be served: no hidden names, no
 * links that are not followed, no devices. Any thread; reading may block.
 */
#ifndef DAEMON_LISTING_H
#define DAEMON_LISTING_H

#include "common/span.h"
#include "daemon/content/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LISTING_MAX = 20000 }; /* entries shown; others are only counted */

enum listing_key { LISTING_BY_NAME, LISTING_BY_SIZE, LISTING_BY_TIME };

struct listing_order {
    enum listing_key key;
    bool descending;
};

struct listing_entry {
    char *name;
    bool directory;
    uint64_t size;   /* bytes; 0 for a directory */
    int64_t mtime_s; /* since 1970 */
};

struct listing {
    struct listing_entry *entry; /* directories first */
    size_t count;
    size_t total; /* including those not shown */
};

/*
 * Parses "sort=size&order=desc". The default is by name, ascending; unknown parameters are ignored.
 */
struct listing_order listing_order_read(struct span query);

/*
 * Reads the directory PATH (canonical). HIDDEN includes names that begin with a dot. Returns 0 with
 * *LISTING filled and sorted, then call listing_free(); or an errno: EEXIST if the directory has
 * one of the files INDEX, which would be served instead.
 */
int listing_read(const struct files_root *root, const char *path, const struct config_words *index,
                 bool hidden, const struct listing_order *order, struct listing *listing);
void listing_free(struct listing *listing);

void listing_write_html(const struct listing *listing, const struct listing_order *order,
                        const char *path, FILE *out);

/*
 * An array of objects: "name"; "type", "directory" or "file"; "size" in bytes (files only);
 * "mtime", such as 2026-11-21T13:45:00Z.
 */
void listing_write_json(const struct listing *listing, FILE *out);

#endif
