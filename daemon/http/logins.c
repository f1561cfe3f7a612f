#include "daemon/http/logins.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/http/request.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Credentials */

/* The value of a base64 digit, or -1. */
static int digit_value(char digit)
{
    if (digit >= 'A' && digit <= 'Z')
        return digit - 'A';
    if (digit >= 'a' && digit <= 'z')
        return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9')
        return digit - '0' + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

/* Returns false if TEXT is not canonical base64 with padding of at most CREDENTIALS_MAX bytes. */
static bool decode_base64(struct span text, struct credentials *credentials)
{
    uint32_t bits = 0;
    size_t digits = text.length, bytes;

    if (text.length == 0 || text.length % 4 != 0)
        return false;
    for (int i = 0; i < 2 && text.start[digits - 1] == '='; i++)
        digits--;
    bytes = digits * 6 / 8;
    if (bytes > sizeof(credentials->bytes))
        return false;
    credentials->length = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = digit_value(text.start[i]);

        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            credentials->bytes[credentials->length++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xff);
    }
    return digits % 4 == 0 || (bits & ((1U << (digits * 6 % 8)) - 1)) == 0;
}

bool credentials_read(struct span value, struct credentials *credentials)
{
    static const char scheme[] = "basic ";
    const size_t begin = sizeof(scheme) - 1;
    const char *colon;

    if (value.length < begin || strncasecmp(value.start, scheme, begin) != 0 ||
        !decode_base64(span_trim((struct span){value.start + begin, value.length - begin}),
                       credentials))
        return false;
    for (size_t i = 0; i < credentials->length; i++)
        if ((unsigned char)credentials->bytes[i] < ' ' || credentials->bytes[i] == 0x7f)
            return false;
    colon = memchr(credentials->bytes, ':', credentials->length);
    if (colon == NULL)
        return false;
    credentials->name = (struct span){credentials->bytes, (size_t)(colon - credentials->bytes)};
    credentials->password =
        (struct span){colon + 1, credentials->length - credentials->name.length - 1};
    return true;
}

/* Logins */

enum {
    VERIFIED_BUCKETS = 1024, /* powers of two */
    FAILURE_BUCKETS = 1024,
    WAYS = 4,
};

#define MINUTE_NS (60 * NS_PER_S)

struct verified {
    struct siphash hash[WAYS]; /* all zero: free */
    unsigned next;             /* the place to overwrite */
};

/* A bucket of GCRA times, as in transaction/limits.h. */
struct failures {
    uint64_t key[WAYS];
    uint64_t time_ns[WAYS];
};

struct logins {
    struct siphash_key key;
    uint64_t failure_interval_ns; /* at the permitted rate; 0: no limit */
    pthread_mutex_t mutex;        /* guards what follows; held for a few instructions */
    struct verified verified[VERIFIED_BUCKETS];
    struct failures failures[FAILURE_BUCKETS];

    pthread_cond_t changed; /* the queue, or stopping */
    struct mailbox_item *first, **last;
    uint32_t waiting; /* checks in the queue, and the one that runs */
    pthread_t thread;
    bool running, stopping;
};

struct logins *logins_new(uint32_t failures_a_minute)
{
    struct logins *logins = calloc(1, sizeof(*logins));

    if (logins == NULL)
        return NULL;
    if (getrandom(&logins->key, sizeof(logins->key), 0) != sizeof(logins->key)) {
        free(logins);
        return NULL;
    }
    if (failures_a_minute > 0)
        logins->failure_interval_ns = MINUTE_NS / failures_a_minute;
    logins->last = &logins->first;
    pthread_mutex_init(&logins->mutex, NULL);
    pthread_cond_init(&logins->changed, NULL);
    return logins;
}

void logins_free(struct logins *logins)
{
    if (logins == NULL)
        return;
    pthread_mutex_lock(&logins->mutex);
    logins->stopping = true;
    pthread_cond_signal(&logins->changed);
    pthread_mutex_unlock(&logins->mutex);
    if (logins->running)
        pthread_join(logins->thread, NULL);
    pthread_cond_destroy(&logins->changed);
    pthread_mutex_destroy(&logins->mutex);
    free(logins);
}

/* Verified passwords */

struct siphash logins_hash(const struct logins *logins, const char *file,
                           const struct credentials *credentials)
{
    struct {
        struct siphash file, login;
    } both = {siphash_of(&logins->key, file, strlen(file)),
              siphash_of(&logins->key, credentials->bytes, credentials->length)};
    struct siphash hash = siphash_of(&logins->key, &both, sizeof(both));

    hash.word[1] |= 1;
    return hash;
}

static struct verified *verified_bucket(struct logins *logins, const struct siphash *hash)
{
    return &logins->verified[hash->word[0] % VERIFIED_BUCKETS];
}

bool logins_is_verified(struct logins *logins, const struct siphash *hash)
{
    struct verified *bucket = verified_bucket(logins, hash);
    bool found = false;

    pthread_mutex_lock(&logins->mutex);
    for (int i = 0; i < WAYS; i++)
        found |= CRYPTO_memcmp(&bucket->hash[i], hash, sizeof(*hash)) == 0;
    pthread_mutex_unlock(&logins->mutex);
    return found;
}

static void remember_verified(struct logins *logins, const struct siphash *hash)
{
    struct verified *bucket = verified_bucket(logins, hash);

    pthread_mutex_lock(&logins->mutex);
    bucket->hash[bucket->next++ % WAYS] = *hash;
    pthread_mutex_unlock(&logins->mutex);
}

/* Failures */

/* Time of the failures of KEY on the clock of the bucket; NULL: there is none. */
static uint64_t *find_failures(struct logins *logins, uint64_t key, struct failures **bucket)
{
    struct siphash hash = siphash_of(&logins->key, &key, sizeof(key));

    *bucket = &logins->failures[hash.word[0] % FAILURE_BUCKETS];
    for (int i = 0; i < WAYS; i++)
        if ((*bucket)->key[i] == key)
            return &(*bucket)->time_ns[i];
    return NULL;
}

/* INTERVAL_NS is that of the permitted rate of KEY. The caller holds the mutex. */
static uint64_t wait_of(struct logins *logins, uint64_t key, uint64_t interval_ns, uint64_t now_ns)
{
    struct failures *bucket;
    const uint64_t *time_ns = find_failures(logins, key, &bucket);
    uint64_t latest_ns = now_ns + MINUTE_NS - interval_ns;

    return key != 0 && time_ns != NULL && *time_ns > latest_ns ? *time_ns - latest_ns : 0;
}

static void add_failure(struct logins *logins, uint64_t key, uint64_t interval_ns, uint64_t now_ns)
{
    struct failures *bucket;
    uint64_t *time_ns = find_failures(logins, key, &bucket);

    if (key == 0)
        return;
    if (time_ns == NULL) {
        int place = 0;

        for (int i = 1; i < WAYS; i++)
            if (bucket->time_ns[i] < bucket->time_ns[place])
                place = i;
        bucket->key[place] = key;
        time_ns = &bucket->time_ns[place];
        *time_ns = 0;
    }
    *time_ns = (*time_ns > now_ns ? *time_ns : now_ns) + interval_ns;
}

static void remove_failure(struct logins *logins, uint64_t key, uint64_t interval_ns)
{
    struct failures *bucket;
    uint64_t *time_ns = find_failures(logins, key, &bucket);

    if (key != 0 && time_ns != NULL)
        *time_ns -= interval_ns;
}

static uint64_t longest_wait(struct logins *logins, uint64_t key, uint64_t now_ns)
{
    uint64_t interval_ns = logins->failure_interval_ns;
    uint64_t own_ns = wait_of(logins, key, interval_ns, now_ns);
    uint64_t site_ns =
        wait_of(logins, client_site_key(key), interval_ns / CLIENT_SITE_FACTOR, now_ns);

    return own_ns > site_ns ? own_ns : site_ns;
}

uint64_t logins_wait_ns(struct logins *logins, uint64_t client_key, uint64_t now_ns)
{
    uint64_t wait_ns;

    if (logins->failure_interval_ns == 0)
        return 0;
    pthread_mutex_lock(&logins->mutex);
    wait_ns = longest_wait(logins, client_key, now_ns);
    pthread_mutex_unlock(&logins->mutex);
    return wait_ns;
}

/* Counts a failure in advance. Returns false if the client has too many. */
static bool reserve_failure(struct logins *logins, uint64_t client_key, uint64_t now_ns)
{
    uint64_t interval_ns = logins->failure_interval_ns;
    bool allowed;

    pthread_mutex_lock(&logins->mutex);
    allowed = interval_ns == 0 || longest_wait(logins, client_key, now_ns) == 0;
    if (allowed && interval_ns > 0) {
        add_failure(logins, client_key, interval_ns, now_ns);
        add_failure(logins, client_site_key(client_key), interval_ns / CLIENT_SITE_FACTOR, now_ns);
    }
    pthread_mutex_unlock(&logins->mutex);
    return allowed;
}

static void return_failure(struct logins *logins, uint64_t client_key)
{
    uint64_t interval_ns = logins->failure_interval_ns;

    pthread_mutex_lock(&logins->mutex);
    remove_failure(logins, client_key, interval_ns);
    remove_failure(logins, client_site_key(client_key), interval_ns / CLIENT_SITE_FACTOR);
    pthread_mutex_unlock(&logins->mutex);
}

/* Checking */

size_t logins_stand_in(const struct logins *logins, struct span name, size_t count)
{
    return siphash_of(&logins->key, name.start, name.length).word[0] % count;
}

static bool password_matches(const struct password_check *check, struct crypt_data *data)
{
    const char *hash = crypt_r(check->password, check->expected, data);
    size_t length = strlen(check->expected);
    bool matches = hash != NULL && strlen(hash) == length &&
                   CRYPTO_memcmp(hash, check->expected, length) == 0 && check->exists;

    explicit_bzero(data, sizeof(*data));
    return matches;
}

/* Of requests that arrive with the same password, only the first one is checked. */
static enum password_verdict judge_password(struct logins *logins, struct password_check *check,
                                            struct crypt_data *data)
{
    if (logins_is_verified(logins, &check->hash))
        return PASSWORD_GOOD;
    if (!reserve_failure(logins, check->client_key, clock_monotonic_ns()))
        return PASSWORD_LIMITED;
    if (!password_matches(check, data))
        return PASSWORD_WRONG;
    return_failure(logins, check->client_key);
    remember_verified(logins, &check->hash);
    return PASSWORD_GOOD;
}

/* The next check; NULL: none follows. */
static struct password_check *take_check(struct logins *logins)
{
    struct mailbox_item *item;

    pthread_mutex_lock(&logins->mutex);
    while (logins->first == NULL && !logins->stopping)
        pthread_cond_wait(&logins->changed, &logins->mutex);
    item = logins->first;
    if (item != NULL && (logins->first = item->next) == NULL)
        logins->last = &logins->first;
    pthread_mutex_unlock(&logins->mutex);
    return item != NULL ? CONTAINER_OF(item, struct password_check, item) : NULL;
}

static void *check_passwords(void *argument)
{
    struct crypt_data data = {0}; /* 32 KiB */
    struct logins *logins = argument;
    struct password_check *check;

    pthread_setname_np(pthread_self(), "passwords");
    while ((check = take_check(logins)) != NULL) {
        check->verdict = judge_password(logins, check, &data);
        pthread_mutex_lock(&logins->mutex);
        logins->waiting--;
        pthread_mutex_unlock(&logins->mutex);
        mailbox_post(check->owner, &check->item, check->finish);
    }
    return NULL;
}

bool logins_submit(struct logins *logins, struct password_check *check, uint32_t most)
{
    bool queued;

    pthread_mutex_lock(&logins->mutex);
    if (!logins->running)
        logins->running = pthread_create(&logins->thread, NULL, check_passwords, logins) == 0;
    queued = logins->running && logins->waiting < most;
    if (queued) {
        logins->waiting++;
        check->item.next = NULL;
        *logins->last = &check->item;
        logins->last = &check->item.next;
        pthread_cond_signal(&logins->changed);
    }
    pthread_mutex_unlock(&logins->mutex);
    return queued;
}
