#include "daemon/connection/preliminary.h"

void preliminary_on_ready(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;

    (void)fd, (void)what;
    loop_enter(connection->loop);
    connection->protocol->resume(connection);
}

void preliminary_serve(struct connection *connection, const char *data, size_t length)
{
    (void)connection, (void)data, (void)length;
}

bool preliminary_is_between_requests(const struct connection *connection)
{
    (void)connection;
    return true;
}

void preliminary_moved(struct connection *connection, bool leaving)
{
    (void)connection, (void)leaving;
}

void preliminary_free(struct connection *connection, struct cache *cache)
{
    (void)connection, (void)cache;
}

void preliminary_nothing(struct connection *connection)
{
    (void)connection;
}
