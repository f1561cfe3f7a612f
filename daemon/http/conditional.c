#include "daemon/http/conditional.h"

#include "common/macros.h"
#include "daemon/http/date.h"

/* etagc, RFC 9110 section 8.8.3. */
static bool is_tag_byte(char byte)
{
    unsigned char c = (unsigned char)byte;

    return c == 0x21 || (c >= 0x23 && c != 0x7f);
}

static bool is_separator(char byte)
{
    return byte == ' ' || byte == '\t' || byte == ',';
}

/* Reads one entity tag at *AT and moves *AT past it. TAG has its quotes but no "W/". */
static bool read_tag(const char **at, const char *end, struct span *tag, bool *weak)
{
    const char *start = *at, *close;

    *weak = end - start >= 2 && start[0] == 'W' && start[1] == '/';
    if (*weak)
        start += 2;
    if (start == end || *start != '"')
        return false;
    for (close = start + 1; close < end && is_tag_byte(*close); close++)
        continue;
    if (close == end || *close != '"')
        return false;
    *tag = (struct span){start, (size_t)(close + 1 - start)};
    *at = close + 1;
    return true;
}

enum etag_match etag_list_match(struct span list, struct span etag, bool strong)
{
    const char *at = list.start, *end = list.start + list.length;
    enum etag_match result = ETAG_NO;
    bool separated = true;

    while (at < end) {
        struct span tag;
        bool weak;

        if (is_separator(*at)) {
            separated |= *at == ',';
            at++;
            continue;
        }
        if (!separated || !read_tag(&at, end, &tag, &weak))
            return ETAG_MALFORMED;
        separated = false;
        if (span_is(tag, etag) && !(weak && strong))
            result = ETAG_YES;
    }
    return result;
}

/*
 * Evaluates all lines of a field. "*" must be the only member; it matches any existing
 * representation.
 */
static enum etag_match match_field(const struct request *request, enum request_field list,
                                   struct span first, struct span etag, bool strong)
{
    enum etag_match result = ETAG_NO;
    struct span line = first;
    const char *at = NULL;

    if ((request->repeated & list) == 0)
        return span_is(first, SPAN("*")) ? ETAG_YES : etag_list_match(first, etag, strong);
    while (request_next_value(request, list, &at, &line)) {
        enum etag_match one = etag_list_match(line, etag, strong);

        if (one == ETAG_MALFORMED)
            return ETAG_MALFORMED;
        if (one == ETAG_YES)
            result = ETAG_YES;
    }
    return result;
}

/*
 * Parses a date field. False if it is absent, repeated or malformed, or if there is no date to
 * compare with.
 */
static bool read_date(const struct request *request, enum request_field bit, struct span field,
                      const struct validators *validators, int64_t now, int64_t *date)
{
    if ((request->present & ~request->repeated & bit) == 0 || !validators->dated)
        return false;
    /* Usually the client sends the same text back. */
    if (LIKELY(field.length == HTTP_DATE_BYTES && span_is(field, validators->modified_text))) {
        *date = validators->modified;
        return true;
    }
    return http_date_read(field, now, date) == 0;
}

/* Steps 1 and 2 of section 13.2.2: If-Match, If-Unmodified-Since. */
static bool is_as_expected(const struct request *request, const struct validators *validators,
                           int64_t now)
{
    int64_t date;

    if ((request->present & REQUEST_IF_MATCH) != 0)
        return match_field(request, REQUEST_IF_MATCH, request->if_match, validators->etag, true) ==
               ETAG_YES;
    return !read_date(request, REQUEST_IF_UNMODIFIED_SINCE, request->if_unmodified_since,
                      validators, now, &date) ||
           validators->modified <= date;
}

/* Steps 3 and 4: true if the client has this representation. */
static bool is_known(const struct request *request, const struct validators *validators,
                     int64_t now)
{
    int64_t date;

    if ((request->present & REQUEST_IF_NONE_MATCH) != 0)
        return match_field(request, REQUEST_IF_NONE_MATCH, request->if_none_match, validators->etag,
                           false) == ETAG_YES;
    return read_date(request, REQUEST_IF_MODIFIED_SINCE, request->if_modified_since, validators,
                     now, &date) &&
           validators->modified <= date;
}

enum verdict conditional_verdict(const struct request *request, const struct validators *validators,
                                 int64_t now)
{
    if (!is_as_expected(request, validators, now))
        return VERDICT_PRECONDITION_FAILED;
    return is_known(request, validators, now) ? VERDICT_NOT_MODIFIED : VERDICT_PROCEED;
}

bool conditional_range_holds(const struct request *request, const struct validators *validators,
                             int64_t now)
{
    struct span field = request->if_range;
    int64_t date;

    if ((request->present & REQUEST_IF_RANGE) == 0)
        return true;
    if ((request->repeated & REQUEST_IF_RANGE) != 0)
        return false;
    if (field.length > 0 && field.start[0] == '"')
        return span_is(field, validators->etag);
    return read_date(request, REQUEST_IF_RANGE, field, validators, now, &date) &&
           date == validators->modified && now > validators->modified;
}
