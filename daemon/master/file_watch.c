/*
 * The files that others replace while the server runs: certificates with their keys, users files,
 * and with [server] watch the configuration. Once a second the master compares them with those in
 * use. A file that changes between two looks may be incomplete: the master waits.
 */
#include "daemon/master/internal.h"

#include "daemon/base/hash.h"
#include "daemon/config/rules.h"

#include <sys/stat.h>

/* Of the files looked at so far; 0: one of them is missing. */
static uint64_t add_file(uint64_t state, const char *path)
{
    struct stat file;
    uint64_t words[6];

    if (state == 0 || stat(path, &file) != 0)
        return 0;
    words[0] = file.st_dev;
    words[1] = file.st_ino;
    words[2] = (uint64_t)file.st_size;
    words[3] = (uint64_t)file.st_mtim.tv_sec;
    words[4] = (uint64_t)file.st_mtim.tv_nsec;
    words[5] = file.st_mode;
    return hash_bytes((const char *)words, sizeof(words), state) | 1;
}

static uint64_t add_files(uint64_t state, const struct config_words *files)
{
    for (size_t i = 0; i < files->count; i++)
        state = add_file(state, files->item[i]);
    return state;
}

static uint64_t state_of_certificates(const struct config *config)
{
    uint64_t state = add_files(add_files(1, &config->tls_certificate), &config->tls_key);

    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].given[HOST_KEY_certificate])
            state =
                add_files(add_files(state, &config->hosts[i].certificate), &config->hosts[i].key);
    return state;
}

static uint64_t state_of_users(const struct config *config)
{
    uint64_t state = 1;

    for (size_t i = 0; i < config->access_count; i++)
        if (config->access[i].users.file != NULL)
            state = add_file(state, config->access[i].users.file);
    if (config->metrics_logins.file != NULL)
        state = add_file(state, config->metrics_logins.file);
    return state;
}

static uint64_t state_of_config(const struct master *master)
{
    const struct config *config = master->config;
    uint64_t state = master->options->file != NULL;

    for (size_t i = 0; i < config->file_count; i++)
        state = add_file(state, config->sources.item[i]);
    return state;
}

void file_watch_begin(struct master *master)
{
    master->config_file.in_use = state_of_config(master);
    master->certificate_files.in_use = state_of_certificates(master->config);
    master->users_files.in_use = state_of_users(master->config);
}

/* True if the files are others than those in use, and were the same a second ago. */
static bool have_changed(struct file_watch *watch, uint64_t now)
{
    bool changed = now != 0 && now != watch->in_use && now == watch->last;

    watch->last = now;
    return changed;
}

/* An attempt counts even if it fails: it is refused until the files change again. */
void file_watch_look(struct master *master)
{
    uint64_t config = state_of_config(master), users = state_of_users(master->config),
             certificates = state_of_certificates(master->config);

    if (master->reload.previous != NULL || lifecycle_is_stopping(master))
        return;
    if (master->config->server_watch && have_changed(&master->config_file, config)) {
        master->config_file.in_use = config;
        reload_request_by(master, "as its file is another one");
        return;
    }
    if (have_changed(&master->users_files, users) && reload_renew(master, RENEWAL_USERS))
        master->users_files.in_use = users;
    if (master->certificates.set != NULL &&
        have_changed(&master->certificate_files, certificates) && certificates_renew(master))
        master->certificate_files.in_use = certificates;
}
