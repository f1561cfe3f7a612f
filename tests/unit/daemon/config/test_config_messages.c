/* Every error message of the configuration, in full: place, line, carets and advice. */
#include "common/macros.h"
#include "daemon/config/config.h"
#include "daemon/config/internal.h"
#include "daemon/config/keys.h"
#include "daemon/config/value.h"
#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <stdlib.h>
#include <string.h>

struct error_case {
    const char *text;
    const char *expected;
};

#define AT(position) "/etc/t.ini:" position ": error: "

#define HEADERS_FORMS                                                                              \
    "write [headers], [headers /prefix], [headers *.extension], or always before the argument, "   \
    "as "                                                                                          \
    "in [headers always /prefix], or a host before it, as in [headers host www.example.org]"

/* A word of a line, and what is said about it. */
struct word_error {
    const char *text;
    int line, column;
    const char *word; /* empty: the end of the line */
    const char *problem, *advice;
};

static const struct word_error file_errors[] = {
    /* names */
    {"[server]\nlisen = 127.0.0.1:80\n", 2, 1, "lisen", "[server] has no key 'lisen'",
     "did you mean 'listen'?"},
    {"[server]\nbacklog = 3\n", 2, 1, "backlog", "[server] has no key 'backlog'",
     "'backlog' belongs to [connections]"},
    {"[server]\nbacklogg = 3\n", 2, 1, "backlogg", "[server] has no key 'backlogg'",
     "did you mean 'backlog' in [connections]?"},
    {"[server]\nport = 80\n", 2, 1, "port", "[server] has no key 'port'", "did you mean 'listen'?"},
    {"[server]\nWorker-Processes = 8\n", 2, 1, "Worker-Processes",
     "[server] has no key 'Worker-Processes'", "did you mean 'processes' in [workers]?"},
    {"[tls]\nocsp = site.ocsp\n", 2, 1, "ocsp", "[tls] has no key 'ocsp'",
     "OCSP stapling is no longer supported: remove the key"},
    {"[control]\nzzzzzzzz = 3\n", 2, 1, "zzzzzzzz", "[control] has no key 'zzzzzzzz'",
     "valid keys: socket, mode, group"},
    {"[wrkers]\nprocesses = 0\n  1\nx = 2\n", 1, 2, "wrkers", "unknown section [wrkers]",
     "did you mean [workers]?"},
    {"[]\n", 1, 2, "]", "unknown section []",
     "valid sections: [server] [workers] [connections] [tls] [http2] [limits] [cache] [files] "
     "[log] [headers] [redirect] [access] [cors] [ratelimit] [host] [proxy] [control] [metrics] "
     "[acme] [arithmetic] [mime]"},
    {"[server /x]\n", 1, 9, "/x", "the section does not take this argument", "write [server]"},
    {"[headers x]\nA = b\n", 1, 10, "x", "the section does not take this argument", HEADERS_FORMS},
    {"[headers host a..b]\nA = c\n", 1, 10, "host a..b", "the section does not take this argument",
     HEADERS_FORMS},
    {"[headers *.]\n", 1, 10, "*.", "the section does not take this argument", HEADERS_FORMS},
    /* [headers] */
    {"[headers]\nA B = c\n", 2, 1, "A B", "'A B' is not a field name",
     "use letters, digits and '-', as in Cache-Control"},
    {"[headers /a]\ncontent-length = 3\n", 2, 1, "content-length", "Content-Length cannot be set",
     "the server sets it"},
    {"[headers]\nContent-Type = a/b\n", 2, 1, "Content-Type",
     "Content-Type can only be set for a path",
     "set it in [headers /path], or in [mime]: extension = type, default = type"},
    {"[headers *.x]\ncontent-type = a/b\n", 2, 1, "content-type",
     "Content-Type can only be set for a path",
     "set it in [headers /path], or in [mime]: extension = type, default = type"},
    {"[headers /x]\nContent-Type = json\n", 2, 16, "json", "'json' is not a media type",
     "examples: text/plain, text/html; charset=utf-8"},
    {"[headers /x]\nContent-Type =\n", 2, 15, "", "'' is not a media type",
     "examples: text/plain, text/html; charset=utf-8"},
    {"[headers]\nLast-Modified = now\n", 2, 17, "now", "Last-Modified can only be removed",
     "write 'Last-Modified =': the server derives it from the file"},
    {"[headers /a/]\nA = 1\n[headers /a]\na = 2\n", 4, 1, "a", "'a' is already set on line 2",
     "remove one of the two lines"},
    {"[headers always x]\nA = b\n", 1, 10, "always x", "the section does not take this argument",
     HEADERS_FORMS},
    {"[headers always /a]\nExpires = 0\n[headers /a]\nExpires = 0\n[headers always /a/]\nexpires = "
     "1\n",
     6, 1, "expires", "'expires' is already set on line 2", "remove one of the two lines"},
    {"[headers always]\nX-Frame-Options = DENY\n", 2, 1, "X-Frame-Options",
     "X-Frame-Options does not need always",
     "set it without always: only Cache-Control, Expires and similar fields are limited to "
     "successful responses"},
    {"[headers *.x]\nServer = x\n", 2, 1, "Server", "Server is the same in all responses",
     "set it in [headers]"},
    {"[arithmetic]\nprefix = /\n", 2, 10, "/", "'/' is not a valid prefix",
     "write a path, as in /arithmetic"},
    /* [files] */
    {"[files]\nfallback = index.html\n", 2, 12, "index.html",
     "'index.html' is not a path of requests", "a path begins with '/'"},
    {"[files]\nfallback = /app/*\n", 2, 12, "/app/*", "'/app/' is a directory",
     "write the path of a file, as in /index.html"},
    {"[files]\nfollow_into = /tmp\n", 2, 15, "/tmp",
     "follow_into has no effect without symlinks = follow",
     "set symlinks = follow, or remove the line"},
    {"[files]\nsymlinks = follow\nfollow_into = /tmp, /no/such\n", 3, 15, "/tmp, /no/such",
     "/no/such: No such file or directory", "name existing directories"},
    /* syntax */
    {"root = /\n", 1, 1, "root", "the key 'root' is not in a section",
     "'root' belongs to [server]"},
    {"[server\n", 1, 1, "[server", "the ']' is missing", "write [section]"},
    {"[server] name = x\n", 1, 10, "name = x", "text after the section",
     "put keys on a line of their own"},
    {"[server]\nhello there\n", 2, 1, "hello there", "the line has no '='",
     "write key = value, [section] or # comment"},
    {"[server]\nname shop\n", 2, 1, "name shop", "the line has no '='", "write name = VALUE"},
    {"[server]\nlisten: *:80\n", 2, 1, "listen: *:80", "the line has no '='",
     "write listen = VALUE"},
    {"[server]\n = x\n", 2, 2, "", "no key before the '='", "write key = value"},
    {"[server]\nlisten = *:80\n  *:81\n", 3, 3, "*:81", "the line has no '='",
     "write a value on one line, after key ="},
    {"[headers]\nCSP = default-src 'self' ; img-src *\n", 2, 26, "; img-src *",
     "';' cannot start a word of a value",
     "put a comment on a line of its own; a ';' of the value follows its word without a blank"},
    {"[headers]\nX-Frame-Options = DENY X-Content-Type-Options = nosniff\n", 2, 19,
     "DENY X-Content-Type-Options = nosniff",
     "'DENY X-Content-Type-Options = nosniff' is not a value of X-Frame-Options",
     "DENY, SAMEORIGIN"},
    {"[headers]\nx-content-type-options = nosnif\n", 2, 26, "nosnif",
     "'nosnif' is not a value of x-content-type-options", "nosniff"},
    {"[headers]\nCache-Control = public, no-cache no-store\n", 2, 25, "no-cache no-store",
     "'no-cache no-store' is not a value of Cache-Control",
     "separate directives by commas, as in no-cache, max-age=0"},
    {"[log]\nformat = json\nfields = request_id user_agent\n", 3, 10, "request_id user_agent",
     "'user_agent' is not a field of the log",
     "valid: coding request_id; the others, such as agent (User-Agent), are in all lines"},
    {"[headers]\nX-A == b\n", 2, 6, "= b", "'= b' is not a value of X-A",
     "write the value alone, after one '='"},
    {"[headers]\nVary = vary: Origin\n", 2, 8, "vary: Origin",
     "'vary: Origin' is not a value of Vary", "write the value alone, after one '='"},
    {"[server]\nname = a\n\n[server]\nname = b\n", 5, 1, "name", "'name' is already set on line 2",
     "remove one of the two lines"},
    {"[server]\nindex = \"a.html\"\n", 2, 9, "\"a.html\"", "values are not quoted",
     "a value extends to the end of the line: remove the quotes"},
    {"[server]\nindex = a.html # main\n", 2, 16, "# main", "'#' cannot start a word of a value",
     "put the comment on a line of its own"},
    /* columns count characters; tabs are kept; other control characters are replaced */
    /* values */
    {"[server]\nname = a b\n", 2, 9, " ", "' ' is not valid in a name",
     "allowed: letters, digits and . _ -"},
    {"[server]\nname = .a\n", 2, 8, ".a", "'.a' is not a name",
     "allowed: 1 to 48 letters, digits and . _ -, not starting with '.'"},
    {"[log]\naccess =\n", 2, 9, "", "no path given", "remove the line to use the default"},
    {"[workers]\noffload_threads = 9-3\n", 2, 19, "9-3", "'9-3' is an empty range",
     "write the smaller number first"},
    {"[workers]\noffload_threads = 2-99\n", 2, 21, "99", "'99' is out of range",
     "allowed: 1 to 64"},
    {"[workers]\ndispatch = kernle\n", 2, 12, "kernle", "'kernle' is not a valid value",
     "did you mean 'kernel'? allowed: kernel, master"},
    {"[mime]\n.md = text/plain\n", 2, 1, ".md", "'.md' is not a file name extension",
     "write the extension without the dot: html, not .html"},
    {"[mime]\nmd = text\n", 2, 6, "text", "'text' is not a media type",
     "examples: text/plain, text/html; charset=utf-8"},
    {"[mime]\nmd = a/b\nMD = a/c\n", 3, 1, "MD", "'MD' is already set on line 2",
     "remove one of the two lines"},
    /* addresses */
    {"[server]\nlisten = *:80 [::]:80\n", 2, 15, "[::]:80", "'[::]:80' conflicts with '*:80'",
     "list each address and port once"},
    {"[server]\nlisten = https://*:80 *:80\n", 2, 23, "*:80", "'*:80' conflicts with '*:80'",
     "list each address and port once"},
    /* combinations */
    {"[server]\nlisten = https://*:443\n", 2, 10, "https://*:443", "https:// needs a certificate",
     "set [tls] certificate and key, or [acme] enabled = on"},
    {"[tls]\ncertificate = /a\nkey = /a, /b\n", 3, 7, "/a, /b",
     "[tls] has 1 certificates and 2 keys", "list one key for each certificate, in the same order"},
    {"[workers]\nprocesses = 20\n", 2, 13, "20",
     "[workers] processes = 20 is more than max_processes = 16",
     "lower processes or raise max_processes"},
    {"[workers]\nmax_processes = 1\n", 2, 17, "1",
     "[workers] processes = 2 is more than max_processes = 1",
     "lower processes or raise max_processes"},
    {"[workers]\nthreads = 65\n", 2, 11, "65",
     "[workers] threads = 65 is more than max_threads = 64", "lower threads or raise max_threads"},
    {"[limits]\nrequest_line = 33K\n", 2, 16, "33K",
     "[limits] request_line = 33K is more than header_bytes = 32K",
     "lower request_line or raise header_bytes"},
    {"[cache]\nsize = 512K\n", 2, 8, "512K", "[cache] max_object = 1M is more than size = 512K",
     "lower max_object or raise size"},
    {"[server]\nindex = a/b\n", 2, 9, "a/b", "'a/b' is not a file name",
     "write file names without a path, as in index.html index.htm"},
    {"[server]\nindex = a ..\n", 2, 9, "a ..", "'..' is not a file name",
     "write file names without a path, as in index.html index.htm"},
    {"[server]\nindex =\n", 2, 8, "", "no index file given",
     "write file names without a path, as in index.html index.htm"},
    {"[files]\nextensions = html .htm\n", 2, 14, "html .htm", "'.htm' is not a file name extension",
     "write the extension without the dot: html, not .html"},
    {"[files]\ncoded_names = br deflate\n", 2, 15, "br deflate",
     "'deflate' is not the suffix of a coding", "allowed: br, zst, gz"},
    {"[host a.test]\nextensions = a/b\n", 2, 14, "a/b", "'a/b' is not a file name extension",
     "write the extension without the dot: html, not .html"},
    {"[host a.test]\nfallback = /../b.html\n", 2, 12, "/../b.html",
     "'/../b.html' is not a path of requests", "no request can have this path"},
    {"[files]\nerror_pages = errors\n", 2, 15, "errors", "'errors' is not a path of requests",
     "a path begins with '/'"},
};

/* Lines that are not shown as they are, several errors, and errors of the file. */
static const struct error_case other_file_errors[] = {
    {"[headers]\nA = b\xc3\xa4\n", AT("2:6") "a field value cannot have byte 0xc3\n"
                                             "    A = b\xc3\xa4\n"
                                             "         ^\n"
                                             "    use ASCII only\n"},
    {"[server]\nindex = a\033[31mb\n", AT("2:10") "the line has a control character (byte 0x1b)\n"
                                                  "    index = a?[31mb\n"
                                                  "             ^\n"
                                                  "    remove it; is this a text file in UTF-8?\n"},
    {"\xff\xfe[\n", "/etc/t.ini: error: the file is in UTF-16\n    save it as UTF-8\n"},
    {"[cache]\nsize = \tgr\xc3\xbc\xc3\x9f\n",
     AT("2:9") "'gr\xc3\xbc\xc3\x9f' is not a size\n"
               "    size = \tgr\xc3\xbc\xc3\x9f\n"
               "           \t^^^^\n"
               "    examples: 4096, 64K, 16M, 1G; allowed: 64K to 1T\n"},
    {"[server]\ngr\xc3\xbc\xc3\x9f = \xff\n",
     AT("2:8") "the line has a control character or is not UTF-8 (byte 0xff)\n"
               "    gr\xc3\xbc\xc3\x9f = ?\n"
               "           ^\n"
               "    remove it; is this a text file in UTF-8?\n"},
    {"[server]\nroot = \xc2\x9b[2J\n",
     AT("2:8") "the line has a control character or is not UTF-8 (byte 0xc2)\n"
               "    root = ??[2J\n"
               "           ^\n"
               "    remove it; is this a text file in UTF-8?\n"},
    {"[server]\nroot = a\xe2\x80\xaez\n",
     AT("2:9") "the line has a control character or is not UTF-8 (byte 0xe2)\n"
               "    root = a???z\n"
               "            ^\n"
               "    remove it; is this a text file in UTF-8?\n"},
    {"[server]\nlisten = localhost:80,1.2.3.4\n",
     AT("2:10") "'localhost:80' has a host name; names are not resolved\n"
                "    listen = localhost:80,1.2.3.4\n"
                "             ^^^^^^^^^^^^\n"
                "    write an IP address: 127.0.0.1:8080, [::1]:8080, or *:8080 for all "
                "addresses\n" AT(
                    "2:23") "'1.2.3.4' has no port\n"
                            "    listen = localhost:80,1.2.3.4\n"
                            "                          ^^^^^^^\n"
                            "    write ADDRESS:PORT, as in 127.0.0.1:8080, [::1]:8080 or *:8080\n"},
    {"[server]\nlisten = ftp://*:80 https://*:443/x\n",
     AT("2:10") "'ftp://*:80' has an unknown scheme\n"
                "    listen = ftp://*:80 https://*:443/x\n"
                "             ^^^^^^^^^^\n"
                "    write http:// or https://, or only ADDRESS:PORT\n" AT(
                    "2:21") "'https://*:443/x' has a path after the address\n"
                            "    listen = ftp://*:80 https://*:443/x\n"
                            "                        ^^^^^^^^^^^^^^^\n"
                            "    write only SCHEME://ADDRESS:PORT, as in https://*:443\n"},
};

static void expect_messages(const char *text, const char *override, const char *messages)
{
    struct loaded loaded;

    load(&loaded, text, override);
    assert_string_equal(loaded.messages, messages);
    assert_true(loaded.errors > 0);
    release(&loaded);
}

/* The message has the place, the line, carets under the word, and the advice. */
static void expect_word_error(const struct word_error *error, const char *override)
{
    const char *line = error->text;
    int length, marked = (int)strlen(error->word);
    char expected[2048], position[32] = "", carets[256];

    for (int i = 1; i < error->line; i++)
        line = strchr(line, '\n') + 1;
    length = (int)strcspn(line, "\n");
    assert_memory_equal(line + error->column - 1, error->word, (size_t)marked);
    memset(carets, '^', sizeof(carets));
    if (error->line > 0)
        snprintf(position, sizeof(position), ":%d:%d", error->line, error->column);
    snprintf(expected, sizeof(expected), "%s%s: error: %s\n    %.*s\n    %*s%.*s\n    %s\n",
             override != NULL ? "-o 2" : "/etc/t.ini", position, error->problem, length, line,
             error->column - 1, "", marked > 0 ? marked : 1, carets, error->advice);
    expect_messages(override != NULL ? "" : error->text, override, expected);
}

TEST(bad_file_is_reported_with_line_and_advice)
{
    for (size_t i = 0; i < ARRAY_LENGTH(file_errors); i++)
        expect_word_error(&file_errors[i], NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(other_file_errors); i++)
        expect_messages(other_file_errors[i].text, NULL, other_file_errors[i].expected);
}

static const struct word_error override_errors[] = {
    {"server.lisen=x", 0, 8, "lisen", "[server] has no key 'lisen'", "did you mean 'listen'?"},
    {"srver.listen=x", 0, 1, "srver", "unknown section [srver]", "did you mean [server]?"},
    {"listen=x", 0, 1, "listen", "the section is missing", "did you mean server.listen?"},
    {"port=80", 0, 1, "port", "the section is missing", "did you mean server.listen?"},
    {"qqqqqqqqqqqqqq=x", 0, 1, "qqqqqqqqqqqqqq", "the section is missing",
     "write section.key=value, as in server.listen=127.0.0.1:8080"},
    {"server.listen", 0, 1, "server.listen", "the override has no '='",
     "write section.key=value, as in server.listen=127.0.0.1:8080"},
    {"", 0, 1, "", "the override has no '='",
     "write section.key=value, as in server.listen=127.0.0.1:8080"},
    {"control.mode = 9", 0, 16, "9", "'9' is not an octal number",
     "example: 0600; allowed: 0000 to 0777"},
    {"mime.x=y", 0, 8, "y", "'y' is not a media type",
     "examples: text/plain, text/html; charset=utf-8"},
    {"headers x.A=b", 0, 9, "x", "the section does not take this argument", HEADERS_FORMS},
    {"server.root=/etc/passwd", 0, 13, "/etc/passwd", "/etc/passwd is not a directory",
     "set root to the directory to serve"},
    {"server.root=/no/such", 0, 13, "/no/such", "/no/such: No such file or directory",
     "set root to the directory to serve"},
};

TEST(bad_override_is_reported_with_advice)
{
    for (size_t i = 0; i < ARRAY_LENGTH(override_errors); i++)
        expect_word_error(&override_errors[i], override_errors[i].text);
    expect_messages("", "server.index=a\nb",
                    "-o 2: error: the line has a control character (byte 0x0a)\n"
                    "    server.index=a?b\n"
                    "                  ^\n"
                    "    remove it; is this a text file in UTF-8?\n");
}

static void expect_for_many_headers(const char *section, const char *messages)
{
    char text[8192];
    struct loaded loaded;

    snprintf(text, sizeof(text), "%s\n", section);
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "A%d = %0100d\n", i, 0);
    load(&loaded, text, NULL);
    assert_string_equal(loaded.messages, messages);
    release(&loaded);
}

TEST(too_many_header_bytes_is_an_error)
{
    expect_for_many_headers("[headers]",
                            "[headers]: error: the fields together have 4270 bytes (at most 4096)\n"
                            "    shorten or remove some of them\n");
}

/* Whatever else is wrong with its section. */
TEST(missing_host_is_one_error)
{
    expect_for_many_headers("[headers host a.test]",
                            "[headers host]: error: there is no [host a.test]\n"
                            "    add a section [host NAME]\n");
}

TEST(bad_default_is_reported_as_default)
{
    struct loaded loaded;

    load_bytes(&loaded, "", 0, NULL, 0); /* /etc/www does not exist */
    assert_string_equal(loaded.messages, "default: error: /etc/www: No such file or directory\n"
                                         "    root = www\n"
                                         "           ^^^\n"
                                         "    set root to the directory to serve\n");
    release(&loaded);
}

TEST(bad_address_is_one_error)
{
    static const char *const bad[] = {
        "127.0.0.1",
        "8080",
        ":8080",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:-1",
        "1.2.3.4:65536",
        "1.2.3:80",
        "1.2.3.256:80",
        "01.2.3.4:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[]:80",
        "[1.2.3.4]:80",
        "[::1%nosuch]:80",
        "[fe80::1]:80",
        "www.example:80",
        "unix:tmp/x",
        "unix:",
        "unix:/a unix:/a",
        ",",
        "",
        "*",
        "**:80",
        "1.2.3.4:80:90",
        "1.2.3.4:80 1.2.3.4:80",
        "*:80 0.0.0.0:80",
        "0.0.0.0:80,*:80",
    };
    char text[128];

    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct loaded loaded;

        snprintf(text, sizeof(text), "server.listen=%s", bad[i]);
        load(&loaded, "", text);
        if (loaded.errors != 1)
            fail_msg("'%s' gave %d errors: %s", bad[i], loaded.errors, loaded.messages);
        release(&loaded);
    }
}

/* A value of the wrong type and one out of range, for every key. */

struct wrong {
    const char *text;
    const char *problem;
};

static struct wrong wrong_type(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_COUNT:
    case CONFIG_AUTO:
    case CONFIG_SPAN:
        return (struct wrong){"1x", "'1x' is not a whole number\n"};
    case CONFIG_SIZE:
        return (struct wrong){"1x", "'1x' is not a size\n"};
    case CONFIG_TIME:
        return (struct wrong){"1x", "'1x' is not a duration\n"};
    case CONFIG_MODE:
        return (struct wrong){"1x", "'1x' is not an octal number\n"};
    case CONFIG_SWITCH:
        return (struct wrong){"1x", "'1x' is neither on nor off\n"};
    case CONFIG_CHOICE:
        return (struct wrong){"1x", "'1x' is not a valid value\n"};
    case CONFIG_ADDRESS:
        return (struct wrong){"1x", "'1x' has no port\n"};
    case CONFIG_NETWORKS:
        return (struct wrong){"1x", "'1x' is not an address or network\n"};
    case CONFIG_NAME:
        return (struct wrong){"1/x", "'/' is not valid in a name\n"};
    case CONFIG_TEXT:
    case CONFIG_SECRET:
    case CONFIG_PATH:
    case CONFIG_PATHS:
    case CONFIG_NAMES:
        break;
    case CONFIG_PREFIX:
        return (struct wrong){"x", "'x' is not a path of requests\n"};
    }
    return (struct wrong){"\"x\"", "values are not quoted\n"};
}

/* The messages when KEY is set to TEXT; the caller frees them. */
static char *messages_for(const struct config_key *key, const char *text)
{
    struct loaded loaded;
    char override[160];

    snprintf(override, sizeof(override), "%s.%s=%s", key->section, key->name, text);
    load(&loaded, "", override);
    if (loaded.errors == 0)
        config_free(&loaded.config);
    return loaded.messages;
}

TEST(value_of_wrong_type_is_an_error_for_every_key)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        struct wrong wrong = wrong_type(&config_keys[i]);
        char *messages = messages_for(&config_keys[i], wrong.text);

        if (strstr(messages, wrong.problem) == NULL)
            fail_msg("%s: %s", config_keys[i].name, messages);
        free(messages);
    }
}

TEST(value_above_range_is_an_error_for_every_key)
{
    size_t ranges = 0;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        const char *dots = strstr(key->allowed, "..");
        char *messages, above[40], allowed[80];

        if (dots == NULL)
            continue;
        ranges++;
        snprintf(above, sizeof(above), key->type == CONFIG_MODE ? "%llo" : "%llu",
                 (unsigned long long)config_value_max(key) + 1);
        if (key->type == CONFIG_TIME)
            strcat(above, "ms");
        messages = messages_for(key, above);
        config_value_allowed(key, allowed, sizeof(allowed));
        if (strstr(messages, "is out of range\n") == NULL || strstr(messages, allowed) == NULL)
            fail_msg("%s = %s: %s", key->name, above, messages);
        free(messages);
        messages =
            messages_for(key, dots + 2); /* the maximum itself may only conflict with another key */
        assert_null(strstr(messages, "is out of range\n"));
        free(messages);
    }
    assert_true(ranges >= 10);
}

/* Size. */

TEST(line_above_16_kib_is_an_error)
{
    static char text[32 * 1024];
    char expected[1024], carets[101];
    struct loaded loaded;

    snprintf(text, sizeof(text), "# %020000d\n[headers]\nA = %0*d\n[server]\nindex = %0*d\n", 0,
             CONFIG_LINE_MAX / 8, 0, 200, 0);
    load(&loaded, text, NULL);
    assert_string_equal(loaded.messages, "");
    assert_int_equal(strlen(loaded.config.server_index.item[0]), 200);
    release(&loaded);
    snprintf(text, sizeof(text), "[server]\nroot = %0*d\n", CONFIG_LINE_MAX - 6, 0);
    memset(carets, ' ', 100);
    carets[100] = '\0';
    snprintf(expected, sizeof(expected),
             AT("2:16385") "the line has 16385 bytes (at most 16384)\n"
                           "    ...%0101d\n"
                           "       %s^\n"
                           "    shorten it; many networks can be in a file: @FILE\n",
             0, carets);
    load(&loaded, text, NULL);
    assert_string_equal(loaded.messages, expected);
    release(&loaded);
}

TEST(nul_byte_is_an_error)
{
    static const char text[] = "# \0\n[server]\nindex\0 = a\nname\0\n";
    const char *const overrides[] = {ROOT};
    struct loaded loaded;

    load_bytes(&loaded, text, sizeof(text) - 1, overrides, 1);
    assert_int_equal(loaded.errors, 2);
    assert_string_equal(loaded.messages,
                        AT("3:6") "the line has a control character (byte 0x00)\n"
                                  "    index? = a\n"
                                  "         ^\n"
                                  "    remove it; is this a text file in UTF-8?\n" AT(
                                      "4:5") "the line has a control character (byte 0x00)\n"
                                             "    name?\n"
                                             "        ^\n"
                                             "    remove it; is this a text file in UTF-8?\n");
    release(&loaded);
}

/* Pseudo-random bytes, the same in every run. */
static char *garbage(size_t length)
{
    char *bytes = malloc(length);
    uint32_t seed = 1;

    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (char)(seed >> 24);
    }
    return bytes;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;

    while ((text = strstr(text, word)) != NULL) {
        text++;
        n++;
    }
    return n;
}

TEST(garbage_prints_20_errors_and_a_count)
{
    enum { BYTES = 1024 * 1024 };
    char *bytes = garbage(BYTES);
    struct loaded loaded;
    char last[64];

    load_bytes(&loaded, bytes, BYTES, NULL, 0);
    assert_true(loaded.errors > 1000);
    assert_int_equal(count(loaded.messages, ": error: "), 20);
    snprintf(last, sizeof(last), "\nand %d more errors\n", loaded.errors - 20);
    assert_non_null(strstr(loaded.messages, last));
    for (const char *c = loaded.messages; *c != '\0'; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n' || *c == '\t');
    release(&loaded);
    free(bytes);
}

TEST(more_than_64_addresses_is_one_error)
{
    char text[4096] = "server.listen=";
    struct loaded loaded;

    for (int i = 0; i < 70; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " 127.0.0.1:%d", 1000 + i);
    load(&loaded, "", text);
    assert_int_equal(loaded.errors, 1);
    assert_non_null(strstr(loaded.messages, "there are more than 64 addresses"));
    assert_non_null(strstr(loaded.messages, "\n    ..."));
    release(&loaded);
}

TEST(unreadable_file_is_one_error)
{
    static const struct error_case cases[] = {
        {"/no/such.ini", "/no/such.ini: error: No such file or directory\n"
                         "    name a readable file with -f FILE\n"},
        {"/tmp", "/tmp: error: it is a directory\n"
                 "    name a file in it\n"},
        {"/dev/zero", "/dev/zero: error: the file is larger than 16 MiB\n"
                      "    is this the right file?\n"},
    };
    struct loaded loaded;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        load_file(&loaded, cases[i].text, NULL, 0);
        assert_string_equal(loaded.messages, cases[i].expected);
        assert_int_equal(loaded.errors, 1);
        release(&loaded);
    }
}

/* Keys of whose effect model and dispatch decide, with other values than the defaults. */
#define OF_MODELS                                                                                  \
    "offload_threads = 3\noffload_queue = 9\nconnection_queue = 9\nqueue_order = lifo\n"           \
    "queue_full = drop-tail\nbalance = least-connections\nbalance_connections = off\n"             \
    "[http2]\nmax_concurrent_streams = 9\n"

#define NOT(key, decider) key " has no effect without " decider "\n"
#define EVENTS            "workers.model = events"
#define QUEUE             "workers.model = pool or thread"
#define NOTE_HTTP1(model) "model = " model " speaks HTTP/1 only: http2.enabled has no effect\n"
#define NOTE_BALANCE      NOT("workers.balance", "workers.dispatch = master, or UNIX sockets")
#define NOTES_OF_QUEUE    NOT("workers.queue_order", QUEUE) NOT("workers.queue_full", QUEUE)
#define NOTES_OF_EVENTS(of_balance)                                                                \
    NOT("workers.offload_threads", EVENTS)                                                         \
    NOT("workers.offload_queue", EVENTS ", or users in [access]")                                  \
    of_balance NOT("workers.balance_connections", EVENTS)                                          \
        NOT("http2.max_concurrent_streams", EVENTS)

static const struct {
    const char *text, *notes;
} note_cases[] = {
    {"", ""},
    /* each model with each dispatch */
    {"[workers]\n" OF_MODELS, NOT("workers.connection_queue", QUEUE
                                  ", or workers.dispatch = master") NOTES_OF_QUEUE NOTE_BALANCE},
    {"[workers]\ndispatch = master\n" OF_MODELS, NOTES_OF_QUEUE},
    {"[workers]\nmodel = pool\n" OF_MODELS, NOTE_HTTP1("pool") NOTES_OF_EVENTS(NOTE_BALANCE)},
    {"[workers]\nmodel = pool\ndispatch = master\n" OF_MODELS,
     NOTE_HTTP1("pool") NOTES_OF_EVENTS("")},
    {"[workers]\nmodel = thread\n" OF_MODELS, NOTE_HTTP1("thread") NOTES_OF_EVENTS(NOTE_BALANCE)},
    {"[workers]\nmodel = thread\ndispatch = master\n" OF_MODELS,
     NOTE_HTTP1("thread") NOTES_OF_EVENTS("")},
    {"[server]\nlisten = unix:/tmp/a\n[workers]\n" OF_MODELS, NOTES_OF_QUEUE},
    {"[workers]\nmodel = pool\n[http2]\nenabled = off\n", ""},
    /* other keys that decide */
    {"[http2]\nenabled = off\nmax_concurrent_streams = 9\n",
     NOT("http2.max_concurrent_streams", "http2.enabled = on")},
    {"[connections]\nkeepalive = off\nkeepalive_timeout = 9s\nkeepalive_requests = 9\n"
     "keepalive_max_open = 9\n",
     NOT("connections.keepalive_requests", "connections.keepalive = on")
         NOT("connections.keepalive_max_open", "connections.keepalive = on")},
    {"[tls]\nkeys_process = off\nprotocols = modern\nsession_tickets = off\nsession_timeout = 1h\n",
     NOT("tls.keys_process", "server.listen = https://ADDRESS")
         NOT("tls.protocols", "server.listen = https://ADDRESS")
             NOT("tls.session_tickets", "server.listen = https://ADDRESS")
                 NOT("tls.session_timeout", "server.listen = https://ADDRESS")},
    {"[server]\nlisten = https://*:443\n[tls]\ncertificate = c.pem\nsession_tickets = off\n"
     "session_timeout = 1h\n",
     NOT("tls.session_timeout", "tls.session_tickets = on")},
    {"[host a.example b.example]\nhsts = max-age=9\n[host c.example]\nhsts = max-age=9\n"
     "[host d.example]\nautoindex = on\n",
     "certificate and hsts of 2 [host] sections (a.example) have no effect without server.listen = "
     "https://ADDRESS\n"},
    {"[limits]\nfailed_logins = 3\n",
     NOT("limits.failed_logins", "metrics.users = FILE, or users in [access]")},
    {"[cache]\nenabled = off\nsize = 1M\nmax_copy = 2K\npolicy = lru\ngzip_level = 1\n",
     NOT("cache.size", "cache.enabled = on") NOT("cache.policy", "cache.enabled = on")
         NOT("cache.gzip_level", "cache.enabled = on")},
    {"[cache]\ncompress = off\nzstd_level = 1\n", NOT("cache.zstd_level", "cache.compress = on")},
    {"[log]\naccess = off\nsample = 9\nfields = coding\n",
     NOT("log.fields", "log.access = FILE, or one in a [host]")
         NOT("log.sample", "log.access = FILE, or one in a [host]")},
    {"[log]\naccess = off\nsample = 9\n[host a.example]\naccess_log = a.log\n", ""},
    {"[log]\nfields = coding\n", NOT("log.fields", "log.format = json")},
    {"[log]\nwhen_full = drop\nwait_timeout = 9s\nsummary_interval = 1m\nlevel = warn\n",
     NOT("log.wait_timeout", "log.when_full = wait")
         NOT("log.summary_interval", "log.level = info")},
    {"[ratelimit]\nburst = 9\nexempt = ::1\n", NOT("ratelimit.burst", "ratelimit.enabled = on") NOT(
                                                   "ratelimit.exempt", "ratelimit.enabled = on")},
    {"[proxy]\ntrusted = ::1\n",
     NOT("proxy.trusted", "proxy.field = X-Forwarded-For or Forwarded, or proxy.listen")},
    {"[proxy]\ntrusted = ::1\nfield = Forwarded\n", ""},
    {"[metrics]\nhosts = a.example\n", NOT("metrics.hosts", "metrics.listen = ADDRESS")},
    {"[metrics]\nlisten = 127.0.0.1:1\nhosts = a.example\n", ""},
    {"[acme]\nemail = a@a.example\nretry = 9m\n",
     NOT("acme.email", "acme.enabled = on") NOT("acme.retry", "acme.enabled = on")},
    {"[arithmetic]\nprefix = /a\n", NOT("arithmetic.prefix", "arithmetic.enabled = on")},
};

static void write_note(void *out, const char *note)
{
    fprintf(out, "%s\n", note);
}

static char *notes_of(const struct config *config, size_t subject, bool activated)
{
    char *notes;
    size_t length;
    FILE *out = open_memstream(&notes, &length);

    assert_non_null(out);
    config_notes(config, subject, activated, write_note, out);
    assert_int_equal(fclose(out), 0);
    return notes;
}

TEST(setting_without_effect_is_a_note)
{
    struct loaded loaded;

    for (size_t i = 0; i < ARRAY_LENGTH(note_cases); i++) {
        char *notes;

        load(&loaded, note_cases[i].text, NULL);
        assert_string_equal(loaded.messages, "");
        notes = notes_of(&loaded.config, KEY_COUNT, false);
        assert_string_equal(notes, note_cases[i].notes);
        free(notes);
        release(&loaded);
    }
}

TEST(notes_obey_subject_and_sockets)
{
    static const struct {
        size_t subject;
        bool activated;
        const char *notes;
    } cases[] = {
        {KEY_COUNT, false, NOTE_BALANCE NOT("tls.protocols", "server.listen = https://ADDRESS")},
        {KEY_COUNT, true, ""},
        {KEY_workers_model, false, ""},
        {KEY_workers_dispatch, false, NOTE_BALANCE},
        {KEY_workers_queue_order, false, NOT("workers.queue_order", QUEUE)}, /* a default */
    };
    struct loaded loaded;

    load(&loaded, "[workers]\nbalance = least-connections\n[tls]\nprotocols = modern\n", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *notes = notes_of(&loaded.config, cases[i].subject, cases[i].activated);

        assert_string_equal(notes, cases[i].notes);
        free(notes);
    }
    release(&loaded);
}
