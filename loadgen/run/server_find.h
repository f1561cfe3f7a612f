/* Which webserverd of this machine is loaded. Main thread. */
#ifndef LOADGEN_SERVER_FIND_H
#define LOADGEN_SERVER_FIND_H

#include "common/segment_reader.h"

#include "loadgen/plan/work.h"

/* Attaches READER to the server that listens where all requests of WORK go. False: there is none. */
bool server_find(const struct request_plan *request_plan, struct segment_reader *reader);

#endif
