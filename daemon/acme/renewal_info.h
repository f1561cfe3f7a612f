/*
 * ACME Renewal Information (RFC 9773): when the authority suggests to renew a certificate, for example because
 * it will revoke it, or its load is low then. The ACME process.
 */
#ifndef DAEMON_ACME_RENEWAL_INFO_H
#define DAEMON_ACME_RENEWAL_INFO_H

#include "daemon/acme/authority.h"

enum {
    RENEWAL_CHECK_S = 6 * 3600,      /* if the authority does not say when to ask again */
    RENEWAL_CHECK_MAX_S = 24 * 3600, /* although it may say later */
};

struct renewal_window {
    int64_t start_s, end_s; /* wall clock; both 0: not known */
    uint32_t check_after_s; /* when to ask again; 0: the authority did not say */
};

/*
 * Requests the window for the certificate with ID (credentials_id()). Call authority_open() first. Returns 0;
 * -1 with authority->why, and check_after_s of WINDOW.
 */
int renewal_info_fetch(struct authority *authority, const char *id, struct renewal_window *window);

/*
 * Reads JSON, which may be anything, into WINDOW. Returns 0, or -1 with its times unchanged: they are missing,
 * malformed, or not in order. Pure.
 */
int renewal_info_read(const json_t *json, struct renewal_window *window);

#endif
