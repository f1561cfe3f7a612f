/*
 * Admission: requests by the rate limit of the client's address, connections by [connections] max
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
 * Counts a connection from ADDRESS against max_per_ip. If ADMITTED it was open before and may
 * exceed it.
 */
enum client_limit_verdict admission_of_connection(const struct worker_context *worker,
                                                  const uint8_t address[CLIENT_ADDRESS_BYTES],
                                                  bool admitted);

/*
 * Closes FD, which was not admitted or could not become a connection, and reverts what VERDICT
 * counted. After CLIENT_LIMIT_EXCEEDED it first sends a short 503, if possible without blocking.
 */
void admission_reject(struct transaction_context *context, int fd,
                      const uint8_t address[CLIENT_ADDRESS_BYTES],
                      enum client_limit_verdict verdict);

/* True if one more connection does not exceed [connections] max. */
bool admission_has_room(const struct worker_context *worker);

/*
 * True if CLIENT's connection came from another worker and more are open than [connections] max or
 * max_per_ip allow: a reload may have lowered them, or others were accepted during the transfer.
 * Such a connection closes after its next response, unless the number has fallen below the limits
 * by then.
 */
bool admission_exceeds_limits(const struct worker_context *worker, struct client *client);

/* True if fewer connections are open than [connections] keepalive_below, which is not 0. */
bool admission_allows_keepalive(struct transaction_context *context);

#endif
