/*
 * Who may come in: requests by the rate limit of their client's address, connections by how many there
 * are, in all and from their address. On the serving thread.
 */
#ifndef DAEMON_ADMISSION_H
#define DAEMON_ADMISSION_H

#include "daemon/transaction/client_limit.h"
#include "daemon/transaction/transaction.h"

/*
 * Counts a request that is looked at for the first time against its client's rate, while the limit
 * is on. False: it is over, and exchange->retry_after_s says when to try again.
 */
bool admission_of_request(struct exchange *exchange);

/*
 * Counts a connection of ADDRESS against max_per_ip. ADMITTED: it has come in before, and may come
 * in again.
 */
enum peers_verdict admission_of_connection(const struct serving_thread *thread,
                                           const uint8_t address[CLIENT_ADDRESS_BYTES],
                                           bool admitted);

/*
 * Closes FD, which becomes no connection; after a VERDICT of PEERS_TOO_MANY with a short 503, as far as
 * that is possible without waiting for the client. What was counted is given back.
 */
void admission_refuse(struct serving_thread *thread, int fd,
                      const uint8_t address[CLIENT_ADDRESS_BYTES], enum peers_verdict verdict);

/* True when no more than [connections] max can be open with one more. */
bool admission_has_room(const struct serving_thread *thread);

/*
 * True when CONNECTION came over from another worker, and more are open than [connections] max or
 * max_per_ip allow: they may have become less by a reload, or others came in while it was on its way.
 * It has to end behind its next answer. Once there is room for it, it is like any other.
 */
bool admission_outgrown(struct connection *connection);

/* True when fewer connections are open than [connections] keepalive_below, which is not 0. */
bool admission_keeps_alive(struct serving_thread *thread);

#endif
