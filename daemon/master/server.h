/*
 * The resources of a running server, shared by all modules of the master (nginx: ngx_cycle_t). The
 * master owns them; forked workers and the logger use configuration, segment and eventfd.
 */
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

#include "common/segment.h"
#include "daemon/config/config.h"
#include "daemon/master/listeners.h"
#include "daemon/master/pid_file.h"

#include <event2/event.h>

struct server {
    struct event_base *base;
    struct config *config; /* in force, or being applied by a reload; commands change values */
    struct segment segment;
    struct listeners *listeners; /* NULL once the shutdown has begun */
    struct pid_file pid_file;
    int doorbell; /* eventfd: wakes the logger */
};

/*
 * Creates the segment for the configuration with the name of the instance; if BESIDE, with the
 * suffix ".new" (segment_promote() renames it). Returns 0, or -1 with WHY.
 */
int server_create_segment(struct server *server, bool beside, char *why, size_t size);

/*
 * Writes the configuration in force to the segment. Call it after each change; needs the listeners.
 */
void server_publish_config(struct server *server);

/*
 * Makes the logger reopen its files. Returns the value of segment_logger's logs_done when that is
 * done.
 */
uint32_t server_reopen_logs(struct server *server);

/* Removes segment and pid file and closes the eventfd. The caller frees the rest. */
void server_release(struct server *server);

#endif
