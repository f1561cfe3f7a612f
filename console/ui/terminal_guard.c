#include "console/ui/terminal_guard.h"

#include <curses.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

/* Prepared beforehand: a crashing program may only make simple calls. */
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

    if (text == NULL || text == (const char *)-1) /* terminfo's "has none" and "is none" */
        return;
    length = strlen(text);
    if (leave_length + length > sizeof(leave_text))
        return;
    memcpy(leave_text + leave_length, text, length);
    leave_length += length;
}

void terminal_guard_remember(void)
{
    tcgetattr(STDIN_FILENO, &mode_before);
}

void terminal_guard_start(bool mouse)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = SA_NODEFER | SA_ONSTACK};
    stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof(own_stack)};

    sigaltstack(&stack, NULL); /* a stack that has run out is a crash as well */
    leave_length = 0;
    if (mouse)
        add_capability("\033[?1006l\033[?1002l\033[?1000l");
    add_capability(exit_attribute_mode);
    add_capability(exit_ca_mode);
    add_capability(cursor_normal); /* last: see terminal_guard_show_cursor() */
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        sigaction(crashes[i], &action, NULL);
}

void terminal_guard_show_cursor(void)
{
    if (cursor_normal != NULL)
        putp(cursor_normal);
    fflush(stdout);
}
