#include "common/json_text.h"

#include "common/escape.h"

#include <string.h>

json_t *json_text(const char *text)
{
    size_t length = strlen(text), size = ESCAPE_TEXT_BYTES(length);
    json_malloc_t allocate; /* notes that memory was short, so that no incomplete reply is sent */
    json_free_t release;
    json_t *string = NULL;
    char *escaped;

    json_get_alloc_funcs(&allocate, &release);
    escaped = allocate(size);
    if (escaped != NULL)
        string = json_string(escape_lines(escaped, size, text, length));
    release(escaped);
    return string;
}
