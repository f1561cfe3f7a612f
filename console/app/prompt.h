/* The two prompts of a session: the command line behind ':' and the filter behind '/'. Single
 * thread. */
#ifndef CONSOLE_PROMPT_H
#define CONSOLE_PROMPT_H

#include "console/app/session.h"

/* Takes the daemon's commands, as wsctl does, and the console's own. */
void prompt_open_command(struct session *session);

/* The filter is applied while it is typed. */
void prompt_open_filter(struct session *session);

#endif
