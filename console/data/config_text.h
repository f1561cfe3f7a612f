/* The configuration in force, out of the text of the file that would say the same. Pure. */
#ifndef CONSOLE_CONFIG_TEXT_H
#define CONSOLE_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFIG_KEY_BYTES = 80, CONFIG_VALUE_BYTES = 512, CONFIG_HELP_BYTES = 512 };

struct config_line {
    char key[CONFIG_KEY_BYTES]; /* "cache.size", "headers /a.Name" */
    char value[CONFIG_VALUE_BYTES];
    char help[CONFIG_HELP_BYTES]; /* the comment above it */
};

/*
 * Reads the next line into LINE; *TEXT moves on. SECTION (CONFIG_KEY_BYTES, "" at first) keeps the
 * place. False at the end.
 */
bool config_text_next(const char **text, char *section, struct config_line *line);

/* The value of KEY into VALUE; "" and false when it is not there. */
bool config_text_value(const char *text, const char *key, char *value, size_t size);

#endif
