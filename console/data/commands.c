#include "console/data/commands.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/tables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static int find_command(const char *word)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, word) == 0)
            return i;
    return -1;
}

static void say_unknown(const char *word, char *why, size_t size)
{
    const char *names[COMMAND_COUNT];
    const char *nearest;

    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = command_table[i].name;
    nearest = nearest_word(word, names, COMMAND_COUNT);
    if (nearest != NULL)
        snprintf(why, size, "unknown command '%s'; did you mean '%s'?", word, nearest);
    else
        snprintf(why, size, "unknown command '%s'; 'help' lists the commands", word);
}

static void say_usage(const struct command_info *command, int given, char *why, size_t size)
{
    if (command->max == 0)
        snprintf(why, size, "'%s' takes no argument, but %d %s given", command->name, given,
                 given == 1 ? "was" : "were");
    else
        snprintf(why, size, "'%s' takes %s%d argument%s, but %d %s given; usage: %s %s",
                 command->name, command->min < command->max ? "at most " : "", command->max,
                 command->max == 1 ? "" : "s", given, given == 1 ? "was" : "were", command->name,
                 command->arguments);
}

/* A word that the protocol can carry: not empty, nothing that would end it or the line. */
static bool word_fits(const char *word)
{
    if (*word == '\0')
        return false;
    for (; *word != '\0'; word++)
        if (isspace((unsigned char)*word) || iscntrl((unsigned char)*word))
            return false;
    return true;
}

static int join(int count, const char *const *words, char *line, size_t line_size)
{
    size_t used = 0;

    for (int i = 0; i < count; i++) {
        int more = snprintf(line + used, line_size - used, "%s%s", i > 0 ? " " : "", words[i]);

        if (more < 0 || (size_t)more >= line_size - used)
            return -1;
        used += (size_t)more;
    }
    return 0;
}

int command_check(int count, const char *const *words, char *line, size_t line_size, char *why,
                  size_t size)
{
    int command = count > 0 ? find_command(words[0]) : -1;

    if (count == 0) {
        snprintf(why, size, "no command was given; 'help' lists the commands");
        return -1;
    }
    if (command < 0) {
        say_unknown(words[0], why, size);
        return -1;
    }
    if (count - 1 < command_table[command].min || count - 1 > command_table[command].max) {
        say_usage(&command_table[command], count - 1, why, size);
        return -1;
    }
    for (int i = 1; i < count; i++)
        if (!word_fits(words[i])) {
            snprintf(why, size, "argument %d of '%s' is empty or has a blank in it", i, words[0]);
            return -1;
        }
    if (join(count, words, line, line_size) != 0) {
        snprintf(why, size, "the command is longer than %zu bytes", line_size - 1);
        return -1;
    }
    return command;
}

/* Sending */

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
