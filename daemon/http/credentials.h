/*
 * The credentials of Basic authentication (RFC 7617): "Basic " and the base64 of "name:password".
 *
 *   another scheme, no scheme                     none
 *   base64 with wrong padding, length or bytes    none
 *   no ':', or a control character (RFC 7617)     none
 *   an empty name or password                     as given
 *
 * Pure; any thread.
 */
#ifndef DAEMON_HTTP_CREDENTIALS_H
#define DAEMON_HTTP_CREDENTIALS_H

#include "common/span.h"

enum { CREDENTIALS_MAX = 512 }; /* bytes of name, ':' and password; longer ones are none */

struct credentials {
    struct span name, password; /* in bytes */
    size_t length;
    char bytes[CREDENTIALS_MAX];
};

/* Decodes VALUE, of the field Authorization. Returns false if it has no valid credentials. */
bool credentials_read(struct span value, struct credentials *credentials);

#endif
