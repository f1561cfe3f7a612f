/* Every error message of the configuration, in full: place, line, carets and advice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/config/config.h"
#include "daemon/config/internal.h"
#include "daemon/config/keys.h"
#include "daemon/config/value.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <stdlib.h>
#include <string.h>

struct error_case {
    const char *text;
    const char *expected;
};

#define AT(position) "/etc/t.ini:" position ": error: "

static const struct error_case file_errors[] = {
    /* names */
    {"[server]\nlisen = 127.0.0.1:80\n", AT("2:1") "[server] has no key 'lisen'\n"
                                                   "    lisen = 127.0.0.1:80\n"
                                                   "    ^^^^^\n"
                                                   "    did you mean 'listen'?\n"},
    {"[server]\nbacklog = 3\n", AT("2:1") "[server] has no key 'backlog'\n"
                                          "    backlog = 3\n"
                                          "    ^^^^^^^\n"
                                          "    'backlog' belongs to [connections]\n"},
    {"[server]\nbacklogg = 3\n", AT("2:1") "[server] has no key 'backlogg'\n"
                                           "    backlogg = 3\n"
                                           "    ^^^^^^^^\n"
                                           "    did you mean 'backlog' in [connections]?\n"},
    {"[server]\nport = 80\n", AT("2:1") "[server] has no key 'port'\n"
                                        "    port = 80\n"
                                        "    ^^^^\n"
                                        "    did you mean 'listen'?\n"},
    {"[server]\nWorker-Processes = 8\n", AT("2:1") "[server] has no key 'Worker-Processes'\n"
                                                   "    Worker-Processes = 8\n"
                                                   "    ^^^^^^^^^^^^^^^^\n"
                                                   "    did you mean 'processes' in [workers]?\n"},
    {"[tls]\nocsp = site.ocsp\n",
     AT("2:1") "[tls] has no key 'ocsp'\n"
               "    ocsp = site.ocsp\n"
               "    ^^^^\n"
               "    OCSP stapling is no longer supported: remove the key\n"},
    {"[control]\nzzzzzzzz = 3\n", AT("2:1") "[control] has no key 'zzzzzzzz'\n"
                                            "    zzzzzzzz = 3\n"
                                            "    ^^^^^^^^\n"
                                            "    valid keys: socket, mode, group\n"},
    {"[wrkers]\nprocesses = 0\n  1\nx = 2\n", AT("1:2") "unknown section [wrkers]\n"
                                                        "    [wrkers]\n"
                                                        "     ^^^^^^\n"
                                                        "    did you mean [workers]?\n"},
    {"[]\n",
     AT("1:2") "unknown section []\n"
               "    []\n"
               "     ^\n"
               "    valid sections: [server] [workers] [connections] [tls] [http2] [limits] "
               "[cache] [files] [log] [headers] [redirect] [access] [cors] [ratelimit] [host] "
               "[proxy] [control] [metrics] [acme] [arithmetic] "
               "[mime]\n"},
    {"[server /x]\n", AT("1:9") "the section does not take this argument\n"
                                "    [server /x]\n"
                                "            ^^\n"
                                "    write [server]\n"},
    {"[headers x]\nA = b\n", AT("1:10") "the section does not take this argument\n"
                                        "    [headers x]\n"
                                        "             ^\n"
                                        "    write [headers], [headers /prefix], [headers "
                                        "*.extension], or always before the argument, as in "
                                        "[headers always /prefix], or a host before it, as in "
                                        "[headers host www.example.org]\n"},
    {"[headers host a..b]\nA = c\n",
     AT("1:10") "the section does not take this argument\n"
                "    [headers host a..b]\n"
                "             ^^^^^^^^^\n"
                "    write [headers], [headers /prefix], [headers "
                "*.extension], or always before the argument, as in "
                "[headers always /prefix], or a host before it, as in "
                "[headers host www.example.org]\n"},
    {"[headers *.]\n", AT("1:10") "the section does not take this argument\n"
                                  "    [headers *.]\n"
                                  "             ^^\n"
                                  "    write [headers], [headers /prefix], [headers "
                                  "*.extension], or always before the argument, as in "
                                  "[headers always /prefix], or a host before it, as in "
                                  "[headers host www.example.org]\n"},
    /* [headers] */
    {"[headers]\nA B = c\n", AT("2:1") "'A B' is not a field name\n"
                                       "    A B = c\n"
                                       "    ^^^\n"
                                       "    use letters, digits and '-', as in Cache-Control\n"},
    {"[headers /a]\ncontent-length = 3\n", AT("2:1") "Content-Length cannot be set\n"
                                                     "    content-length = 3\n"
                                                     "    ^^^^^^^^^^^^^^\n"
                                                     "    the server sets it\n"},
    {"[headers]\nContent-Type = a/b\n",
     AT("2:1") "Content-Type cannot be set\n"
               "    Content-Type = a/b\n"
               "    ^^^^^^^^^^^^\n"
               "    set media types in [mime]: extension = type\n"},
    {"[headers /a/]\nA = 1\n[headers /a]\na = 2\n", AT("4:1") "'a' is already set on line 2\n"
                                                              "    a = 2\n"
                                                              "    ^\n"
                                                              "    remove one of the two lines\n"},
    {"[headers]\nA = b\xc3\xa4\n", AT("2:6") "a field value cannot have byte 0xc3\n"
                                             "    A = b\xc3\xa4\n"
                                             "         ^\n"
                                             "    use ASCII only\n"},
    {"[headers always x]\nA = b\n",
     AT("1:10") "the section does not take this argument\n"
                "    [headers always x]\n"
                "             ^^^^^^^^\n"
                "    write [headers], [headers /prefix], [headers "
                "*.extension], or always before the argument, as "
                "in [headers always /prefix], or a host before it, as in "
                "[headers host www.example.org]\n"},
    {"[headers always /a]\nExpires = 0\n[headers /a]\nExpires = 0\n[headers always /a/]\nexpires "
     "= 1\n",
     AT("6:1") "'expires' is already set on line 2\n"
               "    expires = 1\n"
               "    ^^^^^^^\n"
               "    remove one of the two lines\n"},
    {"[headers always]\nX-Frame-Options = DENY\n",
     AT("2:1") "X-Frame-Options does not need always\n"
               "    X-Frame-Options = DENY\n"
               "    ^^^^^^^^^^^^^^^\n"
               "    set it without always: only Cache-Control, Expires and similar fields are "
               "limited to successful responses\n"},
    {"[headers *.x]\nServer = x\n", AT("2:1") "Server is the same in all responses\n"
                                              "    Server = x\n"
                                              "    ^^^^^^\n"
                                              "    set it in [headers]\n"},
    {"[arithmetic]\nprefix = /a/\n", AT("2:10") "'/a/' is not a valid prefix\n"
                                                "    prefix = /a/\n"
                                                "             ^^^\n"
                                                "    write a path without a trailing slash, as "
                                                "in /arithmetic\n"},
    /* [files] */
    {"[files]\nfallback = index.html\n", AT("2:12") "'index.html' does not begin with '/'\n"
                                                    "    fallback = index.html\n"
                                                    "               ^^^^^^^^^^\n"
                                                    "    write it from the document root, as in "
                                                    "/index.html\n"},
    {"[files]\nfollow_into = /tmp\n",
     AT("2:15") "follow_into has no effect without symlinks = follow\n"
                "    follow_into = /tmp\n"
                "                  ^^^^\n"
                "    set symlinks = follow, or remove the line\n"},
    {"[files]\nsymlinks = follow\nfollow_into = /tmp, /no/such\n",
     AT("3:15") "/no/such: No such file or directory\n"
                "    follow_into = /tmp, /no/such\n"
                "                  ^^^^^^^^^^^^^^\n"
                "    name existing directories\n"},
    /* syntax */
    {"root = /\n", AT("1:1") "the key 'root' is not in a section\n"
                             "    root = /\n"
                             "    ^^^^\n"
                             "    'root' belongs to [server]\n"},
    {"[server\n", AT("1:1") "the ']' is missing\n"
                            "    [server\n"
                            "    ^^^^^^^\n"
                            "    write [section]\n"},
    {"[server] name = x\n", AT("1:10") "text after the section\n"
                                       "    [server] name = x\n"
                                       "             ^^^^^^^^\n"
                                       "    put keys on a line of their own\n"},
    {"[server]\nhello there\n  more of it\n",
     AT("2:1") "the line has no '='\n"
               "    hello there\n"
               "    ^^^^^^^^^^^\n"
               "    write key = value, [section] or # comment\n"},
    {"[server]\nname shop\n", AT("2:1") "the line has no '='\n"
                                        "    name shop\n"
                                        "    ^^^^^^^^^\n"
                                        "    write name = VALUE\n"},
    {"[server]\n = x\n", AT("2:2") "no key before the '='\n"
                                   "     = x\n"
                                   "     ^\n"
                                   "    write key = value\n"},
    {"[server]\nname = a\n  index = b\n",
     AT("3:3") "an indented line continues the value above it\n"
               "      index = b\n"
               "      ^^^^^^^^^\n"
               "    remove the blanks at its start\n"},
    {"[server]\nname = a\n  [workers]\n",
     AT("3:3") "an indented line continues the value above it\n"
               "      [workers]\n"
               "      ^^^^^^^^^\n"
               "    remove the blanks at its start\n"},
    {"[server]\nname = a\n\n[server]\nname = b\n", AT("5:1") "'name' is already set on line 2\n"
                                                             "    name = b\n"
                                                             "    ^^^^\n"
                                                             "    remove one of the two lines\n"},
    {"[server]\nindex = a\033[31mb\n", AT("2:10") "the line has a control character (byte 0x1b)\n"
                                                  "    index = a?[31mb\n"
                                                  "             ^\n"
                                                  "    remove it; is this a text file in UTF-8?\n"},
    {"[server]\nindex = \"a.html\"\n",
     AT("2:9") "values are not quoted\n"
               "    index = \"a.html\"\n"
               "            ^^^^^^^^\n"
               "    a value extends to the end of the line: remove the quotes\n"},
    {"[server]\nindex = a.html # main\n", AT("2:16") "'#' cannot start a word of a value\n"
                                                     "    index = a.html # main\n"
                                                     "                   ^^^^^^\n"
                                                     "    put the comment on a line of its own\n"},
    {"\xff\xfe[\n", "/etc/t.ini: error: the file is in UTF-16\n    save it as UTF-8\n"},
    /* columns count characters; tabs are kept; other control characters are replaced */
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
    /* values */
    {"[server]\nname = a b\n", AT("2:9") "' ' is not valid in a name\n"
                                         "    name = a b\n"
                                         "            ^\n"
                                         "    allowed: letters, digits and . _ -\n"},
    {"[server]\nname = .a\n",
     AT("2:8") "'.a' is not a name\n"
               "    name = .a\n"
               "           ^^\n"
               "    allowed: 1 to 48 letters, digits and . _ -, not starting with '.'\n"},
    {"[log]\naccess =\n", AT("2:9") "no path given\n"
                                    "    access =\n"
                                    "            ^\n"
                                    "    remove the line to use the default\n"},
    {"[workers]\noffload_threads = 9-3\n", AT("2:19") "'9-3' is an empty range\n"
                                                      "    offload_threads = 9-3\n"
                                                      "                      ^^^\n"
                                                      "    write the smaller number first\n"},
    {"[workers]\noffload_threads = 2-99\n", AT("2:21") "'99' is out of range\n"
                                                       "    offload_threads = 2-99\n"
                                                       "                        ^^\n"
                                                       "    allowed: 1 to 64\n"},
    {"[workers]\ndispatch = kernle\n",
     AT("2:12") "'kernle' is not a valid value\n"
                "    dispatch = kernle\n"
                "               ^^^^^^\n"
                "    did you mean 'kernel'? allowed: kernel, master\n"},
    {"[mime]\n.md = text/plain\n",
     AT("2:1") "'.md' is not a file name extension\n"
               "    .md = text/plain\n"
               "    ^^^\n"
               "    write the extension without the dot: html, not .html\n"},
    {"[mime]\nmd = text\n", AT("2:6") "'text' is not a media type\n"
                                      "    md = text\n"
                                      "         ^^^^\n"
                                      "    examples: text/plain, text/html; charset=utf-8\n"},
    {"[mime]\nmd = a/b\nMD = a/c\n", AT("3:1") "'MD' is already set on line 2\n"
                                               "    MD = a/c\n"
                                               "    ^^\n"
                                               "    remove one of the two lines\n"},
    /* addresses */
    {"[server]\nlisten = *:80\n   [::]:80\n", AT("3:4") "'[::]:80' conflicts with '*:80'\n"
                                                        "       [::]:80\n"
                                                        "       ^^^^^^^\n"
                                                        "    list each address and port once\n"},
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
    {"[server]\nlisten = https://*:80 *:80\n", AT("2:23") "'*:80' conflicts with '*:80'\n"
                                                          "    listen = https://*:80 *:80\n"
                                                          "                          ^^^^\n"
                                                          "    list each address and port once\n"},
    {"[server]\nlisten = ftp://*:80 https://*:443/x\n",
     AT("2:10") "'ftp://*:80' has an unknown scheme\n"
                "    listen = ftp://*:80 https://*:443/x\n"
                "             ^^^^^^^^^^\n"
                "    write http:// or https://, or only ADDRESS:PORT\n" AT(
                    "2:21") "'https://*:443/x' has a path after the address\n"
                            "    listen = ftp://*:80 https://*:443/x\n"
                            "                        ^^^^^^^^^^^^^^^\n"
                            "    write only SCHEME://ADDRESS:PORT, as in https://*:443\n"},
    /* combinations */
    {"[server]\nlisten = https://*:443\n",
     AT("2:10") "https:// needs a certificate\n"
                "    listen = https://*:443\n"
                "             ^^^^^^^^^^^^^\n"
                "    set [tls] certificate and key, or [acme] "
                "enabled = on\n"},
    {"[tls]\ncertificate = /a\nkey = /a, /b\n",
     AT("3:7") "[tls] has 1 certificates and 2 keys\n"
               "    key = /a, /b\n"
               "          ^^^^^^\n"
               "    list one key for each certificate, in the same order\n"},
    {"[workers]\nprocesses = 20\n",
     AT("2:13") "[workers] processes = 20 is more than max_processes = 16\n"
                "    processes = 20\n"
                "                ^^\n"
                "    lower processes or raise max_processes\n"},
    {"[workers]\nmax_processes = 1\n",
     AT("2:17") "[workers] processes = 2 is more than max_processes = 1\n"
                "    max_processes = 1\n"
                "                    ^\n"
                "    lower processes or raise max_processes\n"},
    {"[workers]\nthreads = 65\n",
     AT("2:11") "[workers] threads = 65 is more than max_threads = 64\n"
                "    threads = 65\n"
                "              ^^\n"
                "    lower threads or raise max_threads\n"},
    {"[limits]\nrequest_line = 33K\n",
     AT("2:16") "[limits] request_line = 33K is more than header_bytes = 32K\n"
                "    request_line = 33K\n"
                "                   ^^^\n"
                "    lower request_line or raise header_bytes\n"},
    {"[cache]\nsize = 512K\n", AT("2:8") "[cache] max_object = 1M is more than size = 512K\n"
                                         "    size = 512K\n"
                                         "           ^^^^\n"
                                         "    lower max_object or raise size\n"},
    {"[server]\nindex = a/b\n",
     AT("2:9") "'a/b' is not a file name\n"
               "    index = a/b\n"
               "            ^^^\n"
               "    write a file name without a path, as in index.html\n"},
    {"[files]\nerror_pages = errors\n",
     AT("2:15") "'errors' does not begin with '/'\n"
                "    error_pages = errors\n"
                "                  ^^^^^^\n"
                "    write it from the document root, as in /errors\n"},
};

static void bad_file_is_reported_with_line_and_advice(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(file_errors); i++) {
        struct loaded loaded;

        load(&loaded, file_errors[i].text, NULL);
        assert_string_equal(loaded.messages, file_errors[i].expected);
        assert_true(loaded.errors > 0);
        release(&loaded);
    }
}

static const struct error_case override_errors[] = {
    {"server.lisen=x", "-o 2: error: [server] has no key 'lisen'\n"
                       "    server.lisen=x\n"
                       "           ^^^^^\n"
                       "    did you mean 'listen'?\n"},
    {"srver.listen=x", "-o 2: error: unknown section [srver]\n"
                       "    srver.listen=x\n"
                       "    ^^^^^\n"
                       "    did you mean [server]?\n"},
    {"listen=x", "-o 2: error: the section is missing\n"
                 "    listen=x\n"
                 "    ^^^^^^\n"
                 "    did you mean server.listen?\n"},
    {"port=80", "-o 2: error: the section is missing\n"
                "    port=80\n"
                "    ^^^^\n"
                "    did you mean server.listen?\n"},
    {"qqqqqqqqqqqqqq=x", "-o 2: error: the section is missing\n"
                         "    qqqqqqqqqqqqqq=x\n"
                         "    ^^^^^^^^^^^^^^\n"
                         "    write section.key=value, as in server.listen=127.0.0.1:8080\n"},
    {"server.listen", "-o 2: error: the override has no '='\n"
                      "    server.listen\n"
                      "    ^^^^^^^^^^^^^\n"
                      "    write section.key=value, as in server.listen=127.0.0.1:8080\n"},
    {"", "-o 2: error: the override has no '='\n"
         "    \n"
         "    ^\n"
         "    write section.key=value, as in server.listen=127.0.0.1:8080\n"},
    {"control.mode = 9", "-o 2: error: '9' is not an octal number\n"
                         "    control.mode = 9\n"
                         "                   ^\n"
                         "    example: 0600; allowed: 0000 to 0777\n"},
    {"server.index=a\nb", "-o 2: error: the line has a control character (byte 0x0a)\n"
                          "    server.index=a?b\n"
                          "                  ^\n"
                          "    remove it; is this a text file in UTF-8?\n"},
    {"mime.x=y", "-o 2: error: 'y' is not a media type\n"
                 "    mime.x=y\n"
                 "           ^\n"
                 "    examples: text/plain, text/html; charset=utf-8\n"},
    {"headers x.A=b", "-o 2: error: the section does not take this argument\n"
                      "    headers x.A=b\n"
                      "            ^\n"
                      "    write [headers], [headers /prefix], [headers *.extension], or always "
                      "before the argument, as in [headers always /prefix], or a host before it, "
                      "as in [headers host www.example.org]\n"},
    {"server.root=/etc/passwd", "-o 2: error: /etc/passwd is not a directory\n"
                                "    server.root=/etc/passwd\n"
                                "                ^^^^^^^^^^^\n"
                                "    set root to the directory to serve\n"},
    {"server.root=/no/such", "-o 2: error: /no/such: No such file or directory\n"
                             "    server.root=/no/such\n"
                             "                ^^^^^^^^\n"
                             "    set root to the directory to serve\n"},
};

static void bad_override_is_reported_with_advice(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(override_errors); i++) {
        struct loaded loaded;

        load(&loaded, "", override_errors[i].text);
        assert_string_equal(loaded.messages, override_errors[i].expected);
        assert_int_equal(loaded.errors, 1);
        release(&loaded);
    }
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

static void too_many_header_bytes_is_an_error(void **state)
{
    (void)state;
    expect_for_many_headers("[headers]",
                            "[headers]: error: the fields together have 4270 bytes (at most 4096)\n"
                            "    shorten or remove some of them\n");
}

/* Whatever else is wrong with its section. */
static void missing_host_is_one_error(void **state)
{
    (void)state;
    expect_for_many_headers("[headers host a.test]",
                            "[headers host]: error: there is no [host a.test]\n"
                            "    add a section [host NAME]\n");
}

static void bad_default_is_reported_as_default(void **state)
{
    struct loaded loaded;

    (void)state;
    load_bytes(&loaded, "", 0, NULL, 0); /* /etc/www does not exist */
    assert_string_equal(loaded.messages, "default: error: /etc/www: No such file or directory\n"
                                         "    root = www\n"
                                         "           ^^^\n"
                                         "    set root to the directory to serve\n");
    release(&loaded);
}

static void bad_address_is_one_error(void **state)
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

    (void)state;
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
    case CONFIG_PATH:
    case CONFIG_PATHS:
        break;
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

static void value_of_wrong_type_is_an_error_for_every_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        struct wrong wrong = wrong_type(&config_keys[i]);
        char *messages = messages_for(&config_keys[i], wrong.text);

        if (strstr(messages, wrong.problem) == NULL)
            fail_msg("%s: %s", config_keys[i].name, messages);
        free(messages);
    }
}

static void value_above_range_is_an_error_for_every_key(void **state)
{
    size_t ranges = 0;

    (void)state;
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

static void line_of_200_bytes_is_an_error(void **state)
{
    struct loaded loaded;
    char text[1024];

    (void)state;
    snprintf(text, sizeof(text), "[server]\nindex = %0191d\n", 0);
    load(&loaded, text, NULL);
    assert_string_equal(loaded.messages, "");
    assert_int_equal(strlen(loaded.config.server_index), 191);
    release(&loaded);
    snprintf(text, sizeof(text), "[server]\nindex = %0192d\n  swallowed\n", 0);
    load(&loaded, text, NULL);
    assert_int_equal(loaded.errors, 1);
    assert_ptr_equal(strstr(loaded.messages, AT("2:200") "the line has 200 bytes (at most 199)\n"),
                     loaded.messages);
    assert_non_null(strstr(loaded.messages,
                           "\n    continue the value on the next line, which starts "
                           "with blanks\n"));
    release(&loaded);
    snprintf(text, sizeof(text), "# %0500d\n[server]\nindex = %0190d\n  %0190d\n", 0, 0, 0);
    load(&loaded, text, NULL);
    assert_string_equal(loaded.messages, "");
    assert_int_equal(strlen(loaded.config.server_index), 381);
    release(&loaded);
}

static void long_line_is_cut_around_the_word(void **state)
{
    struct loaded loaded;
    char text[1024], expected[1024], carets[101];

    (void)state;
    memset(carets, ' ', 100);
    carets[100] = '\0';
    snprintf(text, sizeof(text), "[server]\nindex = %0492d\n", 0);
    load(&loaded, text, NULL);
    snprintf(expected, sizeof(expected),
             AT("2:200") "the line has 500 bytes (at most 199)\n"
                         "    ...%0200d...\n"
                         "       %s^\n"
                         "    continue the value on the next line, which starts with blanks\n",
             0, carets);
    assert_string_equal(loaded.messages, expected);
    release(&loaded);
}

static void nul_byte_is_an_error(void **state)
{
    static const char text[] = "# \0\n[server]\nindex\0 = a\nname\0\n";
    const char *const overrides[] = {ROOT};
    struct loaded loaded;

    (void)state;
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

static void garbage_prints_20_errors_and_a_count(void **state)
{
    char *bytes = garbage(CONFIG_TEXT_MAX);
    struct loaded loaded;
    char last[64];

    (void)state;
    load_bytes(&loaded, bytes, CONFIG_TEXT_MAX, NULL, 0);
    assert_true(loaded.errors > 1000);
    assert_int_equal(count(loaded.messages, ": error: "), 20);
    snprintf(last, sizeof(last), "\nand %d more errors\n", loaded.errors - 20);
    assert_non_null(strstr(loaded.messages, last));
    for (const char *c = loaded.messages; *c != '\0'; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n' || *c == '\t');
    release(&loaded);
    free(bytes);
}

static void more_than_64_addresses_is_one_error(void **state)
{
    char text[4096] = "server.listen=";
    struct loaded loaded;

    (void)state;
    for (int i = 0; i < 70; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " 127.0.0.1:%d", 1000 + i);
    load(&loaded, "", text);
    assert_int_equal(loaded.errors, 1);
    assert_non_null(strstr(loaded.messages, "there are more than 64 addresses"));
    assert_non_null(strstr(loaded.messages, "\n    ..."));
    release(&loaded);
}

static void unreadable_file_is_one_error(void **state)
{
    static const struct error_case cases[] = {
        {"/no/such.ini", "/no/such.ini: error: No such file or directory\n"
                         "    name a readable file with -f FILE\n"},
        {"/tmp", "/tmp: error: it is a directory\n"
                 "    name a file in it\n"},
        {"/dev/zero", "/dev/zero: error: the file is larger than 1 MiB\n"
                      "    is this the right file?\n"},
    };
    struct loaded loaded;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        load_file(&loaded, cases[i].text, NULL, 0);
        assert_string_equal(loaded.messages, cases[i].expected);
        assert_int_equal(loaded.errors, 1);
        release(&loaded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_file_is_reported_with_line_and_advice),
        cmocka_unit_test(bad_override_is_reported_with_advice),
        cmocka_unit_test(too_many_header_bytes_is_an_error),
        cmocka_unit_test(missing_host_is_one_error),
        cmocka_unit_test(bad_default_is_reported_as_default),
        cmocka_unit_test(bad_address_is_one_error),
        cmocka_unit_test(value_of_wrong_type_is_an_error_for_every_key),
        cmocka_unit_test(value_above_range_is_an_error_for_every_key),
        cmocka_unit_test(line_of_200_bytes_is_an_error),
        cmocka_unit_test(long_line_is_cut_around_the_word),
        cmocka_unit_test(nul_byte_is_an_error),
        cmocka_unit_test(garbage_prints_20_errors_and_a_count),
        cmocka_unit_test(more_than_64_addresses_is_one_error),
        cmocka_unit_test(unreadable_file_is_one_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
