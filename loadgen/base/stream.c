#include "loadgen/base/stream.h"

#include <errno.h>
#include <sys/socket.h>

/* libcurl's word on N bytes, as a system call would say it. */
static ssize_t result_of(CURLcode code, size_t n)
{
    if (code == CURLE_OK)
        return (ssize_t)n;
    errno = code == CURLE_AGAIN ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t stream_receive(const struct stream *stream, char *buffer, size_t size)
{
    size_t n = 0;
    CURLcode code;

    if (!stream->tls)
        return recv(stream->fd, buffer, size, MSG_DONTWAIT);
    code = curl_easy_recv(stream->easy, buffer, size, &n);
    return result_of(code, n);
}

ssize_t stream_send(const struct stream *stream, const char *bytes, size_t length)
{
    size_t n = 0;
    CURLcode code;

    if (!stream->tls)
        return send(stream->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    code = curl_easy_send(stream->easy, bytes, length, &n);
    return result_of(code, n);
}

bool stream_is_for_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}
