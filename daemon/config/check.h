/*
 * A configuration that is being put together: the values so far, and for each of them where it was
 * set, so that what is wrong is told at its place. Lives for one config_load().
 */
#ifndef DAEMON_CONFIG_DRAFT_H
#define DAEMON_CONFIG_DRAFT_H

#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/config/reader.h"
#include "daemon/config/report.h"

#include <stdbool.h>

struct config_draft {
    struct config *config;
    struct config_report report;
    const char *base;                      /* folder of the present source's relative paths */
    struct config_place set_at[KEY_COUNT]; /* the value in force */
    bool given[KEY_COUNT];                 /* it is not the default */
    bool faulty[KEY_COUNT];                /* the last text for it was refused */
    size_t given_in_line[KEY_COUNT];       /* of the file; 0: not there */
    size_t *mime_lines;                    /* the same for each pair of [mime] */
    size_t *header_lines;                  /* and for each line of [headers] */
};

/* The field of KEY in the draft's configuration. */
void *config_draft_field(const struct config_draft *draft, const struct config_key *key);

/* Sets every key to its default. */
void config_draft_defaults(struct config_draft *draft);

/* Takes one entry, of a file or an override; what is wrong is told. A config_taker, whose owner
 * is the draft. */
void config_draft_take(void *owner, const struct config_entry *entry);

/* Takes "section.key=value", which is called NAME ("-o 1") in messages. Both outlive the draft. */
void config_draft_override(struct config_draft *draft, const char *text, const char *name);

/* Takes an entry of [mime]: ending = type. */
void config_mime_take(struct config_draft *draft, const struct config_entry *entry);

/* Takes an entry of [headers]: Name = value. */
void config_header_take(struct config_draft *draft, const struct config_entry *entry);

/* Tells of header fields that are too many for an answer. */
void config_header_check(struct config_draft *draft);

/* Fills in what is left to be found out: run_dir, the control socket, the number of threads. */
void config_draft_complete(struct config_draft *draft);

/* Tells of values that are good one by one, but not together or not on this machine. */
void config_draft_check(struct config_draft *draft);

#endif
