/*
 * A configuration while it is loaded: its values so far, where each was set, and the checks of
 * values that need more than one key or this system. Lives for one config_load().
 */
#ifndef DAEMON_CONFIG_CHECK_H
#define DAEMON_CONFIG_CHECK_H

#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/config/report.h"

#include <stdbool.h>

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
};

static inline void *config_draft_field(const struct config_draft *draft,
                                       const struct config_key *key)
{
    return (char *)draft->config + key->offset;
}

/* Sets what depends on other values: run_dir, the control socket, the number of threads. */
void config_draft_complete(struct config_draft *draft);

/*
 * Reports values that are valid one by one, but not together or not on this system. SYSTEM may be
 * NULL.
 */
void config_draft_check(struct config_draft *draft, const struct config_system *system);

#endif
