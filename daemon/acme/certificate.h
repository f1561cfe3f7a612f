/*
 * The certificate of one name: its files, when it is requested next, and one attempt to obtain it. The
 * ACME process.
 */
#ifndef DAEMON_ACME_CERTIFICATE_H
#define DAEMON_ACME_CERTIFICATE_H

#include "daemon/acme/account.h"
#include "daemon/acme/authority.h"
#include "daemon/acme/credentials.h"
#include "daemon/acme/link.h"
#include "daemon/acme/order.h"
#include "daemon/acme/renewal_info.h"
#include "daemon/acme/settings.h"

/* What all certificates share. All borrowed. */
struct certificates_owner {
    const struct acme_settings *settings;
    int directory; /* descriptor of the state directory */
    struct link *link;
    struct authority *authority;
    struct account *account;
};

struct certificate {
    uint32_t number;                   /* of the name in the configuration */
    const char *name;                  /* borrowed */
    int64_t not_before_s, not_after_s; /* of the one in use; 0: none */
    int64_t next_s;                    /* when it is requested next */
    int64_t refused_until_s;           /* no attempt before, by the authority's request; 0: none */
    uint32_t renewal;                  /* the last one that the master requested and has ended */
    uint32_t failures;                 /* since the last success */
    char id[CREDENTIALS_ID_BYTES];     /* of the one in use, by RFC 9773; "": none */
    struct renewal_window window;      /* that the authority suggests for it */
    int64_t check_s;                   /* when to ask the authority again */
    char error[AUTHORITY_WHY];         /* of the last attempt */
    int64_t
        clock_ns; /* lead of the wall clock over the time since boot, when the delays were planned */
    uint32_t hurried;      /* renewals in a row that it suggested at once */
    const char *directory; /* of the authority, by URL; borrowed */
};

/* Reads the files of the name with NUMBER in the configuration, and plans and reports its next attempt. */
void certificate_init(struct certificate *certificate, const struct certificates_owner *owner,
                      uint32_t number);

/*
 * Keeps the delays of the plan if the wall clock was set since they were planned. An attempt after a failure does
 * not wait longer because it was set forward: the failure may have been that of the clock.
 */
void certificate_follow_clock(struct certificate *certificate,
                              const struct certificates_owner *owner);

/* True if it is time for the next attempt, or the master has requested a renewal. */
bool certificate_is_due(const struct certificate *certificate,
                        const struct certificates_owner *owner, int64_t now_s);

/* When certificate_check() is due: a time far ahead if there is nothing to ask. */
int64_t certificate_check_time(const struct certificate *certificate, int64_t now_s);

/*
 * Asks the authority when to renew it, and plans for then. If it does not say, the plan by the life of the
 * certificate stays.
 */
void certificate_check(struct certificate *certificate, struct certificates_owner *owner);

/* Requests it, whatever next_s is, and plans the next attempt. Reports the result to the master. */
void certificate_request(struct certificate *certificate, struct certificates_owner *owner);

#endif
