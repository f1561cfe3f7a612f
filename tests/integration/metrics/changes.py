"""Reload, upgrade, stop, and a process that dies or hangs."""
import os
import signal
import socket
import time

from metrics_server import MORE, PATIENCE_S, MetricsServer, expect, expect_in, free_port, has_ended, test, until


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
        server.control("stop")
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
