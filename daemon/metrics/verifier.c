#include "daemon/metrics/verifier.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/loop.h"
#include "daemon/base/mailbox.h"
#include "daemon/config/rules.h"
#include "daemon/http/logins.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The items of both mailboxes. */
struct verification {
    struct mailbox_item item;
    struct login *login; /* used by the loop only; NULL: cancelled */
    uint64_t client_key;
    struct siphash hash;
    struct password_check check;
};

struct verifier {
    struct verifier_setup setup;
    struct logins *logins;
    struct mailbox jobs, results; /* the thread receives jobs, the loop results */
    struct event *finished;
    uint32_t waiting; /* verifications that are not back */
};

static void free_verification(struct verification *verification)
{
    explicit_bzero(verification, sizeof(*verification));
    free(verification);
}

static void finish_verification(struct mailbox_item *item, void *receiver)
{
    struct verification *verification = CONTAINER_OF(item, struct verification, item);
    struct verifier *verifier = receiver;
    struct login *login = verification->login;
    bool good = verification->check.good;

    verifier->waiting--;
    if (good) {
        logins_remember(verifier->logins, &verification->hash);
    } else {
        logins_add_failure(verifier->logins, verification->client_key, clock_monotonic_ns());
        ++*verifier->setup.failures;
    }
    free_verification(verification);
    if (login == NULL)
        return;
    login->verification = NULL;
    login->verified = true;
    login->good = good;
    login->resume(login);
}

static void on_finished(evutil_socket_t fd, short what, void *argument)
{
    struct verifier *verifier = argument;

    (void)fd, (void)what;
    mailbox_deliver(&verifier->results, verifier);
}

/* The thread. The process may end while it runs. */

static void run_verification(struct mailbox_item *item, void *receiver)
{
    struct verifier *verifier = receiver;

    password_check_run(&CONTAINER_OF(item, struct verification, item)->check);
    mailbox_post(&verifier->results, item, finish_verification);
}

static void *verify_all(void *argument)
{
    struct verifier *verifier = argument;
    struct pollfd jobs = {.fd = verifier->jobs.eventfd, .events = POLLIN};

    pthread_setname_np(pthread_self(), "passwords");
    while (poll(&jobs, 1, -1) > 0 || errno == EINTR)
        mailbox_deliver(&verifier->jobs, verifier);
    return NULL;
}

static int start_verifier_thread(struct verifier *verifier)
{
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, verify_all, verifier);

    if (failed == 0)
        pthread_detach(thread);
    errno = failed;
    return failed;
}

struct verifier *verifier_start(const struct verifier_setup *setup)
{
    struct verifier *verifier = calloc(1, sizeof(*verifier));

    if (verifier == NULL)
        return NULL;
    verifier->setup = *setup;
    verifier->logins = logins_new(setup->failures_a_minute);
    if (verifier->logins != NULL && mailbox_open(&verifier->jobs, 0, NULL) == 0 &&
        mailbox_open(&verifier->results, 0, NULL) == 0) {
        verifier->finished = event_new(setup->base, verifier->results.eventfd, EV_READ | EV_PERSIST,
                                       on_finished, verifier);
        if (verifier->finished != NULL && event_add(verifier->finished, NULL) == 0 &&
            start_verifier_thread(verifier) == 0)
            return verifier;
    }
    verifier_stop(verifier);
    logins_free(verifier->logins);
    free(verifier); /* the mailboxes end with the process */
    return NULL;
}

void verifier_stop(struct verifier *verifier)
{
    loop_free_event(verifier->finished);
    verifier->finished = NULL;
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
    struct verification *verification =
        verifier->waiting < VERIFIER_WAITING_MAX ? calloc(1, sizeof(*verification)) : NULL;

    login->retry_after_s = 1;
    if (verification == NULL)
        return LOGIN_BUSY;
    verification->login = login;
    verification->client_key = login->client_key;
    verification->hash = *hash;
    verification->check.exists = user != NULL;
    if (user == NULL)
        user = &users->item[logins_stand_in(verifier->logins, credentials->name, users->count)];
    verification->check.expected = user->hash;
    memcpy(verification->check.password, credentials->password.start, credentials->password.length);
    login->verification = verification;
    verifier->waiting++;
    mailbox_post(&verifier->jobs, &verification->item, run_verification);
    return LOGIN_WAITING;
}

static enum login_verdict judge_credentials(struct verifier *verifier, struct login *login,
                                            const struct credentials *credentials)
{
    struct siphash hash = logins_hash(verifier->logins, verifier->setup.users->file, credentials);
    uint64_t wait_ns;

    if (login->verified)
        return login->good ? LOGIN_GOOD : LOGIN_NONE;
    if (logins_is_verified(verifier->logins, &hash))
        return LOGIN_GOOD;
    wait_ns = logins_wait_ns(verifier->logins, login->client_key, clock_monotonic_ns());
    if (wait_ns == 0)
        return submit_password(verifier, login, credentials, &hash);
    login->retry_after_s = (uint32_t)clock_ceil_s(wait_ns);
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
