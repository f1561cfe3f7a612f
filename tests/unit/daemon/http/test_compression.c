/* Compression by each coding; sites/compression.py decodes what the server makes. */
#include "common/macros.h"
#include "daemon/http/compression.h"
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

TEST(text_types_are_compressible)
{
    static const char *const yes[] = {"text/html; charset=utf-8",
                                      "TEXT/plain",
                                      "text/css",
                                      "application/json",
                                      "application/ld+json",
                                      "image/svg+xml",
                                      "application/wasm",
                                      "font/ttf",
                                      "application/geo+json",
                                      "application/vnd.google-earth.kml+xml",
                                      "application/x-ndjson",
                                      "application/vnd.ms-fontobject",
                                      "model/gltf-binary"};
    static const char *const no[] = {
        "image/png", "application/zip",          "application/gzip", "font/woff2",
        "video/mp4", "application/octet-stream", "application/pdf",  "text",
        "x/json"};

    for (size_t i = 0; i < ARRAY_LENGTH(yes); i++)
        assert_true(compression_suits_type(yes[i]));
    for (size_t i = 0; i < ARRAY_LENGTH(no); i++)
        assert_false(compression_suits_type(no[i]));
}

static const struct {
    enum coding coding;
    int level;
} levels[] = {{CODING_GZIP, 1},  {CODING_GZIP, 9}, {CODING_ZSTD, 1},
              {CODING_ZSTD, 19}, {CODING_BR, 1},   {CODING_BR, 11}};

/* Returns true if the first LENGTH bytes become shorter. */
static bool shortens(enum coding coding, int level, const char *bytes, size_t length)
{
    size_t compressed_length = 0, again_length = 0;
    char *compressed = NULL, *again = NULL;
    int failed = compression_run(coding, level, (struct span){bytes, length}, &compressed,
                                 &compressed_length);

    if (failed != 0) {
        assert_int_equal(failed, ENODATA);
        return false;
    }
    assert_in_range(compressed_length, 1, length - 1);
    assert_int_equal(
        compression_run(coding, level, (struct span){bytes, length}, &again, &again_length), 0);
    assert_int_equal(again_length, compressed_length);
    assert_memory_equal(again, compressed, compressed_length);
    free(compressed);
    free(again);
    return true;
}

/* Among the lengths is one of which the result is as long. */
TEST(result_is_shorter_or_none)
{
    char bytes[64];

    memset(bytes, 'a', sizeof(bytes));
    for (size_t i = 0; i < ARRAY_LENGTH(levels); i++) {
        assert_false(shortens(levels[i].coding, levels[i].level, bytes, 0));
        assert_false(shortens(levels[i].coding, levels[i].level, bytes, 1));
        for (size_t length = 2; length < sizeof(bytes); length++)
            shortens(levels[i].coding, levels[i].level, bytes, length);
        assert_true(shortens(levels[i].coding, levels[i].level, bytes, sizeof(bytes)));
    }
}

TEST(noise_is_not_compressed)
{
    enum { NOISE = 3000 };
    uint64_t chance = 88172645463325252;
    char bytes[NOISE];

    for (size_t i = 0; i < NOISE; i++) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        bytes[i] = (char)chance;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(levels); i++)
        assert_false(shortens(levels[i].coding, levels[i].level, bytes, NOISE));
}

static enum coding page_coding(const struct compression_levels *enabled, const char *accepted)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;

    coding_read(&weights, span_of(accepted));
    return compression_for_page(enabled, coding_prefer(&weights));
}

TEST(pages_have_the_fastest_of_the_best_codings)
{
    static const struct compression_levels
        all = {{[CODING_GZIP] = 6, [CODING_ZSTD] = 3, [CODING_BR] = 5}},
        gzip = {{[CODING_GZIP] = 1}}, none = {{0}};

    assert_int_equal(page_coding(&all, "gzip, deflate, br, zstd"), CODING_ZSTD);
    assert_int_equal(page_coding(&all, "gzip, br"), CODING_GZIP);
    assert_int_equal(page_coding(&all, "br"), CODING_BR);
    assert_int_equal(page_coding(&all, "br, zstd;q=0.9"), CODING_BR);
    assert_int_equal(page_coding(&all, ""), CODING_IDENTITY);
    assert_int_equal(page_coding(&all, "identity, gzip;q=0.5"), CODING_IDENTITY);
    assert_int_equal(page_coding(&gzip, "br, zstd, gzip;q=0.1"), CODING_GZIP);
    assert_int_equal(page_coding(&none, "gzip, br, zstd"), CODING_IDENTITY);
    assert_true(compression_is_on(&gzip));
    assert_false(compression_is_on(&none));
}
