#include "loadgen/run/server_control.h"

#include "common/clock.h"
#include "common/control_client.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/run/server_find.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000, STEP_MS = 50 };

struct server_control {
    char name[64], socket[INSTANCE_PATH_MAX];
    struct server_sizes before;
    bool changed;
    bool putting_back; /* signals do not count */
    uint64_t deadline_ns;
};

static void take_sizes(struct server_control *control, const struct segment_reader *reader)
{
    const struct segment_header *header = reader->map.header;
    const struct segment_master *master = segment_master(&reader->map);

    snprintf(control->name, sizeof(control->name), "%s", header->name);
    snprintf(control->socket, sizeof(control->socket), "%s", header->socket_path);
    control->before = (struct server_sizes){atomic_load(&master->workers_wanted),
                                            atomic_load(&master->threads_wanted)};
}

struct server_control *server_control_begin(const struct plan *plan, char *why, size_t size)
{
    struct server_control *control = calloc(1, sizeof(*control));
    struct segment_reader reader;
    struct request_plan request_plan;
    bool found = false;

    if (control == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    if (request_plan_prepare(&request_plan, plan, why, size) == 0) {
        found = server_find(&request_plan, &reader);
        if (!found)
            snprintf(why, size, "no webserverd of this machine listens at %s",
                     request_plan.requests[0].target.text);
    }
    request_plan_free(&request_plan);
    if (!found) {
        free(control);
        return NULL;
    }
    take_sizes(control, &reader);
    segment_detach(&reader);
    return control;
}

const char *server_control_name(const struct server_control *control)
{
    return control->name;
}

struct server_sizes server_control_before(const struct server_control *control)
{
    return control->before;
}

/* ---- Orders ---- */

/* Waits a moment. Returns whether a signal came that ends the waiting. */
static bool is_interrupted(const struct server_control *control, int timeout_ms)
{
    struct pollfd fd = {.fd = control->putting_back ? -1 : interrupts_fd(), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) > 0;
}

static bool is_late(const struct server_control *control)
{
    return clock_monotonic_ns() >= control->deadline_ns;
}

/* The answer to LINE, which the caller releases; NULL with WHY, which is empty after a signal. */
static json_t *receive(const struct server_control *control, struct control_client *client,
                       char *why, size_t size)
{
    enum control_result result = CONTROL_PENDING;
    const char *line;

    while (result == CONTROL_PENDING && !is_late(control) && !is_interrupted(control, 0))
        result = control_receive(client, STEP_MS, &line, why, size);
    if (result == CONTROL_REPLY)
        return json_loads(line, 0, NULL);
    if (result == CONTROL_PENDING)
        snprintf(why, size, "%s", is_late(control) ? "there was no answer for a minute" : "");
    return NULL;
}

static json_t *ask(const struct server_control *control, const char *line, char *why, size_t size)
{
    struct control_client client;
    json_t *answer = NULL;

    if (control_connect(&client, control->socket, why, size) != CONTROL_PENDING)
        return NULL;
    if (control_send(&client, line, why, size) == CONTROL_PENDING)
        answer = receive(control, &client, why, size);
    control_close(&client);
    return answer;
}

/* Whether NUMBER is what the answer says is so; -1 with WHY when the server refused. */
static int is_in_force(const json_t *answer, uint32_t number, char *why, size_t size)
{
    const char *error = json_string_value(json_object_get(answer, "error"));

    if (error != NULL) {
        snprintf(why, size, "%s", error);
        return -1;
    }
    return json_integer_value(json_object_get(answer, "actual")) == (json_int_t)number;
}

/* An answer comes when the order is in force; should others change it meanwhile, it is looked at again. */
static int settle(struct server_control *control, const char *what, uint32_t number, char *why,
                  size_t size)
{
    char line[64];
    int done = 0;

    snprintf(line, sizeof(line), "%s %" PRIu32, what, number);
    while (done == 0) {
        json_t *answer = ask(control, line, why, size);

        if (answer == NULL)
            return why[0] == '\0' ? 0 : -1;
        done = is_in_force(answer, number, why, size);
        json_decref(answer);
        snprintf(line, sizeof(line), "%s", what);
        if (done == 0 && is_late(control)) {
            snprintf(why, size, "it did not come to %" PRIu32 " %s within a minute", number, what);
            done = -1;
        } else if (done == 0 && is_interrupted(control, STEP_MS)) {
            return 0;
        }
    }
    return done > 0 ? 0 : -1;
}

int server_control_set(struct server_control *control, struct server_sizes sizes, char *why,
                       size_t size)
{
    char reason[256] = "";

    control->deadline_ns = clock_monotonic_ns() + PATIENCE_MS * NS_PER_MS;
    control->changed = true;
    if (settle(control, "workers", sizes.workers, reason, sizeof(reason)) == 0 &&
        settle(control, "threads", sizes.threads, reason, sizeof(reason)) == 0)
        return 0;
    snprintf(why, size,
             "the server %s cannot be set to %" PRIu32 " workers with %" PRIu32 " threads: %s",
             control->name, sizes.workers, sizes.threads, reason);
    return -1;
}

char *server_control_by_hand(const struct server_control *control, char *text, size_t size)
{
    snprintf(text, size, "wsctl -n %s workers %" PRIu32 " && wsctl -n %s threads %" PRIu32,
             control->name, control->before.workers, control->name, control->before.threads);
    return text;
}

int server_control_end(struct server_control *control, char *why, size_t size)
{
    char reason[400] = "", by_hand[SERVER_CONTROL_BY_HAND];
    int result = 0;

    if (control == NULL)
        return 0;
    control->putting_back = true;
    if (control->changed)
        result = server_control_set(control, control->before, reason, sizeof(reason));
    if (result != 0)
        snprintf(why, size, "%s; to put it back, say: %s", reason,
                 server_control_by_hand(control, by_hand, sizeof(by_hand)));
    free(control);
    return result;
}
