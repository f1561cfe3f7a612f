/*
 * Texts with variables: {{NAME}} stands for a value. In a URL the value is percent-encoded, and
 * {{{NAME}}} inserts it unchanged. Pure; any thread.
 */
#ifndef LOADGEN_TEMPLATE_H
#define LOADGEN_TEMPLATE_H

#include "loadgen/plan/plan.h"

#include <curl/curl.h>

/* A request with variables. */
struct request_template {
    char *method; /* NULL: the plan's */
    char *url;
    bool is_path; /* url is a path on the server of the first request */
    struct curl_slist *fields;
    char *body; /* NULL: none, or the plan's */
    size_t body_length;
};

void request_template_free(struct request_template *template);

/* Where the values come from. */
struct template_variables {
    /* Returns the value of the variable with this name, or NULL, having reported why. */
    const char *(*find)(void *context, const char *name, size_t length);
    void *context;
};

/* A request without variables; release with template_request_free(). */
struct template_request {
    char *url;
    struct curl_slist *fields;
    char *body; /* NULL: none */
    size_t body_length;
    size_t replaced; /* number of variables */
};

enum template_result {
    TEMPLATE_DONE,
    TEMPLATE_UNKNOWN, /* find() returned NULL */
    TEMPLATE_INVALID, /* WHY has the reason */
};

/* Appends a copy of TEXT to *list. Returns false if out of memory. */
bool string_list_append(struct curl_slist **list, const char *text);

/* Whether TEXT, of the command line, has variables to replace. */
bool template_is_used(const struct plan *plan, const char *text);

/*
 * Fills *made from TEMPLATE and the header fields of PLAN that have variables, which replace fields
 * of the same name. Release *made in any case.
 */
enum template_result template_make_request(const struct plan *plan,
                                           const struct request_template *template,
                                           const struct template_variables *variables,
                                           struct template_request *made, char *why, size_t size);

void template_request_free(struct template_request *made);

#endif
