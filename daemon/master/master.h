/*
 * The master process: owns the resources of the instance (lock, segment, listen sockets, control
 * socket), keeps workers and logger running, and executes commands and signals. It serves no
 * requests.
 */
#ifndef DAEMON_MASTER_H
#define DAEMON_MASTER_H

struct config;
struct options;
struct service;

/*
 * For -t: whether this process could start with CONFIG: read its certificates and keys, open its
 * logs and ports, unless the server with this name has them, and serve its roots. SERVICE: this
 * process is like one of it (service.h), whose manager makes the run directory; NULL: it is not.
 * Calls REPORT with each fault. Returns 0, or -1 if there is one; changes nothing.
 */
int preflight_check(const struct config *config, const struct service *service,
                    void (*report)(const char *why));

/*
 * Runs the server with CONFIG until it stops. CONFIG is allocated by the caller and freed here. A
 * reload loads the configuration again from OPTIONS. Returns the exit status.
 */
int master_run(struct config *config, const struct options *options);

#endif
