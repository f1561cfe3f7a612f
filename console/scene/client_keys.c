#include "console/scene/client_keys.h"

#include "common/client_address.h"

#include <stdio.h>
#include <string.h>

/* The client that the open prompt is about: there is one at a time. */
static char prompted[CLIENT_KEY_TEXT];

bool client_keys_have(enum action action)
{
    return action == ACTION_EDIT || action == ACTION_STOP || action == ACTION_REMOVE;
}

static void set_limit(void *context, const char *text)
{
    char line[CONTROLLER_TEXT];

    snprintf(line, sizeof(line), "limit-client %s %.100s", prompted, text);
    controller_command(context, line);
}

void client_keys_act(struct controller *controller, const char *address, enum action action)
{
    char line[CONTROLLER_TEXT], client[CLIENT_KEY_TEXT];
    uint64_t key = client_key_parse(address);

    if (strcmp(address, "unix:") == 0) {
        controller_report(controller, true, "clients of a UNIX socket have no address to limit");
        return;
    }
    if (key != 0)
        client_key_text(key, client);
    else
        snprintf(client, sizeof(client), "%s", address); /* a network */
    if (action == ACTION_EDIT && controller_allows_change(controller)) {
        snprintf(prompted, sizeof(prompted), "%s", client);
        snprintf(line, sizeof(line), "requests per second of %s, and for how long: ", client);
        controller_prompt(controller, line, "10 10m", set_limit, controller);
    } else if (action != ACTION_EDIT) {
        snprintf(line, sizeof(line), "limit-client %s %s", client,
                 action == ACTION_STOP ? "block 10m" : "off");
        controller_command(controller, line);
    }
}
