/*
 * The HTTP/1 connection state machine: reads, parses requests, answers them in order, sends the
 * responses, and waits for more or closes.
 *
 *   readable ─▶ read ahead ─▶ serve: parse, process … ─▶ flush ─▶ (unsent: writable …) ─▶ wait or close
 *                                      └─▶ offload job ─▶ resume: the same request again
 */
#ifndef DAEMON_HTTP1_STATE_MACHINE_H
#define DAEMON_HTTP1_STATE_MACHINE_H

#include "daemon/connection/connection.h"

extern const struct connection_protocol http1_protocol;

#endif
