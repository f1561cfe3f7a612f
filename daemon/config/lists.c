#include "daemon/config/internal.h"

#include "common/units.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SEPARATORS " \t,"

/* A word of a value and its offset there. */
struct word {
    struct span text;
    size_t offset;
};

/* The first word of TEXT from *offset on; its length is 0 at the end. Moves *offset past it. */
static struct word next_list_word(const char *text, size_t *offset)
{
    struct word word;

    word.offset = *offset + strspn(text + *offset, SEPARATORS);
    word.text.start = text + word.offset;
    word.text.length = strcspn(word.text.start, SEPARATORS);
    *offset = word.offset + word.text.length;
    return word;
}

static bool is_empty(const char *text)
{
    return text[strspn(text, SEPARATORS)] == '\0';
}

/* "'WORD' PROBLEM" */
static int fault_word(const struct config_faults *faults, struct word word, const char *advice,
                      const char *problem)
{
    return config_fault_report(faults, word.offset, word.text.length, advice, "'%.*s' %s",
                               CONFIG_QUOTED(word.text), problem);
}

struct list_kind {
    size_t item_bytes;
    const char *items; /* what a message calls them */
    /*
     * Parses WORD into items[COUNT]; may compare with the items before it. Returns 0, or -1 after a
     * report.
     */
    int (*parse)(struct word word, const char *base, void *items, size_t count,
                 const struct config_faults *faults);
};

/*
 * Parses all words of TEXT into a new array; NULL if there are none. Returns 0, or -1 after a
 * report.
 */
static int parse_list(const struct list_kind *kind, const char *text, const char *base,
                      void **items, size_t *count, const struct config_faults *faults)
{
    size_t offset = 0;
    int failed = 0;
    struct word word;

    *count = 0;
    *items = is_empty(text) ? NULL : calloc(CONFIG_LIST_MAX, kind->item_bytes);
    if (*items == NULL)
        return is_empty(text) ? 0 : config_fault_memory(faults);
    while ((word = next_list_word(text, &offset)).text.length > 0) {
        if (*count == CONFIG_LIST_MAX)
            return config_fault_report(faults, word.offset, word.text.length, "give fewer",
                                       "there are more than %d %s", CONFIG_LIST_MAX, kind->items);
        if (kind->parse(word, base, *items, *count, faults) == 0)
            ++*count;
        else
            failed = -1;
    }
    return failed;
}

/* Addresses. */

static int parse_port(const char *text, struct word word, in_port_t *port,
                      const struct config_faults *faults)
{
    uint64_t number;

    if (units_parse_number(text, &number) != 0 || number > 65535)
        return fault_word(faults, word, "allowed: 1 to 65535, or 0 for any free port",
                          "has no valid port after the last colon");
    *port = htons((uint16_t)number);
    return 0;
}

/* The interface of a link-local address, after '%': its name or number. */
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

/* HOST is the text between the brackets. */
static int parse_ipv6(char *host, struct word word, struct sockaddr_in6 *address,
                      const struct config_faults *faults)
{
    char *percent = strchr(host, '%');

    if (percent != NULL) {
        *percent = '\0';
        if (parse_scope(percent + 1, &address->sin6_scope_id) != 0)
            return fault_word(faults, word, "write the name of a network interface after '%'",
                              "names an unknown network interface");
    }
    address->sin6_family = AF_INET6;
    if (inet_pton(AF_INET6, host, &address->sin6_addr) != 1)
        return fault_word(faults, word, "example: [::1]:8080", "is not an IPv6 address");
    if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) && address->sin6_scope_id == 0)
        return fault_word(faults, word, "name its network interface: [fe80::1%eth0]:8080",
                          "is a link-local address without an interface");
    return 0;
}

static int parse_ipv4(const char *host, struct word word, struct sockaddr_in *address,
                      const struct config_faults *faults)
{
    address->sin_family = AF_INET;
    if (inet_pton(AF_INET, host, &address->sin_addr) == 1)
        return 0;
    if (host[strspn(host, "0123456789.")] == '\0')
        return fault_word(faults, word, "example: 127.0.0.1:8080", "is not an IPv4 address");
    return fault_word(
        faults, word,
        "write an IP address: 127.0.0.1:8080, [::1]:8080, or *:8080 for all addresses",
        "has a host name; names are not resolved");
}

/* Parses HOST ("*", "[IPv6]" or IPv4) and modifies it. */
static int parse_listen_host(char *host, struct word word, struct config_address *item,
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
        return fault_word(faults, word, "put an IPv6 address in brackets: [::1]:8080",
                          "has more than one colon");
    item->length = sizeof(*ipv4);
    ipv4->sin_port = port;
    return parse_ipv4(host, word, ipv4, faults);
}

static int fault_no_port(const struct config_faults *faults, struct word word)
{
    bool number = true;

    for (size_t i = 0; i < word.text.length; i++)
        number = number && isdigit((unsigned char)word.text.start[i]);
    if (number)
        return fault_word(faults, word, "write *:PORT for all addresses",
                          "has no address before the port");
    return fault_word(faults, word,
                      "write ADDRESS:PORT, as in 127.0.0.1:8080, [::1]:8080 or *:8080",
                      "has no port");
}

static bool is_unix_socket(const struct config_address *item)
{
    return item->address.ss_family == AF_UNIX;
}

/* "unix:/path" */
static int parse_unix(const char *path, struct word word, struct config_address *item,
                      const struct config_faults *faults)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&item->address;
    size_t length = strlen(path);

    if (path[0] != '/')
        return fault_word(faults, word, "write an absolute path, as in unix:/run/site.sock",
                          "has no absolute path");
    if (length >= sizeof(address->sun_path))
        return fault_word(faults, word, "a path has at most 107 bytes",
                          "is too long for a UNIX socket");
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, length + 1);
    item->length = sizeof(*address);
    return 0;
}

/* Removes the scheme from TEXT. */
static int take_scheme(char *text, struct word word, struct config_address *item,
                       const struct config_faults *faults)
{
    char *separator = strstr(text, "://");

    if (separator == NULL)
        return 0;
    *separator = '\0';
    item->tls = strcmp(text, "https") == 0;
    if (!item->tls && strcmp(text, "http") != 0)
        return fault_word(faults, word, "write http:// or https://, or only ADDRESS:PORT",
                          "has an unknown scheme");
    memmove(text, separator + 3, strlen(separator + 3) + 1);
    if (strncmp(text, "unix:", 5) == 0 || strchr(text, '/') == NULL)
        return 0;
    return fault_word(faults, word, "write only SCHEME://ADDRESS:PORT, as in https://*:443",
                      "has a path after the address");
}

static int parse_listen_address(struct word word, struct config_address *item,
                                const struct config_faults *faults)
{
    char text[sizeof(item->text)], *colon;
    in_port_t port = 0;

    memset(item, 0, sizeof(*item));
    if (word.text.length >= sizeof(text))
        return fault_word(faults, word, "write ADDRESS:PORT, as in 127.0.0.1:8080 or [::1]:8080",
                          "is too long for an address");
    memcpy(text, word.text.start, word.text.length);
    text[word.text.length] = '\0';
    if (take_scheme(text, word, item, faults) != 0)
        return -1;
    memcpy(item->text, text, sizeof(text));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, word, item, faults);
    colon = strrchr(text, ':');
    if (colon == NULL || strchr(colon, ']') != NULL)
        return fault_no_port(faults, word);
    if (colon == text)
        return fault_word(faults, word, "write *:PORT for all addresses",
                          "has no address before the port");
    *colon = '\0';
    if (parse_port(colon + 1, word, &port, faults) != 0)
        return -1;
    return parse_listen_host(text, word, item, port, faults);
}

static in_port_t port_of(const struct config_address *item)
{
    if (item->address.ss_family == AF_INET)
        return ((const struct sockaddr_in *)&item->address)->sin_port;
    return ((const struct sockaddr_in6 *)&item->address)->sin6_port;
}

/* "*" includes IPv4. */
static bool is_any_address(const struct config_address *item)
{
    return item->text[0] == '*';
}

static bool is_any_ipv4(const struct config_address *item)
{
    return item->address.ss_family == AF_INET &&
           ((const struct sockaddr_in *)&item->address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* True if both cannot be bound: the same address, or all of IPv4 twice. */
static bool collide(const struct config_address *a, const struct config_address *b)
{
    if (is_unix_socket(a) || is_unix_socket(b))
        return strcmp(a->text, b->text) == 0;
    if (port_of(a) != port_of(b) || port_of(a) == 0)
        return false;
    if ((is_any_address(a) && is_any_ipv4(b)) || (is_any_address(b) && is_any_ipv4(a)))
        return true;
    return a->length == b->length && memcmp(&a->address, &b->address, a->length) == 0;
}

static int parse_next_address(struct word word, const char *base, void *items, size_t count,
                              const struct config_faults *faults)
{
    struct config_address *list = items;

    (void)base;
    if (parse_listen_address(word, &list[count], faults) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (collide(&list[i], &list[count]))
            return config_fault_report(faults, word.offset, word.text.length,
                                       "list each address and port once",
                                       "'%s' conflicts with '%s'", list[count].text, list[i].text);
    return 0;
}

int config_addresses_parse(const char *text, bool required, struct config_addresses *list,
                           const struct config_faults *faults)
{
    static const struct list_kind kind = {sizeof(struct config_address), "addresses",
                                          parse_next_address};
    struct config_addresses found;
    void *items;

    if (required && is_empty(text))
        return config_fault_report(faults, 0, strlen(text),
                                   "write ADDRESS:PORT, as in 127.0.0.1:8080", "no address given");
    if (parse_list(&kind, text, NULL, &items, &found.count, faults) != 0) {
        free(items);
        return -1;
    }
    found.item = items;
    *list = found;
    return 0;
}

char *config_addresses_text(const struct config_addresses *list)
{
    size_t size = list->count * (sizeof("https:// ") + sizeof(list->item->text)) + 1, used = 0;
    char *text = malloc(size);

    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s%s", i > 0 ? " " : "",
                                 list->item[i].tls ? "https://" : "", list->item[i].text);
    return text;
}

/* Paths. */

/*
 * Length of the parent of the first LENGTH bytes of DIRECTORY, without the slash between; LENGTH if
 * "DIRECTORY/.." may be another one, because the last component is a symbolic link, does not exist
 * or is ".." itself.
 */
static size_t parent_length(const char *directory, size_t length)
{
    char *path = strndup(directory, length);
    const char *name = path != NULL ? strrchr(path, '/') : NULL;
    struct stat status;

    if (name != NULL && strcmp(name, "/..") != 0 && lstat(path, &status) == 0 &&
        S_ISDIR(status.st_mode))
        length = (size_t)(name - path);
    free(path);
    return length;
}

char *config_path_join(const char *directory, const char *path)
{
    size_t length = strlen(directory), before;
    char *joined;

    do {
        while (length > 0 && directory[length - 1] == '/')
            length--;
        while (path[0] == '.' && (path[1] == '/' || path[1] == '\0'))
            path += path[1] == '/' ? 2 : 1;
        before = length;
        if (strncmp(path, "..", 2) == 0 && (path[2] == '/' || path[2] == '\0'))
            length = parent_length(directory, length);
        if (length < before)
            path += path[2] == '/' ? 3 : 2;
    } while (length < before);
    if (asprintf(&joined, "%.*s%s%s", (int)length, directory,
                 path[0] != '\0' || length == 0 ? "/" : "", path) < 0)
        return NULL;
    return joined;
}

static int add_word(struct word word, const char *base, void *items, size_t count,
                    const struct config_faults *faults)
{
    char **list = items, *path = strndup(word.text.start, word.text.length), *joined;

    if (path != NULL && base != NULL && path[0] != '/') {
        joined = config_path_join(base, path);
        free(path);
        path = joined;
    }
    list[count] = path;
    return path != NULL ? 0 : config_fault_memory(faults);
}

int config_words_parse(const char *text, const char *base, struct config_words *paths,
                       const struct config_faults *faults)
{
    static const struct list_kind kind = {sizeof(char *), "words", add_word};
    struct config_words found;
    void *items;
    int failed = parse_list(&kind, text, base, &items, &found.count, faults);

    found.item = items;
    if (failed == 0)
        *paths = found;
    else
        config_words_free(&found);
    return failed;
}

void config_words_free(struct config_words *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->item[i]);
    free(paths->item);
    *paths = (struct config_words){.count = 0};
}

char *config_words_text(const struct config_words *paths)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return NULL;
    for (size_t i = 0; i < paths->count; i++)
        fprintf(memory, "%s%s", i > 0 ? " " : "", paths->item[i]);
    fclose(memory);
    return text;
}
