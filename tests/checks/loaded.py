"""Starts a server under a checking tool, and loads and changes it.

It does not need root, listens on a free loopback port, and always stops the server.
"""

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 180
MISSES = 400
LARGE = 3 * 1024 * 1024

# Metrics of `status` that must not be 0 at the end: the load must reach these code paths.
REACHED = ("cache_hits", "cache_misses", "cache_evicted", "cache_purged", "offloaded", "requests_limited",
           "responses_200", "responses_304", "responses_404", "responses_503", "connections_reset",
           "requests_keepalive", "log_lines")


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def make_site(directory):
    """More small pages than the cache holds, compressible text, a large file, a listing."""
    os.makedirs(directory + "/listing")
    os.chmod(directory, 0o755)
    write(directory + "/index.html", b"<p>a page</p>\n" * 40)
    write(directory + "/text.html", b"<p>the same words again and again</p>\n" * 3000)
    write(directory + "/large.bin", random.Random(1).randbytes(LARGE))
    write(directory + "/unreadable.html", b"not for everyone\n")
    os.chmod(directory + "/unreadable.html", 0)
    for i in range(MISSES):
        write(f"{directory}/f{i}.bin", bytes([i % 251]) * (500 + 37 * i))
    for i in range(50):
        write(f"{directory}/listing/entry {i} <&>.txt", b"x" * i)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """TOOL is the command prefix, ENVIRONMENT its additional variables."""

    def __init__(self, programs, tool, environment, dispatch):
        self.name = f"checked-{os.getpid()}"
        self.directory = tempfile.mkdtemp(prefix="webserverd-check-")
        os.chmod(self.directory, 0o755)
        self.reports = self.directory + "/reports"
        os.mkdir(self.reports)
        os.chmod(self.reports, 0o1777)  # also for workers, which run as another user if the master is root
        self.port = free_port()
        make_site(self.directory + "/www")
        self.write_config(dispatch, "index.html")
        self.dispatch = dispatch
        tool = [word.replace("@DIRECTORY@", self.reports) for word in tool]
        environment = {name: text.replace("@DIRECTORY@", self.reports)
                       for name, text in environment.items()}
        with open(self.directory + "/output", "wb") as output:
            self.process = subprocess.Popen(
                tool + [f"{programs}/webserverd", "-f", self.directory + "/webserver.ini"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=dict(os.environ, **environment))

    def write_config(self, dispatch, index):
        # No sandbox: in it no file can grow, not even a tool's report.
        write(self.directory + "/webserver.ini", f"""[server]
name = {self.name}
listen = 127.0.0.1:{self.port}
root = www
run_dir = run
jail = off
index = {index}
[workers]
processes = 2
threads = 2
offload_threads = 1-4
offload_queue = 8
dispatch = {dispatch}
drain_timeout = 30s
[connections]
header_timeout = 2s
send_timeout = 2s
[cache]
size = 512K
max_object = 200K
revalidate = 0
compress = on
[files]
autoindex = on
[arithmetic]
enabled = on
[log]
access = access.log
error = error.log
""".encode())

    def control(self, line):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE_S)
            control.connect(f"{self.directory}/run/{self.name}.sock")
            control.sendall(line.encode() + b"\n")
            return json.loads(control.makefile("rb").readline())

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.control("status")["workers"]["actual"] == 2:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        with open(self.directory + "/output", encoding="utf-8", errors="replace") as output:
            raise SystemExit("the server did not start:\n" + output.read())

    def stop(self):
        """Stops the server. Returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def end(self):
        """Kills all processes after a failure."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def forget(self):
        shutil.rmtree(self.directory)


def load_runs(server):
    """Arguments of the wsload runs: hits, misses, failures, ranges, new connections, other methods."""
    base = f"http://127.0.0.1:{server.port}"
    mix = server.directory + "/mix.txt"
    targets = [f"/f{i}.bin" for i in range(MISSES)]
    targets += ["/listing/", "/listing", "/listing/?format=json", "/text.html", "/absent", "/%zz",
                "/unreadable.html", "/arithmetic/fibonacci?n=50", "/arithmetic/square?n=x",
                "/arithmetic/cube?n=3&work=2ms"] * 10
    write(mix, "".join(f"{base}{target}\n" for target in targets).encode())
    always = ["-d", "1h", "-t", "1", "--json", "--quiet", "--max-errors", "100%"]
    return [always + words for words in (
        ["-c", "6", base + "/"],
        ["-c", "6", "--order", "random", "-f", mix],
        ["-c", "3", "--gzip", "--order", "random", "-f", mix],
        ["-c", "2", "--range", "1000-700000", base + "/large.bin"],
        ["-c", "2", base + "/large.bin"],
        ["-c", "3", "--no-keepalive", base + "/"],
        ["-c", "30", base + "/arithmetic/cube?n=3&work=20ms"],
        ["-c", "1", "-m", "HEAD", base + "/text.html"],
        ["-c", "1", "-m", "OPTIONS", base + "/"],
        ["-c", "1", "-m", "POST", "-b", "words", base + "/"],
    )]


class Nuisance(threading.Thread):
    """A client that pipelines, stalls, requests ranges, sends malformed requests, and resets connections."""

    WORDS = (b"GET /f1.bin HTTP/1.1\r\nHost: c\r\n\r\n" * 8,
             b"GET /large.bin HTTP/1.1\r\nHost: c\r\nRange: bytes=0-9,50-99,-5\r\n\r\n",
             b"GET /large.bin HTTP/1.1\r\nHost: c\r\n\r\n",
             b"GET / HTTP/1.1\r\nHost: c\r\nIf-None-Match: *\r\n\r\n",
             b"GET / HTTP/1.1\r\nHo",
             b"GET /../../etc/passwd HTTP/1.1\r\nHost: c\r\n\r\n",
             b"BREW / HTTP/1.1\r\nHost: c\r\n\r\n",
             b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwords\r\n0\r\n\r\n",
             b"\x00\xff nonsense\r\n\r\n")

    def __init__(self, number, port, end):
        super().__init__(daemon=True)
        self.port, self.end = port, end
        self.numbers = random.Random(number)

    def once(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(self.numbers.choice(self.WORDS))
            for _ in range(self.numbers.randrange(4)):
                connection.recv(self.numbers.choice([1, 1000, 100000]))
            if self.numbers.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def run(self):
        while not self.end.is_set():
            try:
                self.once()
            except OSError:
                pass


def reload(server, index):
    server.write_config(server.dispatch, index)
    return server.control("reload")


def to_one(server, command):
    """Sends COMMAND for the first serving worker."""
    serving = [worker["slot"] for worker in server.control("status")["workers"]["list"]
               if worker["state"] == "serving"]
    return server.control(f"{command} {serving[0]}")


def wait_for(server, metric):
    """Waits until METRIC is not 0."""
    deadline = time.monotonic() + PATIENCE_S
    while server.control("status")["metrics"][metric] == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return {"ok": True}


def rotate(server):
    os.rename(server.directory + "/access.log", server.directory + "/access.log.1")
    return server.control("reopen-logs")


def changes(server):
    """Each live change once. A run repeats them as time permits."""
    lines = ("threads 4", "cache-flush", "workers 3", "offload-threads 2-6", "threads 1",
             "cache-purge /f*", "cache-policy lru", "restart", "cache-size 256K", "offload-threads 1",
             "workers 1", "ratelimit 1 1", "limited", "status", "config", "post-mortem", "ratelimit off", "log-level debug",
             "workers 2", "cache-policy sieve", "drain", "workers 2", "threads 3",
             "cache-size 512K", "restart all", "log-level warn", "offload-threads 1-4", "threads 2", "help")
    own = {"restart": lambda: to_one(server, "restart"), "drain": lambda: to_one(server, "drain"),
           "limited": lambda: wait_for(server, "requests_limited")}
    todo = [(line, own.get(line, lambda line=line: server.control(line))) for line in lines]
    todo.insert(4, ("reload", lambda: reload(server, "index.html index.htm")))
    todo.insert(15, ("rotate", lambda: rotate(server)))
    todo.append(("reload back", lambda: reload(server, "index.html")))
    return todo


def load_and_change(server, wsload, seconds):
    """WSLOAD is the program. Returns a list of failures. Makes each change at least once, even past the time limit."""
    end = threading.Event()
    nuisances = [Nuisance(i, server.port, end) for i in range(3)]
    runs = [subprocess.Popen([wsload, *words], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE) for words in load_runs(server)]
    finish, refused = time.monotonic() + seconds, []
    try:
        for nuisance in nuisances:
            nuisance.start()
        first = True
        while first or time.monotonic() < finish:
            for name, change in changes(server):
                answer = change()
                if not answer["ok"]:
                    refused.append(f"'{name}' failed: {answer['error']}")
                if not first and time.monotonic() > finish:
                    break
            first = False
        for metric in REACHED:
            wait_for(server, metric)
    finally:
        end.set()
        for run in runs:
            run.send_signal(signal.SIGINT)
        said = [run.communicate(timeout=PATIENCE_S)[1].decode() for run in runs]
    for nuisance in nuisances:
        nuisance.join(PATIENCE_S)
    wrong = [f"wsload {' '.join(run.args[1:])}: exit status {run.returncode}: {words}"
             for run, words in zip(runs, said) if run.returncode == 2]
    return refused + wrong


def not_reached(metrics):
    """Metrics that the load did not reach, and workers that died."""
    return [f"the load caused no {name}" for name in REACHED if metrics.get(name, 0) == 0] + \
        [f"{metrics['workers_died']} workers died" for _ in range(metrics["workers_died"] > 0)]
