#include "daemon/config/rules.h"
#include "daemon/config/value.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 10000 };

static void fail_fault(void *owner, const struct config_fault *fault)
{
    (void)owner;
    fail_msg("%s", fault->problem);
}

static struct config_networks parse(const char *text)
{
    const struct config_faults faults = {fail_fault, NULL};
    struct config_networks networks;

    assert_int_equal(config_networks_parse(text, &networks, &faults), 0);
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

static void verdicts_equal_those_of_python(void **state)
{
    FILE *pairs;
    char line[1024];
    int count = 0;

    (void)state;
    if (system("python3 -c '' >/dev/null 2>&1") != 0) /* NOLINT(cert-env33-c): a fixed command */
        skip();
    pairs = popen("python3 -B '" ACCESS_PAIRS "' 10000", "r"); /* NOLINT(cert-env33-c) */
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

static void client_of_unix_socket_needs_its_word_in_allow(void **state)
{
    static const uint8_t none[NETWORK_ADDRESS_BYTES];
    struct config_access rule = {.allow = parse("::/0 0.0.0.0/0")};

    (void)state;
    assert_false(access_allows(&rule, none));
    config_networks_free(&rule.allow);
    rule.allow = parse("::/0 unix:");
    assert_true(access_allows(&rule, none));
    config_networks_free(&rule.allow);
    rule = (struct config_access){.deny = parse("::/0")};
    assert_true(access_allows(&rule, none));
    config_networks_free(&rule.deny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_equal_those_of_python),
        cmocka_unit_test(client_of_unix_socket_needs_its_word_in_allow),
    };

    return cmocka_run_group_tests_name("daemon_access", tests, NULL, NULL);
}
