#include "loadgen/engine/conversation.h"

#include <string.h>

static void add_line(struct conversation *conversation, char mark, const char *line, size_t length)
{
    char *at = conversation->text + conversation->length;

    if (conversation->length + length + 3 > CONVERSATION_BYTES)
        return;
    *at++ = mark;
    *at++ = ' ';
    for (size_t i = 0; i < length; i++) /* what would write on the terminal as it likes is shown */
        *at++ = (unsigned char)line[i] < ' ' || line[i] == 0x7f ? '?' : line[i];
    *at++ = '\n';
    conversation->length = (size_t)(at - conversation->text);
}

/* All lines of LENGTH bytes, or those before an empty one, which is the end of a HEAD. */
static void add_lines(struct conversation *conversation, char mark, const char *bytes,
                      size_t length, bool head)
{
    const char *end = bytes + length;

    while (bytes < end) {
        const char *line_end = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *next = line_end != NULL ? line_end + 1 : end;
        size_t n = (size_t)((line_end != NULL ? line_end : end) - bytes);

        while (n > 0 && bytes[n - 1] == '\r')
            n--;
        if (n > 0)
            add_line(conversation, mark, bytes, n);
        else if (head)
            return;
        bytes = next;
    }
}

/* CURLOPT_DEBUGFUNCTION */
static int take(CURL *easy, curl_infotype type, char *bytes, size_t length, void *context)
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

bool conversation_listen(struct conversation *conversation, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, take) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_DEBUGDATA, conversation) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L) == CURLE_OK;
}

void conversation_end(struct conversation *conversation, CURL *easy)
{
    if (!conversation->over)
        curl_easy_setopt(easy, CURLOPT_VERBOSE, 0L);
    conversation->over = true;
}

void conversation_add_head(struct conversation *conversation, char mark, const char *bytes,
                           size_t length)
{
    if (!conversation->over)
        add_lines(conversation, mark, bytes, length, true);
}

void conversation_write(const struct conversation *conversation, FILE *out)
{
    fwrite(conversation->text, 1, conversation->length, out);
    fflush(out);
}
