#include "daemon/transaction/authentication.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/siphash.h"
#include "daemon/config/users.h"
#include "daemon/http/credentials.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    VERIFIED_BUCKETS = 1024, /* powers of two */
    FAILURE_BUCKETS = 1024,
    WAYS = 4,
};

#define MINUTE_NS      (60 * NS_PER_S)
#define LONGEST_BAN_NS (60 * MINUTE_NS)

/* Values of state->login, once the password has been verified. */
enum login { LOGIN_UNKNOWN, LOGIN_GOOD, LOGIN_WRONG };

struct verified {
    struct siphash hash[WAYS]; /* all zero: free */
    unsigned next;             /* the place to overwrite */
};

/* A bucket of GCRA times, as in rate_limit.h. */
struct failures {
    uint64_t key[WAYS];
    uint64_t time_ns[WAYS];
};

struct authentication {
    struct siphash_key key;
    uint64_t interval_ns; /* between two failures at the permitted rate; 0: no limit */
    uint64_t ahead_ns;
    pthread_mutex_t mutex; /* of what follows; held for a few instructions */
    struct verified verified[VERIFIED_BUCKETS];
    struct failures failures[FAILURE_BUCKETS];
};

struct authentication *authentication_new(const struct config *config)
{
    struct authentication *authentication = calloc(1, sizeof(*authentication));
    uint32_t limit = config->limits_failed_logins;

    if (authentication == NULL)
        return NULL;
    if (getrandom(&authentication->key, sizeof(authentication->key), 0) !=
        sizeof(authentication->key)) {
        free(authentication);
        return NULL;
    }
    if (limit > 0) {
        authentication->interval_ns = MINUTE_NS / limit;
        authentication->ahead_ns = (limit - 1) * authentication->interval_ns;
    }
    pthread_mutex_init(&authentication->mutex, NULL);
    return authentication;
}

void authentication_free(struct authentication *authentication)
{
    if (authentication != NULL)
        pthread_mutex_destroy(&authentication->mutex);
    free(authentication);
}

/* Verified passwords */

/* Of the file, the name and the password; not all zero. */
static struct siphash hash_login(const struct authentication *authentication,
                                 const struct config_access *rule,
                                 const struct credentials *credentials)
{
    struct {
        struct siphash file, login;
    } both = {siphash_of(&authentication->key, rule->users.file, strlen(rule->users.file)),
              siphash_of(&authentication->key, credentials->bytes, credentials->length)};
    struct siphash hash = siphash_of(&authentication->key, &both, sizeof(both));

    hash.word[1] |= 1;
    return hash;
}

static struct verified *bucket_of(struct authentication *authentication, const struct siphash *hash)
{
    return &authentication->verified[hash->word[0] % VERIFIED_BUCKETS];
}

static bool is_verified(struct authentication *authentication, const struct siphash *hash)
{
    struct verified *bucket = bucket_of(authentication, hash);
    bool found = false;

    pthread_mutex_lock(&authentication->mutex);
    for (int i = 0; i < WAYS; i++)
        found |= CRYPTO_memcmp(&bucket->hash[i], hash, sizeof(*hash)) == 0;
    pthread_mutex_unlock(&authentication->mutex);
    return found;
}

static void remember(struct authentication *authentication, const struct siphash *hash)
{
    struct verified *bucket = bucket_of(authentication, hash);

    if (is_verified(authentication, hash)) /* two requests with the same password */
        return;
    pthread_mutex_lock(&authentication->mutex);
    bucket->hash[bucket->next++ % WAYS] = *hash;
    pthread_mutex_unlock(&authentication->mutex);
}

/* Failures */

static struct failures *failures_of(struct authentication *authentication, uint64_t key)
{
    struct siphash hash = siphash_of(&authentication->key, &key, sizeof(key));

    return &authentication->failures[hash.word[0] % FAILURE_BUCKETS];
}

/* The time until KEY may try again; 0: now. */
static uint64_t failures_wait(struct authentication *authentication, uint64_t key, uint64_t now_ns)
{
    struct failures *bucket = failures_of(authentication, key);
    uint64_t latest = now_ns + authentication->ahead_ns, wait_ns = 0;

    if (key == 0 || authentication->interval_ns == 0)
        return 0;
    pthread_mutex_lock(&authentication->mutex);
    for (int i = 0; i < WAYS; i++)
        if (bucket->key[i] == key && bucket->time_ns[i] > latest)
            wait_ns = bucket->time_ns[i] - latest;
    pthread_mutex_unlock(&authentication->mutex);
    return wait_ns;
}

static void failures_add(struct authentication *authentication, uint64_t key, uint64_t now_ns)
{
    struct failures *bucket = failures_of(authentication, key);
    int place = 0;

    if (key == 0 || authentication->interval_ns == 0)
        return;
    pthread_mutex_lock(&authentication->mutex);
    for (int i = 1; i < WAYS && bucket->key[place] != key; i++)
        if (bucket->key[i] == key || bucket->time_ns[i] < bucket->time_ns[place])
            place = i;
    if (bucket->key[place] != key || bucket->time_ns[place] < now_ns)
        bucket->time_ns[place] = now_ns;
    bucket->key[place] = key;
    bucket->time_ns[place] += authentication->interval_ns;
    if (bucket->time_ns[place] > now_ns + authentication->ahead_ns + LONGEST_BAN_NS)
        bucket->time_ns[place] = now_ns + authentication->ahead_ns + LONGEST_BAN_NS;
    pthread_mutex_unlock(&authentication->mutex);
}

/* Verifying */

struct login_job {
    struct offload_job job;
    struct transaction_context *context;
    struct client *client;
    uint64_t client_key; /* of the request's client, which may be another for each request */
    struct transaction_state *state;
    const char *expected; /* hash in the configuration */
    bool exists;          /* the user; else EXPECTED is another's */
    bool good;            /* result */
    struct siphash hash;
    struct crypt_data data;
    char password[CREDENTIALS_MAX + 1];
};

/* On an offload thread. */
static void run_login(struct offload_job *job)
{
    struct login_job *login = CONTAINER_OF(job, struct login_job, job);
    const char *hash = crypt_r(login->password, login->expected, &login->data);
    size_t length = strlen(login->expected);

    login->good = hash != NULL && strlen(hash) == length &&
                  CRYPTO_memcmp(hash, login->expected, length) == 0 && login->exists;
}

/* Back on the owning thread. */
static void finish_login(struct offload_job *job)
{
    struct login_job *login = CONTAINER_OF(job, struct login_job, job);
    struct transaction_context *context = login->context;
    struct authentication *authentication = context->worker->authentication;
    struct transaction_state *state = login->state;

    context->jobs_out--;
    login->client->jobs_out--;
    state->login = login->good ? LOGIN_GOOD : LOGIN_WRONG;
    if (login->good) {
        remember(authentication, &login->hash);
        metric_add(context->metrics, METRIC_logins, 1);
    } else {
        failures_add(authentication, login->client_key, clock_monotonic_ns());
        metric_add(context->metrics, METRIC_logins_failed, 1);
    }
    explicit_bzero(login, sizeof(*login));
    free(login);
    state->resume(state);
}

/* For a user who does not exist, verifies against the hash of another, always the same one. */
static const char *hash_of_other(const struct authentication *authentication,
                                 const struct config_users *users, struct span name)
{
    struct siphash hash = siphash_of(&authentication->key, name.start, name.length);

    return users->item[hash.word[0] % users->count].hash;
}

static struct login_job *new_job(const struct transaction *transaction,
                                 const struct config_access *rule,
                                 const struct credentials *credentials)
{
    struct authentication *authentication = transaction->context->worker->authentication;
    const struct config_user *user = config_users_find(&rule->users, credentials->name);
    struct login_job *login = calloc(1, sizeof(*login));

    if (login == NULL)
        return NULL;
    login->job = (struct offload_job){.run = run_login,
                                      .finish = finish_login,
                                      .work = {rule->scope.prefix, strlen(rule->scope.prefix)},
                                      .state = THREAD_STATE_COMPUTE,
                                      .owner = transaction->context->mailbox};
    login->context = transaction->context;
    login->client = transaction->client;
    login->client_key = client_key(transaction->address);
    login->state = transaction->state;
    login->exists = user != NULL;
    login->expected =
        user != NULL ? user->hash : hash_of_other(authentication, &rule->users, credentials->name);
    memcpy(login->password, credentials->password.start, credentials->password.length);
    return login;
}

static enum authentication_verdict submit(struct transaction *transaction,
                                          const struct config_access *rule,
                                          const struct credentials *credentials,
                                          const struct siphash *hash)
{
    struct transaction_context *context = transaction->context;
    struct login_job *login =
        transaction->may_wait ? new_job(transaction, rule, credentials) : NULL;

    if (login == NULL)
        return AUTHENTICATION_BUSY;
    login->hash = *hash;
    if (!offload_submit(context->worker->offload, &login->job, context->loop_now_ns)) {
        explicit_bzero(login, sizeof(*login));
        free(login);
        return AUTHENTICATION_BUSY;
    }
    transaction->waiting = true;
    transaction->client->jobs_out++;
    context->jobs_out++;
    metric_add(context->metrics, METRIC_offloaded, 1);
    return AUTHENTICATION_WAITING;
}

/* Whether the credentials are known to be good or wrong. */
static enum login known_login(const struct transaction *transaction, const struct siphash *hash)
{
    if (transaction->state->login != LOGIN_UNKNOWN)
        return (enum login)transaction->state->login;
    return is_verified(transaction->context->worker->authentication, hash) ? LOGIN_GOOD
                                                                           : LOGIN_UNKNOWN;
}

static enum authentication_verdict verify(struct transaction *transaction,
                                          const struct config_access *rule,
                                          const struct credentials *credentials)
{
    struct authentication *authentication = transaction->context->worker->authentication;
    struct siphash hash = hash_login(authentication, rule, credentials);
    const struct config_user *user;
    uint64_t wait_ns;

    switch (known_login(transaction, &hash)) {
    case LOGIN_GOOD:
        user = config_users_find(&rule->users, credentials->name);
        transaction->user = (struct span){user->name, strlen(user->name)};
        return AUTHENTICATION_GOOD;
    case LOGIN_WRONG:
        return AUTHENTICATION_NONE;
    case LOGIN_UNKNOWN:
        break;
    }
    wait_ns = failures_wait(authentication, client_key(transaction->address),
                            transaction->context->loop_now_ns);
    if (wait_ns == 0)
        return submit(transaction, rule, credentials, &hash);
    metric_add(transaction->context->metrics, METRIC_logins_limited, 1);
    transaction->retry_after_s = (uint32_t)((wait_ns + NS_PER_S - 1) / NS_PER_S);
    return AUTHENTICATION_LIMITED;
}

enum authentication_verdict authentication_verify(struct transaction *transaction,
                                                  const struct config_access *rule)
{
    struct credentials credentials UNINITIALIZED;
    enum authentication_verdict verdict = AUTHENTICATION_NONE;
    struct span value;

    if (request_find_field(transaction->request, SPAN("authorization"), &value) == 1 &&
        credentials_read(value, &credentials)) {
        verdict = verify(transaction, rule, &credentials);
        explicit_bzero(&credentials, sizeof(credentials));
    }
    return verdict;
}
