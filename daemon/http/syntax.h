/*
 * Lexical helpers of the parsers of requests. Pure.
 *
 * The scans search untrusted bytes, 16 at a time with SSE2, else one at a time. START <= AT <= END;
 * they read nothing outside START to END. The last step reads the 16 bytes that end at END again
 * and ignores those before AT, so all bytes from START on must be readable.
 */
#ifndef DAEMON_HTTP_SYNTAX_H
#define DAEMON_HTTP_SYNTAX_H

#include "common/macros.h"
#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) && !defined(BYTE_SCAN_PORTABLE)
#include <emmintrin.h>
#define BYTE_SCAN_SSE2 1
#else
#define BYTE_SCAN_SSE2 0
#endif

#define BYTE_SCAN_INLINE static inline __attribute__((always_inline))

/* The bytes at which each scan stops. */
BYTE_SCAN_INLINE bool byte_is_control(unsigned char byte)
{
    return byte < 0x20 || byte == 0x7f;
}

BYTE_SCAN_INLINE bool byte_is_space_or_control(unsigned char byte)
{
    return byte <= 0x20 || byte == 0x7f;
}

BYTE_SCAN_INLINE bool byte_is_not_word(unsigned char byte)
{
    return (unsigned char)((byte | 0x20) - 'a') > 25 && (unsigned char)(byte - '0') > 9 &&
           byte != '-' && byte != '.';
}

BYTE_SCAN_INLINE const char *scan_bytes(const char *at, const char *end,
                                        bool (*stops)(unsigned char))
{
    while (at < end && !stops((unsigned char)*at))
        at++;
    return at;
}

#if BYTE_SCAN_SSE2

/*
 * The same for 16 bytes: bit n is set if the scan stops at byte n. SSE2 has no unsigned comparison
 * of bytes, hence min(bytes, limit) == bytes for "at most LIMIT".
 */
BYTE_SCAN_INLINE __m128i bytes_at_most(__m128i bytes, char limit)
{
    return _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(limit)), bytes);
}

BYTE_SCAN_INLINE unsigned block_controls(__m128i bytes)
{
    return (unsigned)_mm_movemask_epi8(
        _mm_or_si128(bytes_at_most(bytes, 0x1f), _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f))));
}

BYTE_SCAN_INLINE unsigned block_spaces_and_controls(__m128i bytes)
{
    return (unsigned)_mm_movemask_epi8(
        _mm_or_si128(bytes_at_most(bytes, 0x20), _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f))));
}

BYTE_SCAN_INLINE unsigned block_not_words(__m128i bytes)
{
    __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    __m128i letters = bytes_at_most(_mm_sub_epi8(lower, _mm_set1_epi8('a')), 25);
    __m128i digits = bytes_at_most(_mm_sub_epi8(bytes, _mm_set1_epi8('0')), 9);
    __m128i marks = bytes_at_most(_mm_sub_epi8(bytes, _mm_set1_epi8('-')), '.' - '-');

    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letters, digits), marks)) ^ 0xffff;
}

BYTE_SCAN_INLINE __m128i block_at(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

BYTE_SCAN_INLINE const char *scan_blocks(const char *start, const char *at, const char *end,
                                         unsigned (*block)(__m128i), bool (*stops)(unsigned char))
{
    const char *last;
    unsigned found;

    if (end - start < 16)
        return scan_bytes(at, end, stops);
    for (last = end - 16; at <= last; at += 16) {
        found = block(block_at(at));
        if (found != 0)
            return at + __builtin_ctz(found);
    }
    found = block(block_at(last)) >> (at - last);
    return found != 0 ? at + __builtin_ctz(found) : end;
}

#define BYTE_SCAN(start, at, end, block, stops) scan_blocks(start, at, end, block, stops)
#else
#define BYTE_SCAN(start, at, end, block, stops) scan_bytes(at, end, stops)
#endif

/* The first control byte (below 0x20, or 0x7f); or END. */
BYTE_SCAN_INLINE const char *scan_to_control(const char *start, const char *at, const char *end)
{
    (void)start;
    return BYTE_SCAN(start, at, end, block_controls, byte_is_control);
}

/* The first space or control byte; or END. */
BYTE_SCAN_INLINE const char *scan_to_space(const char *start, const char *at, const char *end)
{
    (void)start;
    return BYTE_SCAN(start, at, end, block_spaces_and_controls, byte_is_space_or_control);
}

/* The first byte other than a letter, digit, '-' or '.'; or END. */
BYTE_SCAN_INLINE const char *scan_past_word(const char *start, const char *at, const char *end)
{
    (void)start;
    return BYTE_SCAN(start, at, end, block_not_words, byte_is_not_word);
}

/* True for the bytes of a token, RFC 9110 section 5.6.2. */
static const bool request_token_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,  ['#'] = true,
    ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
};

static inline struct span span_between(const char *start, const char *end)
{
    return (struct span){start, (size_t)(end - start)};
}

static inline bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* The end of the token at AT. Nearly all tokens consist of letters, digits and '-'. */
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
 * True if NAME is LOWER, which has LENGTH (4 or more) lower-case letters and '-'; ignores case.
 * Setting bit 0x20 lower-cases letters and keeps '-'; CR, which would become '-', occurs in no name
 * or value.
 */
BYTE_SCAN_INLINE bool name_is(const char *name, const char *lower, size_t length)
{
    const uint64_t case_8 = UINT64_C(0x2020202020202020);
    const uint32_t case_4 = UINT32_C(0x20202020);
    size_t last = length - (length < 8 ? 4 : 8);

    if (length < 8)
        return (load_4(name) | case_4) == load_4(lower) &&
               (load_4(name + last) | case_4) == load_4(lower + last);
    for (size_t i = 0; i < last; i += 8)
        if ((load_8(name + i) | case_8) != load_8(lower + i))
            return false;
    return (load_8(name + last) | case_8) == load_8(lower + last);
}

#define NAME_IS(name, literal) name_is((name).start, literal, sizeof(literal) - 1)

#endif
