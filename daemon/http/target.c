/*
 * Decisions. A target that two programs could interpret differently is rejected.
 *
 *   target                           becomes   why
 *   -------------------------------  --------  -------------------------------------------------
 *   /a%20b                           "/a b"    decoded once: %2541 is "%41", never "A"
 *   /a%4, /a%zz                      400       not an escape, RFC 3986 2.1
 *   /a%2Fb, /a%5Cb, /a\b             400       a separator to some programs only
 *   %00 to %1F, %7F, and them raw    400       not in names that are meant to be served
 *   a raw space                      400       RFC 9112 3.2
 *   "<>`{} raw                       400       RFC 9112 3: not in a URI; every client encodes them
 *   []^| raw                         itself    not in a path either, but browsers send them
 *   /a#b, /a?q#b                     400       a fragment is never sent, RFC 9110 7.1
 *   /a?q\b, /a?%00%zz                itself    the query is not decoded
 *   /a%23b, /a%3Fb                   "/a#b"    encoded, they are ordinary characters
 *   //a///b                          "/a/b"    empty segments are removed
 *   /a/./b, /a/%2e/b                 "/a/b"    RFC 3986 5.2.4; "." is the same as %2e, 6.2.2.2
 *   /a/b/.., /a/b/../                "/a/"     the directory, RFC 3986 5.2.4
 *   /.., /a/../../b                  400       above the root: not in a valid link
 *   /...  /.a  /a..                  itself    ordinary names
 *   %C3%A4, and the same bytes raw   itself    file names are bytes, without a charset
 *   %E4 alone, %FF                   itself    not UTF-8, but a possible file name
 *   %C0%AF, %E0%80%AF, %F0%80%80%AF  400       overlong UTF-8 that hides an ASCII byte
 *   http://host, http://host?q       "/"       absolute form with an empty path, RFC 9112 3.2.2
 *   a path of 4096 bytes or more     404       no file has such a path; not 414, as RFC 9112 3
 *                                              requires support for 8000 bytes of request line
 *   *, host:80, a/b, ""              400       not a path
 */
#include "daemon/http/target.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <sys/types.h>

/* Classes of bytes in a target; class 0 is copied. */
enum {
    SLASH = 1, /* may end an empty, "." or ".." segment */
    ENCODED,   /* '%' */
    HIGH,      /* 0x80 and above: may be overlong UTF-8 */
    QUERY,     /* '?' */
    UNFIT,     /* allowed in a query only */
    BAD,
};

static const unsigned char byte_class[256] = {
    [0 ... ' '] = BAD, [0x7f] = BAD,  ['#'] = BAD,     ['\\'] = UNFIT,         ['"'] = UNFIT,
    ['<'] = UNFIT,     ['>'] = UNFIT, ['`'] = UNFIT,   ['{'] = UNFIT,          ['}'] = UNFIT,
    ['/'] = SLASH,     ['?'] = QUERY, ['%'] = ENCODED, [0x80 ... 0xff] = HIGH,
};

static int class_of(char byte)
{
    return byte_class[(unsigned char)byte];
}

/* Cuts off "http://host"; the request parser has checked the host. False: no path follows. */
static bool skip_authority(struct span *text)
{
    static const struct span scheme = {"http://", 7};
    size_t i = scheme.length;

    if (text->length <= i || !span_is_nocase((struct span){text->start, i}, scheme))
        return false;
    while (i < text->length && text->start[i] != '/' && text->start[i] != '?' &&
           class_of(text->start[i]) < UNFIT)
        i++;
    if (i == scheme.length)
        return false;
    text->start += i;
    text->length -= i;
    return true;
}

/*
 * The length of the path at TEXT, up to its end or the '?', if it is normalised already; else -1.
 */
static ssize_t plain_length(struct span text)
{
    size_t i;

    for (i = 0; i < text.length; i++) {
        int class = class_of(text.start[i]);

        if (class == 0)
            continue;
        if (class == QUERY)
            break;
        if (class != SLASH)
            return -1;
        if (i + 1 < text.length && (text.start[i + 1] == '/' || text.start[i + 1] == '.'))
            return -1;
    }
    return (ssize_t)i;
}

static int target_hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The byte of the escape at AT, or -1 if it is malformed or not allowed in a path. */
static int decode_escape(const char *at, const char *end)
{
    int high, low, byte;

    if (end - at < 3)
        return -1;
    high = target_hex_value(at[1]);
    low = target_hex_value(at[2]);
    if (high < 0 || low < 0)
        return -1;
    byte = high << 4 | low;
    return byte < 0x20 || byte == 0x7f || byte == '/' || byte == '\\' ? -1 : byte;
}

/*
 * Ends the last segment of the path: removes an empty one and ".", and ".." with the segment before
 * it. Then the path ends with a slash or an ordinary name. Returns false if ".." is above the root.
 */
static bool fold_segment(struct target *target)
{
    const char *slash = memrchr(target->path, '/', target->length);
    size_t segment = (size_t)(slash - target->path) + 1;
    size_t length = target->length - segment;

    if (length == 1 && slash[1] == '.')
        target->length = segment;
    if (length != 2 || slash[1] != '.' || slash[2] != '.')
        return true;
    if (segment == 1)
        return false;
    slash = memrchr(target->path, '/', segment - 1);
    target->length = (size_t)(slash - target->path) + 1;
    return true;
}

/*
 * Decodes and normalises up to the '?' or the end, *USED bytes. An escape never yields a slash, so
 * the current segment begins after the last slash of the path.
 */
static int decode_path(struct span text, struct target *target, size_t *used)
{
    const char *at = text.start + 1, *end = text.start + text.length;

    target->path[0] = '/';
    target->length = 1;
    for (; at < end && class_of(*at) != QUERY; at++) {
        int byte = (unsigned char)*at;

        if (class_of(*at) >= UNFIT || (byte == '/' && !fold_segment(target)))
            return 400;
        if (byte == '/' && target->path[target->length - 1] == '/')
            continue;
        if (class_of(*at) == ENCODED) {
            byte = decode_escape(at, end);
            if (byte < 0)
                return 400;
            at += 2;
        }
        if (target->length == TARGET_PATH_MAX - 1)
            return 404;
        target->path[target->length++] = (char)byte;
    }
    *used = (size_t)(at - text.start);
    return fold_segment(target) ? 0 : 400;
}

/*
 * True if the bytes at AT encode an ASCII character in two to six bytes of UTF-8 (overlong). The
 * first byte then has no payload (or is 0xc0, 0xc1); 0x80 follows until the last two bytes, the
 * first of which is 0x80 or 0x81. RFC 3629 section 3 forbids it; section 10 describes the attacks.
 */
static bool hides_ascii(const unsigned char *at, size_t length)
{
    static const unsigned char first_byte[] = {0xe0, 0xf0, 0xf8, 0xfc};
    size_t i;

    if (at[0] == 0xc0 || at[0] == 0xc1)
        return length >= 2 && (at[1] & 0xc0) == 0x80;
    for (size_t zeros = 0; zeros < sizeof(first_byte); zeros++) {
        if (at[0] != first_byte[zeros] || length < zeros + 3)
            continue;
        for (i = 1; i <= zeros && at[i] == 0x80; i++)
            ;
        return i == zeros + 1 && (at[i] & 0xfe) == 0x80 && (at[i + 1] & 0xc0) == 0x80;
    }
    return false;
}

static bool has_overlong(const struct target *target)
{
    const unsigned char *path = (const unsigned char *)target->path;

    for (size_t i = 0; i < target->length; i++)
        if (path[i] >= 0xc0 && hides_ascii(path + i, target->length - i))
            return true;
    return false;
}

/* TEXT is the rest after the path: empty, or begins with the '?'. */
static int parse_query(struct span text, struct target *target)
{
    target->query = (struct span){NULL, 0};
    if (text.length == 0)
        return 0;
    if (text.start[0] != '?')
        return 400;
    target->query = (struct span){text.start + 1, text.length - 1};
    for (size_t i = 1; i < text.length; i++)
        if (class_of(text.start[i]) == BAD)
            return 400;
    return 0;
}

static int take_path(struct span text, struct target *target, size_t *used)
{
    ssize_t plain = plain_length(text);
    int status;

    if (plain >= TARGET_PATH_MAX)
        return 404;
    if (plain >= 0) {
        target->length = *used = (size_t)plain;
        memcpy(target->path, text.start, target->length);
        return 0;
    }
    status = decode_path(text, target, used);
    return status == 0 && has_overlong(target) ? 400 : status;
}

int target_canonical(struct span text, struct target *target)
{
    size_t used = 0;
    int status = 0;

    if (text.length == 0 || (text.start[0] != '/' && !skip_authority(&text)))
        return 400;
    if (text.length > 0 && text.start[0] == '/') {
        status = take_path(text, target, &used);
    } else {
        target->path[0] = '/';
        target->length = 1;
    }
    if (status != 0)
        return status;
    target->path[target->length] = '\0';
    target->directory = target->path[target->length - 1] == '/';
    return parse_query((struct span){text.start + used, text.length - used}, target);
}

/* Authority */

/* Unreserved characters and sub-delims, RFC 3986 section 3.2.2. */
static const bool is_reg_name[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['-'] = true, ['.'] = true,
    ['_'] = true,         ['~'] = true,         ['!'] = true,         ['$'] = true, ['&'] = true,
    ['\''] = true,        ['('] = true,         [')'] = true,         ['*'] = true, ['+'] = true,
    [','] = true,         [';'] = true,         ['='] = true,
};

/* "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ), RFC 3986 section 3.2.2. */
static bool is_ip_future(const char *at, const char *end)
{
    const char *number = at + 1, *address;

    if (at == end || (*at | 0x20) != 'v')
        return false;
    for (at = number; at < end && isxdigit((unsigned char)*at); at++)
        continue;
    if (at == number || at == end || *at != '.')
        return false;
    address = ++at;
    while (at < end && (is_reg_name[(unsigned char)*at] || *at == ':'))
        at++;
    return at == end && at > address;
}

/* Returns the position after the ']', or NULL. */
static const char *skip_ip_literal(const char *at, const char *end)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    const char *close = memchr(at, ']', (size_t)(end - at));
    size_t length;

    if (close == NULL)
        return NULL;
    if (is_ip_future(at + 1, close))
        return close + 1;
    length = (size_t)(close - at) - 1;
    if (length >= sizeof(text))
        return NULL;
    memcpy(text, at + 1, length);
    text[length] = '\0';
    return strlen(text) == length && inet_pton(AF_INET6, text, &address) == 1 ? close + 1 : NULL;
}

/* Returns the end of the name, or NULL for a '%' without two digits. */
static const char *skip_reg_name(const char *at, const char *end)
{
    for (; at < end; at++) {
        if (is_reg_name[(unsigned char)*at])
            continue;
        if (*at != '%')
            break;
        if (end - at < 3 || !isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
            return NULL;
        at += 2;
    }
    return at;
}

bool authority_port_valid(const char *at, const char *end)
{
    unsigned port = 0;

    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return false;
        port = port * 10 + (unsigned)(*at - '0');
        if (port > 65535)
            return false;
    }
    return true;
}

bool authority_valid(struct span text, bool port_needed)
{
    const char *end, *host_end;

    if (text.length == 0) /* its start may be NULL */
        return false;
    end = text.start + text.length;
    host_end =
        text.start[0] == '[' ? skip_ip_literal(text.start, end) : skip_reg_name(text.start, end);
    if (host_end == NULL || host_end == text.start)
        return false;
    if (host_end == end)
        return !port_needed;
    return *host_end == ':' && authority_port_valid(host_end + 1, end) &&
           (!port_needed || host_end + 1 < end);
}
