/*
 * Changes of the load during a run, as lines on a descriptor (--control-fd) or keys on the terminal:
 *
 *     rate 2000 · rate +10% · connections 50 · connections -5 · threads 4 · stop
 *
 * Main thread.
 */
#ifndef LOADGEN_CONTROL_H
#define LOADGEN_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <event2/event.h>

/* ---- Parsing of changes (pure) ---- */

enum change_kind {
    CHANGE_RATE,
    CHANGE_CONNECTIONS,
    CHANGE_THREADS,
    CHANGE_STOP,
    CHANGE_LOAD, /* by a key: the rate in an open loop, the connections in a closed one */
};

enum change_way { CHANGE_TO, CHANGE_BY, CHANGE_BY_PERCENT };

struct change {
    enum change_kind kind;
    enum change_way way;
    double value;
};

/* Parses a line without its line end. Returns 0, or -1 with WHY. */
int change_parse_line(const char *line, struct change *change, char *why, size_t size);

/* Returns false if KEY has no meaning. */
bool change_parse_key(char key, struct change *change);

/* The help line for the keys. */
#define CHANGE_KEYS_HELP "+ - load  C c connections  T t threads  q end"

/* VALUE after CHANGE: an integer of at least 1; a rate may be any positive number. */
double change_apply(const struct change *change, double value);

/* ---- Where changes come from. One at a time. ---- */

struct control;

/* CHANGE, or NULL and WHY for an invalid line. */
typedef void control_change(void *context, const struct change *change, const char *why);

/*
 * Watches descriptor FD (-1: none) and, if KEYS, standard input if this process owns the terminal. Returns
 * NULL if out of memory or if FD cannot be watched.
 */
struct control *control_create(struct event_base *base, int fd, bool keys,
                               control_change *on_change, void *context);

/* Whether keys are read. */
bool control_has_keys(const struct control *control);

/* Restores the terminal. CONTROL may be NULL. */
void control_destroy(struct control *control);

/* ---- The terminal: single keys, without echo ---- */

/* Returns whether standard input is a terminal of this process and now delivers keys. */
bool terminal_keys_begin(void);

/* Restores the terminal, also at exit(). No effect without a begin. */
void terminal_keys_end(void);

#endif
