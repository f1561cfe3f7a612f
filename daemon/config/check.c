#include "daemon/config/internal.h"

#include "common/log_record.h"
#include "common/macros.h"
#include "daemon/base/cgroup.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HSTS_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=;- "

enum {
    HSTS_MAX = 128,
    POOL_THREADS = 16,
    MANY_THREADS = 128, /* then memory of each is scarce */
    RING_OF_MANY_THREADS = 64 * 1024,
};

/* Parsing. */

/* The owner of the fault callback. */
struct reading {
    struct config_draft *draft;
    const struct config_entry *entry;
};

static void report_value_fault(void *owner, const struct config_fault *fault)
{
    struct reading *reading = owner;
    struct config_place place = config_entry_place(reading->entry, fault->offset, fault->length);

    config_report_error(&reading->draft->report, &place, fault->advice, "%s", fault->problem);
}

int config_draft_parse(struct config_draft *draft, const struct config_key *key,
                       const struct config_entry *entry, void *field)
{
    struct reading reading = {draft, entry};
    struct config_faults faults = {report_value_fault, &reading};

    if ((key->type == CONFIG_PREFIX ? config_entry_check_words(entry, &draft->report)
                                    : config_entry_check(entry, &draft->report)) != 0)
        return -1;
    return config_value_parse(key, entry->value, draft->base, field, &faults);
}

/* Completing. */

/* Sets FIELD of KEY to TEXT, which it owns; NULL is reported as PROBLEM. */
static void complete_text(struct config_draft *draft, enum config_key_number key,
                          const char **field, char *text, const char *advice, const char *problem)
{
    if (text == NULL) {
        config_report_error(&draft->report, &draft->set_at[key], advice, "%s", problem);
        return;
    }
    free((void *)*field);
    *field = text;
}

static void complete_paths(struct config_draft *draft)
{
    struct config *config = draft->config;
    char directory[INSTANCE_PATH_MAX], name[INSTANCE_NAME_MAX + sizeof(".sock")];

    if (config->server_run_dir[0] == '\0')
        complete_text(draft, KEY_server_run_dir, &config->server_run_dir,
                      instance_run_dir(directory, sizeof(directory)) == 0 ? strdup(directory)
                                                                          : NULL,
                      "set it to a short path", "no directory for the control socket");
    snprintf(name, sizeof(name), "%s.sock", config->server_name);
    if (config->control_socket[0] == '\0')
        complete_text(draft, KEY_control_socket, &config->control_socket,
                      config_path_join(config->server_run_dir, name), "", "out of memory");
}

/* Cuts off the '/' at the end of PATH, if there is one. */
static void cut_slash(char *path)
{
    size_t length = strlen(path);

    if (path[length - 1] == '/')
        path[length - 1] = '\0';
}

/* True if [proxy] listen names ADDRESS, with or without its https://. */
static bool names_address(const struct config_address *listen, const struct config_address *address)
{
    return strcmp(listen->text, address->text) == 0 && (!listen->tls || address->tls);
}

/* The CPUs that this process may use, by its affinity and by the limit of its control group. */
static uint64_t count_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t cpus = online > 0 ? (uint64_t)online : 1;
    uint32_t limit = cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 &&
        (uint64_t)CPU_COUNT(&allowed) < cpus)
        cpus = (uint64_t)CPU_COUNT(&allowed);
    return limit > 0 && limit < cpus ? limit : cpus;
}

uint32_t config_threads_of_model(const struct config *config, uint32_t model)
{
    uint32_t most = config->workers_max_threads - MODEL_ACCEPTORS(model);
    uint64_t threads;

    if (!config->threads_are_auto)
        return config->workers_threads;
    if (model == MODEL_EVENTS) /* the CPUs divided among the processes */
        threads = count_cpus() / config->workers_processes;
    else
        threads = model == MODEL_POOL ? POOL_THREADS : most;
    if (threads > most)
        threads = most;
    return threads > 0 ? (uint32_t)threads : 1;
}

void config_draft_complete(struct config_draft *draft)
{
    struct config *config = draft->config;

    for (size_t i = 0; i < config->server_listen.count; i++)
        for (size_t k = 0; k < config->proxy_listen.count; k++)
            if (names_address(&config->proxy_listen.item[k], &config->server_listen.item[i]))
                config->server_listen.item[i].proxy = true;
    complete_paths(draft);
    if (strlen(config->arithmetic_prefix) > 1)
        cut_slash((char *)config->arithmetic_prefix);
    if (!draft->given[KEY_log_ring] && config->workers_max_threads > MANY_THREADS)
        config->log_ring = RING_OF_MANY_THREADS;
    config->threads_are_auto = config->workers_threads == 0;
    config->workers_threads = config_threads_of_model(config, config->workers_model);
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
static uint64_t number_of_key(const struct config_draft *draft, enum config_key_number number)
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
        number_of_key(draft, lesser) <= number_of_key(draft, greater))
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

static void check_root(struct config_report *report, const struct config_place *place,
                       const char *root)
{
    struct stat status;

    if (stat(root, &status) != 0)
        config_report_error(report, place, "set root to the directory to serve", "%s: %s", root,
                            strerror(errno));
    else if (!S_ISDIR(status.st_mode))
        config_report_error(report, place, "set root to the directory to serve",
                            "%s is not a directory", root);
    else if (access(root, X_OK) != 0)
        config_report_error(report, place,
                            "the user that runs webserverd needs the right to enter it", "%s: %s",
                            root, strerror(errno));
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

static void check_acme_user(struct config_draft *draft, const struct config_system *system)
{
    const struct config *config = draft->config;
    char why[CONFIG_PROBLEM_MAX];
    bool group;

    if (!config->acme_enabled || config->acme_user[0] == '\0' || draft->faulty[KEY_acme_user] ||
        system->check_identity(config->acme_user, "", &group, why, sizeof(why)) == 0)
        return;
    config_report_error(&draft->report, &draft->set_at[KEY_acme_user],
                        "name an existing user, or leave it unset", "%s", why);
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

static void check_index(struct config_report *report, const struct config_place *place,
                        const struct config_words *index)
{
    static const char advice[] = "write file names without a path, as in index.html index.htm";

    if (index->count == 0)
        config_report_error(report, place, advice, "no index file given");
    for (size_t i = 0; i < index->count; i++) {
        const char *name = index->item[i];

        if (strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            config_report_error(report, place, advice, "'%s' is not a file name", name);
    }
}

static void check_coded_names(struct config_draft *draft)
{
    const struct config_words *names = &draft->config->files_coded_names;

    for (size_t i = 0; i < names->count && !draft->faulty[KEY_files_coded_names]; i++)
        if (strcmp(names->item[i], "br") != 0 && strcmp(names->item[i], "zst") != 0 &&
            strcmp(names->item[i], "gz") != 0)
            config_report_error(&draft->report, &draft->set_at[KEY_files_coded_names],
                                "allowed: br, zst, gz", "'%s' is not the suffix of a coding",
                                names->item[i]);
}

static void check_extensions(struct config_report *report, const struct config_place *place,
                             const struct config_words *extensions)
{
    for (size_t i = 0; i < extensions->count; i++) {
        const char *extension = extensions->item[i];

        if (extension[0] == '.' || strchr(extension, '/') != NULL)
            config_report_error(report, place,
                                "write the extension without the dot: html, not .html",
                                "'%s' is not a file name extension", extension);
    }
}

static void check_fallback(struct config_report *report, const struct config_place *place,
                           const char *path)
{
    if (path[0] != '\0' && path[strlen(path) - 1] == '/')
        config_report_error(report, place, "write the path of a file, as in /index.html",
                            "'%s' is a directory", path);
}

static void check_arithmetic(struct config_draft *draft)
{
    const char *prefix = draft->config->arithmetic_prefix;

    if (draft->faulty[KEY_arithmetic_prefix] || strlen(prefix) > 1)
        return;
    config_report_error(&draft->report, &draft->set_at[KEY_arithmetic_prefix],
                        "write a path, as in /arithmetic", "'%s' is not a valid prefix", prefix);
}

static void check_follow_into(struct config_draft *draft, const struct config_system *system)
{
    const struct config *config = draft->config;
    const struct config_words *into = &config->files_follow_into;
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
    if (config->files_symlinks == SYMLINKS_FOLLOW && system != NULL && !system->can_follow_links())
        config_report_error(
            &draft->report, &draft->set_at[KEY_files_symlinks],
            "set symlinks = inside, or use a kernel with Landlock (Linux 5.13 or newer)",
            "symlinks = follow is not safe without Landlock");
}

bool config_needs_tls(const struct config *config)
{
    for (size_t i = 0; i < config->server_listen.count; i++)
        if (config->server_listen.item[i].tls)
            return true;
    return false;
}

/* The model of the workers */

const char *config_model_conflict(const struct config *config, uint32_t model)
{
    if (model == MODEL_EVENTS)
        return NULL;
    if (config_needs_tls(config) && config->tls_keys_process)
        return "it cannot use the keys process: set tls.keys_process = off, or model = events";
    if (config_threads_of_model(config, model) >= config->workers_max_threads)
        return "its acceptor needs a place: lower workers.threads, or raise workers.max_threads";
    return NULL;
}

static void check_model(struct config_draft *draft)
{
    const char *conflict = config_model_conflict(draft->config, draft->config->workers_model);

    if (conflict == NULL || draft->faulty[KEY_workers_model] ||
        draft->faulty[KEY_workers_threads] || draft->faulty[KEY_workers_max_threads] ||
        draft->faulty[KEY_server_listen] || draft->faulty[KEY_tls_keys_process])
        return;
    config_report_error(&draft->report, &draft->set_at[KEY_workers_model], "", "model = %s: %s",
                        worker_model_names[draft->config->workers_model], conflict);
}

/* "max-age=SECONDS", and perhaps directives after a ';' (RFC 6797 section 6.1). */
static void check_hsts(struct config_report *report, const struct config_place *place,
                       const char *value)
{
    static const char start[] = "max-age=";
    size_t digits = 0, after;

    if (value[0] == '\0')
        return;
    if (strncmp(value, start, strlen(start)) == 0)
        digits = strspn(value + strlen(start), "0123456789");
    after = strlen(start) + digits;
    if (digits == 0 || (value[after] != '\0' && value[after] != ';' && value[after] != ' ') ||
        strlen(value) > HSTS_MAX || strspn(value, HSTS_CHARACTERS) != strlen(value))
        config_report_error(report, place,
                            "examples: max-age=31536000, max-age=31536000; includeSubDomains",
                            "'%s' is not a value of Strict-Transport-Security", value);
}

static void check_keys(struct config_report *report, const struct config_place *place,
                       const char *section, const struct config_words *certificates,
                       const struct config_words *keys)
{
    if (keys->count > 0 && keys->count != certificates->count)
        config_report_error(report, place, "list one key for each certificate, in the same order",
                            "[%s] has %zu certificates and %zu keys", section, certificates->count,
                            keys->count);
}

static const char *const log_fields[] = {"coding", "request_id"};

bool config_logs_field(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->log_fields.count && config->log_format == LOG_FORMAT_JSON; i++)
        if (strcmp(config->log_fields.item[i], name) == 0)
            return true;
    return false;
}

static void check_log_fields(struct config_draft *draft)
{
    const struct config_words *fields = &draft->config->log_fields;

    for (size_t i = 0; i < fields->count && !draft->faulty[KEY_log_fields]; i++) {
        size_t known = 0;

        while (known < ARRAY_LENGTH(log_fields) && strcmp(fields->item[i], log_fields[known]) != 0)
            known++;
        if (known == ARRAY_LENGTH(log_fields))
            config_report_error(
                &draft->report, &draft->set_at[KEY_log_fields],
                "valid: coding request_id; the others, such as agent (User-Agent), are in "
                "all lines",
                "'%.64s' is not a field of the log", fields->item[i]);
    }
}

bool config_has_certificate(const struct config *config)
{
    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].certificate.count > 0)
            return true;
    return config->tls_certificate.count > 0;
}

static void check_tls(struct config_draft *draft)
{
    const struct config *config = draft->config;

    if (draft->faulty[KEY_server_listen] || draft->faulty[KEY_tls_certificate] ||
        draft->faulty[KEY_tls_key])
        return;
    if (config_needs_tls(config) && !config_has_certificate(config) && !config->acme_enabled)
        config_report_error(&draft->report, &draft->set_at[KEY_server_listen],
                            "set [tls] certificate and key, or [acme] enabled = on",
                            "https:// needs a certificate");
    check_keys(&draft->report, &draft->set_at[KEY_tls_key], "tls", &config->tls_certificate,
               &config->tls_key);
}

/* A scraper connects by TCP; a program that adds TLS stands in front. */
static void check_metrics_addresses(struct config_draft *draft)
{
    const struct config_addresses *listen = &draft->config->metrics_listen;
    const char *names = draft->config->metrics_hosts;
    struct span name = span_of(names), rest;

    for (size_t i = 0; i < listen->count && !draft->faulty[KEY_metrics_listen]; i++)
        if (listen->item[i].tls || listen->item[i].address.ss_family == AF_UNIX)
            config_report_error(&draft->report, &draft->set_at[KEY_metrics_listen],
                                "write an address and a port, as in 127.0.0.1:9180",
                                "metrics are not served over TLS or on a UNIX socket");
    for (; name.length > 0; name = rest) {
        config_section_split(&name, &rest);
        if (!config_is_host_name(name) || name.start[0] == '*')
            config_report_error(&draft->report, &draft->set_at[KEY_metrics_hosts],
                                "write names without ports, separated by blanks: "
                                "metrics.example.org monitor",
                                "'%.*s' is not a host name", (int)name.length, name.start);
    }
}

static void check_metrics_users(struct config_draft *draft)
{
    struct config *config = draft->config;
    const struct config_place *place = &draft->set_at[KEY_metrics_users];
    bool realm_is_default =
        strcmp(config->metrics_realm, config_keys[KEY_metrics_realm].fallback) == 0;

    if (draft->faulty[KEY_metrics_users] || draft->faulty[KEY_metrics_realm] ||
        !config_realm_check(config->metrics_realm, &draft->set_at[KEY_metrics_realm],
                            &draft->report))
        return;
    if (config->metrics_users[0] == '\0') {
        if (!realm_is_default)
            config_report_error(&draft->report, &draft->set_at[KEY_metrics_realm],
                                "set metrics.users to a file made by htpasswd -B",
                                "realm '%s' has no users", config->metrics_realm);
        return;
    }
    if (config_users_load(config->metrics_users, &config->metrics_logins, place, &draft->report) ==
        0)
        config_users_check(config, &config->metrics_logins, place, &draft->report);
}

static void check_proxy(struct config_draft *draft)
{
    const struct config *config = draft->config;
    const struct config_addresses *listen = &config->proxy_listen;

    if (draft->faulty[KEY_proxy_listen] || draft->faulty[KEY_server_listen])
        return;
    for (size_t i = 0; i < listen->count; i++) {
        size_t k = 0;

        while (k < config->server_listen.count &&
               !names_address(&listen->item[i], &config->server_listen.item[k]))
            k++;
        if (k == config->server_listen.count)
            config_report_error(&draft->report, &draft->set_at[KEY_proxy_listen],
                                "add it to [server] listen, or write it as there",
                                "[server] listen has no address '%s%s'",
                                listen->item[i].tls ? "https://" : "", listen->item[i].text);
    }
    if (config->proxy_trusted.set.count > 0 || draft->faulty[KEY_proxy_trusted])
        return;
    if (config->proxy_field != PROXY_FIELD_NONE)
        config_report_error(&draft->report, &draft->set_at[KEY_proxy_field],
                            "set [proxy] trusted to the addresses of the proxies",
                            "no proxy is trusted, so the field would have no effect");
    if (listen->count > 0)
        config_report_error(&draft->report, &draft->set_at[KEY_proxy_listen],
                            "set [proxy] trusted to the addresses of the proxies",
                            "no proxy is trusted, so every connection would be closed");
}

/* Only [log] access may block serving threads, so a host has no target whose reader may be slow. */
static void check_host_log(struct config_report *report, const struct config_place *place,
                           const char *value)
{
    if (log_target_is_word(value) && strcmp(value, "off") != 0)
        config_report_error(report, place,
                            "write a file or off; syslog:, journald and - are for [log] access",
                            "the access log of a [host] cannot be '%s'", value);
}

static void check_https(struct config_draft *draft, const struct config_place *place,
                        uint32_t https)
{
    if (https == HTTPS_REDIRECT && !draft->faulty[KEY_server_listen] &&
        !config_needs_tls(draft->config))
        config_report_error(&draft->report, place, "list both, as in listen = *:80 https://*:443",
                            "https = redirect needs an address with https://");
}

/* The values that a [host] may set, too. */
static void check_site(struct config_draft *draft)
{
    const struct config *config = draft->config;
    struct config_report *report = &draft->report;

    if (!draft->faulty[KEY_server_root])
        check_root(report, &draft->set_at[KEY_server_root], config->server_root);
    if (!draft->faulty[KEY_server_index])
        check_index(report, &draft->set_at[KEY_server_index], &config->server_index);
    if (!draft->faulty[KEY_files_extensions])
        check_extensions(report, &draft->set_at[KEY_files_extensions], &config->files_extensions);
    if (!draft->faulty[KEY_files_fallback])
        check_fallback(report, &draft->set_at[KEY_files_fallback], config->files_fallback);
    if (!draft->faulty[KEY_tls_hsts])
        check_hsts(report, &draft->set_at[KEY_tls_hsts], config->tls_hsts);
    check_https(draft, &draft->set_at[KEY_server_https], config->server_https);
    check_coded_names(draft);
}

static void check_host(struct config_draft *draft, size_t number)
{
    const struct config_host *host = &draft->config->hosts[number];
    const struct config_place *place = draft->hosts[number].set_at;
    struct config_report *report = &draft->report;

    if (host->given[HOST_KEY_root])
        check_root(report, &place[HOST_KEY_root], host->root);
    if (host->given[HOST_KEY_index])
        check_index(report, &place[HOST_KEY_index], &host->index);
    if (host->given[HOST_KEY_extensions])
        check_extensions(report, &place[HOST_KEY_extensions], &host->extensions);
    if (host->given[HOST_KEY_fallback])
        check_fallback(report, &place[HOST_KEY_fallback], host->fallback);
    if (host->given[HOST_KEY_hsts])
        check_hsts(report, &place[HOST_KEY_hsts], host->hsts);
    if (host->given[HOST_KEY_https])
        check_https(draft, &place[HOST_KEY_https], host->https);
    if (host->given[HOST_KEY_access_log])
        check_host_log(report, &place[HOST_KEY_access_log], host->access_log);
    if (host->given[HOST_KEY_key])
        check_keys(report, &place[HOST_KEY_key], "host", &host->certificate, &host->key);
}

void config_draft_check(struct config_draft *draft, const struct config_system *system)
{
    check_site(draft);
    for (size_t i = 0; i < draft->config->host_count; i++)
        check_host(draft, i);
    /* Workers open files by their names in /proc/self/fd (daemon/content/files.c). */
    if (access("/proc/self/fd", X_OK) != 0)
        config_report_error(&draft->report, &draft->set_at[KEY_server_root], "mount /proc",
                            "files cannot be opened without /proc");
    if (system != NULL) {
        check_identity(draft, system);
        check_acme_user(draft, system);
    }
    if (system != NULL && !draft->faulty[KEY_server_jail] &&
        draft->config->server_jail == JAIL_STRICT && !system->sandbox_is_complete())
        config_report_error(&draft->report, &draft->set_at[KEY_server_jail],
                            "set jail = on, or use Linux 6.2 or newer with Landlock and seccomp",
                            "jail = strict is not possible: webserverd -V shows what is missing");
    check_order(draft, KEY_workers_processes, KEY_workers_max_processes);
    check_order(draft, KEY_workers_threads, KEY_workers_max_threads);
    check_model(draft);
    check_order(draft, KEY_limits_request_line, KEY_limits_header_bytes);
    check_order(draft, KEY_cache_max_object, KEY_cache_size);
    check_follow_into(draft, system);
    check_arithmetic(draft);
    check_tls(draft);
    check_proxy(draft);
    check_metrics_addresses(draft);
    check_log_fields(draft);
    check_metrics_users(draft);
    config_header_check(draft->config, &draft->report);
    config_access_check(draft->config, &draft->report);
    config_cors_check(draft->config, &draft->report);
    config_redirects_check(draft->config, &draft->report);
    check_socket(draft);
}
