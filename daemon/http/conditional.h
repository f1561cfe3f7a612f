/*
 * Conditional requests: RFC 9110 section 13. Pure. Cases that the RFC leaves open, or that are
 * easy to miss:
 *
 *   request                                    result              reason (RFC 9110 section)
 *   -----------------------------------------  ------------------  -------------------------------
 *   malformed If-Match                         not met: 412        13.1.1, the change it prevents
 *                                                                  may have happened
 *   malformed If-None-Match                    met: full response  13.1.2, no match is known
 *   "*" with other members                     malformed           13.1.1, 13.1.2
 *   a weak tag in If-Match or If-Range         never equal         8.8.3.2, strong comparison
 *   a malformed or repeated date               ignored             13.1.3, 13.1.4
 *   If-Modified-Since with If-None-Match       ignored             13.1.3
 *   If-Unmodified-Since with If-Match          ignored             13.1.4
 *   If-Range with a date: not exactly equal,   not met: full       13.1.5, 8.8.2.2
 *     or less than a second old
 *   If-Range repeated, or neither tag nor date not met: full       13.1.5
 */
#ifndef DAEMON_CONDITIONAL_H
#define DAEMON_CONDITIONAL_H

#include "daemon/http/request.h"

struct validators {
    struct span etag;          /* strong, with quotes */
    bool dated;                /* modified is valid for comparisons */
    int64_t modified;          /* seconds since 1970 */
    struct span modified_text; /* modified as sent; length 0: unknown */
};

enum verdict {
    VERDICT_PROCEED,
    VERDICT_NOT_MODIFIED,        /* 304 */
    VERDICT_PRECONDITION_FAILED, /* 412 */
};

/*
 * Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of
 * section 13.2.2. Call it only if the status would be 200 otherwise (section 13.2.1). NOW is the
 * Date of the response.
 */
enum verdict conditional_verdict(const struct request *request, const struct validators *validators,
                                 int64_t now);

/* Evaluates If-Range: true if Range applies, also without If-Range. */
bool conditional_range_holds(const struct request *request, const struct validators *validators,
                             int64_t now);

/* Compares ETAG with one field line of If-Match or If-None-Match. */
enum etag_match { ETAG_NO, ETAG_YES, ETAG_MALFORMED };
enum etag_match etag_list_match(struct span list, struct span etag, bool strong);

#endif
