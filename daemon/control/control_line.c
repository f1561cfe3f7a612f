#include "daemon/control/control_line.h"

#include <stdlib.h>
#include <string.h>

static enum control_line without_line(struct evbuffer *input)
{
    if (evbuffer_search_eol(input, NULL, NULL, EVBUFFER_EOL_CRLF).pos >= 0)
        return CONTROL_LINE_NO_MEMORY;
    return evbuffer_get_length(input) > CONTROL_LINE_MAX /* a CR may be the last of it */
               ? CONTROL_LINE_TOO_LONG
               : CONTROL_LINE_INCOMPLETE;
}

enum control_line control_line_take(struct evbuffer *input, char **line)
{
    size_t length;

    *line = evbuffer_readln(input, &length, EVBUFFER_EOL_CRLF);
    if (*line == NULL)
        return without_line(input);
    if (length < CONTROL_LINE_MAX)
        return CONTROL_LINE_WHOLE;
    free(*line);
    *line = NULL;
    return CONTROL_LINE_TOO_LONG;
}

int control_line_split(char *line, char **words, int most)
{
    int count = 0;
    char *word;

    while ((word = strsep(&line, " \t")) != NULL) {
        if (*word == '\0')
            continue;
        if (count == most)
            return most + 1;
        words[count++] = word;
    }
    return count;
}
