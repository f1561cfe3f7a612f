/*
 * The experiment that varies the protocol: HTTP/1.1, TLS and HTTP/2 with 1 to 100 streams, for a
 * small and a large file; then connections with full and with resumed handshakes.
 */
#include "common/units.h"

#include "loadgen/lab/points.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGE_BYTES = 256 * 1024,
    HANDSHAKE_CONNECTIONS = 10,
    SETTINGS = 7,
    SIZES = 2,
};

#define LARGE "/large.bin"

/* A way to send requests. Each has the same number of requests at a time, except the last. */
static const struct setting {
    const char *name;
    bool tls, http2;
    uint32_t connections, streams;
} settings[SETTINGS] = {
    {"HTTP/1.1", false, false, 10, 1},
    {"HTTP/1.1, TLS", true, false, 10, 1},
    {"HTTP/2", false, true, 10, 1},
    {"HTTP/2, 10 streams", false, true, 1, 10},
    {"HTTP/2, TLS", true, true, 10, 1},
    {"HTTP/2, TLS, 10 streams", true, true, 1, 10},
    {"HTTP/2, TLS, 100 streams", true, true, 1, 100},
};

enum { PLAIN_1, TLS_1, PLAIN_2, PLAIN_2_STREAMS, TLS_2, TLS_2_STREAMS };

static const struct {
    const char *path, *name;
} sizes[SIZES] = {{LAB_SMALL, "1 KiB"}, {LARGE, "256 KiB"}};

/* ---- The server ---- */

static int put_large(struct lab *lab, const struct private_server *server)
{
    char *bytes = lab_allocate(lab, LARGE_BYTES, 1);

    if (bytes == NULL)
        return -1;
    memset(bytes, '.', LARGE_BYTES);
    return private_server_put(server, LARGE, bytes, LARGE_BYTES, lab->why, sizeof(lab->why));
}

/* The port of the second address of SERVER; 0: unknown. */
static uint16_t find_tls_port(struct lab *lab, const struct private_server *server)
{
    json_t *status = private_server_command(server, "status", lab->why, sizeof(lab->why));
    const char *address =
        json_string_value(json_array_get(json_object_get(status, "listening"), 1));
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;
    uint16_t port = colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;

    json_decref(status);
    return port;
}

/* Starts SERVER with a certificate and a second address, for TLS. Returns its port; 0 with WHY. */
static uint16_t start_with_tls(struct lab *lab, struct private_server *server)
{
    char certificate[PRIVATE_SERVER_PATH + 64], key[PRIVATE_SERVER_PATH + 64];
    const char *const options[] = {"server.listen=127.0.0.1:0 https://127.0.0.1:0", certificate,
                                   key, NULL};
    uint16_t port;

    snprintf(certificate, sizeof(certificate), "tls.certificate=%s/localhost.pem",
             private_server_directory(server));
    snprintf(key, sizeof(key), "tls.key=%s/localhost.key", private_server_directory(server));
    if (private_server_certify(server, lab->why, sizeof(lab->why)) != 0 ||
        put_large(lab, server) != 0 || lab_start(lab, server, options) != 0)
        return 0;
    port = find_tls_port(lab, server);
    if (port == 0)
        lab_fail(lab, "the server does not list its address for TLS");
    return port;
}

static void use_tls(struct point *point, uint16_t port, const char *path)
{
    snprintf(point->url, sizeof(point->url), "https://127.0.0.1:%u%s", port, path);
    point->plan.insecure = true;
}

/* ---- Requests ---- */

static void init_protocol_point(struct lab *lab, struct point *point, struct private_server *server,
                                uint16_t tls_port, const struct setting *setting, size_t size)
{
    point_init(lab, point, server, sizes[size].path, setting->connections, "%s, %s", setting->name,
               sizes[size].name);
    if (setting->tls)
        use_tls(point, tls_port, sizes[size].path);
    if (setting->http2)
        point->plan.http = PLAN_HTTP_2;
    point->plan.streams = setting->streams;
}

static void put_protocol_table(struct document *findings, const struct point *points, size_t size)
{
    static const char *const heads[] = {"protocol", "requests/s", "mean",   "p99",
                                        "MiB/s",    "server",     "client", NULL};
    size_t bytes = size == 0 ? LAB_SMALL_BYTES : LARGE_BYTES;
    char title[LAB_TITLE];

    snprintf(title, sizeof(title), "A file of %s", sizes[size].name);
    findings_table(findings, title, heads);
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct point *point = &points[i];

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", settings[i].name);
        point_cell_rate(findings, point);
        point_cell(findings, point, MEASURE_MEAN);
        point_cell(findings, point, MEASURE_P99);
        document_cell(findings, "%.1f",
                      point_median(point, MEASURE_RATE) * (double)bytes / (1024 * 1024));
        point_cell_cpu(findings, point);
        point_cell(findings, point, MEASURE_CLIENT_CPU);
    }
}

/*
 * Adds a sentence about the server's CPU time per request, ONE against OTHER; the reason only if
 * the measurements show what it explains: MORE or less CPU time.
 */
static void compare_cpu(struct document *findings, const char *what, const struct point *one,
                        const struct point *other, bool more, const char *reason)
{
    const struct comparison compared = {one, other};
    struct interval ratio = point_cpu_ratio(one, other);
    enum findings_kind verdict = comparison_verdict(&compared);
    bool decided = verdict != FINDINGS_UNDECIDED;
    bool shown = decided && (more ? ratio.low > 1 : ratio.high < 1);
    char times[LAB_RATIO], cpu[UNITS_TEXT], base[UNITS_TEXT], advice[VERDICT_ADVICE];

    verdict_advice(advice, &ratio, 1, 1, one->plan.duration_ms);
    findings_add(findings, verdict,
                 "%s takes %s of the server's CPU time per request instead of %s: %s.%s%s%s", what,
                 lab_time(cpu, sizeof(cpu), point_own_median(one, POINT_CPU)),
                 lab_time(base, sizeof(base), point_own_median(other, POINT_CPU)),
                 lab_times(times, &ratio), shown ? " " : "",
                 shown     ? reason
                 : decided ? " That is the opposite of what is expected."
                           : advice,
                 comparison_busy(&compared));
}

static void explain_protocols(struct document *findings, const struct point *small,
                              const struct point *large)
{
    compare_cpu(findings, "A file of 1 KiB over TLS", &small[TLS_1], &small[PLAIN_1], true,
                "Encrypting 1 KiB is cheap; records and their buffers are most of it.");
    compare_cpu(findings, "A file of 256 KiB over TLS", &large[TLS_1], &large[PLAIN_1], true,
                "Each byte is copied and encrypted; sendfile() cannot be used.");
    compare_cpu(findings, "HTTP/2 with 10 streams per connection", &small[PLAIN_2_STREAMS],
                &small[PLAIN_2], false,
                "One system call carries several requests or responses: multiplexing saves that.");
    compare_cpu(findings, "HTTP/2 over TLS with 10 streams per connection", &small[TLS_2_STREAMS],
                &small[TLS_2], false, "One record and one system call carry several responses.");
    compare_cpu(findings, "HTTP/2 over TLS with 10 streams, against HTTP/1.1 over TLS,",
                &small[TLS_2_STREAMS], &small[TLS_1], false,
                "Multiplexing saves more than frames and header compression cost.");
}

/* ---- Handshakes ---- */

enum { FULL_1_2, RESUMED_1_2, FULL_1_3, RESUMED_1_3, HANDSHAKES };

static const struct {
    const char *name;
    uint32_t tls_max;
    bool resume;
} handshakes[HANDSHAKES] = {
    {"TLS 1.2, full", 12, false},
    {"TLS 1.2, resumed", 12, true},
    {"TLS 1.3, full", 13, false},
    {"TLS 1.3, with tickets", 13, true},
};

static int measure_handshakes(struct lab *lab, struct document *findings,
                              struct private_server *server, uint16_t tls_port)
{
    static const char *const heads[] = {"handshake", "connections/s", "mean", "p99",
                                        "server",    "client",        NULL};
    struct point *points = points_create(lab, HANDSHAKES);
    const struct comparison compared[] = {{points + RESUMED_1_2, points + FULL_1_2},
                                          {points + RESUMED_1_3, points + FULL_1_3}};

    if (points == NULL)
        return -1;
    for (size_t i = 0; i < HANDSHAKES; i++) {
        point_init(lab, &points[i], server, LAB_SMALL, HANDSHAKE_CONNECTIONS, "%s",
                   handshakes[i].name);
        use_tls(&points[i], tls_port, LAB_SMALL);
        points[i].plan.keepalive = false;
        points[i].plan.tls_max = handshakes[i].tls_max;
        points[i].plan.resume = handshakes[i].resume;
    }
    if (points_measure_compared(lab, points, HANDSHAKES, compared, ARRAY_LENGTH(compared)) != 0)
        return -1;
    findings_table(findings, "Handshakes", heads);
    for (size_t i = 0; i < HANDSHAKES; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", handshakes[i].name);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_MEAN);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell_cpu(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_CLIENT_CPU);
    }
    compare_cpu(findings, "A connection that resumes a session of TLS 1.2", &points[RESUMED_1_2],
                &points[FULL_1_2], false, "The server does not sign, and no keys are exchanged.");
    compare_cpu(findings, "A connection over TLS 1.3 with tickets", &points[RESUMED_1_3],
                &points[FULL_1_3], false,
                "The server does not sign, but TLS 1.3 exchanges keys also when it resumes.");
    points_add_cautions(findings, points, HANDSHAKES);
    return 0;
}

int experiment_protocols(struct lab *lab, struct document *findings)
{
    struct private_server *server = lab_create_server(lab);
    struct point *points = points_create(lab, (size_t)SIZES * SETTINGS);
    const struct point *small = points, *large = points + SETTINGS;
    const struct comparison compared[] = {{small + TLS_1, small + PLAIN_1},
                                          {large + TLS_1, large + PLAIN_1},
                                          {small + PLAIN_2_STREAMS, small + PLAIN_2},
                                          {small + TLS_2_STREAMS, small + TLS_2},
                                          {small + TLS_2_STREAMS, small + TLS_1}};
    uint16_t tls_port;

    if (server == NULL || points == NULL)
        return -1;
    tls_port = start_with_tls(lab, server);
    if (tls_port == 0)
        return -1;
    for (size_t i = 0; i < (size_t)SIZES * SETTINGS; i++)
        init_protocol_point(lab, &points[i], server, tls_port, &settings[i % SETTINGS],
                            i / SETTINGS);
    if (points_measure_compared(lab, points, (size_t)SIZES * SETTINGS, compared,
                                ARRAY_LENGTH(compared)) != 0)
        return -1;
    for (size_t size = 0; size < SIZES; size++)
        put_protocol_table(findings, &points[size * SETTINGS], size);
    explain_protocols(findings, small, large);
    points_add_cautions(findings, points, (size_t)SIZES * SETTINGS);
    return measure_handshakes(lab, findings, server, tls_port);
}
