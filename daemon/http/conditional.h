/*
 * Conditional requests: RFC 9110 section 13. Pure. What counts as true, where the RFC leaves it open:
 *
 *   what came                                  is                  why (RFC 9110 section)
 *   -----------------------------------------  ------------------  ----------------------------------
 *   If-Match that is no list of entity tags    not met: 412        13.1.1, the change it guards against
 *                                                                   can't be ruled out
 *   If-None-Match that is no such list         met: whole answer   13.1.2, nothing is known to match
 *   "*" beside other members                   no such list        13.1.1, 13.1.2
 *   a weak tag in If-Match or If-Range         never equal         8.8.3.2, strong comparison
 *   a date that is none, or came twice         as if it had not    13.1.3, 13.1.4
 *   If-Modified-Since beside If-None-Match     as if it had not    13.1.3
 *   If-Unmodified-Since beside If-Match        as if it had not    13.1.4
 *   If-Range with a date: not exactly ours,    not met: the whole  13.1.5, 8.8.2.2
 *     or younger than a second
 *   If-Range twice, or neither tag nor date    not met: the whole  13.1.5
 */
#ifndef DAEMON_CONDITIONAL_H
#define DAEMON_CONDITIONAL_H

#include "daemon/http/request.h"

/* What a representation is known by. */
struct validators {
    struct span etag;          /* strong, with its quotes */
    bool dated;                /* its Last-Modified can be compared with */
    int64_t modified;          /* seconds since 1970 */
    struct span modified_text; /* the same as it is sent; length 0: not known */
};

enum verdict {
    VERDICT_PROCEED,
    VERDICT_NOT_MODIFIED,        /* 304 */
    VERDICT_PRECONDITION_FAILED, /* 412 */
};

/*
 * If-Match, If-Unmodified-Since, If-None-Match, If-Modified-Since in the order of section 13.2.2. To
 * be asked only where the answer would be 200 otherwise (section 13.2.1). NOW is the answer's Date.
 */
enum verdict conditional_verdict(const struct request *request, const struct validators *validators,
                                 int64_t now);

/* If-Range: true when a Range may be honoured; also when there is no If-Range. */
bool conditional_range_holds(const struct request *request, const struct validators *validators,
                             int64_t now);

/* One field line of If-Match or If-None-Match. */
enum etag_match { ETAG_NO, ETAG_YES, ETAG_MALFORMED };
enum etag_match etag_list_match(struct span list, struct span etag, bool strong);

#endif
