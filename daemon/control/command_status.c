#include "common/server_status.h"
#include "daemon/control/command.h"

struct command_result command_status(const struct call *call)
{
    return command_reply(server_status(&call->master->server.segment));
}
