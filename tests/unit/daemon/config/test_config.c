/* Loading and printing the configuration: sources, values, paths, the sample file. */
#include "common/log_record.h"
#include "common/macros.h"
#include "daemon/config/config.h"
#include "daemon/config/internal.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/value.h"
#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

TEST(smallest_log_ring_holds_a_record)
{
    const struct config_key *key = &config_keys[KEY_log_ring];
    char least[32];
    struct loaded loaded;

    snprintf(least, sizeof(least), "log.ring=%.*s", (int)strcspn(key->allowed, "."), key->allowed);
    load(&loaded, "", least);
    assert_int_equal(loaded.errors, 0);
    assert_true(loaded.config.log_ring >= (uint64_t)LOG_RECORD_WORDS_MAX * 8 * 2);
    release(&loaded);
}

/* Values. */

TEST(values_of_every_type_are_loaded)
{
    struct loaded loaded;
    const struct config *config = &loaded.config;

    load(&loaded,
         "\xef\xbb\xbf[server] ; first\r\n"
         "name = shop-1\r\n"
         "  listen = 127.0.0.1:0,\t[::1]:8081 *:82 ; two\r\n"
         "\r\n"
         "  ; a comment\r\n"
         "\trun_dir = ./run\r\n"
         "[workers]\r\n"
         "threads=3\n"
         "offload_threads = 5\n"
         "dispatch = master\n"
         "balance = least-connections\n"
         "drain_timeout = 0.5s\n"
         "[connections]\n"
         "keepalive = off\n"
         "[cache]\n"
         "size = 1.5M\n"
         "policy=lru\n"
         "[files]\n"
         "error_pages =\n"
         "[server]\n"
         "index = a, b.html\n"
         "[log]\n"
         "access = off\n"
         "error = errors.log\n"
         "level=error\n"
         "when_full = drop\n"
         "[control]\n"
         "mode = 660\n"
         "[mime]\n"
         "md = text/markdown; charset=utf-8\n",
         NULL);
    assert_string_equal(loaded.messages, "");
    assert_string_equal(config->server_name, "shop-1");
    assert_int_equal(config->server_listen.count, 3);
    assert_string_equal(config->server_listen.item[1].text, "[::1]:8081");
    assert_string_equal(config->server_listen.item[2].text, "*:82");
    assert_string_equal(config->server_root, "/");
    assert_int_equal(config->server_index.count, 2);
    assert_string_equal(config->server_index.item[0], "a");
    assert_string_equal(config->server_index.item[1], "b.html");
    assert_string_equal(config->server_run_dir, "/etc/run");
    assert_int_equal(config->workers_threads, 3);
    assert_int_equal(config->workers_offload_threads.min, 5);
    assert_int_equal(config->workers_offload_threads.max, 5);
    assert_int_equal(config->workers_dispatch, DISPATCH_MASTER);
    assert_int_equal(config->workers_balance, BALANCE_LEAST_CONNECTIONS);
    assert_int_equal(config->workers_drain_timeout, 500);
    assert_false(config->connections_keepalive);
    assert_int_equal(config->cache_size, 3 << 19);
    assert_int_equal(config->cache_policy, POLICY_LRU);
    assert_string_equal(config->files_error_pages, "");
    assert_string_equal(config->log_access, "off");
    assert_string_equal(config->log_error, "/etc/errors.log");
    assert_int_equal(config->log_level, 3);
    assert_int_equal(config->log_when_full, WHEN_FULL_DROP);
    assert_string_equal(config->control_socket, "/etc/run/shop-1.sock");
    assert_int_equal(config->control_mode, 0660);
    assert_int_equal(config->mime_count, 1);
    assert_string_equal(config->mime_extensions[0], "md");
    assert_string_equal(config->mime_types[0], "text/markdown; charset=utf-8");
    release(&loaded);
}

TEST(addresses_are_loaded_as_sockaddr)
{
    struct loaded loaded;
    const struct config_address *item;
    const struct sockaddr_in *ipv4;
    const struct sockaddr_in6 *ipv6;

    load(&loaded, "", "server.listen=127.0.0.2:81 [::1]:82 *:83 127.0.0.1:0 127.0.0.1:0");
    assert_int_equal(loaded.errors, 0);
    assert_int_equal(loaded.config.server_listen.count, 5);
    item = loaded.config.server_listen.item;
    ipv4 = (const struct sockaddr_in *)&item[0].address;
    assert_int_equal(item[0].length, sizeof(*ipv4));
    assert_int_equal(ipv4->sin_family, AF_INET);
    assert_int_equal(ntohl(ipv4->sin_addr.s_addr), 0x7f000002);
    assert_int_equal(ntohs(ipv4->sin_port), 81);
    ipv6 = (const struct sockaddr_in6 *)&item[1].address;
    assert_int_equal(item[1].length, sizeof(*ipv6));
    assert_int_equal(ipv6->sin6_family, AF_INET6);
    assert_true(IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr));
    assert_int_equal(ntohs(ipv6->sin6_port), 82);
    ipv6 = (const struct sockaddr_in6 *)&item[2].address;
    assert_int_equal(ipv6->sin6_family, AF_INET6);
    assert_true(IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr));
    assert_int_equal(ntohs(ipv6->sin6_port), 83);
    release(&loaded);
}

TEST(scheme_selects_tls)
{
    struct loaded loaded;
    char *text;

    load(&loaded,
         "[tls]\ncertificate = /c\n[server]\n"
         "listen = http://127.0.0.2:81 https://[::1]:82 https://*:83 https://unix:/run/x *:84\n",
         ROOT);
    assert_int_equal(loaded.errors, 0);
    for (size_t i = 0; i < loaded.config.server_listen.count; i++) {
        static const struct {
            const char *text;
            bool tls;
        } expected[] = {{"127.0.0.2:81", false},
                        {"[::1]:82", true},
                        {"*:83", true},
                        {"unix:/run/x", true},
                        {"*:84", false}};

        assert_string_equal(loaded.config.server_listen.item[i].text, expected[i].text);
        assert_int_equal(loaded.config.server_listen.item[i].tls, expected[i].tls);
    }
    text = config_addresses_text(&loaded.config.server_listen);
    assert_string_equal(text,
                        "127.0.0.2:81 https://[::1]:82 https://*:83 https://unix:/run/x *:84");
    free(text);
    release(&loaded);
}

TEST(later_source_overrides)
{
    const char *const overrides[] = {ROOT, "server.name=two", "mime.MD=b/c", "server.name = three ",
                                     "log.access=here.log"};
    static const char text[] = "[server]\nname = one\n[mime]\nmd = a/b\n";
    struct loaded loaded;
    char *working = getcwd(NULL, 0), *expected;

    load_bytes(&loaded, text, strlen(text), overrides, ARRAY_LENGTH(overrides));
    assert_string_equal(loaded.messages, "");
    assert_string_equal(loaded.config.server_name, "three");
    assert_int_equal(loaded.config.mime_count, 1);
    assert_string_equal(loaded.config.mime_types[0], "b/c");
    expected = config_path_join(working, "here.log");
    assert_string_equal(loaded.config.log_access, expected);
    free(expected);
    free(working);
    release(&loaded);
}

TEST(auto_threads_divides_cpus)
{
    cpu_set_t allowed, one;
    struct loaded loaded;
    size_t cpu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    load(&loaded, "[workers]\nprocesses = 1\n", NULL);
    assert_in_range(loaded.config.workers_threads, 1, CPU_COUNT(&allowed)); /* less by a limit */
    release(&loaded);
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    load(&loaded, "[workers]\nprocesses = 1\n", NULL);
    assert_int_equal(loaded.config.workers_threads, 1);
    release(&loaded);
    assert_int_equal(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
    load(&loaded, "[workers]\nprocesses = 64\nmax_processes = 64\nmax_threads = 64\n", NULL);
    assert_string_equal(loaded.messages, "");
    assert_int_equal(loaded.config.workers_threads, 1);
    release(&loaded);
}

TEST(log_rings_of_many_threads_are_smaller_by_default)
{
    struct loaded loaded;

    load(&loaded, "[workers]\nmax_threads = 128\n", NULL);
    assert_int_equal(loaded.config.log_ring, 256 * 1024);
    release(&loaded);
    load(&loaded, "[workers]\nmax_threads = 129\n", NULL);
    assert_int_equal(loaded.config.log_ring, 64 * 1024);
    release(&loaded);
    load(&loaded, "[workers]\nmax_threads = 129\n[log]\nring = 256K\n", NULL);
    assert_int_equal(loaded.config.log_ring, 256 * 1024);
    release(&loaded);
}

TEST(socket_path_over_107_bytes_is_an_error)
{
    struct loaded loaded;
    char override[160];

    snprintf(override, sizeof(override), "control.socket=/%0106d", 0);
    load(&loaded, "", override);
    assert_int_equal(loaded.errors, 0);
    assert_int_equal(strlen(loaded.config.control_socket), INSTANCE_PATH_MAX - 1);
    release(&loaded);
    snprintf(override, sizeof(override), "control.socket=/%0107d", 0);
    load(&loaded, "", override);
    assert_int_equal(loaded.errors, 1);
    assert_non_null(strstr(loaded.messages,
                           "-o 2: error: the path of the control socket has 108 bytes "
                           "(at most 107)\n"));
    release(&loaded);
    snprintf(override, sizeof(override), "server.run_dir=/%0100d", 0);
    load(&loaded, "", override); /* /webserverd.sock is appended */
    assert_int_equal(loaded.errors, 1);
    assert_non_null(
        strstr(loaded.messages, "-o 2: error: the path of the control socket has 117 bytes"));
    release(&loaded);
}

/* Printing. */

/* Loads TEXT, prints it, loads the output and prints that again. */
static void round_trip(const char *text, const char *override)
{
    struct loaded first, second;
    char *printed, *again;

    load(&first, text, override);
    assert_string_equal(first.messages, "");
    printed = print_config(&first.config, false);
    load_bytes(&second, printed, strlen(printed), NULL, 0);
    assert_string_equal(second.messages, "");
    for (size_t i = 0; i < KEY_COUNT; i++) {
        char *a = config_value_text(&config_keys[i], (char *)&first.config + config_keys[i].offset);
        char *b =
            config_value_text(&config_keys[i], (char *)&second.config + config_keys[i].offset);

        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    again = print_config(&second.config, false);
    assert_string_equal(printed, again);
    free(printed);
    free(again);
    release(&first);
    release(&second);
}

TEST(printed_configuration_loads_to_the_same)
{
    round_trip("", NULL);
    round_trip(
        "[server]\nname=x\nindex = a  b\nlisten=*:1\n[workers]\noffload_threads=3\n"
        "max_threads = 200\nthreads = 99\ndrain_timeout=1.5s\n[connections]\nkeepalive=off\n"
        "[limits]\nrequest_line=257\n[cache]\nsize=1T\npolicy=lru\nrevalidate=0\n[files]\n"
        "error_pages=\nsymlinks=follow\nfollow_into=/tmp,/usr /\n[ratelimit]\nexempt=10.0.0.0/8 "
        "::1,192.0.2.1/32\n[log]\naccess=off\nerror=x y\n[control]\nmode=7\n[mime]\nc = "
        "a/b\nd=e/f;g\n"
        "[headers *.css]\nA = b\n[headers]\nX-Y = \"c\"\nB=1\n[headers \"/p q/\"]\nB =\n"
        "[headers always]\nExpires = 0\n[headers always /p%20q/*]\nExpires = -1\n"
        "[headers /p%20q]\nExpires = Thu, 01 Jan 1970 00:00:00 GMT\n[headers always "
        "*.css]\nCache-Control =\n",
        NULL);
    round_trip("",
               "server.listen=127.0.0.1:10001 127.0.0.1:10002 127.0.0.1:10003 127.0.0.1:10004 "
               "127.0.0.1:10005 127.0.0.1:10006 127.0.0.1:10007 127.0.0.1:10008 127.0.0.1:10009 "
               "127.0.0.1:10010 127.0.0.1:10011 127.0.0.1:10012 127.0.0.1:10013 127.0.0.1:10014");
}

TEST(print_has_every_key_and_its_help)
{
    struct loaded loaded;
    char *printed, line[160];
    const char *rest;

    load(&loaded, "", NULL);
    printed = print_config(&loaded.config, false);
    rest = printed;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        snprintf(line, sizeof(line), "\n# %.20s", config_keys[i].help);
        rest = strstr(rest, line);
        assert_non_null(rest);
        snprintf(line, sizeof(line), "\n%s = ", config_keys[i].name);
        rest = strstr(rest, line);
        assert_non_null(rest);
    }
    assert_non_null(strstr(printed, "\ndrain_timeout = 30s\n"));
    assert_non_null(strstr(printed, "\nsize = 64M\n"));
    free(printed);
    release(&loaded);
}

/* Files. */

struct directory {
    char path[64];
    char file[80];
};

static void make_directory(struct directory *directory, const char *text)
{
    FILE *out;

    strcpy(directory->path, "/tmp/test_config_XXXXXX");
    assert_non_null(mkdtemp(directory->path));
    snprintf(directory->file, sizeof(directory->file), "%s/w.ini", directory->path);
    out = fopen(directory->file, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void remove_directory(const struct directory *directory)
{
    assert_int_equal(unlink(directory->file), 0);
    assert_int_equal(rmdir(directory->path), 0);
}

TEST(paths_are_relative_to_the_file)
{
    struct directory directory;
    struct loaded loaded;
    char expected[160];

    make_directory(&directory, "[server]\nroot = .\nrun_dir = /run\n[log]\nerror=e/log\n");
    load_file(&loaded, directory.file, NULL, 0);
    assert_string_equal(loaded.messages, "");
    assert_string_equal(loaded.config.server_root, directory.path);
    snprintf(expected, sizeof(expected), "%s/e/log", directory.path);
    assert_string_equal(loaded.config.log_error, expected);
    snprintf(expected, sizeof(expected), "%s/access.log", directory.path); /* a default */
    assert_string_equal(loaded.config.log_access, expected);
    release(&loaded);
    remove_directory(&directory);
}

TEST(parents_in_paths_are_resolved)
{
    static const struct {
        const char *base, *path, *expected; /* the base is below the directory */
    } cases[] = {
        {"etc", "../www", "www"},
        {"etc/", "./../www/", "www/"},
        {"etc", "..", ""},
        {"etc/site", "../../www", "www"},
        {"etc", "www/../x", "etc/www/../x"},
        {"link", "../www", "link/../www"},
        {"none", "../www", "none/../www"},
        {"link/..", "../www", "link/../../www"},
        {"etc", "..x", "etc/..x"},
        {"etc", ".", "etc"},
    };
    struct directory directory;
    char base[160], expected[160], *joined;

    make_directory(&directory, "");
    assert_int_equal(chdir(directory.path), 0);
    assert_int_equal(mkdir("etc", 0700) + mkdir("etc/site", 0700) + symlink("etc/site", "link"), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        snprintf(base, sizeof(base), "%s/%s", directory.path, cases[i].base);
        snprintf(expected, sizeof(expected), "%s%s%s", directory.path,
                 cases[i].expected[0] != '\0' ? "/" : "", cases[i].expected);
        joined = config_path_join(base, cases[i].path);
        assert_string_equal(joined, expected);
        free(joined);
    }
    joined = config_path_join("/", "../x");
    assert_string_equal(joined, "/../x");
    free(joined);
    assert_int_equal(unlink("link") + rmdir("etc/site") + rmdir("etc") + chdir("/"), 0);
    remove_directory(&directory);
}

TEST(paths_without_file_are_relative_to_working_directory)
{
    const char *const overrides[] = {ROOT};
    struct loaded loaded;
    char *working = getcwd(NULL, 0);
    char *expected = config_path_join(working, "access.log");

    load_file(&loaded, NULL, overrides, 1);
    assert_string_equal(loaded.messages, "");
    assert_string_equal(loaded.config.log_access, expected);
    free(expected);
    free(working);
    release(&loaded);
}

TEST(free_twice_is_harmless)
{
    struct loaded loaded;

    load(&loaded, "[mime]\na = b/c\n", NULL);
    config_free(&loaded.config);
    config_free(&loaded.config);
    free(loaded.messages);
}

/* The sample. */

static char *read_sample(void)
{
    FILE *in = fopen(SAMPLE_FILE, "r");
    char *text = calloc(1, CONFIG_TEXT_MAX + 1);

    assert_non_null(in);
    assert_non_null(text);
    assert_true(fread(text, 1, CONFIG_TEXT_MAX, in) > 0);
    fclose(in);
    return text;
}

/* So that `wsctl config` shows an unchanged value and its default alike. */
TEST(defaults_are_written_as_values_are_shown)
{
    struct loaded loaded;

    load(&loaded, "", NULL);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        char *text = config_value_text(key, (const char *)&loaded.config + key->offset);

        if (i != KEY_workers_threads && key->type != CONFIG_PATH && key->type != CONFIG_NAME &&
            key->type != CONFIG_TEXT)
            assert_string_equal(text, key->fallback);
        free(text);
    }
    release(&loaded);
}

/* The sample has every key: set, or commented out with its default. */
TEST(sample_has_every_key)
{
    char *text = read_sample(), line[160];
    const char *rest = text;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        const char *active, *shown;

        snprintf(line, sizeof(line), "\n%s = ", key->name);
        active = strstr(rest, line);
        snprintf(line, sizeof(line), "\n;%s =%s%s\n", key->name,
                 key->fallback[0] == '\0' ? "" : " ", key->fallback);
        shown = strstr(rest, line);
        rest = shown != NULL ? shown : active;
        if (rest == NULL) {
            fail_msg("[%s] %s is not where it belongs, or has another default", key->section,
                     key->name);
            break;
        }
    }
    free(text);
}

TEST(sample_loads)
{
    struct loaded loaded;

    load_file(&loaded, SAMPLE_FILE, NULL, 0);
    assert_string_equal(loaded.messages, "");
    assert_string_equal(loaded.config.server_listen.item[0].text, "127.0.0.1:8080");
    assert_false(loaded.config.arithmetic_enabled); /* any client could burn CPU time */
    release(&loaded);
}

/* Targets of logs. */

TEST(log_target_of_each_kind_is_parsed)
{
    static const struct {
        const char *text;
        enum log_target_kind kind;
        int facility;
        const char *path;
        bool word;
    } cases[] = {
        {"/var/log/a.log", LOG_TARGET_FILE, 0, "/var/log/a.log", false},
        {"syslogs", LOG_TARGET_FILE, 0, "syslogs", false},
        {"journald.log", LOG_TARGET_FILE, 0, "journald.log", false},
        {"-", LOG_TARGET_FILE, 0, "-", true},
        {"off", LOG_TARGET_OFF, 0, "off", true},
        {"syslog:", LOG_TARGET_SYSLOG, LOG_DAEMON, "/dev/log", true},
        {"syslog:local7", LOG_TARGET_SYSLOG, LOG_LOCAL7, "/dev/log", true},
        {"syslog:@/run/x", LOG_TARGET_SYSLOG, LOG_DAEMON, "/run/x", true},
        {"syslog:user@/run/x", LOG_TARGET_SYSLOG, LOG_USER, "/run/x", true},
        {"journald", LOG_TARGET_JOURNALD, 0, "/run/systemd/journal/socket", true},
        {"journald:@/run/j", LOG_TARGET_JOURNALD, 0, "/run/j", true},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct log_target target;

        assert_null(log_target_parse(cases[i].text, &target));
        assert_int_equal(target.kind, cases[i].kind);
        assert_int_equal(target.syslog_facility, cases[i].facility);
        assert_string_equal(target.path, cases[i].path);
        assert_int_equal(log_target_is_word(cases[i].text), cases[i].word);
    }
}

TEST(bad_log_target_names_the_fault)
{
    static const struct {
        const char *text, *message;
    } cases[] = {{"", "no path"},
                 {"syslog:local9", "unknown syslog facility"},
                 {"syslog:localhost:514", "unknown syslog facility"},
                 {"syslog:local1@run/x", "begins with '@/'"},
                 {"journald:/run/j", "begins with '@/'"}};
    struct log_target target;
    char text[256] = "syslog:@/";

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *problem = log_target_parse(cases[i].text, &target);

        assert_non_null(problem);
        assert_non_null(strstr(problem, cases[i].message));
    }
    memset(text + strlen(text), 'x', 120);
    assert_non_null(strstr(log_target_parse(text, &target), "107 bytes"));
}
