/*
 * Requests to an ACME authority over HTTPS, signed with the account's key (RFC 8555 section 6).
 * What the authority answers is input from outside: sizes and types are checked, and its texts end
 * up in messages only after they have been cut.
 */
#ifndef DAEMON_ACME_AUTHORITY_H
#define DAEMON_ACME_AUTHORITY_H

#include "common/macros.h"
#include "daemon/acme/link.h"

#include <curl/curl.h>
#include <jansson.h>
#include <openssl/evp.h>

enum {
    AUTHORITY_BODY_MAX = 512 * 1024,
    AUTHORITY_URL_MAX = 1024,
    AUTHORITY_WHY = 1024,
    REQUEST_SECONDS = 60
};

struct authority {
    const char *directory, *ca; /* see authority_init() */
    struct link *link;          /* gets signs of life during a request; borrowed, as is the next */
    EVP_PKEY *key;              /* the account's, which signs the requests */
    CURL *easy;                 /* keeps its connections between requests */
    struct curl_slist *fields;
    char account[AUTHORITY_URL_MAX]; /* its URL; "": not known */
    char new_nonce[AUTHORITY_URL_MAX], new_account[AUTHORITY_URL_MAX], new_order[AUTHORITY_URL_MAX];
    char key_change[AUTHORITY_URL_MAX], renewal_info[AUTHORITY_URL_MAX]; /* "": it has none */
    char nonce[AUTHORITY_URL_MAX]; /* the next request has it; "": none */
    const char *profile;           /* of the certificates; "": none; borrowed */
    bool requires_binding;         /* its accounts are bound to customers */
    uint32_t limit_s;              /* time limit of a request; 0: REQUEST_SECONDS */
    bool unreachable;              /* the last request for the directory had no answer */
    bool unanswered, timed_out;    /* the last request had none, within the time limit */
    /* Of the last failure. */
    char why[AUTHORITY_WHY];
    uint32_t retry_after_s; /* delay that the authority requested; 0: none */
    long status;            /* HTTP status; 0: there was no answer */
    bool account_unknown;   /* the authority does not know the account */
};

struct authority_answer {
    long status;
    char *text; /* the body */
    size_t length;
    json_t *json;                     /* NULL: the body is not a JSON object */
    char location[AUTHORITY_URL_MAX]; /* "": none, or too long */
    uint32_t retry_after_s;           /* 0: none */
};

/*
 * DIRECTORY is the URL of the authority; CA are certificates in PEM format that verify it, "" those
 * of the system. Both are borrowed. Call it before the sandbox is entered. Returns 0, or -1: out of
 * memory.
 */
int authority_init(struct authority *authority, const char *directory, const char *ca);
void authority_free(struct authority *authority);

/* All return 0, or -1 with authority->why. */

/* Reads the directory. The first call, and again for each order. */
int authority_open(struct authority *authority);

/* GET without a signature. The caller frees ANSWER. */
int authority_get(struct authority *authority, const char *url, struct authority_answer *answer);

/* POST of PAYLOAD, which it frees, or POST-as-GET (NULL). The caller frees ANSWER. */
int authority_post(struct authority *authority, const char *url, json_t *payload,
                   struct authority_answer *answer);
void authority_answer_free(struct authority_answer *answer);

/* Writes authority->why. Returns -1. */
int authority_fail(struct authority *authority, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * The problem document JSON (RFC 7807) in words: "detail (type)", with its subproblems. JSON may be
 * anything. Pure.
 */
void authority_problem(const json_t *json, char *text, size_t size);

/* The text member NAME of JSON, or "" if there is none. Borrowed. */
const char *authority_text(const json_t *json, const char *name);

#endif
