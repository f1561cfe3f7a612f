/*
 * What ps(1) and top(1) show of a process: "webserverd: worker 0". As setproctitle(3) of BSD, it
 * overwrites the memory of arguments and environment, whose strings move to other places.
 */
#ifndef DAEMON_PROCESS_TITLE_H
#define DAEMON_PROCESS_TITLE_H

#include "common/macros.h"

#include <stddef.h>

/*
 * Call it first in main(), before another thread exists: returns a copy of ARGV, which is one block
 * of memory, to be used in its place; or NULL: out of memory.
 */
char **process_title_prepare(int argc, char **argv);

/* The name of the server, which follows each title in brackets unless it is the default one. */
void process_title_set_server(const char *name);

/* "webserverd: master". Without process_title_prepare() titles stay as they are. */
void process_title_set_master(void);

enum { PROCESS_TITLE_BYTES = 128 };

/* Writes the title of ROLE: at most PROCESS_TITLE_BYTES. */
void process_title_format(char *title, size_t size, const char *role);

/* "webserverd: ROLE" in a child of the master, whose first thread gets the name "ws-ROLE". */
void process_title_set_child(const char *role, ...) PRINTF_LIKE(1, 2);

#endif
