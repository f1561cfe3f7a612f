/*
 * The resources of a running server, shared by all modules of the master (nginx: ngx_cycle_t). The
 * master owns them; forked workers and the logger use configuration, segment and eventfd.
 */
#ifndef DAEMON_SERVER_H
#define DAEMON_SERVER_H

#include "common/segment.h"
#include "daemon/base/messages.h"
#include "daemon/config/config.h"
#include "daemon/logger/log_files.h"
#include "daemon/logger/salvage.h"
#include "daemon/master/host_table.h"
#include "daemon/master/listeners.h"
#include "daemon/master/metrics_sockets.h"
#include "daemon/master/pid_file.h"

#include <event2/event.h>

struct tls_context;
struct tls_tickets;

struct server {
    struct event_base *base;
    struct tls_context *tls;     /* of config; NULL: no listen socket needs it */
    struct tls_tickets *tickets; /* NULL: TLS has not been needed yet */
    uint64_t tickets_ns;         /* when their keys were last rotated, monotonic */
    struct config *config; /* in force, or being applied by a reload; commands change values */
    struct segment segment;
    struct listeners *listeners; /* NULL once the shutdown has begun */
    struct metrics_sockets metrics;
    struct pid_file pid_file;
    struct host_table hosts;
    struct message_memory memory; /* as last sent to the workers */
    int doorbell;                 /* eventfd: wakes the logger */
    int alive[2]; /* pipe: the master and all workers have its write end, the logger its read end */
    struct log_files logs;
    struct salvage salvage; /* lines of a killed server with this name */
};

/*
 * Creates the segment for the configuration with the name of the instance; if BESIDE, with the
 * suffix ".new" (segment_promote() renames it). Returns 0, or -1 with WHY.
 */
int server_create_segment(struct server *server, bool beside, char *why, size_t size);

/*
 * Reads the certificates of the configuration, and those that the ACME process has obtained, into
 * server->tls, if a listen socket needs them. Makes the state directory of [acme]. Returns 0, or -1 with WHY and nothing changed.
 */
int server_load_certificates(struct server *server, char *why, size_t size);

/*
 * Binary upgrade: the keys of session tickets as a file (tls_tickets_save()), or -1; and from such a
 * file, which it closes; -1: none. Without it, clients have to make full handshakes.
 */
int server_save_tickets(const struct server *server);
void server_restore_tickets(struct server *server, int fd);

/*
 * Makes a new key for session tickets every half of [tls] session_timeout. Returns true if it did:
 * then workers_send_tickets().
 */
bool server_rotate_tickets(struct server *server, uint64_t now_ns);

/*
 * Writes the configuration in force to the segment. Call it after each change; needs the listeners.
 */
void server_publish_config(struct server *server);

/* Removes segment and pid file, closes the eventfd, the sockets of [metrics] and the logs, frees the certificates. The caller frees the rest. */
void server_release(struct server *server);

#endif
