#include "console/ui/screen.h"

#include "common/clock.h"
#include "console/ui/text.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

enum {
    ESCAPE_DELAY_MS = 25,
    FRAME_MS = 50,  /* how long a frame may wait for the terminal before others are dropped */
    LEAVE_MS = 200, /* the same of the sequences that restore it */
};

/* The terminal marks pasted text. Terminals that do not know these modes ignore them. */
static const char paste_marks_on[] = "\033[?2004h", paste_marks_off[] = "\033[?2004l";

static SCREEN *terminal;
static struct sheet *off_screen; /* NULL: frames are shown on the terminal */

/* The theme, and the one that the answer of the terminal chose; THEME_ASK: none yet. */
static enum theme wanted_theme, answered_theme = THEME_ASK;
static const char ask_background[] = "\033]11;?\033\\";

/* Bytes typed and not yet decoded, and keys decoded and not yet taken. */
static struct {
    struct key_decoder decoder;
    unsigned char bytes[256];
    size_t count, at;
    size_t taken_codes; /* how many of the decoder's codes were returned */
} input;

/*
 * Output. Curses writes into memory, because it would wait for a terminal that takes no bytes; a
 * descriptor of our own, that does not block, takes them from there. Curses is not called while
 * bytes are left, so what it believes to be on the screen will be there. The descriptors of the
 * process stay as they are: the shell and others share them.
 */
static struct {
    int fd;       /* the terminal; -1: not open */
    FILE *memory; /* curses writes here */
    char *bytes;
    size_t count, written, room;
} output = {.fd = -1};

/* Opens the terminal of the standard output again, for writing, without blocking. Or -1. */
static int open_again(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    unsigned device, wanted;

    if (fd >= 0 && ioctl(fd, TIOCGDEV, &device) == 0 &&
        ioctl(STDOUT_FILENO, TIOCGDEV, &wanted) == 0 && device == wanted)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The terminal of another user opens only as the controlling one; else output blocks. */
static int open_output(void)
{
    int memory = memfd_create("wsconsole", MFD_CLOEXEC);

    output.memory = memory >= 0 ? fdopen(memory, "w") : NULL;
    if (output.memory == NULL) {
        if (memory >= 0)
            close(memory);
        return -1;
    }
    output.fd = open_again("/proc/self/fd/1");
    if (output.fd < 0)
        output.fd = open_again("/dev/tty");
    if (output.fd < 0)
        output.fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return output.fd < 0 ? -1 : 0;
}

static void close_output(void)
{
    if (output.memory != NULL)
        fclose(output.memory);
    if (output.fd >= 0)
        close(output.fd);
    output.memory = NULL;
    output.fd = -1;
    output.count = output.written = 0;
}

/* Room for COUNT more bytes. Out of memory, they are lost, and the next frame is a whole one. */
static bool make_output_room(size_t count)
{
    char *larger;

    if (output.count + count <= output.room)
        return true;
    larger = realloc(output.bytes, output.count + count);
    if (larger == NULL) {
        screen_invalidate();
        return false;
    }
    output.bytes = larger;
    output.room = output.count + count;
    return true;
}

static void add_output(const char *text)
{
    size_t length = strlen(text);

    if (!make_output_room(length))
        return;
    memcpy(output.bytes + output.count, text, length);
    output.count += length;
}

/* Takes what curses wrote. */
static void take_frame(void)
{
    int memory = fileno(output.memory);
    off_t length = lseek(memory, 0, SEEK_CUR);

    if (length > 0 && make_output_room((size_t)length) &&
        pread(memory, output.bytes + output.count, (size_t)length, 0) == length)
        output.count += (size_t)length;
    lseek(memory, 0, SEEK_SET);
}

bool screen_ready(void)
{
    while (output.written < output.count) {
        ssize_t written =
            write(output.fd, output.bytes + output.written, output.count - output.written);

        if (written < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (written < 0)
            break; /* the terminal is gone */
        output.written += (size_t)written;
    }
    output.count = output.written = 0;
    return true;
}

/*
 * Writes for at most LIMIT_MS. It waits by select(), by which the tests tell it from the rest of a
 * program that waits for events.
 */
static void write_output(unsigned limit_ms)
{
    uint64_t now_ns = clock_monotonic_ns(), until_ns = now_ns + limit_ms * NS_PER_MS;

    while (!screen_ready() && now_ns < until_ns) {
        struct timeval rest = {.tv_usec = (suseconds_t)((until_ns - now_ns) / 1000)};
        fd_set set;

        FD_ZERO(&set);
        FD_SET(output.fd, &set);
        select(output.fd + 1, NULL, &set, NULL, &rest);
        now_ns = clock_monotonic_ns();
    }
}

int screen_output(void)
{
    return output.written < output.count ? output.fd : -1;
}

/*
 * Crash guard: restores the terminal if the process crashes. All is prepared in advance, because
 * the handler may only make async-signal-safe calls.
 */
static struct termios mode_before, own_mode;
static char leave_text[256];
static size_t leave_length;
static char own_stack[16384];

static void restore_and_die(int number)
{
    ssize_t ignored = write(output.fd, leave_text, leave_length);

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

/*
 * Bytes as they are typed and written; only the keys of signals act. Curses cannot set it, because
 * its output is no terminal. Without flow control: Ctrl-S would stop the screen until Ctrl-Q.
 */
static void set_own_mode(void)
{
    own_mode = mode_before;
    own_mode.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON);
    own_mode.c_oflag &= ~(tcflag_t)(ONLCR | TABDLY);
    own_mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    own_mode.c_lflag |= ISIG;
    own_mode.c_cc[VMIN] = 1;
    own_mode.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &own_mode);
}

/* Curses cannot ask its output for the size. */
static void adopt_size(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
}

/* Ends curses, whose terminal is not started. */
static void forget_terminal(void)
{
    if (terminal != NULL) {
        endwin();
        delscreen(terminal);
    }
    terminal = NULL;
    close_output();
}

/* The Linux console and the terminals that vt stands for print what they do not know. */
static bool terminal_can_answer(void)
{
    const char *type = getenv("TERM");

    return type != NULL && strncmp(type, "vt", 2) != 0 && strcmp(type, "linux") != 0;
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
    if (open_output() != 0) {
        snprintf(why, size, "cannot open the terminal: %s", strerror(errno));
        close_output();
        return -1;
    }
    terminal = newterm(NULL, output.memory, stdin);
    if (terminal == NULL) {
        forget_terminal();
        snprintf(why, size, "unknown terminal type '%s'; set TERM to a known one, or use --once",
                 type != NULL ? type : "");
        return -1;
    }
    if (cursor_address == NULL) {
        forget_terminal();
        snprintf(why, size,
                 "terminal type '%s' cannot show a full screen; set TERM to the type of your "
                 "terminal, or use --once",
                 type != NULL ? type : "");
        return -1;
    }
    nonl();
    typeahead(-1);
    set_own_mode();
    adopt_size();
    leaveok(stdscr, TRUE);
    curs_set(0);
    mouseinterval(0);
    memset(&input, 0, sizeof(input));
    input.decoder.brightness = -1;
    screen_adjust(screen, theme, ascii, mouse);
    add_output(paste_marks_on);
    if (theme == THEME_ASK && answered_theme == THEME_ASK && terminal_can_answer())
        add_output(ask_background);
    lay_out_screen(screen, LINES, COLS);
    return 0;
}

void screen_start_on(struct screen *screen, struct sheet *sheet, bool ascii)
{
    off_screen = sheet;
    sheet_use(sheet);
    text_set_ascii(ascii);
    screen->ascii = ascii;
    screen->style = ascii ? GRAPH_ASCII : GRAPH_BRAILLE;
    lay_out_screen(screen, sheet->height, sheet->width);
}

void screen_copy(const char *text)
{
    char *sequence = NULL;
    size_t length;
    FILE *out = open_memstream(&sequence, &length);

    if (out == NULL)
        return;
    fputs("\033]52;c;", out);
    text_base64(out, text, strlen(text));
    fputs("\a", out);
    if (fclose(out) == 0 && screen_ready()) {
        add_output(sequence);
        write_output(FRAME_MS);
    }
    free(sequence);
}

void screen_bell(void)
{
    if (!screen_ready())
        return;
    beep();
    take_frame();
    write_output(FRAME_MS);
}

/* The fonts of the Linux console have blocks but no braille. */
void screen_adjust(struct screen *screen, enum theme theme, bool ascii, bool mouse)
{
    const char *type = getenv("TERM");

    guard_start(mouse);
    mousemask(mouse ? BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
    wanted_theme = theme;
    theme_start(theme != THEME_ASK            ? theme
                : answered_theme != THEME_ASK ? answered_theme
                                              : THEME_DARK);
    screen->ascii = ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0 ||
                    (type != NULL && strncmp(type, "vt", 2) == 0);
    text_set_ascii(screen->ascii);
    screen->style = screen->ascii                                ? GRAPH_ASCII
                    : type != NULL && strcmp(type, "linux") == 0 ? GRAPH_BLOCKS
                                                                 : GRAPH_BRAILLE;
    screen_invalidate();
}

/* Adopts the current size of the terminal; also after the process was stopped. */
static void resize_screen(struct screen *screen)
{
    adopt_size();
    if (screen_ready())
        add_output(paste_marks_on); /* another terminal may have been attached, as by tmux */
    lay_out_screen(screen, LINES, COLS);
    screen_invalidate();
}

/* What a terminal does not take in time, it does not get. */
static void leave_terminal(void)
{
    add_output(paste_marks_off);
    endwin();
    take_frame();
    /*
     * endwin() shows the cursor too early for terminals that save its visibility with its position
     * (those based on libvterm): leaving full-screen mode then restores the hidden cursor.
     */
    if (cursor_normal != NULL)
        add_output(cursor_normal);
    write_output(LEAVE_MS);
    tcsetattr(STDIN_FILENO, TCSANOW, &mode_before);
}

void screen_stop(void)
{
    if (terminal == NULL)
        return;
    leave_terminal();
    delscreen(terminal);
    terminal = NULL;
    close_output();
}

/*
 * Ctrl-Z: the shell has the terminal until it continues this process. Without a shell that could
 * continue it, the kernel ignores the signal.
 */
static void suspend_console(void)
{
    sigset_t stop;

    leave_terminal();
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* stops here */
    sigprocmask(SIG_BLOCK, &stop, NULL);
}

static void resume_console(struct screen *screen)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &own_mode);
    resize_screen(screen);
}

bool screen_signalled(struct screen *screen, int signals)
{
    struct signalfd_siginfo info;
    bool end = false;

    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        switch (info.ssi_signo) {
        case SIGWINCH:
            resize_screen(screen);
            break;
        case SIGTSTP:
            suspend_console();
            resume_console(screen);
            break;
        case SIGCONT:
            resume_console(screen);
            break;
        default:
            end = true;
            break;
        }
    return end;
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

/* Adopts what the terminal has answered, however late; then all is drawn again. */
static void take_brightness(void)
{
    if (input.decoder.brightness < 0 || answered_theme != THEME_ASK)
        return;
    answered_theme = input.decoder.brightness > 0.5 ? THEME_LIGHT : THEME_DARK;
    if (wanted_theme == THEME_ASK)
        theme_start(answered_theme);
    screen_invalidate();
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
        take_brightness();
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
    if (off_screen != NULL || !screen_ready())
        return;
    refresh();
    take_frame();
    write_output(FRAME_MS);
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
    sigaddset(&set, SIGTSTP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}
