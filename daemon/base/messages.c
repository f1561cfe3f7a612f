#include "daemon/base/messages.h"

#include "common/control_client.h"
#include "common/tables.h"

#include <stdbool.h>
#include <string.h>

/* True if SIZE bytes may follow the struct at DATA. */
typedef bool tail_test(const void *data, size_t size);

static bool nothing(const void *data, size_t size)
{
    (void)data;
    return size == 0;
}

static bool path(const void *data, size_t size)
{
    const struct message_command *message = data;

    return message->what <= COMMAND_LAST && size > 0 && size <= CONTROL_LINE_MAX &&
           memchr(message->path, '\0', size) == message->path + size - 1;
}

static bool unread_bytes(const void *data, size_t size)
{
    const struct message_connection *message = data;

    return message->length <= PASSED_BYTES_MAX && size == message->length &&
           message->admitted <= 1 && message->idle <= 1 && message->opening <= OPENING_ALL &&
           message->proxied <= 1 && (message->opening != OPENING_TLS || message->length == 0);
}

static bool known_log(const void *data, size_t size)
{
    const struct message_log *message = data;

    return size == 0 && message->log < LOG_KINDS + LOG_HOST_FILES_MAX;
}

static bool memory_level(const void *data, size_t size)
{
    const struct message_memory *message = data;

    return size == 0 && message->level <= MEMORY_EXHAUSTED;
}

static bool some_keys(const void *data, size_t size)
{
    const struct message_ticket_keys *message = data;

    return size == 0 && message->count > 0 && message->count <= TICKET_KEYS;
}

static bool signed_bytes(const void *data, size_t size)
{
    (void)data;
    return size >= 1 && size <= SIGNED_BYTES_MAX;
}

static bool signature_bytes(const void *data, size_t size)
{
    (void)data;
    return size <= SIGNATURE_BYTES_MAX;
}

static bool event_text(const void *data, size_t size)
{
    const struct message_acme_event *message = data;

    return message->level < LEVEL_COUNT && size > 0 && size <= ACME_EVENT_BYTES &&
           memchr(message->text, '\0', size) == message->text + size - 1;
}

static bool plan_text(const void *data, size_t size)
{
    const struct message_acme_plan *message = data;

    return size == 0 && memchr(message->error, '\0', sizeof(message->error)) != NULL;
}

static bool key_changed_text(const void *data, size_t size)
{
    const struct message_acme_key_changed *message = data;

    return size == 0 && memchr(message->error, '\0', sizeof(message->error)) != NULL;
}

/* Of the alphabet of base64url (RFC 4648 section 5), with a NUL after it. */
static bool is_base64url(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
              (text[i] >= '0' && text[i] <= '9') || text[i] == '-' || text[i] == '_'))
            return false;
    return length < size;
}

static bool challenge_text(const void *data, size_t size)
{
    const struct message_acme_challenge *message = data;

    return size == 0 && message->kind < CHALLENGE_DNS_01 &&
           is_base64url(message->token, sizeof(message->token)) &&
           is_base64url(message->thumbprint, sizeof(message->thumbprint));
}

static bool record_text(const void *data, size_t size)
{
    const struct message_acme_record *message = data;

    return size == 0 && message->remove <= 1 &&
           is_base64url(message->value, sizeof(message->value));
}

static bool record_done_text(const void *data, size_t size)
{
    const struct message_acme_record_done *message = data;

    return size == 0 && memchr(message->error, '\0', sizeof(message->error)) != NULL;
}

#define NO_DATA char[0]

static const struct {
    enum message_route route;
    uint32_t descriptors;
    size_t data_bytes;
    tail_test *tail;
} forms[] = {
#define MESSAGE(kind, route, descriptors, data, tail, purpose)                                     \
    [MESSAGE_##kind] = {ROUTE_##route, descriptors, sizeof(data), tail},
#include "daemon/base/messages.def"
#undef MESSAGE
};

const char *message_fault(enum message_route route, int64_t kind, const void *data, size_t length,
                          size_t descriptors)
{
    if (kind < 0 || kind >= MESSAGE_COUNT)
        return "sent a message of unknown kind";
    if (forms[kind].route != route)
        return "sent a message in the wrong direction";
    if (descriptors != forms[kind].descriptors)
        return descriptors == 0 ? "sent a message without its descriptor"
                                : "sent a message with unexpected descriptors";
    if (length < forms[kind].data_bytes || !forms[kind].tail(data, length - forms[kind].data_bytes))
        return "sent a message of wrong length or content";
    return NULL;
}

enum message_route message_route_back(enum message_route route)
{
    static const enum message_route back[] = {
        [ROUTE_COMMANDS] = ROUTE_REPORTS,         [ROUTE_REPORTS] = ROUTE_COMMANDS,
        [ROUTE_DISPATCH] = ROUTE_RETURNS,         [ROUTE_RETURNS] = ROUTE_DISPATCH,
        [ROUTE_LOGGING] = ROUTE_LOG_REPORTS,      [ROUTE_LOG_REPORTS] = ROUTE_LOGGING,
        [ROUTE_KEYS_ORDERS] = ROUTE_KEYS_REPORTS, [ROUTE_KEYS_REPORTS] = ROUTE_KEYS_ORDERS,
        [ROUTE_SIGN_REQUESTS] = ROUTE_SIGNATURES, [ROUTE_SIGNATURES] = ROUTE_SIGN_REQUESTS,
        [ROUTE_ACME_REPORTS] = ROUTE_ACME_ORDERS, [ROUTE_ACME_ORDERS] = ROUTE_ACME_REPORTS,
    };

    return back[route];
}
