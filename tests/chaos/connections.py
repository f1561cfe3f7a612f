"""Connections of the counting clients: HTTP/1.1 and HTTP/2, each with and without TLS. They never retry."""

import functools
import socket
import ssl
import struct

from processes import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
LARGEST_WINDOW = 2 ** 31 - 1
STATUS_200 = 0x88  # the first byte of a header block: entry 8 of the static table


class Broken(Exception):
    """A missing or incomplete answer."""


class Refused(Exception):
    """The server has said that it did not process the request: a GOAWAY with a lower stream."""


@functools.cache
def context_for(alpn):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    return context


def connect(address, alpn):
    """A socket. ALPN: the protocol to negotiate over TLS, or None for a connection without TLS."""
    stream = socket.create_connection(address, timeout=PATIENCE_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if alpn is None:
        return stream
    return context_for(alpn).wrap_socket(stream, server_hostname="localhost")


class Http1:
    def __init__(self, address, tls):
        self.socket = connect(address, "http/1.1" if tls else None)
        self.read = self.socket.makefile("rb")

    def get(self, target):
        """Returns status, body, and whether the connection stays open."""
        try:
            self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: chaos\r\n\r\n".encode())
            status = self.read.readline()
            if not status.startswith(b"HTTP/1.1 "):
                raise Broken(f"no status line: {status!r}")
            fields = {}
            while (line := self.read.readline()) != b"\r\n":
                if not line:
                    raise Broken("connection closed within the head")
                name, _, value = line.partition(b":")
                fields[name.lower()] = value.strip()
            length = int(fields[b"content-length"])
            body = self.read.read(length)
            if len(body) < length:
                raise Broken(f"{len(body)} of {length} bytes")
        except (OSError, KeyError) as error:
            raise Broken(repr(error)) from error
        return int(status.split()[1]), body, fields.get(b"connection") != b"close"

    def close(self):
        self.read.close()
        self.socket.close()


class Http2:
    """One stream at a time."""

    def __init__(self, address, tls):
        self.socket = connect(address, "h2" if tls else None)
        self.read = self.socket.makefile("rb")
        self.stream, self.last = -1, LARGEST_WINDOW
        self.going = False  # the server has announced the end
        window = struct.pack("!HI", 4, LARGEST_WINDOW)  # SETTINGS_INITIAL_WINDOW_SIZE
        self.socket.sendall(PREFACE + self.frame(SETTINGS, 0, 0, window))

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload

    def receive(self):
        head = self.read.read(9)
        if len(head) < 9:
            raise Broken("connection closed before the answer")
        length = int.from_bytes(head[:3], "big")
        payload = self.read.read(length)
        if len(payload) < length:
            raise Broken("connection closed within a frame")
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload

    def answer(self):
        """Receives the response to the last request, and responds to other frames meanwhile."""
        status, body = None, b""
        while True:
            kind, flags, stream, payload = self.receive()
            if kind == HEADERS and stream == self.stream:
                status = 200 if payload[0] == STATUS_200 else payload[:1].hex()
            elif kind == DATA and stream == self.stream:
                body += payload
                if payload:
                    self.socket.sendall(self.frame(WINDOW_UPDATE, 0, 0, struct.pack("!I", len(payload))))
            elif kind == RST_STREAM and stream == self.stream:
                raise Broken(f"stream reset with {payload.hex()} after {len(body)} bytes")
            elif kind == GOAWAY:
                self.last, self.going = int.from_bytes(payload[:4], "big"), True
                if payload[4:8] != bytes(4):
                    raise Broken(f"GOAWAY {payload!r}")
                if self.last < self.stream:
                    raise Refused
            elif kind in (SETTINGS, PING) and not flags & ACK:
                self.socket.sendall(self.frame(kind, ACK, 0, payload if kind == PING else b""))
            if kind in (HEADERS, DATA) and stream == self.stream and flags & END_STREAM:
                return status, body, not self.going

    def get(self, target):
        """As Http1.get()."""
        self.stream = self.stream + 2
        path = target.encode()
        block = b"\x82\x86\x04" + bytes((len(path),)) + path + b"\x01\x05chaos"
        try:
            self.socket.sendall(self.frame(HEADERS, END_HEADERS | END_STREAM, self.stream, block))
            return self.answer()
        except OSError as error:
            raise Broken(repr(error)) from error

    def close(self):
        self.read.close()
        self.socket.close()


KINDS = ((Http1, False), (Http1, False), (Http1, True), (Http2, False), (Http2, True))
