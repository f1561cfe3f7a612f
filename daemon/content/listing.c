#include "daemon/content/listing.h"

#include "common/escape.h"
#include "common/units.h"
#include "daemon/http/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The query */

static bool is_parameter(struct span part, const char *name, const char *value)
{
    size_t length = strlen(name);

    return part.length == length + 1 + strlen(value) && memcmp(part.start, name, length) == 0 &&
           part.start[length] == '=' && memcmp(part.start + length + 1, value, strlen(value)) == 0;
}

struct listing_order listing_order_read(struct span query)
{
    struct listing_order order = {.key = LISTING_BY_NAME};

    while (query.length > 0) {
        const char *end = memchr(query.start, '&', query.length);
        size_t length = end != NULL ? (size_t)(end - query.start) : query.length;

        struct span part = {query.start, length};

        if (is_parameter(part, "sort", "size"))
            order.key = LISTING_BY_SIZE;
        else if (is_parameter(part, "sort", "time"))
            order.key = LISTING_BY_TIME;
        else if (is_parameter(part, "order", "desc"))
            order.descending = true;
        length += end != NULL;
        query = (struct span){query.start + length, query.length - length};
    }
    return order;
}

/* Reading */

struct reading {
    const struct files_root *root;
    const char *path; /* of the directory, ends with a slash */
    bool hidden;
    int directory;
    struct listing *listing;
    size_t room;
};

/* True for names that no valid target can have (daemon/http/target.c). */
static bool is_unreachable(const char *name)
{
    for (; *name != '\0'; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f || *name == '\\')
            return true;
    return false;
}

/* Finds the target of a link if links are followed. */
static bool follow_entry_link(const struct reading *reading, const char *name, struct file *file)
{
    char path[TARGET_PATH_MAX + 256];

    if (reading->root->links == FILES_LINKS_DENY)
        return false;
    snprintf(path, sizeof(path), "%s%s", reading->path, name);
    if (files_find(reading->root, path, FILES_MAY_BLOCK, file) != 0)
        return false;
    close(file->fd);
    return true;
}

static bool read_listing_entry(const struct reading *reading, const char *name,
                               struct listing_entry *entry)
{
    struct stat status;
    struct file file;

    if (fstatat(reading->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (S_ISLNK(status.st_mode)) {
        if (!follow_entry_link(reading, name, &file))
            return false;
    } else if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
        file = (struct file){.directory = S_ISDIR(status.st_mode),
                             .size = (uint64_t)status.st_size,
                             .mtime_s = status.st_mtim.tv_sec};
    } else {
        return false;
    }
    *entry = (struct listing_entry){.directory = file.directory,
                                    .size = file.directory ? 0 : file.size,
                                    .mtime_s = file.mtime_s};
    return true;
}

static bool make_entry_room(struct reading *reading)
{
    size_t room = reading->room == 0 ? 64 : reading->room * 2;
    struct listing_entry *entry;

    if (reading->listing->count < reading->room)
        return true;
    entry = realloc(reading->listing->entry, room * sizeof(*entry));
    if (entry == NULL)
        return false;
    reading->listing->entry = entry;
    reading->room = room;
    return true;
}

/* Returns 0 or an errno. Beyond LISTING_MAX it only counts entries. */
static int add_entry(struct reading *reading, const char *name)
{
    struct listing *listing = reading->listing;
    struct listing_entry entry;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (name[0] == '.' && !reading->hidden) ||
        is_unreachable(name))
        return 0;
    if (listing->count == LISTING_MAX) {
        listing->total++;
        return 0;
    }
    if (!read_listing_entry(reading, name, &entry))
        return 0;
    entry.name = strdup(name);
    if (entry.name == NULL || !make_entry_room(reading)) {
        free(entry.name);
        return ENOMEM;
    }
    listing->entry[listing->count++] = entry;
    listing->total++;
    return 0;
}

/* Takes ownership of FD. */
static int read_directory(struct reading *reading, int fd)
{
    DIR *stream = fdopendir(fd);
    const struct dirent *entry;
    int failed = 0;

    if (stream == NULL) {
        failed = errno;
        close(fd);
        return failed;
    }
    reading->directory = dirfd(stream);
    while (failed == 0 && (errno = 0, entry = readdir(stream)) != NULL)
        failed = add_entry(reading, entry->d_name);
    if (failed == 0)
        failed = errno;
    closedir(stream);
    return failed;
}

/* Sorting */

static int compare_entry_names(const struct listing_entry *one, const struct listing_entry *other)
{
    int difference = strcasecmp(one->name, other->name);

    return difference != 0 ? difference : strcmp(one->name, other->name);
}

/* Directories come first in every order; equal entries are sorted by name. */
static int compare(const void *a, const void *b, void *argument)
{
    const struct listing_entry *one = a, *other = b;
    const struct listing_order *order = argument;
    int difference = 0;

    if (one->directory != other->directory)
        return one->directory ? -1 : 1;
    if (order->key == LISTING_BY_SIZE)
        difference = (one->size > other->size) - (one->size < other->size);
    else if (order->key == LISTING_BY_TIME)
        difference = (one->mtime_s > other->mtime_s) - (one->mtime_s < other->mtime_s);
    else
        difference = compare_entry_names(one, other);
    if (difference == 0)
        return compare_entry_names(one, other);
    return order->descending ? -difference : difference;
}

int listing_read(const struct files_root *root, const char *path, const struct config_words *index,
                 bool hidden, const struct listing_order *order, struct listing *listing)
{
    struct reading reading = {.root = root, .path = path, .hidden = hidden, .listing = listing};
    struct file file;
    int failed = files_open(root, path, FILES_MAY_BLOCK, &file);

    *listing = (struct listing){.count = 0};
    if (failed != 0)
        return failed;
    if (!file.directory || files_has_any(file.fd, index)) {
        close(file.fd);
        return file.directory ? EEXIST : ENOTDIR;
    }
    failed = read_directory(&reading, file.fd);
    if (failed != 0) {
        listing_free(listing);
        return failed;
    }
    if (listing->count > 0)
        qsort_r(listing->entry, listing->count, sizeof(*listing->entry), compare,
                (void *)(uintptr_t)order);
    return 0;
}

void listing_free(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->entry[i].name);
    free(listing->entry);
    *listing = (struct listing){.count = 0};
}

/* HTML: one page that needs no script, image or other file. */

static const char style[] =
    ":root{color-scheme:light dark;--line:#8883;--dim:#666;--link:#0b57d0;--hover:#8881}\n"
    "@media(prefers-color-scheme:dark){:root{--dim:#9aa;--link:#8ab4f8}}\n"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}\n"
    "h1{font-size:1.25rem;font-weight:600;overflow-wrap:anywhere;margin:.5rem 0 1rem}\n"
    "a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "th,td{padding:.3rem .5rem;text-align:left;border-bottom:1px solid var(--line)}\n"
    "th{font-weight:600;white-space:nowrap}tbody tr:hover{background:var(--hover)}\n"
    "td:first-child{overflow-wrap:anywhere}\n"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
    "td.n,p{color:var(--dim)}\n"
    "@media(max-width:34rem){body{padding:.5rem}th:last-child,td:last-child{display:none}}\n";

enum { TIME_TEXT = 32 };

/* UTC: "2026-11-21T13:45:00Z", or BRIEF "2026-11-21 13:45"; empty if the year does not fit. */
static void format_time(int64_t time_s, bool brief, char text[TIME_TEXT])
{
    time_t time = (time_t)time_s;
    struct tm parts;

    text[0] = '\0';
    if (gmtime_r(&time, &parts) != NULL)
        strftime(text, TIME_TEXT, brief ? "%Y-%m-%d %H:%M" : "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static const struct {
    const char *word, *title;
    bool number;
} columns[] = {
    [LISTING_BY_NAME] = {"name", "Name", false},
    [LISTING_BY_SIZE] = {"size", "Size", true},
    [LISTING_BY_TIME] = {"time", "Modified (UTC)", true},
};

/* A component of the path, as a link UP directories up; 0: the current directory, no link. */
static void write_crumb(FILE *out, size_t up, const char *name)
{
    if (up > 0) {
        fputs("<a href=\"", out);
        for (size_t i = 0; i < up; i++)
            fputs("../", out);
        fputs("\">", out);
    }
    escape_html(out, name);
    if (up > 0)
        fputs("</a>", out);
}

/* "/ docs / images" */
static void write_crumbs(FILE *out, const char *path)
{
    size_t up = 0;

    for (const char *at = path + 1; *at != '\0'; at++)
        up += *at == '/';
    write_crumb(out, up, "/");
    for (path++; up > 0; path += strcspn(path, "/") + 1) {
        char name[NAME_MAX + 1];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, "/"), path);
        fputc(' ', out);
        write_crumb(out, --up, name);
        fputs(up > 0 ? " /" : "", out);
    }
}

static void write_heading(FILE *out, const struct listing_order *order, enum listing_key key)
{
    bool chosen = order->key == key, reverse = chosen && !order->descending;

    fprintf(out, "<th scope=\"col\"%s%s><a href=\"?sort=%s&amp;order=%s\">%s</a>%s</th>",
            columns[key].number ? " class=\"n\"" : "",
            !chosen             ? ""
            : order->descending ? " aria-sort=\"descending\""
                                : " aria-sort=\"ascending\"",
            columns[key].word, reverse ? "desc" : "asc", columns[key].title,
            !chosen             ? ""
            : order->descending ? " \u2193"
                                : " \u2191");
}

static void write_size(FILE *out, uint64_t bytes)
{
    char text[UNITS_TEXT];

    fprintf(out, "<td class=\"n\" title=\"%" PRIu64 " bytes\">%s</td>", bytes,
            bytes == 0 ? "0 B" : units_format_bytes(text, sizeof(text), (double)bytes));
}

static void write_time(FILE *out, int64_t time_s)
{
    char iso[TIME_TEXT], shown[TIME_TEXT];

    format_time(time_s, false, iso);
    format_time(time_s, true, shown);
    fprintf(out, "<td class=\"n\"><time datetime=\"%s\" title=\"%s\">%s</time></td>", iso, iso,
            shown);
}

static void write_html_entry(FILE *out, const struct listing_entry *entry)
{
    char link[3 * NAME_MAX];
    size_t length = escape_path(link, sizeof(link), entry->name);
    const char *slash = entry->directory ? "/" : "";

    fputs("<tr><td><a href=\"./", out); /* "./": a colon in the name must not look like a scheme */
    for (size_t i = 0; i < length; i++)
        fputs(link[i] == '&' ? "&amp;" : link[i] == '\'' ? "&#39;" : (char[]){link[i], '\0'}, out);
    fprintf(out, "%s\">", slash);
    escape_html(out, entry->name);
    fprintf(out, "%s</a></td>", slash);
    if (entry->directory)
        fputs("<td class=\"n\">\u2013</td>", out);
    else
        write_size(out, entry->size);
    write_time(out, entry->mtime_s);
    fputs("</tr>\n", out);
}

static void write_foot(FILE *out, const struct listing *listing)
{
    size_t directories = 0;
    uint64_t bytes = 0;
    char size[UNITS_TEXT];

    for (size_t i = 0; i < listing->count; i++) {
        directories += listing->entry[i].directory;
        bytes += listing->entry[i].size;
    }
    fprintf(out, "<p>%zu director%s, %zu file%s, %s</p>\n", directories,
            directories == 1 ? "y" : "ies", listing->count - directories,
            listing->count - directories == 1 ? "" : "s",
            bytes == 0 ? "0 B" : units_format_bytes(size, sizeof(size), (double)bytes));
    if (listing->total > listing->count)
        fprintf(out, "<p><strong>Only %zu of %zu entries are shown.</strong></p>\n", listing->count,
                listing->total);
}

void listing_write_html(const struct listing *listing, const struct listing_order *order,
                        const char *path, FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    escape_html(out, path);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    write_crumbs(out, path);
    fputs("</h1>\n<table>\n<thead><tr>", out);
    for (int key = LISTING_BY_NAME; key <= LISTING_BY_TIME; key++)
        write_heading(out, order, (enum listing_key)key);
    fputs("</tr></thead>\n<tbody>\n", out);
    if (strcmp(path, "/") != 0)
        fputs("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n", out);
    for (size_t i = 0; i < listing->count; i++)
        write_html_entry(out, &listing->entry[i]);
    fputs("</tbody>\n</table>\n", out);
    write_foot(out, listing);
    fputs("</body>\n</html>\n", out);
}

/* JSON (RFC 8259). */

static void write_json_entry(FILE *out, const struct listing_entry *entry)
{
    char text[TIME_TEXT];

    fputs("{\"name\":\"", out);
    escape_json(out, entry->name);
    fprintf(out, "\",\"type\":\"%s\"", entry->directory ? "directory" : "file");
    if (!entry->directory)
        fprintf(out, ",\"size\":%" PRIu64, entry->size);
    format_time(entry->mtime_s, false, text);
    fprintf(out, ",\"mtime\":\"%s\"}", text);
}

void listing_write_json(const struct listing *listing, FILE *out)
{
    fputs("[", out);
    for (size_t i = 0; i < listing->count; i++) {
        fputs(i == 0 ? "\n" : ",\n", out);
        write_json_entry(out, &listing->entry[i]);
    }
    fputs("\n]\n", out);
}
