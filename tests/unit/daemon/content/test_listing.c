/* Directory listings: entries, order, HTML and JSON. */
#include "common/macros.h"
#include "daemon/content/listing.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *index_names[] = {(char[]){"index.html"}};
static const struct config_words index_html = {index_names, 1};

static char base[] = "/tmp/test-listing-XXXXXX";
static struct files_root root;

static void make_file(const char *name, off_t size, time_t when)
{
    const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    int fd = openat(root.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static int make_tree(void **state)
{
    (void)state;
    if (mkdtemp(base) == NULL)
        return -1;
    root.fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    root.descriptors = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(root.fd, "site", 0755), 0);
    assert_int_equal(mkdirat(root.fd, "site/Beta", 0755), 0);
    assert_int_equal(mkdirat(root.fd, "site/.git", 0755), 0);
    assert_int_equal(mkdirat(root.fd, "empty", 0755), 0);
    make_file("site/alpha", 300, 1000000000);
    make_file("site/Gamma", 20, 1200000000);
    make_file("site/delta <1>", 20, 1100000000);
    make_file("site/.hidden", 1, 0);
    make_file("site/back\\slash", 1, 0);
    make_file("site/line\nfeed", 1, 0);
    make_file("outside", 5, 0);
    assert_int_equal(mkfifoat(root.fd, "site/fifo", 0644), 0);
    assert_int_equal(mkdirat(root.fd, "indexed", 0755), 0);
    make_file("indexed/index.html", 5, 0);
    assert_int_equal(symlinkat("index.html", root.fd, "indexed/link.html"), 0);
    assert_int_equal(symlinkat("none", root.fd, "indexed/dangling.html"), 0);
    assert_int_equal(mkdirat(root.fd, "indexed/below.html", 0755), 0);
    assert_int_equal(symlinkat("alpha", root.fd, "site/link"), 0);
    assert_int_equal(symlinkat("Beta", root.fd, "site/way"), 0);
    assert_int_equal(symlinkat("../../..", root.fd, "site/out"), 0);
    assert_int_equal(symlinkat("nowhere", root.fd, "site/dangling"), 0);
    return 0;
}

static int remove_tree(void **state)
{
    char command[64];

    (void)state;
    close(root.fd);
    close(root.descriptors);
    snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command) == 0 ? 0 : -1;
}

const struct test_fixture test_group_fixture = {make_tree, remove_tree};

static struct listing_order order_of(const char *query)
{
    return listing_order_read(span_of(query));
}

/* The names in order, separated by blanks, directories with a slash. */
static void names_of(const struct listing *listing, char *names, size_t size)
{
    size_t used = 0;

    names[0] = '\0';
    for (size_t i = 0; i < listing->count; i++)
        used += (size_t)snprintf(names + used, size - used, "%s%s,", listing->entry[i].name,
                                 listing->entry[i].directory ? "/" : "");
}

TEST(entries_are_in_requested_order)
{
    static const struct {
        const char *query, *names;
    } cases[] = {
        {"", "Beta/,alpha,delta <1>,Gamma,"},
        {"sort=name", "Beta/,alpha,delta <1>,Gamma,"},
        {"sort=name&order=desc", "Beta/,Gamma,delta <1>,alpha,"},
        {"order=desc&sort=name", "Beta/,Gamma,delta <1>,alpha,"},
        {"sort=size", "Beta/,delta <1>,Gamma,alpha,"},
        {"sort=size&order=desc", "Beta/,alpha,delta <1>,Gamma,"},
        {"sort=time&order=asc", "Beta/,alpha,delta <1>,Gamma,"},
        {"sort=time&order=desc", "Beta/,Gamma,delta <1>,alpha,"},
        {"sort=colour&order=up&&x", "Beta/,alpha,delta <1>,Gamma,"},
        {"sort=sizes&sort=tim", "Beta/,alpha,delta <1>,Gamma,"},
    };
    char names[256];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct listing_order order = order_of(cases[i].query);
        struct listing listing;

        assert_int_equal(listing_read(&root, "/site/", &index_html, false, &order, &listing), 0);
        names_of(&listing, names, sizeof(names));
        assert_string_equal(names, cases[i].names);
        assert_int_equal(listing.total, listing.count);
        listing_free(&listing);
    }
}

/* Another directory may have got the path after the lookup of the index file. */
TEST(directory_with_index_is_not_listed)
{
    static const struct {
        const char *index;
        int result;
    } cases[] = {{"index.html", EEXIST}, {"link.html", EEXIST}, {"dangling.html", 0},
                 {"below.html", 0},      {"none.html", 0},      {"", 0}};
    struct listing_order order = order_of("");

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *names[] = {(char[]){"none"}, (char *)(uintptr_t)cases[i].index};
        const struct config_words index = {names, ARRAY_LENGTH(names)};
        struct listing listing;

        assert_int_equal(listing_read(&root, "/indexed/", &index, false, &order, &listing),
                         cases[i].result);
        listing_free(&listing);
    }
}

TEST(only_served_entries_are_listed)
{
    struct listing_order order = order_of("");
    struct listing listing;
    char names[256];

    assert_int_equal(listing_read(&root, "/site/", &index_html, true, &order, &listing), 0);
    names_of(&listing, names, sizeof(names));
    assert_string_equal(names, ".git/,Beta/,.hidden,alpha,delta <1>,Gamma,");
    listing_free(&listing);
    root.links = FILES_LINKS_INSIDE;
    assert_int_equal(listing_read(&root, "/site/", &index_html, false, &order, &listing), 0);
    names_of(&listing, names, sizeof(names));
    assert_string_equal(names, "Beta/,way/,alpha,delta <1>,Gamma,link,");
    assert_int_equal(listing.entry[5].size, 300);
    listing_free(&listing);
    root.links = FILES_LINKS_DENY;
}

TEST(file_is_enotdir)
{
    struct listing_order order = order_of("");
    struct listing listing;

    assert_int_equal(listing_read(&root, "/none/", &index_html, false, &order, &listing), ENOENT);
    assert_int_equal(listing_read(&root, "/outside", &index_html, false, &order, &listing),
                     ENOTDIR);
    assert_int_equal(listing_read(&root, "/site/way/", &index_html, false, &order, &listing),
                     ELOOP);
}

static char *text_of(const char *path, const char *query, bool json)
{
    struct listing_order order = order_of(query);
    struct listing listing;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    assert_int_equal(listing_read(&root, path, &index_html, false, &order, &listing), 0);
    if (json)
        listing_write_json(&listing, out);
    else
        listing_write_html(&listing, &order, path, out);
    assert_int_equal(fclose(out), 0);
    listing_free(&listing);
    return text;
}

TEST(json_is_well_formed)
{
    char *text = text_of("/site/", "", true);
    json_t *list = json_loads(text, 0, NULL), *entry;

    assert_int_equal(json_array_size(list), 4);
    entry = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(entry, "name")), "Beta");
    assert_string_equal(json_string_value(json_object_get(entry, "type")), "directory");
    assert_null(json_object_get(entry, "size"));
    entry = json_array_get(list, 2);
    assert_string_equal(json_string_value(json_object_get(entry, "name")), "delta <1>");
    assert_string_equal(json_string_value(json_object_get(entry, "type")), "file");
    assert_int_equal(json_integer_value(json_object_get(entry, "size")), 20);
    assert_string_equal(json_string_value(json_object_get(entry, "mtime")), "2004-11-09T11:33:20Z");
    json_decref(list);
    free(text);
    text = text_of("/empty/", "", true);
    list = json_loads(text, 0, NULL);
    assert_true(json_is_array(list) && json_array_size(list) == 0);
    json_decref(list);
    free(text);
}

TEST(html_links_are_escaped)
{
    static const char *const parts[] = {
        "<title>/site/</title>",
        "<h1><a href=\"../\">/</a> site</h1>",
        "<a href=\"../\">../</a>",
        "<a href=\"./Beta/\">Beta/</a>",
        "<a href=\"./delta%20%3C1%3E\">delta &lt;1&gt;</a>",
        "<td class=\"n\" title=\"300 bytes\">300 B</td>",
        "<time datetime=\"2001-09-09T01:46:40Z\"",
        "aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a>",
        "<a href=\"?sort=name&amp;order=asc\">Name</a>",
        "<p>1 directory, 3 files, 340 B</p>",
    };
    char *text = text_of("/site/", "sort=size&order=desc", false);

    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("no %s in %s", parts[i], text);
    assert_null(strstr(text, "<1>"));
    assert_null(strstr(text, "Only")); /* all entries are shown */
    free(text);
    text = text_of("/", "", false);
    assert_non_null(strstr(text, "<h1>/</h1>"));
    assert_null(strstr(text, "\"../\""));
    free(text);
}

TEST(breadcrumbs_link_upwards)
{
    const struct listing listing = {.count = 0};
    struct listing_order order = order_of("");
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    listing_write_html(&listing, &order, "/a/b&c/d/", out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "<h1><a href=\"../../../\">/</a> <a href=\"../../\">a</a> / "
                                 "<a href=\"../\">b&amp;c</a> / d</h1>"));
    free(text);
}

TEST(large_directory_is_cut_with_a_note)
{
    const struct listing listing = {.count = 0, .total = 17};
    struct listing_order order = order_of("");
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    listing_write_html(&listing, &order, "/", out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "Only 0 of 17 entries are shown."));
    free(text);
}

TEST(entries_over_maximum_are_counted)
{
    struct listing_order order = order_of("");
    struct listing listing;
    char name[32];

    assert_int_equal(mkdirat(root.fd, "large", 0755), 0);
    make_file("large/one", 0, 0);
    for (int i = 1; i < LISTING_MAX + 5; i++) {
        snprintf(name, sizeof(name), "large/%d", i);
        assert_int_equal(linkat(root.fd, "large/one", root.fd, name, 0), 0);
    }
    assert_int_equal(listing_read(&root, "/large/", &index_html, false, &order, &listing), 0);
    assert_int_equal(listing.count, LISTING_MAX);
    assert_int_equal(listing.total, LISTING_MAX + 5);
    listing_free(&listing);
}
