/*
 * The thread count turned from the console, without ever waiting: what was asked goes out over the
 * control socket, the screen goes on, and the daemon's answer is fetched when it is there. Further
 * turns while an answer is out are added up and sent as one. The console's only thread.
 */
#ifndef CONSOLE_KNOB_H
#define CONSOLE_KNOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct knob;

struct knob *knob_create(void);
void knob_destroy(struct knob *knob);

/*
 * Asks for STEPS more (or fewer) serving threads in each worker than IN_FORCE, or than was asked
 * already. SOCKET is the path of the control socket. NOW_NS is the monotonic clock.
 */
void knob_turn(struct knob *knob, const char *socket, uint32_t in_force, int steps,
               uint64_t now_ns);

/* What is asked and not answered yet; 0 when nothing is. */
uint32_t knob_asked(const struct knob *knob);

/* A descriptor to wait for, or -1. */
int knob_descriptor(const struct knob *knob);

/* Fetches what has come. Call it when the descriptor is readable, and now and then for the
 * deadline. */
void knob_update(struct knob *knob, uint64_t now_ns);

/*
 * Takes the outcome of a request: true once for each. BAD tells a refusal or failure from an
 * answer.
 */
bool knob_message(struct knob *knob, char *text, size_t size, bool *bad);

#endif
