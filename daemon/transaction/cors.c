#include "daemon/transaction/cors.h"

#include "daemon/config/rules.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool cors_is_preflight(const struct request *request)
{
    struct span value;

    return request->method == METHOD_OPTIONS &&
           request_find_field(request, SPAN("origin"), &value) > 0 &&
           request_find_field(request, SPAN("access-control-request-method"), &value) > 0;
}

static bool is_every_origin(const struct config_cors *rule)
{
    return strcmp(rule->origins, "*") == 0;
}

/* True if LIST, of words joined by ", ", has WORD. */
static bool list_has(const char *list, struct span word)
{
    while (*list != '\0') {
        size_t length = strcspn(list, ",");

        if (span_is(word, (struct span){list, length}))
            return true;
        list += length;
        list += strspn(list, ", ");
    }
    return false;
}

/* The origin of the request, if it has one that RULE lists. */
static bool find_origin(const struct transaction *transaction, struct span *origin)
{
    return request_find_field(transaction->request, SPAN("origin"), origin) == 1 &&
           list_has(transaction->cors->origins, *origin);
}

bool cors_allows(const struct transaction *transaction)
{
    struct span origin;

    return is_every_origin(transaction->cors) || find_origin(transaction, &origin);
}

/* Appends NAME and its VALUE, if there is one. */
static char *put(char *to, const char *name, const char *value)
{
    return value != NULL ? to + sprintf(to, "%s: %s\r\n", name, value) : to;
}

static_assert(2 * CORS_LIST_MAX + 255 /* origin */ + 400 /* names and other values */ <=
                  CORS_FIELDS_MAX,
              "all fields fit");

size_t cors_write(const struct transaction *transaction, char *lines)
{
    const struct config_cors *rule = transaction->cors;
    struct span origin = SPAN("*");
    char *to = lines;

    if (!is_every_origin(rule)) {
        to = put(to, "Vary", "Origin");
        if (!find_origin(transaction, &origin))
            return (size_t)(to - lines);
    }
    to += sprintf(to, "Access-Control-Allow-Origin: %.*s\r\n", (int)origin.length, origin.start);
    if (rule->credentials)
        to = put(to, "Access-Control-Allow-Credentials", "true");
    if (!transaction->preflight)
        return (size_t)(put(to, "Access-Control-Expose-Headers", rule->expose) - lines);
    to = put(to, "Access-Control-Allow-Methods",
             rule->methods != NULL ? rule->methods : "GET, HEAD");
    to = put(to, "Access-Control-Allow-Headers", rule->fields);
    if (rule->has_max_age)
        to += sprintf(to, "Access-Control-Max-Age: %u\r\n", rule->max_age_s);
    return (size_t)(to - lines);
}
