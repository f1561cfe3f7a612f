/*
 * One request and its answer: method, target, cache, file, error page. Composes the answer in the
 * thread's output; sending is another room's work (daemon/sending.h).
 */
#ifndef DAEMON_EXCHANGE_H
#define DAEMON_EXCHANGE_H

#include "daemon/connection.h"
#include "daemon/offload.h"
#include "daemon/request.h"

enum exchange_result {
    EXCHANGE_ANSWERED, /* the answer is in the output; connection->closing may be set */
    EXCHANGE_WAITING,  /* a job is out; ask again with the same request when it is back */
};

/* A file that an offload thread loads for a connection. */
struct load_job {
    struct offload_job job; /* first */
    struct connection *connection;
    struct load_job *next; /* in connection->loaded, once back */
    const struct site *site;
    int failed; /* what resource_load() said */
    struct resource *resource;
    size_t length;
    char path[]; /* ended by NUL */
};

enum exchange_result exchange_answer(struct connection *connection, const struct request *request);

/* The answer to what is no request: STATUS, and the connection closes. */
enum exchange_result exchange_refuse(struct connection *connection, const struct request *request,
                                     int status);

/* The job is back: the connection that is returned has what it brought, and can be resumed. */
struct connection *exchange_loaded(struct load_job *job);

/* Forgets what was brought for the request that is answered now. */
void exchange_forget(struct connection *connection, struct cache *cache);

#endif
