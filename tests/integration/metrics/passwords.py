"""[metrics] users: which paths need a password, who gets in, and clients that guess or wait."""
import base64
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import time

from metrics_server import (MORE, PATIENCE_S, MetricsServer, Response, expect, expect_in, has_ended, open_files, run,
                            serving_pids, test, until)

# Made by htpasswd; the password is "pass word".
HASHES = {
    "bcrypt": "$2y$04$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2",
    "sha256": "$5$dD8YeXtIU8mGvbn7$rnNFDsBqL6or4htTyWweiHoeySwQl/jVIapfrWeEQf7",
    "sha512": "$6$rounds=1000$bKss4EGV6XhdxUmJ$e/fqQxOCwy5MSJTMsIsPI.R.VtpnkTRiNIEBhlT9flMTZJ4WdTSThnSOoBXvCVO4k1voeAEYbEnL"
              "17SKPwpqo1",
}
SLOW = "$2y$12$dGlHri5ociE.yJno5rY7sObH7kTIAWGZ5W.Pmc1fRpx25dWlTryA6"  # "slow word"; about a quarter of a second
SLOWER = "$2y$14$5XhDl3TiqzB1DuOGmNAa9utgSCgOKkmOk0uDr9/ZJ6fYHOgM5hPya"  # "slow word"; about a second
REQUEST_S = 5  # how long a request may take: REQUEST_SECONDS of metrics.c
USERS = "[metrics]\nusers = users\nlisten = 127.0.0.1:0\n[workers]\nprocesses = 1\n"
WAITING_MAX = 8  # of verifier.h
PROTECTED = ("/", "/page.css", "/page.js", "/events", "/metrics", "/status.json", "/none", "/healthz/", "/metrics?healthz")


def write_users(server, users, name="users", mode=0o600):
    server.put(name, "".join(f"{user}:{value}\n" for user, value in users.items()))
    os.chmod(server.directory / name, mode)


def start(bench, text=USERS, users=HASHES):
    server = MetricsServer(bench, text)
    write_users(server, users)
    return server


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def login(server, path, user, password, *lines, **more):
    return server.request(path, basic(user, password), *lines, **more)


class Client:
    """A request whose response is read later. ADDRESS is the client's own."""

    def __init__(self, server, path, *lines, address="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", server.metrics_port), PATIENCE_S, source_address=(address, 0))
        words = "".join(f"{line}\r\n" for line in lines)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{words}\r\n".encode())

    def is_answered(self):
        return bool(select.select([self.socket], [], [], 0)[0])

    def response(self):
        data = b""
        while part := self.socket.recv(65536):
            data += part
        self.socket.close()
        head, _, body = data.partition(b"\r\n\r\n")
        expect(head.startswith(b"HTTP/1.1 "), True, f"a response: {data!r}")
        return Response(head, body)


def failures(server):
    return server.status()["metrics"]["metrics_logins_failed"]


@test
def all_but_probes_need_a_password(bench):
    with start(bench) as server:
        for path in PROTECTED:
            for method in ("GET", "HEAD", "POST"):
                response = server.request(path, method=method)
                expect((response.status, response["www-authenticate"], response["cache-control"]),
                       (401, 'Basic realm="Metrics", charset="UTF-8"', "no-store"), f"{method} {path}")
        for path in ("/healthz", "/readyz", "/healthz?now"):
            for lines in ((), (basic("bcrypt", "wrong"),), (basic("nobody", ""),)):
                response = server.request(path, *lines)
                expect((response.status, response.body, response["www-authenticate"]), (200, b"ok\n", None), path)
        expect(failures(server), 0, "failed logins")
        page = login(server, "/", "bcrypt", "pass word")
        expect_in(b"/page.js", page.body, "page")
        for path in re.findall(r'(?:src|href)="(/[^"#]+)"', page.body.decode()):
            expect(login(server, path, "bcrypt", "pass word").status, 200, path)
        expect(login(server, "/none", "bcrypt", "pass word").status, 404, "a path that does not exist")
        expect(login(server, "/metrics", "bcrypt", "pass word", method="POST").status, 405, "a method")
        foreign = f"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n{basic('bcrypt', 'pass word')}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.metrics_port), PATIENCE_S) as connection:
            connection.sendall(foreign.encode())
            expect_in(b"HTTP/1.1 421 ", connection.recv(65536), "another host")


@test
def passwords_of_each_kind_open_right_ones_only(bench):
    text = USERS.replace("[workers]", "realm = Staff only\n[limits]\nfailed_logins = 0\n[workers]")
    with start(bench, text) as server:
        for user in HASHES:
            for _ in range(3):  # by the thread, then from memory
                expect_in(b"webserverd_requests_total", login(server, "/metrics", user, "pass word").body, user)
            expect(login(server, "/none", user, "pass word", method="HEAD").status, 404, user)
        wrong = [("bcrypt", "pass worc"), ("bcrypt", ""), ("sha256", "pass word "), ("sha512", "Pass word"), ("bcryp", "pass word"),
                 ("", "pass word"), ("BCRYPT", "pass word"), ("sha512", HASHES["sha512"])]
        for user, password in wrong:
            response = login(server, "/metrics", user, password)
            expect((response.status, response["www-authenticate"], response.body),
                   (401, 'Basic realm="Staff only", charset="UTF-8"', b"401 Unauthorized\n"), f"{user}:{password}")
        good = basic("bcrypt", "pass word")
        for lines in ((good, good), ("Authorization: Basic",), ("Authorization: Basic x",), (good.replace("Basic", "Bearer"),)):
            expect(server.request("/metrics", *lines).status, 401, repr(lines))
        until(lambda: failures(server) == len(wrong), "failed logins in the segment")
        exposition = login(server, "/metrics", "bcrypt", "pass word").body.decode()
        expect_in(f"webserverd_metrics_logins_failed_total {len(wrong)}\n", exposition, "failed logins as a metric")
        for secret in ("pass word", "worc", good.split()[-1], HASHES["bcrypt"]):
            expect(secret in server.output() + server.log(), False, f"{secret} in a log")


@test
def a_client_that_guesses_is_limited(bench):
    text = USERS.replace("[workers]", "[limits]\nfailed_logins = 3\n[workers]") + "heartbeat_timeout = 0\n"
    with start(bench, text) as server:
        expect(login(server, "/metrics", "bcrypt", "pass word").status, 200, "first login")
        statuses = [login(server, "/metrics", "bcrypt", f"guess {i}").status for i in range(6)]
        expect(statuses, [401, 401, 401, 429, 429, 429], "six guesses")
        response = login(server, "/metrics", "sha256", "pass word")
        expect(response.status, 429, "a right password that must be verified")
        expect(1 <= int(response["retry-after"]) <= 60, True, "Retry-After")
        expect(login(server, "/metrics", "bcrypt", "pass word").status, 200, "a remembered password")
        expect(server.request("/metrics").status, 401, "no password")
        expect(server.read("/healthz"), "ok\n", "health")
        other = Client(server, "/metrics", basic("sha256", "pass word"), address="127.0.0.3")
        expect(other.response().status, 200, "another client")
        until(lambda: failures(server) == 3, "failed logins, counted without a heartbeat timeout")
        until(lambda: "failed logins on metrics.listen: " in server.output(), "message")
        expect(Client(server, "/", basic("bcrypt", "x"), address="127.0.0.4").response().status, 401, "one more failure")
        until(lambda: failures(server) == 4, "one more failed login")
        expect(server.output().count("failed logins on metrics.listen"), 1, "messages in a minute")


@test
def slow_passwords_delay_nobody_else(bench):
    """The process is stopped until all requests have arrived, so that it reads them at once."""
    with start(bench, USERS + "heartbeat_timeout = 0\n", {"slow": SLOW, "fast": HASHES["bcrypt"]}) as server:
        expect(login(server, "/metrics", "fast", "pass word").status, 200, "a login that is remembered")
        pid = server.metrics_pid()
        os.kill(pid, signal.SIGSTOP)
        waiting = [Client(server, "/metrics", basic("slow", f"word {i}"), address=f"127.0.0.{10 + i}")
                   for i in range(WAITING_MAX + 4)]
        health = Client(server, "/healthz")
        known = Client(server, "/metrics", basic("fast", "pass word"))
        os.kill(pid, signal.SIGCONT)
        expect((health.response().status, known.response().status), (200, 200), "health and a remembered password")
        expect(all(client.is_answered() for client in waiting), False, "all passwords verified before that")
        waiting[0].socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        waiting.pop(0).socket.close()  # resets the connection
        for _ in range(REQUEST_S + 2):  # its clock goes on by a second each time, and passwords still wait at the end
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)
        answers = [client.response() for client in waiting]
        refused = [answer for answer in answers if answer.status == 503]
        expect(sorted({answer.status for answer in answers}), [401, 503], "statuses")
        expect(0 < len(refused) <= 4, True, f"{len(refused)} refused")
        expect({answer["retry-after"] for answer in refused}, {"1"}, "Retry-After")
        expect(login(server, "/metrics", "slow", "slow word").status, 200, "the right password")
        expect(server.metrics_pid(), pid, "metrics process")


@test
def reload_changes_users(bench):
    with start(bench) as server:
        pid = server.metrics_pid()
        server.reload(USERS + "threads = 1\n")
        expect(server.metrics_pid(), pid, "process, which another change leaves alone")
        write_users(server, {"new": HASHES["sha256"]})
        expect_in("reloaded: generation", server.reload(USERS), "reload")
        until(lambda: login(server, "/metrics", "bcrypt", "pass word").status == 401, "end of the old password")
        expect(login(server, "/metrics", "new", "pass word").status, 200, "the new user")
        write_users(server, {"new": "plain"})
        expect_in("users:1:1: error: user 'new': passwords in plain text are not supported", server.reload(USERS), "a bad file")
        expect(login(server, "/metrics", "new", "pass word").status, 200, "the old users stay")
        expect(server.request("/metrics").status, 401, "no password")
        server.reload(MORE)
        until(lambda: server.request("/metrics").status == 200, "end of the passwords")
        write_users(server, {"bcrypt": HASHES["bcrypt"]})
        server.reload(USERS)
        until(lambda: server.request("/metrics").status == 401, "passwords again")
        expect(login(server, "/metrics", "bcrypt", "pass word").status, 200, "the user")


@test
def reload_ends_a_process_that_verifies(bench):
    with start(bench, users={"slow": SLOWER}) as server:
        old = server.metrics_pid()
        waiting = [Client(server, "/metrics", basic("slow", f"word {i}")) for i in range(WAITING_MAX)]
        until(lambda: "passwords" in names_of_threads(old), "the thread")
        write_users(server, {"new": HASHES["sha256"]})
        server.reload(USERS)
        until(lambda: has_ended(old), "end of the process")
        for client in waiting:
            client.socket.close()
        expect(login(server, "/metrics", "new", "pass word").status, 200, "the new process")


def names_of_threads(pid):
    return {(thread / "comm").read_text().strip() for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()}


@test
def thread_that_verifies_is_sandboxed(bench):
    with start(bench) as server:
        expect(login(server, "/metrics", "sha512", "pass word").status, 200, "login")
        pid, worker = server.metrics_pid(), serving_pids(server, 1)[0]
        expect(len(names_of_threads(pid) & {"passwords"}), 1, "the thread")

        def marks(status):
            return [line for line in status.read_text().splitlines()
                    if line.split(":")[0] in ("Uid", "Gid", "CapEff", "NoNewPrivs", "Seccomp")]

        expected = marks(pathlib.Path(f"/proc/{worker}/status"))
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            expect(marks(thread / "status"), expected, "identity and sandbox, as of a worker")
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        expect({line.split()[1] for line in maps.splitlines() if "/dev/shm/webserverd" in line}, {"r--s"}, "mappings")
        expect([path for path in open_files(pid) if "users" in path or "/dev/shm/webserverd" in path], [], "descriptors")


@test
def events_come_with_a_password(bench):
    with start(bench) as server:
        client = Client(server, "/events", "Accept: text/event-stream", basic("sha512", "pass word"))
        with client.socket, client.socket.makefile("rb") as stream:
            expect_in(b" 200 ", stream.readline(), "status")
            while stream.readline() != b"\r\n":
                continue
            for _ in range(2):
                expect((stream.readline()[:6], stream.readline()), (b"data: ", b"\n"), "event")


@test
def faults_of_users_are_reported(bench):
    for text, words in (("users = none", "webserver.ini:12:9: error: "), ("users = none", "none: No such file or directory"),
                        ("users = empty", "empty: error: the file has no users"), ("users = .", "not a regular file"),
                        ("users = loose", "other users may read or change the file"),
                        ("users = weak", "weak:2:1: error: user 'ann': MD5 hashes are too weak"),
                        ("users = www/users", "is below a document root"), ("realm = x", "realm 'x' has no users"),
                        ('users = users\nrealm = a"b', "the realm is not valid"), ("users = users\nrealm =", "the realm is not valid")):
        server = start(bench, f"[workers]\nprocesses = 1\n[metrics]\nlisten = 127.0.0.1:0\n\n\n{text}\n")
        write_users(server, HASHES, "www/users")
        write_users(server, HASHES, "loose", 0o604)
        write_users(server, {}, "empty")
        write_users(server, {"#": "", "ann": "$apr1$x$y"}, "weak")
        expect_in(words, server.check(), text)
    server = start(bench)
    lines = run(*server.command("-T")).splitlines()
    expect_in(f"users = {server.directory}/users", lines, "-T")
    expect_in("realm = Metrics", lines, "-T")


@test
def address_of_other_machines_is_reported(bench):
    with start(bench, USERS.replace("127.0.0.1:0", "*:0")) as server:
        until(lambda: "passwords cross the network in clear text" in server.output(), "warning")


@test
def example_for_prometheus_is_valid(bench):
    """The scrape_configs in the comment of the rules."""
    rules = pathlib.Path(__file__).resolve().parents[3] / "etc" / "prometheus" / "webserverd.rules.yml"
    lines = [line[2:] for line in rules.read_text().split("groups:")[0].splitlines() if line.startswith("#     ")]
    example = "\n".join(line[4:] for line in lines) + "\n"
    expect_in("basic_auth:", example, "example")
    expect_in("password_file:", example, "example")
    if shutil.which("promtool") is None:
        print("skipped: no promtool (Debian package prometheus)")
        return
    file = bench.directory / "prometheus.yml"
    file.write_text(example)
    done = subprocess.run(["promtool", "check", "config", "--syntax-only", file], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    expect(done.returncode, 0, f"promtool check config:\n{done.stdout.decode()}\n{example}")
