#include "daemon/content/resource_head.h"

#include "daemon/http/date.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void put(struct resource_head *head, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Cuts what does not fit: types come from the configuration. */
static void put(struct resource_head *head, const char *format, ...)
{
    size_t room = RESOURCE_HEAD_MAX - head->length;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(head->text + head->length, room, format, arguments);
    va_end(arguments);
    head->length += (uint32_t)((size_t)length < room ? (size_t)length : room - 1);
}

static void end_piece(const struct resource_head *head, struct head_piece *piece)
{
    piece->length = head->length - piece->start;
}

/*
 * A strong validator: it changes with every change of the content that the file system shows, and each
 * coding has its own (RFC 9110 section 8.8.3.3).
 */
static void put_etag(struct resource_head *head, const struct file_identity *file,
                     enum coding coding)
{
    put(head, "ETag: ");
    head->etag.start = head->length;
    put(head, "\"%" PRIx64 "-%" PRIx64 ".%" PRIx32 "-%" PRIx64 "%s%s\"", file->size,
        (uint64_t)file->mtime_s, file->mtime_ns, file->inode, coding != CODING_IDENTITY ? "-" : "",
        coding_names[coding].start);
    end_piece(head, &head->etag);
    put(head, "\r\n");
}

static void put_date(struct resource_head *head, int64_t modified)
{
    char date[HTTP_DATE_BYTES];

    http_date_write(modified, date);
    put(head, "Last-Modified: ");
    head->modified.start = head->length;
    put(head, "%.*s", HTTP_DATE_BYTES, date);
    end_piece(head, &head->modified);
    put(head, "\r\n");
}

static void put_rules(struct resource_head *head, const struct head_facts *facts,
                      enum header_part part)
{
    head->length +=
        (uint32_t)header_rules_write(facts->rules, facts->path, part, head->text + head->length);
}

void resource_head_write(struct resource_head *head, const struct head_facts *facts)
{
    head->length = 0;
    head->modified = (struct head_piece){0, 0};
    head->dated = facts->modified_s <= facts->wall_s;
    put(head, "Content-Length: %" PRIu64 "\r\n", facts->length);
    head->type_fields.start = head->length;
    put(head, "Content-Type: %.200s\r\n", facts->type);
    if (facts->coding != CODING_IDENTITY)
        put(head, "Content-Encoding: %s\r\n", coding_names[facts->coding].start);
    end_piece(head, &head->type_fields);
    head->common_fields.start = head->length;
    put_rules(head, facts, HEADER_OF_CONTENT);
    put(head, "Accept-Ranges: bytes\r\n");
    put_date(head, head->dated ? facts->modified_s : facts->wall_s);
    head->validators.start = head->length;
    put_etag(head, facts->file, facts->coding);
    if (facts->varies)
        put(head, "Vary: Accept-Encoding\r\n");
    put_rules(head, facts, HEADER_OF_ANSWER);
    end_piece(head, &head->validators);
    end_piece(head, &head->common_fields);
    put(head, "\r\n");
}
