#include "daemon/config/internal.h"

#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
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

static void report_errno(struct config_report *report, const char *file, int error)
{
    report_file(report, file, "name a readable file with -f FILE", strerror(error));
}

/* Reads at most SIZE bytes of FD into BUFFER. Returns their number, or -1 with errno. */
static ssize_t read_all(int fd, char *buffer, size_t size)
{
    size_t length = 0;

    while (length < size) {
        ssize_t got = read(fd, buffer + length, size - length);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

/* Returns the content in a new buffer, or NULL after reporting an error. */
static char *read_file(const char *file, int fd, size_t *length, struct config_report *report)
{
    char *text = malloc(CONFIG_TEXT_MAX + 1);
    ssize_t got;

    if (text == NULL) {
        report_file(report, file, "", "out of memory");
        return NULL;
    }
    got = read_all(fd, text, CONFIG_TEXT_MAX + 1);
    if (got >= 0 && got <= CONFIG_TEXT_MAX) {
        *length = (size_t)got;
        return text;
    }
    if (got < 0)
        report_errno(report, file, errno);
    else
        report_file(report, file, "is this the right file?", "the file is larger than 1 MiB");
    free(text);
    return NULL;
}

static char *open_and_read(const char *file, size_t *length, struct config_report *report)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat status;
    char *text = NULL;

    if (fd < 0) {
        report_errno(report, file, errno);
        return NULL;
    }
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        report_file(report, file, "name a file in it", "it is a directory");
    else
        text = read_file(file, fd, length, report);
    close(fd);
    return text;
}

/* The absolute directory of FILE, relative to WORKING; the caller frees it. NULL: out of memory. */
static char *directory_of(const char *file, const char *working)
{
    const char *slash = file == NULL ? NULL : strrchr(file, '/');
    char *directory, *joined;

    if (slash == NULL)
        return strdup(working);
    directory = strndup(file, slash == file ? 1 : (size_t)(slash - file));
    if (directory == NULL || directory[0] == '/')
        return directory;
    joined = config_path_join(working, directory);
    free(directory);
    return joined;
}

/* Entries. */

enum {
    FIELD_MAX =
        sizeof(struct config_addresses) > sizeof(uint64_t) ? sizeof(struct config_addresses) : 8
};

static size_t field_size(enum config_type type)
{
#define SIZE_OF(type)                                                                              \
    case CONFIG_##type:                                                                            \
        return sizeof(CONFIG_C_##type);
    switch (type) {
        SIZE_OF(TEXT)
        SIZE_OF(NAME)
        SIZE_OF(PATH)
        SIZE_OF(ADDRESS)
        SIZE_OF(PATHS)
        SIZE_OF(NETWORKS)
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
static void set_field(struct config_draft *draft, const struct config_key *key,
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
}

static void handle_entry(void *owner, const struct config_entry *entry)
{
    struct config_draft *draft = owner;
    const struct config_key *key = config_key_find(entry->section, entry->key);
    char advice[CONFIG_ADVICE_MAX];
    size_t number;

    if (strcmp(entry->section, "mime") == 0) {
        config_mime_add(draft->config, &draft->mime_lines, entry, &draft->report);
        return;
    }
    if (strcmp(entry->section, "headers") == 0) {
        config_header_add(draft->config, &draft->header_lines, entry, &draft->report);
        return;
    }
    if (strcmp(entry->section, "access") == 0) {
        config_draft_add_access(draft, entry);
        return;
    }
    if (strcmp(entry->section, "cors") == 0) {
        config_cors_add(draft->config, entry, &draft->report);
        return;
    }
    if (strcmp(entry->section, "redirect") == 0) {
        config_redirect_add(draft->config, entry, &draft->report);
        return;
    }
    if (strcmp(entry->section, "host") == 0) {
        config_host_add(draft, entry);
        return;
    }
    if (key == NULL) {
        config_key_advice(entry->section, entry->key, advice, sizeof(advice));
        config_report_error(&draft->report, &entry->key_place, advice, "[%s] has no key '%.*s'",
                            entry->section, CONFIG_QUOTED(entry->key));
        return;
    }
    number = (size_t)(key - config_keys);
    if (draft->given_in_line[number] > 0 && entry->key_place.line > 0) {
        config_report_duplicate(&draft->report, entry, draft->given_in_line[number]);
        return;
    }
    if (entry->key_place.line > 0)
        draft->given_in_line[number] = entry->key_place.line;
    draft->given[number] = true;
    set_field(draft, key, entry);
}

static void set_defaults(struct config_draft *draft)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        struct span line = {key->default_line, strlen(key->default_line)};
        struct span name = {key->name, strlen(key->name)};
        struct config_piece piece = {.text = line, .text_offset = name.length + strlen(" = ")};
        struct config_entry entry = {.section = key->section,
                                     .key = name,
                                     .key_place = {"default", 0, line, 0, name.length},
                                     .value = key->fallback,
                                     .piece = &piece,
                                     .piece_count = 1};

        set_field(draft, key, &entry);
    }
}

/* Overrides. */

/* The parts of an override. The section's start is NULL if there is no '.'. */
struct parts {
    struct span section, key, value;
};

static struct parts split(const char *text, const char *equals)
{
    /* the last one, because [headers *.extension] contains a '.' */
    const char *dot = memrchr(text, '.', (size_t)(equals - text));
    const char *key = dot == NULL ? text : dot + 1;
    struct parts parts = {
        .key = config_trim((struct span){key, (size_t)(equals - key)}),
        .value = config_trim((struct span){equals + 1, strlen(equals + 1)}),
    };

    if (dot != NULL)
        parts.section = config_trim((struct span){text, (size_t)(dot - text)});
    return parts;
}

static struct config_place place_in(const char *text, const char *name, struct span word)
{
    struct span line = {text, strlen(text)};

    return (struct config_place){name, 0, line, (size_t)(word.start - text), word.length};
}

/* Reports an override without a section. */
static void report_missing_section(struct config_draft *draft, const char *text, const char *name,
                                   struct span key)
{
    struct config_place place = place_in(text, name, key);
    const struct config_key *meant = config_key_guess(key);
    char advice[CONFIG_ADVICE_MAX] = "write section.key=value, as in server.listen=127.0.0.1:8080";

    if (meant != NULL)
        snprintf(advice, sizeof(advice), "did you mean %s.%s?", meant->section, meant->name);
    config_report_error(&draft->report, &place, advice, "the section is missing");
}

/* Sets the section of ENTRY and its argument. Returns false after reporting an error. */
static bool find_section(struct config_draft *draft, const char *text, const char *name,
                         struct span word, struct config_entry *entry)
{
    const struct config_section *section;
    char advice[CONFIG_ADVICE_MAX];
    struct config_place place;

    config_section_split(&word, &entry->argument);
    section = config_section_find(word);
    if (section == NULL) {
        place = place_in(text, name, word);
        config_section_advice(word, advice, sizeof(advice));
        config_report_error(&draft->report, &place, advice, "unknown section [%.*s]",
                            CONFIG_QUOTED(word));
        return false;
    }
    entry->section = section->name;
    if (entry->argument.length == 0 ||
        config_section_argument_fits(section->name, entry->argument, advice, sizeof(advice)))
        return true;
    place = place_in(text, name, entry->argument);
    config_report_error(&draft->report, &place, advice, "the section does not take this argument");
    return false;
}

/* Applies an override. */
static void apply_override_parts(struct config_draft *draft, const char *text, const char *name,
                                 const struct parts *parts)
{
    struct config_place whole = place_in(text, name, (struct span){text, strlen(text)});
    struct config_piece piece = {.text = whole.text,
                                 .text_offset = (size_t)(parts->value.start - text)};
    struct config_entry entry = {.key = parts->key,
                                 .key_place = place_in(text, name, parts->key),
                                 .piece = &piece,
                                 .piece_count = 1};
    char *value;

    if (parts->section.start == NULL) {
        report_missing_section(draft, text, name, parts->key);
        return;
    }
    if (!find_section(draft, text, name, parts->section, &entry))
        return;
    value = strndup(parts->value.start, parts->value.length);
    if (value == NULL) {
        config_report_error(&draft->report, &whole, "", "out of memory");
        return;
    }
    entry.value = value;
    handle_entry(draft, &entry);
    free(value);
}

static void apply_override(struct config_draft *draft, const char *text, const char *name)
{
    struct config_place whole = place_in(text, name, (struct span){text, strlen(text)});
    const char *equals = strchr(text, '=');
    struct parts parts;

    if (config_line_check(&whole, &draft->report) != 0)
        return;
    if (equals == NULL) {
        config_report_error(&draft->report, &whole,
                            "write section.key=value, as in server.listen=127.0.0.1:8080",
                            "the override has no '='");
        return;
    }
    parts = split(text, equals);
    apply_override_parts(draft, text, name, &parts);
}

/* Loading. */

/* The name of an override in messages: "-o 1", "-o 2" … */
typedef char override_name[sizeof("-o 18446744073709551615")];

/* The base directories of relative paths; owned. */
struct directories {
    char *working;
    char *of_file;
};

static int find_directories(struct directories *directories, const char *file)
{
    directories->of_file = NULL;
    directories->working = getcwd(NULL, 0);
    if (directories->working != NULL)
        directories->of_file = directory_of(file, directories->working);
    return directories->of_file == NULL ? -1 : 0;
}

static void free_directories(struct directories *directories)
{
    free(directories->working);
    free(directories->of_file);
}

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

/* Applies all sources in order. NAMES has room for the name of each override. */
static void apply_sources(struct config_draft *draft, const struct config_sources *sources,
                          const struct directories *directories, override_name *names)
{
    draft->base = directories->of_file;
    set_defaults(draft);
    if (sources->text != NULL)
        config_read(sources->file, sources->text, sources->length, &draft->report, handle_entry,
                    draft);
    draft->base = directories->working;
    if (sources->file == NULL)
        set_quick_defaults(draft, sources);
    for (size_t i = 0; i < sources->override_count; i++) {
        snprintf(names[i], sizeof(names[i]), "-o %zu", i + 1);
        apply_override(draft, sources->overrides[i], names[i]);
    }
    config_draft_complete(draft);
    config_hosts_complete(draft);
    config_acme_complete(draft);
    if (sources->file == NULL || sources->text != NULL) {
        config_draft_check(draft, sources->system);
        config_acme_check(draft);
    }
}

static void note_origins(struct config *config, const struct config_draft *draft)
{
    config->origins = calloc(KEY_COUNT, sizeof(char *));
    for (size_t i = 0; i < KEY_COUNT && config->origins != NULL; i++) {
        const struct config_place *place = &draft->set_at[i];
        char line[32] = "", *text = NULL;

        if (place->line > 0)
            snprintf(line, sizeof(line), ":%zu", place->line);
        if (place->source != NULL && asprintf(&text, "%s%s", place->source, line) >= 0)
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

/* Loads SOURCES into *CONFIG; errors go to REPORT. Returns their number. */
static int load(struct config *config, const struct config_sources *sources,
                struct config_report report)
{
    struct config_draft draft = {.config = config, .report = report};
    override_name *names = calloc(sources->override_count + 1, sizeof(*names));
    struct directories directories;

    memset(config, 0, sizeof(*config));
    if (find_directories(&directories, sources->file) != 0 || names == NULL)
        report_errno(&draft.report, "working directory", errno);
    else
        apply_sources(&draft, sources, &directories, names);
    note_origins(config, &draft);
    config_report_end(&draft.report);
    if (draft.report.errors > 0)
        config_free(config);
    free(draft.mime_lines);
    free(draft.header_lines);
    free(draft.hosts);
    free(names);
    free_directories(&directories);
    return (int)draft.report.errors;
}

int config_load(struct config *config, const struct config_sources *sources, FILE *errors)
{
    struct config_sources read = *sources;
    struct config_report report = {.out = errors};
    char *text = NULL;
    int failures;

    if (sources->file != NULL && sources->text == NULL) {
        text = open_and_read(sources->file, &read.length, &report);
        read.text = text;
    }
    failures = load(config, &read, report);
    free(text);
    return failures;
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
    for (size_t i = 0; i < KEY_COUNT && config->origins != NULL; i++)
        free(config->origins[i]);
    free(config->origins);
    memset(config, 0, sizeof(*config));
}
