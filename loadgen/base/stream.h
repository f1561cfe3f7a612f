/*
 * Bytes over a connection that libcurl made: straight over the socket where there is no TLS, which
 * costs least, through libcurl where there is. Never waits. One thread.
 */
#ifndef LOADGEN_STREAM_H
#define LOADGEN_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <curl/curl.h>

struct stream {
    CURL *easy; /* with CURLOPT_CONNECT_ONLY */
    int fd;     /* -1: not connected */
    bool tls;
};

/* Both return the bytes moved, 0 at the end of the stream, or -1 with errno. */
ssize_t stream_receive(const struct stream *stream, char *buffer, size_t size);
ssize_t stream_send(const struct stream *stream, const char *bytes, size_t length);

/* Whether that errno only says: not now. */
bool stream_is_for_later(int error);

#endif
