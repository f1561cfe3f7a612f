#include "daemon/http/forwarded.h"

#include "daemon/http/syntax.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    FIELD_LINES_MAX = 16, /* if there are more, the last ones count */
    ADDRESS_TEXT_MAX = INET6_ADDRSTRLEN,
};

/* Nodes: 192.0.2.7, 192.0.2.7:80, 2001:db8::7, [2001:db8::7], [2001:db8::7]:80 */

static bool read_forwarded_address(struct span text, int family,
                                   uint8_t address[NETWORK_ADDRESS_BYTES])
{
    static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t none[NETWORK_ADDRESS_BYTES]; /* would mean a UNIX socket */
    char copy[ADDRESS_TEXT_MAX];

    if (text.length >= sizeof(copy) || memchr(text.start, '\0', text.length) != NULL)
        return false;
    memcpy(copy, text.start, text.length);
    copy[text.length] = '\0';
    if (family == AF_INET6)
        return inet_pton(AF_INET6, copy, address) == 1 && memcmp(address, none, sizeof(none)) != 0;
    memcpy(address, ipv4_prefix, sizeof(ipv4_prefix));
    return inet_pton(AF_INET, copy, address + sizeof(ipv4_prefix)) == 1;
}

/* Empty, or ":" and a number or an obfuscated port. */
static bool is_forwarded_port(struct span text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    if (text.length == 0)
        return true;
    for (size_t i = 1; i < text.length; i++)
        if (text.start[i] == '\0' || strchr(allowed, text.start[i]) == NULL)
            return false;
    return text.start[0] == ':' && text.length > 1;
}

static bool read_node(struct span node, uint8_t address[NETWORK_ADDRESS_BYTES])
{
    const char *end = node.start + node.length;
    const char *colon = memchr(node.start, ':', node.length);
    const char *bracket = memchr(node.start, ']', node.length);

    if (node.length > 0 && node.start[0] == '[')
        return bracket != NULL && is_forwarded_port(span_between(bracket + 1, end)) &&
               read_forwarded_address(span_between(node.start + 1, bracket), AF_INET6, address);
    if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
        return read_forwarded_address(node, AF_INET6, address);
    if (colon == NULL)
        return read_forwarded_address(node, AF_INET, address);
    return is_forwarded_port(span_between(colon, end)) &&
           read_forwarded_address(span_between(node.start, colon), AF_INET, address);
}

/* Elements of Forwarded: for="[2001:db8::7]:80";proto=https;by=203.0.113.43 */

/* Removes the first parameter, which ends at a ';' outside quotes. False: there is none. */
static bool next_parameter(struct span *element, struct span *parameter)
{
    const char *at = element->start, *end;
    bool quoted = false;

    if (at == NULL)
        return false;
    end = at + element->length;
    for (; at < end && (quoted || *at != ';'); at++)
        quoted ^= *at == '"';
    *parameter = span_trim(span_between(element->start, at));
    *element = at < end ? span_between(at + 1, end) : (struct span){NULL, 0};
    return true;
}

/* Removes the quotes of a quoted string. An address contains no escapes. */
static struct span unquote(struct span value)
{
    if (value.length >= 2 && value.start[0] == '"' && value.start[value.length - 1] == '"')
        return (struct span){value.start + 1, value.length - 2};
    return value;
}

static bool read_element(struct span element, uint8_t address[NETWORK_ADDRESS_BYTES])
{
    static const struct span name = {"for=", 4};
    struct span parameter, node = {NULL, 0};

    while (next_parameter(&element, &parameter)) {
        if (parameter.length < name.length ||
            !span_is_nocase((struct span){parameter.start, name.length}, name))
            continue;
        if (node.start != NULL)
            return false;
        node = unquote(
            span_between(parameter.start + name.length, parameter.start + parameter.length));
    }
    return node.start != NULL && read_node(node, address);
}

/* Lists */

/*
 * Removes the last element of a list. What a client has sent stands left of what the proxies have
 * appended, so the end is found first: a quote that the client leaves open cannot hide it.
 */
static bool take_last(struct span *list, bool quotes, struct span *element)
{
    const char *end, *at;
    bool quoted = false;

    if (list->start == NULL)
        return false;
    at = end = list->start + list->length;
    while (at > list->start && (quoted || at[-1] != ',')) {
        at--;
        quoted ^= quotes && *at == '"';
    }
    *element = span_trim(span_between(at, end));
    *list = at > list->start ? span_between(list->start, at - 1) : (struct span){NULL, 0};
    return true;
}

void forwarded_find(const struct request *request, enum forwarded_field field,
                    const struct network_set *trusted, uint8_t address[NETWORK_ADDRESS_BYTES])
{
    bool standard = field == FORWARDED_FORWARDED;
    const struct span name = standard ? SPAN("forwarded") : SPAN("x-forwarded-for");
    struct span lines[FIELD_LINES_MAX], value, element;
    const char *at = NULL;
    size_t end = 0, first;

    while (request_next_line(request, name, &at, &value))
        lines[end++ % FIELD_LINES_MAX] = value;
    first = end > FIELD_LINES_MAX ? end - FIELD_LINES_MAX : 0;
    while (end-- > first) {
        struct span *line = &lines[end % FIELD_LINES_MAX];

        while (take_last(line, standard, &element)) {
            uint8_t found[NETWORK_ADDRESS_BYTES];

            if (element.length == 0)
                continue;
            if (!(standard ? read_element(element, found) : read_node(element, found)))
                return;
            memcpy(address, found, sizeof(found));
            if (!network_set_contains(trusted, found))
                return;
        }
    }
}
