/*
 * The two prompts of a session: the command line (key ':') and the filter (key '/'). Single thread.
 */
#ifndef CONSOLE_PROMPT_H
#define CONSOLE_PROMPT_H

#include "console/app/session.h"

/*
 * Opens the command line, which accepts the daemon's commands, as wsctl does, and the console's
 * own.
 */
void prompt_open_command(struct session *session);

/* Shows the alerts and their history over the view. */
void prompt_show_alerts(struct session *session);

/* Opens the filter prompt. The filter applies while it is typed. */
void prompt_open_filter(struct session *session);

#endif
