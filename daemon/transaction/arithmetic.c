/*
 * Exact 64-bit integer arithmetic below [arithmetic] prefix, for demonstrations and as processor
 * work: "/arithmetic/cube?n=10&work=2ms" keeps an offload thread busy for two milliseconds. The
 * answer is text or JSON, by Accept.
 */
#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/units.h"
#include "daemon/base/memory_file.h"
#include "daemon/http/negotiation.h"
#include "daemon/transaction/internal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORK_MAX_MS = 100, VALUE_MAX = 128, QUOTED_MAX = 40, WHY_MAX = 256 };

static uint64_t fibonacci(uint64_t n)
{
    uint64_t one = 0, next = 1;

    for (; n > 0; n--) {
        uint64_t sum = one + next; /* the last one (n = 94) wraps around and is not used */

        one = next;
        next = sum;
    }
    return one;
}

static uint64_t square(uint64_t n)
{
    return n * n;
}

static uint64_t cube(uint64_t n)
{
    return n * n * n;
}

static const struct arithmetic_function {
    const char *name;
    int64_t min, max; /* the range of n in which results fit */
    uint64_t (*of_magnitude)(uint64_t n);
    bool keeps_sign;
} functions[] = {
    {"fibonacci", 0, 93, fibonacci, false},
    {"square", -INT64_C(4294967295), INT64_C(4294967295), square, false},
    {"cube", -2097152, 2642245, cube, true},
};

/* Parsing */

/*
 * Decodes escaped unreserved characters (RFC 3986 section 6.2.2.2); numbers, durations and names
 * consist of these alone. Cuts what does not fit into BUFFER, which no valid text needs.
 */
static void decode_unreserved(struct span text, char buffer[VALUE_MAX])
{
    size_t length = 0;

    for (size_t i = 0; i < text.length && length < VALUE_MAX - 1; i++) {
        char byte = text.start[i];

        if (byte == '%' && i + 2 < text.length && isxdigit((unsigned char)text.start[i + 1]) &&
            isxdigit((unsigned char)text.start[i + 2])) {
            const char digits[] = {text.start[i + 1], text.start[i + 2], '\0'};
            int decoded = (int)strtol(digits, NULL, 16);

            if (isalnum(decoded) || (decoded != 0 && strchr("-._~", decoded) != NULL)) {
                byte = (char)decoded;
                i += 2;
            }
        }
        buffer[length++] = byte;
    }
    buffer[length] = '\0';
}

static int parse_n(struct arithmetic_query *query, const char *value, char *why)
{
    const struct arithmetic_function *function = query->function;
    const char *digits = value + (value[0] == '-');

    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0') {
        snprintf(why, WHY_MAX, "invalid n '%.*s' (examples: 10, -3)", QUOTED_MAX, value);
        return -1;
    }
    errno = 0;
    query->n = strtoll(value, NULL, 10);
    if (errno == 0 && query->n >= function->min && query->n <= function->max)
        return 0;
    snprintf(why, WHY_MAX, "n: %.*s is out of range for %s (%" PRId64 " to %" PRId64 ")",
             QUOTED_MAX, value, function->name, function->min, function->max);
    return -1;
}

static int parse_work(struct arithmetic_query *query, const char *value, char *why)
{
    uint64_t time_ms = 0;

    if (units_parse_time_ms(value, &time_ms) != 0)
        snprintf(why, WHY_MAX, "invalid work '%.*s' (example: 2ms)", QUOTED_MAX, value);
    else if (time_ms > WORK_MAX_MS)
        snprintf(why, WHY_MAX, "work: %.*s is out of range (0 to %dms)", QUOTED_MAX, value,
                 WORK_MAX_MS);
    else {
        query->work_ns = time_ms * NS_PER_MS;
        return 0;
    }
    return -1;
}

/* Parses "n=10&work=2ms" for the function of QUERY. Returns 0, or -1 with the reason in WHY. */
static int parse_arithmetic_query(struct arithmetic_query *query, struct span text, char *why)
{
    bool has_n = false, has_work = false;

    while (text.length > 0) {
        struct span value_text = qvalue_cut(&text, '&'), name_text = qvalue_cut(&value_text, '=');
        char name[VALUE_MAX], value[VALUE_MAX];
        bool is_n, *given;

        decode_unreserved(name_text, name);
        decode_unreserved(value_text, value);
        is_n = strcmp(name, "n") == 0;
        given = is_n ? &has_n : &has_work;
        if (!is_n && strcmp(name, "work") != 0) {
            snprintf(why, WHY_MAX, "unknown parameter '%.*s' (valid: n, work)", QUOTED_MAX, name);
            return -1;
        }
        if (*given) {
            snprintf(why, WHY_MAX, "%s is repeated", name);
            return -1;
        }
        *given = true;
        if ((is_n ? parse_n(query, value, why) : parse_work(query, value, why)) != 0)
            return -1;
    }
    if (has_n)
        return 0;
    snprintf(why, WHY_MAX, "n is missing (example: %s?n=10)", query->function->name);
    return -1;
}

/* Responding */

static const char *result_fields(bool json)
{
    return json ? "Content-Type: application/json\r\nVary: Accept\r\nCache-Control: no-store\r\n"
                : "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
                  "Cache-Control: no-store\r\n";
}

static uint64_t processor_time_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

/* Works and computes: a page_maker. */
static int make_result_page(const struct site *site, const struct page_spec *spec, struct span path,
                            struct resource **page)
{
    const struct arithmetic_query *query = &spec->arithmetic;
    const struct arithmetic_function *function = query->function;
    bool negative = query->n < 0;
    uint64_t result = function->of_magnitude((uint64_t)(negative ? -query->n : query->n));
    const char *sign = negative && function->keeps_sign ? "-" : "";
    char text[WHY_MAX];
    int length;

    (void)site;
    if (query->work_ns > 0)
        for (uint64_t end = processor_time_ns() + query->work_ns; processor_time_ns() < end;)
            continue;
    if (spec->json)
        length = snprintf(text, sizeof(text),
                          "{\"function\":\"%s\",\"n\":%" PRId64 ",\"result\":%s%" PRIu64 "}\n",
                          function->name, query->n, sign, result);
    else
        length = snprintf(text, sizeof(text), "%s%" PRIu64 "\n", sign, result);
    return resource_new_page(path, result_fields(spec->json), text, (size_t)length, page);
}

/* Responds 400 with the reason. */
static enum transaction_result respond_bad_query(struct transaction *transaction, struct span path,
                                                 bool json, const char *why)
{
    char *text = NULL;
    struct resource *page;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int failed = ENOMEM;

    if (out == NULL)
        return reply_error(transaction, 503);
    fputs(json ? "{\"error\":\"" : "", out);
    if (json)
        escape_json(out, why);
    else
        fputs(why, out);
    fputs(json ? "\"}\n" : "\n", out);
    if (memstream_close(out, &text) == 0)
        failed = resource_new_page(path, result_fields(json), text, length, &page);
    free(text);
    return failed == 0 ? reply_page(transaction, 400, page) : reply_error(transaction, 503);
}

bool handler_arithmetic_owns(const struct config *config, const char *path)
{
    size_t length = strlen(config->arithmetic_prefix);

    return config->arithmetic_enabled && strncmp(path, config->arithmetic_prefix, length) == 0 &&
           path[length] == '/';
}

enum transaction_result handler_arithmetic(struct transaction *transaction,
                                           const struct target *target)
{
    const char *prefix = transaction->context->worker->config->arithmetic_prefix;
    const char *name = target->path + strlen(prefix) + 1;
    struct span path = {target->path, target->length};
    struct page_spec spec = {.make = make_result_page, .state = THREAD_STATE_COMPUTE};
    struct resource *page = NULL;
    char why[WHY_MAX];
    int failed = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(functions); i++)
        if (strcmp(functions[i].name, name) == 0)
            spec.arithmetic.function = &functions[i];
    if (spec.arithmetic.function == NULL)
        return reply_error(transaction, 404);
    spec.json = accept_prefers_json(transaction->request, SPAN("plain"));
    if (parse_arithmetic_query(&spec.arithmetic, target->query, why) != 0)
        return respond_bad_query(transaction, path, spec.json, why);
    if (!loading_take_page(transaction, path, &page, &failed)) {
        if (spec.arithmetic.work_ns > 0)
            return transaction->may_wait && loading_submit_page(transaction, path, &spec)
                       ? TRANSACTION_WAITING
                       : reply_queue_full(transaction);
        failed = make_result_page(transaction->site, &spec, path, &page);
    }
    return failed == 0 ? reply_page(transaction, 200, page)
                       : reply_error(transaction, lookup_status(failed));
}
