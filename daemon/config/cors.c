#include "daemon/config/internal.h"

#include "common/macros.h"
#include "common/units.h"

#include <stdlib.h>
#include <string.h>

enum { ORIGIN_MAX = 255, MAX_AGE_MAX_S = 86400 };

/* Applying */

const struct config_cors *cors_find(const struct config *config, uint32_t host, const char *path)
{
    size_t i = path_index_find(config->cors_index, host, path, true);

    return i != PATH_INDEX_NONE ? &config->cors[i] : NULL;
}

/* Words of a list; separated by blanks or commas */

static bool next_cors_word(const char **at, struct span *word)
{
    static const char separators[] = " \t,";

    *at += strspn(*at, separators);
    *word = (struct span){*at, strcspn(*at, separators)};
    *at += word->length;
    return word->length > 0;
}

/* NULL, or why WORD is not valid. */
typedef const char *word_check(struct span word);

/* "scheme://host", perhaps with a port, as browsers send it (RFC 6454 section 6.2). */
static const char *fault_of_origin(struct span origin)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    static const char host_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789-._[]:";
    const char *end = origin.start + origin.length, *colon, *port;
    struct span scheme;
    bool is_default;

    if (span_is(origin, SPAN("*")))
        return NULL;
    if (span_is(origin, SPAN("null")))
        return "is the origin of every local file and sandbox";
    colon = memmem(origin.start, origin.length, "://", 3);
    if (colon == NULL || origin.length > ORIGIN_MAX)
        return "is not an origin";
    scheme = (struct span){origin.start, (size_t)(colon - origin.start)};
    colon += 3;
    if (memchr(colon, '/', (size_t)(end - colon)) != NULL)
        return "has a path, which an origin has not";
    if (!config_consists_of(scheme, letters) ||
        !config_consists_of((struct span){colon, (size_t)(end - colon)}, host_bytes))
        return "is not an origin in lower case";
    port = memrchr(colon, ':', (size_t)(end - colon));
    if (port == NULL || end[-1] == ']')
        return NULL;
    port++;
    if (!config_consists_of((struct span){port, (size_t)(end - port)}, "0123456789"))
        return "has a port that is not a number";
    is_default =
        span_is(scheme, SPAN("https"))
            ? strncmp(port, "443", 3) == 0 && end - port == 3
            : span_is(scheme, SPAN("http")) && strncmp(port, "80", 2) == 0 && end - port == 2;
    return is_default ? "has the default port, which browsers leave out" : NULL;
}

static const char *fault_of_method(struct span method)
{
    return span_is(method, SPAN("GET")) || span_is(method, SPAN("HEAD")) ||
                   span_is(method, SPAN("OPTIONS"))
               ? NULL
               : "is not a method of this server";
}

static const char *fault_of_field(struct span field)
{
    return config_is_token(field) ? NULL : "is not the name of a field";
}

/* Keys */

struct list_key {
    struct span name;
    word_check *check;
    const char *advice;
    size_t list_offset; /* in struct config_cors */
};

static const struct list_key list_keys[] = {
    {SPAN("origins"), fault_of_origin,
     "write * or origins as in https://www.example.org, https://example.org:8443",
     offsetof(struct config_cors, origins)},
    {SPAN("methods"), fault_of_method, "valid methods: GET, HEAD, OPTIONS",
     offsetof(struct config_cors, methods)},
    {SPAN("fields"), fault_of_field, "write names as in X-Requested-With, Range",
     offsetof(struct config_cors, fields)},
    {SPAN("expose"), fault_of_field, "write names as in ETag, Content-Range",
     offsetof(struct config_cors, expose)},
};

/* Replaces *LIST by the words of ENTRY's value, joined by ", ", or reports an error. */
static void read_list(const struct list_key *key, const struct config_entry *entry, char **list,
                      struct config_report *report)
{
    const char *at = entry->value, *fault = "the list is empty";
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));
    char *joined = calloc(1, 2 * strlen(entry->value) + 1), *end = joined;
    struct span word;

    while (joined != NULL && next_cors_word(&at, &word)) {
        fault = key->check(word);
        if (fault != NULL) {
            place = config_entry_place(entry, (size_t)(word.start - entry->value), word.length);
            config_report_error(report, &place, key->advice, "'%.*s' %s", CONFIG_QUOTED(word),
                                fault);
            free(joined);
            return;
        }
        end = stpcpy(end, end > joined ? ", " : "");
        end = mempcpy(end, word.start, word.length);
    }
    if (joined == NULL)
        fault = "out of memory";
    else if (key->check != fault_of_origin && end - joined > CORS_LIST_MAX)
        fault = "the list has more than 400 bytes";
    if (fault == NULL) {
        free(*list);
        *list = joined;
        return;
    }
    config_report_error(report, &place, key->advice, "%s", fault);
    free(joined);
}

static void set_credentials(struct config_cors *section, const struct config_entry *entry,
                            struct config_report *report)
{
    const struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    section->has_credentials = true;
    section->credentials = strcmp(entry->value, "on") == 0;
    if (!section->credentials && strcmp(entry->value, "off") != 0)
        config_report_error(report, &place, "valid values: on, off", "'%s' is neither on nor off",
                            entry->value);
}

static void set_max_age(struct config_cors *section, const struct config_entry *entry,
                        struct config_report *report)
{
    const struct config_place place = config_entry_place(entry, 0, strlen(entry->value));
    uint64_t ms;

    section->has_max_age = true;
    if (units_parse_time_ms(entry->value, &ms) != 0 || ms / 1000 > MAX_AGE_MAX_S || ms % 1000 != 0)
        config_report_error(report, &place, "write 0 to 24h in whole seconds, as in 10m",
                            "invalid max_age '%s'", entry->value);
    else
        section->max_age_s = (uint32_t)(ms / 1000);
}

/* The section of SCOPE, which is taken over; it may be new. NULL: out of memory. */
static struct config_cors *cors_section(struct config *config, struct config_scope *scope)
{
    struct config_cors *more;

    for (size_t i = 0; i < config->cors_count; i++)
        if (config_scopes_equal(&config->cors[i].scope, scope)) {
            config_scope_free(scope);
            return &config->cors[i];
        }
    more = realloc(config->cors, (config->cors_count + 1) * sizeof(*more));
    if (more == NULL) {
        config_scope_free(scope);
        return NULL;
    }
    config->cors = more;
    more[config->cors_count] = (struct config_cors){.scope = *scope};
    return &more[config->cors_count++];
}

void config_cors_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config *config = draft->config;
    struct config_report *report = &draft->report;
    const struct list_key *key = NULL;
    bool credentials = span_is(entry->key, SPAN("credentials"));
    struct config_cors *section = NULL;
    struct config_scope scope;
    char **list;

    for (size_t i = 0; i < ARRAY_LENGTH(list_keys) && key == NULL; i++)
        if (span_is(entry->key, list_keys[i].name))
            key = &list_keys[i];
    if (key == NULL && !credentials && !span_is(entry->key, SPAN("max_age"))) {
        config_report_error(report, &entry->key_place,
                            "valid keys: origins, methods, fields, expose, max_age, credentials",
                            "[cors] has no key '%.*s'", CONFIG_QUOTED(entry->key));
        return;
    }
    if (config_entry_check(entry, report) != 0)
        return;
    if (config_scope_read(&scope, entry->argument) == 0)
        section = cors_section(config, &scope);
    if (section == NULL) {
        config_report_error(report, &entry->key_place, "", "out of memory");
        return;
    }
    list = key != NULL ? (char **)((char *)section + key->list_offset) : NULL;
    if (entry->key_place.line > 0 && (list != NULL  ? *list != NULL
                                      : credentials ? section->has_credentials
                                                    : section->has_max_age))
        config_report_error(report, &entry->key_place, "remove one of the lines",
                            "'%.*s' is already set for this path", CONFIG_QUOTED(entry->key));
    else if (list != NULL)
        read_list(key, entry, list, report);
    else if (credentials)
        set_credentials(section, entry, report);
    else
        set_max_age(section, entry, report);
}

/* Checking */

static bool has_star(const char *list)
{
    struct span word;

    while (list != NULL && next_cors_word(&list, &word))
        if (span_is(word, SPAN("*")))
            return true;
    return false;
}

static void check_section(const struct config_cors *section, struct config_report *report)
{
    char name[CONFIG_PROBLEM_MAX];
    const struct config_place place = {.source = name};
    bool star = has_star(section->origins);

    snprintf(name, sizeof(name), "[cors%s%s%s%s]", section->scope.host[0] != '\0' ? " host " : "",
             section->scope.host, section->scope.prefix[0] != '\0' ? " " : "",
             section->scope.prefix);
    if (section->origins == NULL)
        config_report_error(report, &place, "set origins", "the section has no origins");
    else if (star && strcmp(section->origins, "*") != 0)
        config_report_error(report, &place, "remove the others, or the *",
                            "origins has * and other origins");
    if (section->credentials && star)
        config_report_error(report, &place, "list the origins, or set credentials = off",
                            "browsers refuse credentials with origins = *");
    if (section->credentials && (has_star(section->fields) || has_star(section->expose)))
        config_report_error(report, &place, "list the fields, or set credentials = off",
                            "with credentials * is not every field");
}

void config_cors_check(const struct config *config, struct config_report *report)
{
    if (report->errors > 0) /* a list may be missing only because it is not valid */
        return;
    for (size_t i = 0; i < config->cors_count; i++) {
        if (config->cors[i].scope.host[0] != '\0')
            config_host_require(config, config->cors[i].scope.host, "[cors host]", report);
        check_section(&config->cors[i], report);
    }
}

/* Printing */

void config_cors_print(const struct config *config, FILE *out)
{
    for (size_t i = 0; i < config->cors_count; i++) {
        const struct config_cors *section = &config->cors[i];

        config_scope_print(&section->scope, "cors", out);
        for (size_t key = 0; key < ARRAY_LENGTH(list_keys); key++) {
            const char *list = *(char *const *)((const char *)section + list_keys[key].list_offset);

            if (list != NULL)
                config_value_print(list_keys[key].name.start, list, out);
        }
        if (section->has_max_age)
            fprintf(out, "max_age = %us\n", section->max_age_s);
        if (section->has_credentials)
            fprintf(out, "credentials = %s\n", section->credentials ? "on" : "off");
    }
}

void config_cors_free(struct config *config)
{
    for (size_t i = 0; i < config->cors_count; i++) {
        struct config_cors *section = &config->cors[i];

        config_scope_free(&section->scope);
        free(section->origins);
        free(section->methods);
        free(section->fields);
        free(section->expose);
    }
    free(config->cors);
}
