#include "daemon/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_MAX = 512 };

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
    resource->head_length = head_length;
    resource->answer_length = head_length + length;
    resource->body_length = length;
    resource->fd = -1;
    *page = resource;
    return 0;
}
