/* Wraps functions of the worker and obeys the driver; see traitor.h. */
#include "traitor.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/transaction/internal.h"
#include "daemon/worker/internal.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NEEDS_ANY, NEEDS_SANDBOX };

static const struct {
    const char *name;
    bool needs_sandbox;
    attack *run;
} attacks[] = {
#define ATTACK(name, needs, purpose) {#name, NEEDS_##needs == NEEDS_SANDBOX, attack_##name},
#include "attacks.def"
#undef ATTACK
};

static struct traitor traitor = {.orders = -1};
static uint32_t traitor_slot;

/* Orders */

static void __attribute__((format(printf, 1, 2))) answer(const char *format, ...)
{
    char line[2048];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (send(traitor.orders, line, (size_t)length, MSG_NOSIGNAL) < 0)
        _exit(EXIT_FAILURE);
}

static void list_attacks(void)
{
    char list[2048] = "attacks";

    for (size_t i = 0; i < ARRAY_LENGTH(attacks); i++) {
        if (attacks[i].needs_sandbox && !traitor.sandboxed)
            continue;
        strcat(list, " ");
        strcat(list, attacks[i].name);
    }
    answer("%s", list);
}

static void obey(const char *order)
{
    struct chance chance = {0};
    char name[64];

    if (sscanf(order, "%63s %" SCNu64, name, &chance.state) < 2) {
        list_attacks();
        return;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(attacks); i++) {
        const char *breach;

        if (strcmp(attacks[i].name, name) != 0)
            continue;
        breach = attacks[i].run(&traitor, &chance);
        if (breach != NULL)
            answer("breach %s: %s", name, breach);
        else
            answer("done %s", name);
        return;
    }
    answer("breach %s: no such attack", name);
}

static void *obey_orders(void *argument)
{
    char order[128];
    ssize_t got;

    answer("ready %d", getpid());
    while ((got = recv(traitor.orders, order, sizeof(order) - 1, 0)) > 0) {
        order[got] = '\0';
        obey(order);
    }
    return argument;
}

uint64_t attack_end_ns(void)
{
    return clock_monotonic_ns() + 300 * NS_PER_MS;
}

/* What can be seen only before the sandbox */

static void record_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        uintptr_t start, end;
        char access[5];
        unsigned long inode;

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*s %lu", &start, &end, access,
                   &inode) != 4 ||
            access[3] != 's' || traitor.mapping_count == TRAITOR_MAPPINGS)
            continue;
        if (strstr(line, "/webserverd.") != NULL)
            traitor.segment_inode = inode;
        traitor.mapping[traitor.mapping_count++] = (struct mapping){
            (_Atomic uint64_t *)start, (end - start) / sizeof(uint64_t), access[1] == 'w'};
    }
    if (maps != NULL)
        fclose(maps);
}

/* True if this worker is to be the traitor. */
static bool read_role(void)
{
    const char *role = getenv("TRAITOR");

    return role != NULL && sscanf(role, "%" SCNu32 ":%d", &traitor_slot, &traitor.orders) == 2;
}

/* Wrapped functions: __real_NAME() is the original. */

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __real_sandbox_enter(const struct sandbox_setup *setup);
int __wrap_sandbox_enter(const struct sandbox_setup *setup);
struct channel *__real_channel_open(struct event_base *base, int fd, enum message_route receives,
                                    const struct channel_owner *owner);
struct channel *__wrap_channel_open(struct event_base *base, int fd, enum message_route receives,
                                    const struct channel_owner *owner);
void __real_worker_receive_connection(struct worker *worker,
                                      const struct message_connection *message, int fd);
void __wrap_worker_receive_connection(struct worker *worker,
                                      const struct message_connection *message, int fd);
handler __real_handler_files, __wrap_handler_files;
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* The first descriptors to keep are those of worker.c, in its order. */
int __wrap_sandbox_enter(const struct sandbox_setup *setup)
{
    struct sandbox_setup wider = *setup;
    int keep[8];

    if (!read_role())
        return __real_sandbox_enter(setup);
    traitor.commands = setup->keep[0];
    traitor.connections = setup->keep[1];
    traitor.doorbell = setup->keep[2];
    traitor.sandboxed = sandbox_features().built;
    record_mappings();
    memcpy(keep, setup->keep, setup->keep_count * sizeof(*keep));
    keep[wider.keep_count++] = traitor.orders;
    wider.keep = keep;
    return __real_sandbox_enter(&wider);
}

/* A worker opens the channel of connections when its context is complete. */
struct channel *__wrap_channel_open(struct event_base *base, int fd, enum message_route receives,
                                    const struct channel_owner *owner)
{
    const struct worker *worker = owner->owner;
    pthread_t thread;

    if (receives != ROUTE_DISPATCH || traitor.orders < 0)
        return __real_channel_open(base, fd, receives, owner);
    if (worker->context.worker_slot != traitor_slot) {
        close(traitor.orders);
        return __real_channel_open(base, fd, receives, owner);
    }
    traitor.context = &worker->context;
    return pthread_create(&thread, NULL, obey_orders, NULL) == 0 && pthread_detach(thread) == 0
               ? __real_channel_open(base, fd, receives, owner)
               : NULL;
}

/* What happens to this connection from now on is no fault of an honest worker. */
void report_connection(const struct traitor *taker, int fd)
{
    struct sockaddr_in peer = {.sin_port = 0};
    socklen_t length = sizeof(peer);
    char line[32];
    int written;

    if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 || peer.sin_family != AF_INET)
        return;
    written = snprintf(line, sizeof(line), "has %u", ntohs(peer.sin_port));
    send(taker->orders, line, (size_t)written, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void __wrap_worker_receive_connection(struct worker *worker,
                                      const struct message_connection *message, int fd)
{
    if (traitor.context == &worker->context)
        report_connection(&traitor, fd);
    __real_worker_receive_connection(worker, message, fd);
}

/* Answers /whoami with the slot and the process id of the worker. */
enum transaction_result __wrap_handler_files(struct transaction *transaction,
                                             const struct target *target)
{
    struct resource *page;
    char text[64];
    int length;

    if (strcmp(target->path, "/whoami") != 0)
        return __real_handler_files(transaction, target);
    length = snprintf(text, sizeof(text), "%u %d\n", transaction->context->worker->worker_slot,
                      getpid());
    if (resource_new_page((struct span){target->path, target->length},
                          "Content-Type: text/plain\r\n", text, (size_t)length, &page) != 0)
        return reply_error(transaction, 503);
    return reply_page(transaction, 200, page);
}
