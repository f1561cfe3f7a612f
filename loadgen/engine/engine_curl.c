/*
 * The engine that leaves HTTP to libcurl. Measures that make it fast:
 *
 * - libcurl searches all connections of a multi handle for one, so each group of slots has its own:
 *   with HTTP/2 the slots of one connection, else a few connections;
 * - an easy handle is set up once and used for every request of its slot;
 * - URLs are parsed once (CURLOPT_CURLU) and the environment is not searched for proxies;
 * - sockets stay registered between requests (curl_sockets.h);
 * - libcurl has timeouts only for requests that probably connect: it would register each of them in
 *   a tree. check_deadlines() makes it notice the others.
 *
 * If a reused connection turns out to be closed, libcurl retries the request on a new one. That
 * would hide a lost request and log it twice at the server, so on_prerequest() rejects the retry:
 * the request fails as closed. libcurl also retries a request that an HTTP/2 server has not
 * processed (GOAWAY, REFUSED_STREAM): that is right, and counted. Then libcurl has not recorded
 * an error.
 *
 * Before 8.14, libcurl waits for an HTTP/2 server to read the whole body of a request although the
 * response is complete. The engine ends such a transfer itself when all of its Content-Length has
 * arrived (RFC 9113 section 8.1).
 */
#include "loadgen/engine/cookie_jar.h"
#include "loadgen/engine/curl_handle.h"
#include "loadgen/engine/curl_sockets.h"
#include "loadgen/engine/engine.h"

#include "common/clock.h"

#include "loadgen/base/interrupts.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SLOTS_IN_GROUP = 20, /* without HTTP/2 */
    WAITED_MIN = 10,
    REFUSALS_MAX = 3, /* of each client of a group, without a response meanwhile */
};

struct client {
    struct group *group;
    CURL *easy;
    uint32_t slot;
    const struct request *request; /* the current or last one; NULL before the first */
    uint64_t begun_ns;
    bool timeouts_set;    /* in its easy handle */
    bool watched;         /* a request is in flight whose timeouts check_deadlines() watches */
    bool connection_kept; /* the last response left its connection open */
    uint32_t attempts;    /* how often the request in flight was sent */
    uint32_t retries;     /* how often of those because the server had not processed it */
    uint32_t requests;    /* sent on this connection; only counted with --max-reqs-per-conn */
    bool resumed;         /* the connection established for this request resumed a TLS session */
    bool off;             /* has no connection for now */
    bool has_large_buffer;
    uint64_t received; /* bytes of the body, if the request has one */
    bool ended_early;  /* the response is complete, the request is not sent completely */
    int local_port;    /* its connection's, until the result is read; 0: none, or not TCP */
    bool passed_on;    /* another client has used its connection since the response */
    struct body_check check;
    struct cookie_jar cookies;
    char error[CURL_ERROR_SIZE];
};

struct group {
    struct curl_group curl; /* first member: ended() gets a pointer to it */
    struct engine *engine;
    uint32_t client_count;
    uint32_t in_flight;
    uint32_t sent;     /* of these; the others wait for the connection, or for a stream */
    bool waits;        /* requests wait for the connection, or for a stream */
    uint32_t waited;   /* responses over HTTP/2 meanwhile, since all streams were open */
    uint32_t peak;     /* the most streams that were open after enough of these; 0: none */
    uint32_t refusals; /* retries since the last response */
    uint32_t off;      /* number of clients that are off */
    bool ended_early;  /* of a client */
    bool dirty;        /* listed in the engine as having unsent requests */
    struct group *next_dirty;
    struct client clients[];
};

struct engine {
    struct engine_config config;
    struct curl_sockets *sockets;
    struct curl_groups groups;
    uint32_t slots;
    struct group *dirty;
    bool ends_early;        /* whether the engine ends transfers of incomplete requests */
    bool one_origin;        /* all requests can share connections */
    bool shares;            /* HTTP/2: requests share a connection, and may wait for it */
    struct event *deadline; /* fires when the first watched request may be due */
};

static struct client *client_of(const struct engine *engine, uint32_t slot)
{
    uint32_t per_group = engine->groups.slots_per_group;
    struct group *group = (struct group *)engine->groups.group[slot / per_group];

    return &group->clients[slot % per_group];
}

/*
 * CLIENT sends a request on the connection with LOCAL_PORT. It may be the connection of a client
 * whose response is complete but not read: libcurl runs several transfers before it reports
 * results. Connections of UNIX sockets have no port and cannot be told apart.
 */
static void take_connection(struct client *client, int local_port)
{
    struct group *group = client->group;

    for (uint32_t i = 0; i < group->client_count; i++) {
        struct client *other = &group->clients[i];

        if (other->local_port == local_port && local_port > 0)
            other->passed_on = true;
    }
    client->local_port = local_port;
    client->passed_on = false;
}

/*
 * libcurl does not report how many streams the server permits, but it opens as many. Requests also
 * wait while a connection is replaced, and some time after that; so only those that wait for
 * WAITED_MIN responses for each stream show the limit.
 */
static void note_streams(struct group *group)
{
    const struct engine *engine = group->engine;
    uint32_t least = 0;
    uint32_t complete = group->in_flight - (uint32_t)group->curl.running; /* results not read yet */
    uint32_t open = group->sent > complete ? group->sent - complete : 0;

    group->waits = group->in_flight > group->sent;
    if (open == group->client_count)
        group->waited = 0;
    if (group->waited <= WAITED_MIN * group->client_count || open <= group->peak)
        return;
    group->peak = open;
    for (uint32_t i = 0; i < engine->groups.count; i++) {
        uint32_t peak = ((const struct group *)engine->groups.group[i])->peak;

        least = peak > 0 && (least == 0 || peak < least) ? peak : least;
    }
    engine->config.negotiations->least_streams = least;
}

/* CURLOPT_PREREQFUNCTION: connected, about to send the request. */
static int on_prerequest(void *context, char *remote, char *local, int remote_port, int local_port)
{
    struct client *client = context;
    struct engine *engine = client->group->engine;
    const struct engine_owner *owner = &engine->config.owner;
    struct negotiation negotiation;

    (void)remote, (void)local, (void)remote_port;
    take_connection(client, local_port);
    if (curl_handle_connected(client->easy)) {
        client->group->waited = 0;
        if (curl_handle_negotiation(client->easy, engine->config.plan, &negotiation,
                                    &client->resumed))
            negotiations_record(engine->config.negotiations, &negotiation, 1);
    }
    owner->connected(owner->context, client->slot);
    if (client->attempts++ == 0) {
        client->group->sent++;
        return CURL_PREREQFUNC_OK;
    }
    if (engine->config.plan->http != PLAN_HTTP_2 || client->error[0] != '\0')
        return CURL_PREREQFUNC_ABORT;
    client->retries++;
    client->group->refusals++;
    client->group->waited = 0;
    return CURL_PREREQFUNC_OK;
}

/* COUNT bytes of the response arrived to a request with a body. */
static void note_early_end(struct client *client, size_t count)
{
    curl_off_t length = -1, sent = 0;

    client->received += count;
    curl_easy_getinfo(client->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_easy_getinfo(client->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    if (length < 0 || client->received < (uint64_t)length ||
        (uint64_t)sent >= client->request->body_length)
        return;
    client->ended_early = client->group->ended_early = true;
    curl_group_call_again(&client->group->curl);
}

/* CURLOPT_WRITEFUNCTION. libcurl counts the bytes. */
static size_t curl_on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct client *client = context;

    const struct engine_config *config = &client->group->engine->config;

    body_check_add(&client->check, &config->plan->checks, bytes, size * count);
    if (config->owner.body != NULL)
        config->owner.body(config->owner.context, client->slot, bytes, size * count);
    if (client->request->body_length > 0 && client->group->engine->ends_early)
        note_early_end(client, size * count);
    return size * count;
}

/* ---- Timeouts ---- */

static void set_client_timeouts(struct client *client, bool on)
{
    if (client->timeouts_set != on)
        curl_handle_set_timeouts(client->group->engine->config.plan, client->easy, on);
    client->timeouts_set = on;
}

/* A request that will probably reuse a connection is watched, and others have libcurl's timeouts. */
static void choose_timeouts(struct client *client)
{
    client->watched = client->connection_kept && !client->off && !client->group->engine->shares;
    set_client_timeouts(client, !client->watched);
}

/* The shorter timeout of the plan, unless CONNECTED. */
static uint64_t timeout_ns(const struct engine *engine, bool connected)
{
    const struct plan *plan = engine->config.plan;
    uint64_t ms = plan->timeout_ms;

    if (!connected && plan->connect_timeout_ms < ms)
        ms = plan->connect_timeout_ms;
    return ms * NS_PER_MS;
}

static void arm_deadline(struct engine *engine, uint64_t wait_ns)
{
    uint64_t us = wait_ns / NS_PER_US + 1;
    const struct timeval wait = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

    events_add(engine->deadline, &wait);
}

/*
 * Sets libcurl's timeouts for watched requests that are due, so that it ends them. A request is due a
 * millisecond after its timeout: then it is over by libcurl's clock, too, which counts from a little
 * later in milliseconds.
 */
static void check_deadlines(evutil_socket_t fd, short events, void *context)
{
    struct engine *engine = context;
    uint64_t now_ns = clock_monotonic_ns(), wait_ns = timeout_ns(engine, false);

    (void)fd, (void)events;
    for (uint32_t i = 0; i < engine->slots; i++) {
        struct client *client = client_of(engine, i);
        uint64_t due_ns;

        if (!client->watched)
            continue;
        due_ns = client->begun_ns + timeout_ns(engine, client->attempts > 0) + NS_PER_MS;
        if (due_ns > now_ns) {
            wait_ns = due_ns - now_ns < wait_ns ? due_ns - now_ns : wait_ns;
            continue;
        }
        wait_ns = NS_PER_MS; /* unless libcurl ends it now */
        set_client_timeouts(client, true);
        curl_group_check(&client->group->curl, client->easy);
    }
    arm_deadline(engine, wait_ns);
}

/* ---- A request ---- */

/*
 * Idle connections belong to the multi handle, not to an easy handle. The multi handle keeps as
 * many as there are clients that are not off, and closes the oldest if there is one more.
 */
static void set_off(struct client *client, bool off)
{
    struct group *group = client->group;
    uint32_t kept;

    if (client->off != off)
        group->off += off ? 1 : -1U;
    client->off = off;
    kept = group->client_count - group->off;
    if (group->engine->config.plan->http == PLAN_HTTP_2 && kept > 0)
        kept = 1;
    curl_multi_setopt(group->curl.multi, CURLMOPT_MAXCONNECTS, kept > 0 ? (long)kept : 1L);
}

static void read_cookies(struct client *client)
{
    struct curl_header *field;

    for (size_t i = 0;
         curl_easy_header(client->easy, "Set-Cookie", i, CURLH_HEADER, -1, &field) == CURLHE_OK;
         i++)
        cookie_jar_store(&client->cookies, client->request, field->value, strlen(field->value),
                         time(NULL));
}

static void report_fields(struct client *client)
{
    const struct engine_owner *owner = &client->group->engine->config.owner;
    struct curl_header *field = NULL;

    while ((field = curl_easy_nextheader(client->easy, CURLH_HEADER, -1, field)) != NULL)
        owner->field(owner->context, client->slot, (struct span){field->name, strlen(field->name)},
                     (struct span){field->value, strlen(field->value)});
}

static void engine_curl_begin(struct engine *engine, uint32_t slot, const struct request *request,
                              uint64_t now_ns)
{
    const struct plan *plan = engine->config.plan;
    struct client *client = client_of(engine, slot);
    struct group *group = client->group;

    choose_timeouts(client);
    if (client->off)
        set_off(client, false);
    curl_handle_set_request(client->easy, request, client->request);
    if (plan->cookies) {
        char *value = cookie_jar_value(&client->cookies, request, time(NULL));

        curl_easy_setopt(client->easy, CURLOPT_COOKIE, value);
        free(value);
    }
    if (plan->requests_per_connection > 0) { /* libcurl closes the connection after the last */
        bool last = ++client->requests == plan->requests_per_connection;

        curl_easy_setopt(client->easy, CURLOPT_FORBID_REUSE, last || request->closes ? 1L : 0L);
        if (last)
            client->requests = 0;
    }
    body_check_begin(&client->check, &plan->checks);
    client->request = request;
    client->begun_ns = now_ns;
    client->attempts = client->retries = 0;
    client->resumed = client->ended_early = false;
    client->received = 0;
    client->error[0] = '\0';
    group->in_flight++;
    curl_multi_add_handle(group->curl.multi, client->easy);
    if (!group->dirty) {
        group->dirty = true;
        group->next_dirty = engine->dirty;
        engine->dirty = group;
    }
}

/*
 * Requests that fail at once are reported in the next loop iteration: a server that rejects
 * connections immediately must not starve the loop.
 */
static void engine_curl_flush(struct engine *engine)
{
    while (engine->dirty != NULL) {
        struct group *group = engine->dirty;

        engine->dirty = group->next_dirty;
        group->dirty = false;
        curl_group_run_added(&group->curl);
        note_streams(group);
        if ((uint32_t)group->curl.running < group->in_flight)
            curl_group_call_again(&group->curl);
    }
}

static void client_leave_multi(struct client *client)
{
    curl_multi_remove_handle(client->group->curl.multi, client->easy);
    client->watched = false;
    client->group->in_flight--;
    client->group->sent -= client->attempts > 0 ? 1 : 0;
}

/*
 * Whether bytes followed the response. libcurl drops them, but also closes the connection, which it
 * would otherwise have kept. It does not notice them after a response in chunks or without a body.
 * With several origins it also closes connections because there are more than clients.
 */
static bool had_surplus(const struct client *client)
{
    const struct group *group = client->group;
    const struct plan *plan = group->engine->config.plan;
    bool last = plan->requests_per_connection > 0 && client->requests == 0;

    return group->curl.closed && !client->passed_on && group->off == 0 &&
           !client->request->closes && !last && plan->proxy == NULL && group->engine->one_origin &&
           curl_handle_closed_early(client->easy, client->request);
}

static struct transaction read_result(struct client *client, CURLcode code)
{
    struct engine *engine = client->group->engine;
    const struct plan_checks *checks = &engine->config.plan->checks;
    const struct curl_ending ending = {
        .easy = client->easy,
        .code = code,
        .error_text = client->error,
        .attempts = client->attempts,
    };
    struct transaction transaction = curl_handle_result(&ending);

    transaction.resumed = client->resumed;
    transaction.retries = client->retries;
    if (transaction.error == ERROR_KIND_NONE)
        client->group->refusals = 0;
    if (engine->config.plan->cookies)
        read_cookies(client);
    if (engine->config.owner.field != NULL)
        report_fields(client);
    if (transaction.error == ERROR_KIND_NONE && had_surplus(client))
        transaction.error = ERROR_KIND_SURPLUS;
    if (transaction.error == ERROR_KIND_NONE) {
        transaction.bad_content = body_check_fails(&client->check, checks, transaction.body_bytes);
        if (engine->config.plan->http == PLAN_HTTP_2) {
            transaction.downgraded = !curl_handle_is_http2(client->easy);
            client->group->waited += client->group->waits && !transaction.downgraded ? 1 : 0;
        }
    }
    if (!client->has_large_buffer)
        client->has_large_buffer =
            curl_handle_enlarge_buffer(engine->config.plan, client->easy, transaction.body_bytes);
    if (transaction.error != ERROR_KIND_NONE)
        client->requests = 0;
    client->connection_kept = transaction.error == ERROR_KIND_NONE && !client->group->curl.closed;
    client->local_port = 0;
    if (client->slot == 0 && engine->config.transcript != NULL)
        transcript_end(engine->config.transcript, client->easy);
    if (transaction.error != ERROR_KIND_NONE)
        error_texts_record(engine->config.error_texts, transaction.error,
                           curl_handle_error_text(&ending));
    return transaction;
}

/*
 * Whether libcurl gave up on a request that the server had not processed. It does after five
 * retries with the same handle, or if GOAWAY left nothing else to do on a reused connection; it
 * would have recorded any other reason. A server that refuses all requests does not get them for
 * ever.
 */
static bool begins_again(const struct client *client, CURLcode code)
{
    const struct group *group = client->group;
    bool tried = strncmp(client->error, "Connection died, tried ", 23) == 0;
    bool alone =
        code == CURLE_HTTP2 && client->error[0] == '\0' && !curl_handle_connected(client->easy);

    return code != CURLE_OK && (tried || alone) &&
           group->engine->config.plan->http == PLAN_HTTP_2 &&
           group->refusals < REFUSALS_MAX * group->client_count;
}

static void begin_again(struct client *client)
{
    CURLM *multi = client->group->curl.multi;

    client->error[0] = '\0';
    curl_multi_remove_handle(multi, client->easy);
    curl_multi_add_handle(multi, client->easy);
}

/* Ends the transfers whose response is complete although the request is not. */
static void end_early(struct group *group)
{
    const struct engine_owner *owner = &group->engine->config.owner;

    group->ended_early = false;
    for (uint32_t i = 0; i < group->client_count; i++) {
        struct client *client = &group->clients[i];
        struct transaction transaction;

        if (!client->ended_early)
            continue;
        client->ended_early = false;
        transaction = read_result(client, CURLE_OK);
        client_leave_multi(client);
        owner->ended(owner->context, client->slot, &transaction, clock_monotonic_ns());
    }
}

/* The ended() of a group: reads the results from libcurl. */
static void curl_on_ended(struct curl_group *curl)
{
    struct group *group = (struct group *)curl;
    const struct engine_owner *owner = &group->engine->config.owner;
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(group->curl.multi, &more)) != NULL) {
        struct client *client = NULL;
        struct transaction transaction;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &client);
        if (begins_again(client, message->data.result)) {
            begin_again(client);
            continue;
        }
        client->ended_early = false;
        transaction = read_result(client, message->data.result);
        client_leave_multi(client);
        owner->ended(owner->context, client->slot, &transaction, clock_monotonic_ns());
    }
    if (group->ended_early)
        end_early(group);
    engine_curl_flush(group->engine);
    if ((uint32_t)curl->running < group->in_flight)
        curl_group_call_again(curl);
}

static void curl_on_unsolicited(struct curl_group *curl)
{
    const struct engine_owner *owner = &((const struct group *)curl)->engine->config.owner;

    owner->unsolicited(owner->context);
}

static bool engine_curl_cancel(struct engine *engine, uint32_t slot)
{
    struct client *client = client_of(engine, slot);
    bool connected = client->attempts > 0 && curl_handle_connected(client->easy);

    client->ended_early = client->connection_kept = false;
    client_leave_multi(client);
    return connected;
}

static void engine_curl_close(struct engine *engine, uint32_t slot)
{
    set_off(client_of(engine, slot), true);
}

static void engine_curl_forget(struct engine *engine, uint32_t slot)
{
    cookie_jar_free(&client_of(engine, slot)->cookies);
}

/* ---- Life cycle ---- */

static bool set_up_handle(struct client *client)
{
    const struct engine *engine = client->group->engine;
    struct transcript *transcript = client->slot == 0 ? engine->config.transcript : NULL;
    CURL *easy = client->easy;

    return curl_easy_setopt(easy, CURLOPT_PRIVATE, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, curl_on_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_prerequest) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, client) == CURLE_OK &&
           curl_handle_set_connection(engine->config.plan, engine->config.request_plan, easy) &&
           curl_handle_set_common(engine->config.plan, easy) &&
           curl_sockets_adopt(engine->sockets, easy) &&
           curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L) == CURLE_OK &&
           (transcript == NULL || transcript_attach(transcript, easy));
}

/* A multi handle for HTTP/2 has one connection per host, on which it multiplexes. */
static bool set_up_multi(const struct plan *plan, CURLM *multi)
{
    if (plan->http != PLAN_HTTP_2)
        return curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) == CURLM_OK;
    return curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, 1L) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)plan->streams) ==
               CURLM_OK;
}

static bool add_client(struct engine *engine, struct group *group)
{
    struct client *client = &group->clients[group->client_count];

    if (group->client_count == 0) {
        group->engine = engine;
        if (!set_up_multi(engine->config.plan, group->curl.multi))
            return false;
    }
    client->group = group;
    client->slot = engine->slots;
    client->timeouts_set = true;
    client->easy = curl_easy_init();
    if (client->easy == NULL)
        return false;
    group->client_count++;
    engine->slots++;
    set_off(client, false);
    return body_check_open(&client->check, &engine->config.plan->checks) && set_up_handle(client);
}

static bool engine_curl_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        struct group *group = (struct group *)curl_groups_get(&engine->groups, engine->slots);

        if (group == NULL || !add_client(engine, group))
            return false;
    }
    return true;
}

static void engine_curl_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->groups.count; i++) {
        struct group *group = (struct group *)engine->groups.group[i];

        for (uint32_t k = 0; k < group->client_count; k++) {
            curl_easy_cleanup(group->clients[k].easy);
            body_check_close(&group->clients[k].check);
            cookie_jar_free(&group->clients[k].cookies);
        }
    }
    curl_groups_end(&engine->groups);
    curl_sockets_destroy(engine->sockets);
    if (engine->deadline != NULL)
        event_free(engine->deadline);
    free(engine);
}

static uint32_t slots_per_group(const struct plan *plan)
{
    if (plan->http == PLAN_HTTP_2)
        return plan->streams;
    return plan->requests_per_connection > 0 ? 1 : SLOTS_IN_GROUP;
}

static struct engine *engine_curl_create(const struct engine_config *config)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    /* Servers of TLS and HTTP/2 may send bytes at any time. */
    bool sends_only_responses =
        config->plan->http != PLAN_HTTP_2 && !request_plan_has_tls(config->request_plan);

    if (engine == NULL)
        return NULL;
    engine->config = *config;
    engine->ends_early = config->plan->http == PLAN_HTTP_2 &&
                         curl_version_info(CURLVERSION_NOW)->version_num < 0x080e00;
    engine->one_origin = request_plan_count_origins(config->request_plan) <= 1;
    engine->shares = config->plan->http == PLAN_HTTP_2;
    engine->sockets = curl_sockets_create(config->base);
    engine->deadline = event_new(config->base, -1, 0, check_deadlines, engine);
    engine->groups = (struct curl_groups){
        .sockets = engine->sockets,
        .ended = curl_on_ended,
        .unsolicited = sends_only_responses ? curl_on_unsolicited : NULL,
        .group_bytes = sizeof(struct group) + slots_per_group(config->plan) * sizeof(struct client),
        .slots_per_group = slots_per_group(config->plan),
    };
    if (engine->sockets != NULL && engine->deadline != NULL) {
        if (!engine->shares)
            arm_deadline(engine, timeout_ns(engine, false));
        return engine;
    }
    engine_curl_destroy(engine);
    return NULL;
}

const struct engine_ops engine_curl = {
    .name = "curl",
    .create = engine_curl_create,
    .reserve = engine_curl_reserve,
    .begin = engine_curl_begin,
    .flush = engine_curl_flush,
    .cancel = engine_curl_cancel,
    .close = engine_curl_close,
    .forget = engine_curl_forget,
    .destroy = engine_curl_destroy,
};
