#include "daemon/config/internal.h"

#include "common/macros.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file. */

/* Reports an error of FILE as a whole. */
static void report_file(struct config_report *report, const char *file, const char *advice,
                        const char *problem)
{
    struct config_place place = {.source = file};

    config_report_error(report, &place, advice, "%s", problem);
}

char *config_text_read(int fd, size_t max, size_t *length)
{
    struct stat status;
    size_t room =
        fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? (size_t)status.st_size + 2 : 4096;
    char *text = NULL;
    ssize_t got = 1;

    if (room > max + 2)
        room = max + 2;

    for (*length = 0; got != 0; *length += got > 0 ? (size_t)got : 0) {
        char *more = text;

        if (text == NULL || *length + 1 == room) {
            room *= text == NULL ? 1 : 2;
            more = realloc(text, room);
        }
        if (more == NULL)
            break;
        text = more;
        got = read(fd, text + *length, room - *length - 1);
        if (got < 0 && errno != EINTR)
            break;
        if (got > 0 && *length + (size_t)got > max) {
            errno = EFBIG;
            break;
        }
    }
    if (got == 0) {
        text[*length] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

/* Entries. */

enum {
    FIELD_MAX = sizeof(struct config_networks) > sizeof(struct config_addresses)
                    ? sizeof(struct config_networks)
                    : sizeof(struct config_addresses)
};

static size_t field_size(enum config_type type)
{
#define SIZE_OF(type)                                                                              \
    case CONFIG_##type:                                                                            \
        return sizeof(CONFIG_C_##type);
    switch (type) {
        SIZE_OF(TEXT)
        SIZE_OF(SECRET)
        SIZE_OF(NAME)
        SIZE_OF(PATH)
        SIZE_OF(PREFIX)
        SIZE_OF(ADDRESS)
        SIZE_OF(PATHS)
        SIZE_OF(NETWORKS)
        SIZE_OF(NAMES)
        SIZE_OF(SWITCH)
        SIZE_OF(COUNT)
        SIZE_OF(AUTO)
        SIZE_OF(SPAN)
        SIZE_OF(SIZE)
        SIZE_OF(TIME)
        SIZE_OF(CHOICE)
        SIZE_OF(MODE)
    }
#undef SIZE_OF
    return 0;
}

/* Parses ENTRY's value into the field of KEY. */
static void set_key(struct config_draft *draft, const struct config_key *key,
                    const struct config_entry *entry)
{
    size_t number = (size_t)(key - config_keys);
    void *field = config_draft_field(draft, key);
    _Alignas(max_align_t) char fresh[FIELD_MAX];

    draft->faulty[number] = true;
    if (config_draft_parse(draft, key, entry, fresh) != 0)
        return;
    config_value_free(key, field);
    memcpy(field, fresh, field_size(key->type));
    draft->faulty[number] = false;
    draft->set_at[number] = config_entry_place(entry, 0, strlen(entry->value));
    draft->expanded[number] = entry->written > 0;
}

void config_entry_add(struct config_draft *draft, const struct config_entry *entry)
{
    static const struct {
        const char *section;
        void (*add)(struct config_draft *draft, const struct config_entry *entry);
    } others[] = {
        {"mime", config_mime_add},     {"headers", config_header_add},
        {"access", config_access_add}, {"cors", config_cors_add},
        {"host", config_host_add},     {"redirect", config_redirect_add},
    };
    const struct config_key *key;
    char advice[CONFIG_ADVICE_MAX];
    size_t number;

    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        if (strcmp(entry->section, others[i].section) == 0) {
            others[i].add(draft, entry);
            return;
        }
    key = config_key_find(entry->section, entry->key);
    if (key == NULL) {
        config_key_advice(entry->section, entry->key, advice, sizeof(advice));
        config_report_error(&draft->report, &entry->key_place, advice, "[%s] has no key '%.*s'",
                            entry->section, CONFIG_QUOTED(entry->key));
        return;
    }
    number = (size_t)(key - config_keys);
    if (draft->given_in[number].number > 0 && entry->key_place.line > 0) {
        config_report_duplicate(&draft->report, entry, &draft->given_in[number]);
        return;
    }
    if (entry->key_place.line > 0)
        draft->given_in[number] = config_entry_line(entry);
    draft->given[number] = true;
    set_key(draft, key, entry);
}

static void set_defaults(struct config_draft *draft)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        struct span line = span_of(key->default_line);
        struct span name = span_of(key->name);
        struct config_entry entry = {.section = key->section,
                                     .key = name,
                                     .key_place = {"default", 0, line, 0, name.length},
                                     .value = key->fallback,
                                     .value_offset = name.length + strlen(" = ")};

        set_key(draft, key, &entry);
    }
}

/* Overrides. */

static struct config_place override_place(const char *text, const char *name, struct span word)
{
    struct span line = span_of(text);

    return (struct config_place){name, 0, line, (size_t)(word.start - text), word.length};
}

/* Reports an override without a section. */
static void report_missing_section(struct config_draft *draft, const char *text, const char *name,
                                   struct span key)
{
    struct config_place place = override_place(text, name, key);
    const struct config_key *meant = config_key_guess(key);
    char advice[CONFIG_ADVICE_MAX] = "write section.key=value, as in server.listen=127.0.0.1:8080";

    if (meant != NULL)
        snprintf(advice, sizeof(advice), "did you mean %s.%s?", meant->section, meant->name);
    config_report_error(&draft->report, &place, advice, "the section is missing");
}

/* Sets the section of ENTRY and its argument. Returns false after reporting an error. */
static bool find_override_section(struct config_draft *draft, const char *text, const char *name,
                                  struct span word, struct config_entry *entry)
{
    const struct config_section *section;
    char advice[CONFIG_ADVICE_MAX];
    struct config_place place;

    config_section_split(&word, &entry->argument);
    section = config_section_find(word);
    if (section == NULL) {
        place = override_place(text, name, word);
        config_section_advice(word, advice, sizeof(advice));
        config_report_error(&draft->report, &place, advice, "unknown section [%.*s]",
                            CONFIG_QUOTED(word));
        return false;
    }
    entry->section = section->name;
    if (entry->argument.length == 0 ||
        config_section_argument_fits(section->name, entry->argument, advice, sizeof(advice)))
        return true;
    place = override_place(text, name, entry->argument);
    config_report_error(&draft->report, &place, advice, "the section does not take this argument");
    return false;
}

/* The '.' between section and key; NULL: there is none. */
static const char *find_override_dot(const char *text, const char *equals)
{
    /* a key of [redirect] begins with a path, which may have a '.' */
    for (const char *dot = text; strncmp(text, "redirect", 8) == 0 && dot < equals; dot++)
        if (dot[0] == '.' && (dot[1] == '/' || dot[1] == '"' || strncmp(dot + 1, "http ", 5) == 0))
            return dot;
    /* the last one, because [headers *.extension] has a '.' */
    return memrchr(text, '.', (size_t)(equals - text));
}

static void apply_override(struct config_draft *draft, const char *text, const char *name)
{
    struct config_place whole = override_place(text, name, span_of(text));
    const char *equals = config_find_equals(whole.text), *dot;
    struct config_entry entry = {.section = NULL};
    struct span value;
    char *copy;

    if (config_line_check(&whole, &draft->report) != 0)
        return;
    if (equals == NULL) {
        config_report_error(&draft->report, &whole,
                            "write section.key=value, as in server.listen=127.0.0.1:8080",
                            "the override has no '='");
        return;
    }
    dot = find_override_dot(text, equals);
    entry.key.start = dot == NULL ? text : dot + 1;
    entry.key.length = (size_t)(equals - entry.key.start);
    entry.key = config_trim(entry.key);
    entry.key_place = override_place(text, name, entry.key);
    value = config_trim(span_of(equals + 1));
    entry.value_offset = (size_t)(value.start - text);
    if (dot == NULL) {
        report_missing_section(draft, text, name, entry.key);
        return;
    }
    if (!find_override_section(draft, text, name,
                               config_trim((struct span){text, (size_t)(dot - text)}), &entry))
        return;
    copy = strndup(value.start, value.length);
    entry.value = copy;
    if (copy != NULL)
        config_entry_add(draft, &entry);
    else
        config_report_error(&draft->report, &whole, "", "out of memory");
    free(copy);
}

/* Loading. */

/*
 * Without a file and without a root, the server is a quick one for the working directory: it lists
 * directories and writes no file there.
 */
static void set_quick_defaults(struct config_draft *draft, const struct config_sources *sources)
{
    static const char *const defaults[] = {"server.root=.", "files.autoindex=on", "log.access=-"};
    static const char root[] = "server.root";

    for (size_t i = 0; i < sources->override_count; i++)
        if (strncmp(sources->overrides[i], root, strlen(root)) == 0)
            return;
    for (size_t i = 0; i < ARRAY_LENGTH(defaults); i++)
        apply_override(draft, defaults[i], "default");
}

/* Applies all sources in order. Relative paths of overrides are below the working directory. */
static void apply_sources(struct config_draft *draft, const struct config_sources *sources)
{
    char *directory = config_file_directory(sources->file, draft->working);
    bool read = true;

    draft->base = directory != NULL ? directory : draft->working;
    set_defaults(draft);
    if (sources->file != NULL)
        read = config_file_read(draft, sources);
    draft->config->file_count = draft->config->sources.count;
    free(directory);
    draft->base = draft->working;
    if (sources->file == NULL)
        set_quick_defaults(draft, sources);
    for (size_t i = 0; i < sources->override_count; i++) {
        char text[sizeof("-o 18446744073709551615")];
        const char *name;

        snprintf(text, sizeof(text), "-o %zu", i + 1);
        name = config_source_name(draft->config, text);
        apply_override(draft, sources->overrides[i], name != NULL ? name : "-o");
    }
    config_draft_complete(draft);
    config_hosts_complete(draft);
    config_acme_complete(draft);
    if (config_paths_index(draft->config) != 0)
        report_file(&draft->report, "[redirect]", "", "out of memory");
    if (read) {
        config_draft_check(draft, sources->system);
        config_acme_check(draft);
    }
}

static void note_origins(struct config *config, const struct config_draft *draft)
{
    config->origins = calloc(KEY_COUNT, sizeof(char *));
    for (size_t i = 0; i < KEY_COUNT && config->origins != NULL; i++) {
        const struct config_place *place = &draft->set_at[i];
        bool shown = draft->expanded[i] && config_keys[i].type != CONFIG_SECRET;
        char line[32] = "", *text = NULL;

        if (place->line > 0)
            snprintf(line, sizeof(line), ":%zu", place->line);
        if (place->source != NULL &&
            asprintf(&text, "%s%s%s%.*s", place->source, line, shown ? ": " : "",
                     shown ? (int)place->length : 0, place->text.start + place->offset) >= 0)
            config->origins[i] = text;
    }
}

void config_set_origin(struct config *config, size_t key, const char *origin)
{
    if (config->origins == NULL)
        return;
    free(config->origins[key]);
    config->origins[key] = strdup(origin);
}

const char *config_origin(const struct config *config, size_t key)
{
    return config->origins != NULL && config->origins[key] != NULL ? config->origins[key] : "?";
}

int config_load(struct config *config, const struct config_sources *sources, FILE *errors)
{
    struct config_draft draft = {.config = config, .report = {.out = errors}};
    char *working = getcwd(NULL, 0);

    memset(config, 0, sizeof(*config));
    draft.working = working;
    if (working == NULL)
        report_file(&draft.report, "working directory", "", strerror(errno));
    else
        apply_sources(&draft, sources);
    note_origins(config, &draft);
    config_report_end(&draft.report);
    if (draft.report.errors > 0)
        config_free(config);
    free(draft.hosts);
    config_files_free(&draft);
    free(working);
    return (int)draft.report.errors;
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        config_value_free(&config_keys[i], (char *)config + config_keys[i].offset);
    for (size_t i = 0; i < config->mime_count; i++) {
        free((void *)config->mime_extensions[i]);
        free((void *)config->mime_types[i]);
    }
    config_hosts_free(config);
    config_acme_free(config);
    config_redirects_free(config);
    config_access_free(config);
    config_cors_free(config);
    config_users_free(&config->metrics_logins);
    for (size_t i = 0; i < config->header_count; i++) {
        free((void *)config->headers[i].host);
        free((void *)config->headers[i].scope);
        free((void *)config->headers[i].name);
        free((void *)config->headers[i].value);
    }
    free(config->headers);
    free((void *)config->mime_extensions);
    free((void *)config->mime_types);
    free(config->mime_lines);
    config_words_free(&config->sources);
    for (size_t i = 0; i < KEY_COUNT && config->origins != NULL; i++)
        free(config->origins[i]);
    free(config->origins);
    path_index_free(config->access_index);
    path_index_free(config->cors_index);
    path_index_free(config->redirect_index);
    memset(config, 0, sizeof(*config));
}
