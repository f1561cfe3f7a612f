#include "loadgen/lab/lab.h"

#include "common/clock.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/lab/bare_server.h"
#include "loadgen/run/run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void clear(struct lab *lab)
{
    while (lab->servers > 0)
        private_server_destroy(lab->server[--lab->servers]);
    bare_server_destroy(lab->bare);
    lab->bare = NULL;
    while (lab->series > 0)
        trials_free(lab->trials[--lab->series]);
    while (lab->allocation_count > 0)
        free(lab->allocation[--lab->allocation_count]);
    if (lab->shows_progress)
        fputs("\r\033[K", stderr);
}

int lab_conduct(struct lab *lab, const struct experiment *experiment, struct document *findings)
{
    uint64_t begun_ns = clock_monotonic_ns();
    int result;

    lab->name = experiment->name;
    lab->own.count = lab->own.value_count = 0;
    lab->until_ns = 0;
    result = experiment->conduct(lab, findings);
    document_legend(findings, "Took %.0f s.", (double)(clock_monotonic_ns() - begun_ns) / 1e9);
    clear(lab);
    return result;
}

int lab_fail(struct lab *lab, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(lab->why, sizeof(lab->why), format, arguments);
    va_end(arguments);
    return -1;
}

bool lab_is_interrupted(struct lab *lab)
{
    if (interrupts_take() > 0)
        lab->interrupted = true;
    return lab->interrupted;
}

void *lab_allocate(struct lab *lab, size_t count, size_t bytes)
{
    void *memory = lab->allocation_count < LAB_ALLOCATIONS ? calloc(count, bytes) : NULL;

    if (memory == NULL) {
        lab_fail(lab, "out of memory");
        return NULL;
    }
    lab->allocation[lab->allocation_count++] = memory;
    return memory;
}

/* ---- Servers ---- */

static int put_small(struct lab *lab, const struct private_server *server)
{
    char page[LAB_SMALL_BYTES];

    memset(page, '.', sizeof(page));
    return private_server_put(server, LAB_SMALL, page, sizeof(page), lab->why, sizeof(lab->why));
}

struct private_server *lab_create_server(struct lab *lab)
{
    struct private_server *server;

    if (lab->servers == LAB_SERVERS) {
        lab_fail(lab, "too many servers (at most %d)", LAB_SERVERS);
        return NULL;
    }
    server = private_server_create(lab->program, lab->why, sizeof(lab->why));
    if (server == NULL)
        return NULL;
    lab->server[lab->servers++] = server;
    return put_small(lab, server) == 0 ? server : NULL;
}

int lab_start(struct lab *lab, struct private_server *server, const char *const *options)
{
    if (lab_is_interrupted(lab))
        return -1;
    return private_server_start(server, options, lab->why, sizeof(lab->why));
}

struct private_server *lab_server(struct lab *lab, const char *const *options)
{
    struct private_server *server = lab_create_server(lab);

    return server != NULL && lab_start(lab, server, options) == 0 ? server : NULL;
}

const struct bare_server *lab_bare_server(struct lab *lab)
{
    if (lab->bare == NULL)
        lab->bare = bare_server_create(LAB_SMALL_BYTES, lab->why, sizeof(lab->why));
    return lab->bare;
}

uint64_t lab_requests(const struct lab *lab, uint64_t whole, uint64_t least)
{
    uint64_t usual_ms = lab->quick ? LAB_TRIAL_QUICK_MS : LAB_TRIAL_MS;
    uint64_t requests = lab->trial_ms < usual_ms ? whole * lab->trial_ms / usual_ms : whole;

    return requests > least ? requests : least;
}

int lab_command(struct lab *lab, const struct private_server *server, const char *line)
{
    json_t *answer = private_server_command(server, line, lab->why, sizeof(lab->why));

    json_decref(answer);
    return answer != NULL ? 0 : -1;
}

void lab_record_value(struct lab *lab, const char *point, const char *label, double value)
{
    struct published_own *own = &lab->own;

    if (own->value_count == PUBLISHED_VALUES_MAX)
        return;
    own->values[own->value_count].point = point;
    own->values[own->value_count].label = label;
    own->values[own->value_count++].value = value;
}

void lab_record_measure(struct lab *lab, const char *point, enum measure measure, double value)
{
    struct published_own *own = &lab->own;

    if (own->count == PUBLISHED_OWN_MAX)
        return;
    snprintf(own->of[own->count].point, PUBLISHED_POINT, "%s", point);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        own->of[own->count].medians.value[i] = i == measure ? value : NAN;
    own->count++;
}

void lab_progress(const struct lab *lab, const char *format, ...)
{
    va_list arguments;

    if (!lab->shows_progress)
        return;
    fprintf(stderr, "\r\033[K%s: ", lab->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}
