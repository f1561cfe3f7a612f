/*
 * Keys: from the bytes of a terminal to curses codes, and from these to actions (keys.def); the
 * scroll position that they move. Pure; one thread.
 */
#ifndef CONSOLE_KEYS_H
#define CONSOLE_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum action {
#define KEY(action, group, shown, brief, first, second, help) ACTION_##action,
#include "console/ui/keys.def"
#undef KEY
    ACTION_COUNT,
    ACTION_NONE = ACTION_COUNT
};

struct key_info {
    const char *group, *shown, *brief, *help;
    int first, second;
};
extern const struct key_info key_table[ACTION_COUNT];

/* The action of the key with curses code CODE, or ACTION_NONE. */
enum action key_action(int code);

/* Scroll position of a text or list. Pure. */

struct scroll {
    int top;  /* first visible row */
    int page; /* visible rows when last drawn */
};

/* Moves; false if ACTION is not a movement. The position may be out of range until scroll_fit(). */
bool scroll_key(struct scroll *scroll, enum action action);

/* Clamps the position for ROWS rows, PAGE of them visible. */
void scroll_fit(struct scroll *scroll, int rows, int page);

/*
 * Decodes the bytes of a terminal into keys. Escape sequences that are not listed are consumed as a
 * whole, and so are Alt with a key and invalid UTF-8: none of their bytes becomes a key. Pasted
 * text (bracketed paste) is marked, because only a text field may use it. The answer of the terminal
 * about its background (OSC 11) is kept. Pure; one thread.
 */

enum pointer { POINTER_CLICK, POINTER_WHEEL_UP, POINTER_WHEEL_DOWN };

struct pointer_event {
    enum pointer what;
    int y, x; /* on the screen */
};

/* Added to the code of a byte of pasted text. */
enum { KEY_PASTED = 1 << 16 };

enum decoder_state {
    DECODER_GROUND,
    DECODER_ESCAPE,  /* after ESC */
    DECODER_CONTROL, /* in a control sequence: ESC [ ... */
    DECODER_SINGLE,  /* after ESC O */
    DECODER_STRING,  /* in a control string: ESC ], P, X, ^ or _ */
    DECODER_MOUSE,   /* in the three bytes of the old mouse report, ESC [ M */
    DECODER_FUNCTION /* after ESC [ [ of the Linux console */
};

enum { DECODER_PARAMETERS = 32, DECODER_CODES = 4 };

/* Zeroed before use, except for BRIGHTNESS. */
struct key_decoder {
    enum decoder_state state;
    bool meta;    /* the sequence began with two ESC: Alt and a function key */
    bool pasting; /* between the marks of a paste */
    bool ending;  /* ESC inside a control string: it may end */
    char parameters[DECODER_PARAMETERS];
    size_t sequence_length;     /* after its introducer, also beyond the array */
    unsigned char character[4]; /* an incomplete UTF-8 character */
    size_t have_bytes, need_bytes;
    bool ignored;      /* that character was typed with Alt */
    double brightness; /* of the background, 0 to 1, as the terminal last reported; -1: not yet */
    struct pointer_event pointer;
    int code[DECODER_CODES];
    size_t codes;
};

/*
 * Decodes BYTE. The resulting keys are in CODE (CODES of them): curses codes; the bytes of a UTF-8
 * character one by one; KEY_MOUSE with the event in POINTER.
 */
void key_decoder_feed(struct key_decoder *decoder, unsigned char byte);

/* True if the last bytes are a key of their own unless more bytes follow at once. */
bool key_decoder_waits(const struct key_decoder *decoder);

/* No byte followed: ESC was the key Esc, which also ends a paste without an end mark. */
void key_decoder_expire(struct key_decoder *decoder);

#endif
