/*
 * Sets, ends and passes on the limits that the command limit-client sets for single clients and
 * networks. They are in the segment (daemon/transaction/limits.h), so a reload keeps them; a
 * binary upgrade passes them on. The master's loop.
 */
#ifndef DAEMON_MASTER_ADDRESS_LIMITS_H
#define DAEMON_MASTER_ADDRESS_LIMITS_H

#include "daemon/transaction/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum { ADDRESS_LIMIT_TEXT = 64 };

/* "blocked", "5 requests per second", "1 request per second". Returns BUFFER. */
char *address_limit_describe(const struct address_limit *limit, char buffer[ADDRESS_LIMIT_TEXT]);

/* Requests rejected because of LIMIT; 0 again if the table of the rate limit needed the place. */
uint64_t address_limit_rejected(const struct segment *segment, const struct address_limit *limit);

/* The limit of exactly NETWORK. False: none. */
bool address_limits_get(const struct segment *segment, const struct network *network,
                        struct address_limit *limit);

/*
 * Sets LIMIT, whose id is ignored, instead of that of its network, if there is one. Returns 0, or -1: all
 * SEGMENT_ADDRESS_LIMITS_MAX are in use.
 */
int address_limits_set(const struct segment *segment, const struct address_limit *limit);

/* Removes the limit of exactly NETWORK, if there is one. */
void address_limits_remove(const struct segment *segment, const struct network *network);

/* Removes those whose time is over, and logs it. NOW_NS: monotonic clock. */
void address_limits_expire(const struct segment *segment, uint64_t now_ns);

/*
 * For a binary upgrade: a file in memory with all limits. Returns its descriptor, or -1: there are none, or
 * an error, which is logged. address_limits_restore() sets those of the file and closes it; FD may be -1.
 */
int address_limits_save(const struct segment *segment);
void address_limits_restore(const struct segment *segment, int fd);

#endif
