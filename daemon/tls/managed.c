#include "daemon/tls/managed.h"

#include "daemon/base/events.h"
#include "daemon/tls/certificate.h"
#include "daemon/tls/private_keys.h"
#include "daemon/tls/self_signed.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *file)
{
    return access(file, F_OK) == 0;
}

/* True if FILE has a certificate for NAME, and KEY_FILE the key of it; else WHY. */
static bool is_usable(const char *file, const char *key_file, const char *name, char *why,
                      size_t size)
{
    struct tls_certificate certificate = {0};
    int keys = private_keys_open(why, size);
    bool usable = keys >= 0 && tls_certificate_load(&certificate, file, why, size) == 0 &&
                  private_keys_add(keys, key_file, certificate.leaf, file, why, size) == 0;

    if (usable && tls_certificate_match(&certificate, name) == TLS_NAME_DIFFERS) {
        snprintf(why, size, "%s: the certificate is not for %s", file, name);
        usable = false;
    }
    tls_certificate_free(&certificate);
    if (keys >= 0)
        close(keys);
    return usable;
}

/* Finds or makes the self-signed certificate of NAME. Returns 0, or -1 with WHY. */
static int make_self_signed(struct self_signed *files, const char *directory, const char *name,
                            char *why, size_t size)
{
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        snprintf(why, size, "%s: %s", directory, strerror(errno));
        return -1;
    }
    self_signed_paths(files, directory, name);
    if (exists(files->certificate) && is_usable(files->certificate, files->key, name, why, size))
        return 0;
    unlink(files->certificate); /* of a server that was killed when it wrote them */
    unlink(files->key);
    return self_signed_write(files, directory, name, why, size);
}

static int add(struct managed_certificates *managed, const char *certificate, const char *key)
{
    char **item = managed->certificate.item;

    item[managed->certificate.count] = strdup(certificate);
    managed->key.item[managed->key.count] = strdup(key);
    return item[managed->certificate.count++] != NULL &&
                   managed->key.item[managed->key.count++] != NULL
               ? 0
               : -1;
}

static int find(const struct config *config, const char *name, struct managed_certificates *managed,
                char *why, size_t size)
{
    char file[PATH_MAX], directory[PATH_MAX];
    struct self_signed files;

    snprintf(file, sizeof(file), "%s/%s.pem", config->acme_state_dir, name);
    if (exists(file)) {
        if (is_usable(file, file, name, why, size))
            return add(managed, file, file);
        event_log(LEVEL_ERROR, "%s: serving a self-signed certificate", why);
    }
    snprintf(directory, sizeof(directory), "%s/self-signed", config->acme_state_dir);
    if (make_self_signed(&files, directory, name, why, size) != 0)
        return -1;
    snprintf(why, size, "out of memory");
    return add(managed, files.certificate, files.key);
}

int managed_certificates_find(const struct config *config, struct managed_certificates *managed,
                              char *why, size_t size)
{
    size_t count = config->acme_names.count;

    /* + 1: calloc() may return NULL for none. */
    managed->certificate.item = calloc(count + 1, sizeof(char *));
    managed->key.item = calloc(count + 1, sizeof(char *));
    snprintf(why, size, "out of memory");
    if (managed->certificate.item == NULL || managed->key.item == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (find(config, config->acme_names.item[i], managed, why, size) != 0)
            return -1;
    return 0;
}

static void free_paths(struct config_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->item[i]);
    free(paths->item);
}

void managed_certificates_free(struct managed_certificates *managed)
{
    free_paths(&managed->certificate);
    free_paths(&managed->key);
    *managed = (struct managed_certificates){0};
}
