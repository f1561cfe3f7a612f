/*
 * Names and passwords of [metrics] users (Basic authentication, RFC 7617). Verified ones are
 * remembered until the process ends. The functions are for the thread of the event loop.
 */
#ifndef DAEMON_METRICS_VERIFIER_H
#define DAEMON_METRICS_VERIFIER_H

#include "daemon/config/config.h"
#include "daemon/http/logins.h"
#include "daemon/http/request.h"

#include <event2/event.h>

enum { VERIFIER_WAITING_MAX = 8 }; /* passwords that are or will be verified */

struct verifier_setup {
    const struct config_users *users; /* borrowed */
    uint32_t failures_a_minute;       /* limit for each client; 0: none */
    uint32_t *failures;               /* borrowed; 1 is added for each failed login */
    struct event_base *base;
};

enum login_verdict {
    LOGIN_GOOD,
    LOGIN_NONE,    /* no credentials, or wrong ones: 401 */
    LOGIN_LIMITED, /* too many failures: 429; retry_after_s is set */
    LOGIN_BUSY,    /* VERIFIER_WAITING_MAX others wait: 503; retry_after_s is set */
    LOGIN_WAITING, /* resume() will be called */
};

/* The login of one request. The caller sets client_key and resume; all others are zero. */
struct login {
    uint64_t client_key; /* client_address.h */
    /* The password has been verified: verifier_judge() gives the verdict. */
    void (*resume)(struct login *login);
    struct verification *verification; /* NULL: none waits */
    enum password_verdict verdict;
    uint32_t retry_after_s;
};

struct verifier;

/* NULL on failure. */
struct verifier *verifier_start(const struct verifier_setup *setup);

/* resume() is not called any more. The thread and its memory end with the process. */
void verifier_stop(struct verifier *verifier);

/* The verdict on the credentials of REQUEST. */
enum login_verdict verifier_judge(struct verifier *verifier, struct login *login,
                                  const struct request *request);

/* Call before LOGIN is freed: resume() is not called any more. */
void login_cancel(struct login *login);

#endif
