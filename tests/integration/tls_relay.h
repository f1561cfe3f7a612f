/*
 * A port without TLS whose connections go on to a server over TLS, so that a test that knows nothing of
 * TLS runs over it. A connection that begins with the preface of HTTP/2 negotiates it by ALPN, others
 * HTTP/1.1. The end of one direction is passed on as the end of that direction.
 */
#ifndef TESTS_TLS_RELAY_H
#define TESTS_TLS_RELAY_H

#include <stdint.h>

struct tls_relay;

/* A relay to PORT of this host, in threads of its own. */
struct tls_relay *tls_relay_start(uint16_t port);
uint16_t tls_relay_port(const struct tls_relay *relay);

/* Ends the connections that a failed test has left, and waits for all. */
void tls_relay_stop(struct tls_relay *relay);

#endif
