"""One request on a connection of its own, without the start of a program: HTTP/1.1 by hand, HTTP/2 with libnghttp2.

Both reject what curl would reject, too: nghttp2 checks the rules of HTTP/2, and curl uses the same library.
"""
import ctypes
import socket

TIMEOUT_S = 90
HTTP1, HTTP2 = "1.1", "2"
VERSIONS = (HTTP1, HTTP2)


class Response:
    """Status, fields in lower case, body."""

    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.fields[name.lower()] = value.strip()
        self.body = body

    def __getitem__(self, name):
        return self.fields.get(name)


def read_head(reader):
    """The lines up to the empty one, without it."""
    head = b""
    while (line := reader.readline()) != b"\r\n":
        if not line.endswith(b"\r\n"):
            raise AssertionError(f"the response ends in its head: {head + line!r}")
        head += line
    if not head.startswith(b"HTTP/1.1 ") or any(b":" not in line for line in head.splitlines()[1:]):
        raise AssertionError(f"not the head of a response: {head!r}")
    return head[:-2]


def read_exactly(reader, size):
    data = reader.read(size)
    if len(data) != size:
        raise AssertionError(f"{len(data)} bytes of a body of {size}")
    return data


def exchange_http1(stream, method, target, host, lines):
    text = "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept: */*", *lines))
    stream.sendall(f"{text}\r\n".encode())
    with stream.makefile("rb") as reader:
        response = Response(read_head(reader), b"")
        if response["transfer-encoding"] is not None:
            raise AssertionError("no test expects a coding of the transfer")
        if method != "HEAD" and response.status != 304:
            response.body = read_exactly(reader, int(response["content-length"]))
    return response


# HTTP/2

nghttp2 = ctypes.CDLL("libnghttp2.so.14")
pointer, size_t, anything = ctypes.c_void_p, ctypes.c_size_t, ctypes.py_object
nghttp2.nghttp2_session_mem_send.restype = nghttp2.nghttp2_session_mem_recv.restype = ctypes.c_ssize_t
nghttp2.nghttp2_strerror.restype = ctypes.c_char_p
OnHeader = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, size_t, pointer, size_t, ctypes.c_uint8, anything)
OnData = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_uint8, ctypes.c_int32, pointer, size_t, anything)
OnClose = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_int32, ctypes.c_uint32, anything)


class Field(ctypes.Structure):
    """nghttp2_nv"""
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("name_size", size_t), ("value_size", size_t),
                ("flags", ctypes.c_uint8)]


class Stream:
    """The response so far. ERROR: the code at the end of the stream."""

    def __init__(self):
        self.fields, self.body, self.error = [], b"", None


@OnHeader
def add_field(_, _frame, name, name_size, value, value_size, _flags, stream):
    stream.fields.append((ctypes.string_at(name, name_size), ctypes.string_at(value, value_size)))
    return 0


@OnData
def add_data(_, _flags, _id, data, size, stream):
    stream.body += ctypes.string_at(data, size)
    return 0


@OnClose
def end_stream(_, _id, error, stream):
    stream.error = error
    return 0


def make_callbacks():
    callbacks = pointer()
    nghttp2.nghttp2_session_callbacks_new(ctypes.byref(callbacks))
    nghttp2.nghttp2_session_callbacks_set_on_header_callback(callbacks, add_field)
    nghttp2.nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, add_data)
    nghttp2.nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, end_stream)
    return callbacks


CALLBACKS = make_callbacks()


def check(result, what):
    if result < 0:
        raise AssertionError(f"{what}: {nghttp2.nghttp2_strerror(ctypes.c_int(result)).decode()}")
    return result


def send_pending(session, connection):
    data = pointer()
    while (size := check(nghttp2.nghttp2_session_mem_send(session, ctypes.byref(data)), "sending HTTP/2")) > 0:
        connection.sendall(ctypes.string_at(data, size))


def run_stream(session, connection, fields, stream):
    """Sends the request FIELDS, and receives up to the end of the response."""
    values = (Field * len(fields))(*(Field(name.encode(), value.encode(), len(name.encode()), len(value.encode()), 0)
                                     for name, value in fields))
    check(nghttp2.nghttp2_submit_settings(session, 0, None, size_t(0)), "SETTINGS")
    check(nghttp2.nghttp2_submit_request(session, None, values, size_t(len(fields)), None, None), "HEADERS")
    while stream.error is None:
        send_pending(session, connection)
        data = connection.recv(1 << 16)
        if data == b"":
            raise AssertionError(f"the connection ends before the response: {stream.fields}")
        check(nghttp2.nghttp2_session_mem_recv(session, data, size_t(len(data))), "receiving HTTP/2")
    check(nghttp2.nghttp2_session_terminate_session(session, 0), "GOAWAY")
    send_pending(session, connection)


def exchange_http2(connection, method, target, host, lines):
    fields = [(":method", method), (":scheme", "http"), (":authority", host), (":path", target), ("accept", "*/*")]
    for line in lines:
        name, _, value = line.partition(":")
        fields.append((name.lower(), value.strip()))
    session, stream = pointer(), Stream()
    check(nghttp2.nghttp2_session_client_new(ctypes.byref(session), CALLBACKS, anything(stream)), "a session of HTTP/2")
    try:
        run_stream(session, connection, fields, stream)
    finally:
        nghttp2.nghttp2_session_del(session)
    if stream.error != 0 or stream.fields[:1] == [] or stream.fields[0][0] != b":status":
        raise AssertionError(f"a stream with error {stream.error} and {stream.fields}")
    head = [b"HTTP/2 " + stream.fields[0][1], *(name + b": " + value for name, value in stream.fields[1:])]
    return Response(b"\r\n".join(head), stream.body)


def exchange(address, source, version, *request):
    """REQUEST: method, target, host, and lines of fields. The response to it; the connection is then closed."""
    with socket.create_connection(address, TIMEOUT_S, (source, 0)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return (exchange_http1 if version == HTTP1 else exchange_http2)(connection, *request)
