#include "daemon/keys/keys.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/channel.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/private_keys.h"
#include "daemon/tls/remote_key.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

/* A thread with so many unread answers hangs. */
enum { QUEUED_BYTES_MAX = 4 * 1024 * 1024 };

/* The keys of one configuration. */
struct key_set {
    LIST_ENTRY(key_set) link;
    uint32_t number;
    uint32_t clients;
    uint32_t count;
    EVP_PKEY *key[];
};

/* A serving thread of a worker. */
struct client {
    LIST_ENTRY(client) link;
    struct keys *keys;
    struct key_set *set;
    struct channel *channel;
    struct message_keys_client identity;
    bool ended; /* to be freed after the loop iteration */
};

struct keys {
    struct event_base *base;
    struct channel *master;
    LIST_HEAD(, key_set) sets;
    LIST_HEAD(, client) clients;
    bool some_ended, orphaned;
};

/* Sets of keys */

static struct key_set *find_set(const struct keys *keys, uint32_t number)
{
    struct key_set *set;

    LIST_FOREACH(set, &keys->sets, link)
    if (set->number == number)
        return set;
    return NULL;
}

/* Frees SET unless it has clients. */
static void release_set(struct key_set *set)
{
    if (set->clients > 0)
        return;
    for (uint32_t i = 0; i < set->count; i++)
        EVP_PKEY_free(set->key[i]);
    LIST_REMOVE(set, link);
    free(set);
}

/* The master sends a set before each of its clients. Only the first one is new. */
static void add_set(struct keys *keys, const struct message_keys_set *message, int file)
{
    struct key_set *set;

    if (file < 0 || find_set(keys, message->set) != NULL)
        return;
    set = calloc(1, sizeof(*set) + message->count * sizeof(EVP_PKEY *));
    if (set == NULL || private_keys_read(file, set->key, message->count) != 0) {
        free(set);
        return;
    }
    set->number = message->set;
    set->count = message->count;
    LIST_INSERT_HEAD(&keys->sets, set, link);
}

/* Signatures */

static bool prepare(EVP_MD_CTX *context, EVP_PKEY *key, const struct signature_scheme *scheme)
{
    EVP_PKEY_CTX *options; /* belongs to CONTEXT */

    return EVP_DigestSignInit_ex(context, &options, scheme->digest, NULL, NULL, key, NULL) == 1 &&
           (!scheme->pss ||
            (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
             EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1));
}

/* Returns the length of the signature in SIGNATURE; 0: it cannot be made. */
static size_t sign(EVP_PKEY *key, const struct signature_scheme *scheme, const uint8_t *bytes,
                   size_t length, uint8_t *signature)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t made = SIGNATURE_BYTES_MAX;

    if (context == NULL || !prepare(context, key, scheme) ||
        EVP_DigestSign(context, signature, &made, bytes, length) != 1)
        made = 0;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return made;
}

static void answer(const struct client *client, const struct message_sign *request,
                   const struct signature_scheme *scheme, size_t length)
{
    _Alignas(struct message_signature) char
        space[sizeof(struct message_signature) + SIGNATURE_BYTES_MAX];
    struct message_signature *message = (struct message_signature *)space;
    size_t made =
        sign(client->set->key[request->key], scheme, request->bytes, length, message->bytes);

    message->number = request->number;
    channel_send(client->channel, MESSAGE_SIGNATURE, message, sizeof(*message) + made, -1, false);
}

/* Serving threads */

static void end_client(struct client *client)
{
    client->ended = client->keys->some_ended = true;
}

static void on_closed(void *owner)
{
    end_client(owner);
}

/* The worker is compromised: the master kills it. */
static void on_fault(void *owner, const char *what)
{
    struct client *client = owner;

    (void)what;
    channel_send(client->keys->master, MESSAGE_KEYS_FAULT, &client->identity,
                 sizeof(client->identity), -1, false);
    end_client(client);
}

static void on_request(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct client *client = owner;
    const struct message_sign *request = data;
    const struct signature_scheme *scheme = signature_scheme_get(request->scheme);
    size_t count = length - sizeof(*request);

    (void)kind, (void)fd;
    if (request->key >= client->set->count || scheme == NULL ||
        !EVP_PKEY_is_a(client->set->key[request->key], scheme->key_type) ||
        !signature_is_of_handshake(request->bytes, count))
        channel_fail(client->channel, "requested what no handshake needs");
    else
        answer(client, request, scheme, count);
}

static void add_client(struct keys *keys, const struct message_keys_client *message, int fd)
{
    struct key_set *set = find_set(keys, message->set);
    struct client *client = fd >= 0 && set != NULL ? calloc(1, sizeof(*client)) : NULL;
    const struct channel_owner owner = {.message = on_request,
                                        .closed = on_closed,
                                        .fault = on_fault,
                                        .owner = client,
                                        .queue_max = QUEUED_BYTES_MAX};

    if (client != NULL)
        client->channel = channel_open(keys->base, fd, ROUTE_SIGN_REQUESTS, &owner);
    else if (fd >= 0)
        close(fd);
    if (client == NULL || client->channel == NULL) {
        free(client);
        return;
    }
    client->keys = keys;
    client->set = set;
    client->identity = *message;
    set->clients++;
    LIST_INSERT_HEAD(&keys->clients, client, link);
}

static void free_client(struct client *client)
{
    LIST_REMOVE(client, link);
    channel_close(client->channel);
    client->set->clients--;
    release_set(client->set);
    free(client);
}

static void free_ended(struct keys *keys)
{
    struct client *client = LIST_FIRST(&keys->clients), *next;

    keys->some_ended = false;
    for (; client != NULL; client = next) {
        next = LIST_NEXT(client, link);
        if (client->ended)
            free_client(client);
    }
}

/* The master */

static void on_order(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct keys *keys = owner;

    (void)length;
    if (kind == MESSAGE_KEYS_SET) {
        add_set(keys, data, fd);
        if (fd >= 0)
            close(fd);
    } else if (kind == MESSAGE_KEYS_CLIENT) {
        add_client(keys, data, fd);
    } else {
        channel_send(keys->master, MESSAGE_KEYS_PONG, NULL, 0, -1, false);
    }
}

static void on_master_gone(void *owner)
{
    struct keys *keys = owner;

    keys->orphaned = true;
}

static void on_master_fault(void *owner, const char *what)
{
    (void)what;
    on_master_gone(owner);
}

static int set_up(struct keys *keys, const struct keys_setup *setup)
{
    static const struct rlimit none = {0, 0};
    const int keep[] = {setup->command_fd, setup->lock_fd};
    const struct sandbox_setup sandbox = {.role = SANDBOX_KEYS,
                                          .config = setup->config,
                                          .keep = keep,
                                          .keep_count = ARRAY_LENGTH(keep)};
    const struct channel_owner owner = {
        .message = on_order, .closed = on_master_gone, .fault = on_master_fault, .owner = keys};

    segment_forget(setup->segment);
    /* Even without a sandbox, no other process reads its memory. */
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
        sandbox_enter(&sandbox) != 0)
        return -1;
    keys->base = event_base_new();
    if (keys->base == NULL)
        return -1;
    keys->master = channel_open(keys->base, setup->command_fd, ROUTE_KEYS_ORDERS, &owner);
    return keys->master != NULL ? 0 : -1;
}

static void tear_down(struct keys *keys)
{
    while (!LIST_EMPTY(&keys->clients))
        free_client(LIST_FIRST(&keys->clients));
    while (!LIST_EMPTY(&keys->sets))
        release_set(LIST_FIRST(&keys->sets));
    channel_close(keys->master);
    if (keys->base != NULL)
        event_base_free(keys->base);
}

int keys_run(const struct keys_setup *setup)
{
    struct keys keys = {0};
    int status = EXIT_FAILURE;

    events_set_role(ROLE_KEYS);
    events_attach(NULL, 0); /* it has no ring in the segment; the master reports its end */
    signals_ignore_in_child();
    if (set_up(&keys, setup) == 0) {
        while (!keys.orphaned && event_base_loop(keys.base, EVLOOP_ONCE) == 0)
            if (keys.some_ended)
                free_ended(&keys);
        status = keys.orphaned ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    tear_down(&keys);
    return status;
}
