/* Redirects by rules, and of directories to their path with a slash. */
#include "common/escape.h"
#include "common/macros.h"
#include "daemon/base/memstream.h"
#include "daemon/transaction/handler.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/lookup.h"
#include "daemon/transaction/memory.h"
#include "daemon/transaction/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTE_LOCATION_MAX = 1024 };

/* A URI reference while it is composed; it has failed if it is longer than REPLY_LOCATION_MAX. */
struct location {
    size_t length;
    char text[REPLY_LOCATION_MAX + 1];
};

static void put(struct location *location, struct span text)
{
    if (location->length + text.length <= REPLY_LOCATION_MAX)
        memcpy(location->text + location->length, text.start, text.length);
    location->length += text.length;
}

static void put_path(struct location *location, const char *path)
{
    if (location->length <= REPLY_LOCATION_MAX)
        location->length += escape_path(location->text + location->length,
                                        REPLY_LOCATION_MAX - location->length, path);
}

static void put_query(struct location *location, const struct target *target)
{
    if (target->query.start == NULL)
        return;
    put(location, SPAN("?"));
    if (location->length <= REPLY_LOCATION_MAX)
        location->length += escape_query(location->text + location->length,
                                         REPLY_LOCATION_MAX - location->length, target->query);
}

/*
 * The short note of RFC 9110 section 15.4.2, with a link unless LOCATION is long: a client can put
 * anything into the query.
 */
static int make_note(struct span path, int status, const char *location, const char *link,
                     struct resource **note)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int failed = ENOMEM;

    if (out == NULL)
        return ENOMEM;
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
            "<title>%d %s</title></head>\n<body><h1>%d %s</h1>",
            status, response_reason(status), status, response_reason(status));
    if (strlen(location) <= NOTE_LOCATION_MAX) {
        fputs("<p><a href=\"", out);
        escape_html(out, location);
        fprintf(out, "\">%s</a></p>", link);
    }
    fputs("</body>\n</html>\n", out);
    if (memstream_close(out, &text) == 0)
        failed = page_new(path, "Content-Type: text/html; charset=utf-8\r\n", text, length, note);
    free(text);
    return failed;
}

static enum transaction_result respond(struct transaction *transaction, const struct target *target,
                                       int status, const char *link, struct location *location)
{
    struct resource *note;
    int failed;

    if (location->length > REPLY_LOCATION_MAX)
        return reply_error(transaction, 414);
    location->text[location->length] = '\0';
    failed =
        make_note((struct span){target->path, target->length}, status, location->text, link, &note);
    if (failed == 0)
        return reply_redirect(transaction, status, (struct span){location->text, location->length},
                              note);
    if (failed == ENOMEM)
        memory_make_room(transaction->context); /* for the next request */
    return reply_error(transaction, lookup_status(failed));
}

enum transaction_result handler_redirect_directory(struct transaction *transaction,
                                                   const struct target *target)
{
    struct location location UNINITIALIZED;

    location.length = 0;
    put_path(&location, target->path);
    put(&location, SPAN("/"));
    put_query(&location, target);
    return respond(transaction, target, 301, "The directory", &location);
}

/* The URL of the request with https, on the default port. */
static void put_https(struct location *location, const struct transaction *transaction,
                      const struct target *target)
{
    put(location, SPAN("https://"));
    put(location, site_host_name(transaction->request->host));
    put_path(location, target->path);
}

enum transaction_result handler_redirect(struct transaction *transaction,
                                         const struct target *target)
{
    const struct config_redirect *rule = transaction->rule;
    struct location location UNINITIALIZED;

    if (rule->action == REDIRECT_STATUS)
        return reply_error(transaction, rule->status);
    location.length = 0;
    if (strcmp(rule->target, "https:") != 0) {
        put(&location, (struct span){rule->target, strlen(rule->target)});
        if (rule->rest)
            put_path(&location, target->path + strlen(rule->path));
    } else if (transaction->request->host.length > 0) {
        put_https(&location, transaction, target);
    } else {
        return reply_error(transaction, 400); /* HTTP/1.0 without Host: there is no URL */
    }
    if (strchr(rule->target, '?') == NULL)
        put_query(&location, target);
    return respond(transaction, target, rule->status, "The new URL", &location);
}
