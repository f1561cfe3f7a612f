/*
 * Searches in untrusted bytes for the request parser: 16 bytes a step where the machine has SSE2,
 * one elsewhere. Each takes START <= AT <= END and reads nothing outside START to END: the last,
 * shorter step looks at the 16 bytes that end at END again and drops what lies before AT, so bytes
 * from START on must be readable even when AT is past them. Pure.
 */
#ifndef DAEMON_BYTE_SCAN_H
#define DAEMON_BYTE_SCAN_H

#include <stdbool.h>

#if defined(__SSE2__) && !defined(BYTE_SCAN_PORTABLE)
#include <emmintrin.h>
#define BYTE_SCAN_SSE2 1
#else
#define BYTE_SCAN_SSE2 0
#endif

#define BYTE_SCAN_INLINE static inline __attribute__((always_inline))

/* What each search stops at, for one byte. */
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

/* The same for 16 bytes at once: bit n is set when byte n stops. SSE2 compares bytes only as equal
 * or as signed, hence "at most LIMIT" in the form min(bytes, limit) == bytes. */
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

/* The first control byte (below 0x20, or 0x7f), or END. */
BYTE_SCAN_INLINE const char *scan_to_control(const char *start, const char *at, const char *end)
{
    (void)start;
    return BYTE_SCAN(start, at, end, block_controls, byte_is_control);
}

/* The first space or control byte, or END. */
BYTE_SCAN_INLINE const char *scan_to_space(const char *start, const char *at, const char *end)
{
    (void)start;
    return BYTE_SCAN(start, at, end, block_spaces_and_controls, byte_is_space_or_control);
}

/* The first byte that is no letter, digit, '-' or '.', or END. */
BYTE_SCAN_INLINE const char *scan_past_word(const char *start, const char *at, const char *end)
{
    (void)start;
    return BYTE_SCAN(start, at, end, block_not_words, byte_is_not_word);
}

#endif
