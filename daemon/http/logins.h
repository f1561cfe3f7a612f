/*
 * Basic authentication (RFC 7617): the credentials of a request; the verified ones, by a keyed hash
 * of file, name and password; the failures of each client; and the check of one password, which
 * takes milliseconds on purpose. A thread of its own checks one password after another, so that no
 * other work waits for guesses.
 *
 * A user who does not exist takes as long as one who does: another user stands in. A failure is
 * counted before the check, and not any more if the password is right: of guesses that arrive at
 * the same time, no more are checked than of guesses in a row. Any thread.
 */
#ifndef DAEMON_HTTP_LOGINS_H
#define DAEMON_HTTP_LOGINS_H

#include "common/span.h"
#include "daemon/base/hash.h"
#include "daemon/base/mailbox.h"

#include <stdbool.h>
#include <stdint.h>

enum { CREDENTIALS_MAX = 512 }; /* bytes of name, ':' and password; longer ones are none */

struct credentials {
    struct span name, password; /* they point into the member bytes */
    size_t length;
    char bytes[CREDENTIALS_MAX];
};

/*
 * Decodes VALUE, of the field Authorization: "Basic " and the base64 of "name:password". Returns
 * false if it has no valid credentials:
 *
 *   another scheme, no scheme                     none
 *   base64 with wrong padding, length or bytes    none
 *   no ':', or a control character (RFC 7617)     none
 *   an empty name or password                     as given
 */
bool credentials_read(struct span value, struct credentials *credentials);

struct logins;

/* FAILURES_A_MINUTE of each client; 0: no limit. NULL: out of memory. */
struct logins *logins_new(uint32_t failures_a_minute);

/* Ends the thread after the checks that wait. */
void logins_free(struct logins *logins);

/* Of the users file, the name and the password; not all zero. */
struct siphash logins_hash(const struct logins *logins, const char *file,
                           const struct credentials *credentials);

/* Verified passwords; as many as there is room for. */
bool logins_is_verified(struct logins *logins, const struct siphash *hash);

/*
 * The time until the client with this key (client_address.h) may try again; 0: now. The /48 of an
 * IPv6 client has a limit, too.
 */
uint64_t logins_wait_ns(struct logins *logins, uint64_t client_key, uint64_t now_ns);

/* Which of COUNT users stands in for NAME, who does not exist: always the same one. */
size_t logins_stand_in(const struct logins *logins, struct span name, size_t count);

enum password_verdict {
    PASSWORD_UNKNOWN,
    PASSWORD_GOOD,
    PASSWORD_WRONG,
    PASSWORD_LIMITED, /* not checked: the client has too many failures */
};

/* A member of a larger struct. */
struct password_check {
    struct mailbox_item item;
    struct mailbox *owner;      /* receives the check when it is done... */
    mailbox_deliver_fn *finish; /* ...and calls this */
    uint64_t client_key;
    struct siphash hash;  /* logins_hash() */
    const char *expected; /* hash of the users file; borrowed */
    bool exists;          /* the user; else EXPECTED is another's */
    enum password_verdict verdict;
    char password[CREDENTIALS_MAX + 1];
};

/* Queues CHECK. Returns false if MOST checks wait, or without a thread; the caller keeps CHECK. */
bool logins_submit(struct logins *logins, struct password_check *check, uint32_t most);

#endif
