/* Media types: the built-in list, the configuration, and which part of a name is the extension. */
#include "common/macros.h"
#include "daemon/http/mime.h"
#include "tests/test.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char unknown[] = "application/octet-stream";

static const struct {
    const char *extension, *type;
} built_in[] = {
#define MIME(extension, type) {extension, type},
#include "common/mime.def"
#undef MIME
};

TEST(built_in_types_match_any_case)
{
    struct mime_table *table = mime_table_new(NULL, NULL, 0);
    char path[64];

    assert_non_null(table);
    for (size_t i = 0; i < ARRAY_LENGTH(built_in); i++) {
        snprintf(path, sizeof(path), "/directory.d/name.%s", built_in[i].extension);
        assert_string_equal(mime_type(table, path), built_in[i].type);
        for (char *letter = strrchr(path, '.'); *letter != '\0'; letter++)
            *letter = (char)toupper((unsigned char)*letter);
        assert_string_equal(mime_type(table, path), built_in[i].type);
    }
    mime_table_free(table);
}

TEST(extension_is_after_last_dot)
{
    static const struct {
        const char *path, *type;
    } cases[] = {
        {"/a.b.html", "text/html; charset=utf-8"},
        {"/a.tar.gz", "application/gzip"},
        {"/a.html.gz", "application/gzip"},
        {"a.css", "text/css; charset=utf-8"},
        {"/..html", "text/html; charset=utf-8"},
        {"/", unknown},
        {"", unknown},
        {"/html", unknown},
        {"/a.html/", unknown},
        {"/a.html/b", unknown},
        {"/a.", unknown},
        {"/a.html.", unknown},
        {"/.html", unknown}, /* a hidden name, not an extension */
        {"/a/.css", unknown},
        {"/a.htmlx", unknown},
        {"/a.htm l", unknown},
        {"/a.an-extension-that-is-longer-than-any-other-one", unknown},
        {"/a.\xff", unknown},
    };
    struct mime_table *table = mime_table_new(NULL, NULL, 0);

    assert_non_null(table);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (strcmp(mime_type(table, cases[i].path), cases[i].type) != 0)
            fail_msg("%s: %s", cases[i].path, mime_type(table, cases[i].path));
    mime_table_free(table);
}

TEST(configured_types_override_built_in)
{
    static const char *const extensions[] = {"GMI", "html", "x-y_z", "gmi2", "dup", "DUP"};
    static const char *const types[] = {"text/gemini", "text/plain", "a/b", "c/d", "e/1", "e/2"};
    struct mime_table *table = mime_table_new(extensions, types, ARRAY_LENGTH(extensions));

    assert_non_null(table);
    assert_string_equal(mime_type(table, "/a.gmi"), "text/gemini");
    assert_string_equal(mime_type(table, "/a.GMI"), "text/gemini");
    assert_string_equal(mime_type(table, "/a.HTML"), "text/plain");
    assert_string_equal(mime_type(table, "/a.x-y_z"), "a/b");
    assert_string_equal(mime_type(table, "/a.gmi2"), "c/d");
    assert_string_equal(mime_type(table, "/a.dup"), "e/2"); /* the later one */
    assert_string_equal(mime_type(table, "/a.css"), "text/css; charset=utf-8");
    mime_table_free(table);
}

/* Files that sites of today have. */
TEST(usual_extensions_are_known)
{
    static const char extensions[] =
        "m4a m4v mov ogv oga opus flac aac vtt atom rss xhtml xsl ics bmp jxl eot epub docx xlsx "
        "pptx odt 7z apk dmg iso geojson gpx kml glb gltf usdz wgsl html css js mjs json map wasm "
        "woff2 svg webp avif heic mp3 mp4 webm m3u8 mpd pdf zip gz xz yaml toml csv md jsonl ";
    struct mime_table *table = mime_table_new(NULL, NULL, 0);
    char path[32];

    for (const char *at = extensions; *at != '\0'; at += strcspn(at, " ") + 1) {
        snprintf(path, sizeof(path), "/a.%.*s", (int)strcspn(at, " "), at);
        if (strcmp(mime_type(table, path), unknown) == 0)
            fail_msg("%s is unknown", path);
    }
    mime_table_free(table);
}

TEST(configured_default_is_that_of_unknown_names)
{
    static const char *const extensions[] = {"Default"}, *const types[] = {"text/plain"};
    struct mime_table *table = mime_table_new(extensions, types, 1);

    assert_string_equal(mime_type(table, "/README"), "text/plain");
    assert_string_equal(mime_type(table, "/a.htmlx"), "text/plain");
    assert_string_equal(mime_type(table, "/a.an-extension-that-is-longer-than-all"), "text/plain");
    assert_string_equal(mime_type(table, "/a.png"), "image/png");
    mime_table_free(table);
}

TEST(large_table_finds_all)
{
    enum { COUNT = 2000 };
    static char texts[COUNT][16];
    static const char *extensions[COUNT];
    struct mime_table *table;
    char path[32];

    for (size_t i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof(texts[i]), "e%zu", i);
        extensions[i] = texts[i];
    }
    table = mime_table_new(extensions, extensions, COUNT); /* each extension is its own type */
    assert_non_null(table);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(path, sizeof(path), "/x.E%zu", i);
        assert_ptr_equal(mime_type(table, path), extensions[i]);
    }
    assert_string_equal(mime_type(table, "/x.e2000"), unknown);
    mime_table_free(table);
    mime_table_free(NULL);
}
