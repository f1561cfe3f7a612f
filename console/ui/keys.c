#include "console/ui/keys.h"

#include "common/macros.h"

#include <curses.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct key_info key_table[ACTION_COUNT] = {
#define KEY(action, group, shown, brief, first, second, help)                                      \
    {group, shown, brief, help, first, second},
#include "console/ui/keys.def"
#undef KEY
};

enum action key_action(int code)
{
    for (int i = 0; i < ACTION_COUNT; i++)
        if (code != 0 && (code == key_table[i].first || code == key_table[i].second))
            return (enum action)i;
    return code == KEY_F(1) ? ACTION_HELP : ACTION_NONE;
}

/* Scroll */

bool scroll_key(struct scroll *scroll, enum action action)
{
    int page = scroll->page > 1 ? scroll->page - 1 : 1;

    switch (action) {
    case ACTION_UP:
        scroll->top--;
        return true;
    case ACTION_DOWN:
        scroll->top++;
        return true;
    case ACTION_PAGE_UP:
        scroll->top -= page;
        return true;
    case ACTION_PAGE_DOWN:
        scroll->top += page;
        return true;
    case ACTION_HALF_UP:
        scroll->top -= (page + 1) / 2;
        return true;
    case ACTION_HALF_DOWN:
        scroll->top += (page + 1) / 2;
        return true;
    case ACTION_FIRST:
        scroll->top = 0;
        return true;
    case ACTION_LAST:
        scroll->top = INT_MAX / 2;
        return true;
    default:
        return false;
    }
}

void scroll_fit(struct scroll *scroll, int rows, int page)
{
    int last_top = rows > page ? rows - page : 0;

    scroll->page = page;
    if (scroll->top > last_top)
        scroll->top = last_top;
    if (scroll->top < 0)
        scroll->top = 0;
}

/* Decoder */

enum { ESC = 27, BELL = 7, CAN = 24, SUB = 26, DELETE = 127, MOUSE_BYTES = 3, MOUSE_OFFSET = 32 };

enum { BUTTON_FIRST = 0, BUTTON_WHEEL_UP = 64, BUTTON_WHEEL_DOWN = 65 };

/* Sequences after ESC [ or ESC O: xterm, rxvt, PuTTY, tmux and the Linux console. */
static const struct {
    const char *sequence;
    int code;
} keys[] = {
    {"A", KEY_UP},       {"B", KEY_DOWN},    {"C", KEY_RIGHT},  {"D", KEY_LEFT},
    {"H", KEY_HOME},     {"F", KEY_END},     {"Z", KEY_BTAB},   {"M", KEY_ENTER},
    {"1~", KEY_HOME},    {"7~", KEY_HOME},   {"4~", KEY_END},   {"8~", KEY_END},
    {"3~", KEY_DC},      {"5~", KEY_PPAGE},  {"6~", KEY_NPAGE}, {"1;2C", KEY_SRIGHT},
    {"1;2D", KEY_SLEFT}, {"c", KEY_SRIGHT},  {"d", KEY_SLEFT},  {"P", KEY_F(1)},
    {"11~", KEY_F(1)},   {"21~", KEY_F(10)},
};

static void add_code(struct key_decoder *decoder, int code)
{
    if (decoder->codes < DECODER_CODES)
        decoder->code[decoder->codes++] = decoder->pasting ? code | KEY_PASTED : code;
}

static void enter_state(struct key_decoder *decoder, enum decoder_state state)
{
    decoder->state = state;
    decoder->sequence_length = 0;
    decoder->ending = false;
}

static void add_pointer(struct key_decoder *decoder, int button, int x, int y)
{
    if (button != BUTTON_FIRST && button != BUTTON_WHEEL_UP && button != BUTTON_WHEEL_DOWN)
        return;
    decoder->pointer =
        (struct pointer_event){.what = button == BUTTON_WHEEL_UP     ? POINTER_WHEEL_UP
                                       : button == BUTTON_WHEEL_DOWN ? POINTER_WHEEL_DOWN
                                                                     : POINTER_CLICK,
                               .y = y - 1,
                               .x = x - 1};
    add_code(decoder, KEY_MOUSE);
}

/* A complete sequence is in PARAMETERS, with its final byte. */
static void end_sequence(struct key_decoder *decoder)
{
    const char *text = decoder->parameters;
    int button, x, y;
    char final, surplus;

    if (decoder->sequence_length >= DECODER_PARAMETERS)
        return;
    decoder->parameters[decoder->sequence_length] = '\0';
    if (decoder->pasting) {
        decoder->pasting = strcmp(text, "201~") != 0;
    } else if (strcmp(text, "200~") == 0) {
        decoder->pasting = true;
    } else if (decoder->meta) {
        return;
    } else if (sscanf(text, "<%4d;%4d;%4d%c%c", &button, &x, &y, &final, &surplus) == 4) {
        if (final == 'M' && x > 0 && y > 0)
            add_pointer(decoder, button, x, y);
    } else {
        for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
            if (strcmp(text, keys[i].sequence) == 0)
                add_code(decoder, keys[i].code);
    }
}

static void collect_byte(struct key_decoder *decoder, unsigned char byte)
{
    if (decoder->sequence_length < DECODER_PARAMETERS)
        decoder->parameters[decoder->sequence_length] = (char)byte;
    decoder->sequence_length++;
}

static void feed_control(struct key_decoder *decoder, unsigned char byte)
{
    if (decoder->sequence_length == 0 && byte == '[') {
        enter_state(decoder, DECODER_FUNCTION);
        return;
    }
    if (decoder->sequence_length == 0 && byte == 'M' && !decoder->pasting) {
        enter_state(decoder, DECODER_MOUSE);
        return;
    }
    collect_byte(decoder, byte);
    if (byte >= ' ' && byte < '@')
        return;
    if (byte >= '@' && byte < DELETE)
        end_sequence(decoder);
    enter_state(decoder, DECODER_GROUND);
}

static void feed_mouse(struct key_decoder *decoder, unsigned char byte)
{
    const char *text = decoder->parameters;

    collect_byte(decoder, byte);
    if (decoder->sequence_length < MOUSE_BYTES)
        return;
    if (!decoder->meta)
        add_pointer(decoder, (unsigned char)text[0] - MOUSE_OFFSET,
                    (unsigned char)text[1] - MOUSE_OFFSET, (unsigned char)text[2] - MOUSE_OFFSET);
    enter_state(decoder, DECODER_GROUND);
}

static void start_character(struct key_decoder *decoder, unsigned char byte, bool ignored)
{
    decoder->need_bytes = byte < 0x80                   ? 1
                          : byte >= 0xc2 && byte < 0xe0 ? 2
                          : byte >= 0xe0 && byte < 0xf0 ? 3
                          : byte >= 0xf0 && byte < 0xf5 ? 4
                                                        : 0; /* no UTF-8 character starts so */
    decoder->have_bytes = 0;
    decoder->ignored = ignored;
    if (decoder->need_bytes == 0)
        return;
    decoder->character[decoder->have_bytes++] = byte;
}

static void end_character(struct key_decoder *decoder)
{
    if (decoder->need_bytes == 0 || decoder->have_bytes < decoder->need_bytes)
        return;
    for (size_t i = 0; i < decoder->have_bytes && !decoder->ignored; i++)
        add_code(decoder, decoder->character[i]);
    decoder->need_bytes = 0;
}

static void feed_ground(struct key_decoder *decoder, unsigned char byte)
{
    if (decoder->need_bytes > 0 && byte >= 0x80 && byte < 0xc0) {
        decoder->character[decoder->have_bytes++] = byte;
        end_character(decoder);
        return;
    }
    decoder->need_bytes = 0;
    decoder->meta = false;
    if (byte == ESC) {
        enter_state(decoder, DECODER_ESCAPE);
        return;
    }
    start_character(decoder, byte, false);
    end_character(decoder);
}

static void feed_escape(struct key_decoder *decoder, unsigned char byte)
{
    if (byte == ESC) {
        decoder->meta = true;
    } else if (byte == '[') {
        enter_state(decoder, DECODER_CONTROL);
    } else if (byte == 'O') {
        enter_state(decoder, DECODER_SINGLE);
    } else if (byte != '\0' && strchr("]PX^_", byte) != NULL && !decoder->pasting) {
        enter_state(decoder, DECODER_STRING);
    } else {
        enter_state(decoder, DECODER_GROUND);
        start_character(decoder, byte, true);
        end_character(decoder);
    }
}

/* The brightness in "11;rgb:ffff/ffff/ffff", with one to four digits each; -1: it is another text. */
static double brightness_in(const char *text)
{
    static const double weights[] = {0.299, 0.587, 0.114};
    double sum = 0;
    char *end;

    if (strncmp(text, "11;rgb:", 7) != 0)
        return -1;
    text += 7;
    for (int i = 0; i < 3; i++) {
        unsigned long value = strtoul(text, &end, 16);
        long digits = end - text;

        if (digits < 1 || digits > 4 || *end != (i < 2 ? '/' : '\0'))
            return -1;
        sum += weights[i] * (double)value / (double)((1UL << (4 * digits)) - 1);
        text = end + 1;
    }
    return sum;
}

static void end_string(struct key_decoder *decoder)
{
    double brightness;

    if (decoder->sequence_length >= DECODER_PARAMETERS)
        return;
    decoder->parameters[decoder->sequence_length] = '\0';
    brightness = brightness_in(decoder->parameters);
    if (brightness >= 0)
        decoder->brightness = brightness;
}

/* ESC ends the string: as a part of ESC \, or as the start of another sequence. */
static void feed_string(struct key_decoder *decoder, unsigned char byte)
{
    bool ending = decoder->ending;

    decoder->ending = byte == ESC;
    if (!ending && byte >= ' ')
        collect_byte(decoder, byte);
    else if (byte == BELL || (ending && byte == '\\'))
        end_string(decoder);
    if (ending && byte != '\\' && byte != ESC)
        feed_escape(decoder, byte);
    else if (ending || byte == BELL || byte == CAN || byte == SUB)
        enter_state(decoder, byte == ESC ? DECODER_ESCAPE : DECODER_GROUND);
}

void key_decoder_feed(struct key_decoder *decoder, unsigned char byte)
{
    decoder->codes = 0;
    if (byte == ESC && decoder->state != DECODER_GROUND && decoder->state != DECODER_ESCAPE &&
        decoder->state != DECODER_STRING) {
        decoder->meta = false; /* the sequence before it is incomplete */
        enter_state(decoder, DECODER_ESCAPE);
        return;
    }
    switch (decoder->state) {
    case DECODER_GROUND:
        feed_ground(decoder, byte);
        break;
    case DECODER_ESCAPE:
        feed_escape(decoder, byte);
        break;
    case DECODER_CONTROL:
        feed_control(decoder, byte);
        break;
    case DECODER_SINGLE:
        collect_byte(decoder, byte);
        if (byte >= '0' && byte <= ';')
            break;
        end_sequence(decoder);
        enter_state(decoder, DECODER_GROUND);
        break;
    case DECODER_STRING:
        feed_string(decoder, byte);
        break;
    case DECODER_MOUSE:
        feed_mouse(decoder, byte);
        break;
    case DECODER_FUNCTION:
        if (byte == 'A' && !decoder->meta)
            add_code(decoder, KEY_F(1));
        enter_state(decoder, DECODER_GROUND);
        break;
    }
}

bool key_decoder_waits(const struct key_decoder *decoder)
{
    return decoder->state == DECODER_ESCAPE || decoder->ending ||
           (decoder->sequence_length == 0 && decoder->state != DECODER_GROUND);
}

/* Without a byte behind it, an introducer was Alt with that key: ignored. */
void key_decoder_expire(struct key_decoder *decoder)
{
    bool escape = decoder->state == DECODER_ESCAPE || decoder->ending;

    decoder->codes = 0;
    enter_state(decoder, DECODER_GROUND);
    if (!escape)
        return;
    decoder->pasting = false;
    add_code(decoder, ESC);
}
