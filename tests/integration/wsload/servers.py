"""Servers and proxies for wsload that record what arrives."""
import base64
import contextlib
import hashlib
import http
import os
import random
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import threading
import time

PATIENCE_S = 60
PATIENT = ("--connect-timeout", f"{PATIENCE_S}s")  # for wsload: its server may be stopped for seconds
NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
OPENSSL = shutil.which("openssl")


def wait_for(condition, what):
    """Waits until CONDITION() is true, with a long limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {what} in vain")
        time.sleep(0.01)


def free_ports(count):
    """Ports that no other program gets by chance: below those that the kernel gives to connections."""
    ports = set()
    while len(ports) < count:
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)


def make_certificate(directory, name, alternatives):
    """Files of a self-signed certificate and its key. A key for ECDSA takes less CPU time than one for RSA."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run([OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}",
                    "-keyout", key, "-out", certificate],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return certificate, key


# --- nginx: TLS, HTTP/2, compression, ranges ---

FIELDS = ("port", "method", "uri", "version", "tls", "client", "range", "encoding", "status", "bytes",
          "connection", "resumed", "length")

CONFIGURATION = """
daemon off; master_process off; pid nginx.pid; error_log error.log; worker_rlimit_nofile 4096;
events {{ worker_connections 1024; }}
http {{
  log_format fields '$server_port|$request_method|$request_uri|$server_protocol|$ssl_protocol|'
                    '$ssl_client_verify|$http_range|$http_accept_encoding|$status|$body_bytes_sent|'
                    '$connection|$ssl_session_reused|$content_length';
  access_log access.log fields;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp;
  scgi_temp_path temp;
  keepalive_requests 1000000; root site; default_type text/plain;
  gzip on; gzip_types text/plain; gzip_min_length 100;
  ssl_certificate server.pem; ssl_certificate_key server.key; ssl_protocols TLSv1.2 TLSv1.3;
  server {{ listen 127.0.0.1:{plain}; }}
  server {{ listen 127.0.0.1:{h2c} http2; }}
  server {{ listen 127.0.0.1:{tls} ssl; }}
  server {{ listen 127.0.0.1:{h2} ssl http2; location /slow {{ limit_rate 10000; }}
    location /ignored {{ client_max_body_size 0; return 200 "ignored"; }}
    location /body/ {{ proxy_pass http://127.0.0.1:{plain}/; }} }}
  server {{ listen 127.0.0.1:{few} ssl http2; keepalive_requests 20; }}
  server {{ listen 127.0.0.1:{client} ssl; ssl_verify_client on; ssl_client_certificate client.pem; }}
}}
"""


class Nginx:
    """One nginx with a port per protocol: self.port["tls"] and so on."""

    def __init__(self, directory):
        names = ("plain", "h2c", "tls", "h2", "few", "client")
        self.directory = directory
        self.port = dict(zip(names, free_ports(len(names))))
        (directory / "site").mkdir()
        (directory / "temp").mkdir()
        (directory / "site" / "hello").write_text("hello")
        (directory / "site" / "slow").write_text("x" * 20000)
        (directory / "site" / "large").write_bytes(bytes(5000000))
        (directory / "site" / "long").write_text("many words " * 2000)
        make_certificate(directory, "server", "IP:127.0.0.1,DNS:localhost")
        make_certificate(directory, "client", "DNS:client")
        (directory / "nginx.conf").write_text(CONFIGURATION.format(**self.port))
        self.process = subprocess.Popen([NGINX, "-p", directory, "-c", "nginx.conf"],
                                        stderr=subprocess.DEVNULL)
        wait_for(self.answers, "nginx")

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port["client"])) == 0

    def arrived(self, port, count=0):
        """The requests to the named port since the last call. Waits for at least COUNT."""
        log = self.directory / "access.log"

        def lines():
            rows = [dict(zip(FIELDS, line.split("|"))) for line in log.read_text().splitlines()]
            return [row for row in rows if row["port"] == str(self.port[port])]

        wait_for(lambda: len(lines()) >= count, f"{count} lines in the log")
        found = lines()
        with log.open("r+") as file:
            file.truncate(0)
        return found

    def stop(self):
        self.process.terminate()
        self.process.wait()


class InThread:
    """A server in its own thread, from begin() to stop()."""

    def begin(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()


# --- HTTP servers ---

class HttpServer(InThread, socketserver.ThreadingTCPServer):
    """Base class of servers with answer(). http.server would take several times the CPU time for a request."""
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self):
            with contextlib.suppress(ConnectionError):
                while self.handle_request():
                    pass

        def handle_request(self):
            """Returns whether another request may follow: not after one that is malformed or incomplete."""
            words = self.rfile.readline().decode("latin-1").split(" ")
            if len(words) != 3 or words[2] not in ("HTTP/1.0\r\n", "HTTP/1.1\r\n"):
                return False
            fields = {}
            while (line := self.rfile.readline().decode("latin-1")) != "\r\n":
                name, colon, value = line.partition(":")
                if not colon or not line.endswith("\r\n"):
                    return False
                fields[name.lower()] = value.strip()
            if fields.get("expect") == "100-continue":
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = self.rfile.read(int(fields.get("content-length", 0)))
            status, answer, more = self.server.answer(words[0], words[1], fields, body)
            lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}", f"Content-Length: {len(answer)}", *more, "", ""]
            self.wfile.write("\r\n".join(lines).encode() + (b"" if words[0] == "HEAD" else answer))
            return words[2] == "HTTP/1.1\r\n" and "close" not in fields.get("connection", "").lower()

    allow_reuse_address = True

    def process_request(self, *arguments):
        self.accepted += 1
        super().process_request(*arguments)

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), self.Handler)
        self.seen, self.accepted = [], 0
        self.port = self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.begin()

    def answer(self, method, path, fields, body):
        """Returns status, body and further header lines. The names of FIELDS are in lower case."""
        raise NotImplementedError


class Fixed(InThread, socketserver.ThreadingTCPServer):
    """Answers each request, which has no body, with the same bytes, whatever they are."""
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            with contextlib.suppress(ConnectionError):
                while line := self.rfile.readline():
                    if line == b"\r\n":
                        self.wfile.write(self.server.answer)

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.answer = answer
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        self.begin()


class Recorder(HttpServer):
    """Answers every request with "hello". .seen has (method, path, length and SHA-256 of the body, time)."""

    def answer(self, method, path, _fields, body):
        now = time.monotonic()
        self.seen.append((method, path, len(body), hashlib.sha256(body).hexdigest(), now))
        return 200, b"hello", ()


# --- HTTP/2 ---

HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 1, 3, 4, 6, 7
REFUSED_STREAM = 7


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Http2Server(InThread, socketserver.ThreadingTCPServer):
    """HTTP/2 over TLS (RFC 9113) that ends streams as told.

    DECIDE(number), for each request of a connection, counted from 0, returns what becomes of it: None (it is
    answered with status 200), the code of RST_STREAM, or "goaway": it and all later ones are not processed.
    """
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError), self.server.context.wrap_socket(self.request, server_side=True) as peer:
                self.serve(peer, peer.makefile("rb"))

        def serve(self, peer, frames):
            frames.read(24)  # the preface
            limit = self.server.streams
            peer.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 3, limit) if limit else b""))
            number, last, away = 0, 0, False
            while head := frames.read(9):
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = frames.read(int.from_bytes(head[:3], "big"))
                if kind in (SETTINGS, PING) and not flags & 1:
                    peer.sendall(frame(kind, 1, 0, payload if kind == PING else b""))
                if kind != HEADERS or away:
                    continue
                decision = self.server.decide(number)
                number += 1
                if decision == "goaway":
                    away = True
                    peer.sendall(frame(GOAWAY, 0, 0, struct.pack(">II", last, 0)))
                elif decision is not None:
                    peer.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", decision)))
                else:
                    self.server.count_answer()
                    peer.sendall(frame(HEADERS, 5, stream, b"\x88"))  # END_STREAM, END_HEADERS; :status 200
                    last = stream

    def __init__(self, directory, decide, streams=None):
        """STREAMS: SETTINGS_MAX_CONCURRENT_STREAMS; None: no limit."""
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*make_certificate(directory, "http2", "IP:127.0.0.1"))
        self.context.set_alpn_protocols(["h2"])
        self.decide, self.answered, self.lock, self.streams = decide, 0, threading.Lock(), streams
        self.url = f"https://127.0.0.1:{self.server_address[1]}/"
        self.begin()

    def count_answer(self):
        with self.lock:
            self.answered += 1


# --- Proxies ---

def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def join(one, other):
    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join()
    other.close()


class Proxy(InThread, socketserver.ThreadingTCPServer):
    """Base class of the proxies. .seen has one line per request."""
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.seen = []
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.begin()


class HttpProxy(Proxy):
    """Forwards requests in absolute form and opens tunnels; rejects the host "forbidden"."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            while line := self.rfile.readline().decode():
                fields = []
                while (field := self.rfile.readline().decode()) not in ("\r\n", ""):
                    fields.append(field)
                self.server.seen.append((line.split()[0], line.split()[1], fields))
                if not self.answer(line.split(), fields):
                    return

        def answer(self, words, fields):
            if "forbidden" in words[1]:
                self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n"
                                 b"Connection: close\r\n\r\n")
                return False
            if words[0] == "CONNECT":
                host, port = words[1].rsplit(":", 1)
                upstream = socket.create_connection((host, int(port)))
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                join(self.connection, upstream)
                return False
            host, path = words[1].removeprefix("http://").split("/", 1)
            kept = [field for field in fields if not field.lower().startswith("proxy-")]
            answer = b""
            with socket.create_connection(host.split(":")) as upstream:
                upstream.sendall(f"{words[0]} /{path} HTTP/1.0\r\n{''.join(kept)}\r\n".encode())
                while data := upstream.recv(65536):
                    answer += data
            body = answer.split(b"\r\n\r\n", 1)[1]
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return True


class SocksProxy(Proxy):
    """SOCKS version 5 (RFC 1928) without authentication, by address or name."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.rfile.read(self.rfile.read(2)[1])
            self.wfile.write(b"\x05\x00")
            kind = self.rfile.read(4)[3]
            if kind == 1:
                host = socket.inet_ntoa(self.rfile.read(4))
            else:
                host = self.rfile.read(self.rfile.read(1)[0]).decode()
            port = int.from_bytes(self.rfile.read(2), "big")
            self.server.seen.append(f"{host}:{port}")
            upstream = socket.create_connection((host, port))
            self.wfile.write(b"\x05\x00\x00\x01" + bytes(6))
            join(self.connection, upstream)


def basic(name_and_password):
    return "Basic " + base64.b64encode(name_and_password.encode()).decode()
