#!/usr/bin/env python3
"""Shows that each probe point of webserverd fires: gdb has a breakpoint at each probe of a serving worker.

    run.py DIRECTORY [TEST...]     DIRECTORY contains webserverd and wsctl

Exits with 77 without gdb, or where it may not trace a worker, which is not dumpable.
"""
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import points

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "sites"))

from site_server import PATIENCE_S, Bench, SiteServer, run_tests, test, until  # noqa: E402

SKIPPED = 77
ONE_THREAD = "[workers]\nprocesses = 1\nthreads = 1\noffload_threads = 1\nheartbeat_timeout = 0\n"
# What gdb shows when a probe fires: the IPv4 part of the address, the request line, the bytes of the body.
SHOWN = {"accept": "output *(unsigned char (*)[4])($_probe_arg1 + 12)",
         "response_sent": 'printf "%lu bytes sent", $_probe_arg2',
         "request_start": "output *(char (*)[16])$_probe_arg1"}
LONG_PATH = "/" + "x" * 2000  # a request line that soon fills a log ring


class Tracer:
    """gdb with a breakpoint at each of NAMES in the process PID; prints the name each time that one fires."""

    def __init__(self, directory, pid, names):
        script = ["set pagination off", "set confirm off", "set breakpoint pending off", "handle all nostop noprint pass",
                  f"attach {pid}"]
        for name in names:
            script += [f"break -probe-stap webserverd:{name}", "commands", "silent", f'printf "fired {name}\\n"',
                       SHOWN.get(name, ""), 'printf "\\n"', "continue", "end"]
        script += ['printf "tracing\\n"', "continue"]
        path = directory / "trace.gdb"
        path.write_text("\n".join(script) + "\n")
        self.output = directory / "trace.txt"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(["gdb", "-nx", "-q", "-readnever", "-batch", "-x", path], stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output, env={**os.environ, "DEBUGINFOD_URLS": ""})
        self.wait_for("tracing")

    def lines(self):
        return self.output.read_text(errors="replace").splitlines()

    def wait_for(self, line):
        def has_line():
            ended = self.process.poll() is not None
            if line in self.lines():
                return True
            if ended:
                raise AssertionError("gdb has ended:\n" + "\n".join(self.lines()))
            return False

        until(has_line, f"'{line}' of gdb")

    def fired(self, *names):
        for name in names:
            self.wait_for(f"fired {name}")

    def close(self):
        """The worker ends first, and gdb with it."""
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def traced(bench, text, names):
    """A server of one thread, and gdb at the probes NAMES."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(SiteServer(bench, ONE_THREAD + text))
        tracer = Tracer(server.directory, server.status()["workers"]["list"][0]["pid"], names)
        stack.callback(tracer.process.kill)  # only after a failure it still runs
        yield server, tracer
        server.process.terminate()
        tracer.close()


class Requests(threading.Thread):
    """Sends requests, each after the response to the last one, until it is stopped."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stopping = port, False

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        while not self.stopping:
            connection.request("GET", LONG_PATH)
            connection.getresponse().read()
            time.sleep(0.002)
        connection.close()

    def stop(self):
        self.stopping = True
        self.join(PATIENCE_S)


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@test
def probes_of_a_request_fire(bench):
    names = ["accept", "request_start", "cache_hit", "cache_miss", "offload_queue", "offload_run", "offload_done", "response",
             "response_sent"]
    with traced(bench, "[files]\nautoindex = on\n", names) as (server, tracer):
        server.put("www/list/file.txt", "text")
        server.expect("/list/", 200)  # an offload thread makes the list
        for _ in range(3):
            server.expect("/index.html", 200, "default")
        tracer.fired(*names)
        tracer.wait_for('"\\177\\000\\000\\001"')
        tracer.wait_for('"GET /list/ HTTP/"')


@test
def the_probe_after_a_response_has_the_bytes_of_its_body(bench):
    with traced(bench, "", ["response_sent"]) as (server, tracer):
        server.put("www/eleven.txt", "eleven text")
        for version in "--http1.1", "--http2-prior-knowledge":
            subprocess.run(["curl", "-sf", version, "-o", "/dev/null", f"http://127.0.0.1:{server.port}/eleven.txt"], check=True,
                           timeout=PATIENCE_S)
        until(lambda: tracer.lines().count("11 bytes sent") == 2, "both responses")


@test
def probes_of_a_full_log_ring_fire(bench):
    with traced(bench, "[log]\nring = 64K\nwait_timeout = 1h\n", ["log_wait", "log_resume"]) as (server, tracer):
        requests = Requests(server.port)
        with stopped(server.status()["logger"]["pid"]):
            requests.start()
            tracer.fired("log_wait")
        tracer.fired("log_resume")
        requests.stop()


@test
def probe_of_a_dropped_record_fires(bench):
    with traced(bench, "[log]\nring = 64K\nwhen_full = drop\n", ["log_drop"]) as (server, tracer):
        requests = Requests(server.port)
        with stopped(server.status()["logger"]["pid"]):
            requests.start()
            tracer.fired("log_drop")
        requests.stop()


@test
def every_probe_is_traced_by_a_test(bench):
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    missing = {point.name for point in points.of_program(bench.programs / "webserverd") if f'"{point.name}"' not in source}
    if missing:
        raise AssertionError(f"no test traces {', '.join(sorted(missing))}")


def may_trace():
    """Root may trace a process that is not dumpable; a container may forbid it."""
    if shutil.which("gdb") is None or os.geteuid() != 0:
        return False
    script = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        done = subprocess.run(["gdb", "-nx", "-q", "-readnever", "-batch", "-ex", f"attach {process.pid}", "-ex", "detach"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        process.kill()
    return "not permitted" not in done.stdout + done.stderr


sys.exit(run_tests(Bench) if may_trace() else SKIPPED)
