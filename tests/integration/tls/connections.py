"""What happens to connections over TLS: timeouts, moves, upgrades."""
import os
import signal
import socket
import ssl
import subprocess
import threading

from harness import Exchange, Server, expect, expect_in, has_ended, test, until


@test
def stalled_handshakes_are_closed_at_header_timeout(bench):
    hello = bytes.fromhex("1603010200010001fc0303")  # the beginning of a ClientHello
    with bench.start(connections__header_timeout="3s", connections__keepalive_timeout="1h") as server:
        stalled = [server.raw() for _ in range(3)]
        for raw, sent in zip(stalled, (hello, b"\x16", b"")):
            raw.sendall(sent)
        for raw in stalled:
            expect(raw.recv(1), b"", "a stalled handshake")
        server.expect_metric("connections_timed_out", 3)
        stream = until(lambda: connected(server), "a handshake within the timeout")  # then keepalive_timeout counts
        raw = server.raw()
        raw.sendall(hello)
        expect(raw.recv(1), b"", "a later handshake")
        expect(Exchange(stream).get("small.txt")[0], 200, "an idle connection")


def connected(server, **more):
    """A connection whose handshake was quick enough, or None. With TLS 1.2 the server's part is the last one."""
    try:
        return server.connect(version=ssl.TLSVersion.TLSv1_2, **more)
    except OSError:  # ssl.SSLError too
        return None


@test
def garbage_instead_of_a_handshake_closes_the_connection(bench):
    with bench.start() as server:
        for garbage in (bytes(100), b"SSH-2.0-x\r\n" * 10, b"\x16\x03\x01\xff\xff" + bytes(20000)):
            raw = server.raw()
            raw.sendall(garbage)
            try:
                while raw.recv(4096) != b"":
                    pass
            except ConnectionResetError:
                pass
        expect(Exchange(server.connect()).get("small.txt")[0], 200, "the next client")


@test
def only_the_protocol_that_alpn_selected_is_spoken(bench):
    """What a client that has negotiated HTTP/2 sends is never taken for a request of HTTP/1, and the reverse."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with bench.start(connections__header_timeout="1h") as server:
        for count, sent in enumerate((b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", b"x", b"PRI * HTTP/1.1\r\n\r\n",
                                      preface[:-1] + b"x"), 1):
            stream = server.connect(alpn=["h2"])
            expect(stream.selected_alpn_protocol(), "h2", "ALPN")
            stream.sendall(sent)
            expect(stream.recv(100), b"", f"the answer to {sent}")
            server.expect_metric("http2_errors", count)
        stream = server.connect(alpn=["h2"])
        for byte in preface + bytes.fromhex("000000040000000000"):  # and SETTINGS
            stream.sendall(bytes((byte,)))
        expect(stream.recv(5)[3:4], b"\4", "the type of the first frame of the answer to a preface in pieces")
        for alpn in (None, ["http/1.1"]):
            stream = server.connect(alpn=alpn)
            stream.sendall(preface)
            expect(stream.recv(12), b"HTTP/1.1 505", f"the answer to a preface after ALPN {alpn}")
        expect(Exchange(server.connect(alpn=["http/1.1"])).get("small.txt")[0], 200, "a request of HTTP/1.1")
        expect(Exchange(server.connect()).get("small.txt")[0], 200, "a request without ALPN")
        server.expect_metric("requests", 4)
        expect(server.metric("connections_http2"), 1, "connections of HTTP/2")


@test
def half_a_preface_is_timed_out(bench):
    with bench.start(connections__header_timeout="3s") as server:
        stream = until(lambda: connected(server, alpn=["h2"]), "a handshake within the timeout")
        stream.sendall(b"PRI * HTTP")
        expect(stream.recv(100), b"", "the answer to half a preface")
        server.expect_metric("connections_timed_out", 1)


@test
def connections_move_between_threads(bench):
    with bench.start(workers__processes="1", workers__threads="4") as server:
        exchanges = [Exchange(server.connect()) for _ in range(24)]
        for exchange in exchanges:
            expect(exchange.get("page.txt")[0], 200, "before the move")
        exchanges[0].send("large.bin")  # moves while its response is blocked
        server.control("threads", "1")
        for exchange in exchanges[1:]:
            expect(exchange.get("page.txt")[2], bench.files["page.txt"], "after the move")
        expect(exchanges[0].receive()[2] == bench.files["large.bin"], True, "the response that moved")
        expect(server.metric("connections_accepted"), len(exchanges), "connections")


def kept_by_a_resize(server):
    """Ends the second of two workers. Returns how many of 24 connections stay."""
    server.control("workers", "2")
    exchanges = [Exchange(server.connect()) for _ in range(24)]
    for exchange in exchanges:
        expect(exchange.get("small.txt")[1].get("connection"), None, "Connection before")
    resize = threading.Thread(target=server.control, args=("workers", "1"))  # returns when the worker has left
    resize.start()
    stay = exchanges
    while resize.is_alive():
        exchanges, stay = stay, []
        for exchange in exchanges:
            status, fields, _ = exchange.get("small.txt")
            expect(status, 200, "a request during the resize")
            if fields.get("connection") == "close":
                expect(exchange.reader.read(1), b"", "the end")
            else:
                stay.append(exchange)
    return len(stay)


@test
def connections_of_a_leaving_worker_close_after_the_next_response(bench):
    """Tries again if the second worker got its listen socket too late for the connections."""
    with bench.start(workers__processes="2", workers__threads="1") as server:
        until(lambda: 0 < kept_by_a_resize(server) < 24, "a resize that keeps some of 24 connections")
        expect("drain" in server.output(), False, "a connection closed unasked")


@test
def connection_in_the_queue_survives_the_end_of_its_worker(bench):
    """The thread of the second one ends in a resize, and the first one keeps the other thread."""
    with bench.start(workers__processes="1", workers__threads="2", workers__model="pool",
                     tls__keys_process="off") as server:
        first, second = Exchange(server.connect()), Exchange(server.connect())
        for exchange in first, second:
            expect(exchange.get("small.txt")[0], 200, "before")
        server.control("threads", "1")
        server.control("model", "events")
        for exchange in first, second:
            status, fields, body = exchange.get("small.txt")
            expect((status, body, fields.get("connection")), (200, b"hello\n", "close"), "after")


@test
def master_dispatches_connections(bench):
    with bench.start(workers__dispatch="master") as server:
        for _ in range(10):
            expect(Exchange(server.connect()).get("page.txt")[2], bench.files["page.txt"], "over TLS")
        plain = Exchange(server.raw(server.plain_port))
        expect(plain.get("page.txt")[2], bench.files["page.txt"], "without TLS")


@test
def unix_sockets_serve_tls(bench):
    path = bench.directory / "tls.sock"
    with bench.start(server__listen=f"https://127.0.0.1:0 https://unix:{path}") as server:
        raw = socket.socket(socket.AF_UNIX)
        raw.connect(str(path))
        expect(Exchange(server.connect(socket_=raw)).get("small.txt")[2], b"hello\n", "over the UNIX socket")


@test
def upgraded_server_serves_tls_on_the_same_socket(bench):
    with bench.start() as server:
        stream = Exchange(server.connect())
        expect(stream.get("small.txt")[0], 200, "before")
        server.process.send_signal(signal.SIGUSR2)
        pid = until(lambda: new_master(server, server.process.pid), "the new master")
        until(lambda: is_last(stream), "the last response on the old connection")
        expect(server.process.wait(90), 0, "exit status of the old master")
        expect(Exchange(server.connect()).get("small.txt")[0], 200, "after")
        os.kill(pid, signal.SIGTERM)
        until(lambda: has_ended(pid), "the end of the new master")


def upgrade(server, old):
    """Upgrades the binary, whose master is OLD. Returns the pid of the new master once it serves alone."""
    os.kill(old, signal.SIGUSR2)
    pid = until(lambda: new_master(server, old), "the new master")
    if old == server.process.pid:
        expect(server.process.wait(90), 0, "exit status of the old master")
    until(lambda: has_ended(old), "the end of the old master")
    return pid


def is_last(stream):
    """Whether the next response announces the end of the connection."""
    status, fields, _ = stream.get("small.txt")
    expect(status, 200, "the old connection")
    return fields.get("connection") == "close"


def new_master(server, old):
    """The pid of the master in the pid file, if it is another one."""
    pid = int((server.directory / f"{server.name}.pid").read_text() or "0")
    return pid if pid not in (0, old) else 0


@test
def activated_socket_named_https_serves_tls(bench):
    with socket.socket() as listener, socket.socket() as plain:
        for one in (listener, plain):
            one.bind(("127.0.0.1", 0))
            one.listen()
        listener_fd, plain_fd = os.dup(listener.fileno()), os.dup(plain.fileno())
        command = bench.command(server__name=f"activated-{os.getpid()}", server__run_dir=str(bench.directory),
                                log__access="off")
        script = (f"exec 3<&{plain_fd} 4<&{listener_fd}; LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=http:https "
                  "exec \"$@\"")
        process = subprocess.Popen(["/bin/bash", "-c", script, "sh", *map(str, command)],
                                   pass_fds=(listener_fd, plain_fd), stdout=subprocess.PIPE)
        line = process.stdout.readline().decode()
        expect_in(f"https://127.0.0.1:{listener.getsockname()[1]}", line, "the address")
        fake = Server.__new__(Server)
        fake.port = listener.getsockname()[1]
        expect(Exchange(fake.connect()).get("small.txt")[0], 200, "over TLS")
        expect(Exchange(fake.raw(plain.getsockname()[1])).get("small.txt")[0], 200, "without TLS")
        process.terminate()
        expect(process.wait(90), 0, "exit status")
