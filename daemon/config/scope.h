/*
 * The scope of a section with a path, as in [access /prefix] and [access host NAME /prefix]. Of several
 * sections that match a path, the one with the longest prefix applies; those of a host come before those for
 * all hosts. Pure; any thread.
 */
#ifndef DAEMON_CONFIG_SCOPE_H
#define DAEMON_CONFIG_SCOPE_H

#include "common/span.h"
#include "daemon/config/config.h"

#include <stdio.h>

/* The scope of a section with ARGUMENT, as in the file. Returns 0, or -1: out of memory. */
int config_scope_read(struct config_scope *scope, struct span argument);
void config_scope_free(struct config_scope *scope);

bool config_scopes_equal(const struct config_scope *scope, const struct config_scope *other);

/* True if the section is for requests to HOST (NULL: those to no [host]). */
bool config_scope_is_of(const struct config_scope *scope, const struct config_host *host);

/* True if PATH, which is canonical, is the prefix or below it. */
bool config_scope_covers(const struct config_scope *scope, const char *path);

/* Order for qsort(3) of pointers to structs that begin with a scope: the first that covers applies. */
int config_scope_rank(const void *one, const void *other);

/* Prints the line of SECTION with this scope. */
void config_scope_print(const struct config_scope *scope, const char *section, FILE *out);

#endif
