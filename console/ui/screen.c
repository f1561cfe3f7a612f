#include "console/ui/screen.h"

#include <curses.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

enum { ESCAPE_DELAY_MS = 25 };

/* The terminal marks pasted text. Terminals that do not know these modes ignore them. */
static const char paste_marks_on[] = "\033[?2004h", paste_marks_off[] = "\033[?2004l";

static SCREEN *terminal;
static struct sheet *off_screen; /* NULL: frames are shown on the terminal */

/* Bytes typed and not yet decoded, and keys decoded and not yet taken. */
static struct {
    struct key_decoder decoder;
    unsigned char bytes[256];
    size_t count, at;
    size_t taken_codes; /* how many of the decoder's codes were returned */
} input;

/*
 * Crash guard: restores the terminal if the process crashes. All is prepared in advance, because
 * the handler may only make async-signal-safe calls.
 */
static struct termios mode_before;
static char leave_text[256];
static size_t leave_length;
static char own_stack[16384];

static void restore_and_die(int number)
{
    ssize_t ignored = write(STDOUT_FILENO, leave_text, leave_length);

    (void)ignored;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode_before);
    signal(number, SIG_DFL);
    raise(number);
}

static void add_capability(const char *text)
{
    size_t length;

    if (text == NULL || text == (const char *)-1) /* absent, or not a string capability */
        return;
    length = strlen(text);
    if (leave_length + length > sizeof(leave_text))
        return;
    memcpy(leave_text + leave_length, text, length);
    leave_length += length;
}

static void guard_start(bool mouse)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = SA_NODEFER | SA_ONSTACK};
    stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof(own_stack)};

    sigaltstack(&stack, NULL); /* a stack overflow needs another stack */
    leave_length = 0;
    add_capability(paste_marks_off);
    if (mouse)
        add_capability("\033[?1006l\033[?1002l\033[?1000l");
    add_capability(exit_attribute_mode);
    add_capability(exit_ca_mode);
    add_capability(cursor_normal); /* last, for the reason in screen_stop() */
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        sigaction(crashes[i], &action, NULL);
}

/* Start and stop */

static void lay_out_screen(struct screen *screen, int height, int width)
{
    screen->tiny = height < SCREEN_MIN_HEIGHT || width < SCREEN_MIN_WIDTH;
    screen->all = (struct canvas){.height = height, .width = width};
    screen->bar = canvas_part(&screen->all, 0, 0, 1, width);
    screen->head = canvas_part(&screen->all, 1, 0, 1, width);
    screen->body = canvas_part(&screen->all, 2, 0, height - 3, width);
    screen->foot = canvas_part(&screen->all, height - 1, 0, 1, width);
}

static void mark_pastes(const char *mode)
{
    fputs(mode, stdout);
    fflush(stdout);
}

/* Ctrl-S would stop all output, and with it the console, until Ctrl-Q. */
static void turn_off_flow_control(void)
{
    struct termios mode;

    if (tcgetattr(STDIN_FILENO, &mode) != 0)
        return;
    mode.c_iflag &= ~(tcflag_t)IXON;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
    def_prog_mode(); /* curses sets it again after a suspension */
}

int screen_start(struct screen *screen, enum theme theme, bool ascii, bool mouse, char *why,
                 size_t size)
{
    const char *type = getenv("TERM");

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        snprintf(why, size,
                 "input and output must be a terminal; use --once or --json without one");
        return -1;
    }
    tcgetattr(STDIN_FILENO, &mode_before);
    terminal = newterm(NULL, stdout, stdin);
    if (terminal == NULL) {
        snprintf(why, size, "unknown terminal type '%s'; set TERM to a known one, or use --once",
                 type != NULL ? type : "");
        return -1;
    }
    if (cursor_address == NULL) {
        endwin();
        delscreen(terminal);
        terminal = NULL;
        snprintf(why, size,
                 "terminal type '%s' cannot show a full screen; set TERM to the type of your "
                 "terminal, or use --once",
                 type != NULL ? type : "");
        return -1;
    }
    cbreak();
    noecho();
    nonl();
    turn_off_flow_control();
    leaveok(stdscr, TRUE);
    curs_set(0);
    mouseinterval(0);
    memset(&input, 0, sizeof(input));
    screen_adjust(screen, theme, ascii, mouse);
    mark_pastes(paste_marks_on);
    lay_out_screen(screen, LINES, COLS);
    return 0;
}

void screen_start_on(struct screen *screen, struct sheet *sheet, bool ascii)
{
    off_screen = sheet;
    sheet_use(sheet);
    screen->ascii = ascii;
    screen->style = ascii ? GRAPH_ASCII : GRAPH_BRAILLE;
    lay_out_screen(screen, sheet->height, sheet->width);
}

void screen_bell(void)
{
    beep();
}

/* The fonts of the Linux console have blocks but no braille. */
void screen_adjust(struct screen *screen, enum theme theme, bool ascii, bool mouse)
{
    const char *type = getenv("TERM");

    guard_start(mouse);
    mousemask(mouse ? BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
    theme_start(theme);
    screen->ascii = ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0 ||
                    (type != NULL && strncmp(type, "vt", 2) == 0);
    screen->style = screen->ascii                                ? GRAPH_ASCII
                    : type != NULL && strcmp(type, "linux") == 0 ? GRAPH_BLOCKS
                                                                 : GRAPH_BRAILLE;
    screen_invalidate();
}

void screen_resize(struct screen *screen)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
    mark_pastes(paste_marks_on);
    lay_out_screen(screen, LINES, COLS);
    screen_invalidate();
}

void screen_stop(void)
{
    if (terminal == NULL)
        return;
    mark_pastes(paste_marks_off);
    endwin();
    /*
     * endwin() shows the cursor too early for terminals that save its visibility with its position
     * (those based on libvterm): leaving full-screen mode then restores the hidden cursor.
     */
    if (cursor_normal != NULL)
        putp(cursor_normal);
    fflush(stdout);
    delscreen(terminal);
    terminal = NULL;
}

/* Reads what was typed. Returns false if nothing is typed within TIMEOUT_MS. */
static bool read_bytes(int timeout_ms)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    ssize_t got;

    if (poll(&wait, 1, timeout_ms) <= 0)
        return false;
    got = read(STDIN_FILENO, input.bytes, sizeof(input.bytes));
    input.at = 0;
    input.count = got > 0 ? (size_t)got : 0;
    return input.count > 0;
}

int screen_key(void)
{
    struct key_decoder *decoder = &input.decoder;

    while (input.taken_codes == decoder->codes) {
        input.taken_codes = 0;
        decoder->codes = 0;
        if (input.at < input.count || read_bytes(0))
            key_decoder_feed(decoder, input.bytes[input.at++]);
        else if (!key_decoder_waits(decoder))
            return -1;
        else if (!read_bytes(ESCAPE_DELAY_MS))
            key_decoder_expire(decoder);
    }
    return decoder->code[input.taken_codes++];
}

struct pointer_event screen_pointer(void)
{
    return input.decoder.pointer;
}

void screen_begin(void)
{
    if (off_screen != NULL)
        sheet_clear(off_screen);
    else
        erase();
}

void screen_show(void)
{
    if (off_screen == NULL)
        refresh();
}

void screen_invalidate(void)
{
    clearok(stdscr, TRUE);
}

int screen_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGCONT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}
