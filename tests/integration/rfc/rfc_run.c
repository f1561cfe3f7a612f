/* Runs one case. */
#include "../http_client.h"
#include "rfc.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/*
 * A message longer than this is sent in pieces larger than one byte. The relay joins pieces, so that
 * single bytes are no single records.
 */
enum { PIECES = 512, PIECES_OVER_TLS = 8 };

/* The current run of a case. */
struct run {
    const struct rfc_runner *runner;
    const struct rfc_case *rfc_case;
    struct http_client client;
    bool connected, in_pieces;
    struct http_response first; /* to the last run of the bytes of the case */
    uint64_t responses;
};

/* An error may close the connection while the rest of the rejected request is on its way. */
static void say(struct run *run, const char *bytes, size_t length)
{
    size_t most = run->runner->over_tls ? PIECES_OVER_TLS : PIECES;
    size_t piece = run->in_pieces ? 1 + length / most : length;

    for (size_t at = 0; at < length; at += piece)
        if (send(run->client.fd, bytes + at, length - at < piece ? length - at : piece,
                 MSG_NOSIGNAL) < 0)
            return;
}

/* Checks how the connection closes. */
static int end_of(const struct rfc_case *rfc_case)
{
    const struct rfc_response *response = rfc_case->responses;

    while (response->status > 0)
        response++;
    return response->status;
}

/*
 * Receives one response and checks it. EXPECTED is followed by the next response, or by how the
 * connection closes.
 */
static void expect_response(struct run *run, const struct rfc_response *expected,
                            struct http_response *response)
{
    int next = expected[1].status;
    bool last = next == RFC_CLOSED || next == RFC_CLOSED_BEFORE_THE_END;

    http_receive(&run->client, expected->head ? HTTP_HEAD_ONLY : HTTP_WITH_BODY, response);
    rfc_check_one(response, expected);
    if (next != RFC_HALF_CLOSED)
        rfc_check_any(response, last);
    run->responses += response->status >= 200;
    if (expected->then != NULL)
        say(run, expected->then, strlen(expected->then));
}

/* Checks that the next request starts where the last one ended. */
static void check_kept(struct run *run)
{
    static const struct rfc_response probed[] = {RESPONSE(200, .body = "probe"),
                                                 {.status = RFC_KEPT}};
    struct http_response response;

    say(run, GET("/probe"), sizeof(GET("/probe")) - 1);
    expect_response(run, probed, &response);
    http_response_free(&response);
}

/* Over TLS, where a connection costs a handshake, a run continues on one that is kept. */
static void begin_run(struct run *run, bool in_pieces)
{
    run->in_pieces = in_pieces;
    if (run->connected && run->runner->over_tls && end_of(run->rfc_case) == RFC_KEPT)
        return;
    if (run->connected)
        http_close(&run->client);
    http_open(&run->client, server_port(run->runner->server));
    run->connected = true;
}

static void end_run(struct run *run)
{
    if (end_of(run->rfc_case) == RFC_KEPT)
        check_kept(run);
    else
        http_expect_closed(&run->client);
}

static void run_once(struct run *run, bool in_pieces)
{
    const struct rfc_case *rfc_case = run->rfc_case;

    begin_run(run, in_pieces);
    say(run, rfc_case->bytes.start, rfc_case->bytes.length);
    if (end_of(rfc_case) == RFC_HALF_CLOSED)
        shutdown(run->client.fd, SHUT_WR);
    http_response_free(&run->first);
    for (const struct rfc_response *expected = rfc_case->responses; expected->status > 0;
         expected++) {
        struct http_response response;
        bool first = expected == rfc_case->responses;

        expect_response(run, expected, first ? &run->first : &response);
        if (!first)
            http_response_free(&response);
    }
    end_run(run);
}

/* --- The GET repeated as HEAD, RFC 9110 section 9.3.2 --- */

/* True if the case is a single plain GET. Range applies to GET only (RFC 9110 section 14.2). */
static bool runs_as_head(const struct rfc_case *rfc_case)
{
    const struct rfc_response *response = rfc_case->responses;
    struct span bytes = rfc_case->bytes;

    return bytes.length > 4 && memcmp(bytes.start, "GET ", 4) == 0 && response[0].status >= 200 &&
           response[1].status <= 0 && response[1].status != RFC_HALF_CLOSED &&
           memmem(bytes.start, bytes.length, "\r\nRange:", 8) == NULL;
}

static void check_same_fields(const struct http_response *get, const struct http_response *head)
{
    bool same = get->status == head->status && get->field_count == head->field_count;

    for (size_t i = 0; same && i < get->field_count; i++)
        same = strcmp(get->name[i], head->name[i]) == 0 &&
               (strcmp(get->name[i], "Date") == 0 || strcmp(get->value[i], head->value[i]) == 0);
    if (!same)
        fail_msg("response to HEAD: %s\nand to GET: %s", head->head, get->head);
}

/* The fields must be those of the GET in the last run. */
static void run_as_head(struct run *run)
{
    struct span bytes = run->rfc_case->bytes;
    struct http_response head;

    begin_run(run, false);
    say(run, "HEAD", 4);
    say(run, bytes.start + 3, bytes.length - 3);
    http_receive(&run->client, HTTP_HEAD_ONLY, &head);
    check_same_fields(&run->first, &head);
    http_response_free(&head);
    run->responses++;
    end_run(run);
}

uint64_t rfc_run(struct rfc_runner *runner, const struct rfc_case *rfc_case)
{
    struct rfc_case expanded = *rfc_case;
    struct run run = {.runner = runner, .rfc_case = &expanded};

    run.responses = rfc_expand(runner->server, rfc_case->bytes, &expanded.bytes);
    run_once(&run, false);
    if (end_of(&expanded) != RFC_CLOSED_BEFORE_THE_END)
        run_once(&run, true);
    if (runs_as_head(&expanded))
        run_as_head(&run);
    http_response_free(&run.first);
    http_close(&run.client);
    run.responses += rfc_run_over_http2(runner, &expanded);
    free((char *)(uintptr_t)expanded.bytes.start);
    return run.responses;
}
