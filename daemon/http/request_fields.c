#include "daemon/http/request_fields.h"

#include "common/macros.h"
#include "daemon/http/target.h"

/* Removes the first element of a comma-separated list. Returns false if the list is empty. */
static bool list_next(struct span *list, struct span *element)
{
    const char *end, *comma;

    if (list->start == NULL)
        return false;
    end = list->start + list->length;
    comma = memchr(list->start, ',', list->length);
    *element = http_trim(span_between(list->start, comma != NULL ? comma : end));
    *list = comma != NULL ? span_between(comma + 1, end) : (struct span){NULL, 0};
    return true;
}

/* Records that a field occurred. Returns false if it is repeated. */
static bool first_time(struct head *head, unsigned bit)
{
    bool first = (head->seen & bit) == 0;

    head->seen |= bit;
    return first;
}

int request_field_host(struct head *head, struct span value)
{
    const char *end = value.start + value.length;
    const char *word_end;

    if (!first_time(head, SEEN_HOST))
        return 400;
    head->request->host = value;
    word_end = scan_past_word(head->start, value.start, end);
    if (word_end == end)
        return GOOD;
    if (LIKELY(word_end != value.start && *word_end == ':'))
        return authority_port_valid(word_end + 1, end) ? GOOD : 400;
    return authority_valid(value, false) ? GOOD : 400;
}

int request_field_content_length(struct head *head, struct span value)
{
    uint64_t number = 0;

    if (!first_time(head, SEEN_CONTENT_LENGTH) || value.length == 0)
        return 400;
    for (size_t i = 0; i < value.length; i++) {
        if (!is_digit(value.start[i]) || number > (uint64_t)INT64_MAX / 10)
            return 400;
        number = number * 10 + (uint64_t)(value.start[i] - '0');
        if (number > (uint64_t)INT64_MAX)
            return 400;
    }
    head->request->content_length = number;
    return GOOD;
}

/* Adds one transfer coding: a token, optionally with parameters after a ';'. */
static int add_transfer_coding(struct head *head, struct span coding)
{
    const char *end = coding.start + coding.length;
    const char *name_end = skip_token(head->start, coding.start, end);
    struct span rest = http_trim(span_between(name_end, end));

    if (name_end == coding.start || head->request->chunked)
        return 400;
    if (rest.length != 0 && rest.start[0] != ';')
        return 400;
    if (!span_is_nocase(span_between(coding.start, name_end), SPAN("chunked"))) {
        head->unknown_coding = true;
        return GOOD;
    }
    head->request->chunked = true;
    return rest.length == 0 ? GOOD : 400;
}

int request_field_transfer_encoding(struct head *head, struct span value)
{
    struct span coding;
    int status = GOOD;

    head->seen |= SEEN_TRANSFER_ENCODING;
    if (head->request->minor_version == 0)
        return 400;
    while (status == GOOD && list_next(&value, &coding))
        status = add_transfer_coding(head, coding);
    return status;
}

static int parse_connection_options(struct head *head, struct span value)
{
    struct span option;

    while (list_next(&value, &option)) {
        if (span_is_nocase(option, SPAN("close")))
            head->close = true;
        else if (span_is_nocase(option, SPAN("keep-alive")))
            head->keep_alive = true;
    }
    return GOOD;
}

/* The value is nearly always "keep-alive". */
int request_field_connection(struct head *head, struct span value)
{
    if (value.length != 10 || !NAME_IS(value, "keep-alive"))
        return parse_connection_options(head, value);
    head->keep_alive = true;
    return GOOD;
}

int request_field_expect(struct head *head, struct span value)
{
    struct span expectation;

    while (list_next(&value, &expectation)) {
        if (span_is_nocase(expectation, SPAN("100-continue")))
            head->request->expect_continue = true;
        else if (expectation.length != 0)
            return 417;
    }
    return GOOD;
}

static int store_first(struct span *field, struct span value)
{
    if (field->start == NULL)
        *field = value;
    return GOOD;
}

int request_field_referer(struct head *head, struct span value)
{
    return store_first(&head->request->referer, value);
}

int request_field_user_agent(struct head *head, struct span value)
{
    return store_first(&head->request->user_agent, value);
}

/* Fields with an enum request_field bit */

static int store_field(struct request *request, enum request_field bit, struct span *field,
                       struct span value)
{
    if ((request->present & bit) != 0) {
        request->repeated |= (uint8_t)bit;
        return GOOD;
    }
    request->present |= (uint8_t)bit;
    *field = value;
    return GOOD;
}

int request_field_accept(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_ACCEPT, &head->request->accept, value);
}

int request_field_accept_encoding(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_ACCEPT_ENCODING, &head->request->accept_encoding,
                       value);
}

int request_field_if_match(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_MATCH, &head->request->if_match, value);
}

int request_field_if_none_match(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_NONE_MATCH, &head->request->if_none_match, value);
}

int request_field_if_modified_since(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_MODIFIED_SINCE, &head->request->if_modified_since,
                       value);
}

int request_field_if_unmodified_since(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_UNMODIFIED_SINCE,
                       &head->request->if_unmodified_since, value);
}

int request_field_if_range(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_IF_RANGE, &head->request->if_range, value);
}

int request_field_range(struct head *head, struct span value)
{
    return store_field(head->request, REQUEST_RANGE, &head->request->range, value);
}
