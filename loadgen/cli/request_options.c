/* Setters of the options for requests, connections and reports. */
#include "loadgen/cli/internal.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/plan/message.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* A switch that sets a field to a constant. */
#define SWITCH(name, field, constant)                                                              \
    bool option_set_##name(struct option_reader *reader, struct option_value value)                \
    {                                                                                              \
        (void)value;                                                                               \
        reader->plan->field = constant;                                                            \
        return true;                                                                               \
    }

/* An option whose value is stored unchecked. */
#define STRING(name, field)                                                                        \
    bool option_set_##name(struct option_reader *reader, struct option_value value)                \
    {                                                                                              \
        reader->plan->field = value.text;                                                          \
        return true;                                                                               \
    }

SWITCH(no_keepalive, keepalive, false)
SWITCH(cookies, cookies, true)
SWITCH(gzip, gzip, true)
SWITCH(ipv4, family, AF_INET)
SWITCH(ipv6, family, AF_INET6)
SWITCH(http10, http, PLAN_HTTP_1_0)
SWITCH(http11, http, PLAN_HTTP_1_1)
SWITCH(http2, http, PLAN_HTTP_2)
SWITCH(insecure, insecure, true)
SWITCH(no_resume, resume, false)
SWITCH(json, format, PLAN_FORMAT_JSON)
SWITCH(progress, progress_lines, true)
SWITCH(quiet, quiet, true)
SWITCH(page_loads, page_loads, true)
SWITCH(verbose, verbose, true)

STRING(urls, urls_file)
STRING(har, har_file)
STRING(scenarios, scenario_file)
STRING(csv, csv_file)
STRING(replay, replay_file)
STRING(body_file, body_file)
STRING(ca_file, ca_file)
STRING(certificate, certificate)
STRING(key, key)
STRING(compare, compare)
STRING(baseline, baseline)

/* ---- Requests and connections ---- */

/* In curl and some load generators @FILE is the contents of a file. */
bool option_set_body(struct option_reader *reader, struct option_value value)
{
    if (value.text[0] == '@')
        return option_fail(reader, "%s %s: use --body-file %s for the contents of a file",
                           value.spelling, value.text,
                           value.text[1] != '\0' ? value.text + 1 : "FILE");
    reader->plan->body = value.text;
    return true;
}

bool option_set_method(struct option_reader *reader, struct option_value value)
{
    size_t length = strlen(value.text);

    if (length == 0 || strspn(value.text, MESSAGE_TOKEN_CHARACTERS) != length ||
        strspn(value.text, "0123456789") == length)
        return option_fail(reader, "%s '%s': invalid request method (examples: GET, HEAD)",
                           value.spelling, value.text);
    if (strcmp(value.text, "CONNECT") == 0)
        return option_fail(reader, "%s CONNECT: not supported; use another method", value.spelling);
    reader->plan->method = value.text;
    return true;
}

/* Whether the field frames the message; wsload sets these fields itself. */
static bool is_framing_field(const char *header, size_t name_length)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strlen(names[i]) == name_length && strncasecmp(header, names[i], name_length) == 0)
            return true;
    return false;
}

bool option_set_header(struct option_reader *reader, struct option_value value)
{
    struct plan *plan = reader->plan;
    size_t name_length = strspn(value.text, MESSAGE_TOKEN_CHARACTERS);

    if (name_length == 0 || value.text[name_length] != ':')
        return option_fail(reader, "%s '%s': invalid header field (example: 'Accept: text/html')",
                           value.spelling, value.text);
    if (strpbrk(value.text, "\r\n") != NULL)
        return option_fail(reader, "%s: line break in a header field", value.spelling);
    if (is_framing_field(value.text, name_length))
        return option_fail(reader, "%s '%s': set by wsload itself", value.spelling, value.text);
    if (plan->header_count == PLAN_HEADERS_MAX)
        return option_fail(reader, "%s '%s': more than %d header fields", value.spelling,
                           value.text, PLAN_HEADERS_MAX);
    plan->headers[plan->header_count++] = value.text;
    plan->keepalive = plan->keepalive && !message_closes(value.text);
    return true;
}

bool option_set_order(struct option_reader *reader, struct option_value value)
{
    static const char *const names[] = {
        [PLAN_ORDER_SEQUENCE] = "seq",
        [PLAN_ORDER_RANDOM] = "random",
        [PLAN_ORDER_EACH] = "each",
    };
    struct plan *plan = reader->plan;

    plan->order_given = true;
    plan->once = strcmp(value.text, "once") == 0;
    plan->order = PLAN_ORDER_SEQUENCE;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(value.text, names[i]) == 0) {
            plan->order = (enum plan_order)i;
            return true;
        }
    return plan->once || option_fail(reader, "%s %s: unknown (seq, random, each, once)",
                                     value.spelling, value.text);
}

bool option_set_rows(struct option_reader *reader, struct option_value value)
{
    static const char *const names[] = {
        [PLAN_ROWS_SEQUENCE] = "seq",
        [PLAN_ROWS_RANDOM] = "random",
        [PLAN_ROWS_ONCE] = "once",
    };

    reader->plan->rows_given = true;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(value.text, names[i]) == 0) {
            reader->plan->rows = (enum plan_rows)i;
            return true;
        }
    return option_fail(reader, "%s %s: unknown (seq, random, once)", value.spelling, value.text);
}

bool option_set_speed(struct option_reader *reader, struct option_value value)
{
    size_t digits = strspn(value.text, "0123456789.");
    char *end;

    reader->plan->replay_speed = strtod(value.text, &end);
    if (digits == 0 || end != value.text + digits || (*end != '\0' && strcmp(end, "x") != 0) ||
        reader->plan->replay_speed <= 0 || reader->plan->replay_speed > 1e6)
        return option_fail(reader, "%s %s: invalid factor (examples: 2, 0.5)", value.spelling,
                           value.text);
    return true;
}

/* A list of ranges (RFC 9110 section 14.1.2); checks the characters only. */
bool option_set_range(struct option_reader *reader, struct option_value value)
{
    size_t length = strlen(value.text);

    if (length == 0 || length > 100 || strspn(value.text, "0123456789-,") != length ||
        strchr(value.text, '-') == NULL)
        return option_fail(reader, "%s %s: invalid byte range (examples: 0-99, 500-, -100)",
                           value.spelling, value.text);
    reader->plan->range = value.text;
    return true;
}

bool option_set_user(struct option_reader *reader, struct option_value value)
{
    if (strchr(value.text, ':') == NULL)
        return option_fail(reader, "%s: needs NAME:PASS", value.spelling);
    reader->plan->user = value.text;
    return true;
}

bool option_set_engine(struct option_reader *reader, struct option_value value)
{
    bool raw = strcmp(value.text, "raw") == 0;

    reader->plan->engine = raw ? PLAN_ENGINE_RAW : PLAN_ENGINE_CURL;
    reader->plan->engine_given = true;
    if (!raw && strcmp(value.text, "curl") != 0)
        return option_fail(reader, "%s %s: unknown (curl, raw)", value.spelling, value.text);
    return true;
}

bool option_set_streams(struct option_reader *reader, struct option_value value)
{
    return option_read_number(reader, value, PLAN_STREAMS_MAX, &reader->plan->streams);
}

bool option_set_tls_max(struct option_reader *reader, struct option_value value)
{
    reader->plan->tls_max = strcmp(value.text, "1.2") == 0   ? 12
                            : strcmp(value.text, "1.3") == 0 ? 13
                                                             : 0;
    if (reader->plan->tls_max == 0)
        return option_fail(reader, "%s %s: unknown (1.2, 1.3)", value.spelling, value.text);
    return true;
}

static bool is_list_of_names(const char *text)
{
    return text[0] != '\0' && text[strcspn(text, " \t\r\n")] == '\0';
}

bool option_set_ciphers(struct option_reader *reader, struct option_value value)
{
    if (!is_list_of_names(value.text))
        return option_fail(reader,
                           "%s '%s': invalid list of ciphers (example: "
                           "ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256)",
                           value.spelling, value.text);
    reader->plan->ciphers = value.text;
    return true;
}

bool option_set_groups(struct option_reader *reader, struct option_value value)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    bool valid = context != NULL && is_list_of_names(value.text) &&
                 SSL_CTX_set1_groups_list(context, value.text) == 1;

    SSL_CTX_free(context);
    if (!valid)
        return option_fail(reader,
                           "%s '%s': invalid list of groups, or unknown to this OpenSSL (example: "
                           "X25519:P-256)",
                           value.spelling, value.text);
    reader->plan->groups = value.text;
    return true;
}

bool option_set_max_requests(struct option_reader *reader, struct option_value value)
{
    uint64_t number;

    if (units_parse_count(value.text, &number) != 0 || number < 1 || number > UINT32_MAX)
        return option_fail(reader, "%s %s: invalid number of requests (example: 100)",
                           value.spelling, value.text);
    reader->plan->requests_per_connection = (uint32_t)number;
    return true;
}

bool option_set_unix_socket(struct option_reader *reader, struct option_value value)
{
    if (strlen(value.text) == 0 || strlen(value.text) > 107)
        return option_fail(reader, "%s '%s': invalid path (1-107 bytes)", value.spelling,
                           value.text);
    reader->plan->unix_socket = value.text;
    return true;
}

/* HOST1:PORT1:HOST2:PORT2; parts may be empty, IPv6 addresses are in brackets. */
bool option_set_connect_to(struct option_reader *reader, struct option_value value)
{
    struct plan *plan = reader->plan;
    int colons = 0, depth = 0;

    for (const char *at = value.text; *at != '\0'; at++) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        colons += *at == ':' && depth == 0;
    }
    if (colons != 3)
        return option_fail(reader,
                           "%s %s: invalid mapping (HOST1:PORT1:HOST2:PORT2; parts may be empty)",
                           value.spelling, value.text);
    if (plan->connect_to_count == PLAN_CONNECT_TO_MAX)
        return option_fail(reader, "%s: too many (up to %d)", value.spelling, PLAN_CONNECT_TO_MAX);
    plan->connect_to[plan->connect_to_count++] = value.text;
    return true;
}

bool option_set_proxy(struct option_reader *reader, struct option_value value)
{
    static const char *const schemes[] = {"http",    "https",  "socks4",
                                          "socks4a", "socks5", "socks5h"};
    const char *end = strstr(value.text, "://");
    bool good = end == NULL;

    for (size_t i = 0; end != NULL && i < ARRAY_LENGTH(schemes); i++)
        good = good || (strlen(schemes[i]) == (size_t)(end - value.text) &&
                        strncasecmp(schemes[i], value.text, strlen(schemes[i])) == 0);
    if (!good || value.text[strcspn(value.text, " \t\r\n")] != '\0' ||
        (end != NULL ? end[3] : value.text[0]) == '\0')
        return option_fail(
            reader,
            "%s '%s': invalid proxy (examples: http://127.0.0.1:3128, socks5://127.0.0.1:1080)",
            value.spelling, value.text);
    reader->plan->proxy = value.text;
    return true;
}

bool option_set_interface(struct option_reader *reader, struct option_value value)
{
    if (value.text[0] == '\0')
        return option_fail(reader, "%s: needs an interface or a local address", value.spelling);
    reader->plan->interface = value.text;
    return true;
}

/* "20000" or "20000-29999" */
bool option_set_local_port(struct option_reader *reader, struct option_value value)
{
    char text[64], *dash;
    uint64_t from = 0, to = 0;
    bool good;

    snprintf(text, sizeof(text), "%s", value.text);
    dash = strchr(text, '-');
    if (dash != NULL)
        *dash = '\0';
    good = units_parse_number(text, &from) == 0 &&
           units_parse_number(dash != NULL ? dash + 1 : text, &to) == 0;
    if (!good || from < 1 || to > UINT16_MAX || to < from)
        return option_fail(reader, "%s %s: invalid port or port range (example: 20000-29999)",
                           value.spelling, value.text);
    reader->plan->local_port = (uint16_t)from;
    reader->plan->local_ports = (uint16_t)(to - from + 1);
    return true;
}

/* ---- Reports ---- */

static const char *const format_names[] = {
#define FORMAT(id, name, ending) [PLAN_FORMAT_##id] = (name),
#include "loadgen/plan/formats.def"
#undef FORMAT
};

bool option_set_format(struct option_reader *reader, struct option_value value)
{
    char names[128] = "";

    if (strcmp(value.text, format_names[PLAN_FORMAT_JSON]) == 0)
        return option_fail(reader, "%s json: use --json (-j)", value.spelling);
    for (size_t i = 0; i < PLAN_FORMAT_COUNT; i++) {
        size_t used = strlen(names);

        if (i == PLAN_FORMAT_JSON)
            continue;
        if (strcmp(value.text, format_names[i]) == 0) {
            reader->plan->format = (enum plan_format)i;
            return true;
        }
        snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", format_names[i]);
    }
    return option_fail(reader, "%s %s: unknown format (%s)", value.spelling, value.text, names);
}

bool option_set_output(struct option_reader *reader, struct option_value value)
{
    if (value.text[0] == '\0')
        return option_fail(reader, "%s: needs a file name", value.spelling);
    for (size_t i = 0; i < PLAN_FORMAT_COUNT; i++)
        if (strcmp(value.text, format_names[i]) == 0)
            return option_fail(reader,
                               "%s %s: needs a file name; use --%s%s for the format or %s ./%s",
                               value.spelling, value.text, i == PLAN_FORMAT_JSON ? "" : "format ",
                               value.text, value.spelling, value.text);
    reader->plan->output = strcmp(value.text, "-") == 0 ? NULL : value.text;
    return true;
}

static bool add_percentile(struct plan *plan, const char *word)
{
    char *end;
    double percent = strtod(word, &end);

    if (strspn(word, "0123456789.") != strlen(word) || end == word || *end != '\0' ||
        percent <= 0 || percent >= 100 || plan->percentile_count == PLAN_PERCENTILES_MAX)
        return false;
    plan->percentiles[plan->percentile_count++] = percent;
    return true;
}

bool option_set_percentiles(struct option_reader *reader, struct option_value value)
{
    struct plan *plan = reader->plan;
    char text[256], *rest = NULL;
    bool good = strlen(value.text) < sizeof(text);

    plan->percentile_count = 0;
    snprintf(text, sizeof(text), "%s", value.text);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest))
        good = add_percentile(plan, word);
    if (!good || plan->percentile_count == 0)
        return option_fail(reader,
                           "%s %s: invalid percentiles (up to %d between 0 and 100; example: "
                           "50,95,99.9); use --body-file for a body",
                           value.spelling, value.text, PLAN_PERCENTILES_MAX);
    return true;
}

bool option_set_zipf(struct option_reader *reader, struct option_value value)
{
    size_t digits = strspn(value.text, "0123456789.");
    char *end;

    reader->plan->zipf = strtod(value.text, &end);
    if (digits > 0 && end == value.text + digits && *end == '\0' && reader->plan->zipf > 0 &&
        reader->plan->zipf <= 10)
        return true;
    return option_fail(reader, "%s %s: invalid exponent (above 0, up to 10; examples: 0.8, 1)",
                       value.spelling, value.text);
}

bool option_set_log(struct option_reader *reader, struct option_value value)
{
    reader->plan->log_file = value.text;
    return value.text[0] != '\0' || option_fail(reader, "%s: needs a file name", value.spelling);
}

bool option_set_metrics(struct option_reader *reader, struct option_value value)
{
    const char *colon = strrchr(value.text, ':');
    uint64_t port;

    reader->plan->metrics = value.text;
    if (colon != NULL && units_parse_number(colon + 1, &port) == 0 && port >= 1 && port <= 65535)
        return true;
    return option_fail(reader,
                       "%s %s: invalid address (examples: 127.0.0.1:9100, [::1]:9100, :9100)",
                       value.spelling, value.text);
}

/* The next TEXT, "14:30" or "14:30:00", of the local clock after NOW_S; 0: invalid. */
static time_t next_local_time(const char *text, time_t now_s)
{
    struct tm tm;
    const char *end;
    time_t at;

    localtime_r(&now_s, &tm);
    tm.tm_sec = 0;
    end = strptime(text, strlen(text) > 5 ? "%H:%M:%S" : "%H:%M", &tm);
    if (end == NULL || *end != '\0')
        return 0;
    tm.tm_isdst = -1;
    at = mktime(&tm);
    if (at <= now_s) {
        tm.tm_mday++;
        tm.tm_isdst = -1;
        at = mktime(&tm);
    }
    return at;
}

/* A time of day, Unix seconds, or UTC: the clocks of several machines agree on them. */
bool option_set_start_at(struct option_reader *reader, struct option_value value)
{
    time_t now_s = time(NULL), at = next_local_time(value.text, now_s);
    struct tm tm = {0};
    const char *end = strptime(value.text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    uint64_t number;

    if (end != NULL && *end == '\0')
        at = timegm(&tm);
    else if (units_parse_number(value.text, &number) == 0 && number < UINT32_MAX)
        at = (time_t)number;
    if (at == 0)
        return option_fail(reader,
                           "%s %s: invalid time (examples: 14:30:00, 2026-11-28T14:30:00Z, Unix "
                           "seconds)",
                           value.spelling, value.text);
    if (at <= now_s || at > now_s + PLAN_TIME_MAX_MS / 1000)
        return option_fail(reader, "%s %s: %s", value.spelling, value.text,
                           at <= now_s ? "is in the past" : "is more than 15 days away");
    reader->plan->start_ns = (uint64_t)at * NS_PER_S;
    return true;
}

bool option_set_control_fd(struct option_reader *reader, struct option_value value)
{
    uint64_t fd;

    if (units_parse_number(value.text, &fd) != 0 || fd > 1000000 || fd == 1 || fd == 2)
        return option_fail(reader, "%s %s: invalid descriptor (0 is standard input)",
                           value.spelling, value.text);
    reader->plan->control_fd = (int)fd;
    return true;
}
