#include "daemon/config/internal.h"

#include "common/tables.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const config_host_key_names[HOST_KEY_COUNT] = {
#define HOST_KEY(name, section, key) #name,
#include "common/config_host.def"
#undef HOST_KEY
};

static const size_t offsets[HOST_KEY_COUNT] = {
#define HOST_KEY(name, section, key) offsetof(struct config_host, name),
#include "common/config_host.def"
#undef HOST_KEY
};

static const size_t sizes[HOST_KEY_COUNT] = {
#define HOST_KEY(name, section, key) sizeof(((struct config_host *)0)->name),
#include "common/config_host.def"
#undef HOST_KEY
};

const struct config_key *config_host_key_type(enum config_host_key key)
{
    static const enum config_key_number types[HOST_KEY_COUNT] = {
#define HOST_KEY(name, section, key) KEY_##section##_##key,
#include "common/config_host.def"
#undef HOST_KEY
    };

    return &config_keys[types[key]];
}

const void *config_host_field(const struct config_host *host, enum config_host_key key)
{
    return (const char *)host + offsets[key];
}

bool config_host_is_logged(const struct config *config, const struct config_host *host)
{
    return strcmp(host != NULL ? host->access_log : config->log_access, "off") != 0;
}

bool config_hosts_log_any(const struct config *config)
{
    bool any = config_host_is_logged(config, NULL);

    for (size_t i = 0; i < config->host_count && !any; i++)
        any = config_host_is_logged(config, &config->hosts[i]);
    return any;
}

/* Names */

static char *lower_case(struct span text)
{
    char *copy = strndup(text.start, text.length);

    for (size_t i = 0; copy != NULL && i < text.length; i++)
        copy[i] = (char)tolower((unsigned char)copy[i]);
    return copy;
}

/* Adds the words of NAMES that HOST does not have. Returns 0, or -1: out of memory. */
static int add_section_names(struct config_host *host, struct span names)
{
    while (names.length > 0) {
        struct span rest;
        char **more;

        size_t i = 0;

        config_section_split(&names, &rest);
        while (i < host->name_count && !config_host_name_is(host->names[i], names))
            i++;
        if (i == host->name_count) {
            more = realloc(host->names, (host->name_count + 1) * sizeof(*more));
            if (more == NULL)
                return -1;
            host->names = more;
            more[host->name_count] = lower_case(names);
            if (more[host->name_count] == NULL)
                return -1;
            host->name_count++;
        }
        names = rest;
    }
    return 0;
}

/* Adding */

/* A new host at the end. Returns its index, or SIZE_MAX: out of memory. */
static size_t new_host(struct config_draft *draft)
{
    struct config *config = draft->config;
    size_t count = config->host_count + 1;
    struct config_host *hosts;
    struct config_host_draft *drafts;

    if ((count & (count - 1)) == 0) { /* room for twice as many at each power of two */
        hosts = realloc(config->hosts, 2 * count * sizeof(*hosts));
        drafts = realloc(draft->hosts, 2 * count * sizeof(*drafts));
        if (hosts != NULL)
            config->hosts = hosts;
        if (drafts != NULL)
            draft->hosts = drafts;
        if (hosts == NULL || drafts == NULL)
            return SIZE_MAX;
    }
    config->hosts[count - 1] = (struct config_host){.names = NULL};
    draft->hosts[count - 1] = (struct config_host_draft){.set_at = {{.line = 0}}};
    config->host_count = count;
    return count - 1;
}

/* The index of the host that NAMES identify, with all of NAMES; SIZE_MAX: out of memory. */
static size_t host_of(struct config_draft *draft, struct span names)
{
    struct config *config = draft->config;
    struct span first = names, rest;
    size_t i = config->host_count;

    config_section_split(&first, &rest);
    while (i > 0 &&
           !config_host_name_is(config->hosts[i - 1].names[0], first)) /* usually it is the last */
        i--;
    i = i > 0 ? i - 1 : new_host(draft);
    if (i == SIZE_MAX || add_section_names(&config->hosts[i], names) == 0)
        return i;
    if (config->hosts[i].name_count == 0)
        config->host_count--;
    return SIZE_MAX;
}

static const char all_keys[] =
#define HOST_KEY(name, section, key) " " #name
#include "common/config_host.def"
#undef HOST_KEY
    ;

static void report_unknown_key(struct config_draft *draft, const struct config_entry *entry)
{
    char advice[CONFIG_ADVICE_MAX], typed[CONFIG_QUOTED_MAX + 1];
    const char *near;

    snprintf(typed, sizeof(typed), "%.*s", CONFIG_QUOTED(entry->key));
    near = nearest_word(typed, config_host_key_names, HOST_KEY_COUNT);
    if (near != NULL)
        snprintf(advice, sizeof(advice), "did you mean '%s'?", near);
    else
        snprintf(advice, sizeof(advice), "valid keys:%s", all_keys);
    config_report_error(&draft->report, &entry->key_place, advice, "[host] has no key '%.*s'",
                        CONFIG_QUOTED(entry->key));
}

static enum config_host_key find_host_key(struct span name)
{
    for (int key = 0; key < HOST_KEY_COUNT; key++)
        if (span_is(name, span_of(config_host_key_names[key])))
            return (enum config_host_key)key;
    return HOST_KEY_COUNT;
}

static void set_value(struct config_draft *draft, size_t number, enum config_host_key key,
                      const struct config_entry *entry)
{
    struct config_host *host = &draft->config->hosts[number];
    struct config_host_draft *noted = &draft->hosts[number];
    const struct config_key *type = config_host_key_type(key);
    void *field = (char *)host + offsets[key];
    _Alignas(max_align_t) char fresh[sizeof(struct config_addresses)];

    if (config_draft_parse(draft, type, entry, fresh) != 0)
        return;
    if (host->given[key])
        config_value_free(type, field);
    memcpy(field, fresh, sizes[key]);
    host->given[key] = true;
    noted->set_at[key] = config_entry_place(entry, 0, strlen(entry->value));
}

void config_host_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config_line *line;
    size_t number;
    enum config_host_key key;

    if (entry->argument.length == 0) {
        if (entry->key.length == 0 || entry->key_place.line == 0)
            config_report_error(&draft->report, &entry->key_place,
                                "write its names: [host www.example.org example.org]",
                                "the host has no name");
        return;
    }
    number = host_of(draft, entry->argument);
    if (number == SIZE_MAX) {
        config_report_error(&draft->report, &entry->key_place, "", "out of memory");
        return;
    }
    if (entry->key.length == 0)
        return;
    key = find_host_key(entry->key);
    if (key == HOST_KEY_COUNT) {
        report_unknown_key(draft, entry);
        return;
    }
    line = &draft->config->hosts[number].line[key];
    if (line->number > 0 && entry->key_place.line > 0) {
        config_report_duplicate(&draft->report, entry, line);
        return;
    }
    *line = config_entry_line(entry);
    set_value(draft, number, key, entry);
}

/* Completing */

static int by_name_of_host(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* Reports names of two hosts. */
static void check_host_names(struct config_draft *draft)
{
    const struct config *config = draft->config;
    struct config_place place = {.source = "[host]"};
    size_t count = 0, all = 0;
    char **names;

    for (size_t i = 0; i < config->host_count; i++)
        all += config->hosts[i].name_count;
    names = calloc(all + 1, sizeof(*names));
    for (size_t i = 0; i < config->host_count && names != NULL; i++)
        for (size_t k = 0; k < config->hosts[i].name_count; k++)
            names[count++] = config->hosts[i].names[k];
    if (count > 0)
        qsort(names, count, sizeof(*names), by_name_of_host);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            config_report_error(&draft->report, &place, "remove it from one of them",
                                "two hosts have the name '%s'", names[i]);
    free(names);
}

/* The server's root need not exist if a [host] answers all that no other one does. */
static void complete_default(struct config_draft *draft)
{
    struct config *config = draft->config;
    const char *name = config->server_default_host;
    const struct config_host *host;
    char *root;

    if (name[0] == '\0' || draft->faulty[KEY_server_default_host] ||
        !config_host_require(config, name, "server.default_host", &draft->report))
        return;
    host = config_host_find(config, span_of(name));
    if (draft->given[KEY_server_root] || !host->given[HOST_KEY_root])
        return;
    root = strdup(host->root);
    if (root == NULL)
        return;
    free((void *)config->server_root);
    config->server_root = root;
}

void config_hosts_complete(struct config_draft *draft)
{
    struct config *config = draft->config;

    complete_default(draft);
    for (size_t i = 0; i < config->host_count; i++) {
        struct config_host *host = &config->hosts[i];

        if (host->given[HOST_KEY_certificate] && !host->given[HOST_KEY_key])
            host->given[HOST_KEY_key] = true; /* in the file of the certificate */
        for (int key = 0; key < HOST_KEY_COUNT; key++)
            if (!host->given[key]) /* a copy: the section with the default owns the value */
                memcpy((char *)host + offsets[key],
                       (char *)config + config_host_key_type((enum config_host_key)key)->offset,
                       sizes[key]);
    }
    check_host_names(draft);
}

void config_hosts_free(struct config *config)
{
    for (size_t i = 0; i < config->host_count; i++) {
        struct config_host *host = &config->hosts[i];

        for (int key = 0; key < HOST_KEY_COUNT; key++)
            if (host->given[key])
                config_value_free(config_host_key_type((enum config_host_key)key),
                                  (char *)host + offsets[key]);
        for (size_t k = 0; k < host->name_count; k++)
            free(host->names[k]);
        free(host->names);
    }
    free(config->hosts);
}

/* Finding */

bool config_host_name_is(const char *name, struct span text)
{
    return span_is_nocase(text, span_of(name));
}

const struct config_host *config_host_find(const struct config *config, struct span name)
{
    for (size_t i = 0; i < config->host_count; i++)
        if (config_host_name_is(config->hosts[i].names[0], name))
            return &config->hosts[i];
    return NULL;
}

uint32_t config_host_number(const struct config *config, const char *name)
{
    const struct config_host *host = config_host_find(config, span_of(name));

    return name[0] == '\0' ? 0
           : host != NULL  ? (uint32_t)(host - config->hosts) + 1
                           : (uint32_t)config->host_count + 1;
}

bool config_host_require(const struct config *config, const char *name, const char *source,
                         struct config_report *report)
{
    struct config_place place = {.source = source};
    char advice[CONFIG_ADVICE_MAX] = "add a section [host NAME]";
    const char **names, *near = NULL;

    if (config_host_find(config, span_of(name)) != NULL)
        return true;
    names = calloc(config->host_count + 1, sizeof(*names));
    for (size_t i = 0; i < config->host_count && names != NULL; i++)
        names[i] = config->hosts[i].names[0];
    if (names != NULL)
        near = nearest_word(name, names, config->host_count);
    if (near != NULL)
        snprintf(advice, sizeof(advice), "did you mean '%s'? use the first name of a [host]", near);
    config_report_error(report, &place, advice, "there is no [host %s]", name);
    free(names);
    return false;
}
