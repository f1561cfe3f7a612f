/* Reads the configuration in force, which the segment holds as the text of a file. Pure. */
#ifndef CONSOLE_CONFIG_TEXT_H
#define CONSOLE_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFIG_KEY_BYTES = 80, CONFIG_VALUE_BYTES = 512, CONFIG_HELP_BYTES = 512 };

struct config_line {
    char key[CONFIG_KEY_BYTES]; /* "cache.size", "headers /a.Name" */
    char value[CONFIG_VALUE_BYTES];
    char help[CONFIG_HELP_BYTES]; /* the comment above the key */
};

/*
 * Reads the next key into LINE and advances *TEXT. SECTION (CONFIG_KEY_BYTES, initially "") keeps the
 * current section between calls. False at the end.
 */
bool config_text_next(const char **text, char *section, struct config_line *line);

/* Copies the value of KEY to VALUE; "" and false if it is not there. */
bool config_text_value(const char *text, const char *key, char *value, size_t size);

#endif
