/*
 * The master process: owns the resources of the instance (lock, segment, listen sockets, control
 * socket), keeps workers and logger running, and executes commands and signals. It serves no
 * requests.
 */
#ifndef DAEMON_MASTER_H
#define DAEMON_MASTER_H

struct config;
struct options;

/*
 * Runs the server with CONFIG until it stops. CONFIG is allocated by the caller and freed here. A
 * reload loads the configuration again from OPTIONS. Returns the exit status.
 */
int master_run(struct config *config, const struct options *options);

#endif
