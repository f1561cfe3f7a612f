/* A listing as a page of HTML that needs nothing else: no script, no picture, no other file. */
#include "common/escape.h"
#include "common/units.h"
#include "daemon/content/listing.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <time.h>

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

static const struct {
    const char *word, *title;
    bool number;
} columns[] = {
    [LISTING_BY_NAME] = {"name", "Name", false},
    [LISTING_BY_SIZE] = {"size", "Size", true},
    [LISTING_BY_TIME] = {"time", "Modified (UTC)", true},
};

/* A part of the path, as a link so many directories up; 0: where we are. */
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
    bool chosen = order->key == key, turn = chosen && !order->descending;

    fprintf(out, "<th scope=\"col\"%s%s><a href=\"?sort=%s&amp;order=%s\">%s</a>%s</th>",
            columns[key].number ? " class=\"n\"" : "",
            !chosen             ? ""
            : order->descending ? " aria-sort=\"descending\""
                                : " aria-sort=\"ascending\"",
            columns[key].word, turn ? "desc" : "asc", columns[key].title,
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
    char machine[32] = "", person[32] = "";
    time_t time = (time_t)time_s;
    struct tm parts;

    if (gmtime_r(&time, &parts) != NULL) {
        strftime(machine, sizeof(machine), "%Y-%m-%dT%H:%M:%SZ", &parts);
        strftime(person, sizeof(person), "%Y-%m-%d %H:%M", &parts);
    }
    fprintf(out, "<td class=\"n\"><time datetime=\"%s\" title=\"%s\">%s</time></td>", machine,
            machine, person);
}

static void write_entry(FILE *out, const struct listing_entry *entry)
{
    char link[3 * NAME_MAX];
    size_t length = escape_path(link, sizeof(link), entry->name);
    const char *slash = entry->directory ? "/" : "";

    fputs("<tr><td><a href=\"./", out); /* so that a colon in the name ends no scheme */
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
    fprintf(out, "<p>%zu folder%s, %zu file%s, %s</p>\n", directories, directories == 1 ? "" : "s",
            listing->count - directories, listing->count - directories == 1 ? "" : "s",
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
        write_entry(out, &listing->entry[i]);
    fputs("</tbody>\n</table>\n", out);
    write_foot(out, listing);
    fputs("</body>\n</html>\n", out);
}
