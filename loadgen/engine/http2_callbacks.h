/* What nghttp2 reports of the frames that arrive on a connection of the raw engine. The engine's thread. */
#ifndef LOADGEN_HTTP2_CALLBACKS_H
#define LOADGEN_HTTP2_CALLBACKS_H

#include "loadgen/engine/http2_stream.h"

/*
 * Creates the callbacks for sessions whose user data is a struct http2_connection. Returns false if out of memory.
 * Release with nghttp2_session_callbacks_del().
 */
bool http2_callbacks_make(nghttp2_session_callbacks **made);

#endif
