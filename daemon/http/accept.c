#include "daemon/http/accept.h"

#include <stdbool.h>

struct span qvalue_cut(struct span *text, char separator)
{
    const char *found = memchr(text->start, separator, text->length);
    size_t length = found != NULL ? (size_t)(found - text->start) : text->length;
    struct span piece = {text->start, length};
    size_t past = found != NULL ? length + 1 : length;

    *text = (struct span){text->start + past, text->length - past};
    return http_trim(piece);
}

int qvalue_read(struct span text)
{
    int value = 0;
    int place = 1000;

    if (text.length == 0 || text.length > 5 || (text.start[0] != '0' && text.start[0] != '1') ||
        (text.length > 1 && text.start[1] != '.'))
        return -1;
    for (size_t i = 0; i < text.length; i++) {
        if (i == 1)
            continue;
        if (text.start[i] < '0' || text.start[i] > '9')
            return -1;
        value += (text.start[i] - '0') * place;
        place /= 10;
    }
    return value <= 1000 ? value : -1;
}

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

/* The q parameter after a media range: 1000 if there is none, -1 if it is malformed. */
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
