#include "daemon/http/credentials.h"

#include "daemon/http/request.h"

#include <stdint.h>

/* The value of a base64 digit, or -1. */
static int digit_value(char digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return digit - 'A';
    if (digit >= 'a' && digit <= 'z')
        return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9')
        return digit - '0' + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

/* Returns false if TEXT is not canonical base64 with padding of at most CREDENTIALS_MAX bytes. */
static bool decode(struct span text, struct credentials *credentials)
{
    uint32_t bits = 0;
    size_t digits = text.length, bytes;

    if (text.length == 0 || text.length % 4 != 0)
        return false;
    for (int i = 0; i < 2 && text.start[digits - 1] == '='; i++)
        digits--;
    bytes = digits * 6 / 8;
    if (bytes > sizeof(credentials->bytes))
        return false;
    credentials->length = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = digit_value(text.start[i]);

        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            credentials->bytes[credentials->length++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xff);
    }
    return digits % 4 == 0 || (bits & ((1U << (digits * 6 % 8)) - 1)) == 0;
}

bool credentials_read(struct span value, struct credentials *credentials)
{
    static const char scheme[] = "basic ";
    const size_t begin = sizeof(scheme) - 1;
    const char *colon;

    if (value.length < begin || strncasecmp(value.start, scheme, begin) != 0 ||
        !decode(http_trim((struct span){value.start + begin, value.length - begin}), credentials))
        return false;
    for (size_t i = 0; i < credentials->length; i++)
        if ((unsigned char)credentials->bytes[i] < ' ' || credentials->bytes[i] == 0x7f)
            return false;
    colon = memchr(credentials->bytes, ':', credentials->length);
    if (colon == NULL)
        return false;
    credentials->name = (struct span){credentials->bytes, (size_t)(colon - credentials->bytes)};
    credentials->password =
        (struct span){colon + 1, credentials->length - credentials->name.length - 1};
    return true;
}
