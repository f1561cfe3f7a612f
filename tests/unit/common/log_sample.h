/* A sample access log record with all fields. */
#ifndef LOG_SAMPLE_H
#define LOG_SAMPLE_H

#include "common/clock.h"
#include "common/log_record.h"
#include "common/tables.h"

/* IPv4-mapped: ::ffff:a.b.c.d. */
#define IPV4(a, b, c, d)                                                                           \
    {                                                                                              \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d                                       \
    }

/* 2026-11-21 06:18:30 UTC */
#define SOME_TIME (UINT64_C(1795241910) * NS_PER_S)

static inline struct log_record log_sample(void)
{
    return (struct log_record){.time_ns = SOME_TIME + 123456789,
                               .duration_ns = 84211,
                               .body_bytes = 2326,
                               .status = 200,
                               .outcome = OUTCOME_OFFLOAD,
                               .address = IPV4(192, 0, 2, 7),
                               .request_line = SPAN("GET /index.html HTTP/1.1"),
                               .referer = SPAN("http://localhost/"),
                               .agent = SPAN("curl/8.0")};
}

#endif
