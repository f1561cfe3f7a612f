/*
 * OpenSSL's memory: blocks that it frees wait in lists of the thread for its next allocation of the
 * same size, up to 1 MiB for each thread. A handshake makes 700 allocations, more of each size than
 * the C library keeps for a thread. Each block is one of malloc(), so any thread may free it.
 */
#ifndef DAEMON_TLS_FREE_LISTS_H
#define DAEMON_TLS_FREE_LISTS_H

/* Call it before any other use of OpenSSL. With AddressSanitizer it does nothing. */
void free_lists_use(void);

#endif
