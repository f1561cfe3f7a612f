/* The settings that webserverd-acme gets from the master, as options of its command line. */
#ifndef DAEMON_ACME_SETTINGS_H
#define DAEMON_ACME_SETTINGS_H

#include "daemon/config/config.h"

struct acme_settings {
    const char *user, *group; /* as in [server] */
    bool without_jail;
    const char *state_dir, *ca_file, *email; /* ca_file and email: "" is none */
    const char *directory;                   /* URL */
    enum config_acme_key key;
    uint32_t retry_ms;
    enum challenge_kind challenge[CHALLENGE_KINDS]; /* the preferred one first */
    size_t challenge_count;
    char *const *name;
    size_t name_count;
};

#endif
