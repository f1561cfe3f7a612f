#include "console/data/caller.h"

#include "common/clock.h"
#include "common/control_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define ANSWER_WITHIN_NS (60 * NS_PER_S)

struct call {
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
    char line[CONTROL_LINE_MAX];
    caller_then *then;
    void *context;
};

struct caller {
    struct control_client client; /* connected while the first of the queue is out */
    uint64_t deadline_ns;         /* 0: set by the next update */
    unsigned first, count;
    struct call queue[CALLER_QUEUE];
};

struct caller *caller_create(void)
{
    struct caller *caller = calloc(1, sizeof(*caller));

    if (caller != NULL)
        caller->client.fd = -1;
    return caller;
}

void caller_destroy(struct caller *caller)
{
    if (caller == NULL)
        return;
    control_close(&caller->client);
    free(caller);
}

void caller_call(struct caller *caller, const char *path, const char *line, caller_then *then,
                 void *context)
{
    struct call *call;

    if (caller->count == CALLER_QUEUE) {
        then(context, false, "too many commands wait for the daemon's answer already");
        return;
    }
    call = &caller->queue[(caller->first + caller->count++) % CALLER_QUEUE];
    snprintf(call->path, sizeof(call->path), "%s", path);
    snprintf(call->line, sizeof(call->line), "%s", line);
    call->then = then;
    call->context = context;
}

unsigned caller_waiting(const struct caller *caller)
{
    return caller->count;
}

int caller_descriptor(const struct caller *caller)
{
    return caller->client.fd;
}

/* The first of the queue is over; THEN may call again. */
static void finish(struct caller *caller, bool ok, const char *answer)
{
    struct call *call = &caller->queue[caller->first];
    caller_then *then = call->then;
    void *context = call->context;
    char *copy = strdup(answer); /* it lies in the client that is closed here */

    control_close(&caller->client);
    caller->first = (caller->first + 1) % CALLER_QUEUE;
    caller->count--;
    then(context, ok && copy != NULL, copy != NULL ? copy : "out of memory");
    free(copy);
}

static void send_first(struct caller *caller, uint64_t now_ns)
{
    struct call *call = &caller->queue[caller->first];
    char why[200];

    caller->deadline_ns = now_ns + ANSWER_WITHIN_NS;
    if (control_connect(&caller->client, call->path, why, sizeof(why)) != CONTROL_PENDING ||
        control_send(&caller->client, call->line, why, sizeof(why)) != CONTROL_PENDING)
        finish(caller, false, why);
}

static void receive(struct caller *caller, uint64_t now_ns)
{
    const char *line;
    char why[200];

    switch (control_receive(&caller->client, 0, &line, why, sizeof(why))) {
    case CONTROL_REPLY:
        finish(caller, true, line);
        break;
    case CONTROL_PENDING:
        if (now_ns >= caller->deadline_ns)
            finish(caller, false, "the daemon has not answered for a minute");
        break;
    case CONTROL_FAILED:
    case CONTROL_NO_DAEMON:
    case CONTROL_DENIED:
        finish(caller, false, why);
        break;
    }
}

void caller_update(struct caller *caller, uint64_t now_ns)
{
    if (caller->client.fd >= 0)
        receive(caller, now_ns);
    for (unsigned tries = caller->count; tries > 0 && caller->count > 0 && caller->client.fd < 0;
         tries--)
        send_first(caller, now_ns);
}
