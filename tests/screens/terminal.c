#include "terminal.h"

#include "common/clock.h"
#include "patience.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vterm.h>

enum {
    ROWS_MAX = 100,
    COLUMNS_MAX = 400,
    CELL_BYTES = 4,
    POLL_MS = 20,
    TAKEN_BYTES = 16384,
    PAUSE_US = 100, /* of terminal_settle(): the first, and the longest */
    PAUSE_MOST_US = 3200,
    LOOKS_MAX = 60,
};

#define DEADLINE_NS (PATIENCE_S * NS_PER_S)

struct terminal {
    int fd; /* master side; -1: closed */
    pid_t pid;
    bool ended;
    int status;
    int rows, columns;
    VTerm *machine;
    VTermScreen *screen;
    bool full_screen, cursor_visible;
    char copied[256];
    char taken[TAKEN_BYTES]; /* output not yet passed to libvterm */
    size_t held;             /* its length: an incomplete escape sequence */
    char text[ROWS_MAX * (COLUMNS_MAX * CELL_BYTES + 1) + 1];
    char line[COLUMNS_MAX * CELL_BYTES + 1];
};

static void fail(const char *what)
{
    fprintf(stderr, "terminal: %s: %s\n", what, strerror(errno));
    abort();
}

static int note_property(VTermProp property, VTermValue *value, void *user)
{
    struct terminal *terminal = user;

    if (property == VTERM_PROP_ALTSCREEN)
        terminal->full_screen = value->boolean;
    if (property == VTERM_PROP_CURSORVISIBLE)
        terminal->cursor_visible = value->boolean;
    return 1;
}

static const VTermScreenCallbacks callbacks = {.settermprop = note_property};

static void run_program(const char *const *arguments, const char *const *environment)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm-256color", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("TZ", "UTC", 1);
    setenv("XDG_CONFIG_HOME", "/proc/nonexistent", 1);
    setenv("XDG_STATE_HOME", "/proc/nonexistent", 1);
    for (; environment != NULL && *environment != NULL; environment++)
        putenv((char *)(uintptr_t)*environment);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    perror(arguments[0]);
    _exit(127);
}

static void make_machine(struct terminal *terminal, int rows, int columns)
{
    terminal->machine = vterm_new(rows, columns);
    vterm_set_utf8(terminal->machine, 1);
    terminal->screen = vterm_obtain_screen(terminal->machine);
    vterm_screen_enable_altscreen(terminal->screen, 1);
    vterm_screen_set_callbacks(terminal->screen, &callbacks, terminal);
    vterm_screen_reset(terminal->screen, 1);
}

struct terminal *terminal_start(int rows, int columns, const char *const *arguments,
                                const char *const *environment)
{
    struct terminal *terminal = calloc(1, sizeof(*terminal));
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};

    if (terminal == NULL)
        fail("memory");
    terminal->rows = rows;
    terminal->columns = columns;
    terminal->cursor_visible = true;
    make_machine(terminal, rows, columns);
    terminal->pid = forkpty(&terminal->fd, NULL, NULL, &size);
    if (terminal->pid < 0)
        fail("forkpty");
    if (terminal->pid == 0)
        run_program(arguments, environment);
    fcntl(terminal->fd, F_SETFL, O_NONBLOCK);
    fcntl(terminal->fd, F_SETFD, FD_CLOEXEC);
    return terminal;
}

void terminal_hang_up(struct terminal *terminal)
{
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

void terminal_stop(struct terminal *terminal)
{
    if (terminal == NULL)
        return;
    if (!terminal->ended) {
        kill(terminal->pid, SIGKILL);
        waitpid(terminal->pid, NULL, 0);
    }
    terminal_hang_up(terminal);
    vterm_free(terminal->machine);
    free(terminal);
}

pid_t terminal_pid(const struct terminal *terminal)
{
    return terminal->pid;
}

static const char
    *background; /* what the terminals say when they are asked (OSC 11); NULL: nothing */

void terminal_set_background(const char *rgb)
{
    background = rgb;
}

/* libvterm does not answer this question. */
static void answer_background(struct terminal *terminal, size_t length)
{
    static const char question[] = "\x1b]11;?\x1b\\";
    char answer[64];

    if (background == NULL ||
        memmem(terminal->taken, length, question, sizeof(question) - 1) == NULL)
        return;
    snprintf(answer, sizeof(answer), "\x1b]11;rgb:%s\x1b\\", background);
    if (write(terminal->fd, answer, strlen(answer)) < 0)
        fail("answer");
}

/* Replies of the terminal (to a query of its type) go to the program as input. */
static void pass_on_answers(struct terminal *terminal)
{
    char answer[256];
    size_t length = vterm_output_read(terminal->machine, answer, sizeof(answer));

    if (length > 0 && write(terminal->fd, answer, length) < 0)
        return;
}

/* Length of TEXT up to an incomplete escape sequence at its end. */
static size_t whole_sequences(const char *text, size_t length)
{
    const char *escape = memrchr(text, '\x1b', length);
    const char *at, *end = text + length;

    if (escape == NULL)
        return length;
    at = escape + 1;
    if (at < end && *at == '[')
        at++;
    while (at < end && *at >= ' ' && *at < '@')
        at++;
    return at < end ? length : (size_t)(escape - text);
}

/* Finds ESC ] 52 ; c ; BASE64 BEL in the first LENGTH bytes taken. */
static void note_copied(struct terminal *terminal, size_t length)
{
    static const char start[] = "\x1b]52;c;";
    const char *at = memmem(terminal->taken, length, start, strlen(start)), *end;

    if (at == NULL)
        return;
    at += strlen(start);
    end = memchr(at, '\a', length - (size_t)(at - terminal->taken));
    if (end != NULL)
        snprintf(terminal->copied, sizeof(terminal->copied), "%.*s", (int)(end - at), at);
}

/*
 * Passes only complete sequences to libvterm, so that sequences of our own are never inserted into
 * one.
 */
static void feed(struct terminal *terminal, size_t got)
{
    size_t length = terminal->held + got;
    size_t whole = whole_sequences(terminal->taken, length);

    if (whole == 0 && length == TAKEN_BYTES)
        whole = length;
    note_copied(terminal, length);
    vterm_input_write(terminal->machine, terminal->taken, whole);
    terminal->held = length - whole;
    memmove(terminal->taken, terminal->taken + whole, terminal->held);
}

/* Reads output, waiting up to WAIT_MS. Returns true if there was some. */
static bool read_output(struct terminal *terminal, int wait_ms)
{
    struct pollfd wait = {.fd = terminal->fd, .events = POLLIN};
    ssize_t got;

    if (terminal->fd < 0 || poll(&wait, 1, wait_ms) <= 0) {
        usleep(terminal->fd < 0 ? POLL_MS * 1000 : 0);
        return false;
    }
    got = read(terminal->fd, terminal->taken + terminal->held, TAKEN_BYTES - terminal->held);
    if (got > 0) {
        answer_background(terminal, terminal->held + (size_t)got);
        feed(terminal, (size_t)got);
        pass_on_answers(terminal);
    } else if (got < 0 && errno == EIO) {
        usleep(POLL_MS * 1000); /* the program closed its side */
    }
    return got > 0;
}

void terminal_take(struct terminal *terminal)
{
    read_output(terminal, 1);
}

static bool has_ended(struct terminal *terminal)
{
    terminal->ended =
        terminal->ended || waitpid(terminal->pid, &terminal->status, WNOHANG) == terminal->pid;
    return terminal->ended;
}

/* Writes in a loop: a busy program may not read for a while, and the pseudo-terminal buffers little. */
bool terminal_type_bytes(struct terminal *terminal, const char *bytes, size_t length)
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS;

    while (length > 0) {
        ssize_t written;

        if (has_ended(terminal)) /* the pseudo-terminal still takes bytes */
            return false;
        written = write(terminal->fd, bytes, length);
        if (written < 0 && (errno != EAGAIN || clock_monotonic_ns() > deadline_ns))
            fail("type");
        if (written < 0) {
            read_output(terminal, POLL_MS);
            continue;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

static void type_keys(struct terminal *terminal, const char *keys, size_t length)
{
    if (!terminal_type_bytes(terminal, keys, length)) {
        errno = EIO;
        fail("type: the program has ended");
    }
}

void terminal_type(struct terminal *terminal, const char *keys)
{
    for (const char *agree; (agree = strstr(keys, AGREE)) != NULL; keys = agree + 1) {
        type_keys(terminal, keys, (size_t)(agree - keys));
        if (!terminal_shows(terminal, " yes  n no"))
            fail("no question can be answered");
        type_keys(terminal, strstr(terminal_text(terminal), "Enter yes") != NULL ? "\r" : "y", 1);
    }
    type_keys(terminal, keys, strlen(keys));
}

/* True if the program has not read all that was typed. poll() first moves what is on its way. */
static bool input_waits(const struct terminal *terminal)
{
    char name[64];
    struct pollfd wait = {.events = POLLIN};
    bool waits;

    if (ptsname_r(terminal->fd, name, sizeof(name)) != 0)
        fail("ptsname_r");
    wait.fd = open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (wait.fd < 0)
        return false;
    waits = poll(&wait, 1, 0) > 0 && (wait.revents & POLLIN) != 0;
    close(wait.fd);
    return waits;
}

/* The state of the program in /proc/PID/stat; 0: it has ended. */
static char process_state(const struct terminal *terminal)
{
    char path[64], text[512], *name_end;
    FILE *file;
    size_t length;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)terminal->pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 0;
}

/*
 * The system call in which the program sleeps; -1: none. SYS_ppoll from a kernel that does not tell.
 */
static long system_call(const struct terminal *terminal)
{
    char path[64];
    long number = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/syscall", (int)terminal->pid);
    file = fopen(path, "re");
    if (file == NULL)
        return SYS_ppoll;
    if (fscanf(file, "%ld", &number) != 1)
        number = -1;
    fclose(file);
    return number;
}

/* True if the program sleeps in poll(), not while it connects or writes. */
static bool polls(const struct terminal *terminal)
{
    long number;

    if (process_state(terminal) != 'S')
        return false;
    number = system_call(terminal);
#ifdef SYS_poll /* arm64 has ppoll() alone */
    if (number == SYS_poll)
        return true;
#endif
    return number == SYS_ppoll;
}

/* True in a system call that writes, or waits until the console's output can be written. */
static bool is_writing(long number)
{
#ifdef SYS_select
    if (number == SYS_select)
        return true;
#endif
    return number == SYS_write || number == SYS_pselect6;
}

/* True if the program neither computes nor writes: it has drawn a whole frame. */
static bool rests(const struct terminal *terminal)
{
    char state = process_state(terminal);
    long number;

    if (state != 'S')
        return state != 'R' && state != 'D';
    number = system_call(terminal);
    return !is_writing(number) && number != -1;
}

bool terminal_settle(struct terminal *terminal)
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS;
    unsigned pause_us = PAUSE_US;

    while (!has_ended(terminal)) {
        while (read_output(terminal, 0))
            continue;
        if (!input_waits(terminal) && polls(terminal) && !read_output(terminal, 0))
            return true;
        if (process_state(terminal) == 'T')
            kill(terminal->pid, SIGCONT);
        if (clock_monotonic_ns() > deadline_ns)
            fail("the program does not read its input");
        usleep(pause_us);
        pause_us = pause_us < PAUSE_MOST_US ? 2 * pause_us : pause_us;
    }
    return false;
}

/*
 * A new machine of the new size, because libvterm 0.1 writes outside its buffers after some changes
 * of the size. The program redraws all after a resize.
 */
static void set_size(struct terminal *terminal, int rows, int columns)
{
    bool full_screen = terminal->full_screen, cursor_visible = terminal->cursor_visible;

    vterm_free(terminal->machine);
    make_machine(terminal, rows, columns);
    if (full_screen)
        vterm_input_write(terminal->machine, "\x1b[?1049h", 8);
    if (!cursor_visible)
        vterm_input_write(terminal->machine, "\x1b[?25l", 6);
}

void terminal_resize(struct terminal *terminal, int rows, int columns)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};

    if (rows == terminal->rows && columns == terminal->columns)
        return; /* the kernel would not tell the program, which would not redraw */
    terminal->rows = rows;
    terminal->columns = columns;
    set_size(terminal, rows, columns);
    if (ioctl(terminal->fd, TIOCSWINSZ, &size) != 0)
        fail("resize");
}

static size_t put_character(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)(c == 0 ? ' ' : c);
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | c >> 12);
    to[1] = (char)(0x80 | (c >> 6 & 0x3f));
    to[2] = (char)(0x80 | (c & 0x3f));
    return 3;
}

static VTermScreenCell cell_at(struct terminal *terminal, int row, int column)
{
    VTermPos place = {.row = row, .col = column};
    VTermScreenCell cell;

    vterm_screen_get_cell(terminal->screen, place, &cell);
    return cell;
}

const char *terminal_line(struct terminal *terminal, int row)
{
    size_t used = 0;

    for (int column = 0; column < terminal->columns; column++)
        used += put_character(terminal->line + used, cell_at(terminal, row, column).chars[0]);
    terminal->line[used] = '\0';
    return terminal->line;
}

const char *terminal_text(struct terminal *terminal)
{
    size_t used = 0;

    for (int row = 0; row < terminal->rows; row++) {
        const char *line = terminal_line(terminal, row);
        size_t length = strlen(line);

        while (length > 0 && line[length - 1] == ' ')
            length--;
        memcpy(terminal->text + used, line, length);
        used += length;
        terminal->text[used++] = '\n';
    }
    terminal->text[used] = '\0';
    return terminal->text;
}

static bool is_on_screen(struct terminal *terminal, const char *text)
{
    return strstr(terminal_text(terminal), text) != NULL;
}

/* Waits for a whole frame, because the lines below TEXT may still be those of the frame before. */
static bool wait_for(struct terminal *terminal, const char *text, bool wanted)
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS;
    bool is_so = is_on_screen(terminal, text) == wanted;

    do {
        if (read_output(terminal, POLL_MS))
            is_so = is_on_screen(terminal, text) == wanted;
        if (is_so && rests(terminal)) {
            if (!read_output(terminal, 0))
                return true;
            is_so = is_on_screen(terminal, text) == wanted;
        }
    } while (clock_monotonic_ns() < deadline_ns);
    if (is_so)
        return true;
    if (has_ended(terminal))
        fprintf(stderr, "the program has ended, wait status %x\n", (unsigned)terminal->status);
    fprintf(stderr, "%s '%s' in:\n%s", wanted ? "no" : "still", text, terminal_text(terminal));
    return false;
}

bool terminal_shows(struct terminal *terminal, const char *text)
{
    return wait_for(terminal, text, true);
}

bool terminal_shows_no_more(struct terminal *terminal, const char *text)
{
    return wait_for(terminal, text, false);
}

bool terminal_shows_all(struct terminal *terminal, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!terminal_shows(terminal, texts[i]))
            return false;
    return true;
}

int terminal_wait_end(struct terminal *terminal)
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS;

    while (!terminal->ended && clock_monotonic_ns() < deadline_ns) {
        read_output(terminal, POLL_MS);
        has_ended(terminal);
    }
    while (terminal->ended && read_output(terminal, POLL_MS))
        ; /* drain the rest */
    return terminal->ended ? terminal->status : -1;
}

bool terminal_ends_unread(struct terminal *terminal)
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS;

    while (!has_ended(terminal) && clock_monotonic_ns() < deadline_ns)
        usleep(POLL_MS * 1000);
    return terminal->ended;
}

bool terminal_in_full_screen(const struct terminal *terminal)
{
    return terminal->full_screen;
}

bool terminal_cursor_visible(const struct terminal *terminal)
{
    return terminal->cursor_visible;
}

bool terminal_echoes(const struct terminal *terminal)
{
    struct termios mode;

    return tcgetattr(terminal->fd, &mode) == 0 && (mode.c_lflag & ECHO) != 0 &&
           (mode.c_lflag & ICANON) != 0;
}

bool terminal_has_reverse(struct terminal *terminal, int from, int to)
{
    for (int row = from; row <= to; row++)
        for (int column = 0; column < terminal->columns; column++)
            if (cell_at(terminal, row, column).attrs.reverse != 0)
                return true;
    return false;
}

int terminal_background(struct terminal *terminal, int row, int column)
{
    VTermScreenCell cell = cell_at(terminal, row, column);

    return VTERM_COLOR_IS_INDEXED(&cell.bg) ? cell.bg.indexed.idx : -1;
}

bool terminal_is_bold(struct terminal *terminal, int row, int column)
{
    return cell_at(terminal, row, column).attrs.bold != 0;
}

bool terminal_has_colour(struct terminal *terminal)
{
    for (int row = 0; row < terminal->rows; row++)
        for (int column = 0; column < terminal->columns; column++) {
            VTermScreenCell cell = cell_at(terminal, row, column);

            if (!VTERM_COLOR_IS_DEFAULT_FG(&cell.fg) || !VTERM_COLOR_IS_DEFAULT_BG(&cell.bg))
                return true;
        }
    return false;
}

/* The colours and attributes of CELL as a number. */
static unsigned look_of(const VTermScreenCell *cell)
{
    unsigned front = VTERM_COLOR_IS_DEFAULT_FG(&cell->fg) ? 256 : cell->fg.indexed.idx;
    unsigned back = VTERM_COLOR_IS_DEFAULT_BG(&cell->bg) ? 256 : cell->bg.indexed.idx;

    return (front << 9 | back) << 3 | (unsigned)cell->attrs.bold << 2 |
           (unsigned)(cell->attrs.underline != 0) << 1 | cell->attrs.reverse;
}

const char *terminal_looks(struct terminal *terminal)
{
    static unsigned looks[LOOKS_MAX];
    static int count;
    size_t used = 0;

    for (int row = 0; row < terminal->rows; row++) {
        for (int column = 0; column < terminal->columns; column++) {
            VTermScreenCell cell = cell_at(terminal, row, column);
            int i = 0;

            while (i < count && looks[i] != look_of(&cell))
                i++;
            if (i == count && count < LOOKS_MAX)
                looks[count++] = look_of(&cell);
            terminal->text[used++] = (char)('A' + i);
        }
        terminal->text[used++] = '\n';
    }
    terminal->text[used] = '\0';
    return terminal->text;
}

const char *terminal_copied(const struct terminal *terminal)
{
    return terminal->copied;
}

bool terminal_has_non_ascii(struct terminal *terminal)
{
    for (const char *c = terminal_text(terminal); *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80)
            return true;
    return false;
}

void terminal_save(struct terminal *terminal, const char *name)
{
    const char *folder = getenv("WSCONSOLE_SCREENS");
    char path[512];
    FILE *file;

    if (folder == NULL)
        return;
    snprintf(path, sizeof(path), "%s/%s.txt", folder, name);
    file = fopen(path, "w");
    if (file == NULL)
        fail(path);
    fputs(terminal_text(terminal), file);
    fclose(file);
}
