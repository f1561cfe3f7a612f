/* The program's side of the desk: what only the loop and the picture need. The console's only
 * thread. */
#ifndef CONSOLE_DESK_PROGRAM_H
#define CONSOLE_DESK_PROGRAM_H

#include "console/data/watch.h"
#include "console/scene/controller.h"
#include "console/ui/dialog.h"

#include <stdbool.h>
#include <stdint.h>

/* What the desk needs to know; outlives it. */
struct desk_setting {
    const char *name;   /* of the instance */
    const char *socket; /* of its control; NULL: the instance's */
    bool readonly;
    const struct watch *watch;
};

/* NULL when memory is out. */
struct desk *desk_create(const struct desk_setting *setting);
void desk_destroy(struct desk *desk);

struct dialog *desk_dialog(struct desk *desk);

/* A descriptor to wait for, or -1; and what to do when it is readable, and now and then. */
int desk_descriptor(const struct desk *desk);
void desk_update(struct desk *desk, uint64_t now_ns);

/* What is to be said now, or NULL. */
const char *desk_message(const struct desk *desk, bool *bad);

/* An answer of several lines, until it is closed; NULL: none. */
const char *desk_page(const struct desk *desk);
void desk_close_page(struct desk *desk);

/* "threads 5 asked, 2 in force" while a turned knob waits for the daemon; false else. */
bool desk_asked(const struct desk *desk, char *text, size_t size);

/* Calls the daemon has not answered yet. */
unsigned desk_waiting(const struct desk *desk);

#endif
