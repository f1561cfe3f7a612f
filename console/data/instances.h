/* The instances on this machine: which ones run, their control sockets, and attachment to one. */
#ifndef CONSOLE_INSTANCES_H
#define CONSOLE_INSTANCES_H

#include "common/instance.h"
#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    INSTANCES_MAX = 64,
    INSTANCES_LOOK_MS = 300, /* until the second look */
    INSTANCE_RECENT = 60     /* seconds */
};

/* A server since the last look at it. Rates are per second; NAN: unknown, as at the first look. */
struct instance_load {
    double requests, errors, p99_ns;
    double cores; /* CPU time of the workers */
    double connections;
    uint32_t workers, workers_wanted;
    const char *state; /* "serving", "starting", "stopping", "silent" */
};

struct instance {
    char name[INSTANCE_NAME_MAX + 1];
    char version[sizeof(((struct segment_header *)NULL)->version)]; /* printable */
    char listening[256];
    char socket[INSTANCE_PATH_MAX]; /* control socket */
    int32_t pid;
    uint64_t started_ns; /* wall clock */
    uint64_t age_ns;
    struct instance_load load;
    /* Requests per second by the server's own history, oldest first; NAN: none. */
    double recent[INSTANCE_RECENT];
};

/* The console's only thread. */
struct instance_load instance_load(const struct segment_reader *reader);

/* Fills LIST (INSTANCES_MAX of them) with the running instances, by name. Returns their number. */
size_t instances_find(struct instance *list);

/*
 * Writes the name of the running instance whose control socket is SOCKET into NAME
 * (INSTANCE_NAME_MAX + 1 bytes); SOCKET NULL: of the only running instance. Returns false if there
 * is none.
 */
bool instance_with_socket(const char *socket, char *name);

/*
 * Writes into TEXT what helps a user whose server is not found: which servers run, how to select
 * one, and those that this user may not read, with what that needs.
 */
void instances_advise(char *text, size_t size);

/* Prints one line per running instance, or that none runs. */
void instances_print(FILE *out);

/*
 * Prints the running instances as a line of JSON: an array of objects; rates are those of
 * INSTANCES_LOOK_MS, null if unknown. Returns 0, or -1: out of memory.
 */
int instances_print_json(FILE *out);

/* Writes the names of the running instances into WHY. False if they are not several, or NAME is
 * one of them. */
bool instances_ambiguous(const char *name, char *why, size_t size);

/*
 * Writes the path of the control socket of instance NAME into PATH: GIVEN if it is not NULL, or
 * the only socket in it if it is a directory; else the path in the instance's segment, else the
 * default path for that name. Returns 0, or -1 with a
 * message in WHY. Any thread.
 */
int instance_control_socket(const char *name, const char *given, char *path, size_t path_size,
                            char *why, size_t size);

enum source_state {
    SOURCE_ABSENT, /* no daemon has run since the console started */
    SOURCE_LIVE,   /* attached to a running daemon */
    SOURCE_SILENT, /* attached; the master's heartbeat is overdue */
    SOURCE_ENDED,  /* the daemon stopped or died; its segment is still mapped */
};

/*
 * A source is the attachment to the segment of one instance. It detects that the daemon ended or
 * that another daemon uses the name, and attaches again. The console's only thread.
 */
struct source;

/* NAME is copied; the instance need not run yet. NULL: out of memory. */
struct source *source_open(const char *name);
void source_close(struct source *source);

/*
 * Checks the attachment, at most four times a second however often it is called. NOW_NS is the
 * monotonic clock. Returns true if another daemon was attached: all data of the reader is then
 * outdated.
 */
bool source_update(struct source *source, uint64_t now_ns);

/*
 * The segment that was attached before: after an upgrade its daemon still runs. NULL: none, or it
 * was released.
 */
const struct segment_reader *source_former(const struct source *source);
void source_release_former(struct source *source);

enum source_state source_state(const struct source *source);

/*
 * For a replay, instead of source_update(): makes READER the attached segment. READER is copied;
 * its memory is borrowed until the next call. READER NULL: no segment. WHY becomes source_why().
 */
void source_show(struct source *source, const struct segment_reader *reader,
                 enum source_state state, const char *why);

/* Why there is no daemon, or how it ended; "" in SOURCE_LIVE. */
const char *source_why(const struct source *source);

const char *source_name(const struct source *source);

/* The mapped segment; NULL in SOURCE_ABSENT. Valid until the next source_update(). */
const struct segment_reader *source_reader(const struct source *source);

#endif
