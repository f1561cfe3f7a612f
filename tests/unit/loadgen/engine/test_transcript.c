/* What the transcript shows of a server's answer. */
#include "loadgen/engine/transcript.h"

#include "tests/test.h"

#include <string.h>

static struct transcript transcript;

static const char *shown(const char *head, size_t length)
{
    static char text[TRANSCRIPT_BYTES + 1];
    FILE *out = fmemopen(text, sizeof(text), "w");

    transcript = (struct transcript){0};
    transcript_add_head(&transcript, '<', head, length);
    transcript_write(&transcript, out);
    fclose(out);
    text[transcript.length] = '\0';
    return text;
}

TEST(head_is_shown_by_line)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nServer: \xc3\xa4\r\n\r\nbody";

    assert_string_equal(shown(head, strlen(head)), "< HTTP/1.1 200 OK\n< Server: \xc3\xa4\n");
}

TEST(control_characters_are_escaped)
{
    static const char head[] = "A: \x1b[2J\r\x7f\0\nB: \xc2\x9b\xe2\x80\xae\xff\n\n";

    assert_string_equal(shown(head, sizeof(head) - 1),
                        "< A: \\x1b[2J\\x0d\\x7f\\x00\n< B: \\xc2\\x9b\\xe2\\x80\\xae\\xff\n");
}

TEST(long_lines_never_exceed_the_room)
{
    char head[TRANSCRIPT_BYTES];

    memset(head, '\x1b', sizeof(head));
    for (size_t length = TRANSCRIPT_BYTES - 8; length <= TRANSCRIPT_BYTES; length++) {
        shown(head, length);
        assert_true(transcript.length <= TRANSCRIPT_BYTES);
        assert_true(transcript.length == 0 || transcript.text[transcript.length - 1] == '\n');
    }
}
