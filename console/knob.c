#include "console/knob.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/tables.h"
#include "console/answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define ANSWER_WITHIN_NS (60 * NS_PER_S)

struct knob {
    struct control_client client; /* connected while an answer is out */
    char socket[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
    uint32_t wanted; /* 0: nothing */
    uint32_t sent;
    uint64_t deadline_ns;
    char message[256];
    bool has_message, message_bad;
};

struct knob *knob_create(void)
{
    struct knob *knob = calloc(1, sizeof(*knob));

    if (knob != NULL)
        knob->client.fd = -1;
    return knob;
}

void knob_destroy(struct knob *knob)
{
    if (knob == NULL)
        return;
    control_close(&knob->client);
    free(knob);
}

/* Ends the request under way with what is to be said about it. */
static void finish(struct knob *knob, const char *message, bool bad)
{
    control_close(&knob->client);
    snprintf(knob->message, sizeof(knob->message), "%s", message);
    knob->has_message = true;
    knob->message_bad = bad;
}

static void send_wanted(struct knob *knob, uint64_t now_ns)
{
    char line[64], why[200];

    snprintf(line, sizeof(line), "%s %" PRIu32, command_table[COMMAND_threads].name, knob->wanted);
    knob->sent = knob->wanted;
    knob->deadline_ns = now_ns + ANSWER_WITHIN_NS;
    if (control_connect(&knob->client, knob->socket, why, sizeof(why)) != CONTROL_WAITING ||
        control_send(&knob->client, line, why, sizeof(why)) != CONTROL_WAITING) {
        knob->wanted = 0;
        finish(knob, why, true);
    }
}

void knob_turn(struct knob *knob, const char *socket, uint32_t in_force, int steps, uint64_t now_ns)
{
    int64_t wanted = (int64_t)(knob->wanted != 0 ? knob->wanted : in_force) + steps;

    if (wanted < 1) {
        finish(knob, "each worker keeps at least one serving thread", true);
        return;
    }
    knob->wanted = (uint32_t)wanted;
    snprintf(knob->socket, sizeof(knob->socket), "%s", socket);
    if (knob->client.fd < 0)
        send_wanted(knob, now_ns);
}

uint32_t knob_asked(const struct knob *knob)
{
    return knob->wanted;
}

int knob_descriptor(const struct knob *knob)
{
    return knob->client.fd;
}

/* A refusal takes back all that was asked after it; else what was added meanwhile is sent now. */
static void take_answer(struct knob *knob, const char *line, uint64_t now_ns)
{
    char sentence[200];
    enum answer answer =
        answer_sentence(command_table[COMMAND_threads].name, line, sentence, sizeof(sentence));

    finish(knob, sentence, answer != ANSWER_DONE);
    if (answer != ANSWER_DONE || knob->wanted == knob->sent)
        knob->wanted = 0;
    else
        send_wanted(knob, now_ns);
}

void knob_update(struct knob *knob, uint64_t now_ns)
{
    const char *line;
    char why[200];

    if (knob->client.fd < 0)
        return;
    switch (control_receive(&knob->client, 0, &line, why, sizeof(why))) {
    case CONTROL_ANSWERED:
        take_answer(knob, line, now_ns);
        break;
    case CONTROL_WAITING:
        if (now_ns < knob->deadline_ns)
            break;
        knob->wanted = 0;
        finish(knob, "the daemon has not answered for a minute", true);
        break;
    case CONTROL_LOST:
    case CONTROL_NO_DAEMON:
    case CONTROL_DENIED:
        knob->wanted = 0;
        finish(knob, why, true);
        break;
    }
}

bool knob_message(struct knob *knob, char *text, size_t size, bool *bad)
{
    if (!knob->has_message)
        return false;
    snprintf(text, size, "%s", knob->message);
    *bad = knob->message_bad;
    knob->has_message = false;
    return true;
}
