#include "common/clock.h"
#include "common/escape.h"
#include "daemon/base/memstream.h"
#include "daemon/http/negotiation.h"
#include "daemon/transaction/arithmetic.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/reply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TEXT_MAX = 2 * ARITHMETIC_WHY_MAX };

static const char *fields_for(bool json)
{
    return json ? "Content-Type: application/json\r\nVary: Accept\r\nCache-Control: no-store\r\n"
                : "Content-Type: text/plain; charset=utf-8\r\nVary: Accept\r\n"
                  "Cache-Control: no-store\r\n";
}

static int new_result_page(const struct page_spec *spec, struct span path, struct resource **page)
{
    const struct arithmetic_query *query = &spec->arithmetic;
    struct arithmetic_result result = arithmetic_compute(query);
    const char *sign = result.negative ? "-" : "";
    char text[TEXT_MAX];
    int length;

    if (spec->json)
        length = snprintf(text, sizeof(text),
                          "{\"function\":\"%s\",\"n\":%" PRId64 ",\"result\":%s%" PRIu64 "}\n",
                          arithmetic_name(query->function), query->n, sign, result.magnitude);
    else
        length = snprintf(text, sizeof(text), "%s%" PRIu64 "\n", sign, result.magnitude);
    return page_new(path, fields_for(spec->json), text, (size_t)length, page);
}

static uint64_t processor_time_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

/* Generates the page: a page_maker. */
static int make_result_page(const struct site *site, const struct page_spec *spec, struct span path,
                            struct resource **page)
{
    uint64_t end = processor_time_ns() + spec->arithmetic.work_ns;

    (void)site;
    while (processor_time_ns() < end)
        continue;
    return new_result_page(spec, path, page);
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
        failed = page_new(path, fields_for(json), text, length, &page);
    free(text);
    return failed == 0 ? reply_page(transaction, 400, page) : reply_error(transaction, 503);
}

static enum transaction_result respond(struct transaction *transaction, struct span path,
                                       const struct page_spec *spec)
{
    struct resource *page = NULL;
    int failed = 0;

    if (loading_take_page(transaction, path, &page, &failed))
        return failed == 0 ? reply_page(transaction, 200, page)
                           : reply_error(transaction, lookup_status(failed));
    if (spec->arithmetic.work_ns == 0)
        return new_result_page(spec, path, &page) == 0 ? reply_page(transaction, 200, page)
                                                       : reply_error(transaction, 503);
    if (transaction->may_wait && loading_submit_page(transaction, path, spec))
        return TRANSACTION_WAITING;
    return reply_queue_full(transaction);
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
    struct span path = {target->path, target->length};
    struct page_spec spec = {.make = make_result_page, .state = THREAD_STATE_COMPUTE};
    char why[ARITHMETIC_WHY_MAX];

    spec.arithmetic.function = arithmetic_find(target->path + strlen(prefix) + 1);
    if (spec.arithmetic.function == ARITHMETIC_FUNCTION_COUNT)
        return reply_error(transaction, 404);
    spec.json = accept_prefers_json(transaction->request, SPAN("plain"));
    if (arithmetic_parse(&spec.arithmetic, target->query, why) != 0)
        return respond_bad_query(transaction, path, spec.json, why);
    return respond(transaction, path, &spec);
}
