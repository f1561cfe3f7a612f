/*
 * A server into which failing_memory.c is preloaded. Not with a sanitizer, whose allocator it would
 * replace.
 */
#ifndef TESTS_FAILING_SERVER_H
#define TESTS_FAILING_SERVER_H

#include "failing_places.h"
#include "server.h"

/*
 * Starts SERVER with OPTIONS. The first AFTER allocations of each process succeed; until the test asks for
 * failures in the returned memory, so do the others. Free it with failing_server_end() after the stop.
 */
struct failing_places *failing_server_start(struct server *server, unsigned after,
                                            const char *const *options);
void failing_server_end(struct failing_places *places);

#endif
