/* One order for a certificate (RFC 8555 section 7.4), from its request to the certificate. The ACME process. */
#ifndef DAEMON_ACME_ORDER_H
#define DAEMON_ACME_ORDER_H

#include "common/segment.h"
#include "daemon/acme/authority.h"

/* What an order needs from its owner. */
struct order_owner {
    enum challenge_kind kind[CHALLENGE_KINDS]; /* that may be used, the preferred one first */
    size_t kind_count;
    /*
     * Has the workers answer the challenge TOKEN of KIND; "": no challenge any more. Returns when they do: 0, or -1
     * if the process must end.
     */
    int (*publish)(void *context, enum challenge_kind kind, const char *token);
    /* Waits for MS, or shorter. Returns false if the process must end. */
    bool (*wait)(void *context, uint32_t ms);
    void *context;
};

/*
 * Obtains a certificate for NAME by the signing request REQUEST (base64url). REPLACES: credentials_id() of the
 * one that it follows, which RFC 9773 exempts from some limits; "": none. Returns its PEM text with the chain, which
 * the caller frees; or NULL with authority->why.
 */
char *order_obtain(struct authority *authority, const struct order_owner *owner, const char *name,
                   const char *request, const char *replaces);

#endif
