/*
 * What the files of webserverd-acme share: its state, and the steps from the account to a
 * certificate. One thread, so all of it is sequential.
 */
#ifndef DAEMON_ACME_INTERNAL_H
#define DAEMON_ACME_INTERNAL_H

#include "common/segment.h"
#include "daemon/acme/authority.h"
#include "daemon/acme/credentials.h"
#include "daemon/acme/link.h"
#include "daemon/config/acme.h"
#include "daemon/config/config.h"

/* From the command line, which the master writes. */
struct acme_settings {
    const char *user, *group; /* as in [server] */
    bool without_jail;
    const char *state_dir, *ca_file, *email; /* ca_file and email: "" is none */
    const char *directory;                   /* URL */
    const char *profile, *eab_kid;           /* "": none */
    const char *eab_key;                     /* base64url */
    enum config_acme_key key;
    uint32_t retry_ms;
    enum challenge_kind challenge[CHALLENGE_KINDS]; /* the preferred one first */
    size_t challenge_count;
    char *const *name; /* the names of each certificate, separated by blanks */
    size_t name_count;
};

struct acme {
    struct acme_settings settings;
    int directory; /* descriptor of the state directory */
    struct link *link;
    struct authority authority; /* has the account's key and URL */
    EVP_PKEY *next_key; /* the authority may have accepted it instead of the key; NULL: none */
    char thumbprint[JWS_THUMBPRINT_BYTES]; /* RFC 7638, of authority.key */
};

/* When the authority suggests to renew a certificate (RFC 9773). */
struct renewal_window {
    int64_t start_s, end_s; /* wall clock; both 0: not known */
    uint32_t check_after_s; /* when to ask again; 0: the authority did not say */
};

struct certificate {
    uint32_t number;                   /* position in the configuration */
    const char *names;                 /* separated by blanks; borrowed */
    char name[ACME_NAME_MAX + 1];      /* the first one, for messages */
    int64_t not_before_s, not_after_s; /* validity of the one in use; 0: none */
    int64_t next_s;                    /* when it is requested next */
    int64_t refused_until_s;           /* no attempt before, by the authority's request; 0: none */
    uint32_t renewal;                  /* the last one that the master requested and has ended */
    uint32_t failures;                 /* attempts that failed since the last success */
    char id[CREDENTIALS_ID_BYTES];     /* RFC 9773: names the one in use; "": none */
    struct renewal_window window;      /* when the authority suggests to renew it */
    int64_t check_s;                   /* when to ask the authority again */
    char error[AUTHORITY_WHY];         /* why the last attempt failed; "": it did not */
    int64_t clock_ns;  /* wall clock minus time since boot, when the delays were planned */
    uint32_t hurried;  /* renewals in a row that the authority suggested at once */
    uint32_t deferred; /* attempts in a row that let the other certificates go first */
    /* An order that had no answer is continued. */
    char order[AUTHORITY_URL_MAX]; /* "": none */
    EVP_PKEY *key;                 /* for it; NULL: none */
};

/*
 * account.c: its key and URL in the state directory, its registration, and the change of its key
 * (RFC 8555 section 7.3.5).
 *
 * The new key is in account.key.next before the authority receives it, and becomes account.key when
 * the authority has accepted it. A process that finds account.key.next asks the authority which of
 * the two is the account's.
 */

/*
 * Reads the files, and makes a key if there is none. Returns 0, or -1 after an event with the
 * reason.
 */
int account_load(struct acme *acme);
void account_free(struct acme *acme);

/*
 * Reads the directory of the authority, finds out which key is the account's, and registers it
 * unless it is known. Returns 0, or -1 with authority->why.
 */
int account_open(struct acme *acme);

/*
 * Replaces the key, at the authority and in the state directory. Returns 0, or -1 with
 * authority->why.
 */
int account_change_key(struct acme *acme);

/*
 * order.c: obtains CERTIFICATE by the signing request REQUEST (base64url), from the order, which may
 * have begun, to the download (RFC 8555 section 7.4). Returns its PEM text with the chain, which the
 * caller frees; or NULL with authority->why.
 */
char *order_obtain(struct acme *acme, struct certificate *certificate, const char *request);

/* schedule.c: times in seconds since 1970, or in seconds. All but the last are pure. */

enum {
    SCHEDULE_RETRY_MAX_S = 12 * 3600,
    SCHEDULE_WAIT_MAX_S = 7 * 86400,
    RENEWAL_CHECK_S = 6 * 3600,      /* if the authority does not say when to ask again */
    RENEWAL_CHECK_MAX_S = 24 * 3600, /* although it may say later */
};

/*
 * Time to renew a certificate with these times: at two thirds of its life, and by RANDOM up to a
 * twentieth of it earlier, so that the certificates of many servers are not renewed at once.
 */
int64_t schedule_renewal(int64_t not_before_s, int64_t not_after_s, uint32_t random);

/* The time that RANDOM selects between the two, as RFC 9773 wants it: all equally likely. */
int64_t schedule_window(int64_t start_s, int64_t end_s, uint32_t random);

/*
 * Delay after the failure number FAILURES (from 1) in a row: RETRY_S, doubled with each further one
 * up to SCHEDULE_RETRY_MAX_S, and by RANDOM up to a tenth more; at least AFTER_S, the authority's
 * own.
 */
int64_t schedule_after_failure(uint32_t failures, uint32_t retry_s, uint32_t after_s,
                               uint32_t random);

/*
 * Time of the attempt after a failure that was planned for PLANNED_S, now that it is NOW_S. A time
 * so far ahead that it cannot have been planned means that the clock was changed: then now.
 */
int64_t schedule_planned(int64_t planned_s, int64_t now_s);

/*
 * Reads JSON, which may be anything, into WINDOW. Returns 0, or -1 with its times unchanged: they
 * are missing, malformed, or not in order.
 */
int renewal_info_read(const json_t *json, struct renewal_window *window);

/*
 * Requests the window for the certificate with ID (credentials_id()). Call authority_open() first.
 * Returns 0; -1 with authority->why, and check_after_s of WINDOW.
 */
int renewal_info_fetch(struct authority *authority, const char *id, struct renewal_window *window);

/*
 * certificate.c: the certificate of one name: its files, when it is requested next, and one attempt
 * to obtain it.
 */

/*
 * Reads the files of the name with NUMBER in the configuration, and plans and reports its next
 * attempt.
 */
void certificate_init(struct certificate *certificate, const struct acme *acme, uint32_t number);

/* True if it is to be requested now. */
bool certificate_is_due(const struct certificate *certificate, const struct acme *acme);

/*
 * Requests CERTIFICATE, or asks the authority when to renew it, if one of the two is due. If
 * OTHERS_WAIT for their turn, requests have less time, and an attempt that takes longer lets them go
 * first.
 */
void certificate_handle(struct certificate *certificate, struct acme *acme, bool others_wait);

#endif
