/* The program's side of the controller: what only the loop and the picture need. The console's only
 * thread. */
#ifndef CONSOLE_CONTROLLER_PROGRAM_H
#define CONSOLE_CONTROLLER_PROGRAM_H

#include "console/data/watch.h"
#include "console/scene/controller.h"
#include "console/ui/dialog.h"

#include <stdbool.h>
#include <stdint.h>

/* What the controller needs to know; outlives it. */
struct controller_options {
    const char *name;   /* of the instance */
    const char *socket; /* of its control; NULL: the instance's */
    bool readonly;
    const struct watch *watch;
};

/* NULL when memory is out. */
struct controller *controller_create(const struct controller_options *setting);
void controller_destroy(struct controller *controller);

struct dialog *controller_dialog(struct controller *controller);

/* A descriptor to wait for, or -1; and what to do when it is readable, and now and then. */
int controller_descriptor(const struct controller *controller);
void controller_update(struct controller *controller, uint64_t now_ns);

/* What is to be said now, or NULL. */
const char *controller_message(const struct controller *controller, bool *bad);

/* An answer of several lines, until it is closed; NULL: none. */
const char *controller_page(const struct controller *controller);
void controller_close_page(struct controller *controller);

/* "threads 5 asked, 2 in force" while a turned tunable waits for the daemon; false else. */
bool controller_pending(const struct controller *controller, char *text, size_t size);

/* Calls the daemon has not answered yet. */
unsigned controller_calls_waiting(const struct controller *controller);

#endif
