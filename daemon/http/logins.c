#include "daemon/http/logins.h"

#include "common/clock.h"
#include "daemon/http/request.h"

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
        !decode_base64(http_trim((struct span){value.start + begin, value.length - begin}),
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

#define MINUTE_NS      (60 * NS_PER_S)
#define LONGEST_BAN_NS (60 * MINUTE_NS)

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
    uint64_t ahead_ns;
    pthread_mutex_t mutex; /* guards what follows; held for a few instructions */
    struct verified verified[VERIFIED_BUCKETS];
    struct failures failures[FAILURE_BUCKETS];
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
    if (failures_a_minute > 0) {
        logins->failure_interval_ns = MINUTE_NS / failures_a_minute;
        logins->ahead_ns = (failures_a_minute - 1) * logins->failure_interval_ns;
    }
    pthread_mutex_init(&logins->mutex, NULL);
    return logins;
}

void logins_free(struct logins *logins)
{
    if (logins != NULL)
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

void logins_remember(struct logins *logins, const struct siphash *hash)
{
    struct verified *bucket = verified_bucket(logins, hash);

    if (logins_is_verified(logins, hash)) /* two requests with the same password */
        return;
    pthread_mutex_lock(&logins->mutex);
    bucket->hash[bucket->next++ % WAYS] = *hash;
    pthread_mutex_unlock(&logins->mutex);
}

/* Failures */

static struct failures *failures_of(struct logins *logins, uint64_t key)
{
    struct siphash hash = siphash_of(&logins->key, &key, sizeof(key));

    return &logins->failures[hash.word[0] % FAILURE_BUCKETS];
}

uint64_t logins_wait_ns(struct logins *logins, uint64_t client_key, uint64_t now_ns)
{
    struct failures *bucket = failures_of(logins, client_key);
    uint64_t latest = now_ns + logins->ahead_ns, wait_ns = 0;

    if (client_key == 0 || logins->failure_interval_ns == 0)
        return 0;
    pthread_mutex_lock(&logins->mutex);
    for (int i = 0; i < WAYS; i++)
        if (bucket->key[i] == client_key && bucket->time_ns[i] > latest)
            wait_ns = bucket->time_ns[i] - latest;
    pthread_mutex_unlock(&logins->mutex);
    return wait_ns;
}

void logins_add_failure(struct logins *logins, uint64_t client_key, uint64_t now_ns)
{
    struct failures *bucket = failures_of(logins, client_key);
    int place = 0;

    if (client_key == 0 || logins->failure_interval_ns == 0)
        return;
    pthread_mutex_lock(&logins->mutex);
    for (int i = 1; i < WAYS && bucket->key[place] != client_key; i++)
        if (bucket->key[i] == client_key || bucket->time_ns[i] < bucket->time_ns[place])
            place = i;
    if (bucket->key[place] != client_key || bucket->time_ns[place] < now_ns)
        bucket->time_ns[place] = now_ns;
    bucket->key[place] = client_key;
    bucket->time_ns[place] += logins->failure_interval_ns;
    if (bucket->time_ns[place] > now_ns + logins->ahead_ns + LONGEST_BAN_NS)
        bucket->time_ns[place] = now_ns + logins->ahead_ns + LONGEST_BAN_NS;
    pthread_mutex_unlock(&logins->mutex);
}

/* Checking */

size_t logins_stand_in(const struct logins *logins, struct span name, size_t count)
{
    return siphash_of(&logins->key, name.start, name.length).word[0] % count;
}

void password_check_run(struct password_check *check)
{
    const char *hash = crypt_r(check->password, check->expected, &check->data);
    size_t length = strlen(check->expected);

    check->good = hash != NULL && strlen(hash) == length &&
                  CRYPTO_memcmp(hash, check->expected, length) == 0 && check->exists;
}
