"""Reload, upgrade, stop, and a process that dies or hangs."""
import http.client
import json
import os
import signal
import socket
import threading
import time

from metrics_server import MORE, PATIENCE_S, Exposition, MetricsServer, expect, expect_in, free_port, has_ended, run, test, until


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


def with_listen(listen):
    return MORE.replace("127.0.0.1:0", listen)


@test
def off_unless_set(bench):
    with MetricsServer(bench, "[workers]\nprocesses = 1\n") as server:
        expect(server.metrics_ports(), [], "addresses")
        expect(server.metrics_pid(), 0, "metrics process")


@test
def reload_adds_changes_and_removes_addresses(bench):
    one, two = free_port(), free_port()
    with MetricsServer(bench, with_listen("")) as server:
        expect_in("metrics.listen", server.reload(with_listen(f"127.0.0.1:{one}")), "answer to the reload")
        expect(server.status_json(one)["generation"], 2, "generation")
        process = server.metrics_pid()
        expect_in(process, server.children(), "children of the master")
        server.reload(with_listen(f"127.0.0.1:{one}") + "[files]\nautoindex = on\n")
        expect(server.status_json(one)["generation"], 3, "generation")
        expect(server.metrics_pid(), process, "process, which another change leaves alone")
        server.reload(with_listen(f"127.0.0.1:{two} 127.0.0.1:{one}"))
        expect(server.read("/healthz", two), "ok\n", "the second address")
        expect(server.read("/healthz", one), "ok\n", "the first address")
        server.reload(with_listen(f"*:{two}"))
        until(lambda: is_refused(one), "end of the first address")
        expect(server.read("/healthz", two), "ok\n", "the changed address")
        until(lambda: f"other machines may reach the metrics on *:{two}" in server.output(), "warning")
        server.reload(with_listen(""))
        until(lambda: is_refused(two), "end of the last address")
        until(lambda: server.metrics_pid() == 0, "end of the process")


@test
def a_removed_address_answers_what_waits(bench):
    one, two = free_port(), free_port()
    with MetricsServer(bench, with_listen(f"127.0.0.1:{one}")) as server:
        process = server.metrics_pid()
        os.kill(process, signal.SIGSTOP)
        try:
            waiting = [socket.create_connection(("127.0.0.1", one), PATIENCE_S) for _ in range(5)]
            for connection in waiting:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            server.reload(with_listen(f"127.0.0.1:{two}"))
        finally:
            os.kill(process, signal.SIGCONT)
        for connection in waiting:
            with connection:
                expect(connection.recv(15), b"HTTP/1.1 200 OK", "response")
        until(lambda: is_refused(one), "end of the first address")
        expect(server.read("/healthz", two), "ok\n", "the second address")


@test
def reload_with_a_taken_address_changes_nothing(bench):
    with MetricsServer(bench) as server, socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        answer = server.reload(with_listen(f"127.0.0.1:{taken}"))
        expect_in("set metrics.listen to another port", answer, "answer")
        expect(server.status_json()["generation"], 1, "generation")


@test
def invalid_addresses_are_errors(bench):
    for listen, what in (("https://127.0.0.1:9180", "not served over TLS or on a UNIX socket"),
                         ("unix:/tmp/metrics", "not served over TLS or on a UNIX socket"),
                         ("127.0.0.1", "write ADDRESS:PORT")):
        expect_in(what, MetricsServer(bench, with_listen(listen)).check(), listen)


@test
def not_ready_while_stopping(bench):
    with MetricsServer(bench) as server:
        server.put("www/large", "x" * 20_000_000)
        port = server.metrics_port
        expect(server.request("/readyz").status, 200, "readiness before")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            expect(client.recv(8), b"HTTP/1.1", "begin of the response")
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.request("/readyz", port=port).status == 503, "the stop")
            response = server.request("/readyz", port=port)
            expect((response.status, response.body), (503, b"the server is stopping\n"), "readiness")
            expect(server.request("/healthz", port=port).status, 200, "health")
            expect(sum(sample.value for sample in server.metrics().named("webserverd_stopping")), 1, "stopping")
        expect(server.process.wait(PATIENCE_S), 0, "exit status")
        expect(is_refused(port), True, "end of the address")


@test
def upgrade_answers_every_request(bench):
    with MetricsServer(bench) as server:
        port = server.metrics_port
        old = server.status_json()["pid"]
        os.kill(old, signal.SIGUSR2)
        give_up = time.monotonic() + PATIENCE_S
        new = old
        while new == old or server.process.poll() is None:
            new = server.status_json(port)["pid"]
            time.sleep(0.002)
            expect(time.monotonic() < give_up, True, "upgrade within the patience of the tests")
        expect(server.process.returncode, 0, "exit status of the old master")
        expect(server.status_json(port)["pid"], new, "master after the upgrade")
        expect(server.read("/readyz", port), "ok\n", "readiness after the upgrade")
        server.control("stop")
        until(lambda: has_ended(new), "end of the new master")
        expect(is_refused(port), True, "end of the address")


class Load(threading.Thread):
    """Requests on connections that stay, until finish(), which returns their number."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.sent, self.over, self.error = port, 0, False, None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            while not self.over:
                connection.request("GET", "/page.html", headers={"Host": "one.example"})
                if len(connection.getresponse().read()) != 400:
                    raise AssertionError("another body")
                self.sent += 1
                time.sleep(0.001)
        except (OSError, http.client.HTTPException, AssertionError) as error:
            self.error = error

    def finish(self):
        self.over = True
        self.join()
        if self.error is not None:
            raise self.error
        return self.sent


class Counters:
    """Reads them again and again, and fails when one has fallen or is missing."""

    def __init__(self, server):
        self.server, self.port, self.before = server, server.metrics_port, {}

    def read(self):
        now = {(sample.name, *sorted(sample.labels.items())): sample.value
               for sample in Exposition(self.server.read("/metrics", self.port)).samples
               if sample.name.endswith(("_total", "_bucket", "_sum", "_count"))}
        for series, value in self.before.items():
            if now.get(series, -1) < value:
                raise AssertionError(f"{series} was {value}, is {now.get(series)}")
        self.before = now

    def read_until(self, check, what):
        give_up = time.monotonic() + PATIENCE_S
        while not check():
            self.read()
            expect(time.monotonic() < give_up, True, what)


def upgrade(server, counters, number):
    """Returns the pid of the new master, when the old one has ended."""
    old = server.status()["pid"]
    os.kill(old, signal.SIGUSR2)
    counters.read_until(lambda: server.process.poll() is not None and has_ended(old), f"end of master {number}")
    return server.status()["pid"]


@test
def counters_never_fall_over_upgrades_and_reloads(bench):
    text = MORE + "[host one.example]\n"
    with MetricsServer(bench, text) as server:
        load, counters = Load(server.port), Counters(server)
        started = server.metrics().sum("webserverd_start_time_seconds")
        for number in range(int(os.environ.get("TEST_UPGRADES", "3"))):
            until(lambda already=load.sent: load.sent > already + 10 or load.error, "load")
            upgrade(server, counters, number)
            counters.read()
            server.reload(text)
            counters.read()
        server.sent = load.finish()
        status = server.counted()
        expect(status["metrics"]["requests"], server.sent, "requests of all masters")
        expect(status["hosts"][0]["requests"], server.sent, "requests of the host")
        until(lambda: server.status()["metrics"]["log_lines"] == server.sent, "lines of the log")
        now = server.metrics()
        expect(now.sum("webserverd_start_time_seconds"), started, "start of the server")
        expect(now.sum("webserverd_master_start_time_seconds") > started, True, "start of the master")
        expect(now.sum("webserverd_requests_total"), server.sent, "requests in the metrics")
        expect(now.sum("webserverd_request_duration_seconds_count"), server.sent, "latencies in the metrics")
        expect(now.sum("webserverd_host_responses_total"), server.sent, "responses of the host in the metrics")
        console = server.bench.programs / "wsconsole"
        seen = json.loads(run(console, "-n", server.name, "--json"))["overview"]
        expect(str(server.sent) in json.dumps(seen), True, f"{server.sent} requests in the console")
        server.control("stop")
        until(lambda: has_ended(status["pid"]), "end of the last master")


@test
def totals_include_what_an_earlier_master_still_sends(bench):
    with MetricsServer(bench) as server, socket.socket() as client:
        server.put("www/large", "x" * 20_000_000)
        port = server.metrics_port
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(client.recv(8), b"HTTP/1.1", "begin of the response")
        masters = [server.status_json(port)["pid"]]
        for _ in range(2):
            os.kill(masters[-1], signal.SIGUSR2)
            masters.append(until(lambda: (pid := server.status_json(port)["pid"]) not in masters and pid, "the new master"))
        expect(server.status()["metrics"]["requests"], 0, "requests before the end of the response")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        received = 0
        while received < 20_000_000:
            received += len(client.recv(1 << 20))
        client.close()
        server.sent = 1
        expect(server.counted()["metrics"]["bytes_sent"] > 20_000_000, True, "bytes of the response")
        expect(server.process.wait(PATIENCE_S), 0, "exit status of the first master")
        until(lambda: has_ended(masters[1]), "end of the second master")
        expect(server.status()["metrics"]["requests"], 1, "requests after its end")
        server.control("stop")
        until(lambda: has_ended(masters[2]), "end of the last master")


@test
def an_old_master_holds_no_address_that_the_new_one_gives_up(bench):
    """While the old one still waits for a client that reads nothing."""
    with MetricsServer(bench) as server, socket.socket() as client:
        server.put("www/large", "x" * 20_000_000)
        port, old = server.metrics_port, server.status_json()["pid"]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(client.recv(8), b"HTTP/1.1", "begin of the response")
        os.kill(old, signal.SIGUSR2)
        new = until(lambda: (pid := server.status_json(port)["pid"]) != old and pid, "the new master")
        server.reload(with_listen(""))
        until(lambda: is_refused(port), "end of the address")
        expect(server.process.poll(), None, "the old master still runs")
        server.control("stop", "--no-wait")
        client.close()
        expect(server.process.wait(PATIENCE_S), 0, "exit status of the old master")
        until(lambda: has_ended(new), "end of the new master")


@test
def a_killed_process_is_replaced(bench):
    with MetricsServer(bench) as server:
        first = server.metrics_pid()
        os.kill(first, signal.SIGKILL)
        until(lambda: server.metrics_pid() not in (0, first), "another process")
        expect(server.read("/healthz"), "ok\n", "health")
        until(lambda: "was killed by signal 9" in server.output(), "error log")


@test
def a_hanging_process_is_replaced(bench):
    with MetricsServer(bench, MORE + "heartbeat_timeout = 2s\n") as server:
        first = server.metrics_pid()
        os.kill(first, signal.SIGSTOP)
        until(lambda: server.metrics_pid() not in (0, first), "another process")
        until(lambda: "has given no sign of life" in server.output(), "error log")
        expect(server.read("/healthz"), "ok\n", "health")
