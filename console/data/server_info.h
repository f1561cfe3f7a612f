/*
 * What is known of a server while it is watched: the present, the past, and what the rings of log
 * lines and of events tell. It is fed moment by moment from a segment, be that a daemon's or one out of a
 * recording, which is not its business. Only the watch (console/data/watch.h) knows it. The console's only thread.
 */
#ifndef CONSOLE_SERVER_INFO_H
#define CONSOLE_SERVER_INFO_H

#include "console/data/cache_list.h"
#include "console/data/client_list.h"
#include "console/data/event_list.h"
#include "console/data/history.h"
#include "console/data/model.h"
#include "console/data/outcomes.h"
#include "console/data/processes.h"
#include "console/data/snapshot.h"
#include "console/data/tail.h"
#include "console/data/top.h"

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Data that is costly to read, as bits. It is read only while the visible view wants it, while a
 * session is recorded, and when the console freezes. */
enum wants {
    WANT_NOTHING = 0,
    WANT_CACHE = 1,
    WANT_CLIENTS = 2,
    WANT_ORIGINS = 4,
    WANT_ALL = 0xff
};

struct server_info {
    struct snapshot snapshot;
    struct model *model;
    struct history *history;
    struct tail *tail;
    struct past *past;
    struct top *top;
    struct outcomes *outcomes;
    struct event_list *events;
    struct process_table processes;
    bool processes_told; /* by whoever feeds it: /proc is not looked at */
    struct cache_list cache;
    struct client_list clients;
    char config[SEGMENT_CONFIG_BYTES];
    char *origins; /* of it, the daemon's answer; NULL: not known */
    bool origins_asked;
    bool past_unread;     /* the rings' past has not been looked at */
    uint64_t missed;      /* requests that had passed unseen when the top lists were last fed */
    uint64_t slow_ns;     /* when what is read twice a second was last read */
    unsigned slow_had;    /* what was wanted then */
    uint64_t next_second; /* number of the history sample that is wanted next */
};

/* Nothing is known yet. INFO is zeroed before. Returns 0, or -1: out of memory; server_info_close() is due
 * then too. */
int server_info_open(struct server_info *info);
void server_info_close(struct server_info *info);

/* All is forgotten but the configuration: what comes next may lie before it. Results as above. */
int server_info_forget(struct server_info *info);

/* Another daemon: its counters begin anew, its past follows the one we know after a break. Returns 0, or
 * -1: out of memory. */
int server_info_begin(struct server_info *info, const struct segment_reader *reader);

/* Takes the present. WANTS: bits of enum wants. Results as above. */
int server_info_take(struct server_info *info, const struct segment_reader *reader, uint64_t now_ns,
                     uint64_t wall_ns, unsigned wants);

#endif
