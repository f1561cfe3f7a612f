#include "loadgen/run/internal.h"

#include "common/macros.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { PAGE_TIMEOUT_S = 5, PAGE_HEAD_MAX = 8192 };

struct page_connection {
    struct metrics_page *page;
    struct bufferevent *stream;
    bool answered;
    LIST_ENTRY(page_connection) link;
};

struct metrics_page {
    struct event_base *base;
    struct evconnlistener *listener;
    metrics_page_write *write;
    void *context;
    LIST_HEAD(, page_connection) connections;
};

static void page_close(struct page_connection *connection)
{
    LIST_REMOVE(connection, link);
    bufferevent_free(connection->stream);
    free(connection);
}

static void page_respond(struct page_connection *connection, const char *status, bool head)
{
    const struct metrics_page *page = connection->page;
    struct evbuffer *output = bufferevent_get_output(connection->stream);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out != NULL && status[0] == '2')
        page->write(page->context, out);
    if (out != NULL)
        fclose(out);
    evbuffer_add_printf(output,
                        "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                        status, length);
    if (!head)
        evbuffer_add(output, text, length);
    free(text);
    connection->answered = true;
}

static void page_on_read(struct bufferevent *stream, void *context)
{
    struct page_connection *connection = context;
    struct evbuffer *input = bufferevent_get_input(stream);
    struct evbuffer_ptr end = evbuffer_search(input, "\r\n\r\n", 4, NULL);
    char line[64] = "";
    bool get, head, is_metrics;

    if (connection->answered || (end.pos < 0 && evbuffer_get_length(input) < PAGE_HEAD_MAX))
        return;
    evbuffer_copyout(input, line, sizeof(line) - 1);
    get = strncmp(line, "GET ", 4) == 0;
    head = strncmp(line, "HEAD ", 5) == 0;
    is_metrics = strncmp(strchr(line, ' ') != NULL ? strchr(line, ' ') : "", " /metrics ", 10) == 0;
    page_respond(connection,
                 !get && !head ? "405 Method Not Allowed"
                 : is_metrics  ? "200 OK"
                               : "404 Not Found",
                 head);
}

static void page_on_written(struct bufferevent *stream, void *context)
{
    struct page_connection *connection = context;

    if (connection->answered && evbuffer_get_length(bufferevent_get_output(stream)) == 0)
        page_close(connection);
}

static void page_on_event(struct bufferevent *stream, short events, void *context)
{
    (void)stream;
    if ((events & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) != 0)
        page_close(context);
}

static void page_on_accept(struct evconnlistener *listener, evutil_socket_t fd,
                           struct sockaddr *address, int length, void *context)
{
    static const struct timeval timeout = {PAGE_TIMEOUT_S, 0};
    struct metrics_page *page = context;
    struct page_connection *connection = calloc(1, sizeof(*connection));

    (void)listener, (void)address, (void)length;
    if (connection != NULL)
        connection->stream = bufferevent_socket_new(page->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (connection == NULL || connection->stream == NULL) {
        free(connection);
        evutil_closesocket(fd);
        return;
    }
    connection->page = page;
    LIST_INSERT_HEAD(&page->connections, connection, link);
    bufferevent_setcb(connection->stream, page_on_read, page_on_written, page_on_event, connection);
    bufferevent_set_timeouts(connection->stream, &timeout, &timeout);
    bufferevent_enable(connection->stream, EV_READ | EV_WRITE);
}

struct metrics_page *metrics_page_create(struct event_base *base, const char *address,
                                         metrics_page_write *write, void *context, char *why,
                                         size_t size)
{
    struct metrics_page *page = calloc(1, sizeof(*page));
    struct sockaddr_storage at;
    int length = sizeof(at);
    char text[64];

    snprintf(text, sizeof(text), "%s%s", address[0] == ':' ? "0.0.0.0" : "", address);
    snprintf(why, size, "out of memory");
    if (page == NULL)
        return NULL;
    page->base = base;
    page->write = write;
    page->context = context;
    LIST_INIT(&page->connections);
    if (evutil_parse_sockaddr_port(text, (struct sockaddr *)&at, &length) == 0)
        page->listener = evconnlistener_new_bind(base, page_on_accept, page,
                                                 LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC |
                                                     LEV_OPT_REUSEABLE,
                                                 -1, (struct sockaddr *)&at, length);
    if (page->listener != NULL)
        return page;
    snprintf(why, size, "--metrics %s: cannot listen: %s", address, strerror(errno));
    free(page);
    return NULL;
}

void metrics_page_free(struct metrics_page *page)
{
    if (page == NULL)
        return;
    while (!LIST_EMPTY(&page->connections))
        page_close(LIST_FIRST(&page->connections));
    evconnlistener_free(page->listener);
    free(page);
}

/* ---- The page ---- */

static void put_metric(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    put_metric(out, name, "counter", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_gauge(FILE *out, const char *name, const char *help, double value)
{
    put_metric(out, name, "gauge", help);
    fprintf(out, "%s %.9g\n", name, value);
}

static void put_summary(FILE *out, const char *name, const char *help,
                        const struct histogram *times)
{
    static const char *const quantiles[] = {"0.5", "0.9", "0.99", "0.999"};
    uint64_t sum = atomic_load_explicit(&times->sum, memory_order_relaxed);

    put_metric(out, name, "summary", help);
    for (size_t i = 0; i < ARRAY_LENGTH(quantiles) && histogram_count(times) > 0; i++)
        fprintf(out, "%s{quantile=\"%s\"} %.9g\n", name, quantiles[i],
                (double)histogram_percentile(times, 100 * strtod(quantiles[i], NULL)) / 1e9);
    fprintf(out, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name, (double)sum / 1e9, name,
            histogram_count(times));
}

void metrics_page_put(FILE *out, const struct progress_now *now)
{
    const struct tally *tally = now->tally;

    put_gauge(out, "wsload_elapsed_seconds", "time since the begin of the run",
              (double)now->elapsed_ns / 1e9);
    put_gauge(out, "wsload_rate", "planned requests per second; 0: closed loop", now->setting.rate);
    put_gauge(out, "wsload_connections", "requested connections", now->setting.connections);
    put_gauge(out, "wsload_threads", "client threads", now->setting.threads);
    put_counter(out, "wsload_requests_total", "requests begun, without the warm-up",
                tally_get(tally, TALLY_begun));
    put_metric(out, "wsload_responses_total", "counter", "complete responses by status");
    for (uint32_t status = 0; status < TALLY_STATUSES; status++)
        if (tally_status(tally, status) > 0)
            fprintf(out, "wsload_responses_total{status=\"%03" PRIu32 "\"} %" PRIu64 "\n", status,
                    tally_status(tally, status));
    put_metric(out, "wsload_errors_total", "counter", "requests without a complete response");
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        fprintf(out, "wsload_errors_total{kind=\"%s\"} %" PRIu64 "\n", error_kind_names[kind],
                tally_error(tally, (enum error_kind)kind));
    put_counter(out, "wsload_bad_responses_total", "responses with unexpected status or body",
                tally_get(tally, TALLY_bad_statuses) + tally_get(tally, TALLY_bad_contents));
    put_counter(out, "wsload_connections_opened_total", "connections established",
                tally_get(tally, TALLY_connections_opened));
    put_counter(out, "wsload_received_bytes_total", "bytes of responses",
                tally_get(tally, TALLY_head_bytes) + tally_get(tally, TALLY_body_bytes));
    put_counter(out, "wsload_late_total", "requests begun late although a connection was free",
                tally_get(tally, TALLY_late));
    put_counter(out, "wsload_waited_total", "requests that waited for a free connection",
                tally_get(tally, TALLY_waited));
    put_summary(out, "wsload_latency_seconds", "time of responses since the request was due",
                &tally->latency);
    put_summary(out, "wsload_service_seconds", "time of responses since the request was sent",
                &tally->service);
}
