/* Text of any bytes as a JSON string. */
#ifndef COMMON_JSON_TEXT_H
#define COMMON_JSON_TEXT_H

#include <jansson.h>

/* TEXT, of any bytes, as a string (escape_lines()); NULL: out of memory. */
json_t *json_text(const char *text);

#endif
