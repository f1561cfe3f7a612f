/* Reading the text of the configuration in force. */
#include "console/data/server_info.h"

#include "tests/test.h"

#include <string.h>

static const char text[] = "# What is served, and where.\n"
                           "[server]\n"
                           "# Name of this\n"
                           "# instance.\n"
                           "name = web\n"
                           "listen = 127.0.0.1:1\n"
                           "    [::1]:2\n"
                           "\n"
                           "# Headers.\n"
                           "[headers /a]\n"
                           "X-Note = a = b\n"
                           "empty =\n";

TEST(keys_have_section_value_and_help)
{
    static const struct {
        const char *key, *value, *help;
    } expected[] = {{"server.name", "web", "Name of this instance."},
                    {"server.listen", "127.0.0.1:1 [::1]:2", ""},
                    {"headers /a.X-Note", "a = b", ""},
                    {"headers /a.empty", "", ""}};
    const char *at = text;
    char section[CONFIG_KEY_BYTES] = "";
    struct config_line line;

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_true(config_text_next(&at, section, &line));
        assert_string_equal(line.key, expected[i].key);
        assert_string_equal(line.value, expected[i].value);
        assert_string_equal(line.help, expected[i].help);
    }
    assert_false(config_text_next(&at, section, &line));
    assert_false(config_text_next(&at, section, &line));
}

TEST(control_characters_are_escaped)
{
    const char *at = "[a\x9b]\n# \x1b[2J\nb\x07 = c\x7f\r\n";
    char section[CONFIG_KEY_BYTES] = "";
    struct config_line line;

    assert_true(config_text_next(&at, section, &line));
    assert_string_equal(line.key, "a\\x9b.b\\x07");
    assert_string_equal(line.value, "c\\x7f\\x0d");
    assert_string_equal(line.help, "\\x1b[2J");
}

TEST(value_is_found_by_key)
{
    char value[8];

    assert_true(config_text_value(text, "server.name", value, sizeof(value)));
    assert_string_equal(value, "web");
    assert_true(config_text_value(text, "server.listen", value, sizeof(value)));
    assert_string_equal(value, "127.0.0");
    assert_false(config_text_value(text, "server.root", value, sizeof(value)));
    assert_string_equal(value, "");
    assert_false(config_text_value("", "server.root", value, sizeof(value)));
}

TEST(malformed_text_is_read_safely)
{
    static const char *const texts[] = {"[", "[]\n", "=", "#", "   x", "a\n\tb", "[x\ny"};
    char value[64];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(config_text_value(texts[i], "nothing.here", value, sizeof(value)));
}
