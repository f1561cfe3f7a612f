#include "loadgen/report.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include <inttypes.h>
#include <string.h>

enum {
    WIDTH = 80,
    LABEL = 13,             /* columns of a label, without its indent of 2 */
    ERROR_TEXT_COLUMN = 33, /* what was said about an error stands below its name */
    GROUPED_TEXT = 32,
};

#define BOLD   "\x1b[1m"
#define RED    "\x1b[31m"
#define YELLOW "\x1b[33m"
#define PLAIN  "\x1b[0m"

struct page {
    FILE *out;
    bool colour;
};

static const char *style(const struct page *page, const char *sequence)
{
    return page->colour ? sequence : "";
}

static void put_label(const struct page *page, const char *label)
{
    fprintf(page->out, "  %-*s", LABEL, label);
}

/* 1234567 as "1,234,567". */
static char *group_digits(char *buffer, size_t size, uint64_t number)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, number), at = 0;

    for (size_t i = 0; i < length && at + 2 < size; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = '\0';
    return buffer;
}

static void put_head(const struct page *page, const struct result *result)
{
    const struct plan *plan = result->plan;
    char elapsed[UNITS_TEXT];

    fprintf(page->out, "%s%s %s%s", style(page, BOLD), plan->method, result->url,
            style(page, PLAIN));
    if (result->requests > 1)
        fprintf(page->out, " and %zu more", result->requests - 1);
    fprintf(page->out, "\n%" PRIu32 " connection%s%s, %" PRIu32 " thread%s, engine %s, %s\n\n",
            result->connections, result->connections == 1 ? "" : "s",
            plan->keepalive ? " kept alive" : ", closed after each request", result->threads,
            result->threads == 1 ? "" : "s", result->engine,
            units_format_ns(elapsed, sizeof(elapsed), (double)result->elapsed_ns));
}

static void put_warmup(const struct page *page, const struct result *result)
{
    char begun[GROUPED_TEXT];

    if (tally_get(&result->warmup, TALLY_begun) == 0)
        return;
    put_label(page, "Warm-up");
    fprintf(page->out, "%s requests before, not counted\n",
            group_digits(begun, sizeof(begun), tally_get(&result->warmup, TALLY_begun)));
}

/* What our own server says; silent where there is none. */
static void put_server(const struct page *page, const struct result *result)
{
    char counted[GROUPED_TEXT];

    if (result->server.outcome != SERVER_CHECK_SAME)
        return;
    put_label(page, "Server");
    fprintf(page->out, "%s counted %s requests: the same\n", result->server.name,
            group_digits(counted, sizeof(counted), result->server.counted));
}

static void put_requests(const struct page *page, const struct result *result)
{
    char begun[GROUPED_TEXT], answered[GROUPED_TEXT], failed[GROUPED_TEXT], open[GROUPED_TEXT];
    uint64_t unanswered = tally_get(&result->tally, TALLY_unanswered);

    group_digits(begun, sizeof(begun), tally_get(&result->tally, TALLY_begun));
    group_digits(answered, sizeof(answered), tally_get(&result->tally, TALLY_answered));
    group_digits(failed, sizeof(failed), tally_errors(&result->tally));
    group_digits(open, sizeof(open), unanswered);
    put_label(page, "Requests");
    fprintf(page->out, "%s: %s answered, %s failed", begun, answered, failed);
    if (unanswered > 0)
        fprintf(page->out, ", %s unanswered at the end", open);
    fputc('\n', page->out);
    put_warmup(page, result);
}

static void put_rates(const struct page *page, const struct result *result)
{
    char rate[GROUPED_TEXT], body[UNITS_TEXT], all[UNITS_TEXT], each_second[UNITS_TEXT];
    uint64_t bytes = tally_get(&result->tally, TALLY_body_bytes);
    uint64_t with_heads = bytes + tally_get(&result->tally, TALLY_head_bytes);
    double seconds = (double)result->elapsed_ns / 1e9;

    put_label(page, "Rate");
    fprintf(page->out, "%s%s requests/s%s", style(page, BOLD),
            group_digits(rate, sizeof(rate), (uint64_t)(result_rate(result) + 0.5)),
            style(page, PLAIN));
    if (result->rate > 0)
        fprintf(page->out, " answered, %s asked for",
                group_digits(rate, sizeof(rate), (uint64_t)(result->rate + 0.5)));
    fputc('\n', page->out);
    put_label(page, "Received");
    fprintf(page->out, "%s (%s of it content), %s/s\n",
            units_format_bytes(all, sizeof(all), (double)with_heads),
            units_format_bytes(body, sizeof(body), (double)bytes),
            units_format_bytes(each_second, sizeof(each_second),
                               seconds > 0 ? (double)with_heads / seconds : 0));
}

/* libcurl opens no more connections than are busy at a time: an open loop may do with fewer. */
static void put_connections(const struct page *page, const struct result *result)
{
    uint64_t opened = tally_get(&result->tally, TALLY_connections_opened);
    uint64_t up = tally_get(&result->tally, TALLY_clients_up);
    char text[GROUPED_TEXT];

    group_digits(text, sizeof(text), opened);
    put_label(page, "Connections");
    if (opened < up)
        fprintf(page->out, "%s were enough, %" PRIu32 " allowed\n", text, result->connections);
    else
        fprintf(page->out, "%" PRIu64 " of %" PRIu64 " came up, %s opened in all\n", up,
                tally_get(&result->tally, TALLY_clients_used), text);
}

static void put_client(const struct page *page, const struct result *result)
{
    uint64_t begun = tally_get(&result->tally, TALLY_begun);
    char each[UNITS_TEXT];

    put_label(page, "Client");
    fprintf(page->out, "%.0f%% of a core for each thread, %s of CPU time a request\n",
            result_cpu_share(result) * 100,
            units_format_ns(each, sizeof(each),
                            begun > 0 ? (double)result->cpu_ns / (double)begun : 0));
}

/* A dash where no value lies beyond the percentile: it would be the maximum under another name. */
static void put_percentile(const struct page *page, const struct histogram *times, double percent)
{
    char text[UNITS_TEXT] = "-";

    if (report_percentile_known(percent, histogram_count(times)))
        units_format_ns(text, sizeof(text), (double)histogram_percentile(times, percent));
    fprintf(page->out, "%8s", text);
}

static void put_times(const struct page *page, const char *label, const struct histogram *times)
{
    char mean[UNITS_TEXT], max[UNITS_TEXT];

    if (histogram_count(times) == 0)
        return;
    put_label(page, label);
    fprintf(page->out, "%8s", units_format_ns(mean, sizeof(mean), histogram_mean(times)));
#define REPORT_PERCENTILE(percent, name) put_percentile(page, times, percent);
    REPORT_PERCENTILES(REPORT_PERCENTILE)
#undef REPORT_PERCENTILE
    fprintf(page->out, "%8s\n", units_format_ns(max, sizeof(max), (double)histogram_max(times)));
}

/* In an open loop the two times of an answer differ; in a closed loop they are one. */
static void put_latencies(const struct page *page, const struct result *result)
{
    const struct tally *tally = &result->tally;

    if (histogram_count(&tally->latency) + histogram_count(&tally->connect) == 0)
        return;
    fprintf(page->out, "\n  %-*s%8s", LABEL, "Latency", "mean");
#define REPORT_PERCENTILE(percent, name) fprintf(page->out, "%8s", "p" name);
    REPORT_PERCENTILES(REPORT_PERCENTILE)
#undef REPORT_PERCENTILE
    fprintf(page->out, "%8s\n", "max");
    put_times(page, result_is_open(result) ? "response" : "whole answer", &tally->latency);
    if (result_is_open(result))
        put_times(page, "service", &tally->service);
    put_times(page, "first byte", &tally->first_byte);
    put_times(page, "connecting", &tally->connect);
}

static bool is_good(const struct plan_checks *checks, uint32_t status)
{
    for (size_t i = 0; i < checks->status_count; i++)
        if (checks->statuses[i] == status)
            return true;
    return checks->status_count == 0 && status >= 200 && status <= 399;
}

static void put_statuses(const struct page *page, const struct result *result)
{
    const struct tally *tally = &result->tally;
    const char *label = "Statuses";

    if (tally_get(tally, TALLY_answered) == 0)
        return;
    fputc('\n', page->out);
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        bool bad = !is_good(&result->plan->checks, status);
        char count[GROUPED_TEXT];

        if (tally_status(tally, status) == 0)
            continue;
        put_label(page, label);
        fprintf(page->out, "%s%03" PRIu32 " %13s%s\n", bad ? style(page, RED) : "", status,
                group_digits(count, sizeof(count), tally_status(tally, status)),
                bad ? style(page, PLAIN) : "");
        label = "";
    }
}

/* TEXT behind what stands in the first COLUMN columns, in lines of at most WIDTH, set in alike. */
static void put_wrapped(const struct page *page, size_t column, const char *text)
{
    const size_t indent = column;

    while (*text != '\0') {
        size_t length = strcspn(text, " ");

        if (column + 1 + length > WIDTH) {
            fprintf(page->out, "\n%*s", (int)indent, "");
            column = indent;
        }
        fprintf(page->out, " %.*s", (int)length, text);
        column += 1 + length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', page->out);
}

static void put_errors(const struct page *page, const struct result *result)
{
    const char *label = "Errors";

    if (tally_errors(&result->tally) == 0)
        return;
    fputc('\n', page->out);
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        uint64_t count = tally_error(&result->tally, (enum error_kind)kind);
        char text[GROUPED_TEXT];

        if (count == 0)
            continue;
        put_label(page, label);
        fprintf(page->out, "%s%17s%s  %s\n", style(page, RED),
                group_digits(text, sizeof(text), count), style(page, PLAIN),
                error_kind_labels[kind]);
        if (kind == ERROR_KIND_OTHER && result->other_error[0] != '\0') {
            fprintf(page->out, "%*s", ERROR_TEXT_COLUMN, "");
            put_wrapped(page, ERROR_TEXT_COLUMN, result->other_error);
        }
        label = "";
    }
}

static void put_notes(const struct page *page, const struct result *result)
{
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(result, notes);

    for (size_t i = 0; i < count; i++) {
        fprintf(page->out, "%s  %s!%s", i == 0 ? "\n" : "", style(page, YELLOW),
                style(page, PLAIN));
        put_wrapped(page, 3, notes[i].text);
    }
}

void report_text(FILE *out, const struct result *result, bool colour)
{
    const struct page page = {out, colour};

    put_head(&page, result);
    put_requests(&page, result);
    put_rates(&page, result);
    put_connections(&page, result);
    put_client(&page, result);
    put_server(&page, result);
    put_latencies(&page, result);
    put_statuses(&page, result);
    put_errors(&page, result);
    put_notes(&page, result);
}
