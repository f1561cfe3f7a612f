#include "daemon/config/lists.h"

#include "common/units.h"
#include "daemon/config/report.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define SEPARATORS " \t,"

/* A word of a list, and where it begins in it. */
struct word {
    struct span text;
    size_t offset;
};

static int fault_word(const struct config_faults *faults, const struct word *word,
                      const char *advice, const char *problem)
{
    return config_fault_tell(faults, word->offset, word->text.length, advice, "'%.*s' %s",
                             CONFIG_QUOTED(word->text), problem);
}

static int parse_port(const char *text, const struct word *word, in_port_t *port,
                      const struct config_faults *faults)
{
    uint64_t number;

    if (units_parse_number(text, &number) != 0 || number > 65535)
        return fault_word(faults, word, "allowed: 1 to 65535, and 0 to let the kernel pick one",
                          "has no valid port behind the last colon");
    *port = htons((uint16_t)number);
    return 0;
}

/* An interface behind '%', as link-local addresses need it: its name or its number. */
static int parse_scope(const char *text, uint32_t *scope)
{
    uint64_t number = if_nametoindex(text);

    if (number == 0 && units_parse_number(text, &number) != 0)
        return -1;
    if (number == 0 || number > UINT32_MAX)
        return -1;
    *scope = (uint32_t)number;
    return 0;
}

/* HOST is what stood between the brackets. */
static int parse_ipv6(char *host, const struct word *word, struct sockaddr_in6 *address,
                      const struct config_faults *faults)
{
    char *percent = strchr(host, '%');

    if (percent != NULL) {
        *percent = '\0';
        if (parse_scope(percent + 1, &address->sin6_scope_id) != 0)
            return fault_word(faults, word, "behind '%' stands the name of a network interface",
                              "names an interface that is not there");
    }
    address->sin6_family = AF_INET6;
    if (inet_pton(AF_INET6, host, &address->sin6_addr) != 1)
        return fault_word(faults, word, "write it as [::1]:8080", "is not an IPv6 address");
    if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) && address->sin6_scope_id == 0)
        return fault_word(faults, word, "name its network interface: [fe80::1%eth0]:8080",
                          "is a link-local address without an interface");
    return 0;
}

static bool looks_like_ipv4(const char *host)
{
    return host[strspn(host, "0123456789.")] == '\0';
}

static int parse_ipv4(const char *host, const struct word *word, struct sockaddr_in *address,
                      const struct config_faults *faults)
{
    address->sin_family = AF_INET;
    if (inet_pton(AF_INET, host, &address->sin_addr) == 1)
        return 0;
    if (looks_like_ipv4(host))
        return fault_word(faults, word, "write it as 127.0.0.1:8080", "is not an IPv4 address");
    return fault_word(faults, word,
                      "give the number: 127.0.0.1:8080, [::1]:8080, or *:8080 for all addresses",
                      "has a host name, and names are not looked up");
}

/* The host part: "*", "[IPv6]" or IPv4. It may be cut into pieces. */
static int parse_host(char *host, const struct word *word, struct config_address *item,
                      in_port_t port, const struct config_faults *faults)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&item->address;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&item->address;
    size_t length = strlen(host);

    item->length = sizeof(*ipv6);
    ipv6->sin6_port = port;
    if (strcmp(host, "*") == 0) {
        ipv6->sin6_family = AF_INET6;
        return 0;
    }
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        return parse_ipv6(host + 1, word, ipv6, faults);
    }
    if (strchr(host, ':') != NULL)
        return fault_word(faults, word, "put an IPv6 address into brackets: [::1]:8080",
                          "has more than one colon");
    item->length = sizeof(*ipv4);
    ipv4->sin_port = port;
    return parse_ipv4(host, word, ipv4, faults);
}

static int fault_no_port(const struct config_faults *faults, const struct word *word)
{
    bool number = true;

    for (size_t i = 0; i < word->text.length; i++)
        number = number && isdigit((unsigned char)word->text.start[i]);
    if (number)
        return fault_word(faults, word, "for that port of all addresses write *:PORT",
                          "has no address before the port");
    return fault_word(faults, word,
                      "write ADDRESS:PORT, as in 127.0.0.1:8080, [::1]:8080 or *:8080",
                      "has no port");
}

static bool is_unix(const struct config_address *item)
{
    return item->address.ss_family == AF_UNIX;
}

/* "unix:/path" */
static int parse_unix(const char *path, const struct word *word, struct config_address *item,
                      const struct config_faults *faults)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&item->address;
    size_t length = strlen(path);

    if (path[0] != '/')
        return fault_word(faults, word, "write the whole path, as in unix:/run/site.sock",
                          "names no absolute path");
    if (length >= sizeof(address->sun_path))
        return fault_word(faults, word, "a path of at most 107 bytes fits",
                          "is too long for a UNIX socket");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, length + 1);
    item->length = sizeof(*address);
    return 0;
}

static int parse_address(const struct word *word, struct config_address *item,
                         const struct config_faults *faults)
{
    char text[sizeof(item->text)], *colon;
    in_port_t port = 0;

    memset(item, 0, sizeof(*item));
    if (word->text.length >= sizeof(text))
        return fault_word(faults, word, "write ADDRESS:PORT, as in 127.0.0.1:8080 or [::1]:8080",
                          "is too long for an address");
    memcpy(text, word->text.start, word->text.length);
    text[word->text.length] = '\0';
    memcpy(item->text, text, sizeof(text));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, word, item, faults);
    colon = strrchr(text, ':');
    if (colon == NULL || strchr(colon, ']') != NULL)
        return fault_no_port(faults, word);
    if (colon == text)
        return fault_word(faults, word, "for that port of all addresses write *:PORT",
                          "has no address before the port");
    *colon = '\0';
    if (parse_port(colon + 1, word, &port, faults) != 0)
        return -1;
    return parse_host(text, word, item, port, faults);
}

static in_port_t port_of(const struct config_address *item)
{
    if (item->address.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&item->address)->sin_port;
    return ((const struct sockaddr_in6 *)&item->address)->sin6_port;
}

/* "*": the one that takes IPv4 as well. */
static bool is_any(const struct config_address *item)
{
    return item->text[0] == '*';
}

static bool is_any_ipv4(const struct config_address *item)
{
    return item->address.ss_family == AF_INET &&
           ((const struct sockaddr_in *)&item->address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* True when both can't be listened on: the same address, or all of IPv4 twice. */
static bool collide(const struct config_address *a, const struct config_address *b)
{
    if (is_unix(a) || is_unix(b))
        return strcmp(a->text, b->text) == 0;
    if (port_of(a) != port_of(b) || port_of(a) == 0)
        return false;
    if ((is_any(a) && is_any_ipv4(b)) || (is_any(b) && is_any_ipv4(a)))
        return true;
    return a->length == b->length && memcmp(&a->address, &b->address, a->length) == 0;
}

static int check_collisions(const struct config_list *list, const struct config_address *item,
                            const struct word *word, const struct config_faults *faults)
{
    for (size_t i = 0; i < list->count; i++)
        if (collide(&list->item[i], item))
            return config_fault_tell(faults, word->offset, word->text.length,
                                     "an address and port can be listened on once",
                                     "'%s' is the same as '%s' before it", item->text,
                                     list->item[i].text);
    return 0;
}

/* The first word of TEXT from *offset on; its length is 0 at the end. *offset moves behind it. */
static struct word next_word(const char *text, size_t *offset)
{
    struct word word;

    word.offset = *offset + strspn(text + *offset, SEPARATORS);
    word.text.start = text + word.offset;
    word.text.length = strcspn(word.text.start, SEPARATORS);
    *offset = word.offset + word.text.length;
    return word;
}

/* Reads the next word into list->item[list->count]. Returns 1, 0 at the end, or -1. */
static int parse_next(const char *text, size_t *offset, struct config_list *list,
                      const struct config_faults *faults)
{
    struct word word = next_word(text, offset);
    struct config_address *item = &list->item[list->count];

    if (word.text.length == 0)
        return 0;
    if (list->count == CONFIG_ADDRESSES_MAX) {
        *offset += strlen(text + *offset);
        return config_fault_tell(faults, word.offset, word.text.length,
                                 "give fewer, or * for all addresses of a port",
                                 "there are more than %d addresses", CONFIG_ADDRESSES_MAX);
    }
    if (parse_address(&word, item, faults) != 0)
        return -1;
    return check_collisions(list, item, &word, faults) == 0 ? 1 : -1;
}

int config_address_parse_list(const char *text, struct config_list *list,
                              const struct config_faults *faults)
{
    struct config_list found = {.count = 0};
    size_t offset = 0;
    bool faulty = false;
    int result;

    if (text[strspn(text, SEPARATORS)] == '\0')
        return config_fault_tell(faults, 0, strlen(text),
                                 "write ADDRESS:PORT, as in 127.0.0.1:8080", "there is no address");
    found.item = calloc(CONFIG_ADDRESSES_MAX, sizeof(*found.item));
    if (found.item == NULL)
        return config_fault_memory(faults);
    while ((result = parse_next(text, &offset, &found, faults)) != 0) {
        if (result > 0)
            found.count++;
        else
            faulty = true;
    }
    if (faulty) {
        free(found.item);
        return -1;
    }
    *list = found;
    return 0;
}
