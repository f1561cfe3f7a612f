#include "daemon/config/rules.h"
#include "daemon/config/value.h"

#include "common/macros.h"

#include "tests/test.h"
#include "tests/unit/daemon/config/config_loading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 1000 };

static void fail_fault(void *owner, const struct config_fault *fault)
{
    (void)owner;
    fail_msg("%s", fault->problem);
}

static struct config_networks parse(const char *text)
{
    const struct config_faults faults = {fail_fault, NULL};
    struct config_networks networks;

    if (text[0] == '\0')
        return (struct config_networks){.text = NULL};
    assert_int_equal(config_networks_parse(text, "/", &networks, &faults), 0);
    return networks;
}

static bool allows(const char *allow, const char *deny, const char *address)
{
    struct config_access rule = {.allow = parse(allow), .deny = parse(deny)};
    struct network one;
    bool result;

    assert_int_equal(network_parse(address, &one), NETWORK_GOOD);
    result = access_allows(&rule, one.address);
    config_networks_free(&rule.allow);
    config_networks_free(&rule.deny);
    return result;
}

TEST(verdicts_equal_those_of_python)
{
    FILE *pairs;
    static char line[64 * 1024];
    int count = 0;

    if (system("python3 -c '' >/dev/null 2>&1") != 0) /* NOLINT(cert-env33-c): a fixed command */
        skip();
    pairs = popen("python3 -B '" ACCESS_PAIRS "' 1000", "r"); /* NOLINT(cert-env33-c) */
    assert_non_null(pairs);
    for (; fgets(line, sizeof(line), pairs) != NULL; count++) {
        char *rest = line, *allow = strsep(&rest, "|"), *deny = strsep(&rest, "|");
        char *address = strsep(&rest, "|");

        assert_non_null(rest);
        if (allows(allow, deny, address) != (rest[0] == '1'))
            fail_msg("allow '%s' deny '%s' address %s: not %c", allow, deny, address, rest[0]);
    }
    assert_int_equal(pclose(pairs), 0);
    assert_int_equal(count, PAIRS);
}

TEST(client_of_unix_socket_needs_its_word_in_allow)
{
    static const uint8_t none[NETWORK_ADDRESS_BYTES];
    struct config_access rule = {.allow = parse("::/0 0.0.0.0/0")};

    assert_false(access_allows(&rule, none));
    config_networks_free(&rule.allow);
    rule.allow = parse("::/0 unix:");
    assert_true(access_allows(&rule, none));
    config_networks_free(&rule.allow);
    rule = (struct config_access){.deny = parse("::/0")};
    assert_true(access_allows(&rule, none));
    config_networks_free(&rule.deny);
}

static char path[] = "/tmp/test-networks-XXXXXX";

static void write_networks(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Loads "VALUE @path" as deny of [access /p]; the messages have no path. */
static void load_deny(struct loaded *loaded, const char *value)
{
    char text[256], *found;

    snprintf(text, sizeof(text), "[access /p]\ndeny = %s@%s\n", value, path + strlen("/tmp/"));
    load_from(loaded, "/tmp/t.ini", text);
    while ((found = strstr(loaded->messages, path)) != NULL)
        memmove(found, found + strlen(path), strlen(found + strlen(path)) + 1);
}

TEST(networks_of_a_file_are_read)
{
    static const char text[] = "\xef\xbb\xbf# CloudFront\r\n10.0.0.0/8 ; private\r\n\n"
                               "\t2001:db8::/32, 192.0.2.1\n";
    static const uint8_t inside[NETWORK_ADDRESS_BYTES] = {0x20, 0x01, 0x0d, 0xb8, 1};
    static const uint8_t outside[NETWORK_ADDRESS_BYTES] = {0x20, 0x01, 0x0d, 0xb9};
    struct loaded loaded;
    char expected[128];

    write_networks(text, strlen(text));
    load_deny(&loaded, "::1, ");
    assert_string_equal(loaded.messages, "");
    assert_int_equal(loaded.config.access[0].deny.set.count, 4);
    assert_false(access_allows(&loaded.config.access[0], inside));
    assert_true(access_allows(&loaded.config.access[0], outside));
    snprintf(expected, sizeof(expected), "::1 @%s", path);
    assert_string_equal(loaded.config.access[0].deny.text, expected);
    release(&loaded);
}

TEST(fault_of_a_file_is_reported_with_its_line)
{
    struct loaded loaded;

    write_networks("# a\n10.0.0.0/8\n10.0.0.1/8\n", 27);
    load_deny(&loaded, "");
    assert_non_null(
        strstr(loaded.messages, "error: :3: '10.0.0.1/8' has bits set after its prefix\n"));
    release(&loaded);
    assert_int_equal(unlink(path), 0);
    load_deny(&loaded, "");
    assert_non_null(strstr(loaded.messages, "error: : No such file or directory\n"));
    release(&loaded);
}

/* All addresses of 10.0.0.0/8 that end in .1, and no other one. */
TEST(file_may_have_any_number_of_networks)
{
    enum { NETWORKS = 100000 };
    char *text = malloc((size_t)NETWORKS * 16), *at = text;
    struct loaded loaded;

    for (int i = 0; i < NETWORKS; i++)
        at += sprintf(at, "10.%d.%d.1\n", i >> 8 & 255, i & 255);
    write_networks(text, (size_t)(at - text));
    free(text);
    load_deny(&loaded, "");
    assert_string_equal(loaded.messages, "");
    for (int i = 0; i < 65536; i++) {
        uint8_t address[NETWORK_ADDRESS_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1};

        address[13] = (uint8_t)(i >> 8);
        address[14] = (uint8_t)i;
        assert_false(access_allows(&loaded.config.access[0], address));
        address[15] = 2;
        assert_true(access_allows(&loaded.config.access[0], address));
    }
    release(&loaded);
}

TEST(empty_list_is_an_error_and_words_are_clear)
{
    static const struct {
        const char *line, *problem; /* NULL: valid */
        bool allows;
    } cases[] = {
        {"allow =", "'allow' has no networks", false},
        {"deny = ,", "'deny' has no networks", false},
        {"allow = none", NULL, false},
        {"allow = any", NULL, true},
        {"deny = none", NULL, true},
        {"deny = any", NULL, false},
        {"allow = any\ndeny = any", NULL, false},
        {"allow = any 10.0.0.0/8", "'10.0.0.0/8' is too much", false},
        {"allow = ::1 none", "'none' is too much", false},
        {"allow = all", "'all' is not an address or network", false},
        {"allow = @", "'@' names no file", false},
    };
    static const uint8_t clients[3][NETWORK_ADDRESS_BYTES] = {
        {0}, {[15] = 1}, {[10] = 0xff, [11] = 0xff, [15] = 9}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct loaded loaded;
        char text[256];

        snprintf(text, sizeof(text), "[access /p]\n%s\n", cases[i].line);
        load(&loaded, text, NULL);
        if ((cases[i].problem == NULL) != (loaded.errors == 0) ||
            (cases[i].problem != NULL && strstr(loaded.messages, cases[i].problem) == NULL))
            fail_msg("%s: %s", cases[i].line, loaded.messages);
        for (size_t k = 0; k < ARRAY_LENGTH(clients) && cases[i].problem == NULL; k++)
            assert_int_equal(access_allows(&loaded.config.access[0], clients[k]), cases[i].allows);
        release(&loaded);
    }
}

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd >= 0 ? close(fd) : -1;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

const struct test_fixture test_group_fixture = {make_file, remove_file};
