/*
 * Changes to a run while it goes on, as lines on a pipe and as keys on a terminal say them:
 *
 *     rate 2000 · rate +10% · connections 50 · connections -5 · threads 4 · stop
 *
 * Pure; any thread.
 */
#ifndef LOADGEN_CONTROL_H
#define LOADGEN_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum change_kind {
    CHANGE_RATE,
    CHANGE_CONNECTIONS,
    CHANGE_THREADS,
    CHANGE_STOP,
    CHANGE_MAIN, /* of a key: the rate in an open loop, connections in a closed one */
};

enum change_way { CHANGE_TO, CHANGE_BY, CHANGE_BY_PERCENT };

struct change {
    enum change_kind kind;
    enum change_way way;
    double value;
};

/* Reads a line without its end. Returns 0, or -1 with WHY. */
int control_read_line(const char *line, struct change *change, char *why, size_t size);

/* What KEY means; false: nothing. */
bool control_read_key(char key, struct change *change);

/* One line for people: the keys. */
#define CONTROL_KEYS_HELP "+ - load  C c connections  T t threads  q end"

/* What VALUE becomes by CHANGE: a whole number not below 1 for counts, any positive one for a rate. */
double control_apply(const struct change *change, double value);

#endif
