#include "console/data/commands.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/tables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static void explain_usage(const struct command_info *command, int given, char *why, size_t size)
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

/* True if the protocol can carry WORD: not empty, no blank, no control character. */
static bool word_fits(const char *word)
{
    if (*word == '\0')
        return false;
    for (; *word != '\0'; word++)
        if (isspace((unsigned char)*word) || iscntrl((unsigned char)*word))
            return false;
    return true;
}

static int join_words(int count, const char *const *words, char *line, size_t line_size)
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

int command_join(int count, const char *const *words, char *line, size_t line_size, char *why,
                 size_t size)
{
    for (int i = 0; i < count; i++)
        if (!word_fits(words[i])) {
            snprintf(why, size, "argument %d of '%s' is empty or contains a blank", i, words[0]);
            return -1;
        }
    if (join_words(count, words, line, line_size) == 0)
        return 0;
    snprintf(why, size, "the command is longer than %zu bytes", line_size - 1);
    return -1;
}

int command_check(int count, const char *const *words, char *line, size_t line_size, char *why,
                  size_t size)
{
    char text[DID_YOU_MEAN_SIZE];
    int command = 0;

    if (count == 0) {
        snprintf(why, size, "missing command ('help' lists the commands)");
        return -1;
    }
    while (command < COMMAND_COUNT && strcmp(command_table[command].name, words[0]) != 0)
        command++;
    if (command == COMMAND_COUNT) {
        snprintf(why, size, "unknown command '%s'%s", words[0],
                 did_you_mean(text, words[0], WORD_LIST_OF(command_table, name),
                              " ('help' lists the commands)"));
        return -1;
    }
    if (count - 1 < command_table[command].min || count - 1 > command_table[command].max) {
        explain_usage(&command_table[command], count - 1, why, size);
        return -1;
    }
    return command_join(count, words, line, line_size, why, size) == 0 ? command : -1;
}

/* Sending */

#define ANSWER_TIMEOUT_NS (60 * NS_PER_S)

struct call {
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
    char line[CONTROL_LINE_MAX];
    command_then *then;
    void *context;
};

struct command_queue {
    struct control_client client; /* connected while the first call has no answer yet */
    uint64_t deadline_ns;         /* then the first call fails */
    unsigned first, count;
    struct call call[COMMAND_QUEUE_MAX];
};

struct command_queue *command_queue_create(void)
{
    struct command_queue *queue = calloc(1, sizeof(*queue));

    if (queue != NULL)
        queue->client.fd = -1;
    return queue;
}

void command_queue_destroy(struct command_queue *queue)
{
    if (queue == NULL)
        return;
    control_close(&queue->client);
    free(queue);
}

void command_queue_add(struct command_queue *queue, const char *path, const char *line,
                       command_then *then, void *context)
{
    struct call *call;

    if (queue->count == COMMAND_QUEUE_MAX) {
        then(context, false, "too many commands are waiting for an answer");
        return;
    }
    call = &queue->call[(queue->first + queue->count++) % COMMAND_QUEUE_MAX];
    snprintf(call->path, sizeof(call->path), "%s", path);
    snprintf(call->line, sizeof(call->line), "%s", line);
    call->then = then;
    call->context = context;
}

unsigned command_queue_length(const struct command_queue *queue)
{
    return queue->count;
}

int command_queue_descriptor(const struct command_queue *queue)
{
    return queue->client.fd;
}

/* Removes the first call before the callback, which may add another one. */
static void finish(struct command_queue *queue, bool ok, const char *answer)
{
    struct call *call = &queue->call[queue->first];
    command_then *then = call->then;
    void *context = call->context;
    char *copy = strdup(answer); /* control_close() invalidates it */

    control_close(&queue->client);
    queue->first = (queue->first + 1) % COMMAND_QUEUE_MAX;
    queue->count--;
    then(context, ok && copy != NULL, copy != NULL ? copy : "out of memory");
    free(copy);
}

static void send_first(struct command_queue *queue, uint64_t now_ns)
{
    struct call *call = &queue->call[queue->first];
    char why[200];

    queue->deadline_ns = now_ns + ANSWER_TIMEOUT_NS;
    if (control_connect(&queue->client, call->path, why, sizeof(why)) != CONTROL_PENDING ||
        control_send(&queue->client, call->line, why, sizeof(why)) != CONTROL_PENDING)
        finish(queue, false, why);
}

static void receive(struct command_queue *queue, uint64_t now_ns)
{
    const char *line;
    char why[200];

    switch (control_receive(&queue->client, 0, &line, why, sizeof(why))) {
    case CONTROL_REPLY:
        finish(queue, true, line);
        break;
    case CONTROL_PENDING:
        if (now_ns >= queue->deadline_ns)
            finish(queue, false, "no answer from the daemon within 60 s");
        break;
    case CONTROL_FAILED:
    case CONTROL_NO_DAEMON:
    case CONTROL_DENIED:
        finish(queue, false, why);
        break;
    }
}

void command_queue_update(struct command_queue *queue, uint64_t now_ns)
{
    if (queue->client.fd >= 0)
        receive(queue, now_ns);
    for (unsigned tries = queue->count; tries > 0 && queue->count > 0 && queue->client.fd < 0;
         tries--)
        send_first(queue, now_ns);
}
