/*
 * Signed requests to an ACME authority (RFC 8555 section 6), and the account there. What the authority
 * answers is input from outside: sizes and types are checked, and its texts end up in messages only
 * after they have been cut. The ACME process.
 */
#ifndef DAEMON_ACME_AUTHORITY_H
#define DAEMON_ACME_AUTHORITY_H

#include "daemon/acme/http_client.h"

#include <jansson.h>
#include <openssl/evp.h>

enum { AUTHORITY_WHY = 320, AUTHORITY_URL_MAX = HTTP_FIELD_MAX };

struct authority {
    struct http_client *http;        /* borrowed, as are the next two */
    const char *directory;           /* URL */
    EVP_PKEY *key;                   /* of the account */
    char account[AUTHORITY_URL_MAX]; /* its URL; "": not known */
    char new_nonce[AUTHORITY_URL_MAX], new_account[AUTHORITY_URL_MAX], new_order[AUTHORITY_URL_MAX];
    char key_change[AUTHORITY_URL_MAX], renewal_info[AUTHORITY_URL_MAX]; /* "": it has none */
    char nonce[HTTP_FIELD_MAX]; /* for the next request; "": none */
    /* Of the last failure. */
    char why[AUTHORITY_WHY];
    uint32_t retry_after_s; /* that the authority requested; 0: none */
    long status;            /* of its answer; 0: there was none */
    bool account_unknown;   /* the authority does not know the account */
};

/* A successful answer. */
struct authority_answer {
    json_t *json; /* NULL: its body is not a JSON object */
    char *text;   /* the body */
    char location[HTTP_FIELD_MAX];
    uint32_t retry_after_s; /* 0: none */
};

/* All return 0, or -1 with authority->why. */

/* Reads the directory. The first call, and again for each order. */
int authority_open(struct authority *authority);

/* Registers the key with EMAIL ("": none), or finds its account; sets authority->account. */
int authority_register(struct authority *authority, const char *email);

/* Writes the URL of the account with KEY. If there is none, sets account_unknown and fails. */
int authority_find_account(struct authority *authority, EVP_PKEY *key, char url[AUTHORITY_URL_MAX]);

/*
 * Has the authority replace the key of the account by KEY; the caller then sets authority->key. After a failure it may
 * have replaced it: an answer may be lost, and the request then be repeated.
 */
int authority_change_key(struct authority *authority, EVP_PKEY *key);

/* GET without a signature. The caller frees ANSWER. */
int authority_get(struct authority *authority, const char *url, struct authority_answer *answer);

/* POST of PAYLOAD, which it frees, or POST-as-GET (NULL). The caller frees ANSWER. */
int authority_post(struct authority *authority, const char *url, json_t *payload,
                   struct authority_answer *answer);
void authority_answer_free(struct authority_answer *answer);

/* Writes authority->why. Returns -1. */
int authority_fail(struct authority *authority, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The problem document JSON (RFC 7807) in words: "detail (type)", with its subproblems. JSON may be
 * anything. Pure.
 */
void authority_problem(const json_t *json, char *text, size_t size);

/* The text member NAME of JSON, or "" if there is none. Borrowed. */
const char *authority_text(const json_t *json, const char *name);

#endif
