/*
 * The options of wsconsole as a table, made from console/app/options.def. Those that may stand in
 * console.ini are settings. Pure but for what prints; the console's only thread.
 */
#ifndef CONSOLE_OPTION_TABLE_H
#define CONSOLE_OPTION_TABLE_H

#include "common/macros.h"
#include "console/app/options.h"

#include <stdio.h>

enum { OPTION_NAME_BYTES = 32, OPTION_VALUE_BYTES = 80 };

struct option_info {
    const char *name, *argument, *help; /* argument "": it takes none */
    char letter;                        /* 0: it has none */
    /* Takes WORD, its argument; NULL for one without. A setting without takes on and off. What is
     * wrong with WORD is then in options->why. */
    enum options_result (*read)(const char *word, struct options *options);
    /* Writes a setting as read() takes it, nothing when it is at its default. NULL: no setting. */
    void (*show)(const struct options *options, char *text, size_t size);
};

enum {
#define OPTION(name, letter, argument, place, help) OPTION_##name,
#include "console/app/options.def"
#undef OPTION
    OPTION_COUNT
};

extern const struct option_info option_table[OPTION_COUNT];

/* The name as it is typed, "no-color", into BUFFER of OPTION_NAME_BYTES, which is returned. */
char *option_typed_name(const struct option_info *option, char *buffer);

/* All options with their help, as --help prints them. */
void option_table_print(FILE *out);

/* Writes the sentence into options->why and returns OPTIONS_WRONG. */
enum options_result option_wrong(struct options *options, const char *format, ...)
    PRINTF_LIKE(2, 3);

#endif
