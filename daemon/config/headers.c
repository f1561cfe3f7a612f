#include "daemon/config/internal.h"

#include "common/macros.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Loading the section. */

enum { SERVER_MAX = 64, MEDIA_TYPE_MAX = 200 }; /* bytes */

/* Fields that the server itself sets. */
static const struct {
    const char *name, *advice;
} own_fields[] = {
    {"Content-Length", "the server sets it"},
    {"Transfer-Encoding", "the server sets it"},
    {"Connection", "see [connections] keepalive"},
    {"Keep-Alive", "see [connections] keepalive_timeout"},
    {"Proxy-Connection", "see [connections] keepalive"},
    {"TE", "it is a request field"},
    {"Trailer", "the server sets it"},
    {"Upgrade", "the server supports no other protocol"},
    {"Date", "the server sets it"},
    {"Content-Encoding", "see [cache] precompressed and compress"},
    {"Content-Range", "the server sets it"},
    {"Accept-Ranges", "the server sets it"},
    {"ETag", "the server derives it from the file"},
    {"Location", "the server sets it"},
    {"Allow", "the server sets it"},
    {"Retry-After", "the server sets it"},
};

/* Fields that let a cache keep the response: RFC 9111, RFC 9213 (CDN-Cache-Control), and others. */
static bool is_freshness(struct span name)
{
    const struct span fields[] = {SPAN("Cache-Control"), SPAN("Expires"), SPAN("Surrogate-Control"),
                                  SPAN("X-Accel-Expires")};
    const struct span targeted = SPAN("-Cache-Control");

    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++)
        if (span_is_nocase(name, fields[i]))
            return true;
    return name.length > targeted.length &&
           span_is_nocase(
               (struct span){name.start + name.length - targeted.length, targeted.length},
               targeted);
}

/* The argument of a section. */
struct argument {
    struct span host;        /* empty: all */
    struct config_path path; /* its text also has an extension; without a slash at its end */
    bool always;
};

/* "/" matches every path and is more specific than [headers]. */
static struct argument argument_of(const struct config_entry *entry)
{
    struct argument argument = {.host = SPAN("")};
    struct span scope = entry->argument;
    struct config_path *path = &argument.path;

    if (scope.length > 0)
        config_argument_cut_host(&scope, &argument.host);
    argument.always = scope.length > 0 && config_scope_cut_always(&scope);
    if (scope.length > 0 && config_path_read(scope, path) != NULL) {
        path->length = scope.length < sizeof(path->text) ? scope.length : sizeof(path->text) - 1;
        memcpy(path->text, scope.start, path->length);
    }
    if (path->length > 1 && path->text[path->length - 1] == '/')
        path->length--;
    path->text[path->length] = '\0';
    return argument;
}

static bool argument_is(const struct config_header *header, const struct argument *argument)
{
    return header->always == argument->always && strcmp(argument->path.text, header->scope) == 0 &&
           span_is_nocase(argument->host, span_of(header->host));
}

/* The index of ENTRY's field among the lines; header_count if it is new. */
static size_t find_header(const struct config *config, const struct config_entry *entry)
{
    const struct argument argument = argument_of(entry);
    size_t i = 0;

    while (i < config->header_count &&
           (!argument_is(&config->headers[i], &argument) ||
            strlen(config->headers[i].name) != entry->key.length ||
            strncasecmp(config->headers[i].name, entry->key.start, entry->key.length) != 0))
        i++;
    return i;
}

static bool check_field_name(struct config_report *report, const struct config_entry *entry)
{
    if (!config_is_token(entry->key)) {
        config_report_error(report, &entry->key_place,
                            "use letters, digits and '-', as in Cache-Control",
                            "'%.*s' is not a field name", CONFIG_QUOTED(entry->key));
        return false;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(own_fields); i++) {
        if (strlen(own_fields[i].name) != entry->key.length ||
            strncasecmp(own_fields[i].name, entry->key.start, entry->key.length) != 0)
            continue;
        config_report_error(report, &entry->key_place, own_fields[i].advice, "%s cannot be set",
                            own_fields[i].name);
        return false;
    }
    return true;
}

/* Prevents header injection. The reader has already removed line ends. */
static bool check_field_value(struct config_report *report, const struct config_entry *entry)
{
    for (size_t i = 0; entry->value[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)entry->value[i];
        struct config_place place;

        if (byte == '\t' || (byte >= 0x20 && byte < 0x7f))
            continue;
        place = config_entry_place(entry, i, 1);
        config_report_error(report, &place, "use ASCII only",
                            "a field value cannot have byte 0x%02x", byte);
        return false;
    }
    return true;
}

static bool check_field_meaning(struct config_report *report, const struct config_entry *entry)
{
    struct span element;
    const char *advice = config_field_fault(entry->key, entry->value, &element);
    struct config_place place;

    if (advice == NULL)
        return true;
    place = config_entry_place(entry, (size_t)(element.start - entry->value), element.length);
    config_report_error(report, &place, advice, "'%.*s' is not a value of %.*s",
                        CONFIG_QUOTED(element), CONFIG_QUOTED(entry->key));
    return false;
}

/* TYPE/SUBTYPE; parameters after a ';' are not checked. */
static bool check_media_type(struct config_report *report, const struct config_entry *entry)
{
    size_t length = strcspn(entry->value, ";"), slash = strcspn(entry->value, "/");
    struct span main_type = {entry->value, slash};
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    if (strlen(entry->value) > MEDIA_TYPE_MAX) {
        config_report_error(report, &place, "", "a media type has at most %d bytes",
                            MEDIA_TYPE_MAX);
        return false;
    }
    if (slash < length && config_is_token(main_type) &&
        config_is_token((struct span){entry->value + slash + 1, length - slash - 1}))
        return true;
    config_report_error(report, &place, "examples: text/plain, text/html; charset=utf-8",
                        "'%.*s' is not a media type", CONFIG_QUOTED(span_of(entry->value)));
    return false;
}

/* The type of files by path; by extension it is in [mime]. */
static bool check_content_type(struct config_report *report, const struct config_entry *entry)
{
    if (argument_of(entry).path.text[0] == '/')
        return check_media_type(report, entry);
    config_report_error(report, &entry->key_place,
                        "set it in [headers /path], or in [mime]: extension = type, default = type",
                        "Content-Type can only be set for a path");
    return false;
}

static bool check_last_modified(struct config_report *report, const struct config_entry *entry)
{
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    if (entry->value[0] == '\0')
        return true;
    config_report_error(report, &place,
                        "write 'Last-Modified =': the server derives it from the file",
                        "Last-Modified can only be removed");
    return false;
}

/* Server is part of the prepared prefix of every response, which is the same for all paths. */
static bool check_server_field(struct config_report *report, const struct config_entry *entry)
{
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    if (entry->argument.length > 0) {
        config_report_error(report, &entry->key_place, "set it in [headers]",
                            "Server is the same in all responses");
        return false;
    }
    if (strlen(entry->value) <= SERVER_MAX)
        return true;
    config_report_error(report, &place, "", "Server has at most %d bytes", SERVER_MAX);
    return false;
}

/* Fields that the server writes itself, by these lines. */
static const struct {
    const char *name;
    bool (*check)(struct config_report *report, const struct config_entry *entry);
} written_fields[] = {
    {"Server", check_server_field},
    {"Content-Type", check_content_type},
    {"Last-Modified", check_last_modified},
};

static bool check_written_field(struct config_report *report, const struct config_entry *entry)
{
    for (size_t i = 0; i < ARRAY_LENGTH(written_fields); i++)
        if (span_is_nocase(entry->key, span_of(written_fields[i].name)))
            return written_fields[i].check(report, entry);
    return true;
}

static bool check_always(struct config_report *report, const struct config_entry *entry)
{
    if (!argument_of(entry).always || is_freshness(entry->key))
        return true;
    config_report_error(report, &entry->key_place,
                        "set it without always: only Cache-Control, Expires and similar fields "
                        "are limited to successful responses",
                        "%.*s does not need always", CONFIG_QUOTED(entry->key));
    return false;
}

/* Makes room for one more line. Returns 0 or -1; existing lines are kept in both cases. */
static int grow_header_lines(struct config *config)
{
    size_t count = config->header_count + 1;
    struct config_header *headers = realloc(config->headers, count * sizeof(*headers));

    if (headers != NULL)
        config->headers = headers;
    return headers != NULL ? 0 : -1;
}

static void free_line(const struct config_header *line)
{
    free((void *)line->host);
    free((void *)line->scope);
    free((void *)line->name);
    free((void *)line->value);
}

/* Sets line I, which may be new. */
static void store_header(struct config_draft *draft, const struct config_entry *entry, size_t i)
{
    struct config *config = draft->config;
    const struct argument argument = argument_of(entry);
    struct config_header line = {strndup(argument.host.start, argument.host.length),
                                 strdup(argument.path.text),
                                 argument.always,
                                 strndup(entry->key.start, entry->key.length),
                                 strdup(entry->value),
                                 config_entry_line(entry)};

    if (line.host == NULL || line.scope == NULL || line.name == NULL || line.value == NULL ||
        (i == config->header_count && grow_header_lines(config) != 0)) {
        free_line(&line);
        config_report_error(&draft->report, &entry->key_place, "", "out of memory");
        return;
    }
    if (i < config->header_count)
        free_line(&config->headers[i]);
    else
        config->header_count++;
    config->headers[i] = line;
}

/* Adds the fields of a preset that the section does not set; its later lines replace them. */
static void add_preset_headers(struct config_draft *draft, const struct config_entry *entry)
{
    static const struct {
        const char *name, *value;
    } fields[] = {
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "SAMEORIGIN"},
        {"Referrer-Policy", "strict-origin-when-cross-origin"},
        {"Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Content-Security-Policy",
         "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src "
         "'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"},
    };
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));
    struct config_entry field = *entry;

    if (strcmp(entry->value, "security") != 0) {
        config_report_error(&draft->report, &place, "allowed: security", "'%s' is not a preset",
                            entry->value);
        return;
    }
    field.key_place.line = 0; /* so that a line of the file is not a duplicate */
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        field.key = span_of(fields[i].name);
        field.value = fields[i].value;
        if (find_header(draft->config, &field) == draft->config->header_count)
            store_header(draft, &field, draft->config->header_count);
    }
}

void config_header_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config_report *report = &draft->report;
    size_t i = find_header(draft->config, entry);

    if (span_is(entry->key, SPAN("preset"))) {
        if (check_always(report, entry))
            add_preset_headers(draft, entry);
    } else if (i < draft->config->header_count && draft->config->headers[i].line.number > 0 &&
               entry->key_place.line > 0) {
        config_report_duplicate(report, entry, &draft->config->headers[i].line);
    } else if (check_field_name(report, entry) && config_entry_check_words(entry, report) == 0 &&
               check_field_value(report, entry) && check_field_meaning(report, entry) &&
               check_written_field(report, entry) && check_always(report, entry)) {
        store_header(draft, entry, i);
    }
}

/*
 * Reports if the rules for HOST and those for all, which it has too, have too many bytes together.
 */
static void check_header_bytes(const struct config *config, const char *host,
                               struct config_report *report)
{
    struct config_place section = {.source = "[headers]"};
    size_t bytes = 0;

    for (size_t i = 0; i < config->header_count; i++)
        if (config->headers[i].host[0] == '\0' || strcasecmp(config->headers[i].host, host) == 0)
            bytes += header_rule_bytes(&config->headers[i]);
    if (bytes > HEADER_RULES_MAX)
        config_report_error(report, &section, "shorten or remove some of them",
                            "the fields together have %zu bytes (at most %d)", bytes,
                            HEADER_RULES_MAX);
}

void config_header_check(const struct config *config, struct config_report *report)
{
    const char *checked = "";

    check_header_bytes(config, "", report);
    for (size_t i = 0; i < config->header_count; i++) {
        const char *host = config->headers[i].host;

        if (strcasecmp(host, checked) == 0)
            continue;
        checked = host;
        if (config_host_require(config, host, "[headers host]", report))
            check_header_bytes(config, host, report);
    }
}

int header_rules_of_host(const struct config *config, const struct config_host *host,
                         struct header_rules *rules)
{
    struct config_header *rule = calloc(config->header_count + 1, sizeof(*rule));

    if (rule == NULL)
        return -1;
    *rules = (struct header_rules){rule, 0};
    for (size_t i = 0; i < config->header_count; i++)
        if (config->headers[i].host[0] == '\0' ||
            (host != NULL && strcasecmp(config->headers[i].host, host->names[0]) == 0))
            rule[rules->count++] = config->headers[i];
    return 0;
}

/* Applying the rules. */

enum {
    RANK_ALWAYS = 1,
    RANK_ALL = 2,
    RANK_PREFIX = 4,
    RANK_EXTENSION = 1 << 20,
    RANK_HOST = 1 << 24,
};

/* How specific the scope is for PATH; 0: it does not apply. */
static size_t rank_of_scope(const struct config_header *rule, const char *path)
{
    const char *extension = rule->scope + 1; /* behind the star: ".css" */
    size_t length = strlen(rule->scope), all;

    if (length == 0)
        return RANK_ALL;
    if (path == NULL)
        return 0;
    if (rule->scope[0] == '/') {
        size_t prefix = rule->scope[length - 1] == '/' ? length - 1 : length;

        return strncmp(path, rule->scope, prefix) == 0 &&
                       (path[prefix] == '/' || path[prefix] == '\0')
                   ? RANK_PREFIX + 2 * length
                   : 0;
    }
    all = strlen(path);
    return all > length - 1 && strcasecmp(path + all - (length - 1), extension) == 0 &&
                   path[all - length] != '/'
               ? RANK_EXTENSION + 2 * length
               : 0;
}

static bool rule_is_for(const struct config_header *rule, enum header_part part)
{
    if (part != HEADER_OF_ERROR && part != HEADER_OF_REQUEST_ERROR)
        return true;
    return !is_freshness(span_of(rule->name)) || (rule->always && part == HEADER_OF_ERROR);
}

/* How specific the rule is for PART of a response for PATH; 0: it does not apply. */
static size_t rule_rank(const struct config_header *rule, const char *path, enum header_part part)
{
    size_t rank = rule_is_for(rule, part) ? rank_of_scope(rule, path) : 0;

    if (rank > 0 && rule->host[0] != '\0')
        rank += RANK_HOST;
    return rank > 0 && rule->always ? rank - RANK_ALWAYS : rank;
}

/* True if another rule for the same field is more specific. */
static bool is_overridden(const struct header_rules *rules, const struct config_header *rule,
                          const char *path, enum header_part part)
{
    size_t rank = rule_rank(rule, path, part);

    for (size_t i = 0; i < rules->count; i++)
        if (strcasecmp(rules->rule[i].name, rule->name) == 0 &&
            rule_rank(&rules->rule[i], path, part) > rank)
            return true;
    return false;
}

static bool is_written_elsewhere(const struct config_header *rule)
{
    for (size_t i = 0; i < ARRAY_LENGTH(written_fields); i++)
        if (strcasecmp(rule->name, written_fields[i].name) == 0)
            return true;
    return false;
}

size_t header_rule_bytes(const struct config_header *rule)
{
    return strlen(rule->name) + strlen(rule->value) + strlen(": \r\n");
}

static char *append_text(char *to, const char *text)
{
    size_t length = strlen(text);

    memcpy(to, text, length);
    return to + length;
}

size_t header_rules_write(const struct header_rules *rules, const char *path, enum header_part part,
                          char *buffer)
{
    static const char policy[] = "Content-Security-Policy"; /* it is not about the content */
    char *end = buffer;

    for (size_t i = 0; i < rules->count; i++) {
        const struct config_header *rule = &rules->rule[i];

        bool of_content = strncasecmp(rule->name, "Content-", 8) == 0 &&
                          strncasecmp(rule->name, policy, strlen(policy)) != 0;

        if (rule->value[0] == '\0' || of_content != (part == HEADER_OF_CONTENT) ||
            is_written_elsewhere(rule) || rule_rank(rule, path, part) == 0 ||
            is_overridden(rules, rule, path, part))
            continue;
        end = append_text(end, rule->name);
        end = append_text(end, ": ");
        end = append_text(end, rule->value);
        end = append_text(end, "\r\n");
    }
    return (size_t)(end - buffer);
}

const char *header_rules_value(const struct header_rules *rules, const char *path, const char *name)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct config_header *rule = &rules->rule[i];

        if (strcasecmp(rule->name, name) == 0 && rule_rank(rule, path, HEADER_OF_CONTENT) > 0 &&
            !is_overridden(rules, rule, path, HEADER_OF_CONTENT))
            return rule->value;
    }
    return NULL;
}

/* The section [mime] */

static const char extension_bytes[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-~";

/* The index of EXTENSION among the pairs; mime_count if it is new. */
static size_t find_mime_pair(const struct config *config, struct span extension)
{
    size_t i = 0;

    while (i < config->mime_count &&
           (strlen(config->mime_extensions[i]) != extension.length ||
            strncasecmp(config->mime_extensions[i], extension.start, extension.length) != 0))
        i++;
    return i;
}

/* Makes room for one more pair. Returns 0 or -1; existing pairs are kept in both cases. */
static int grow_pairs(struct config *config)
{
    size_t count = config->mime_count + 1;
    const char **extensions = realloc((void *)config->mime_extensions, count * sizeof(*extensions));
    const char **types = realloc((void *)config->mime_types, count * sizeof(*types));
    struct config_line *lines = realloc(config->mime_lines, count * sizeof(*lines));

    if (extensions != NULL)
        config->mime_extensions = extensions;
    if (types != NULL)
        config->mime_types = types;
    if (lines != NULL)
        config->mime_lines = lines;
    return extensions != NULL && types != NULL && lines != NULL ? 0 : -1;
}

/* Sets pair I, which may be new. */
static void store_pair(struct config_draft *draft, const struct config_entry *entry, size_t i)
{
    struct config *config = draft->config;
    char *extension = strndup(entry->key.start, entry->key.length);
    char *type = strdup(entry->value);

    if (extension == NULL || type == NULL || (i == config->mime_count && grow_pairs(config) != 0)) {
        free(extension);
        free(type);
        config_report_error(&draft->report, &entry->key_place, "", "out of memory");
        return;
    }
    if (i < config->mime_count) {
        free((void *)config->mime_extensions[i]);
        free((void *)config->mime_types[i]);
    } else {
        config->mime_count++;
    }
    config->mime_extensions[i] = extension;
    config->mime_types[i] = type;
    config->mime_lines[i] = config_entry_line(entry);
}

void config_mime_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config_report *report = &draft->report;
    size_t i = find_mime_pair(draft->config, entry->key);

    if (i < draft->config->mime_count && draft->config->mime_lines[i].number > 0 &&
        entry->key_place.line > 0)
        config_report_duplicate(report, entry, &draft->config->mime_lines[i]);
    else if (!config_consists_of(entry->key, extension_bytes))
        config_report_error(report, &entry->key_place,
                            "write the extension without the dot: html, not .html",
                            "'%.*s' is not a file name extension", CONFIG_QUOTED(entry->key));
    else if (config_entry_check(entry, report) == 0 && check_media_type(report, entry))
        store_pair(draft, entry, i);
}
