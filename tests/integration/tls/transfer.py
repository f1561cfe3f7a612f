"""Requests and responses of all sizes over TLS."""
import hashlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import threading

import x509
from harness import PATIENCE_S, Exchange, client_context, expect, expect_in, has_ended, run, serving_pids, test, until


@test
def files_of_all_sizes_arrive_unchanged(bench):
    with bench.start() as server:
        exchange = Exchange(server.connect())
        for _ in range(3):
            for name, content in bench.files.items():
                status, _, body = exchange.get(name)
                expect((status, body == content), (200, True), name)
        status, fields, body = exchange.get("large.bin", Range="bytes=100000-2200000")
        expect((status, body == bench.files["large.bin"][100000:2200001]), (206, True), "a range")
        exchange.send("memory.bin", method="HEAD")
        status, fields, _ = exchange.receive(head_only=True)
        expect((status, fields["content-length"]), (200, "30000"), "HEAD")
        expect(exchange.get("nothing")[0], 404, "a missing file")
        status, fields, body = exchange.get("memory.bin", Range="bytes=0-9,20000-20009")
        expect(bench.files["memory.bin"][20000:20010] in body, True, "two ranges")
        expect(server.metric("connections_accepted"), 1, "connections")


@test
def curl_verifies_the_certificate(bench):
    with bench.start() as server:
        for version in ("--tls-max 1.2", "--tlsv1.3"):
            got = run("curl", "-sS", "--http1.1", "--cacert", bench.path("ec.pem"), *version.split(),
                      "--resolve", f"localhost:{server.port}:127.0.0.1", f"https://localhost:{server.port}/small.txt")
            expect(got, "hello\n", f"curl {version}")


@test
def pipelined_requests_in_one_record_are_answered_in_order(bench):
    """A hundred heads are more than one read, and many are in one record."""
    with bench.start() as server:
        stream = server.connect()
        exchange = Exchange(stream)
        names = list(bench.files)[:3] * 60
        stream.sendall(b"".join(f"GET /{name} HTTP/1.1\r\nHost: localhost\r\nX-Padding: {'x' * 700}\r\n\r\n".encode()
                                for name in names))
        for name in names:
            status, _, body = exchange.receive()
            expect((status, body == bench.files[name]), (200, True), name)


@test
def bodies_larger_than_a_read_are_discarded(bench):
    """What OpenSSL has buffered raises no event: nothing may wait for one."""
    with bench.start() as server:
        exchange = Exchange(server.connect())
        for length in (100, 16384, 65536, 70000, 300000, 1048576):
            exchange.stream.sendall(f"POST /small.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
                                    .encode() + bytes(length) + b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
            expect(exchange.receive()[0], 405, f"a body of {length}")
            expect(exchange.receive()[2], bench.files["page.txt"], f"the request after a body of {length}")
        exchange.send("small.txt", method="POST", Content_Length=5, Expect="100-continue")
        expect(exchange.receive()[0], 405, "Expect: 100-continue")


@test
def clients_that_take_small_fragments_get_all_bytes(bench):
    """max_fragment_length (RFC 6066): each write becomes many records."""
    with bench.start() as server:
        for version in ("-tls1_2", "-tls1_3"):
            for name in ("memory.bin", "large.bin"):
                request = f"GET /{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                got = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", version, "-quiet",
                                      "-maxfraglen", "512"], input=request, timeout=PATIENCE_S, capture_output=True,
                                     check=False).stdout
                expect(got.partition(b"\r\n\r\n")[2] == bench.files[name], True, f"{name} with {version}")


def send_while_stopped(server, send):
    """Calls SEND while the worker is stopped, so that the worker finds all of it at once, if the socket takes it."""
    worker = server.status()["workers"]["list"][0]["pid"]
    thread = threading.Thread(target=send)
    os.kill(worker, signal.SIGSTOP)
    thread.start()
    thread.join(2)
    os.kill(worker, signal.SIGCONT)
    thread.join()


@test
def records_that_fit_no_buffer_are_read_without_another_event(bench):
    """The rest of a head is longer than the buffer for it; OpenSSL holds what is behind it."""
    with bench.start(workers__processes="1", workers__threads="1") as server:
        exchange = Exchange(server.connect())
        stream = exchange.stream
        stream.sendall(b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\n")
        send_while_stopped(server, lambda: stream.sendall(
            b"".join(b"X-%d: %s\r\n" % (i, b"x" * 280) for i in range(50)) + b"\r\n"))
        expect(exchange.receive()[2], bench.files["page.txt"], "a head of 15,000 bytes")


@test
def heads_cut_into_records_of_one_byte_are_parsed(bench):
    with bench.start() as server:
        stream = server.connect()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /page.txt HTTP/1.1\r\nHost: localhost\r\n\r\n":
            stream.sendall(bytes([byte]))
        expect(Exchange(stream).receive()[2], bench.files["page.txt"], "the body")


@test
def clients_that_read_late_get_the_same_bytes(bench):
    """Blocked writes are repeated: heads with bodies in memory, files, and parts."""
    with bench.start(server__listen="127.0.0.1:0 https://127.0.0.1:0", connections__min_send_rate="0") as server:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", server.port))
        raw.settimeout(PATIENCE_S)
        exchange = Exchange(server.connect(socket_=raw))
        names = ["memory.bin"] * 120 + ["large.bin", "page.txt", "large.bin"]
        for name in names:
            exchange.send(name)
        exchange.send("large.bin", Range="bytes=0-999999,2000000-2999999")
        server.expect_metric("connections_busy", 1)  # it is blocked
        for name in names:
            status, _, body = exchange.receive()
            expect((status, body == bench.files[name]), (200, True), name)
        body = exchange.receive()[2]
        expect(bench.files["large.bin"][2000000:3000000] in body, True, "the second part")
        expect(bench.files["large.bin"][:1000000] in body, True, "the first part")


@test
def last_response_ends_with_close_notify(bench):
    with bench.start() as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for name in ("small.txt", "large.bin"):
                exchange = Exchange(server.connect(version=version))
                status, fields, body = exchange.get(name, Connection="close")
                expect((status, fields["connection"], body == bench.files[name]), (200, "close", True), name)
                expect(exchange.reader.read(1), b"", "the end")  # without close_notify Python raises SSLEOFError


@test
def clients_close_notify_is_answered_by_a_close(bench):
    with bench.start() as server:
        stream = server.connect()
        expect(Exchange(stream).get("small.txt")[0], 200, "a request")
        stream.unwrap()  # sends close_notify and waits for the server's
        server.expect_metric("connections_open", 0)


@test
def request_with_close_notify_behind_it_is_answered(bench):
    """Both records arrive at once, so that no further event reports the end."""
    with bench.start() as server:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        tls = context.wrap_bio(incoming, outgoing)
        raw = server.raw()

        def step(function):
            while True:
                try:
                    return function()
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))

        step(tls.do_handshake)
        tls.write(b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        raw.sendall(outgoing.read())
        server.expect_metric("requests", 1)
        server.expect_metric("connections_open", 0)


class SlowHandshake:
    """One that has sent the beginning of its ClientHello."""

    def __init__(self, server):
        self.raw, self.incoming, self.outgoing = server.raw(), ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context(None, None, None).wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            hello = self.outgoing.read()
        self.raw.sendall(hello[:20])
        self.outgoing.write(hello[20:])

    def step(self, function):
        while True:
            try:
                return function()
            except ssl.SSLWantReadError:
                self.raw.sendall(self.outgoing.read())
                self.incoming.write(self.raw.recv(65536))

    def finish(self):
        """Returns the common name of the certificate, and the status of a response."""
        self.step(self.tls.do_handshake)
        self.tls.write(b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.raw.sendall(self.outgoing.read())
        return x509.parse(self.tls.getpeercert(True)).subject, self.step(lambda: self.tls.read(1000)).split()[1]


class Download:
    """One by curl, which receives only what the test reads."""

    def __init__(self, bench, url, *words):
        self.process = subprocess.Popen(["curl", "-sS", "--cacert", bench.path("ec.pem"), *words, url],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.hash = hashlib.sha256()
        self.read(1 << 20)

    def read(self, most=-1):
        self.hash.update(self.process.stdout.read(most))

    def finish(self):
        self.read()
        return self.process.wait(PATIENCE_S), self.process.stderr.read().decode(), self.hash.hexdigest()


def after_ticks(server, slots):
    """Waits until the timers of the workers in SLOTS have run, at which a worker closes connections that are too old."""
    def uptimes():
        return {worker["slot"]: worker["uptime_s"] for worker in server.status()["workers"]["list"]}
    before = uptimes()
    until(lambda: all(uptimes().get(slot, 2 ** 31) >= before[slot] + 2 for slot in slots), "two seconds of the old workers")


class SlowStream:
    """A response over HTTP/2 without TLS, of which the client reads what the test wants, through a small buffer."""
    DATA, SETTINGS, PING, WINDOW_UPDATE, END_STREAM, ACK = 0, 4, 6, 8, 1, 1

    def __init__(self, server, name):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(("127.0.0.1", server.plain_port))
        self.reader, self.received, self.ended = self.socket.makefile("rb"), 0, False
        path = b"/" + name.encode()
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.send(self.SETTINGS, 0, struct.pack("!HI", 4, 2 ** 31 - 1))
        self.send(self.WINDOW_UPDATE, 0, struct.pack("!I", 2 ** 30))
        self.send(1, 1, b"\x82\x86\x41\x01x\x04" + bytes([len(path)]) + path, flags=5)

    def send(self, kind, stream, payload, flags=0):
        self.socket.sendall(struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload)

    def read_frame(self):
        head = self.reader.read(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        payload = self.reader.read(length)
        if kind == self.DATA:
            self.received += length
            self.ended = flags & self.END_STREAM != 0
        elif kind == self.PING and not flags & self.ACK:
            self.send(self.PING, 0, payload, self.ACK)


@test
def end_of_a_response_over_http2_reaches_a_slow_client(bench):
    """Its WINDOW_UPDATE after the last byte has been sent, at which the worker ends, resets nothing."""
    size = len(bench.files["large.bin"])
    with bench.start(workers__processes=1) as server:
        old = serving_pids(server, 1)[0]
        stream = SlowStream(server, "large.bin")
        while stream.received == 0:
            stream.read_frame()
        server.control("reload")
        while size - stream.received > 200000:
            stream.read_frame()
        uptime = {worker["pid"]: worker["uptime_s"] for worker in server.status()["workers"]["list"]}[old]
        until(lambda: has_ended(old) or any(worker["pid"] == old and worker["uptime_s"] >= uptime + 6
                                            for worker in server.status()["workers"]["list"]), "some seconds")
        stream.send(stream.WINDOW_UPDATE, 0, struct.pack("!I", 1000))
        while not stream.ended:
            stream.read_frame()
        expect(stream.received, size, "bytes")
        stream.reader.close()
        stream.socket.close()
        until(lambda: has_ended(old), "end of the old worker")


@test
def idle_connections_of_old_generations_get_a_last_response(bench):
    """Within drain_timeout, also if there are so many older generations that the oldest must end."""
    reloads = 10
    with bench.start(workers__processes=1, workers__max_processes=reloads + 2, workers__drain_timeout="1h",
                     connections__send_timeout="1h", connections__header_timeout="1h") as server:
        idle, handshake = Exchange(server.connect()), SlowHandshake(server)
        expect(idle.get("small.txt")[0], 200, "a response")
        oldest = [worker["slot"] for worker in server.status()["workers"]["list"]]
        downloads = []
        for _ in range(reloads):
            downloads.append(Exchange(server.connect()))
            downloads[-1].send("large.bin")
            downloads[-1].reader.read(1)
            server.control("reload")
        server.expect_metric("generations_old", reloads)
        expect_in(f"old gen. {reloads}", server.control("status"), "wsctl status")
        expect_in(f"old generations {reloads}", run(bench.programs / "wsconsole", "-n", server.name, "--once", "overview"), "wsconsole")
        after_ticks(server, oldest)
        status, fields, _ = idle.get("small.txt")
        expect((status, fields.get("connection")), (200, "close"), "the last response")
        expect(handshake.finish(), ("ec", b"200"), "the handshake that had begun")
        for download in downloads:
            download.reader.close()
            download.stream.close()


@test
def reload_and_upgrade_cut_no_download(bench):
    """Over each protocol one begins before each reload, renewal and upgrade. A timeout of 0 would end all of them at once."""
    large = bench.site / "download.bin"
    large.write_bytes(hashlib.shake_128(b"download").digest(16 * 1024 * 1024))
    wanted = 0, "", hashlib.sha256(large.read_bytes()).hexdigest()
    for kind in ("pem", "key"):
        run("cp", bench.path(f"ec.{kind}"), bench.path(f"renewed.{kind}"))
    with bench.start(tls__certificate=bench.path("renewed.pem"), tls__key=bench.path("renewed.key"),
                     workers__processes=1, workers__drain_timeout=0, connections__send_timeout="1h") as server:
        plain, secure = f"http://127.0.0.1:{server.plain_port}/download.bin", f"https://127.0.0.1:{server.port}/download.bin"
        downloads = []

        def begin():
            for url, version in ((plain, "--http1.1"), (plain, "--http2-prior-knowledge"), (secure, "--http1.1"), (secure, "--http2")):
                downloads.append(Download(bench, url, "-k", version))

        begin()
        for pair in (None, "later"):  # an ordinary reload and a renewed certificate
            for kind in ("pem", "key") if pair else ():
                run("cp", bench.path(f"{pair}.{kind}"), bench.path(f"renewed.{kind}"))
            server.control("reload")
            begin()
        workers = server.status()["workers"]["list"]
        expect([worker["state"] for worker in workers].count("leaving"), 2, "workers that finish downloads")
        server.expect_metric("generations_old", 2)
        after_ticks(server, [worker["slot"] for worker in workers])
        pid = server.process.pid
        os.kill(pid, signal.SIGUSR2)
        until(lambda: "this one shuts down" in server.output(), "the new master")
        serving_pids(server, 1)
        begin()
        (server.directory / "access.log").rename(server.directory / "rotated.log")
        server.control("reopen-logs")
        expect(has_ended(pid), False, "the old master has ended")
        for number, download in enumerate(downloads):
            expect(download.finish(), wanted, f"download {number}")
        until(lambda: has_ended(pid), "end of the old master")
        until(lambda: (server.directory / "access.log").read_text().count("/download.bin") == len(downloads),
              "the lines of all downloads in the log of after the rotation")
        successor = server.status()["pid"]
        server.control("stop")
        until(lambda: has_ended(successor), "end of the new master")
