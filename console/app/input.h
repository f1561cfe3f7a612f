/* Keys and the mouse of a session. Single thread. */
#ifndef CONSOLE_INPUT_H
#define CONSOLE_INPUT_H

#include "console/app/session.h"

/* Handles the key with curses code CODE; KEY_MOUSE handles the pending mouse events. */
void input_handle_key(struct session *session, int code);

#endif
