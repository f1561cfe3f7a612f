#include "loadgen/engine/transcript.h"

#include "common/escape.h"

#include <string.h>

/* A line that grows by its escapes beyond the room is cut. */
static void add_transcript_line(struct transcript *transcript, char mark, const char *line,
                                size_t length)
{
    size_t room = TRANSCRIPT_BYTES - transcript->length;
    char *at = transcript->text + transcript->length;

    if (length + 4 > room)
        return;
    *at++ = mark;
    *at++ = ' ';
    escape_text(at, room - 3, line, length);
    at += strlen(at);
    *at++ = '\n';
    transcript->length = (size_t)(at - transcript->text);
}

/* Adds all lines of LENGTH bytes; if HEAD, only those before an empty line. */
static void add_lines(struct transcript *transcript, char mark, const char *bytes, size_t length,
                      bool head)
{
    const char *end = bytes + length;

    while (bytes < end) {
        const char *line_end = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *next = line_end != NULL ? line_end + 1 : end;
        size_t n = (size_t)((line_end != NULL ? line_end : end) - bytes);

        while (n > 0 && bytes[n - 1] == '\r')
            n--;
        if (n > 0)
            add_transcript_line(transcript, mark, bytes, n);
        else if (head)
            return;
        bytes = next;
    }
}

/* CURLOPT_DEBUGFUNCTION */
static int on_debug(CURL *easy, curl_infotype type, char *bytes, size_t length, void *context)
{
    (void)easy;
    switch (type) {
    case CURLINFO_TEXT:
        add_lines(context, '*', bytes, length, false);
        break;
    case CURLINFO_HEADER_OUT:
        add_lines(context, '>', bytes, length, true);
        break;
    case CURLINFO_HEADER_IN:
        add_lines(context, '<', bytes, length, true);
        break;
    default:
        break;
    }
    return 0;
}

bool transcript_attach(struct transcript *transcript, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_debug) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_DEBUGDATA, transcript) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L) == CURLE_OK;
}

void transcript_end(struct transcript *transcript, CURL *easy)
{
    if (!transcript->ended)
        curl_easy_setopt(easy, CURLOPT_VERBOSE, 0L);
    transcript->ended = true;
}

void transcript_add_head(struct transcript *transcript, char mark, const char *bytes, size_t length)
{
    if (!transcript->ended)
        add_lines(transcript, mark, bytes, length, true);
}

void transcript_write(const struct transcript *transcript, FILE *out)
{
    fwrite(transcript->text, 1, transcript->length, out);
    fflush(out);
}

void transcript_add_field(struct transcript *transcript, char mark, const uint8_t *name,
                          size_t name_length, const uint8_t *value, size_t value_length)
{
    char line[1024];
    int length;

    if (transcript == NULL)
        return;
    length = snprintf(line, sizeof(line), "%.*s: %.*s\r\n", (int)name_length, (const char *)name,
                      (int)value_length, (const char *)value);
    if (length > 0 && (size_t)length < sizeof(line))
        transcript_add_head(transcript, mark, line, (size_t)length);
}
