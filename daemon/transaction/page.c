#include "daemon/transaction/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_MAX = 512 };

/* What a 304 keeps of the head (RFC 9110 section 15.4.5): all but its first two fields. */
static struct span fields_behind_type(const char *head, size_t length)
{
    const char *type = strchr(head, '\n') + 1;
    const char *rest = strchr(type, '\n') + 1;

    return (struct span){rest, (size_t)(head + length - 2 - rest)};
}

/* One piece of memory: the struct, the path, the head, the body. */
int page_new(struct span path, const char *fields, const char *body, size_t length,
             struct resource **page)
{
    char head[HEAD_MAX];
    size_t head_length =
        (size_t)snprintf(head, sizeof(head), "Content-Length: %zu\r\n%s\r\n", length, fields);
    size_t bytes = sizeof(struct resource) + path.length + 1 + head_length + length;
    struct resource *resource = calloc(1, bytes);
    char *place;

    if (resource == NULL)
        return ENOMEM;
    place = (char *)(resource + 1);
    memcpy(place, path.start, path.length);
    cache_entry_init(&resource->entry, place, path.length, bytes, 0);
    resource->file_path = (struct span){place, path.length};
    place += path.length + 1;
    memcpy(place, head, head_length);
    memcpy(place + head_length, body, length);
    resource->answer = place;
    resource->validators = fields_behind_type(place, head_length);
    resource->head_length = head_length;
    resource->answer_length = head_length + length;
    resource->body_length = length;
    resource->fd = -1;
    *page = resource;
    return 0;
}
