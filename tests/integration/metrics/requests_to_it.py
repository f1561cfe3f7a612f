"""Requests that are not simple scrapes, and clients that want too much."""
import pathlib
import socket

from metrics_server import MORE, PATIENCE_S, MetricsServer, exchange, expect, expect_in, open_files, serving_pids, test, until


@test
def invalid_requests_are_answered(bench):
    with MetricsServer(bench) as server:
        for path in ("/index.html", "/metrics/", "/Metrics", "/../etc/passwd", "/status"):
            expect(server.request(path).status, 404, path)
        port = server.metrics_port
        for request, status in ((b"GET /metrics\r\n\r\n", 400), (b"\x16\x03\x01\x00\xee\r\n\r\n", 400),
                                (b"GET /metrics HTTP/1.1\r\n\r\n", 400), (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
                                (b"GET /healthz?verbose HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
                                (b"GET /metrics HTTP/3.0\r\nHost: a\r\n\r\n", 505),
                                (b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
                                (b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
                                (b"GET /metrics HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 100 + b"\r\n", 431)):
            expect(exchange(port, request).status, status, repr(request[:40]))


@test
def only_get_and_head_are_methods(bench):
    with MetricsServer(bench) as server:
        response = server.request("/healthz", method="HEAD")
        expect((response.status, response["content-length"], response.body), (200, "3", b""), "HEAD")
        response = server.request("/healthz", method="DELETE")
        expect((response.status, response["allow"]), (405, "GET, HEAD"), "DELETE")


@test
def other_hosts_are_misdirected(bench):
    """A web page whose name resolves to 127.0.0.1 reads nothing."""
    hosts = "hosts = metrics.example Monitor-2\n"
    own = ["127.0.0.1", "127.0.0.1:9180", "[::1]", "[::1]:9180", "10.1.2.3", "localhost", "LOCALHOST:1"]
    foreign = ["evil.example", "evil.example:9180", "localhost.evil.example", "127.0.0.1.evil.example", "xlocalhost", "127.1",
               "2130706433", "127.0.0.1x"]
    listed = ["metrics.example", "METRICS.example:80", "monitor-2"]

    def statuses(server, names):
        return [exchange(server.metrics_port, f"GET /healthz HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()).status
                for name in names]

    with MetricsServer(bench, MORE) as server:
        expect(statuses(server, own), [200] * len(own), "addresses and localhost")
        expect(statuses(server, foreign + listed), [421] * (len(foreign) + len(listed)), "other names")
        for path in ("/metrics", "/status.json", "/readyz", "/none"):
            response = exchange(server.metrics_port, f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
            expect(response.status, 421, path)
            expect_in(b"[metrics] hosts", response.body, "body")
        absolute = b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        expect(exchange(server.metrics_port, absolute).status, 421, "absolute form")
        server.reload(MORE.replace("[workers]", hosts + "[workers]"))
        until(lambda: statuses(server, listed) == [200] * len(listed), "names of the new configuration")
        expect(statuses(server, own), [200] * len(own), "addresses and localhost")
        expect(statuses(server, foreign), [421] * len(foreign), "other names")
        for wrong in ("a..b", "*.example.org", "name:9180", "http://name"):
            expect_in(f"'{wrong}' is not a host name", server.reload(MORE.replace("[workers]", f"hosts = {wrong}\n[workers]")),
                      "answer to the reload")


def connect(server, address="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", server.metrics_port), PATIENCE_S, (address, 0))


def is_closed(connection):
    with connection:
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:
            return True


@test
def slow_clients_keep_nobody_out(bench):
    with MetricsServer(bench) as server:
        slow = []
        for address in ["127.0.0.1"] * 200 + [f"127.0.0.{i % 100 + 2}" for i in range(200)]:
            slow.append(connect(server, address))
            if len(slow) % 2 == 0:
                slow[-1].sendall(b"GET /metrics HT")
        expect(server.read("/healthz"), "ok\n", "a probe")
        expect(server.read("/readyz"), "ok\n", "another one")
        expect_in("webserverd_requests_total", server.read("/metrics"), "metrics")
        for connection in slow:
            expect(is_closed(connection), True, "end of a slow connection")


@test
def clients_of_one_address_end_each_other_only(bench):
    with MetricsServer(bench) as server, connect(server, "127.0.0.9") as other:
        other.sendall(b"GET /healthz HTTP/1.1\r\n")
        many = [connect(server) for _ in range(100)]
        for connection in many[:70]:
            expect(is_closed(connection), True, "end of an old connection")
        other.sendall(b"Host: localhost\r\n\r\n")
        expect(other.recv(12), b"HTTP/1.1 200", "another address")
        for connection in many[70:]:
            connection.close()


@test
def a_client_that_reads_nothing_is_closed(bench):
    with MetricsServer(bench) as server:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", server.metrics_port))
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        pid = server.metrics_pid()

        def sockets():
            return sum(path.startswith("socket:") for path in open_files(pid))

        until(lambda: sockets() >= 3, "accept")
        until(lambda: sockets() == 2, "end of the client")  # the listen socket and the master's remain
        slow.close()


@test
def process_can_write_no_shared_memory(bench):
    with MetricsServer(bench) as server:
        expect(server.read("/healthz"), "ok\n", "health")  # so it has started, and taken its identity
        workers = serving_pids(server, 2)
        pid = server.metrics_pid()
        maps = [line.split()[1] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
                if "/dev/shm/webserverd" in line]
        expect(set(maps), {"r--s"}, "mappings of the segment")
        expect([path for path in open_files(pid) if "/dev/shm/webserverd" in path], [], "descriptors of the segment")
        def marks(process):
            lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
            return [line for line in lines if line.split(":")[0] in ("Uid", "Gid", "CapEff", "NoNewPrivs", "Seccomp")]

        expect(marks(pid), marks(workers[0]), "identity and sandbox, as of a worker")
