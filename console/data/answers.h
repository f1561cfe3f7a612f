/* The daemon's answers for people. Any thread. */
#ifndef CONSOLE_ANSWERS_H
#define CONSOLE_ANSWERS_H

#include <stddef.h>
#include <stdio.h>

enum answer {
    ANSWER_DONE,
    ANSWER_REFUSED, /* the daemon said no; its sentence was written */
    ANSWER_BROKEN,  /* not an answer of this protocol; said so */
};

/*
 * Writes the JSON line that answered COMMAND (its name) as text to OUT, ended by a newline. What
 * was refused or broken goes to OUT as well: one sentence, without a newline.
 */
enum answer answer_print(const char *command, const char *line, FILE *out);

/* The same into BUFFER, cut to its first line and SIZE. */
enum answer answer_sentence(const char *command, const char *line, char *buffer, size_t size);

#endif
