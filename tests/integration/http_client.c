#include "http_client.h"

#include "patience.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { ROOM_FIRST = 16 * 1024 };

/*
 * recv() and send() with a time limit fail with EINTR if this process is stopped and continued, for
 * example by the machine's load in tests/checks/repeat.py. All calls repeat. connect() has no limit,
 * so that the kernel repeats it: a second call would fail.
 */

void http_open(struct http_client *client, uint16_t port)
{
    static const struct timeval patience = {.tv_sec = PATIENCE_S};
    static const int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};

    *client = (struct http_client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(client->fd >= 0);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail_msg("cannot connect to port %u: %s", port, strerror(errno));
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void http_close(struct http_client *client)
{
    close(client->fd);
    free(client->bytes);
    *client = (struct http_client){.fd = -1};
}

void http_say_bytes(struct http_client *client, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length > 0) {
        ssize_t sent = TEMP_FAILURE_RETRY(send(client->fd, at, length, MSG_NOSIGNAL));

        if (sent <= 0)
            fail_msg("cannot send: %s", strerror(errno));
        at += sent;
        length -= (size_t)sent;
    }
}

void http_send(struct http_client *client, const char *text)
{
    http_say_bytes(client, text, strlen(text));
}

/* Receives more bytes. Returns the result of recv(). */
static ssize_t read_more(struct http_client *client)
{
    ssize_t got;

    if (client->length == client->room) {
        client->room = client->room == 0 ? ROOM_FIRST : client->room * 2;
        client->bytes = realloc(client->bytes, client->room);
        assert_non_null(client->bytes);
    }
    got = TEMP_FAILURE_RETRY(
        recv(client->fd, client->bytes + client->length, client->room - client->length, 0));
    if (got > 0)
        client->length += (size_t)got;
    return got;
}

static void need_more(struct http_client *client, const char *what)
{
    ssize_t got = read_more(client);

    if (got <= 0)
        fail_msg("connection closed (%s) within %s after %zu bytes: '%.*s'",
                 got == 0 ? "closed" : strerror(errno), what, client->length,
                 (int)(client->length < 400 ? client->length : 400),
                 client->bytes != NULL ? client->bytes : "");
}

/* Returns a copy of the first LENGTH bytes as text. */
static char *cut_off(struct http_client *client, size_t length)
{
    char *part = malloc(length + 1);

    assert_non_null(part);
    memcpy(part, client->bytes, length);
    part[length] = '\0';
    client->length -= length;
    memmove(client->bytes, client->bytes + length, client->length);
    return part;
}

static size_t head_length(const struct http_client *client)
{
    const char *end =
        client->length == 0 ? NULL : memmem(client->bytes, client->length, "\r\n\r\n", 4);

    return end == NULL ? 0 : (size_t)(end + 4 - client->bytes);
}

/* "HTTP/1.1 200 OK", then "Name: value" lines, each ended by CRLF (RFC 9112 sections 4 and 5). */
static void cut_fields(struct http_response *response)
{
    char *rest = response->copy = strdup(response->head);
    char *line, *colon;

    assert_non_null(rest);
    line = strsep(&rest, "\n");
    if (sscanf(line, "HTTP/1.1 %3d ", &response->status) != 1 || line[strlen(line) - 1] != '\r')
        fail_msg("not a status line: '%s'", line);
    while (strcmp(line = strsep(&rest, "\n"), "\r") != 0) {
        assert_true(response->field_count < HTTP_FIELDS_MAX);
        colon = strstr(line, ": ");
        if (colon == NULL || line[strlen(line) - 1] != '\r')
            fail_msg("not a field line: '%s'", line);
        line[strlen(line) - 1] = '\0';
        *colon = '\0';
        response->name[response->field_count] = line;
        response->value[response->field_count++] = colon + 2;
    }
    assert_string_equal(rest, "");
}

void http_response_set_head(struct http_response *response, char *head)
{
    response->head = head;
    cut_fields(response);
}

const char *http_field(const struct http_response *response, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < response->field_count; i++) {
        if (strcasecmp(response->name[i], name) != 0)
            continue;
        if (value != NULL)
            fail_msg("field %s is repeated", name);
        value = response->value[i];
    }
    return value;
}

static bool has_no_body(const struct http_response *response, enum http_body body)
{
    return body == HTTP_HEAD_ONLY || response->status < 200 || response->status == 204 ||
           response->status == 304;
}

static size_t length_of_body(const struct http_response *response)
{
    const char *length = http_field(response, "Content-Length");

    if (length == NULL)
        fail_msg("no Content-Length in '%s'", response->head);
    return strtoull(length, NULL, 10);
}

/* The same; receives until LENGTH bytes are available. */
static char *receive_bytes(struct http_client *client, size_t length)
{
    while (client->length < length)
        need_more(client, "a body");
    return cut_off(client, length);
}

/* Reads a line of a chunked body, without its CRLF. */
static char *receive_line(struct http_client *client)
{
    const char *end;
    char *line;

    while (client->length == 0 || (end = memmem(client->bytes, client->length, "\r\n", 2)) == NULL)
        need_more(client, "a chunk line");
    line = cut_off(client, (size_t)(end + 2 - client->bytes));
    line[strlen(line) - 2] = '\0';
    return line;
}

/* Appends one chunk (RFC 9112 section 7.1) to the body. Returns false after the last chunk. */
static bool receive_chunk(struct http_client *client, struct http_response *response)
{
    char *line = receive_line(client), *end, *data;
    size_t length = strtoull(line, &end, 16);

    if (end == line || *end != '\0')
        fail_msg("invalid chunk size: '%s'", line);
    free(line);
    data = receive_bytes(client, length);
    response->body = realloc(response->body, response->body_length + length + 1);
    assert_non_null(response->body);
    memcpy(response->body + response->body_length, data, length + 1);
    response->body_length += length;
    free(data);
    line = receive_line(client); /* end of the chunk data, or of a body without trailer section */
    assert_string_equal(line, "");
    free(line);
    return length > 0;
}

static void take_body(struct http_client *client, struct http_response *response)
{
    const char *coding = http_field(response, "Transfer-Encoding");

    if (coding == NULL) {
        response->body_length = length_of_body(response);
        response->body = receive_bytes(client, response->body_length);
        return;
    }
    assert_string_equal(coding, "chunked");
    while (receive_chunk(client, response))
        continue;
}

void http_receive(struct http_client *client, enum http_body body, struct http_response *response)
{
    *response = (struct http_response){0};
    while (head_length(client) == 0)
        need_more(client, "a head");
    response->head = cut_off(client, head_length(client));
    cut_fields(response);
    if (has_no_body(response, body))
        response->body = strdup("");
    else
        take_body(client, response);
}

void http_response_free(struct http_response *response)
{
    free(response->head);
    free(response->body);
    free(response->copy);
    *response = (struct http_response){0};
}

bool http_is_open(const struct http_client *client)
{
    char byte;

    return recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void http_expect_closed(struct http_client *client)
{
    ssize_t got = client->length > 0 ? 1 : read_more(client);

    if (got > 0)
        fail_msg("bytes instead of a close: '%.*s'",
                 (int)(client->length < 200 ? client->length : 200), client->bytes);
    if (got < 0)
        fail_msg("connection not closed in order: %s", strerror(errno));
}

void http_read_to_end(struct http_client *client)
{
    while (read_more(client) > 0)
        continue;
}

void http_expect_response(struct http_client *client, int status, const char *body)
{
    struct http_response response;

    http_receive(client, HTTP_WITH_BODY, &response);
    assert_int_equal(response.status, status);
    if (body != NULL)
        assert_string_equal(response.body, body);
    http_response_free(&response);
}

void http_open_and_get(struct http_client *client, uint16_t port, const char *target)
{
    char request[256];
    int length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);

    assert_in_range(length, 1, sizeof(request) - 1);
    http_open(client, port);
    http_send(client, request);
    http_expect_response(client, 200, NULL);
}

void http_request(uint16_t port, const char *request, struct http_response *response)
{
    struct http_client client;

    http_open(&client, port);
    http_send(&client, request);
    http_receive(&client, strncmp(request, "HEAD ", 5) == 0 ? HTTP_HEAD_ONLY : HTTP_WITH_BODY,
                 response);
    http_close(&client);
}

void http_get(uint16_t port, const char *target, int status, struct http_response *response)
{
    char request[16 * 1024];
    int length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);

    assert_in_range(length, 1, sizeof(request) - 1);
    http_request(port, request, response);
    if (response->status != status)
        fail_msg("GET %.200s: status %d instead of %d", target, response->status, status);
}

void http_expect(uint16_t port, const char *target, int status)
{
    struct http_response response;

    http_get(port, target, status, &response);
    http_response_free(&response);
}
