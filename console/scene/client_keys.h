/* The keys that limit, block or release one client. The console's only thread. */
#ifndef CONSOLE_CLIENT_KEYS_H
#define CONSOLE_CLIENT_KEYS_H

#include "console/scene/controller.h"
#include "console/ui/keys.h"

#include <stdbool.h>

/* What the keys do, for the screen. */
#define CLIENT_KEYS "e limit  x block  d release"

/* True if ACTION is one of these keys. */
bool client_keys_have(enum action action);

/*
 * Does what ACTION means for the client ADDRESS, as the log or the table of clients writes it: asks for the
 * limit, or sends the command, which asks first. An IPv6 address stands for its /64.
 */
void client_keys_act(struct controller *controller, const char *address, enum action action);

#endif
