#include "daemon/config/headers.h"

#include <string.h>
#include <strings.h>

enum { RANK_ALL = 1, RANK_PREFIX = 2, RANK_ENDING = 1 << 20 };

static bool below(const char *path, const char *prefix, size_t length)
{
    while (length > 0 && prefix[length - 1] == '/')
        length--;
    return strncmp(path, prefix, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool ends_in(const char *path, const char *ending, size_t length)
{
    size_t all = strlen(path);

    return all > length && strcasecmp(path + all - length, ending) == 0 &&
           path[all - length - 1] != '/';
}

/* How specific the rule is for PATH; 0: it does not fit. */
static size_t rank_of(const struct config_header *rule, const char *path)
{
    size_t length = strlen(rule->scope);

    if (length == 0)
        return RANK_ALL;
    if (path == NULL)
        return 0;
    if (rule->scope[0] == '/')
        return below(path, rule->scope, length) ? RANK_PREFIX + length : 0;
    return ends_in(path, rule->scope + 1, length - 1) ? RANK_ENDING + length : 0;
}

/* Some other rule for the same field is more specific. */
static bool is_outdone(const struct header_rules *rules, const struct config_header *rule,
                       const char *path)
{
    size_t rank = rank_of(rule, path);

    for (size_t i = 0; i < rules->count; i++)
        if (strcasecmp(rules->rule[i].name, rule->name) == 0 &&
            rank_of(&rules->rule[i], path) > rank)
            return true;
    return false;
}

static enum header_part part_of(const char *name)
{
    static const char policy[] = "Content-Security-Policy";

    return strncasecmp(name, "Content-", 8) == 0 &&
                   strncasecmp(name, policy, sizeof(policy) - 1) != 0
               ? HEADER_OF_CONTENT
               : HEADER_OF_ANSWER;
}

static bool is_server(const struct config_header *rule)
{
    return strcasecmp(rule->name, "Server") == 0;
}

size_t header_rule_bytes(const struct config_header *rule)
{
    return strlen(rule->name) + strlen(rule->value) + strlen(": \r\n");
}

static char *put(char *to, const char *text)
{
    size_t length = strlen(text);

    memcpy(to, text, length);
    return to + length;
}

size_t header_rules_write(const struct header_rules *rules, const char *path, enum header_part part,
                          char *buffer)
{
    char *end = buffer;

    for (size_t i = 0; i < rules->count; i++) {
        const struct config_header *rule = &rules->rule[i];

        if (rule->value[0] == '\0' || part_of(rule->name) != part || is_server(rule) ||
            rank_of(rule, path) == 0 || is_outdone(rules, rule, path))
            continue;
        end = put(end, rule->name);
        end = put(end, ": ");
        end = put(end, rule->value);
        end = put(end, "\r\n");
    }
    return (size_t)(end - buffer);
}

const char *header_rules_server(const struct header_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        if (is_server(&rules->rule[i]))
            return rules->rule[i].value;
    return NULL;
}
