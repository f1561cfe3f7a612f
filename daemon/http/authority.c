#include "daemon/http/authority.h"

#include <arpa/inet.h>
#include <ctype.h>

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

/* Behind the ']', or NULL. */
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

/* NULL: a '%' without its two digits. */
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
    const char *end = text.start + text.length;
    const char *host_end;

    if (text.length == 0)
        return false;
    host_end =
        text.start[0] == '[' ? skip_ip_literal(text.start, end) : skip_reg_name(text.start, end);
    if (host_end == NULL || host_end == text.start)
        return false;
    if (host_end == end)
        return !port_needed;
    return *host_end == ':' && authority_port_valid(host_end + 1, end) &&
           (!port_needed || host_end + 1 < end);
}
