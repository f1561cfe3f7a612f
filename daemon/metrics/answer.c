#include "daemon/metrics/answer.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "common/server_status.h"
#include "daemon/base/memory_file.h"
#include "daemon/config/keys.h"
#include "daemon/http/date.h"
#include "daemon/http/negotiation.h"
#include "daemon/http/response.h"
#include "daemon/http1/request_parser.h"
#include "daemon/metrics/exposition.h"
#include "daemon/metrics/live.h"
#include "daemon/metrics/page_files.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The master has a heartbeat each second. */
enum { HEARTBEAT_LATE_S = 10 };

static const char plain[] = "text/plain; charset=utf-8", type_json[] = "application/json";

struct answer {
    int status;
    const char *type;
    bool has_allow;         /* names the methods in Allow */
    bool stream;            /* events follow */
    bool waiting;           /* no response yet: the password is being verified */
    const char *realm;      /* names it in WWW-Authenticate; NULL: without */
    uint32_t retry_after_s; /* 0: without the field */
};

/* Resources: each writes its content to OUT. */

/* OpenMetrics for clients that prefer it. */
static struct answer get_metrics(const struct segment *segment, const struct request *request,
                                 FILE *out)
{
    int open = accept_weight(request, SPAN("application"), SPAN("openmetrics-text"));
    bool named = (request->present & REQUEST_ACCEPT) != 0;
    enum exposition_format format =
        named && open > 0 && open > accept_weight(request, SPAN("text"), SPAN("plain"))
            ? EXPOSITION_OPENMETRICS
            : EXPOSITION_PROMETHEUS;

    exposition_write(out, segment, format);
    return (struct answer){.status = STATUS_OK, .type = exposition_types[format]};
}

/* Of the master: a process that hangs cannot replace a worker that has died. */
static struct answer get_health(const struct segment *segment, const struct request *request,
                                FILE *out)
{
    uint64_t beat = atomic_load(&segment_master(segment)->heartbeat_ns);
    uint64_t now = clock_monotonic_ns();
    bool late = now > beat && now - beat > HEARTBEAT_LATE_S * NS_PER_S;

    (void)request;
    fputs(late ? "the master has no heartbeat\n" : "ok\n", out);
    return (struct answer){.status = late ? STATUS_SERVICE_UNAVAILABLE : STATUS_OK, .type = plain};
}

static struct answer get_readiness(const struct segment *segment, const struct request *request,
                                   FILE *out)
{
    bool stopping = atomic_load(&segment_master(segment)->stopping) != 0;
    bool serves = server_workers_serving(segment) > 0;

    (void)request;
    fputs(stopping ? "the server is stopping\n" : !serves ? "no worker serves\n" : "ok\n", out);
    return (struct answer){.status = !stopping && serves ? STATUS_OK : STATUS_SERVICE_UNAVAILABLE,
                           .type = plain};
}

static struct answer get_status(const struct segment *segment, const struct request *request,
                                FILE *out)
{
    json_t *status = server_status(segment);
    bool written = status != NULL && json_dumpf(status, out, JSON_COMPACT) == 0;

    (void)request;
    json_decref(status);
    fputc('\n', out);
    return (struct answer){.status = written ? STATUS_OK : STATUS_INTERNAL_SERVER_ERROR,
                           .type = type_json};
}

static struct answer put_file(const unsigned char *bytes, size_t size, const char *type, FILE *out)
{
    fwrite(bytes, 1, size, out);
    return (struct answer){.status = STATUS_OK, .type = type};
}

#define PAGE_FILE(kind, type)                                                                      \
    static struct answer get_##kind(const struct segment *segment, const struct request *request,  \
                                    FILE *out)                                                     \
    {                                                                                              \
        (void)segment, (void)request;                                                              \
        return put_file(page_##kind, sizeof(page_##kind), type, out);                              \
    }

PAGE_FILE(html, "text/html; charset=utf-8")
PAGE_FILE(css, "text/css; charset=utf-8")
PAGE_FILE(js, "text/javascript; charset=utf-8")

#define LIVE_DATA(name)                                                                            \
    static struct answer get_##name(const struct segment *segment, const struct request *request,  \
                                    FILE *out)                                                     \
    {                                                                                              \
        (void)request;                                                                             \
        live_write_##name(out, segment);                                                           \
        return (struct answer){.status = STATUS_OK, .type = type_json};                            \
    }

LIVE_DATA(history)
LIVE_DATA(details)

/* The first event comes at once. */
static struct answer get_events(const struct segment *segment, const struct request *request,
                                FILE *out)
{
    live_write(out, segment);
    return (struct answer){
        .status = STATUS_OK, .type = "text/event-stream", .stream = request->method == METHOD_GET};
}

struct metrics_resource {
    struct span path;
    struct answer (*get)(const struct segment *segment, const struct request *request, FILE *out);
    bool open; /* also without a password: probes */
};

static const struct metrics_resource resources[] = {
    {{"/", 1}, get_html, false},
    {{"/page.css", 9}, get_css, false},
    {{"/page.js", 8}, get_js, false},
    {{"/events", 7}, get_events, false},
    {{"/history.json", 13}, get_history, false},
    {{"/details.json", 13}, get_details, false},
    {{"/metrics", 8}, get_metrics, false},
    {{"/healthz", 8}, get_health, true},
    {{"/readyz", 7}, get_readiness, true},
    {{"/status.json", 12}, get_status, false},
};

/* Host of a request */

enum { HOST_BYTES = 64 }; /* an IP address and its NUL fit */

static bool is_host_name(struct span name, struct span other)
{
    return name.length == other.length && strncasecmp(name.start, other.start, name.length) == 0;
}

/*
 * DNS rebinding: a page of evil.example can make its name resolve to 127.0.0.1, and the browser
 * then lets it read the answers. Its requests name evil.example. A client without a Host is no
 * browser.
 */
static bool is_own_host(struct span host, const char *hosts)
{
    struct span name = span_of(hosts), rest;
    char text[HOST_BYTES];
    struct in_addr address;
    const char *port;

    if (host.length == 0 || host.start[0] == '[') /* only an address may have brackets */
        return true;
    port = memrchr(host.start, ':', host.length);
    if (port != NULL)
        host.length = (size_t)(port - host.start);
    snprintf(text, sizeof(text), "%.*s", (int)host.length, host.start);
    if ((host.length < sizeof(text) && inet_pton(AF_INET, text, &address) == 1) ||
        is_host_name(host, SPAN("localhost")))
        return true;
    for (; name.length > 0; name = rest) {
        config_section_split(&name, &rest);
        if (is_host_name(host, name))
            return true;
    }
    return false;
}

/* Requests */

static struct answer answer_status(int status, FILE *out)
{
    fprintf(out, "%d %s\n", status, response_reason(status));
    return (struct answer){
        .status = status, .type = plain, .has_allow = status == STATUS_METHOD_NOT_ALLOWED};
}

/* The answer to a request with this verdict, which is not good. */
static struct answer refuse_login(const struct answer_setup *setup, enum login_verdict verdict,
                                  FILE *out)
{
    int status = verdict == LOGIN_NONE      ? STATUS_UNAUTHORIZED
                 : verdict == LOGIN_LIMITED ? STATUS_TOO_MANY_REQUESTS
                                            : STATUS_SERVICE_UNAVAILABLE;
    struct answer answer;

    if (verdict == LOGIN_WAITING)
        return (struct answer){.waiting = true};
    answer = answer_status(status, out);
    if (verdict == LOGIN_NONE)
        answer.realm = setup->realm;
    else
        answer.retry_after_s = setup->login->retry_after_s;
    return answer;
}

/* Without a password nobody learns which paths exist. */
static struct answer find_answer(const struct answer_setup *setup, const struct request *request,
                                 FILE *out)
{
    const char *query = memchr(request->target.start, '?', request->target.length);
    struct span path = request->target;
    const struct metrics_resource *resource = NULL;
    enum login_verdict verdict = LOGIN_GOOD;

    if (query != NULL)
        path.length = (size_t)(query - path.start);
    if (!is_own_host(request->host, setup->hosts)) {
        fputs("the Host of the request is not an address, localhost or a name in [metrics] hosts\n",
              out);
        return (struct answer){.status = STATUS_MISDIRECTED_REQUEST, .type = plain};
    }
    for (size_t i = 0; i < ARRAY_LENGTH(resources) && resource == NULL; i++)
        if (span_is(path, resources[i].path))
            resource = &resources[i];
    if (setup->verifier != NULL && (resource == NULL || !resource->open))
        verdict = verifier_judge(setup->verifier, setup->login, request);
    if (verdict != LOGIN_GOOD)
        return refuse_login(setup, verdict, out);
    if (resource == NULL)
        return answer_status(STATUS_NOT_FOUND, out);
    if (setup->streams_full && resource->get == get_events)
        return answer_status(STATUS_SERVICE_UNAVAILABLE, out);
    return request->method == METHOD_GET || request->method == METHOD_HEAD
               ? resource->get(setup->segment, request, out)
               : answer_status(STATUS_METHOD_NOT_ALLOWED, out);
}

/* The page has no inline code and reads only from this address. */
static const char security[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
    "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

/* Writes the head, and the body unless it is a HEAD request. A stream ends with its connection. */
static void put_response(FILE *out, const struct answer *answer, const char *body, size_t length,
                         bool with_body)
{
    char date[HTTP_DATE_BYTES];

    http_date_write((int64_t)(clock_wall_ns() / NS_PER_S), date);
    fprintf(out,
            "HTTP/1.1 %d %s\r\nDate: %.*s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n%s%s"
            "Connection: close\r\n",
            answer->status, response_reason(answer->status), HTTP_DATE_BYTES, date, answer->type,
            security, answer->has_allow ? "Allow: GET, HEAD\r\n" : "");
    if (answer->realm != NULL)
        fprintf(out, "WWW-Authenticate: Basic realm=\"%s\", charset=\"UTF-8\"\r\n", answer->realm);
    if (answer->retry_after_s > 0)
        fprintf(out, "Retry-After: %" PRIu32 "\r\n", answer->retry_after_s);
    if (!answer->stream)
        fprintf(out, "Content-Length: %zu\r\n", length);
    fputs("\r\n", out);
    if (with_body)
        fwrite(body, 1, length, out);
}

/* STATUS: why the request is invalid, or 0. */
static enum answer_kind write_answer(const struct answer_setup *setup,
                                     const struct request *request, int status, char **response,
                                     size_t *response_length)
{
    char *body = NULL;
    size_t length;
    FILE *content = open_memstream(&body, &length), *whole;
    struct answer answer;

    if (content == NULL)
        return ANSWER_FAILED;
    answer = status != 0 ? answer_status(status, content) : find_answer(setup, request, content);
    if (memstream_close(content, &body) != 0 || answer.waiting) {
        free(body);
        return answer.waiting ? ANSWER_WAITING : ANSWER_FAILED;
    }
    whole = open_memstream(response, response_length);
    if (whole == NULL) {
        free(body);
        return ANSWER_FAILED;
    }
    put_response(whole, &answer, body, length, status != 0 || request->method != METHOD_HEAD);
    free(body);
    if (memstream_close(whole, response) != 0)
        return ANSWER_FAILED;
    return answer.stream ? ANSWER_STREAM : ANSWER_WHOLE;
}

enum answer_kind answer_request(const struct answer_setup *setup, const char *data, size_t length,
                                char **response, size_t *response_length)
{
    static const struct request_limits limits = {
        .line_bytes = 1024, .head_bytes = ANSWER_REQUEST_MAX - 1, .field_count = 64};
    struct request request;
    size_t scanned = 0;
    int used = request_parse(data, length, &limits, &scanned, &request);

    if (used == 0)
        return ANSWER_INCOMPLETE;
    return write_answer(setup, &request, used < 0 ? -used : 0, response, response_length);
}
