/*
 * Basic authentication (RFC 7617) by the users files of [access]. Offload threads verify passwords,
 * which takes milliseconds on purpose. The worker remembers verified ones, by a keyed hash of file,
 * name and password, and the failures of each client address.
 *
 * A user who does not exist takes as long as one who does. A client with more than
 * limits.failed_logins a minute must wait; failures that were verified at the same time count, too,
 * and lengthen the wait.
 */
#ifndef DAEMON_TRANSACTION_AUTHENTICATION_H
#define DAEMON_TRANSACTION_AUTHENTICATION_H

#include "daemon/transaction/transaction.h"

enum authentication_verdict {
    AUTHENTICATION_GOOD,    /* transaction->user is set */
    AUTHENTICATION_NONE,    /* no credentials, or wrong ones: 401 */
    AUTHENTICATION_LIMITED, /* too many failures: 429; transaction->retry_after_s is set */
    AUTHENTICATION_BUSY,    /* the offload queue is full: 503 */
    AUTHENTICATION_WAITING, /* an offload thread verifies the password */
};

/* Verifies the credentials of the request against the users of RULE. The owning thread. */
enum authentication_verdict authentication_verify(struct transaction *transaction,
                                                  const struct config_access *rule);

#endif
