/*
 * What the two halves of the request parser share: the state of one head while it is parsed, and
 * what is done with each field that means something. Included by request.c and request_fields.c.
 */
#ifndef DAEMON_REQUEST_HEAD_H
#define DAEMON_REQUEST_HEAD_H

#include "common/macros.h"
#include "daemon/http1/request_parser.h"
#include "daemon/http1/syntax.h"

/* What a step returns: one of these, or the status (400 and above) to refuse with. */
enum { GOOD = 0, INCOMPLETE = 1 };

/* Fields that may come once, or whose coming matters: bits of head.seen. */
enum {
    SEEN_HOST = 1 << 0,
    SEEN_CONTENT_LENGTH = 1 << 1,
    SEEN_TRANSFER_ENCODING = 1 << 2,
};

struct head {
    const char *start;      /* of the parsed bytes */
    const char *at;         /* all before it has been understood */
    const char *end;        /* of the bytes that are there and within the head's limit */
    bool cut;               /* END is where the limit cuts, not where the network paused */
    bool close, keep_alive; /* options of Connection */
    bool unknown_coding;    /* of Transfer-Encoding */
    unsigned seen;          /* SEEN_… */
    struct span authority;  /* of a target in absolute form */
    struct request *request;
};

/* Takes a field's trimmed value into the head. GOOD, or the status to refuse with. */
typedef int field_taker(struct head *head, struct span value);

field_taker request_take_host;
field_taker request_take_content_length;
field_taker request_take_transfer_encoding;
field_taker request_take_connection;
field_taker request_take_expect;
field_taker request_take_referer;
field_taker request_take_user_agent;
field_taker request_take_if_match;
field_taker request_take_if_none_match;
field_taker request_take_if_modified_since;
field_taker request_take_if_unmodified_since;
field_taker request_take_range;
field_taker request_take_if_range;
field_taker request_take_accept;
field_taker request_take_accept_encoding;

/* Bytes of a token, RFC 9110 section 5.6.2. */
extern const bool request_token_bytes[256];

static inline struct span span_between(const char *start, const char *end)
{
    return (struct span){start, (size_t)(end - start)};
}

static inline bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* Without the white space around it. Most values have one space before and none behind. */
static inline struct span trim(const char *start, const char *end)
{
    while (start < end && is_blank(*start))
        start++;
    while (start < end && is_blank(end[-1]))
        end--;
    return span_between(start, end);
}

/* The end of the token that begins at AT. Nearly all are letters, digits and '-' alone. */
BYTE_SCAN_INLINE const char *skip_token(const char *start, const char *at, const char *end)
{
    at = scan_past_word(start, at, end);
    if (at == end || LIKELY(*at == ':' || *at == ' '))
        return at;
    while (at < end && request_token_bytes[(unsigned char)*at])
        at++;
    return at;
}

BYTE_SCAN_INLINE uint64_t load_8(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

BYTE_SCAN_INLINE uint32_t load_4(const char *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

BYTE_SCAN_INLINE uint16_t load_2(const char *at)
{
    uint16_t word;

    memcpy(&word, at, sizeof(word));
    return word;
}

/*
 * Is NAME the word LOWER, of LENGTH letters and '-' (4 or more)? Setting bit 0x20 makes capitals
 * small and leaves '-' alone; the only other byte that it turns into '-' is CR, and neither names
 * nor values have one.
 */
BYTE_SCAN_INLINE bool name_is(const char *name, const char *lower, size_t length)
{
    const uint64_t small_8 = UINT64_C(0x2020202020202020);
    const uint32_t small_4 = UINT32_C(0x20202020);
    size_t last = length - (length < 8 ? 4 : 8);

    if (length < 8)
        return (load_4(name) | small_4) == load_4(lower) &&
               (load_4(name + last) | small_4) == load_4(lower + last);
    for (size_t i = 0; i < last; i += 8)
        if ((load_8(name + i) | small_8) != load_8(lower + i))
            return false;
    return (load_8(name + last) | small_8) == load_8(lower + last);
}

#define NAME_IS(name, literal) name_is((name).start, literal, sizeof(literal) - 1)

#endif
