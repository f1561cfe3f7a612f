/* Which messages are valid: the table of messages.def against what a hostile sender may try. */
#include "daemon/base/messages.h"

#include "common/control_client.h"
#include "common/macros.h"
#include "tests/test.h"

#include <string.h>

enum { DATA_MAX = 80 * 1024 };

/* The content of the message is in data. */
struct example {
    enum message_route route;
    int64_t kind;
    size_t length;
    size_t descriptors;
    const char *fault; /* words of it, or NULL */
};

static _Alignas(8) char data[DATA_MAX];

static void expect(const struct example *example)
{
    const char *fault =
        message_fault(example->route, example->kind, data, example->length, example->descriptors);

    if (example->fault == NULL && fault == NULL)
        return;
    if (example->fault == NULL || fault == NULL || strstr(fault, example->fault) == NULL)
        fail_msg("kind %ld, route %d, length %zu, %zu descriptors: '%s' instead of '%s'",
                 (long)example->kind, example->route, example->length, example->descriptors,
                 fault != NULL ? fault : "valid",
                 example->fault != NULL ? example->fault : "valid");
}

static const char unknown[] = "unknown kind", direction[] = "wrong direction",
                  missing[] = "without its descriptor", unexpected[] = "unexpected descriptors",
                  content[] = "wrong length or content";

TEST(kind_route_descriptors_and_length_are_checked)
{
    enum {
        SOCKET = sizeof(struct message_listen_socket),
        DONE = sizeof(struct message_command_done),
        RUNNING = sizeof(struct message_threads_running),
    };
    static const struct example examples[] = {
        {ROUTE_COMMANDS, MESSAGE_LISTEN_SOCKET_ADD, SOCKET, 1, NULL},
        {ROUTE_COMMANDS, MESSAGE_LISTEN_SOCKET_ADD, SOCKET, 0, missing},
        {ROUTE_COMMANDS, MESSAGE_LISTEN_SOCKET_ADD, SOCKET, 2, unexpected},
        {ROUTE_COMMANDS, MESSAGE_LISTEN_SOCKET_DROP, SOCKET, 0, NULL},
        {ROUTE_COMMANDS, MESSAGE_LISTEN_SOCKET_DROP, SOCKET, 1, unexpected},
        {ROUTE_COMMANDS, MESSAGE_OFFLOAD, sizeof(struct message_offload), 0, NULL},
        {ROUTE_COMMANDS, MESSAGE_OFFLOAD, sizeof(struct message_offload) - 1, 0, content},
        {ROUTE_COMMANDS, MESSAGE_THREADS, sizeof(struct message_threads), 0, NULL},
        {ROUTE_COMMANDS, MESSAGE_GIVE, sizeof(struct message_give), 0, NULL},
        {ROUTE_REPORTS, MESSAGE_OFFLOAD, sizeof(struct message_offload), 0, direction},
        {ROUTE_REPORTS, MESSAGE_THREADS_RUNNING, RUNNING, 0, NULL},
        {ROUTE_REPORTS, MESSAGE_THREADS_RUNNING, RUNNING, 1, unexpected},
        {ROUTE_REPORTS, MESSAGE_THREADS_RUNNING, RUNNING, 253, unexpected},
        {ROUTE_REPORTS, MESSAGE_THREADS_RUNNING, 0, 0, content},
        {ROUTE_REPORTS, MESSAGE_THREADS_RUNNING, RUNNING + 1, 0, content},
        {ROUTE_REPORTS, MESSAGE_THREADS_RUNNING, DATA_MAX, 0, content},
        {ROUTE_REPORTS, MESSAGE_LISTEN_SOCKET_LOST, SOCKET, 0, NULL},
        {ROUTE_REPORTS, MESSAGE_LISTEN_SOCKET_LOST, SOCKET, 1, unexpected},
        {ROUTE_REPORTS, MESSAGE_COMMAND_DONE, DONE, 0, NULL},
        {ROUTE_REPORTS, MESSAGE_COMMAND_DONE, DONE - 8, 0, content},
        {ROUTE_RETURNS, MESSAGE_COMMAND_DONE, DONE, 0, direction},
        {ROUTE_COMMANDS, MESSAGE_COMMAND_DONE, DONE, 0, direction},
        {ROUTE_DISPATCH, MESSAGE_LEAVE, 0, 0, NULL},
        {ROUTE_DISPATCH, MESSAGE_STOP, 0, 0, NULL},
        {ROUTE_DISPATCH, MESSAGE_RETIRE, 1, 0, content},
        {ROUTE_RETURNS, MESSAGE_STOP, 0, 0, direction},
        {ROUTE_COMMANDS, MESSAGE_STOP, 0, 0, direction},
        {ROUTE_REPORTS, MESSAGE_COUNT, 0, 0, unknown},
        {ROUTE_REPORTS, -1, 0, 0, unknown},
        {ROUTE_REPORTS, INT64_MAX, 0, 0, unknown},
        {ROUTE_REPORTS, (INT64_C(1) << 32) + MESSAGE_THREADS_RUNNING, RUNNING, 0, unknown},
    };

    memset(data, 0, sizeof(data));
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++)
        expect(&examples[i]);
}

TEST(log_must_be_one_of_two_or_a_file_of_a_host)
{
    static const uint32_t most = LOG_KINDS + LOG_HOST_FILES_MAX;
    struct message_log *message = (struct message_log *)data;

    for (uint32_t log = 0; log < most + 2; log = log == 2 ? most - 1 : log + 1) {
        const char *fault = log < most ? NULL : content;

        *message = (struct message_log){.log = log};
        expect(&(struct example){ROUTE_LOGGING, MESSAGE_LOG_FILE, sizeof(*message), 1, fault});
        expect(&(struct example){ROUTE_LOG_REPORTS, MESSAGE_LOG_LOST, sizeof(*message), 0, fault});
        expect(&(struct example){ROUTE_LOGGING, MESSAGE_LOG_FILE, sizeof(*message), 0, missing});
        expect(&(struct example){ROUTE_REPORTS, MESSAGE_LOG_LOST, sizeof(*message), 0, direction});
    }
}

TEST(unread_bytes_must_match_length)
{
    static const struct {
        uint32_t length, sent, admitted, idle, opening, proxied;
        const char *fault;
    } examples[] = {
        {0, 0, 0, 0, 0, 0, NULL},
        {100, 100, 1, 1, 0, 1, NULL},
        {PASSED_BYTES_MAX, PASSED_BYTES_MAX, 0, 0, 0, 0, NULL},
        {PASSED_BYTES_MAX + 1, PASSED_BYTES_MAX + 1, 0, 0, 0, 0, content},
        {101, 100, 0, 0, 0, 0, content},
        {100, 101, 0, 0, 0, 0, content},
        {UINT32_MAX, 0, 0, 0, 0, 0, content},
        {0, 0, 2, 0, 0, 0, content},
        {0, 0, 0, 2, 0, 0, content},
        {0, 0, 0, 0, OPENING_TLS, 0, NULL},
        {1, 1, 0, 0, OPENING_TLS, 0, content}, /* bytes of a handshake stay in the socket */
        {1, 1, 0, 0, OPENING_PROXY, 0, NULL},
        {1, 1, 0, 0, OPENING_ALL, 0, NULL},
        {0, 0, 0, 0, OPENING_ALL + 1, 0, content},
        {0, 0, 0, 0, 0, 2, content},
    };
    struct message_connection *message = (struct message_connection *)data;

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        const size_t length = sizeof(*message) + examples[i].sent;

        *message = (struct message_connection){.length = examples[i].length,
                                               .admitted = examples[i].admitted,
                                               .idle = examples[i].idle,
                                               .opening = examples[i].opening,
                                               .proxied = examples[i].proxied};
        expect(&(struct example){ROUTE_DISPATCH, MESSAGE_CONNECTION, length, 1, examples[i].fault});
        expect(&(struct example){ROUTE_RETURNS, MESSAGE_CONNECTION_RETURNED, length, 1,
                                 examples[i].fault});
        expect(&(struct example){ROUTE_RETURNS, MESSAGE_CONNECTION, length, 1, direction});
        expect(&(struct example){ROUTE_RETURNS, MESSAGE_CONNECTION_RETURNED, length, 0, missing});
    }
}

TEST(ticket_keys_are_one_to_three)
{
    struct message_ticket_keys *message = (struct message_ticket_keys *)data;

    for (uint32_t count = 0; count <= TICKET_KEYS + 1; count++) {
        *message = (struct message_ticket_keys){.count = count};
        expect(&(struct example){ROUTE_COMMANDS, MESSAGE_TICKET_KEYS, sizeof(*message), 0,
                                 count >= 1 && count <= TICKET_KEYS ? NULL : content});
        expect(&(struct example){ROUTE_COMMANDS, MESSAGE_TICKET_KEYS, sizeof(*message) - 1, 0,
                                 content});
        expect(
            &(struct example){ROUTE_REPORTS, MESSAGE_TICKET_KEYS, sizeof(*message), 0, direction});
    }
}

TEST(challenge_is_of_the_alphabet_of_base64url)
{
    static const struct {
        const char *token, *fault;
    } examples[] = {
        {"", NULL}, {"Az09-_", NULL}, {"a.b", content}, {"a/b", content}, {"\xc3", content}};
    struct message_acme_challenge *message = (struct message_acme_challenge *)data;

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        *message = (struct message_acme_challenge){.thumbprint = "t"};
        memcpy(message->token, examples[i].token, strlen(examples[i].token));
        expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_CHALLENGE, sizeof(*message), 0,
                                 examples[i].fault});
    }
    *message = (struct message_acme_challenge){.kind = CHALLENGE_TLS_ALPN_01};
    expect(
        &(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_CHALLENGE, sizeof(*message), 0, NULL});
    message->kind = CHALLENGE_KINDS;
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_CHALLENGE, sizeof(*message), 0,
                             content});
    message->kind = CHALLENGE_HTTP_01;
    memset(message->token, 'a', sizeof(message->token));
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_CHALLENGE, sizeof(*message), 0,
                             content});
    expect(&(struct example){ROUTE_ACME_ORDERS, MESSAGE_ACME_CHALLENGE, sizeof(*message), 0,
                             direction});
}

TEST(plan_has_an_error_with_its_nul)
{
    struct message_acme_plan *message = (struct message_acme_plan *)data;

    *message = (struct message_acme_plan){.name = 1};
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_PLAN, sizeof(*message), 0, NULL});
    expect(
        &(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_PLAN, sizeof(*message) + 1, 0, content});
    memset(message->error, 'a', sizeof(message->error));
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_PLAN, sizeof(*message), 0, content});
}

TEST(event_has_a_level_and_ends_with_its_only_nul)
{
    static const struct {
        uint32_t level;
        const char *text;
        size_t size;
        const char *fault;
    } examples[] = {
        {0, "a", 2, NULL},
        {LEVEL_COUNT - 1, "a", 2, NULL},
        {LEVEL_COUNT, "a", 2, content},
        {UINT32_MAX, "a", 2, content},
        {0, "", 1, NULL},
        {0, "", 0, content},
        {0, "ab", 2, content},
        {0, "a\0b", 4, content},
    };
    struct message_acme_event *message = (struct message_acme_event *)data;

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        message->level = examples[i].level;
        memcpy(message->text, examples[i].text, examples[i].size);
        expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_EVENT,
                                 sizeof(*message) + examples[i].size, 0, examples[i].fault});
    }
    memset(message->text, 'a', ACME_EVENT_BYTES);
    message->level = 0;
    message->text[ACME_EVENT_BYTES - 1] = '\0';
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_EVENT,
                             sizeof(*message) + ACME_EVENT_BYTES, 0, NULL});
    message->text[ACME_EVENT_BYTES - 1] = 'a';
    message->text[ACME_EVENT_BYTES] = '\0';
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_EVENT,
                             sizeof(*message) + ACME_EVENT_BYTES + 1, 0, content});
}

TEST(key_change_has_an_error_with_its_nul)
{
    struct message_acme_key_changed *message = (struct message_acme_key_changed *)data;

    *message = (struct message_acme_key_changed){.change = 1};
    expect(
        &(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_KEY_CHANGED, sizeof(*message), 0, NULL});
    memset(message->error, 'a', sizeof(message->error));
    expect(&(struct example){ROUTE_ACME_REPORTS, MESSAGE_ACME_KEY_CHANGED, sizeof(*message), 0,
                             content});
    expect(&(struct example){ROUTE_ACME_ORDERS, MESSAGE_ACME_KEY_CHANGED, sizeof(*message), 0,
                             direction});
    expect(&(struct example){ROUTE_ACME_ORDERS, MESSAGE_ACME_CHANGE_KEY,
                             sizeof(struct message_acme_change_key), 0, NULL});
}

TEST(path_must_end_with_the_only_nul)
{
    static const struct {
        const char *path;
        size_t size;
        const char *fault;
    } examples[] = {
        {"/a", 3, NULL},  {"", 1, NULL},         {"/a", 2, content},
        {"", 0, content}, {"/a\0b", 5, content}, {"/a\0", 4, content},
    };
    struct message_command *message = (struct message_command *)data;

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        *message = (struct message_command){.what = COMMAND_CACHE_PURGE};
        memcpy(message->path, examples[i].path, examples[i].size);
        expect(&(struct example){ROUTE_COMMANDS, MESSAGE_COMMAND,
                                 sizeof(*message) + examples[i].size, 0, examples[i].fault});
        message->what = COMMAND_LAST + 1;
        expect(&(struct example){ROUTE_COMMANDS, MESSAGE_COMMAND,
                                 sizeof(*message) + examples[i].size, 0, content});
    }
}

TEST(path_longer_than_a_line_is_invalid)
{
    struct message_command *message = (struct message_command *)data;

    *message = (struct message_command){.what = COMMAND_CACHE_PURGE};
    memset(message->path, 'a', CONTROL_LINE_MAX);
    message->path[CONTROL_LINE_MAX - 1] = '\0';
    expect(&(struct example){ROUTE_COMMANDS, MESSAGE_COMMAND, sizeof(*message) + CONTROL_LINE_MAX,
                             0, NULL});
    message->path[CONTROL_LINE_MAX - 1] = 'a';
    message->path[CONTROL_LINE_MAX] = '\0';
    expect(&(struct example){ROUTE_COMMANDS, MESSAGE_COMMAND,
                             sizeof(*message) + CONTROL_LINE_MAX + 1, 0, content});
}

TEST(opposite_routes_are_pairs)
{
    for (int route = ROUTE_COMMANDS; route <= ROUTE_LOG_REPORTS; route++) {
        enum message_route back = message_route_back((enum message_route)route);

        assert_int_not_equal(back, route);
        assert_int_equal(message_route_back(back), route);
    }
}
