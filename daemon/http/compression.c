#include "daemon/http/compression.h"

#include "common/macros.h"

#include <brotli/encode.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

/* What codes: from BYTES to *LENGTH bytes at TO; results as those of compression_run(). */
typedef int compressor(int level, struct span bytes, char *to, size_t *length);

/* 16 added to the window bits selects the gzip format. */
static int compress_gzip(int level, struct span bytes, char *to, size_t *length)
{
    enum { WINDOW_BITS = 15 + 16, MEMORY_LEVEL = 8 };
    z_stream stream = {0};
    int result;

    if (deflateInit2(&stream, level, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return ENOMEM;
    stream.next_in = (Bytef *)(uintptr_t)bytes.start;
    stream.avail_in = (uInt)bytes.length;
    stream.next_out = (Bytef *)to;
    stream.avail_out = (uInt)*length;
    result = deflate(&stream, Z_FINISH) == Z_STREAM_END ? 0 : ENODATA;
    *length = stream.total_out;
    deflateEnd(&stream);
    return result;
}

/* Levels up to 19 have windows of at most 8 MiB, the most that clients must support (RFC 9659). */
static int compress_zstd(int level, struct span bytes, char *to, size_t *length)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t result;

    if (context == NULL)
        return ENOMEM;
    result = ZSTD_compressCCtx(context, to, *length, bytes.start, bytes.length, level);
    ZSTD_freeCCtx(context);
    if (!ZSTD_isError(result)) {
        *length = result;
        return 0;
    }
    return ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall ? ENODATA : ENOMEM;
}

/* The smallest window that holds LENGTH bytes, or the default: a larger one takes memory only. */
static uint32_t brotli_window(size_t length)
{
    uint32_t bits = BROTLI_MIN_WINDOW_BITS;

    while (bits < BROTLI_DEFAULT_WINDOW && (size_t)1 << bits < length + 16)
        bits++;
    return bits;
}

static int compress_brotli(int level, struct span bytes, char *to, size_t *length)
{
    BrotliEncoderState *state = BrotliEncoderCreateInstance(NULL, NULL, NULL);
    const uint8_t *next_in = (const uint8_t *)bytes.start;
    uint8_t *next_out = (uint8_t *)to;
    size_t in = bytes.length, room = *length;
    int result = ENOMEM;

    if (state == NULL)
        return ENOMEM;
    BrotliEncoderSetParameter(state, BROTLI_PARAM_QUALITY, (uint32_t)level);
    BrotliEncoderSetParameter(state, BROTLI_PARAM_LGWIN, brotli_window(bytes.length));
    BrotliEncoderSetParameter(state, BROTLI_PARAM_SIZE_HINT, (uint32_t)bytes.length);
    if (BrotliEncoderCompressStream(state, BROTLI_OPERATION_FINISH, &in, &next_in, &room, &next_out,
                                    NULL))
        result = BrotliEncoderIsFinished(state) ? 0 : ENODATA;
    *length -= room;
    BrotliEncoderDestroyInstance(state);
    return result;
}

static compressor *const compressors[CODING_COUNT] = {
    [CODING_GZIP] = compress_gzip,
    [CODING_ZSTD] = compress_zstd,
    [CODING_BR] = compress_brotli,
};

int compression_run(enum coding coding, int level, struct span bytes, char **compressed,
                    size_t *compressed_length)
{
    int failed;

    if (bytes.length == 0 || bytes.length > UINT_MAX)
        return ENODATA;
    *compressed = malloc(bytes.length);
    if (*compressed == NULL)
        return ENOMEM;
    *compressed_length = bytes.length - 1;
    failed = compressors[coding](level, bytes, *compressed, compressed_length);
    if (failed != 0)
        free(*compressed);
    return failed;
}

/* In the order of their speed. */
enum coding compression_for_page(const struct compression_levels *levels, coding_preference accepts)
{
    static const enum coding fastest[] = {CODING_ZSTD, CODING_GZIP, CODING_BR};
    struct coding_group group;

    while (coding_next_group(&accepts, &group)) {
        for (size_t i = 0; i < ARRAY_LENGTH(fastest); i++)
            if (coding_group_has(&group, fastest[i]) && levels->level[fastest[i]] > 0)
                return fastest[i];
        if (coding_group_has(&group, CODING_IDENTITY))
            break;
    }
    return CODING_IDENTITY;
}

static bool media_type_ends_with(struct span text, struct span end)
{
    return text.length > end.length &&
           span_is_nocase((struct span){text.start + text.length - end.length, end.length}, end);
}

bool compression_suits_type(const char *type)
{
    static const struct span types[] = {
        {"application/javascript", 22},
        {"application/json", 16},
        {"application/xml", 15},
        {"application/wasm", 16},
        {"application/yaml", 16},
        {"application/toml", 16},
        {"application/rtf", 15},
        {"application/sql", 15},
        {"application/x-sh", 16},
        {"application/x-ndjson", 20},
        {"application/xml-dtd", 19},
        {"application/postscript", 22},
        {"application/x-subrip", 20},
        {"application/vnd.ms-fontobject", 29},
        {"application/vnd.apple.mpegurl", 29},
        {"model/gltf-binary", 17},
        {"model/obj", 9},
        {"model/stl", 9},
        {"font/ttf", 8},
        {"font/otf", 8},
        {"image/bmp", 9},
        {"image/x-icon", 12},
        {"image/vnd.microsoft.icon", 24},
    };
    struct span bare = {type, strcspn(type, "; \t")}; /* without parameters */

    if (bare.length > 5 && strncasecmp(bare.start, "text/", 5) == 0)
        return true;
    if (media_type_ends_with(bare, SPAN("+xml")) || media_type_ends_with(bare, SPAN("+json")))
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
        if (span_is_nocase(bare, types[i]))
            return true;
    return false;
}
