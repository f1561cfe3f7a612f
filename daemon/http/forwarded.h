/*
 * The client of a request that came by proxies, as these name it in the field X-Forwarded-For or
 * Forwarded (RFC 7239). Each proxy appends the address that it got the request from, so the list is
 * read from its end, and only as far as the proxies are trusted. Pure; any thread.
 */
#ifndef DAEMON_HTTP_FORWARDED_H
#define DAEMON_HTTP_FORWARDED_H

#include "daemon/base/network.h"
#include "daemon/http/request.h"

enum forwarded_field { FORWARDED_X_FORWARDED_FOR, FORWARDED_FORWARDED };

/*
 * Replaces ADDRESS, that of the trusted peer which sent REQUEST, by the last address of FIELD that
 * no network of TRUSTED contains. If all are trusted it is the first of the field.
 * What is left of an element that is not an IP address, such as "unknown", does not count.
 */
void forwarded_find(const struct request *request, enum forwarded_field field,
                    const struct network_set *trusted, uint8_t address[NETWORK_ADDRESS_BYTES]);

#endif
