#!/usr/bin/env python3
"""The example programs of include/wsboard.h, as wsconsole, wsctl, wsload and a reader of their own see them.

    run.py DIRECTORY_OF_PROGRAMS DIRECTORY_OF_EXAMPLES LIBRARY CASE
"""
import contextlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
PATIENCE_S = 60
BIN, EXAMPLES, LIBRARY, CASE = sys.argv[1:5]
NAME = f"board-{CASE}-{os.getpid()}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(program, *words, status=0):
    done = subprocess.run([os.path.join(BIN, program), *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == status, (program, words, done)
    return done.stdout if status == 0 else done.stderr


def wsctl(*words, status=0):
    return run("wsctl", "-n", NAME, *words, status=status)


def wsconsole(*words):
    return run("wsconsole", "-n", NAME, *words)


def await_true(what, condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def serves(port):
    with contextlib.suppress(urllib.error.URLError):
        return get(port, "/")[0] == 200
    return False


class Program:
    """An example that runs until the end of the case."""

    def __init__(self, *words):
        self.process = subprocess.Popen(words)
        try:
            await_true("the board is there", lambda: NAME in run("wsctl", "list"))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends it. A program without a handler of SIGTERM, and one that is killed, leaves its board."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            for left in f"/dev/shm/webserverd.{NAME}", f"/dev/shm/wsboard.{NAME}":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(left)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)


def server(port):
    return Program(os.path.join(EXAMPLES, "example_server"), "-p", str(port), "-n", NAME, os.path.join(SOURCES, "www"))


def screen_of(keys, wanted, columns=120, lines=40):
    """The text that wsconsole has drawn after KEYS on a screen of this size, once it contains WANTED."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", COLUMNS=str(columns), LINES=str(lines))
        os.execv(os.path.join(BIN, "wsconsole"), ["wsconsole", "-n", NAME])
    drawn, end = b"", time.monotonic() + PATIENCE_S
    try:
        while wanted.encode() not in drawn:
            assert time.monotonic() < end, (wanted, drawn)
            if select.select([terminal], [], [], 0.1)[0]:
                drawn += os.read(terminal, 65536)
            if keys and b"\x1b" in drawn:
                os.write(terminal, keys)
                keys = b""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
    return drawn.decode("utf-8", "replace")


def case_server():
    port = free_port()
    with server(port):
        for _ in range(20):
            assert get(port, "/")[0] == 200
        assert get(port, "/absent")[0] == 404
        status = json.loads(wsctl("--json", "status"))
        metrics = status["metrics"]
        assert (metrics["requests"], metrics["responses_200"], metrics["responses_404"]) == (21, 20, 1), metrics
        assert metrics["connections_accepted"] == metrics["queue_taken"] == 21, metrics
        assert metrics["queue_capacity"] == 16 and "tls_handshakes" not in metrics, metrics
        assert status["requests_per_s"] == 0 and status["cores"] >= 0, status
        status = wsctl("status")
        assert status.startswith("server       ") and "requests     21, keep-alive -" in status, status
        assert "\nthreads      5\n" in status and "\nTLS " not in status and "offload" not in status, status
        assert "\nrequests/s   0\nCPU " in status, status

        own = subprocess.run([sys.executable, os.path.join(SOURCES, "etc", "board", "read.py"), NAME],
                             capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
        assert "requests                 21" in own and "threads AQQQQ" in own and "median 0 ns" not in own, own

        overview = wsconsole("--once", "overview")
        for line in ("queue                         0  of 16", "statuses",
                     "without                          cache entries  configuration  hosts  certificates"):
            assert line in overview, (line, overview)
        assert "TLS" not in overview and "offload" not in overview, overview
        threads = wsconsole("--once", "threads")
        assert " acceptor  A accept" in threads and "0.queue  0 of 16" in threads, threads
        assert "GET /absent" in wsconsole("--once", "log")
        for view in "cache", "config", "hosts", "certificates":
            assert f"does not publish this: {view}" in run("wsconsole", "-n", NAME, "--once", view, status=1)
        views = json.loads(wsconsole("--json"))
        assert "cache" not in views and views["overview"]["threads"] == {"wanted": None, "actual": 5}, views
        assert [row["outcome"] for row in json.loads(wsconsole("--json", "latency"))["latency"]] == ["all"]
        top = json.loads(wsconsole("--json", "top"))["top"]
        assert "paths" in top and "agents" not in top and "referers" not in top, top
        assert "user agents" not in wsconsole("--once", "top")

        assert wsctl("threads", "6") == "done\n"
        await_true("two more threads", lambda: "AQQQQQQ" in wsconsole("--once", "threads"))
        assert "takes a number from 1 to 60" in wsctl("threads", "99", status=1)
        assert "unknown command 'reload'" in wsctl("reload", status=1)
        assert wsctl("queue", "8") == "done\n"
        assert "0.queue  0 of 8" in wsconsole("--once", "threads")
        assert "is now 6" in wsconsole("--once", "events")

        with tempfile.TemporaryDirectory() as directory:
            recording = os.path.join(directory, "session.rec")
            wsconsole("--record", recording, "--batch", "--every", "0.5", "--count", "2", "--csv", "threads")
            assert " acceptor  A accept" in run("wsconsole", "--replay", recording, "--once", "threads")

        assert "queue_capacity > 7: 8" in wsctl("watch", "--for", "1s", "--fail-if", "queue_capacity > 7", status=1)
        assert "does not publish tls_handshakes" in wsctl("watch", "--fail-if", "tls_handshakes > 0", status=2)

        report = run("wsload", "-c", "4", "-n", "500", f"http://127.0.0.1:{port}/")
        assert f"{NAME} counted the same: 500 requests" in report, report


def case_tabs():
    port = free_port()
    with server(port):
        get(port, "/")
        drawn = screen_of(b"", "events")
        assert "4 cache" not in drawn and "8 config" not in drawn, drawn
        assert "purge" not in screen_of(b"4", "does not publish this")
        screen_of(b"+", "threads 5")
        screen_of(b"2", "more threads")
        assert "threads 5/" not in screen_of(b"", "threads 5", 60, 2)


def case_dead():
    port = free_port()
    with server(port) as program:
        get(port, "/last-request")
        program.kill()
        assert NAME not in run("wsctl", "list")
        for columns, lines in ((40, 10), (80, 24), (120, 40), (200, 50)):
            screen_of(b"", "has died", columns, lines)
            screen_of(b"2", "last-request" if columns > 40 else "worker 0", columns, lines)
        done = subprocess.run([os.path.join(BIN, "wsconsole"), "-n", NAME, "--once", "threads"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert "last-request" in done.stdout and (done.returncode, "has died" in done.stderr) == (3, True), done
        assert "worker 0   ended " in done.stdout and "serving" not in done.stdout, done
        assert "has died" in wsctl("status", status=3)
    with server(port):
        assert json.loads(wsctl("--json", "status"))["metrics"]["requests"] == 0


def case_fork():
    port = free_port()
    with Program(os.path.join(EXAMPLES, "example_fork"), "-p", str(port), "-n", NAME, os.path.join(SOURCES, "www")):
        for _ in range(100):
            assert get(port, "/")[0] == 200
        await_true("all requests are counted",
                   lambda: json.loads(wsctl("--json", "status"))["metrics"]["requests"] == 100)
        assert "offers no commands" in wsctl("threads", "3", status=1)


def case_full():
    """The memory is enough for two threads, then for no board: all requests are answered, only those of the two are counted."""
    if "INSIDE" not in os.environ:
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
            sys.exit(77)
        script = 'mount -t tmpfs -o size=200k tmpfs /dev/shm && INSIDE=1 exec "$@"'
        sys.exit(subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", sys.executable, *sys.argv], check=False).returncode)
    port = free_port()
    with server(port) as program:
        for _ in range(40):
            assert get(port, "/")[0] == 200
        status = json.loads(wsctl("--json", "status"))
        assert status["threads"]["actual"] < 5 and status["metrics"]["requests"] <= 40, status
        assert program.process.poll() is None
    subprocess.run(["mount", "-o", "remount,size=16k", "/dev/shm"], check=True)
    command = [os.path.join(EXAMPLES, "example_server"), "-p", str(port), "-n", NAME, os.path.join(SOURCES, "www")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        await_true("it serves", lambda: serves(port))
        process.terminate()
        assert "no board: No space left on device" in process.stderr.read()


def case_locks():
    locks = os.path.join(EXAMPLES, "example_locks")
    deadlock = "has a, waits for b", "has b, waits for a"
    with Program(locks, "-n", NAME, "-0", "deadlock"):
        wsctl("fault", "on")
        await_true("both threads wait", lambda: all(line in wsconsole("--once", "threads") for line in deadlock))
    with Program(locks, "-n", NAME, "lost-update") as program:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            program.process.send_signal(number)
        await_true("updates are lost", lambda: json.loads(wsctl("--json", "status"))["metrics"]["responses_400"] > 0)
        assert "invalid word 'x'" in wsctl("fault", "x", status=1)
        drawn = screen_of(b"2:fault x\r", "invalid word 'x'")
        assert "more threads" not in drawn, drawn  # it offers only "fault", and has said so
    with Program(locks, "-n", NAME, "-s", "7", "deadlock"):
        await_true("both threads wait", lambda: all(line in wsconsole("--once", "threads") for line in deadlock))
    printed = subprocess.run([locks, "-n", NAME, "-t", "1", "-0", "deadlock"], check=True, capture_output=True, text=True).stdout
    assert "deadlock: 0 units" not in printed, printed


def case_python():
    port = free_port()
    os.environ["WSBOARD_LIBRARY"] = LIBRARY
    with tempfile.TemporaryDirectory() as site, \
            Program(sys.executable, os.path.join(SOURCES, "examples", "python", "board.py"), str(port), site, NAME):
        await_true("it serves", lambda: serves(port))
        assert get(port, "/none")[0] == 404
        metrics = json.loads(wsctl("--json", "status"))["metrics"]
        assert (metrics["responses_200"], metrics["responses_404"]) == (1, 1), metrics


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the programs end, too
globals()[f"case_{CASE}"]()
