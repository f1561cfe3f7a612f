/*
 * Probe points for bpftrace, perf and gdb (USDT), described in webserverd-probes(7). A probe is one
 * nop instruction; a note in the program says where it is and where its arguments are. So an
 * argument must be a value that the caller has anyway, never one that is computed for the probe.
 *
 * Source: <sys/sdt.h> of SystemTap. Without it, or with PROBES=OFF, a probe is nothing.
 */
#ifndef DAEMON_BASE_PROBES_H
#define DAEMON_BASE_PROBES_H

#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef WITH_PROBES
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define PROBE_POINT(name, ...) STAP_PROBEV(webserverd, name, __VA_ARGS__)
#else
static inline void probe_unused(int first, ...)
{
    (void)first;
}
#define PROBE_POINT(name, ...)                                                                     \
    do {                                                                                           \
        if (false)                                                                                 \
            probe_unused(0, __VA_ARGS__);                                                          \
    } while (false)
#endif

/*
 * A new connection. ADDRESS has 16 bytes: IPv6, or IPv4 mapped into it. An array as an argument
 * would be its content, not its address.
 */
#define PROBE_ACCEPT(fd, address, tls) PROBE_POINT(accept, fd, &(address)[0], tls)

/*
 * A request is complete, or rejected as malformed. REQUEST is its identity until its response.
 * BEGAN_NS is 0; or, if the request is processed again after an offload job, the time of the first.
 */
#define PROBE_REQUEST_START(request, line, began_ns)                                               \
    PROBE_POINT(request_start, request, (line).start, (line).length, began_ns)

/* A lookup in the thread cache (LEVEL 1) or the shared cache (2). TEXT: the target, or the path. */
#define PROBE_CACHE_HIT(level, text) PROBE_POINT(cache_hit, level, (text).start, (text).length)

/* In neither cache. KNOWN_MISSING: the negative cache has the path, so nothing is opened. */
#define PROBE_CACHE_MISS(path, known_missing)                                                      \
    PROBE_POINT(cache_miss, (path).start, (path).length, known_missing)

/* JOB is its identity in the other two; WORK is its path. */
#define PROBE_OFFLOAD_QUEUE(job, work) PROBE_POINT(offload_queue, job, (work).start, (work).length)
#define PROBE_OFFLOAD_RUN(job, work, queued_ns)                                                    \
    PROBE_POINT(offload_run, job, (work).start, (work).length, queued_ns)
#define PROBE_OFFLOAD_DONE(job) PROBE_POINT(offload_done, job)

/* A response is composed; bytes of its body. */
#define PROBE_RESPONSE(request, status, outcome, bytes)                                            \
    PROBE_POINT(response, request, status, outcome, bytes)

/* The kernel has taken a whole response, or its connection has ended. */
#define PROBE_RESPONSE_SENT(status, outcome, bytes, duration_ns)                                   \
    PROBE_POINT(response_sent, status, outcome, bytes, duration_ns)

/* The log ring has no space: the thread serves no request from FROM_NS on. */
#define PROBE_LOG_WAIT(from_ns) PROBE_POINT(log_wait, from_ns)
/* It has again. */
#define PROBE_LOG_RESUME(from_ns) PROBE_POINT(log_resume, from_ns)
/* A record of WORDS words of 8 bytes is dropped. */
#define PROBE_LOG_DROP(words) PROBE_POINT(log_drop, words)

#endif
