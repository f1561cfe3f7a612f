#include "daemon/http/accept.h"

#include "daemon/http/qvalue.h"

enum specificity { NO_MATCH, ANY_TYPE, ANY_SUBTYPE, SAME_TYPE };

static enum specificity match(struct span range, struct span type, struct span subtype)
{
    struct span of_range = qvalue_cut(&range, '/');

    if (span_is(of_range, SPAN("*")))
        return span_is(range, SPAN("*")) ? ANY_TYPE : NO_MATCH;
    if (!span_is_nocase(of_range, type))
        return NO_MATCH;
    if (span_is(range, SPAN("*")))
        return ANY_SUBTYPE;
    return span_is_nocase(range, subtype) ? SAME_TYPE : NO_MATCH;
}

/* The weight among the parameters behind a range: 1000 when there is none, -1 when it is malformed. */
static int weight_of(struct span parameters)
{
    while (parameters.length > 0) {
        struct span parameter = qvalue_cut(&parameters, ';');
        struct span name = qvalue_cut(&parameter, '=');

        if (span_is_nocase(name, SPAN("q")))
            return qvalue_read(parameter);
    }
    return 1000;
}

int accept_weight(const struct request *request, struct span type, struct span subtype)
{
    enum specificity best = NO_MATCH;
    const char *at = NULL;
    struct span line;
    int weight = 0;

    if ((request->present & REQUEST_ACCEPT) == 0)
        return 1000;
    while (request_next_value(request, REQUEST_ACCEPT, &at, &line))
        while (line.length > 0) {
            struct span member = qvalue_cut(&line, ',');
            struct span range = qvalue_cut(&member, ';');
            enum specificity fits = match(range, type, subtype);
            int its = weight_of(member);

            if (fits > best && its >= 0) {
                best = fits;
                weight = its;
            }
        }
    return weight;
}
