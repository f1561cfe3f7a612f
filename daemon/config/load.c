#include "daemon/config/config.h"

#include "daemon/config/check.h"
#include "daemon/config/load.h"
#include "daemon/config/path.h"
#include "daemon/config/value.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A message about the file FILE as a whole. */
static void complain_file(struct config_report *report, const char *file, const char *advice,
                          const char *problem)
{
    struct config_place place = {.source = file};

    config_report_error(report, &place, advice, "%s", problem);
}

static void complain_errno(struct config_report *report, const char *file, int error)
{
    complain_file(report, file, "name a file that can be read with -f FILE", strerror(error));
}

/*
 * Reads FD to its end into BUFFER (SIZE bytes). Returns the length, SIZE if there was more or as
 * much, or -1 with errno.
 */
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

/* Reads the file into a new buffer, which is returned; NULL after a complaint. */
static char *read_file(const char *file, int fd, size_t *length, struct config_report *report)
{
    char *text = malloc(CONFIG_TEXT_MAX + 1);
    ssize_t got;

    if (text == NULL) {
        complain_file(report, file, "", "out of memory");
        return NULL;
    }
    got = read_all(fd, text, CONFIG_TEXT_MAX + 1);
    if (got >= 0 && got <= CONFIG_TEXT_MAX) {
        *length = (size_t)got;
        return text;
    }
    if (got < 0)
        complain_errno(report, file, errno);
    else
        complain_file(report, file, "is this the right file?", "it has more than 1 MiB");
    free(text);
    return NULL;
}

static char *open_and_read(const char *file, size_t *length, struct config_report *report)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct stat status;
    char *text = NULL;

    if (fd < 0) {
        complain_errno(report, file, errno);
        return NULL;
    }
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        complain_file(report, file, "name the file in it", "it is a folder, not a file");
    else
        text = read_file(file, fd, length, report);
    close(fd);
    return text;
}

/* The absolute folder of FILE, seen from the folder WORKING; owned by the caller. NULL: no memory.
 */
static char *folder_of(const char *file, const char *working)
{
    const char *slash = file == NULL ? NULL : strrchr(file, '/');
    char *folder, *joined;

    if (slash == NULL)
        return strdup(working);
    folder = strndup(file, slash == file ? 1 : (size_t)(slash - file));
    if (folder == NULL || folder[0] == '/')
        return folder;
    joined = config_path_join(working, folder);
    free(folder);
    return joined;
}

/* "-o 1", "-o 2" …: what overrides are called in messages. */
typedef char override_name[sizeof("-o 18446744073709551615")];

/* The two folders that relative paths are taken from; owned. */
struct folders {
    char *working;
    char *of_file;
};

static int find_folders(struct folders *folders, const char *file)
{
    folders->of_file = NULL;
    folders->working = getcwd(NULL, 0);
    if (folders->working != NULL)
        folders->of_file = folder_of(file, folders->working);
    return folders->of_file == NULL ? -1 : 0;
}

static void free_folders(struct folders *folders)
{
    free(folders->working);
    free(folders->of_file);
}

/* What is to be loaded. */
struct sources {
    const char *file; /* its name; NULL: none */
    const char *text; /* of the file; NULL: none, or it could not be read */
    size_t length;
    const char *const *overrides;
    size_t override_count;
};

/* Puts all sources together, the later ones over the earlier ones. NAMES has one for each override.
 */
static void put_together(struct config_draft *draft, const struct sources *sources,
                         const struct folders *folders, override_name *names)
{
    draft->base = folders->of_file;
    config_draft_defaults(draft);
    if (sources->text != NULL)
        config_read(sources->file, sources->text, sources->length, &draft->report,
                    config_draft_take, draft);
    draft->base = folders->working;
    for (size_t i = 0; i < sources->override_count; i++) {
        snprintf(names[i], sizeof(names[i]), "-o %zu", i + 1);
        config_draft_override(draft, sources->overrides[i], names[i]);
    }
    config_draft_complete(draft);
    if (sources->file == NULL || sources->text != NULL)
        config_draft_check(draft);
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

void config_note_origin(struct config *config, size_t key, const char *origin)
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

/* Loads SOURCES into *CONFIG, with errors told to REPORT. Returns how many there have been. */
static int load(struct config *config, const struct sources *sources, struct config_report report)
{
    struct config_draft draft = {.config = config, .report = report};
    override_name *names = calloc(sources->override_count + 1, sizeof(*names));
    struct folders folders;

    memset(config, 0, sizeof(*config));
    if (find_folders(&folders, sources->file) != 0 || names == NULL)
        complain_errno(&draft.report, "working directory", errno);
    else
        put_together(&draft, sources, &folders, names);
    note_origins(config, &draft);
    config_report_end(&draft.report);
    if (draft.report.errors > 0)
        config_free(config);
    free(draft.mime_lines);
    free(draft.header_lines);
    free(names);
    free_folders(&folders);
    return (int)draft.report.errors;
}

int config_load_text(struct config *config, const char *name, const char *text, size_t length,
                     const char *const *overrides, size_t count, FILE *errors)
{
    struct sources sources = {name, text, length, overrides, count};

    return load(config, &sources, (struct config_report){.out = errors});
}

int config_load(struct config *config, const char *file, const char *const *overrides, size_t count,
                FILE *errors)
{
    struct sources sources = {.file = file, .overrides = overrides, .override_count = count};
    struct config_report report = {.out = errors};
    char *text = NULL;
    int failures;

    if (file != NULL)
        text = open_and_read(file, &sources.length, &report);
    sources.text = text;
    failures = load(config, &sources, report);
    free(text);
    return failures;
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        config_value_free(&config_keys[i], (char *)config + config_keys[i].offset);
    for (size_t i = 0; i < config->mime_count; i++) {
        free((void *)config->mime_endings[i]);
        free((void *)config->mime_types[i]);
    }
    for (size_t i = 0; i < config->header_count; i++) {
        free((void *)config->headers[i].scope);
        free((void *)config->headers[i].name);
        free((void *)config->headers[i].value);
    }
    free(config->headers);
    free((void *)config->mime_endings);
    free((void *)config->mime_types);
    for (size_t i = 0; i < KEY_COUNT && config->origins != NULL; i++)
        free(config->origins[i]);
    free(config->origins);
    memset(config, 0, sizeof(*config));
}
