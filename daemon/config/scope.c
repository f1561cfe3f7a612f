#include "daemon/config/scope.h"

#include "daemon/config/host_find.h"
#include "daemon/config/keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int config_scope_read(struct config_scope *scope, struct span argument)
{
    struct span host = SPAN("");

    if (argument.length > 0)
        config_argument_cut_host(&argument, &host);
    while (argument.length > 0 && argument.start[argument.length - 1] == '/')
        argument.length--;
    if (argument.length == 0)
        argument = SPAN("");
    *scope = (struct config_scope){strndup(host.start, host.length),
                                   strndup(argument.start, argument.length)};
    if (scope->host != NULL && scope->prefix != NULL)
        return 0;
    config_scope_free(scope);
    return -1;
}

void config_scope_free(struct config_scope *scope)
{
    free(scope->host);
    free(scope->prefix);
    *scope = (struct config_scope){NULL, NULL};
}

bool config_scopes_equal(const struct config_scope *scope, const struct config_scope *other)
{
    return strcasecmp(scope->host, other->host) == 0 && strcmp(scope->prefix, other->prefix) == 0;
}

bool config_scope_is_of(const struct config_scope *scope, const struct config_host *host)
{
    return scope->host[0] == '\0' || (host != NULL && strcasecmp(scope->host, host->names[0]) == 0);
}

bool config_scope_covers(const struct config_scope *scope, const char *path)
{
    size_t length = strlen(scope->prefix);

    return strncmp(path, scope->prefix, length) == 0 &&
           (path[length] == '/' || path[length] == '\0');
}

int config_scope_rank(const void *one, const void *other)
{
    const struct config_scope *a = *(const struct config_scope *const *)one;
    const struct config_scope *b = *(const struct config_scope *const *)other;
    size_t a_length = strlen(a->prefix), b_length = strlen(b->prefix);

    if ((a->host[0] == '\0') != (b->host[0] == '\0'))
        return a->host[0] == '\0' ? 1 : -1;
    return (a_length < b_length) - (a_length > b_length);
}

void config_scope_print(const struct config_scope *scope, const char *section, FILE *out)
{
    fprintf(out, "\n[%s%s%s%s%s]\n", section, scope->host[0] != '\0' ? " host " : "", scope->host,
            scope->prefix[0] != '\0' ? " " : "", scope->prefix);
}
