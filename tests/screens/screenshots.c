/*
 * screenshots ROWS COLUMNS TEXT PROGRAM [ARGUMENT...]: runs PROGRAM in a terminal and waits for TEXT. Then types each line
 * of its own input, and prints the screen after it, "\v", the looks of its cells (terminal_looks()) and "\f".
 */
#include "terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct terminal *terminal;
    char keys[256];
    int failed = 0;

    if (argc < 5) {
        fprintf(stderr, "usage: screenshots ROWS COLUMNS TEXT PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    terminal = terminal_start(atoi(argv[1]), atoi(argv[2]), (const char *const *)argv + 4, NULL);
    failed = !terminal_shows(terminal, argv[3]);
    while (!failed && fgets(keys, sizeof(keys), stdin) != NULL) {
        keys[strcspn(keys, "\n")] = '\0';
        terminal_type(terminal, keys);
        failed = !terminal_settle(terminal);
        printf("%s\v", terminal_text(terminal));
        printf("%s\f", terminal_looks(terminal));
    }
    terminal_stop(terminal);
    return failed;
}
