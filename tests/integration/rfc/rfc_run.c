/* Runs one case on one connection. */
#include "../http_client.h"
#include "rfc.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PIECES = 512 }; /* a message longer than this is sent in pieces larger than one byte */

/* A way to split the bytes. */
struct run {
    struct http_client client;
    const struct rfc_case *rfc_case;
    bool in_pieces;
    uint64_t responses;
};

/* An error may close the connection while the rest of the rejected request is on its way. */
static void say(struct run *run, const char *bytes, size_t length)
{
    size_t piece = run->in_pieces ? 1 + length / PIECES : length;

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
static void expect_response(struct run *run, const struct rfc_response *expected)
{
    int next = expected[1].status;
    bool last = next == RFC_CLOSED || next == RFC_CLOSED_BEFORE_THE_END;
    struct http_response response;

    http_receive(&run->client, expected->head ? HTTP_HEAD_ONLY : HTTP_WITH_BODY, &response);
    rfc_check_one(&response, expected);
    if (next != RFC_HALF_CLOSED)
        rfc_check_any(&response, last);
    run->responses += response.status >= 200;
    http_response_free(&response);
    if (expected->then != NULL)
        say(run, expected->then, strlen(expected->then));
}

/* Checks that the next request starts where the last one ended. */
static void check_kept(struct run *run)
{
    static const struct rfc_response probed[] = {RESPONSE(200, .body = "probe"),
                                                 {.status = RFC_KEPT}};

    say(run, GET("/probe"), sizeof(GET("/probe")) - 1);
    expect_response(run, probed);
}

static uint64_t run_once(const struct server *server, const struct rfc_case *rfc_case,
                         bool in_pieces)
{
    struct run run = {.rfc_case = rfc_case, .in_pieces = in_pieces};
    int end = end_of(rfc_case);

    http_open(&run.client, server_port(server));
    say(&run, rfc_case->bytes.start, rfc_case->bytes.length);
    if (end == RFC_HALF_CLOSED)
        shutdown(run.client.fd, SHUT_WR);
    for (const struct rfc_response *response = rfc_case->responses; response->status > 0;
         response++)
        expect_response(&run, response);
    if (end == RFC_KEPT)
        check_kept(&run);
    else
        http_expect_closed(&run.client);
    http_close(&run.client);
    return run.responses;
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

static uint64_t run_as_head(const struct server *server, const struct rfc_case *rfc_case)
{
    struct http_response get, head;
    struct run run = {.rfc_case = rfc_case};

    http_open(&run.client, server_port(server));
    say(&run, rfc_case->bytes.start, rfc_case->bytes.length);
    http_receive(&run.client, HTTP_WITH_BODY, &get);
    http_close(&run.client);
    rfc_check_one(&get, &rfc_case->responses[0]);
    http_open(&run.client, server_port(server));
    say(&run, "HEAD", 4);
    say(&run, rfc_case->bytes.start + 3, rfc_case->bytes.length - 3);
    http_receive(&run.client, HTTP_HEAD_ONLY, &head);
    check_same_fields(&get, &head);
    http_response_free(&get);
    http_response_free(&head);
    run.responses = 2;
    if (end_of(rfc_case) == RFC_KEPT)
        check_kept(&run);
    else
        http_expect_closed(&run.client);
    http_close(&run.client);
    return run.responses;
}

uint64_t rfc_run(const struct server *server, const struct rfc_case *rfc_case)
{
    struct rfc_case expanded = *rfc_case;
    uint64_t responses = rfc_expand(server, rfc_case->bytes, &expanded.bytes);

    responses += run_once(server, &expanded, false);
    if (end_of(&expanded) != RFC_CLOSED_BEFORE_THE_END)
        responses += run_once(server, &expanded, true);
    if (runs_as_head(&expanded))
        responses += run_as_head(server, &expanded);
    responses += rfc_run_over_http2(server, &expanded);
    free((char *)(uintptr_t)expanded.bytes.start);
    return responses;
}
