#include "daemon/transaction/transaction.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/probes.h"
#include "daemon/http/forwarded.h"
#include "daemon/http/target.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/internal.h"
#include "daemon/transaction/limits.h"

#include <string.h>

/* Route */

/* The asterisk form, or an absolute form without a path: RFC 9112 section 3.2.4. */
static bool is_whole_server(struct span target)
{
    if (target.start[0] == '/')
        return false;
    for (size_t i = strlen("http://"); i < target.length; i++)
        if (strchr("/?#", target.start[i]) != NULL)
            return false;
    return true;
}

bool transaction_supports_method(enum http_method method)
{
    return method == METHOD_GET || method == METHOD_HEAD || method == METHOD_OPTIONS;
}

static enum transaction_result respond_allowed(struct transaction *transaction,
                                               const struct target *target)
{
    const struct config *config = transaction->context->worker->config;

    transaction->rule =
        redirect_find(config, transaction->site->number, target->path, transaction->client->secure);
    if (transaction->request->method == METHOD_OPTIONS)
        return reply_options(transaction);
    if (transaction->rule != NULL && transaction->rule->action <= REDIRECT_STATUS)
        return handler_redirect(transaction, target);
    if (handler_arithmetic_owns(config, target->path))
        return handler_arithmetic(transaction, target);
    return handler_files(transaction, target);
}

/* True if requests without TLS, as this one is, are redirected. */
static bool leads_to_tls(const struct transaction *transaction, const struct target *target)
{
    const struct config_redirect *rule;

    if (transaction->client->secure)
        return false;
    rule = redirect_find(transaction->context->worker->config, transaction->site->number,
                         target->path, false);
    return rule != NULL && rule->plain && rule->action == REDIRECT_TO;
}

/* By the rules of [access] and [cors] for the path. */
static enum transaction_result respond_to_target(struct transaction *transaction,
                                                 const struct target *target)
{
    const struct config *config = transaction->context->worker->config;
    const struct config_access *rule = access_find(config, transaction->site->number, target->path);
    _Atomic uint64_t *metrics = transaction->context->metrics;
    int status;

    transaction->cors = cors_find(config, transaction->site->number, target->path);
    transaction->personal = rule != NULL || transaction->cors != NULL;
    if (rule != NULL && !access_allows(rule, transaction->address))
        return reply_error(transaction, 403);
    transaction->preflight = transaction->cors != NULL && cors_is_preflight(transaction->request);
    if (transaction->preflight) { /* it never has credentials */
        metric_add(metrics, METRIC_preflights, 1);
        if (!cors_allows(transaction))
            metric_add(metrics, METRIC_preflights_refused, 1);
        return reply_options(transaction);
    }
    /* a password is not for a connection without TLS */
    status = rule != NULL && !leads_to_tls(transaction, target)
                 ? access_authenticate(transaction, rule)
                 : 0;
    if (status == LOOKUP_MUST_WAIT)
        return TRANSACTION_WAITING;
    return status != 0 ? reply_error(transaction, status) : respond_allowed(transaction, target);
}

/* Selects the handler by method and path. */
static enum transaction_result route(struct transaction *transaction)
{
    const struct request *request = transaction->request;
    enum transaction_result result;
    struct target target UNINITIALIZED;
    int status;

    if (!transaction_supports_method(request->method))
        return reply_error(transaction, request->method == METHOD_UNKNOWN ? 501 : 405);
    if (request->method == METHOD_OPTIONS && is_whole_server(request->target))
        return reply_options(transaction);
    status = target_canonical(request->target, &target);
    if (status != 0)
        return reply_error(transaction, status);
    transaction->path = target.path;
    result = respond_to_target(transaction, &target);
    transaction->path = NULL;
    return result;
}

/* One transaction */

/*
 * True if the server is not authoritative for the host over this connection: neither the name that
 * the client gave in the handshake nor the certificate is for it (RFC 9110 section 7.4). Without
 * [host] sections the server is authoritative for every host.
 */
static bool is_misdirected(const struct transaction *transaction)
{
    struct client *client = transaction->client;

    if (client->covered == transaction->site || transaction->request->host.length == 0)
        return false;
    if (!transaction->context->worker->tls_covers(client, transaction->request->host))
        return true;
    client->covered = transaction->site;
    return false;
}

/* One load for each request; the word changes only during an order for a certificate. */
static bool challenge_is_pending(const struct transaction *transaction)
{
    const struct segment_challenge *pending =
        segment_challenge(transaction->context->worker->segment);

    return atomic_load_explicit(&pending->token[0], memory_order_relaxed) != 0;
}

static enum transaction_result respond_to_request(struct transaction *transaction)
{
    enum http_method method = transaction->request->method;
    struct resource *resource = NULL;
    enum transaction_result challenged;
    int status;

    if (UNLIKELY(transaction->context->unavailable)) {
        transaction->client->closing = true;
        transaction->client->linger_wanted = true;
        return reply_error(transaction, 503);
    }
    if (UNLIKELY(challenge_is_pending(transaction)) && handler_challenge(transaction, &challenged))
        return challenged;
    if (UNLIKELY(segment_is_in_maintenance(transaction->context->worker->segment,
                                           transaction->site->host)))
        return reply_maintenance(transaction);
    if (UNLIKELY(transaction->client->secure) && transaction->context->worker->sites.count > 1 &&
        is_misdirected(transaction))
        return reply_error(transaction, 421);
    if (UNLIKELY(address_limits_exist(transaction->context->worker->segment)) &&
        (status = admission_by_address(transaction)) != 0) {
        transaction->may_wait = false; /* when processed again it would be accepted */
        return reply_error(transaction, status);
    }
    if (UNLIKELY(rate_limit_is_on(transaction->context->worker->segment)) &&
        !admission_of_request(transaction)) {
        transaction->may_wait = false; /* when processed again it would be charged again */
        return reply_error(transaction, 429);
    }
    if (LIKELY(method == METHOD_GET || method == METHOD_HEAD))
        resource = lookup_in_thread_cache(transaction);
    if (LIKELY(resource != NULL)) {
        PROBE_CACHE_HIT(1, transaction->request->target);
        transaction->outcome = OUTCOME_HIT;
        return reply_resource(transaction, resource, false);
    }
    return transaction->waiting ? TRANSACTION_WAITING : route(transaction);
}

/* The address of the client that REQUEST names, or of the peer. */
static const uint8_t *find_forwarded(struct transaction_context *context,
                                     const struct client *client, const struct request *request)
{
    const struct config *config = context->worker->config;
    enum forwarded_field field = config->proxy_field == PROXY_FIELD_FORWARDED
                                     ? FORWARDED_FORWARDED
                                     : FORWARDED_X_FORWARDED_FOR;

    memcpy(context->forwarded, client->address, sizeof(context->forwarded));
    forwarded_find(request, field, &config->proxy_trusted.set, context->forwarded);
    return context->forwarded;
}

static struct transaction begin_transaction(struct transaction_context *context,
                                            struct client *client, struct transaction_state *state,
                                            const struct request *request)
{
    PROBE_REQUEST_START(state, request->line, state->began_ns);
    return (struct transaction){
        .context = context,
        .client = client,
        .state = state,
        .request = request,
        .site = site_find(&context->worker->sites, &context->site, request->host),
        .address = UNLIKELY(client->forwarded) ? find_forwarded(context, client, request)
                                               : client->address,
        .began_ns = state->began_ns != 0 ? state->began_ns : context->loop_now_ns,
        .retry_after_s = 1,
        .outcome = OUTCOME_ERROR,
        .accepts = lookup_accepted_codings(context, request),
        .until_ns = UINT64_MAX,
        .may_wait = true,
    };
}

static void choose_codings_of_range(struct transaction *transaction)
{
    coding_preference accepts = transaction->accepts;

    transaction->accepts = lookup_codings_of_range(transaction->request, accepts);
    transaction->uncoded =
        transaction->accepts == PREFER_IDENTITY && (accepts & 15) != PREFER_IDENTITY;
}

/* Keeps the state of a waiting request; frees that of a finished one. */
static enum transaction_result end_transaction(struct transaction *transaction,
                                               enum transaction_result result)
{
    struct transaction_state *state = transaction->state;

    if (result == TRANSACTION_WAITING) {
        state->began_ns = transaction->began_ns;
        transaction->client->closing = false; /* reset: composing the response decides this again */
        return result;
    }
    state->began_ns = 0;
    state->login = 0;
    state->login_rule = NULL;
    state->retries = 0;
    if (UNLIKELY(state->loaded != NULL))
        loading_discard(state, transaction->context->worker->cache);
    return result;
}

enum transaction_result transaction_process(struct transaction_context *context,
                                            struct client *client, struct transaction_state *state,
                                            const struct request *request)
{
    struct transaction transaction = begin_transaction(context, client, state, request);
    enum transaction_result result;

    if (UNLIKELY(request_has_range(request)))
        choose_codings_of_range(&transaction);
    result = respond_to_request(&transaction);

    /* A request without a file lookup counts neither as hit nor as miss. */
    if (result == TRANSACTION_DONE && transaction.outcome != OUTCOME_ERROR)
        metric_add(context->metrics,
                   transaction.outcome == OUTCOME_HIT ? METRIC_cache_hits : METRIC_cache_misses, 1);
    return end_transaction(&transaction, result);
}

enum transaction_result transaction_reject(struct transaction_context *context,
                                           struct client *client, struct transaction_state *state,
                                           const struct request *request, int status)
{
    struct transaction transaction = begin_transaction(context, client, state, request);

    client->closing = true;
    client->linger_wanted = true;
    transaction.may_wait = status != 408; /* the rest of the request will not arrive */
    return end_transaction(&transaction, reply_error(&transaction, status));
}
