#include "console/data/subject.h"

#include "common/clock.h"
#include "common/tables.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const subject_column_names[SUBJECT_COLUMNS] = {
    [SUBJECT_PATH] = "path",     [SUBJECT_CLIENT] = "client",   [SUBJECT_STATUS] = "status",
    [SUBJECT_THREAD] = "thread", [SUBJECT_WORKER] = "worker",   [SUBJECT_OUTCOME] = "outcome",
    [SUBJECT_AGENT] = "agent",   [SUBJECT_REFERER] = "referer", [SUBJECT_PROTOCOL] = "protocol",
    [SUBJECT_HOST] = "host",
};

struct subject_second {
    uint64_t number; /* wall clock, s */
    uint32_t requests;
};

struct subject {
    struct subject_term term[SUBJECT_TERMS];
    size_t terms;
    uint64_t requests, bytes, since_ns;
    struct subject_second second[SUBJECT_SECONDS]; /* second n at n % SUBJECT_SECONDS */
    struct subject_status status[SUBJECT_STATUSES];
    size_t statuses;
    struct histogram latency;
    uint64_t lines;
    struct tail_line line[SUBJECT_LINES]; /* a ring */
};

struct subject *subject_create(const struct subject_term *terms, size_t count)
{
    struct subject *subject = calloc(1, sizeof(*subject));

    if (subject == NULL)
        return NULL;
    subject->terms = count < SUBJECT_TERMS ? count : SUBJECT_TERMS;
    memcpy(subject->term, terms, subject->terms * sizeof(*terms));
    return subject;
}

void subject_destroy(struct subject *subject)
{
    free(subject);
}

void subject_clear(struct subject *subject)
{
    subject->requests = subject->bytes = subject->since_ns = 0;
    memset(subject->second, 0, sizeof(subject->second));
    subject->statuses = 0;
    histogram_reset(&subject->latency);
    subject->lines = 0;
}

/* True if TEXT begins with the first LENGTH characters of PATTERN. */
static bool begins(const char *text, const char *pattern, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\0' || (pattern[i] != '?' && tolower((unsigned char)text[i]) !=
                                                         tolower((unsigned char)pattern[i])))
            return false;
    return true;
}

static bool contains(const char *text, const char *pattern, size_t length)
{
    for (; *text != '\0'; text++)
        if (begins(text, pattern, length))
            return true;
    return length == 0;
}

static bool matches_text(const struct subject_term *term, const char *text)
{
    const char *pattern = term->text;

    for (;;) {
        size_t length = strcspn(pattern, "|");

        if (term->whole ? strlen(text) == length && begins(text, pattern, length)
                        : contains(text, pattern, length))
            return true;
        if (pattern[length] == '\0')
            return false;
        pattern += length + 1;
    }
}

/* A status of 100 to 999 matches like a text, or as one of its class. */
static bool matches_status(const struct subject_term *term, uint16_t status)
{
    char text[8], group[8];

    snprintf(text, sizeof(text), "%u", status);
    snprintf(group, sizeof(group), "%uxx", status / 100);
    return matches_text(term, text) || matches_text(term, group);
}

static bool matches_path(const struct subject_term *term, const struct tail_line *line)
{
    const char *start = strchr(line->request, ' ');
    char path[TAIL_REQUEST_BYTES];

    start = start != NULL ? start + 1 : line->request;
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(start, " ?"), start);
    return matches_text(term, path);
}

static bool matches_column(const struct subject_term *term, const struct tail_line *line)
{
    char text[TAIL_ADDRESS_TEXT + 16], protocol[TAIL_PROTOCOL_TEXT];

    switch (term->column) {
    case SUBJECT_PATH:
        return matches_path(term, line);
    case SUBJECT_CLIENT:
        return matches_text(term, tail_address(line, text));
    case SUBJECT_STATUS:
        return matches_status(term, line->status);
    case SUBJECT_THREAD:
        snprintf(text, sizeof(text), "%u.%u", line->worker, line->number);
        return line->worker != TAIL_NO_THREAD && matches_text(term, text);
    case SUBJECT_WORKER:
        snprintf(text, sizeof(text), "%u", line->worker);
        return line->worker != TAIL_NO_THREAD && matches_text(term, text);
    case SUBJECT_OUTCOME:
        return line->outcome < OUTCOME_COUNT && matches_text(term, outcome_names[line->outcome]);
    case SUBJECT_AGENT:
        return matches_text(term, line->agent);
    case SUBJECT_REFERER:
        return matches_text(term, line->referer);
    case SUBJECT_PROTOCOL:
        return matches_text(term, tail_protocol(line, protocol));
    case SUBJECT_HOST:
        return matches_text(term, line->host);
    case SUBJECT_COLUMNS:
        break;
    }
    return false;
}

bool subject_matches(const struct subject_term *terms, size_t count, const struct tail_line *line)
{
    for (size_t i = 0; i < count; i++)
        if (matches_column(&terms[i], line) == terms[i].negated)
            return false;
    return true;
}

static void count_second(struct subject *subject, uint64_t number)
{
    struct subject_second *second = &subject->second[number % SUBJECT_SECONDS];

    if (second->number > number)
        return; /* too old */
    if (second->number < number)
        *second = (struct subject_second){.number = number};
    second->requests++;
}

static void count_status(struct subject *subject, uint16_t status)
{
    size_t i = 0;

    while (i < subject->statuses && subject->status[i].status != status)
        i++;
    if (i == SUBJECT_STATUSES)
        return;
    if (i == subject->statuses)
        subject->status[subject->statuses++] = (struct subject_status){.status = status};
    subject->status[i].count++;
}

void subject_add(struct subject *subject, const struct tail_line *line)
{
    if (subject->since_ns == 0 || line->time_ns < subject->since_ns)
        subject->since_ns = line->time_ns;
    if (!subject_matches(subject->term, subject->terms, line))
        return;
    subject->requests++;
    subject->bytes += line->body_bytes;
    count_second(subject, line->time_ns / NS_PER_S);
    count_status(subject, line->status);
    histogram_record(&subject->latency, line->duration_ns);
    subject->line[subject->lines++ % SUBJECT_LINES] = *line;
}

uint64_t subject_requests(const struct subject *subject)
{
    return subject->requests;
}

uint64_t subject_bytes(const struct subject *subject)
{
    return subject->bytes;
}

uint64_t subject_since_ns(const struct subject *subject)
{
    return subject->since_ns;
}

void subject_rates(const struct subject *subject, uint64_t end_ns, double *values, size_t count)
{
    uint64_t last = end_ns / NS_PER_S, since = subject->since_ns / NS_PER_S;

    for (size_t i = 0; i < count; i++) {
        uint64_t number = last - (count - 1 - i);
        const struct subject_second *second = &subject->second[number % SUBJECT_SECONDS];

        values[i] = subject->since_ns == 0 || number < since ? NAN
                    : second->number == number               ? (double)second->requests
                                                             : 0.0;
    }
}

const struct histogram *subject_latency(const struct subject *subject)
{
    return &subject->latency;
}

static int more_frequent_first(const void *a, const void *b)
{
    const struct subject_status *left = a, *right = b;

    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return left->status - right->status;
}

size_t subject_statuses(const struct subject *subject, struct subject_status *statuses)
{
    memcpy(statuses, subject->status, subject->statuses * sizeof(*statuses));
    qsort(statuses, subject->statuses, sizeof(*statuses), more_frequent_first);
    return subject->statuses;
}

size_t subject_line_count(const struct subject *subject)
{
    return subject->lines < SUBJECT_LINES ? (size_t)subject->lines : SUBJECT_LINES;
}

const struct tail_line *subject_line(const struct subject *subject, size_t back)
{
    return &subject->line[(subject->lines - 1 - back) % SUBJECT_LINES];
}
