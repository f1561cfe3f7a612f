#include "daemon/master/returned.h"

#include "daemon/base/network.h"
#include "daemon/config/value.h"

#include <string.h>
#include <sys/socket.h>

/* The value of a socket option; -1 if FD is not a socket. */
static int option(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

static bool is_stream(int fd)
{
    int domain = option(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX) &&
           option(fd, SO_TYPE) == SOCK_STREAM && option(fd, SO_ACCEPTCONN) == 0;
}

const char *returned_fault(int fd, const struct message_connection *message,
                           const struct config_networks *trusted, bool *open)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    uint8_t actual[CLIENT_ADDRESS_BYTES];

    *open = false;
    if (!is_stream(fd))
        return "returned a descriptor that is not a connection";
    if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0)
        return NULL; /* the client has reset it */
    network_socket_address(&peer, actual);
    *open = memcmp(actual, message->address, sizeof(actual)) == 0 ||
            (message->proxied != 0 && config_networks_contain(trusted, actual));
    return *open || message->proxied != 0 ? NULL : "returned a connection with a wrong address";
}
