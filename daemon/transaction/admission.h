/*
 * Admission: requests by the limits of the client's address, connections by [connections] max
 * and max_per_ip. The owning thread.
 */
#ifndef DAEMON_TRANSACTION_ADMISSION_H
#define DAEMON_TRANSACTION_ADMISSION_H

#include "daemon/transaction/transaction.h"

/*
 * Charges a request, when it is processed for the first time, to the rate of its client, if the
 * limit is on. Returns false if the client exceeds it; transaction->retry_after_s is then the delay
 * until the next attempt.
 */
bool admission_of_request(struct transaction *transaction);

/*
 * The status with which to reject a request, when it is processed for the first time, because of a
 * limit of its client set by command: 403 if that blocks it, 429 if its rate is exceeded
 * (transaction->retry_after_s as above), 0: accept it.
 */
int admission_by_address(struct transaction *transaction);

/*
 * Counts a connection from ADDRESS against max_per_ip, which proxies of [proxy] trusted do not
 * have. If ADMITTED it was open before and may exceed it.
 */
enum client_limit_verdict admission_of_connection(const struct worker_context *worker,
                                                  const uint8_t address[CLIENT_ADDRESS_BYTES],
                                                  bool admitted);

/*
 * Sends a short 503, if possible without blocking and the client expects HTTP: not before a PROXY
 * header or a TLS handshake, OPENING. Counts a connection that was not admitted or had no memory.
 */
void admission_turn_away(struct transaction_context *context, int fd,
                         enum client_limit_verdict verdict, bool opening);

/* The same, and closes FD, which is not a connection yet; reverts what VERDICT counted. */
void admission_reject(struct transaction_context *context, int fd,
                      const uint8_t address[CLIENT_ADDRESS_BYTES],
                      enum client_limit_verdict verdict, bool opening);

/*
 * True if the worker may open one more connection: all workers have fewer than [connections] max,
 * or this one has less than its fair share of it, whatever the others say.
 */
bool admission_has_room(const struct worker_context *worker);

/*
 * Number of idle connections that the worker should close: it has more than its fair share, and all
 * together have more than [connections] max. The worker's main thread.
 */
uint32_t admission_excess(const struct worker_context *worker);

/*
 * True if CLIENT's connection came from another worker and more are open than [connections] max or
 * max_per_ip allow: a reload may have lowered them, or others were accepted during the transfer.
 * Such a connection closes after its next response, unless the number has fallen below the limits
 * by then.
 */
bool admission_exceeds_limits(const struct worker_context *worker, struct client *client);

/* True if at most [connections] keepalive_max_open, which is not 0, connections are open. */
bool admission_allows_keepalive(struct transaction_context *context);

#endif
