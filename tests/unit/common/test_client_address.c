/* Client addresses as keys and as text. */
#include "common/client_address.h"

#include "tests/test.h"

TEST(key_round_trips_as_text)
{
    static const struct {
        const char *address, *text;
    } cases[] = {{"192.0.2.7", "192.0.2.7"},
                 {"0.0.0.0", "0.0.0.0"},
                 {"255.255.255.255", "255.255.255.255"},
                 {"::ffff:10.1.2.3", "10.1.2.3"},
                 {"2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"},
                 {"fe80::1", "fe80::/64"},
                 {"::1", "::1"},
                 {"unix:", "unix:"},
                 {"no address", "unix:"}};
    char text[CLIENT_KEY_TEXT];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(client_key_text(client_key_parse(cases[i].address), text),
                            cases[i].text);
}

TEST(site_of_a_key_is_its_48)
{
    static const struct {
        const char *address, *site;
    } cases[] = {{"2001:db8:7:1:2:3:4:5", "2001:db8:7::/48"},
                 {"2001:db8:7:ffff::1", "2001:db8:7::/48"},
                 {"2001:db8:8::1", "2001:db8:8::/48"},
                 {"fe80::1", "fe80::/48"},
                 {"192.0.2.7", "unix:"}, /* none */
                 {"::1", "unix:"},
                 {"unix:", "unix:"}};
    char text[CLIENT_KEY_TEXT];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(
            client_key_text(client_site_key(client_key_parse(cases[i].address)), text),
            cases[i].site);
}
