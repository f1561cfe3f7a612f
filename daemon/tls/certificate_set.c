#include "daemon/tls/certificate_set.h"

#include "common/macros.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/messages.h"
#include "daemon/config/acme.h"
#include "daemon/tls/checked_certificate.h"
#include "daemon/tls/confined.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY_S = 86400, CERTIFICATE_TEXT_BYTES = 400 };

struct set_member {
    struct tls_description description; /* of the next three */
    char issuer[CERTIFICATE_ISSUER_BYTES];
    char *names; /* one after the other, each with its NUL */
    char **name;
    uint32_t end_reports; /* number of expiry_days[] that were logged */
    bool early_reported;  /* that it is not valid yet */
};

/*
 * The files have, for each member, its chain in the file of the certificates, and its key in that of
 * the keys, or, without a keys process, after the chain. Each is after its length (uint32_t).
 */
struct certificate_set {
    uint32_t references;
    uint32_t number;
    bool tls12;       /* besides TLS 1.3 */
    int certificates; /* files in memory */
    int keys;         /* -1: the workers have them */
    uint32_t count;
    struct set_member member[]; /* ordered as in the configuration; the first one is the default */
};

/* What a confined child has checked */

static bool append_part(int to, int from, off_t *at, uint32_t length)
{
    off_t end = *at + (off_t)length;

    if (write(to, &length, sizeof(length)) != (ssize_t)sizeof(length))
        return false;
    while (*at < end)
        if (sendfile(to, from, at, (size_t)(end - *at)) <= 0)
            return false;
    return true;
}

static bool read_names(struct set_member *member, int file, off_t at, uint32_t bytes)
{
    size_t count = 0;
    char *next;

    member->names = calloc(1, (size_t)bytes + 1);
    if (member->names == NULL || pread(file, member->names, bytes, at) != (ssize_t)bytes)
        return false;
    for (uint32_t i = 0; i < bytes; i++)
        count += member->names[i] == '\0';
    next = member->names;
    member->name = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; i < count && member->name != NULL; i++, next += strlen(next) + 1)
        member->name[i] = next;
    member->description.name = member->name;
    member->description.name_count = member->name != NULL ? count : 0;
    return member->name != NULL;
}

/* 0: not valid. X.509 has years up to 9999. */
static int64_t possible_time(int64_t wall_s)
{
    return wall_s >= 0 && wall_s < (int64_t)1 << 38 ? wall_s : 0;
}

/* The begin of FILE, which may be anything; false if the parts do not fill it. */
static bool read_head(int file, struct checked_certificate *head)
{
    struct stat status;

    return fstat(file, &status) == 0 && pread(file, head, sizeof(*head), 0) == sizeof(*head) &&
           status.st_size ==
               (off_t)sizeof(*head) + head->chain_bytes + head->key_bytes + head->names_bytes;
}

static bool add_member(struct certificate_set *set, int file,
                       const struct checked_certificate *head)
{
    struct set_member *member = &set->member[set->count++];
    off_t at = sizeof(*head);

    memcpy(member->issuer, head->issuer, sizeof(member->issuer) - 1);
    member->description =
        (struct tls_description){.issuer = member->issuer,
                                 .not_before_s = possible_time(head->not_before_s),
                                 .not_after_s = possible_time(head->not_after_s)};
    return append_part(set->certificates, file, &at, head->chain_bytes) &&
           append_part(set->keys >= 0 ? set->keys : set->certificates, file, &at,
                       head->key_bytes) &&
           read_names(member, file, at, head->names_bytes);
}

/* Loading: one certificate after the other */

/* Where a certificate is. Borrowed from the configuration. */
struct certificate_place {
    const char *certificate, *key;
    const char *managed; /* the names of a certificate of [acme], instead of both */
};

struct certificate_loading {
    const struct config *config; /* borrowed */
    int directory;               /* -1: none */
    struct certificate_set *set;
    struct certificate_check check;          /* of the next certificate */
    char path[PATH_MAX], base[NAME_MAX + 1]; /* of a managed one */
    bool making;                             /* a self-signed one in its place */
    struct confined child;
    size_t count;
    struct certificate_place place[];
};

static size_t count_places(const struct config *config, bool managed)
{
    size_t count = config->tls_certificate.count + (managed ? config->acme_names.count : 0);

    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].given[HOST_KEY_certificate])
            count += config->hosts[i].certificate.count;
    return count;
}

/* Without KEYS, each is in the file of its certificate. */
static void add_places(struct certificate_loading *loading, const struct config_words *files,
                       const struct config_words *keys)
{
    for (size_t i = 0; i < files->count; i++)
        loading->place[loading->count++] = (struct certificate_place){
            .certificate = files->item[i], .key = keys->count > 0 ? keys->item[i] : files->item[i]};
}

/* Those of [tls] first: the first one is the default. */
static void list_places(struct certificate_loading *loading)
{
    const struct config *config = loading->config;

    add_places(loading, &config->tls_certificate, &config->tls_key);
    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].given[HOST_KEY_certificate])
            add_places(loading, &config->hosts[i].certificate, &config->hosts[i].key);
    for (size_t i = 0; loading->directory >= 0 && i < config->acme_names.count; i++)
        loading->place[loading->count++].managed = config->acme_names.item[i];
}

/* Returns a descriptor of the regular file PATH, or -1 with WHY. */
static int open_given_file(const char *path, char *why, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size <= CERTIFICATE_FILE_BYTES_MAX)
        return fd;
    snprintf(why, size, "[tls] certificate: %s: %s%s", path,
             fd < 0                     ? strerror(errno)
             : !S_ISREG(status.st_mode) ? "not a regular file"
                                        : strerror(EFBIG),
             fd < 0 && errno == EACCES ? " (for a service: LoadCredential=, or a group that may "
                                         "read it, by SupplementaryGroups=)"
                                       : "");
    if (fd >= 0)
        close(fd);
    return -1;
}

static void close_files(struct certificate_check *check)
{
    int *all[] = {&check->certificate_fd, &check->key_fd, &check->out};

    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        if (*all[i] >= 0)
            close(*all[i]);
        *all[i] = -1;
    }
}

/* Starts the child with an empty file to write to. */
static bool start_child(struct certificate_loading *loading, confined_work *work, char *why,
                        size_t size)
{
    struct certificate_check *check = &loading->check;
    int fd[3];
    size_t count = 0;

    check->out = memory_file_open("certificate");
    if (check->out < 0) {
        snprintf(why, size, "%s: %s", check->certificate_file, strerror(errno));
        return false;
    }
    fd[count++] = check->out;
    if (check->certificate_fd >= 0)
        fd[count++] = check->certificate_fd;
    if (check->key_fd >= 0)
        fd[count++] = check->key_fd;
    if (confined_start(&loading->child, loading->config, check->certificate_file, fd, count, work,
                       check) == 0)
        return true;
    snprintf(why, size, "%s", loading->child.why);
    return false;
}

static bool make_managed(struct certificate_loading *loading, char *why, size_t size)
{
    close_files(&loading->check);
    loading->making = true;
    return start_child(loading, certificate_check_make, why, size);
}

static bool start_managed(struct certificate_loading *loading, char *why, size_t size)
{
    struct certificate_check *check = &loading->check;
    char reason[512], name[ACME_NAME_MAX + 1];

    config_acme_file(check->managed, name);
    snprintf(loading->base, sizeof(loading->base), "%.*s.pem", NAME_MAX - 4, name);
    snprintf(loading->path, sizeof(loading->path), "%s/%s", loading->config->acme_state_dir,
             loading->base);
    check->certificate_file = check->key_file = loading->path;
    check->certificate_fd =
        managed_open(loading->directory, loading->base, loading->path, reason, sizeof(reason));
    if (check->certificate_fd >= 0) {
        check->key_fd = fcntl(check->certificate_fd, F_DUPFD_CLOEXEC, 0);
        return start_child(loading, certificate_check_files, why, size);
    }
    if (reason[0] != '\0')
        managed_set_aside(loading->directory, loading->base, reason);
    return make_managed(loading, why, size);
}

static bool start_given(struct certificate_loading *loading, const struct certificate_place *place,
                        char *why, size_t size)
{
    struct certificate_check *check = &loading->check;

    check->certificate_file = place->certificate;
    check->key_file = place->key;
    private_keys_warn(place->key);
    check->certificate_fd = open_given_file(place->certificate, why, size);
    if (check->certificate_fd < 0)
        return false;
    check->key_fd = open_given_file(place->key, why, size);
    return check->key_fd >= 0 && start_child(loading, certificate_check_files, why, size);
}

static bool start_next(struct certificate_loading *loading, char *why, size_t size)
{
    const struct certificate_place *place = &loading->place[loading->set->count];

    close_files(&loading->check);
    loading->check.managed = place->managed;
    loading->making = false;
    return place->managed != NULL ? start_managed(loading, why, size)
                                  : start_given(loading, place, why, size);
}

/* The child of a managed certificate has not DONE it. Everything else serves. */
static bool replace_managed(struct certificate_loading *loading, enum confined_result result,
                            char *why, size_t size)
{
    if (result == CONFINED_REFUSED)
        managed_set_aside(loading->directory, loading->base, loading->child.why);
    else
        event_log(LEVEL_ERROR, "%s: serving a self-signed certificate", loading->child.why);
    return make_managed(loading, why, size);
}

/* Takes over the certificate, and starts the child of the next one, if there is one. */
static bool take_checked(struct certificate_loading *loading,
                         const struct checked_certificate *head, char *why, size_t size)
{
    const struct certificate_check *check = &loading->check;

    if (!add_member(loading->set, check->out, head)) {
        snprintf(why, size, "%s: cannot store the certificate: %s", check->certificate_file,
                 strerror(errno));
        return false;
    }
    if (head->is_authority != 0 && check->managed == NULL)
        event_log(LEVEL_WARN,
                  "the certificate %s is that of an authority (CA): its key can issue "
                  "certificates for any name; use one with basicConstraints CA:FALSE",
                  check->certificate_file);
    return loading->set->count == loading->count || start_next(loading, why, size);
}

/* The child of the current certificate has ended. Returns false with WHY. */
static bool continue_loading(struct certificate_loading *loading, enum confined_result result,
                             char *why, size_t size)
{
    struct confined *child = &loading->child;
    struct checked_certificate head;

    if (result == CONFINED_DONE && read_head(loading->check.out, &head))
        return take_checked(loading, &head, why, size);
    if (result == CONFINED_DONE) {
        snprintf(child->why, sizeof(child->why),
                 "%s: the process that reads it left no certificate",
                 loading->check.certificate_file);
        result = CONFINED_REFUSED;
    }
    if (loading->check.managed != NULL && !loading->making)
        return replace_managed(loading, result, why, size);
    snprintf(why, size, "%s%s", loading->check.managed == NULL ? "[tls] certificate: " : "",
             child->why);
    return false;
}

static struct certificate_set *new_set(const struct config *config, size_t count)
{
    static uint32_t number;
    struct certificate_set *set = calloc(1, sizeof(*set) + count * sizeof(struct set_member));

    if (set == NULL)
        return NULL;
    set->references = 1;
    set->number = ++number;
    set->tls12 = config->tls_protocols != TLS_PROTOCOLS_MODERN;
    set->certificates = memory_file_open("certificates");
    set->keys = config->tls_keys_process ? memory_file_open("keys") : -1;
    if (set->certificates >= 0 && (set->keys >= 0 || !config->tls_keys_process))
        return set;
    certificate_set_free(set);
    return NULL;
}

struct certificate_loading *certificate_loading_new(const struct config *config, int directory,
                                                    char *why, size_t size)
{
    size_t count = count_places(config, directory >= 0);
    struct certificate_loading *loading =
        calloc(1, sizeof(*loading) + count * sizeof(struct certificate_place));

    if (loading != NULL) {
        loading->config = loading->check.config = config;
        loading->directory = directory;
        loading->check.certificate_fd = loading->check.key_fd = loading->check.out = -1;
        loading->child.report = -1;
        loading->set = new_set(config, count);
        list_places(loading);
    }
    /* All that OpenSSL reads from files, it reads here: the children and the workers cannot. */
    if (loading == NULL || loading->set == NULL ||
        OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS |
                             OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
                         NULL) != 1)
        snprintf(why, size, "[tls] certificate: out of memory");
    else if (count == 0 || start_next(loading, why, size))
        return loading;
    if (loading != NULL)
        certificate_loading_free(loading);
    else if (directory >= 0)
        close(directory);
    return NULL;
}

int certificate_loading_descriptor(const struct certificate_loading *loading)
{
    return loading->child.report;
}

enum certificate_progress certificate_loading_continue(struct certificate_loading *loading,
                                                       bool wait, char *why, size_t size)
{
    struct certificate_set *set = loading->set;

    while (set->count < loading->count) {
        enum confined_result result = confined_result(&loading->child, wait);

        if (result == CONFINED_RUNS)
            return CERTIFICATES_LOADING;
        if (!continue_loading(loading, result, why, size))
            return CERTIFICATES_UNUSABLE;
    }
    if (memory_file_seal(set->certificates) == 0 &&
        (set->keys < 0 || memory_file_seal(set->keys) == 0))
        return CERTIFICATES_LOADED;
    snprintf(why, size, "cannot seal the files of the certificates: %s", strerror(errno));
    return CERTIFICATES_UNUSABLE;
}

bool certificate_loading_reaped(struct certificate_loading *loading, pid_t pid, int status)
{
    if (loading == NULL || loading->child.child != pid)
        return false;
    loading->child.child = 0;
    loading->child.status = status;
    return true;
}

struct certificate_set *certificate_loading_take(struct certificate_loading *loading)
{
    struct certificate_set *set = loading->set;

    loading->set = NULL;
    return set;
}

void certificate_loading_free(struct certificate_loading *loading)
{
    if (loading == NULL)
        return;
    confined_abandon(&loading->child);
    close_files(&loading->check);
    if (loading->directory >= 0)
        close(loading->directory);
    certificate_set_free(loading->set);
    free(loading);
}

struct certificate_set *certificate_set_load(const struct config *config, int directory, char *why,
                                             size_t size)
{
    struct certificate_loading *loading = certificate_loading_new(config, directory, why, size);
    struct certificate_set *set = NULL;

    if (loading == NULL)
        return NULL;
    if (certificate_loading_continue(loading, true, why, size) == CERTIFICATES_LOADED)
        set = certificate_loading_take(loading);
    certificate_loading_free(loading);
    return set;
}

/* The set */

struct certificate_set *certificate_set_hold(struct certificate_set *set)
{
    if (set != NULL)
        set->references++;
    return set;
}

void certificate_set_free(struct certificate_set *set)
{
    if (set == NULL || --set->references > 0)
        return;
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->member[i].names);
        free(set->member[i].name);
    }
    if (set->certificates >= 0)
        close(set->certificates);
    if (set->keys >= 0)
        close(set->keys);
    free(set);
}

bool certificate_set_is_remote(const struct certificate_set *set)
{
    return set != NULL && set->keys >= 0;
}

uint32_t certificate_set_number(const struct certificate_set *set)
{
    return set->number;
}

int certificate_set_file(const struct certificate_set *set, struct message_certificates *message)
{
    *message = (struct message_certificates){.number = set->number, .count = set->count};
    return set->certificates;
}

int certificate_set_keys(const struct certificate_set *set, struct message_keys_set *message)
{
    *message =
        (struct message_keys_set){.set = set->number, .count = set->count, .tls12 = set->tls12};
    return set->keys;
}

void certificate_set_describe(const struct certificate_set *set,
                              void (*show)(void *owner, const struct tls_description *description),
                              void *owner)
{
    for (uint32_t i = 0; i < set->count; i++)
        show(owner, &set->member[i].description);
}

bool certificate_is_valid_at(const struct tls_description *description, int64_t now_s, char *text,
                             size_t size)
{
    const char *name = description->name_count > 0 ? description->name[0] : "?";
    bool early = now_s < description->not_before_s;
    char when[UNITS_TEXT];

    if (!early && now_s < description->not_after_s)
        return true;
    units_format_utc(when, sizeof(when),
                     early ? description->not_before_s : description->not_after_s);
    snprintf(text, size, "the certificate for %s %s %s: clients reject it%s", name,
             early ? "is not valid before" : "has ended on", when,
             early ? "; is the clock right?" : "");
    return false;
}

void certificate_set_report_expired(struct certificate_set *set, int64_t now_s)
{
    static const int64_t expiry_days[] = {14, 7, 2, 0};

    for (uint32_t i = 0; i < set->count; i++) {
        struct set_member *member = &set->member[i];
        int64_t end_s = member->description.not_after_s;
        int64_t life_s = end_s - member->description.not_before_s;
        const char *name = member->description.name_count > 0 ? member->name[0] : "?";
        uint32_t reached = 0;
        char text[CERTIFICATE_TEXT_BYTES];
        bool valid = certificate_is_valid_at(&member->description, now_s, text, sizeof(text));

        if (!valid && end_s > now_s && !member->early_reported)
            event_log(LEVEL_ERROR, "%s", text);
        member->early_reported = !valid && end_s > now_s;

        for (uint32_t k = 0; k < ARRAY_LENGTH(expiry_days); k++)
            if (end_s - now_s <= expiry_days[k] * DAY_S && expiry_days[k] * DAY_S < life_s / 3)
                reached = k + 1;
        if (reached <= member->end_reports)
            continue;
        member->end_reports = reached;
        if (end_s <= now_s)
            event_log(LEVEL_ERROR, "%s", text);
        else
            event_log(LEVEL_WARN, "the certificate for %s ends in less than %ld days", name,
                      (long)expiry_days[reached - 1]);
    }
}
