#include "console/data/tally.h"

#include <string.h>

#define ODD_A 0x9e3779b97f4a7c15u
#define ODD_B 0xc2b2ae3d27d4eb4fu

static uint64_t word_at(const char *from, size_t length)
{
    uint64_t word = 0;

    memcpy(&word, from, length < sizeof(word) ? length : sizeof(word));
    return word;
}

/* Two words a step, so that their products do not wait for each other. Only the speed depends on it. */
static uint64_t hash_of(const char *key, size_t length)
{
    uint64_t hash = length;

    for (; length >= 16; key += 16, length -= 16)
        hash = (hash << 7 | hash >> 57) ^ (word_at(key, 8) * ODD_A + word_at(key + 8, 8) * ODD_B);
    if (length > 8)
        hash ^= word_at(key + 8, length - 8) * ODD_B;
    if (length > 0)
        hash = (hash << 7 | hash >> 57) ^ word_at(key, length) * ODD_A;
    hash *= ODD_B;
    return hash ^ hash >> 32;
}

static struct span key_of(const struct tally_place *place)
{
    return (struct span){place->key, place->length};
}

/* Starts the sum of KEY. */
static void take_place(struct tally *tally, struct tally_place *place, struct span key,
                       uint64_t hash)
{
    if (place->sum.count == 0)
        tally->filled[tally->used++] = (uint16_t)(place - tally->place);
    place->sum = (struct tally_sum){.count = 0};
    place->hash = hash;
    place->length = (uint32_t)key.length;
    memcpy(place->key, key.start, key.length);
}

void tally_add(struct tally *tally, struct span key, const struct tally_sum *sum, tally_pass *pass,
               void *context)
{
    uint64_t hash = hash_of(key.start, key.length);
    struct tally_place *place = &tally->place[hash % TALLY_PLACES];

    if (key.length > TALLY_KEY_BYTES) {
        pass(context, key, sum);
        return;
    }
    if (place->sum.count == 0 || place->hash != hash || !span_is(key_of(place), key)) {
        if (place->sum.count > 0)
            pass(context, key_of(place), &place->sum);
        take_place(tally, place, key, hash);
    }
    place->sum.count += sum->count;
    place->sum.bytes += sum->bytes;
    place->sum.duration_ns += sum->duration_ns;
    if (sum->longest_ns > place->sum.longest_ns)
        place->sum.longest_ns = sum->longest_ns;
}

void tally_flush(struct tally *tally, tally_pass *pass, void *context)
{
    for (uint32_t i = 0; i < tally->used; i++) {
        struct tally_place *place = &tally->place[tally->filled[i]];

        pass(context, key_of(place), &place->sum);
        place->sum.count = 0;
    }
    tally->used = 0;
}
