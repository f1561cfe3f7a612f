/* What is sent, and over which connections. */
#include "loadgen/cli/options_take.h"

#include "common/units.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool take_method(struct reading *reading, struct typed typed)
{
    size_t length = strlen(typed.value);

    if (length == 0 || strspn(typed.value, TOKEN_CHARACTERS) != length ||
        strspn(typed.value, "0123456789") == length)
        return options_refuse(reading,
                              "%s '%s': is not a request method; say for example GET or HEAD",
                              typed.spelling, typed.value);
    if (strcmp(typed.value, "CONNECT") == 0)
        return options_refuse(
            reading, "%s CONNECT: asks for a tunnel, which is not load; use another method",
            typed.spelling);
    reading->plan->method = typed.value;
    return true;
}

/* Fields that say where a message ends: requests carry no body, so these could only lie. */
static bool is_framing_field(const char *header, size_t name_length)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strlen(names[i]) == name_length && strncasecmp(header, names[i], name_length) == 0)
            return true;
    return false;
}

bool take_header(struct reading *reading, struct typed typed)
{
    struct plan *plan = reading->plan;
    size_t name_length = strspn(typed.value, TOKEN_CHARACTERS);

    if (name_length == 0 || typed.value[name_length] != ':')
        return options_refuse(reading,
                              "%s '%s': needs a name, a colon and a value: 'Accept: text/html'",
                              typed.spelling, typed.value);
    if (strpbrk(typed.value, "\r\n") != NULL)
        return options_refuse(reading, "%s: a header field has no line break in it",
                              typed.spelling);
    if (is_framing_field(typed.value, name_length))
        return options_refuse(reading, "%s '%s': is set by wsload itself, which sends no body",
                              typed.spelling, typed.value);
    if (plan->header_count == PLAN_HEADERS_MAX)
        return options_refuse(reading, "%s '%s': more than %d header fields", typed.spelling,
                              typed.value, PLAN_HEADERS_MAX);
    plan->headers[plan->header_count++] = typed.value;
    return true;
}

bool take_no_keepalive(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->keepalive = false;
    return true;
}

bool take_urls(struct reading *reading, struct typed typed)
{
    reading->plan->urls_file = typed.value;
    return true;
}

bool take_order(struct reading *reading, struct typed typed)
{
    bool random = strcmp(typed.value, "random") == 0;

    reading->plan->order = random ? PLAN_ORDER_RANDOM : PLAN_ORDER_SEQUENCE;
    if (!random && strcmp(typed.value, "seq") != 0)
        return options_refuse(reading, "%s %s: is either seq or random", typed.spelling,
                              typed.value);
    return true;
}

bool take_replay(struct reading *reading, struct typed typed)
{
    reading->plan->replay_file = typed.value;
    return true;
}

bool take_speed(struct reading *reading, struct typed typed)
{
    size_t digits = strspn(typed.value, "0123456789.");
    char *end;

    reading->plan->replay_speed = strtod(typed.value, &end);
    if (digits == 0 || end != typed.value + digits || (*end != '\0' && strcmp(end, "x") != 0) ||
        reading->plan->replay_speed <= 0 || reading->plan->replay_speed > 1e6)
        return options_refuse(reading, "%s %s: needs a factor above 0, such as 2 or 0.5",
                              typed.spelling, typed.value);
    return true;
}

bool take_body(struct reading *reading, struct typed typed)
{
    reading->plan->body = typed.value;
    return true;
}

bool take_body_file(struct reading *reading, struct typed typed)
{
    reading->plan->body_file = typed.value;
    return true;
}

/* A list of ranges of RFC 9110 section 14.1.2; the server judges the rest. */
bool take_range(struct reading *reading, struct typed typed)
{
    size_t length = strlen(typed.value);

    if (length == 0 || length > 100 || strspn(typed.value, "0123456789-,") != length ||
        strchr(typed.value, '-') == NULL)
        return options_refuse(reading, "%s %s: needs bytes, such as 0-99, 500- or -100",
                              typed.spelling, typed.value);
    reading->plan->range = typed.value;
    return true;
}

bool take_gzip(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->gzip = true;
    return true;
}

bool take_user(struct reading *reading, struct typed typed)
{
    if (strchr(typed.value, ':') == NULL)
        return options_refuse(reading, "%s: needs a name, a colon and a password", typed.spelling);
    reading->plan->user = typed.value;
    return true;
}

bool take_engine(struct reading *reading, struct typed typed)
{
    bool raw = strcmp(typed.value, "raw") == 0;

    reading->plan->engine = raw ? PLAN_ENGINE_RAW : PLAN_ENGINE_CURL;
    if (!raw && strcmp(typed.value, "curl") != 0)
        return options_refuse(reading, "%s %s: is either curl or raw", typed.spelling, typed.value);
    return true;
}

bool take_max_requests(struct reading *reading, struct typed typed)
{
    uint64_t number;

    if (units_parse_count(typed.value, &number) != 0 || number < 1 || number > UINT32_MAX)
        return options_refuse(reading, "%s %s: needs a number of requests, such as 100",
                              typed.spelling, typed.value);
    reading->plan->requests_per_connection = (uint32_t)number;
    return true;
}

bool take_unix_socket(struct reading *reading, struct typed typed)
{
    if (strlen(typed.value) == 0 || strlen(typed.value) > 107)
        return options_refuse(reading, "%s '%s': needs a path of 1 to 107 bytes", typed.spelling,
                              typed.value);
    reading->plan->unix_socket = typed.value;
    return true;
}

/* HOST1:PORT1:HOST2:PORT2, each may be empty; IPv6 addresses stand in brackets. */
bool take_connect_to(struct reading *reading, struct typed typed)
{
    struct plan *plan = reading->plan;
    int colons = 0, depth = 0;

    for (const char *at = typed.value; *at != '\0'; at++) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        colons += *at == ':' && depth == 0;
    }
    if (colons != 3)
        return options_refuse(reading, "%s %s: needs HOST1:PORT1:HOST2:PORT2, each may be empty",
                              typed.spelling, typed.value);
    if (plan->connect_to_count == PLAN_CONNECT_TO_MAX)
        return options_refuse(reading, "%s: more than %d", typed.spelling, PLAN_CONNECT_TO_MAX);
    plan->connect_to[plan->connect_to_count++] = typed.value;
    return true;
}

bool take_proxy(struct reading *reading, struct typed typed)
{
    static const char *const schemes[] = {"http",    "https",  "socks4",
                                          "socks4a", "socks5", "socks5h"};
    const char *end = strstr(typed.value, "://");
    bool good = end == NULL;

    for (size_t i = 0; end != NULL && i < ARRAY_LENGTH(schemes); i++)
        good = good || (strlen(schemes[i]) == (size_t)(end - typed.value) &&
                        strncasecmp(schemes[i], typed.value, strlen(schemes[i])) == 0);
    if (!good || typed.value[strcspn(typed.value, " \t\r\n")] != '\0' ||
        (end != NULL ? end[3] : typed.value[0]) == '\0')
        return options_refuse(reading,
                              "%s '%s': needs a proxy, such as http://127.0.0.1:3128 or "
                              "socks5://127.0.0.1:1080",
                              typed.spelling, typed.value);
    reading->plan->proxy = typed.value;
    return true;
}

bool take_interface(struct reading *reading, struct typed typed)
{
    if (typed.value[0] == '\0')
        return options_refuse(reading, "%s: needs an address or an interface of this machine",
                              typed.spelling);
    reading->plan->interface = typed.value;
    return true;
}

/* "20000" or "20000-29999" */
bool take_local_port(struct reading *reading, struct typed typed)
{
    char text[64], *dash;
    uint64_t from = 0, to = 0;
    bool good;

    snprintf(text, sizeof(text), "%s", typed.value);
    dash = strchr(text, '-');
    if (dash != NULL)
        *dash = '\0';
    good = units_parse_number(text, &from) == 0 &&
           units_parse_number(dash != NULL ? dash + 1 : text, &to) == 0;
    if (!good || from < 1 || to > UINT16_MAX || to < from)
        return options_refuse(reading, "%s %s: needs a port or a range of them: 20000-29999",
                              typed.spelling, typed.value);
    reading->plan->local_port = (uint16_t)from;
    reading->plan->local_ports = (uint16_t)(to - from + 1);
    return true;
}

bool take_ipv4(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->family = AF_INET;
    return true;
}

bool take_ipv6(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->family = AF_INET6;
    return true;
}

bool take_http10(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->http = PLAN_HTTP_1_0;
    return true;
}

bool take_http11(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->http = PLAN_HTTP_1_1;
    return true;
}

bool take_http2(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->http = PLAN_HTTP_2;
    return true;
}

bool take_insecure(struct reading *reading, struct typed typed)
{
    (void)typed;
    reading->plan->insecure = true;
    return true;
}

bool take_ca_file(struct reading *reading, struct typed typed)
{
    reading->plan->ca_file = typed.value;
    return true;
}

bool take_certificate(struct reading *reading, struct typed typed)
{
    reading->plan->certificate = typed.value;
    return true;
}

bool take_key(struct reading *reading, struct typed typed)
{
    reading->plan->key = typed.value;
    return true;
}
