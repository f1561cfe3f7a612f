/*
 * All data about a server: the current state, the history, and the data read from its log and event
 * rings. Fed from a segment, of a daemon or of a recording. Written by the watch only
 * (console/data/watch.h). The console's only thread.
 */
#ifndef CONSOLE_SERVER_INFO_H
#define CONSOLE_SERVER_INFO_H

#include "common/segment_reader.h"
#include "console/data/alerts.h"
#include "console/data/history.h"
#include "console/data/hosts.h"
#include "console/data/lists.h"
#include "console/data/marks.h"
#include "console/data/model.h"
#include "console/data/processes.h"
#include "console/data/snapshot.h"
#include "console/data/subject.h"
#include "console/data/tail.h"
#include "console/data/top.h"

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
    WANT_HOSTS = 8,
    WANT_ALL = 0xff
};

struct server_info {
    struct snapshot snapshot;
    struct model *model;
    struct history *history;
    struct history_cursor *cursor;
    struct tail *tail;
    struct top *top;
    struct top *host_top; /* the requests for the chosen hosts; NULL: none were chosen */
    struct subject_term host_term[SUBJECT_TERMS];
    size_t host_terms;
    struct subject *subject; /* NULL: none is shown */
    struct outcomes *outcomes;
    struct event_list *events;
    struct marks *marks;            /* kept by server_info_clear() */
    struct process_table processes; /* read once a second; cache, clients and config twice */
    struct alerts alerts;           /* rules kept by server_info_clear() */
    bool replayed;                  /* set by the owner: the segment is that of a recording */
    struct cache_list cache;
    struct client_list clients;
    bool has_hosts;                       /* the server has [host] sections */
    struct host_list hosts;               /* read twice a second */
    struct certificate_list certificates; /* read twice a second */
    struct host_names *host_names;        /* kept by server_info_clear() */
    char config[SEGMENT_CONFIG_BYTES];    /* "": not read yet */
    char *origins;                        /* the daemon's answer to `config`; NULL: unknown */
    bool origins_requested;
    bool backlog_unread;  /* requests logged before the attachment are not counted yet */
    uint64_t missed;      /* tail_missed() when the top lists were last updated */
    uint64_t slow_ns;     /* when the slow data was last read */
    unsigned slow_wants;  /* the wants of that time */
    uint64_t next_second; /* number of the next history sample to read */
    uint64_t own_second;  /* of the last sample that the console took itself (wall clock, s) */
};

/* INFO is zeroed. Returns 0, or -1: out of memory; call server_info_close() then too. */
int server_info_open(struct server_info *info);
void server_info_close(struct server_info *info);

/* Clears all but the configuration and the marks, before a recording is played again. Result as above. */
int server_info_clear(struct server_info *info);

/* Another daemon: counters restart, and its history follows after a gap. Returns 0, or -1: out of
 * memory. */
int server_info_begin(struct server_info *info, const struct segment_reader *reader);

/* Samples the segment. WANTS: bits of enum wants. Result as above. */
int server_info_take(struct server_info *info, const struct segment_reader *reader, uint64_t now_ns,
                     uint64_t wall_ns, unsigned wants);

/* What the rules of the alerts read. */
struct alert_facts server_info_facts(const struct server_info *info);

/* Something that the console has seen itself becomes an event and a mark. */
void server_info_note(struct server_info *info, enum mark_kind kind, enum level level,
                      uint64_t wall_ns, const char *text);

/* Reads the new events. */
void server_info_take_events(struct server_info *info, const struct segment_reader *reader,
                             uint64_t wall_ns);

/* The same of the daemon that was attached before. */
void server_info_take_former(struct server_info *info, const struct segment_reader *former,
                             uint64_t wall_ns);

/* Between two samples: counts the new requests. */
void server_info_take_requests(struct server_info *info, const struct segment_reader *reader,
                               uint64_t now_ns, uint64_t wall_ns);

/*
 * Counts the requests that match COUNT TERMS, beginning with the lines of the tail, until they are
 * hidden again. Result as above.
 */
int server_info_show_subject(struct server_info *info, const struct subject_term *terms,
                             size_t count);
void server_info_hide_subject(struct server_info *info);

/*
 * Counts the requests for the hosts that COUNT TERMS select also in top lists of their own, which
 * begin with the lines of the tail; COUNT 0: no longer. Does nothing if the terms are those in
 * force. Result as above.
 */
int server_info_choose_hosts(struct server_info *info, const struct subject_term *terms,
                             size_t count);

/* Parses the configuration in force, which the segment has as the text of a file. Pure. */

enum { CONFIG_KEY_BYTES = 80, CONFIG_VALUE_BYTES = 512, CONFIG_HELP_BYTES = 512 };

struct config_line {
    char key[CONFIG_KEY_BYTES]; /* "cache.size", "headers /a.Name" */
    char value[CONFIG_VALUE_BYTES];
    char help[CONFIG_HELP_BYTES]; /* the comment above the key */
};

/*
 * Reads the next key into LINE and advances *TEXT. SECTION (CONFIG_KEY_BYTES, initially "") keeps
 * the current section between calls. False at the end.
 */
bool config_text_next(const char **text, char *section, struct config_line *line);

/* Copies the value of KEY to VALUE; "" and false if it is not there. */
bool config_text_value(const char *text, const char *key, char *value, size_t size);

#endif
