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

enum { WORK_MAX_MS = 100, VALUE_MAX = 128, QUOTED_MAX = 40, WHY_MAX = 256 };

static const struct arithmetic_function {
    const char *name;
    int64_t min, max; /* the range of n in which results fit */
    int power;        /* of n; 0: Fibonacci number */
} functions[] = {
    {"fibonacci", 0, 93, 0},
    {"square", -INT64_C(4294967295), INT64_C(4294967295), 2},
    {"cube", -2097152, 2642245, 3},
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

static bool parse_n(struct arithmetic_query *query, const char *value, char *why)
{
    const struct arithmetic_function *function = query->function;
    const char *digits = value + (value[0] == '-');

    errno = 0;
    query->n = strtoll(value, NULL, 10);
    if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        snprintf(why, WHY_MAX, "invalid n '%.*s' (examples: 10, -3)", QUOTED_MAX, value);
    else if (errno != 0 || query->n < function->min || query->n > function->max)
        snprintf(why, WHY_MAX, "n: %.*s is out of range for %s (%" PRId64 " to %" PRId64 ")",
                 QUOTED_MAX, value, function->name, function->min, function->max);
    else
        return true;
    return false;
}

static bool parse_work(struct arithmetic_query *query, const char *value, char *why)
{
    uint64_t time_ms = 0;
    bool valid = units_parse_time_ms(value, &time_ms) == 0;

    query->work_ns = time_ms * NS_PER_MS;
    if (!valid)
        snprintf(why, WHY_MAX, "invalid work '%.*s' (example: 2ms)", QUOTED_MAX, value);
    else if (time_ms > WORK_MAX_MS)
        snprintf(why, WHY_MAX, "work: %.*s is out of range (0 to %dms)", QUOTED_MAX, value,
                 WORK_MAX_MS);
    return valid && time_ms <= WORK_MAX_MS;
}

/* Parses "n=10&work=2ms" for the function of QUERY. Returns false with the reason in WHY. */
static bool parse_arithmetic_query(struct arithmetic_query *query, struct span text, char *why)
{
    bool has_n = false, has_work = false, valid = true;

    while (text.length > 0 && valid) {
        struct span value_text = qvalue_cut(&text, '&'), name_text = qvalue_cut(&value_text, '=');
        char name[VALUE_MAX], value[VALUE_MAX];
        bool is_n, is_work;

        decode_unreserved(name_text, name);
        decode_unreserved(value_text, value);
        is_n = strcmp(name, "n") == 0;
        is_work = strcmp(name, "work") == 0;
        valid = (is_n && !has_n && parse_n(query, value, why)) ||
                (is_work && !has_work && parse_work(query, value, why));
        if ((is_n && has_n) || (is_work && has_work))
            snprintf(why, WHY_MAX, "%s is repeated", name);
        else if (!is_n && !is_work)
            snprintf(why, WHY_MAX, "unknown parameter '%.*s' (valid: n, work)", QUOTED_MAX, name);
        has_n |= is_n;
        has_work |= is_work;
    }
    if (valid && !has_n)
        snprintf(why, WHY_MAX, "n is missing (example: %s?n=10)", query->function->name);
    return valid && has_n;
}

/* Responding */

static const char *result_fields(bool json)
{
    return json ? "Content-Type: application/json\r\nVary: Accept\r\nCache-Control: no-store\r\n"
                : "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
                  "Cache-Control: no-store\r\n";
}

static uint64_t compute(const struct arithmetic_function *function, uint64_t n)
{
    uint64_t result = function->power > 0, next = 1;

    for (int i = 0; i < function->power; i++)
        result *= n;
    for (; n > 0 && function->power == 0; n--) {
        uint64_t sum = result + next; /* the last one (n = 94) wraps around and is not used */

        result = next;
        next = sum;
    }
    return result;
}

/* Works and computes: a page_maker. */
static int make_result_page(const struct site *site, const struct page_spec *spec, struct span path,
                            struct resource **page)
{
    const struct arithmetic_query *query = &spec->arithmetic;
    const struct arithmetic_function *function = query->function;
    bool negative = query->n < 0;
    uint64_t result = compute(function, (uint64_t)(negative ? -query->n : query->n));
    const char *sign = negative && function->power % 2 != 0 ? "-" : "";
    char text[WHY_MAX];
    int length;

    (void)site;
    if (query->work_ns > 0)
        for (uint64_t end = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) + query->work_ns;
             clock_read_ns(CLOCK_THREAD_CPUTIME_ID) < end;)
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
    struct resource *page = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out != NULL && json) {
        fputs("{\"error\":\"", out);
        escape_json(out, why);
        fputs("\"}\n", out);
    } else if (out != NULL) {
        fprintf(out, "%s\n", why);
    }
    if (out != NULL && memstream_close(out, &text) == 0)
        resource_new_page(path, result_fields(json), text, length, &page);
    free(text);
    return page != NULL ? reply_page(transaction, 400, page) : reply_error(transaction, 503);
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
    if (!parse_arithmetic_query(&spec.arithmetic, target->query, why))
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
