/* OpenSSL's memory is that of common/block_lists: a handshake makes 700 allocations. */
#ifndef DAEMON_TLS_FREE_LISTS_H
#define DAEMON_TLS_FREE_LISTS_H

/* Call it before any other use of OpenSSL. With AddressSanitizer it does nothing. */
void free_lists_use(void);

#endif
