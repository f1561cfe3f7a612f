/* Formats the daemon's JSON answers as text. Any thread. */
#ifndef CONSOLE_ANSWERS_H
#define CONSOLE_ANSWERS_H

#include <stddef.h>
#include <stdio.h>

enum answer {
    ANSWER_DONE,
    ANSWER_REJECTED, /* the daemon reported an error */
    ANSWER_BROKEN,   /* not an answer of this protocol */
};

/*
 * Writes LINE, the JSON answer to COMMAND (its name), to OUT as text with a final newline. If it is
 * not ANSWER_DONE, OUT gets an error message without a newline.
 */
enum answer answer_print(const char *command, const char *line, FILE *out);

/* As answer_print(), into BUFFER; truncated to the first line and to SIZE bytes. */
enum answer answer_sentence(const char *command, const char *line, char *buffer, size_t size);

#endif
