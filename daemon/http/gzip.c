#include "daemon/http/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

/* The level that zlib itself holds for the best compromise; 16 more bits ask for gzip's frame. */
enum { LEVEL = 6, WINDOW_BITS = 15 + 16, MEMORY_LEVEL = 8 };

/* Into ROOM bytes: what needs more is not worth it. */
static int deflate_into(z_stream *stream, const char *bytes, size_t length, char *to, size_t room)
{
    stream->next_in = (Bytef *)(uintptr_t)bytes;
    stream->avail_in = (uInt)length;
    stream->next_out = (Bytef *)to;
    stream->avail_out = (uInt)room;
    return deflate(stream, Z_FINISH) == Z_STREAM_END ? 0 : ENODATA;
}

int gzip_compress(const char *bytes, size_t length, char **compressed, size_t *compressed_length)
{
    z_stream stream = {0};
    int failed;

    if (length == 0 || length > UINT_MAX)
        return ENODATA;
    *compressed = malloc(length);
    if (*compressed == NULL)
        return ENOMEM;
    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        free(*compressed);
        return ENOMEM;
    }
    failed = deflate_into(&stream, bytes, length, *compressed, length - 1);
    *compressed_length = stream.total_out;
    deflateEnd(&stream);
    if (failed != 0)
        free(*compressed);
    return failed;
}
