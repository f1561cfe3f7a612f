#include "daemon/config/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INCLUDE_DEPTH_MAX = 16 };

struct config_file {
    struct config_file *next;       /* one that was read before it */
    const struct config_file *from; /* which includes it; NULL: none */
    const char *name;
    char *text, *directory; /* owned */
    size_t depth, length;
    dev_t device;
    ino_t inode;
};

const char *config_source_name(struct config *config, const char *name)
{
    struct config_words *sources = &config->sources;
    char **more, *copy;

    more = realloc(sources->item, (sources->count + 1) * sizeof(*more));
    if (more == NULL)
        return NULL;
    sources->item = more;
    copy = strdup(name);
    if (copy != NULL)
        more[sources->count++] = copy;
    return copy;
}

char *config_file_directory(const char *file, const char *working)
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

/* A file called NAME, which the one that is read includes. NULL: out of memory. */
static struct config_file *new_config_file(struct config_draft *draft, const char *name)
{
    struct config_file *file = calloc(1, sizeof(*file));

    if (file == NULL)
        return NULL;
    file->name = config_source_name(draft->config, name);
    file->directory = config_file_directory(name, draft->working);
    file->from = draft->file;
    file->depth = draft->file != NULL ? draft->file->depth + 1 : 0;
    file->next = draft->files;
    draft->files = file;
    return file->name != NULL && file->directory != NULL ? file : NULL;
}

void config_files_free(struct config_draft *draft)
{
    struct config_file *next;

    for (struct config_file *file = draft->files; file != NULL; file = next) {
        next = file->next;
        free(file->text);
        free(file->directory);
        free(file);
    }
    draft->files = NULL;
}

/* Opens and reads FILE. Returns 0, or -1 with errno. */
static int read_config_text(struct config_file *file, size_t max)
{
    int fd =
        open(file->name, O_RDONLY | O_CLOEXEC | O_NOCTTY | (file->from != NULL ? O_NONBLOCK : 0));
    struct stat status;
    int error;

    if (fd < 0)
        return -1;
    errno = 0;
    if (fstat(fd, &status) == 0) {
        file->device = status.st_dev;
        file->inode = status.st_ino;
        /* -f may name a pipe */
        if (file->from != NULL && !S_ISREG(status.st_mode))
            errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        else
            file->text = config_text_read(fd, max, &file->length);
    }
    error = errno;
    close(fd);
    errno = error;
    return file->text != NULL ? 0 : -1;
}

static const char *why_unreadable(int error)
{
    return error == EISDIR   ? "it is a directory"
           : error == EFBIG  ? "the file is larger than 16 MiB"
           : error == EINVAL ? "it is not a regular file"
                             : strerror(error);
}

/* Including */

static void add_entry_of_file(void *owner, const struct config_entry *entry);

/* Reads the entries of TEXT, which is that of FILE. */
static void read_config_entries(struct config_draft *draft, struct config_file *file,
                                const char *text, size_t length)
{
    struct config_file *outer = draft->file;
    const char *base = draft->base;

    draft->file = file;
    draft->base = file->directory;
    config_read(file->name, text, length, &draft->report, add_entry_of_file, draft);
    draft->file = outer;
    draft->base = base;
}

static bool is_being_read(const struct config_file *file)
{
    for (const struct config_file *from = file->from; from != NULL; from = from->from)
        if (from->device == file->device && from->inode == file->inode)
            return true;
    return false;
}

static void include_file(struct config_draft *draft, const char *name,
                         const struct config_place *place)
{
    struct config_file *file = new_config_file(draft, name);

    if (file == NULL)
        config_report_error(&draft->report, place, "", "out of memory");
    else if (file->depth > INCLUDE_DEPTH_MAX)
        config_report_error(&draft->report, place, "include it from another file",
                            "%s: files include each other more than %d deep", name,
                            INCLUDE_DEPTH_MAX);
    else if (read_config_text(file, CONFIG_TEXT_MAX - draft->file_bytes) != 0)
        config_report_error(&draft->report, place,
                            errno == EISDIR  ? "name the files in it, as in conf.d/*.ini"
                            : errno == EFBIG ? "all files together have at most 16 MiB"
                                             : "the user that starts webserverd must be able to "
                                               "read it",
                            "cannot include %s: %s", name, why_unreadable(errno));
    else if (is_being_read(file))
        config_report_error(&draft->report, place, "remove the line, or name other files",
                            "%s includes itself", name);
    else {
        draft->file_bytes += file->length;
        read_config_entries(draft, file, file->text, file->length);
    }
}

/* PATTERN, below the directory of the file that is read. NULL: out of memory. */
static char *pattern_of_entry(const struct config_draft *draft, const char *pattern)
{
    const char *name = draft->file->name, *slash = strrchr(name, '/');
    char *joined = malloc(2 * strlen(name) + strlen(pattern) + 1), *end = joined;

    if (joined == NULL)
        return NULL;
    for (; pattern[0] != '/' && slash != NULL && name <= slash; name++) {
        if (strchr("*?[\\", *name) != NULL)
            *end++ = '\\';
        *end++ = *name;
    }
    strcpy(end, pattern);
    return joined;
}

static int stop_unless_missing(const char *path, int error)
{
    (void)path;
    errno = error;
    return error != ENOENT && error != ENOTDIR;
}

/* A file that is put into the directory of PATTERN changes the configuration. */
static void note_directory(struct config_draft *draft, const char *pattern)
{
    const char *slash = strrchr(pattern, '/');
    char *name = slash != NULL ? strndup(pattern, (size_t)(slash - pattern)) : strdup(".");
    char *directory =
        name != NULL && name[0] != '/' ? config_path_join(draft->file->directory, name) : name;

    if (directory != NULL && access(directory, F_OK) == 0)
        config_source_name(draft->config, directory);
    if (directory != name)
        free(directory);
    free(name);
}

static void include_files(struct config_draft *draft, const struct config_entry *entry)
{
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));
    char *pattern = pattern_of_entry(draft, entry->value);
    bool is_pattern = strpbrk(entry->value, "*?[") != NULL;
    glob_t found = {.gl_pathc = 0};
    int status = pattern != NULL ? glob(pattern, 0, stop_unless_missing, &found) : GLOB_NOSPACE;

    if (entry->value[0] == '\0')
        config_report_error(&draft->report, &place, "name files, as in include = conf.d/*.ini",
                            "no path given");
    else if (status == GLOB_NOSPACE)
        config_report_error(&draft->report, &place, "", "out of memory");
    else if (status == GLOB_ABORTED)
        config_report_error(&draft->report, &place,
                            "the user that starts webserverd must be able to read it",
                            "cannot read the directory: %s", strerror(errno));
    else if (status == GLOB_NOMATCH && !is_pattern)
        config_report_error(&draft->report, &place,
                            "a pattern such as conf.d/*.ini may match no file",
                            "cannot include %s: %s", pattern, strerror(ENOENT));
    if (is_pattern)
        note_directory(draft, entry->value);
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++)
        include_file(draft, found.gl_pathv[i], &place);
    globfree(&found);
    free(pattern);
}

static void add_entry_of_file(void *owner, const struct config_entry *entry)
{
    struct config_draft *draft = owner;

    if (entry->section != NULL)
        config_entry_add(draft, entry);
    else if (config_entry_check(entry, &draft->report) == 0)
        include_files(draft, entry);
}

bool config_file_read(struct config_draft *draft, const struct config_sources *sources)
{
    struct config_file *file = new_config_file(draft, sources->file);
    const struct config_place place = {.source = sources->file};
    bool given = sources->text != NULL;

    if (file == NULL) {
        config_report_error(&draft->report, &place, "", "out of memory");
        return false;
    }
    if (!given && read_config_text(file, CONFIG_TEXT_MAX) != 0) {
        config_report_error(&draft->report, &place,
                            errno == EISDIR  ? "name a file in it"
                            : errno == EFBIG ? "is this the right file?"
                                             : "name a readable file with -f FILE",
                            "%s", why_unreadable(errno));
        return false;
    }
    draft->file_bytes = given ? sources->length : file->length;
    read_config_entries(draft, file, given ? sources->text : file->text, draft->file_bytes);
    return true;
}
