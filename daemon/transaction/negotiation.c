#include "daemon/transaction/negotiation.h"

#include "common/macros.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/reply.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <string.h>

static coding_preference read_lines(const struct request *request)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;
    struct span line;
    const char *at = NULL;

    while (request_next_value(request, REQUEST_ACCEPT_ENCODING, &at, &line))
        coding_read(&weights, line);
    return coding_prefer(&weights);
}

static coding_preference read_line(struct span line)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;

    coding_read(&weights, line);
    return coding_prefer(&weights);
}

coding_preference negotiation_accepts(struct serving_thread *thread, const struct request *request)
{
    struct accepted *last = &thread->accepted;
    struct span line = request->accept_encoding;

    if ((request->present & REQUEST_ACCEPT_ENCODING) == 0)
        return PREFER_IDENTITY;
    if ((request->repeated & REQUEST_ACCEPT_ENCODING) != 0)
        return read_lines(request);
    if (line.length > sizeof(last->line))
        return read_line(line);
    if (UNLIKELY(!span_is(line, (struct span){last->line, last->length}))) {
        memcpy(last->line, line.start, line.length);
        last->length = line.length;
        last->preference = read_line(line);
    }
    return last->preference;
}

static bool has_form(const struct resource *resource, enum coding coding)
{
    return resource->variants.member[coding].inode != 0 ||
           (coding == CODING_GZIP && resource->may_gzip &&
            !atomic_load_explicit(&resource->gzip_not_smaller, memory_order_relaxed));
}

/* EBUSY when one would be acceptable but can't be had now. */
static int choose_form(struct exchange *exchange, struct resource *resource,
                       struct resource **chosen)
{
    coding_preference accepts = exchange->accepts;
    int result = LOOKUP_NOT_ACCEPTABLE;
    enum coding coding;

    while (coding_next(&accepts, &coding)) {
        int failed;

        if (coding == CODING_IDENTITY) {
            *chosen = resource;
            return 0;
        }
        if (!has_form(resource, coding))
            continue;
        failed = lookup_form(exchange, resource, coding, chosen);
        if (failed == 0 || failed == LOOKUP_MUST_WAIT)
            return failed;
        if (failed == EBUSY)
            result = EBUSY;
    }
    return result;
}

int negotiation_choose(struct exchange *exchange, struct resource **resource)
{
    struct resource *own = *resource;
    int failed = choose_form(exchange, own, resource);

    if (failed != 0 || *resource != own)
        reply_drop(exchange, own);
    return failed;
}
