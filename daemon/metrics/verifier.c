#include "daemon/metrics/verifier.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/loop.h"
#include "daemon/base/mailbox.h"
#include "daemon/config/rules.h"

#include <stdlib.h>
#include <string.h>

struct verification {
    struct password_check check;
    struct login *login; /* used by the loop only; NULL: cancelled */
};

struct verifier {
    struct verifier_setup setup;
    struct logins *logins;
    struct mailbox results;
    struct event *finished;
    struct verifier *next_stopped;
};

static void free_verification(struct verification *verification)
{
    explicit_bzero(verification, sizeof(*verification));
    free(verification);
}

static void finish_verification(struct mailbox_item *item, void *receiver)
{
    struct verification *verification = CONTAINER_OF(item, struct verification, check.item);
    struct verifier *verifier = receiver;
    struct login *login = verification->login;
    enum password_verdict verdict = verification->check.verdict;

    if (verdict == PASSWORD_WRONG)
        ++*verifier->setup.failures;
    free_verification(verification);
    if (login == NULL)
        return;
    login->verification = NULL;
    login->verdict = verdict;
    login->resume(login);
}

static void on_finished(evutil_socket_t fd, short what, void *argument)
{
    struct verifier *verifier = argument;

    (void)fd, (void)what;
    mailbox_deliver(&verifier->results, verifier);
}

struct verifier *verifier_start(const struct verifier_setup *setup)
{
    struct verifier *verifier = calloc(1, sizeof(*verifier));

    if (verifier == NULL)
        return NULL;
    verifier->setup = *setup;
    verifier->logins = logins_new(setup->failures_a_minute);
    if (verifier->logins != NULL && mailbox_open(&verifier->results, 0, NULL) == 0) {
        verifier->finished = event_new(setup->base, verifier->results.eventfd, EV_READ | EV_PERSIST,
                                       on_finished, verifier);
        if (verifier->finished != NULL && event_add(verifier->finished, NULL) == 0)
            return verifier;
    }
    loop_free_event(verifier->finished);
    logins_free(verifier->logins);
    free(verifier); /* the mailbox ends with the process */
    return NULL;
}

void verifier_stop(struct verifier *verifier)
{
    static struct verifier *stopped; /* their threads may still run */

    loop_free_event(verifier->finished);
    verifier->finished = NULL;
    verifier->next_stopped = stopped;
    stopped = verifier;
}

void login_cancel(struct login *login)
{
    if (login->verification != NULL)
        login->verification->login = NULL;
    login->verification = NULL;
}

/* Judging */

static enum login_verdict submit_password(struct verifier *verifier, struct login *login,
                                          const struct credentials *credentials,
                                          const struct siphash *hash)
{
    const struct config_users *users = verifier->setup.users;
    const struct config_user *user = config_users_find(users, credentials->name);
    struct verification *verification = calloc(1, sizeof(*verification));

    login->retry_after_s = 1;
    if (verification == NULL)
        return LOGIN_BUSY;
    verification->login = login;
    verification->check = (struct password_check){.owner = &verifier->results,
                                                  .finish = finish_verification,
                                                  .client_key = login->client_key,
                                                  .hash = *hash,
                                                  .exists = user != NULL};
    if (user == NULL)
        user = &users->item[logins_stand_in(verifier->logins, credentials->name, users->count)];
    verification->check.expected = user->hash;
    memcpy(verification->check.password, credentials->password.start, credentials->password.length);
    if (!logins_submit(verifier->logins, &verification->check, VERIFIER_WAITING_MAX)) {
        free_verification(verification);
        return LOGIN_BUSY;
    }
    login->verification = verification;
    return LOGIN_WAITING;
}

static enum login_verdict judge_credentials(struct verifier *verifier, struct login *login,
                                            const struct credentials *credentials)
{
    struct siphash hash = logins_hash(verifier->logins, verifier->setup.users->file, credentials);
    uint64_t wait_ns;

    if (login->verdict == PASSWORD_GOOD || logins_is_verified(verifier->logins, &hash))
        return LOGIN_GOOD;
    if (login->verdict == PASSWORD_WRONG)
        return LOGIN_NONE;
    wait_ns = logins_wait_ns(verifier->logins, login->client_key, clock_monotonic_ns());
    if (login->verdict == PASSWORD_UNKNOWN && wait_ns == 0)
        return submit_password(verifier, login, credentials, &hash);
    login->retry_after_s = wait_ns > 0 ? (uint32_t)clock_ceil_s(wait_ns) : 1;
    return LOGIN_LIMITED;
}

enum login_verdict verifier_judge(struct verifier *verifier, struct login *login,
                                  const struct request *request)
{
    struct credentials credentials UNINITIALIZED;
    enum login_verdict verdict = LOGIN_NONE;
    struct span value;

    if (request_find_field(request, SPAN("authorization"), &value) == 1 &&
        credentials_read(value, &credentials)) {
        verdict = judge_credentials(verifier, login, &credentials);
        explicit_bzero(&credentials, sizeof(credentials));
    }
    return verdict;
}
