#include "daemon/keys/keys.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/channel.h"
#include "daemon/base/events.h"
#include "daemon/base/process_title.h"
#include "daemon/base/service.h"
#include "daemon/keys/signed_content.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/private_keys.h"
#include "daemon/tls/remote_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * A thread with so many unread answers hangs; and the process with so many unread messages of the
 * master, which are more than the links of all threads of a large server.
 */
enum { ANSWER_BYTES_MAX = 4 * 1024 * 1024, ORDER_BYTES_MAX = 1024 * 1024 };

/* Requests of a thread that are read before they are served; the others stay in its socket. */
enum { JOBS_MAX = 2 };

enum { SHARES = 64 }; /* at least the number of slots for workers */

/* The keys of one configuration. */
struct key_set {
    LIST_ENTRY(key_set) link;
    uint32_t number;
    uint32_t clients;
    bool tls12; /* besides TLS 1.3 */
    uint32_t count;
    EVP_PKEY *key[];
};

/* A valid request. */
struct job {
    uint64_t number;
    EVP_PKEY *key;
    const struct signature_scheme *scheme; /* NULL: answered without a signature */
    size_t length;
    uint8_t bytes[SIGNED_BYTES_MAX];
};

/* A serving thread of a worker. */
struct client {
    LIST_ENTRY(client) link;
    TAILQ_ENTRY(client) turn; /* while it has jobs */
    struct keys *keys;
    struct key_set *set;
    struct channel *channel;
    struct event *closed; /* the worker has ended, whatever is still to read */
    struct message_keys_client identity;
    struct job job[JOBS_MAX]; /* the oldest first */
    size_t job_count;
    bool ended; /* the loop frees it after this iteration */
};

struct keys {
    struct event_base *base;
    struct channel *master;
    LIST_HEAD(, key_set) sets;
    LIST_HEAD(, client) clients;
    TAILQ_HEAD(, client) waiting; /* those with jobs, by the time since which they wait */
    uint64_t served;              /* number of jobs */
    uint64_t last_served[SHARES]; /* its value at the last job of a worker, by slot */
    bool some_ended, orphaned;
};

/* Sets of keys */

static struct key_set *find_key_set(const struct keys *keys, uint32_t number)
{
    struct key_set *set;

    LIST_FOREACH(set, &keys->sets, link)
    if (set->number == number)
        return set;
    return NULL;
}

/* Frees SET unless it has clients. */
static void release_key_set(struct key_set *set)
{
    if (set->clients > 0)
        return;
    for (uint32_t i = 0; i < set->count; i++)
        EVP_PKEY_free(set->key[i]);
    LIST_REMOVE(set, link);
    free(set);
}

/* The master sends a set before each of its clients. Only the first one is new. */
static void add_key_set(struct keys *keys, const struct message_keys_set *message, int file)
{
    struct key_set *set;

    if (file < 0 || find_key_set(keys, message->set) != NULL)
        return;
    set = calloc(1, sizeof(*set) + message->count * sizeof(EVP_PKEY *));
    if (set == NULL || private_keys_read(file, set->key, message->count) != 0) {
        free(set);
        return;
    }
    set->number = message->set;
    set->tls12 = message->tls12 != 0;
    set->count = message->count;
    LIST_INSERT_HEAD(&keys->sets, set, link);
}

/* Signatures */

/* Returns the length of the signature in SIGNATURE; 0: it cannot be made. */
static size_t make_signature(EVP_PKEY *key, const struct signature_scheme *scheme,
                             const uint8_t *bytes, size_t length, uint8_t *signature)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options; /* belongs to CONTEXT */
    size_t made = SIGNATURE_BYTES_MAX;

    if (context == NULL ||
        EVP_DigestSignInit_ex(context, &options, scheme->digest, NULL, NULL, key, NULL) != 1 ||
        (scheme->pss && (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) != 1 ||
                         EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) != 1)) ||
        EVP_DigestSign(context, signature, &made, bytes, length) != 1)
        made = 0;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return made;
}

/* Serving threads, the clients */

static void on_client_closed(void *owner)
{
    struct client *client = owner;

    client->ended = client->keys->some_ended = true;
}

static void on_worker_ended(evutil_socket_t fd, short what, void *owner)
{
    (void)fd, (void)what;
    on_client_closed(owner);
}

/* The worker is compromised: the master kills it. */
static void on_client_fault(void *owner, const char *what)
{
    struct client *client = owner;

    (void)what;
    channel_send(client->keys->master, MESSAGE_KEYS_FAULT, &client->identity,
                 sizeof(client->identity), -1, false);
    on_client_closed(client);
}

static void on_sign_request(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct client *client = owner;
    const struct message_sign *request = data;
    const struct signature_scheme *scheme = signature_scheme_get(request->scheme);
    struct job *job = &client->job[client->job_count];
    enum signed_content content = CONTENT_INVALID;

    (void)kind, (void)fd;
    job->length = length - sizeof(*request);
    if (request->key < client->set->count && scheme != NULL &&
        EVP_PKEY_is_a(client->set->key[request->key], scheme->key_type))
        content = signed_content_check(scheme, client->set->tls12, request->bytes, job->length);
    if (content == CONTENT_INVALID) {
        channel_fail(client->channel, "requested what no handshake needs");
        return;
    }
    job->number = request->number;
    job->key = client->set->key[request->key];
    job->scheme = content == CONTENT_VALID ? scheme : NULL;
    memcpy(job->bytes, request->bytes, job->length);
    if (client->job_count++ == 0)
        TAILQ_INSERT_TAIL(&client->keys->waiting, client, turn);
    if (client->job_count == JOBS_MAX)
        channel_set_reading(client->channel, false);
}

/* Removes the oldest job of CLIENT, if it is valid, after it has been answered. */
static void answer_job(struct client *client)
{
    const struct job *job = &client->job[0];
    _Alignas(struct message_signature) char
        space[sizeof(struct message_signature) + SIGNATURE_BYTES_MAX];
    struct message_signature *answer = (struct message_signature *)space;
    size_t made = 0;

    answer->number = job->number;
    if (job->scheme != NULL)
        made = make_signature(job->key, job->scheme, job->bytes, job->length, answer->bytes);
    channel_send(client->channel, MESSAGE_SIGNATURE, answer, sizeof(*answer) + made, -1, false);
    if (client->job_count == JOBS_MAX)
        channel_set_reading(client->channel, true);
    client->job_count--;
    memmove(client->job, client->job + 1, client->job_count * sizeof(*job));
}

/*
 * Answers one job: that of the worker whose last one was the longest ago, and among its threads of
 * the one that waits the longest.
 */
static void serve_next_client(struct keys *keys)
{
    struct client *client, *next = TAILQ_FIRST(&keys->waiting);

    TAILQ_FOREACH(client, &keys->waiting, turn)
    if (keys->last_served[client->identity.worker % SHARES] <
        keys->last_served[next->identity.worker % SHARES])
        next = client;
    if (next == NULL)
        return;
    keys->last_served[next->identity.worker % SHARES] = ++keys->served;
    TAILQ_REMOVE(&keys->waiting, next, turn);
    answer_job(next);
    if (next->job_count > 0)
        TAILQ_INSERT_TAIL(&keys->waiting, next, turn);
}

static void free_keys_client(struct client *client)
{
    LIST_REMOVE(client, link);
    if (client->job_count > 0)
        TAILQ_REMOVE(&client->keys->waiting, client, turn);
    if (client->closed != NULL)
        event_free(client->closed);
    channel_close(client->channel);
    client->set->clients--;
    release_key_set(client->set);
    free(client);
}

static void add_keys_client(struct keys *keys, const struct message_keys_client *message, int fd)
{
    struct key_set *set = find_key_set(keys, message->set);
    struct client *client = fd >= 0 && set != NULL ? calloc(1, sizeof(*client)) : NULL;
    const struct channel_owner owner = {.message = on_sign_request,
                                        .closed = on_client_closed,
                                        .fault = on_client_fault,
                                        .owner = client,
                                        .queue_max = ANSWER_BYTES_MAX};

    if (client == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    client->keys = keys;
    client->set = set;
    client->identity = *message;
    set->clients++;
    LIST_INSERT_HEAD(&keys->clients, client, link);
    client->channel = channel_open(keys->base, fd, ROUTE_SIGN_REQUESTS, &owner);
    if (client->channel != NULL)
        client->closed = event_new(keys->base, fd, EV_CLOSED, on_worker_ended, client);
    if (client->closed == NULL || event_add(client->closed, NULL) != 0)
        free_keys_client(client);
}

/* Those that have ended, or ALL. */
static void free_clients(struct keys *keys, bool all)
{
    struct client *client = LIST_FIRST(&keys->clients), *next;

    keys->some_ended = false;
    for (; client != NULL; client = next) {
        next = LIST_NEXT(client, link);
        if (client->ended || all)
            free_keys_client(client);
    }
}

/* Orders of the master */

static void on_keys_order(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct keys *keys = owner;

    (void)length;
    if (kind == MESSAGE_KEYS_SET) {
        add_key_set(keys, data, fd);
        if (fd >= 0)
            close(fd);
    } else if (kind == MESSAGE_KEYS_CLIENT) {
        add_keys_client(keys, data, fd);
    } else {
        channel_send(keys->master, MESSAGE_KEYS_PONG, NULL, 0, -1, false);
    }
}

static void on_keys_orphaned(void *owner)
{
    struct keys *keys = owner;

    keys->orphaned = true;
}

static void on_keys_order_fault(void *owner, const char *what)
{
    (void)what;
    on_keys_orphaned(owner);
}

static int set_up_keys(struct keys *keys, const struct keys_setup *setup)
{
    static const struct rlimit none = {0, 0};
    const int keep[] = {setup->command_fd};
    const struct sandbox_setup sandbox = {.role = SANDBOX_KEYS,
                                          .config = setup->config,
                                          .keep = keep,
                                          .keep_count = ARRAY_LENGTH(keep)};
    const struct channel_owner owner = {.message = on_keys_order,
                                        .closed = on_keys_orphaned,
                                        .fault = on_keys_order_fault,
                                        .owner = keys};

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

/* Runs until the channel to the master is closed. Returns the exit status. */
static int run_keys(void *argument)
{
    const struct keys_setup *setup = argument;
    struct keys keys = {0};
    int status = EXIT_FAILURE;

    TAILQ_INIT(&keys.waiting);
    events_set_role(ROLE_KEYS);
    process_title_set_child("keys");
    events_attach(NULL, 0); /* it has no ring in the segment; the master reports its end */
    signals_ignore_in_child();
    if (set_up_keys(&keys, setup) == 0) {
        while (!keys.orphaned &&
               event_base_loop(keys.base, TAILQ_EMPTY(&keys.waiting)
                                              ? EVLOOP_ONCE
                                              : EVLOOP_ONCE | EVLOOP_NONBLOCK) == 0) {
            if (keys.some_ended)
                free_clients(&keys, false);
            serve_next_client(&keys);
        }
        status = keys.orphaned ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    free_clients(&keys, true);
    while (!LIST_EMPTY(&keys.sets))
        release_key_set(LIST_FIRST(&keys.sets));
    channel_close(keys.master);
    if (keys.base != NULL)
        event_base_free(keys.base);
    return status;
}

/* The master's side: messages of the process */

static void on_keys_process_fault(void *owner, const char *what)
{
    const struct keys_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    child_fault(&process->child, what);
}

static void on_keys_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct keys_process *process = owner;
    const struct message_keys_client *faulty = data;

    (void)length, (void)fd;
    if (kind == MESSAGE_KEYS_FAULT)
        process->fault(process->context, faulty->worker, faulty->pid);
    else if (process->pinged_ns == 0)
        channel_fail(process->child.channel, "answered a ping that it was not sent");
    else
        process->pinged_ns = 0;
}

/* Start and end */

bool keys_process_start(struct keys_process *process, struct keys_setup *setup,
                        void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_keys_report,
                                        .closed = child_ignore_closed,
                                        .fault = on_keys_process_fault,
                                        .owner = process,
                                        .queue_max = ORDER_BYTES_MAX,
                                        .rate_max = CHANNEL_REPORTS_MAX};
    const struct child_program program = {run_keys, setup, after_fork, context};

    if (!child_is_due(&process->child, clock_monotonic_ns()))
        return false;
    process->pinged_ns = 0;
    return child_fork_with_channel(&process->child, &program, &setup->command_fd, process->base,
                                   ROUTE_KEYS_REPORTS, &owner) == 0;
}

void keys_process_ended(struct keys_process *process, const char *how)
{
    child_count_end(&process->child, how);
    child_forget(&process->child);
}

/* Links */

/* Sends KIND with a copy of FD. Returns 0, or -1 with errno. */
static int send_key_file(const struct keys_process *process, int kind, const void *data,
                         size_t length, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return -1;
    if (channel_send(process->child.channel, kind, data, length, copy, true) == 0)
        return 0;
    close(copy);
    return -1;
}

int keys_process_link(const struct keys_process *process,
                      const struct certificate_set *certificates, uint32_t worker, pid_t pid)
{
    struct message_keys_set set;
    int file = certificate_set_keys(certificates, &set);
    const struct message_keys_client client = {set.set, worker, pid};
    int fds[2];

    if (channel_pair(fds) != 0)
        return -1;
    if (send_key_file(process, MESSAGE_KEYS_SET, &set, sizeof(set), file) == 0 &&
        channel_send(process->child.channel, MESSAGE_KEYS_CLIENT, &client, sizeof(client), fds[1],
                     true) == 0)
        return fds[0];
    close(fds[0]);
    close(fds[1]);
    return -1;
}

/* Hanging */

void keys_process_check(struct keys_process *process, uint64_t timeout_ms, uint64_t resumed_ns,
                        uint64_t now_ns)
{
    if (process->child.pid == 0 || timeout_ms == 0)
        return;
    if (process->pinged_ns == 0) {
        if (channel_send(process->child.channel, MESSAGE_KEYS_PING, NULL, 0, -1, false) == 0)
            process->pinged_ns = now_ns;
    } else if (child_kill_silent(&process->child, process->pinged_ns, timeout_ms, resumed_ns,
                                 now_ns)) {
        process->pinged_ns = now_ns;
    }
}
