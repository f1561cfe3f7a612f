#include "common/macros.h"
#include "console/ui/keys.h"
#include "tests/test.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 64 };

/* Feeds TEXT, then lets it expire; checks that the keys are EXPECTED, which 0 ends. */
static void check(const char *text, const int *expected)
{
    struct key_decoder decoder = {0};
    int codes[CODES] = {0};
    size_t count = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        key_decoder_feed(&decoder, (unsigned char)text[i]);
        for (size_t j = 0; j < decoder.codes; j++)
            codes[count++] = decoder.code[j];
    }
    if (key_decoder_waits(&decoder)) {
        key_decoder_expire(&decoder);
        for (size_t j = 0; j < decoder.codes; j++)
            codes[count++] = decoder.code[j];
    }
    for (size_t i = 0; i < count || expected[i] != 0; i++)
        if (codes[i] != expected[i])
            fail_msg("key %zu of '%s' is %d, not %d", i, text, codes[i], expected[i]);
}

#define CHECK(text, ...) check(text, (const int[]){__VA_ARGS__ __VA_OPT__(, ) 0})

TEST(known_sequences_are_keys)
{
    CHECK("a+\r", 'a', '+', '\r');
    CHECK("\x1b[A\x1bOA", KEY_UP, KEY_UP);
    CHECK("\x1b[H\x1bOH\x1b[1~\x1b[7~", KEY_HOME, KEY_HOME, KEY_HOME, KEY_HOME);
    CHECK("\x1b[F\x1b[4~\x1b[8~", KEY_END, KEY_END, KEY_END);
    CHECK("\x1b[5~\x1b[6~\x1b[3~\x1b[Z", KEY_PPAGE, KEY_NPAGE, KEY_DC, KEY_BTAB);
    CHECK("\x1b[1;2C\x1b[1;2D", KEY_SRIGHT, KEY_SLEFT);
    CHECK("\x1b[[A\x1bOP\x1b[11~\x1b[21~", KEY_F(1), KEY_F(1), KEY_F(1), KEY_F(10));
    CHECK("\x1b", 27);
    CHECK("\xc3\xa4x", 0xc3, 0xa4, 'x');
}

/* The answer of a terminal about its background. */
TEST(background_is_understood)
{
    static const struct {
        const char *bytes;
        double least, most;
    } cases[] = {
        {"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", 0.99, 1.01},
        {"\x1b]11;rgb:00/00/00\x07", 0, 0},
        {"\x1b]11;rgb:fd/f6/e3\x1b\\", 0.9, 1},
        {"\x1b]11;rgb:2828/2828/2828\x07", 0, 0.2},
        {"\x1b]11;rgb:zz/00/00\x07", -1, -1},
        {"\x1b]11;rgb:ff/ff\x07", -1, -1},
        {"\x1b]10;rgb:ff/ff/ff\x07", -1, -1},
        {"\x1b]11;rgb:ff/ff/ff", -1, -1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct key_decoder decoder = {.brightness = -1};

        for (const char *byte = cases[i].bytes; *byte != '\0'; byte++) {
            key_decoder_feed(&decoder, (unsigned char)*byte);
            assert_int_equal(decoder.codes, 0);
        }
        assert_true(decoder.brightness >= cases[i].least && decoder.brightness <= cases[i].most);
    }
}

TEST(unknown_sequences_are_no_keys)
{
    CHECK("\x1b[99~q", 'q');
    CHECK("\x1b[1;5Aq", 'q');
    CHECK("\x1b[?62;22cq", 'q');
    CHECK("\x1b[[Bq", 'q');
    CHECK("\x1bOQq", 'q');
    CHECK("\x1bO5Pq", 'q');
    CHECK("\x1b]0;-w-W\x07q", 'q');
    CHECK("\x1b]11;rgb:0/0/0\x1b\\q", 'q');
    CHECK("\x1bP1$r-W\x1b\\q", 'q');
    CHECK("\x1b[12\x1b[Aq", KEY_UP, 'q');
    CHECK("\x1b]12\x1b[99~q", 'q');
    CHECK("\x1b[1111111111111111111111111111111111111111111111111111~q", 'q');
    CHECK("\xff\x80\xc3q", 'q');
}

TEST(alt_combinations_are_no_keys)
{
    CHECK("\x1bw\x1bW\x1b-q", 'q');
    CHECK("\x1b\xc3\xa4q", 'q');
    CHECK("\x1b\x1b[Aq", 'q');
    CHECK("\x1b[");
    CHECK("\x1b]");
    CHECK("\x1bO");
}

TEST(pasted_text_is_marked)
{
    CHECK("\x1b[200~-W\r\x1b[201~q", '-' | KEY_PASTED, 'W' | KEY_PASTED, '\r' | KEY_PASTED, 'q');
    CHECK("\x1b[200~a\x1b[Ab\x1b]c\x1b[201~q", 'a' | KEY_PASTED, 'b' | KEY_PASTED, 'c' | KEY_PASTED,
          'q');
    CHECK("\x1b[200~\x1b[200~W\x1b[201~q", 'W' | KEY_PASTED, 'q');
}

/* A paste whose end mark is lost ends with the key Esc. */
TEST(escape_ends_a_paste)
{
    struct key_decoder decoder = {0};

    for (const char *at = "\x1b[200~W\x1b"; *at != '\0'; at++)
        key_decoder_feed(&decoder, (unsigned char)*at);
    assert_true(key_decoder_waits(&decoder));
    key_decoder_expire(&decoder);
    key_decoder_feed(&decoder, 'q');
    assert_int_equal(decoder.codes, 1);
    assert_int_equal(decoder.code[0], 'q');
}

TEST(mouse_reports_have_button_and_place)
{
    static const struct {
        const char *text;
        enum pointer what;
        int y, x;
    } reports[] = {
        {"\x1b[<0;7;3M", POINTER_CLICK, 2, 6},
        {"\x1b[<64;200;50M", POINTER_WHEEL_UP, 49, 199},
        {"\x1b[<65;1;1M", POINTER_WHEEL_DOWN, 0, 0},
        {"\x1b[M !!", POINTER_CLICK, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(reports); i++) {
        struct key_decoder decoder = {0};

        for (const char *at = reports[i].text; *at != '\0'; at++)
            key_decoder_feed(&decoder, (unsigned char)*at);
        assert_int_equal(decoder.codes, 1);
        assert_int_equal(decoder.code[0], KEY_MOUSE);
        assert_int_equal(decoder.pointer.what, reports[i].what);
        assert_int_equal(decoder.pointer.y, reports[i].y);
        assert_int_equal(decoder.pointer.x, reports[i].x);
    }
    CHECK("\x1b[<0;7;3mq", 'q');     /* release */
    CHECK("\x1b[<32;7;3Mq", 'q');    /* motion */
    CHECK("\x1b[<8;7;3Mq", 'q');     /* with Alt */
    CHECK("\x1b[<0;0;0Mq", 'q');     /* no place */
    CHECK("\x1b[<0;7;3;4;5Mq", 'q'); /* malformed */
    CHECK("\x1b[M!!!q", 'q');        /* another button */
}

/* No byte of a complete sequence becomes a key, however the sequence is made. */
TEST(random_sequences_are_consumed)
{
    unsigned int random = 1;

    for (int i = 0; i < 100000; i++) {
        struct key_decoder decoder = {0};
        char text[40] = "\x1b[";
        size_t length = 2, parameters = (size_t)rand_r(&random) % 30;

        for (size_t j = 0; j < parameters; j++)
            text[length++] = (char)(' ' + rand_r(&random) % ('@' - ' '));
        text[length++] = (char)('@' + rand_r(&random) % (127 - '@'));
        if (strcmp(text, "\x1b[[") == 0 || strcmp(text, "\x1b[M") == 0)
            continue; /* these take more bytes */
        for (size_t j = 0; j < length; j++) {
            key_decoder_feed(&decoder, (unsigned char)text[j]);
            for (size_t k = 0; k < decoder.codes; k++)
                assert_true(decoder.code[k] > 0xff);
        }
        assert_int_equal(decoder.state, DECODER_GROUND);
    }
}
