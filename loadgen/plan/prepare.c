#include "loadgen/plan/prepare.h"

#include "loadgen/plan/expansion.h"
#include "loadgen/plan/har_file.h"
#include "loadgen/plan/input.h"
#include "loadgen/plan/message.h"
#include "loadgen/plan/request_file.h"
#include "loadgen/plan/scenario_file.h"
#include "loadgen/plan/scenario_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

/* ---- Requests ---- */

static int read_body_file(struct request_plan *request_plan, const char *name, char *why,
                          size_t size)
{
    if (input_read(name, &request_plan->body, &request_plan->body_length))
        return 0;
    snprintf(why, size, "cannot read body file '%s': %s", name, strerror(errno));
    return -1;
}

static int read_body(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->body_file != NULL)
        return read_body_file(request_plan, plan->body_file, why, size);
    if (plan->body == NULL)
        return 0;
    request_plan->body = strdup(plan->body);
    request_plan->body_length = strlen(plan->body);
    return request_plan->body != NULL ? 0 : fail(why, size, "out of memory");
}

/* The file with the requests; NULL: none. */
static const char *file_of(const struct plan *plan)
{
    return plan->har_file != NULL      ? plan->har_file
           : plan->replay_file != NULL ? plan->replay_file
                                       : plan->urls_file;
}

static int read_file(struct request_plan *request_plan, const char *file, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    int result;

    request_plan->entry_count = 0;
    request_plan->makes_templates = plan->csv_file != NULL;
    result = plan->har_file != NULL
                 ? har_file_read(request_plan, file, plan->think_recorded, why, size)
                 : request_file_read(request_plan, file, plan->replay_file != NULL, why, size);
    if (result != 0)
        return -1;
    if (request_plan->entry_count > 0)
        return 0;
    snprintf(why, size, "'%s' contains no valid request", file);
    return -1;
}

/* The URLs of the command line are only the base of paths, and the servers that steps may name. */
static int read_scenarios(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    struct scenario_set *set = &request_plan->scenarios;

    request_plan->pass_length = request_plan->entry_count;
    if (plan->csv_file != NULL && csv_file_read(&set->table, plan->csv_file, why, size) != 0)
        return -1;
    if (scenario_file_read(set, plan, why, size) != 0)
        return -1;
    return scenario_requests_add(request_plan, why, size);
}

/* If there is a file, the URL of the command line is only the base of the paths in the file. */
static int add_urls(struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;
    const char *file = file_of(plan);

    request_plan->makes_templates =
        plan->csv_file != NULL && file == NULL && plan->scenario_file == NULL;
    for (size_t i = 0; i < plan->url_count; i++)
        if (request_plan_add(request_plan, &(struct request_parts){.url = plan->urls[i]},
                             (struct request_entry){0}, why, size) != 0)
            return -1;
    if (plan->scenario_file != NULL)
        return read_scenarios(request_plan, why, size);
    if (file != NULL && read_file(request_plan, file, why, size) != 0)
        return -1;
    if (plan->csv_file != NULL)
        return expansion_make(request_plan, plan->csv_file, why, size);
    request_plan->pass_length = request_plan->entry_count;
    return 0;
}

/* The origin of a request: the number of the first request with the same scheme, host and port. */
static uint32_t origin_of(const struct request_plan *request_plan, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (request_plan->requests[i].origin == i &&
            target_same_origin(&request_plan->requests[i].target,
                               &request_plan->requests[number].target))
            return i;
    return number;
}

static int make_messages(struct request_plan *request_plan, char *why, size_t size)
{
    for (uint32_t i = 0; i < request_plan->count; i++)
        request_plan->requests[i].origin = origin_of(request_plan, i);
    return message_make_all(request_plan) ? 0 : fail(why, size, "out of memory");
}

static int make_connect_to(struct request_plan *request_plan, char *why, size_t size)
{
    for (size_t i = 0; i < request_plan->plan->connect_to_count; i++)
        if (!string_list_append(&request_plan->connect_to, request_plan->plan->connect_to[i]))
            return fail(why, size, "out of memory");
    return 0;
}

/* Checks a file before the run: libcurl would report the error once per connection. */
static int check_readable(const char *option, const char *file, char *why, size_t size)
{
    if (file == NULL || access(file, R_OK) == 0)
        return 0;
    snprintf(why, size, "%s: cannot read '%s': %s", option, file, strerror(errno));
    return -1;
}

/*
 * libcurl 7.88 sends the HTTP/2 preface again when it reuses a connection without TLS, which the server
 * closes (https://github.com/curl/curl/pull/10643).
 */
static int check_http2(const struct request_plan *request_plan, char *why, size_t size)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    bool broken = libcurl->version_num >= 0x075800 && libcurl->version_num < 0x080000;

    if (!broken || request_plan->plan->http != PLAN_HTTP_2 || !request_plan->plan->keepalive ||
        request_plan->requests[0].target.tls || request_plan->plan->engine == PLAN_ENGINE_RAW)
        return 0;
    snprintf(why, size,
             "--http2: libcurl %s cannot reuse HTTP/2 connections without TLS; use --engine raw, "
             "https:// or --no-keepalive",
             libcurl->version);
    return -1;
}

/* The raw engine multiplexes requests to one origin: each of its HTTP/2 connections has one. */
static int check_origins(const struct request_plan *request_plan, char *why, size_t size)
{
    const struct plan *plan = request_plan->plan;

    if (plan->http != PLAN_HTTP_2 || plan->engine != PLAN_ENGINE_RAW ||
        request_plan_count_origins(request_plan) <= 1)
        return 0;
    return fail(why, size,
                "--http2 with --engine raw sends to one server only: its connections do not "
                "change their server; use --engine curl");
}

int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size)
{
    *request_plan = (struct request_plan){.plan = plan};
    if (check_readable("--cacert", plan->ca_file, why, size) != 0 ||
        check_readable("--cert", plan->certificate, why, size) != 0 ||
        check_readable("--key", plan->key, why, size) != 0 ||
        read_body(request_plan, why, size) != 0 || add_urls(request_plan, why, size) != 0 ||
        check_http2(request_plan, why, size) != 0 || make_messages(request_plan, why, size) != 0 ||
        check_origins(request_plan, why, size) != 0)
        return -1;
    return make_connect_to(request_plan, why, size);
}

int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size)
{
    if (request_plan->plan->unix_socket != NULL || request_plan->plan->proxy != NULL)
        return 0;
    for (uint32_t i = 0; i < request_plan->count; i++) {
        struct request *request = &request_plan->requests[i];

        if (request->origin == i && request_plan->plan->connect_to_count == 0 &&
            target_resolve(&request->target, request_plan->plan->family, why, size) != 0)
            return -1;
        request->addresses = request_plan->requests[request->origin].target.addresses;
    }
    return 0;
}
