#include "daemon/config/check.h"

#include "common/macros.h"
#include "daemon/config/headers.h"
#include "daemon/config/lists.h"
#include "daemon/config/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Completing. */

static void replace_text(const char **field, char *text)
{
    free((void *)*field);
    *field = text;
}

static void complete_run_dir(struct config_draft *draft)
{
    struct config *config = draft->config;
    char directory[INSTANCE_PATH_MAX], *copy = NULL;

    if (config->server_run_dir[0] != '\0')
        return;
    if (instance_run_dir(directory, sizeof(directory)) == 0)
        copy = strdup(directory);
    if (copy != NULL)
        replace_text(&config->server_run_dir, copy);
    else
        config_report_error(&draft->report, &draft->set_at[KEY_server_run_dir],
                            "set it to a short path", "no directory for the control socket");
}

static void complete_socket(struct config_draft *draft)
{
    struct config *config = draft->config;
    char name[INSTANCE_NAME_MAX + sizeof(".sock")], *path;

    if (config->control_socket[0] != '\0')
        return;
    snprintf(name, sizeof(name), "%s.sock", config->server_name);
    path = config_path_join(config->server_run_dir, name);
    if (path != NULL)
        replace_text(&config->control_socket, path);
    else
        config_report_error(&draft->report, &draft->set_at[KEY_control_socket], "",
                            "out of memory");
}

/* auto: the cores divided among the processes, at most max_threads in total, at least 1 each. */
static void complete_threads(struct config *config)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t cores = online > 0 ? (uint64_t)online : 1;
    uint64_t threads = cores < config->workers_max_threads ? cores : config->workers_max_threads;
    uint64_t max = config_value_max(&config_keys[KEY_workers_threads]);

    if (config->workers_threads != 0)
        return;
    threads /= config->workers_processes;
    if (threads > max)
        threads = max;
    config->workers_threads = threads > 0 ? (uint32_t)threads : 1;
}

void config_draft_complete(struct config_draft *draft)
{
    complete_run_dir(draft);
    complete_socket(draft);
    complete_threads(draft->config);
}

/* Checking. */

/* The conflicting key to report: the first of COUNT that is not a default, else the first. */
static const struct config_place *key_at_fault(const struct config_draft *draft,
                                               const enum config_key_number *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (draft->given[keys[i]])
            return &draft->set_at[keys[i]];
    return &draft->set_at[keys[0]];
}

/* The value of a key of any numeric type. */
static uint64_t number_of(const struct config_draft *draft, enum config_key_number number)
{
    const struct config_key *key = &config_keys[number];
    const void *field = config_draft_field(draft, key);

    return key->type == CONFIG_SIZE ? *(const uint64_t *)field : *(const uint32_t *)field;
}

static void check_order(struct config_draft *draft, enum config_key_number lesser,
                        enum config_key_number greater)
{
    const enum config_key_number keys[] = {lesser, greater};
    const struct config_key *low = &config_keys[lesser], *high = &config_keys[greater];
    char *low_text, *high_text, advice[CONFIG_ADVICE_MAX];

    if (draft->faulty[lesser] || draft->faulty[greater] ||
        number_of(draft, lesser) <= number_of(draft, greater))
        return;
    low_text = config_value_text(low, config_draft_field(draft, low));
    high_text = config_value_text(high, config_draft_field(draft, high));
    snprintf(advice, sizeof(advice), "lower %s or raise %s", low->name, high->name);
    config_report_error(&draft->report, key_at_fault(draft, keys, ARRAY_LENGTH(keys)), advice,
                        "[%s] %s = %s is more than %s = %s", low->section, low->name,
                        low_text == NULL ? "?" : low_text, high->name,
                        high_text == NULL ? "?" : high_text);
    free(low_text);
    free(high_text);
}

static void check_threads(struct config_draft *draft)
{
    static const enum config_key_number keys[] = {KEY_workers_threads, KEY_workers_processes,
                                                  KEY_workers_max_threads};
    const struct config *config = draft->config;
    char advice[CONFIG_ADVICE_MAX], allowed[64];

    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (draft->faulty[keys[i]])
            return;
    if ((uint64_t)config->workers_processes * config->workers_threads <=
        config->workers_max_threads)
        return;
    config_value_allowed(&config_keys[KEY_workers_max_threads], allowed, sizeof(allowed));
    snprintf(advice, sizeof(advice),
             "lower processes or threads, or raise max_threads (allowed: %s)", allowed);
    config_report_error(&draft->report, key_at_fault(draft, keys, ARRAY_LENGTH(keys)), advice,
                        "[workers] processes = %u with threads = %u each are more than "
                        "max_threads = %u",
                        config->workers_processes, config->workers_threads,
                        config->workers_max_threads);
}

static void check_root(struct config_draft *draft)
{
    const char *root = draft->config->server_root;
    const struct config_place *place = &draft->set_at[KEY_server_root];
    struct stat status;

    if (draft->faulty[KEY_server_root])
        return;
    if (stat(root, &status) != 0)
        config_report_error(&draft->report, place, "set [server] root to the directory to serve",
                            "%s: %s", root, strerror(errno));
    else if (!S_ISDIR(status.st_mode))
        config_report_error(&draft->report, place, "set [server] root to the directory to serve",
                            "%s is not a directory", root);
    else if (access(root, X_OK) != 0)
        config_report_error(&draft->report, place,
                            "the user that runs webserverd needs the right "
                            "to enter it",
                            "%s: %s", root, strerror(errno));
}

static void check_identity(struct config_draft *draft, const struct config_system *system)
{
    const struct config *config = draft->config;
    char why[CONFIG_PROBLEM_MAX];
    bool group;

    if (draft->faulty[KEY_server_user] || draft->faulty[KEY_server_group] ||
        system->check_identity(config->server_user, config->server_group, &group, why,
                               sizeof(why)) == 0)
        return;
    config_report_error(&draft->report, &draft->set_at[group ? KEY_server_group : KEY_server_user],
                        group ? "name an existing group, or leave it unset"
                              : "name an existing user, or leave it unset",
                        "%s", why);
}

static void check_socket(struct config_draft *draft)
{
    static const enum config_key_number keys[] = {KEY_control_socket, KEY_server_run_dir,
                                                  KEY_server_name};
    size_t length = strlen(draft->config->control_socket);

    if (length < INSTANCE_PATH_MAX)
        return;
    config_report_error(&draft->report, key_at_fault(draft, keys, ARRAY_LENGTH(keys)),
                        "set [server] run_dir or [control] socket to a shorter path",
                        "the path of the control socket has %zu bytes (at most %d)", length,
                        INSTANCE_PATH_MAX - 1);
}

static void check_index(struct config_draft *draft)
{
    const char *index = draft->config->server_index;

    if (draft->faulty[KEY_server_index])
        return;
    if (index[0] == '\0' || strchr(index, '/') != NULL || strcmp(index, ".") == 0 ||
        strcmp(index, "..") == 0)
        config_report_error(&draft->report, &draft->set_at[KEY_server_index],
                            "write a file name without a path, as in index.html",
                            "'%s' is not a file name", index);
}

/* Checks for a path below the document root, or an empty value. */
static void check_root_path(struct config_draft *draft, enum config_key_number number,
                            const char *advice)
{
    const char *path = *(const char **)config_draft_field(draft, &config_keys[number]);

    if (!draft->faulty[number] && path[0] != '\0' && path[0] != '/')
        config_report_error(&draft->report, &draft->set_at[number], advice,
                            "'%s' does not begin with '/'", path);
}

static void check_prefix(struct config_draft *draft)
{
    const char *prefix = draft->config->arithmetic_prefix;
    size_t length = strlen(prefix);

    if (draft->faulty[KEY_arithmetic_prefix] ||
        (length > 1 && prefix[0] == '/' && prefix[length - 1] != '/' &&
         strstr(prefix, "//") == NULL))
        return;
    config_report_error(&draft->report, &draft->set_at[KEY_arithmetic_prefix],
                        "write a path without a trailing slash, as in /arithmetic",
                        "'%s' is not a valid prefix", prefix);
}

static void check_follow_into(struct config_draft *draft, const struct config_system *system)
{
    const struct config *config = draft->config;
    const struct config_paths *into = &config->files_follow_into;
    const struct config_place *place = &draft->set_at[KEY_files_follow_into];
    struct stat status;

    if (draft->faulty[KEY_files_follow_into] || draft->faulty[KEY_files_symlinks])
        return;
    if (into->count > 0 && config->files_symlinks != SYMLINKS_FOLLOW)
        config_report_error(&draft->report, place, "set symlinks = follow, or remove the line",
                            "follow_into has no effect without symlinks = follow");
    for (size_t i = 0; i < into->count; i++) {
        if (stat(into->item[i], &status) != 0)
            config_report_error(&draft->report, place, "name existing directories", "%s: %s",
                                into->item[i], strerror(errno));
        else if (!S_ISDIR(status.st_mode))
            config_report_error(&draft->report, place, "name directories", "%s is not a directory",
                                into->item[i]);
    }
    if (config->files_symlinks == SYMLINKS_FOLLOW && access("/proc/self/fd", X_OK) != 0)
        config_report_error(&draft->report, &draft->set_at[KEY_files_symlinks],
                            "mount /proc, or set symlinks = inside",
                            "symlinks = follow needs /proc");
    else if (config->files_symlinks == SYMLINKS_FOLLOW && system != NULL &&
             !system->can_follow_links())
        config_report_error(
            &draft->report, &draft->set_at[KEY_files_symlinks],
            "set symlinks = inside, or use a kernel with Landlock (Linux 5.13 or newer)",
            "symlinks = follow is not safe without Landlock");
}

void config_draft_check(struct config_draft *draft, const struct config_system *system)
{
    check_root(draft);
    if (system != NULL)
        check_identity(draft, system);
    check_index(draft);
    check_order(draft, KEY_workers_processes, KEY_workers_max_processes);
    check_threads(draft);
    check_order(draft, KEY_limits_request_line, KEY_limits_header_bytes);
    check_order(draft, KEY_cache_max_object, KEY_cache_size);
    check_root_path(draft, KEY_files_error_pages, "write it from the document root, as in /errors");
    check_root_path(draft, KEY_files_fallback,
                    "write it from the document root, as in /index.html");
    check_follow_into(draft, system);
    check_prefix(draft);
    config_header_check(draft->config, &draft->report);
    check_socket(draft);
}
