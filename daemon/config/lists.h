/* Lists of socket addresses to listen on: "127.0.0.1:8080 [::1]:8080, *:80, unix:/path". Any
 * thread. */
#ifndef DAEMON_CONFIG_ADDRESS_H
#define DAEMON_CONFIG_ADDRESS_H

#include "daemon/config/config.h"
#include "daemon/config/fault.h"

enum { CONFIG_ADDRESSES_MAX = 64 }; /* in one list */

/*
 * Reads TEXT: addresses separated by blanks or commas, with ports 0 to 65535 (0: the kernel picks).
 * "*" is every address of IPv4 and IPv6: AF_INET6, ::, told from [::] by its text alone. Host names
 * are refused, and addresses that can't be open at the same time. Returns 0 with *LIST filled
 * (owned by the caller: free(list->item)), or -1 when FAULTS has been told of every bad word.
 */
int config_address_parse_list(const char *text, struct config_list *list,
                              const struct config_faults *faults);

#endif
