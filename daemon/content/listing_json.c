/* A listing as JSON (RFC 8259). */
#include "common/escape.h"
#include "daemon/content/listing.h"

#include <inttypes.h>
#include <time.h>

static void write_entry(FILE *out, const struct listing_entry *entry)
{
    time_t time = (time_t)entry->mtime_s;
    char text[32] = "";
    struct tm parts;

    fputs("{\"name\":\"", out);
    escape_json(out, entry->name);
    fprintf(out, "\",\"type\":\"%s\"", entry->directory ? "directory" : "file");
    if (!entry->directory)
        fprintf(out, ",\"size\":%" PRIu64, entry->size);
    if (gmtime_r(&time, &parts) != NULL)
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    fprintf(out, ",\"mtime\":\"%s\"}", text);
}

void listing_write_json(const struct listing *listing, FILE *out)
{
    fputs("[", out);
    for (size_t i = 0; i < listing->count; i++) {
        fputs(i == 0 ? "\n" : ",\n", out);
        write_entry(out, &listing->entry[i]);
    }
    fputs("\n]\n", out);
}
