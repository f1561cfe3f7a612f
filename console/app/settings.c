#include "console/app/settings.h"

#include "common/escape.h"
#include "common/tables.h"
#include "console/data/user_files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 512, SETTINGS_MODE = 0644 };

/* The options that are settings */

static const struct option_info *setting_named(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (option_table[i].setting && strcmp(option_name(&option_table[i]), name) == 0)
            return &option_table[i];
    return NULL;
}

size_t settings_names(const char **names)
{
    size_t count = 0;

    for (size_t i = 0; i < OPTION_COUNT && count < SETTINGS_MOST; i++)
        if (option_table[i].setting)
            names[count++] = option_name(&option_table[i]);
    return count;
}

enum options_result settings_set(struct options *options, const char *name, const char *value)
{
    const struct option_info *setting = setting_named(name);
    const char *names[SETTINGS_MOST];
    char near[DID_YOU_MEAN_SIZE];

    if (setting != NULL)
        return setting->accept(value, options);
    return option_wrong(options, "unknown setting '%.40s'%s", name,
                        did_you_mean(near, name, WORD_LIST(names, settings_names(names)),
                                     "; wsconsole(1) lists them"));
}

char *settings_value(const struct options *options, const char *name, char *text, size_t size)
{
    const struct option_info *setting = setting_named(name);

    text[0] = '\0';
    if (setting != NULL)
        option_show(options, (size_t)(setting - option_table), text, size);
    return text;
}

/* Read console.ini */

static char *trim(char *text)
{
    size_t length;

    text += strspn(text, " \t\r\n");
    length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

/* Blank lines, comments and section headers. */
static bool is_ignored(const char *line)
{
    line += strspn(line, " \t\r\n");
    return *line == '\0' || *line == '#' || *line == ';' || *line == '[';
}

static enum options_result read_line(char *line, struct options *options)
{
    char *start = trim(line), *equals = strchr(start, '=');

    if (is_ignored(start))
        return OPTIONS_RUN;
    if (equals == NULL)
        return option_wrong(options, "invalid line '%.80s' (key = value)", start);
    *equals = '\0';
    return settings_set(options, trim(start), trim(equals + 1));
}

/* The path of console.ini; false if neither variable is set. */
static bool file_path(char *path, size_t size)
{
    return user_files_path("XDG_CONFIG_HOME", ".config", "console.ini", path, size);
}

enum options_result settings_read(struct options *options)
{
    char path[PATH_MAX] = "", line[LINE_BYTES];
    enum options_result result = OPTIONS_RUN;
    FILE *file = file_path(path, sizeof(path)) ? fopen(path, "re") : NULL;

    if (file == NULL && errno != ENOENT && errno != ENOTDIR && path[0] != '\0') {
        fprintf(stderr, "wsconsole: cannot read %s: %s\n", path, strerror(errno));
        return OPTIONS_WRONG;
    }
    for (int number = 1; file != NULL && fgets(line, sizeof(line), file) != NULL; number++)
        if (read_line(line, options) != OPTIONS_RUN) {
            fprintf(stderr, "wsconsole: %s:%d: ", path, number);
            escape_print(stderr, options->why);
            fputc('\n', stderr);
            result = OPTIONS_WRONG; /* report all errors, not only the first */
        }
    options->why[0] = '\0';
    if (file != NULL)
        fclose(file);
    return result;
}

/* Save */

struct saving {
    const struct options *options;
    FILE *old, *new;
    bool written[OPTION_COUNT];
    char names[LINE_BYTES]; /* settings written */
};

static void write_setting(struct saving *saving, const struct option_info *setting,
                          const char *value)
{
    const char *name = option_name(setting);
    size_t used = strlen(saving->names);

    fprintf(saving->new, "%s = %s\n", name, value);
    saving->written[setting - option_table] = true;
    snprintf(saving->names + used, sizeof(saving->names) - used, "%s%s", used > 0 ? ", " : "",
             name);
}

/*
 * Copies one line of the file: unchanged if it is not a setting, with the current value if it is
 * one; drops settings with their default value.
 */
static void copy_line(struct saving *saving, const char *line)
{
    char copy[LINE_BYTES], value[OPTION_VALUE_BYTES] = "";
    const struct option_info *setting;

    snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "="), line);
    setting = is_ignored(line) ? NULL : setting_named(trim(copy));
    if (setting == NULL) {
        fprintf(saving->new, "%s%s", line, strchr(line, '\n') != NULL ? "" : "\n");
        return;
    }
    option_show(saving->options, (size_t)(setting - option_table), value, sizeof(value));
    if (value[0] != '\0' && !saving->written[setting - option_table])
        write_setting(saving, setting, value);
}

static void write_all(struct saving *saving)
{
    char *line = NULL;
    size_t room = 0;

    while (saving->old != NULL && getline(&line, &room, saving->old) > 0)
        copy_line(saving, line);
    free(line);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char value[OPTION_VALUE_BYTES] = "";

        if (!option_table[i].setting || saving->written[i])
            continue;
        option_show(saving->options, i, value, sizeof(value));
        if (value[0] != '\0')
            write_setting(saving, &option_table[i], value);
    }
}

/* Opens a temporary file next to PATH, with the mode of the old file. Returns NULL with errno. */
static FILE *open_new(const char *path, FILE *old, char *temporary, size_t size)
{
    struct stat status = {.st_mode = SETTINGS_MODE};
    int descriptor;

    snprintf(temporary, size, "%s.XXXXXX", path);
    descriptor = mkostemp(temporary, O_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    if (old != NULL)
        fstat(fileno(old), &status);
    fchmod(descriptor, status.st_mode & 0777);
    return fdopen(descriptor, "w");
}

/* Closes the temporary file and renames it to PATH. Returns 0, or -1 with errno; PATH is then
 * unchanged. */
static int replace_file(FILE *new, const char *temporary, const char *path)
{
    int problem = ferror(new) != 0 || fflush(new) != 0 || fsync(fileno(new)) != 0 ? errno : 0;

    if (fclose(new) != 0 && problem == 0)
        problem = errno;
    if (problem == 0 && rename(temporary, path) == 0)
        return 0;
    problem = problem != 0 ? problem : errno;
    unlink(temporary);
    errno = problem;
    return -1;
}

/* Returns 0, or -1 with errno. */
static int save_into(struct saving *saving, const char *path)
{
    char temporary[PATH_MAX + 8];

    saving->old = fopen(path, "re");
    if (saving->old == NULL && (errno != ENOENT || user_files_make_parents(path) != 0))
        return -1;
    saving->new = open_new(path, saving->old, temporary, sizeof(temporary));
    if (saving->new == NULL)
        return -1;
    write_all(saving);
    return replace_file(saving->new, temporary, path);
}

int settings_save(const struct options *options, char *message, size_t size)
{
    struct saving saving = {.options = options};
    char path[PATH_MAX], target[PATH_MAX];
    int result;

    if (!file_path(path, sizeof(path))) {
        snprintf(message, size, "neither XDG_CONFIG_HOME nor HOME is set");
        return -1;
    }
    result = save_into(&saving, realpath(path, target) != NULL ? target : path);
    if (result != 0)
        snprintf(message, size, "cannot write %.200s: %s", path, strerror(errno));
    else
        snprintf(message, size, "saved in %.150s: %s", path,
                 saving.names[0] != '\0' ? saving.names : "no settings, all have their defaults");
    if (saving.old != NULL)
        fclose(saving.old);
    return result;
}

/* Saved filters */

enum { NAME_MAX_BYTES = 40 };

static bool find_file(char *path, char *why, size_t size)
{
    if (user_files_path("XDG_CONFIG_HOME", ".config", "filters", path, PATH_MAX))
        return true;
    snprintf(why, size, "neither XDG_CONFIG_HOME nor HOME is set");
    return false;
}

int filters_save(const char *name, const char *text, char *why, size_t size)
{
    char path[PATH_MAX];
    size_t length = 0;
    FILE *file;

    while (isalnum((unsigned char)name[length]) || name[length] == '-' || name[length] == '_')
        length++;
    if (length == 0 || length >= NAME_MAX_BYTES || name[length] != '\0') {
        snprintf(why, size, "invalid name '%.40s' (letters, digits, '-', '_')", name);
        return -1;
    }
    if (!find_file(path, why, size))
        return -1;
    file = user_files_make_parents(path) == 0 ? fopen(path, "ae") : NULL;
    if (file != NULL) {
        bool written = fprintf(file, "%s %s\n", name, text) > 0;

        if (fclose(file) == 0 && written)
            return 0;
    }
    snprintf(why, size, "cannot write %.150s: %s", path, strerror(errno));
    return -1;
}

int filters_find(const char *name, char *text, char *why, size_t size)
{
    char path[PATH_MAX], line[FILTER_BYTES + NAME_MAX_BYTES + 2];
    size_t length = strlen(name);
    FILE *file;

    text[0] = '\0';
    if (!find_file(path, why, size))
        return -1;
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            snprintf(text, FILTER_BYTES, "%s", line + length + 1);
    }
    if (file != NULL)
        fclose(file);
    if (text[0] != '\0')
        return 0;
    snprintf(why, size, "no filter is saved as '%.40s'; :save-filter NAME saves the one in force",
             name);
    return -1;
}
