/*
 * A configuration while it is loaded: its values so far, where each was set, and the checks of
 * values that need more than one key or this system. Lives for one config_load().
 */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/config/reader.h"
#include "daemon/config/report.h"

#include <stdbool.h>

/* Where the values of a [host] were set. */
struct config_host_draft {
    struct config_place set_at[HOST_KEY_COUNT];
    size_t given_in_line[HOST_KEY_COUNT]; /* of the file; 0: not in the file */
};

struct config_draft {
    struct config *config;
    struct config_report report;
    const char *base;                      /* directory for the current source's relative paths */
    struct config_place set_at[KEY_COUNT]; /* where the value in force was set */
    bool given[KEY_COUNT];                 /* not the default */
    bool faulty[KEY_COUNT];                /* its last text was invalid */
    size_t given_in_line[KEY_COUNT];       /* of the file; 0: not in the file */
    size_t *mime_lines;                    /* the same for each pair of [mime] */
    size_t *header_lines;                  /* and for each line of [headers] */
    struct config_host_draft *hosts;       /* of each host */
};

static inline void *config_draft_field(const struct config_draft *draft,
                                       const struct config_key *key)
{
    return (char *)draft->config + key->offset;
}

/*
 * Parses the value of ENTRY as KEY's type into *FIELD, which is overwritten without being freed.
 * Returns 0, or -1 after a report, with *FIELD unchanged.
 */
int config_draft_parse(struct config_draft *draft, const struct config_key *key,
                       const struct config_entry *entry, void *field);

/* Adds ENTRY of a section [access]. */
void config_draft_add_access(struct config_draft *draft, const struct config_entry *entry);

/* Sets what depends on other values: run_dir, the control socket, the number of threads. */
void config_draft_complete(struct config_draft *draft);

/*
 * Reports values that are valid one by one, but not together or not on this system. SYSTEM may be
 * NULL.
 */
void config_draft_check(struct config_draft *draft, const struct config_system *system);

/* True if an address of server.listen has https://. */
bool config_needs_tls(const struct config *config);

/* True if [tls] or a [host] names a certificate. */
bool config_has_certificate(const struct config *config);

#endif
