#!/usr/bin/env python3
"""A worker that misbehaves on command, beside honest workers that serve counting clients.

The program `traitor` (README.md) is webserverd whose worker in slot 0 obeys this script: it overwrites the
shared memory, sends wrong messages to the master, makes forbidden system calls, hangs and dies. Meanwhile clients
count the answers of each worker, commands and consoles run. The test checks:

  no attack does what no worker may be able to do; every answer of an honest worker is right, in the access log
  exactly once, and counted; master, logger and honest workers live on with the memory and descriptors that they had;
  the error log has one line for each event and no control bytes; commands and consoles always end well; a worker that
  died, hangs or broke the protocol is replaced; the server stops with status 0 and leaves nothing behind.

    traitor.py --bin build/release/bin --minutes 10
    traitor.py --bin build/release/bin --minutes 10 --each     # each attack alone, ten minutes each

Each session is a new server. It prints its seed; --seed repeats the same decisions (not the same timing). Exit status
0 or 1.
"""

import argparse
import collections
import glob
import http.client
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration", "segment"))

from chaos import body_of  # noqa: E402
from connections import Broken, Http1  # noqa: E402
from processes import PATIENCE_S, control, free_ports  # noqa: E402
from reader import METRICS, Segment, THREADS, THREAD_SLOTS, WORKER_SLOTS  # noqa: E402

FILES = 16
CLIENTS = 8
PACE_S = 0.01  # between two requests of a client
WORKERS = 3
LONG_S = 40  # length of a session of a long run
TRAITOR_SLOT = 0
LIMITS = [("192.0.2.9", True, 0), ("198.51.100.0/24", False, 3)]  # as Server.limits() returns them; of nobody here
HEARTBEAT_S = 20  # a busy machine delays honest workers, too

# Attacks after which the worker must not live on.
FATAL = {"random_messages", "hang", "hang_in_future", "exit", "abort", "half_written", "forbidden_call",
         "shared_descriptor", "many_threads", "hung_threads"}

# Noticed after HEARTBEAT_S, so only some sessions of long runs use them.
SLOW = {"hang", "hang_in_future", "hung_threads"}

VIEWS = ["overview", "threads", "latency", "cache", "log", "top", "config", "events", "hosts"]
EVENT_LINE = re.compile(rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[(debug|info|warn|error|\?)\] "
                        rb"(master|worker|logger|\?) -?\d+: [\x20-\x7e]*\n")
EVENT_OF_WORKER = re.compile(rb"(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \[[^]]*\] worker (-?\d+): ")
FORGED_ROLE = re.compile(rb"\S+ \S+ \[[^]]*\] (master|logger) -?\d+: FORGED")
MARK = re.compile(rb"\?c=([0-9]+-[0-9]+-[0-9a-f]{8}) HTTP/")
CONTROL_BYTES = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")


class Faults:
    """What went wrong, from any thread."""

    def __init__(self):
        self.list, self.lock = [], threading.Lock()

    def add(self, words):
        with self.lock:
            self.list.append(words)
            print("traitor: FAULT:", words, flush=True)

    def unless(self, good, words):
        if not good:
            self.add(words)


class Server:
    metrics_end = False  # the process that answers may end at any time
    identity = {}  # user and groups of master, commands and consoles, as arguments of Popen()

    def __init__(self, programs, directory, numbers, orders, attacks):
        self.programs, self.directory, self.attacks = programs, directory, attacks
        self.name = f"traitor-{os.getpid()}"
        self.port, self.tls_port, self.metrics_port = free_ports(3)
        self.format = numbers.choice(["combined", "json"])
        self.reports = os.path.join(directory, "reports")
        os.mkdir(self.reports)
        os.chmod(self.reports, 0o1777)  # also for workers that run as another user
        with open(os.path.join(directory, "webserver.ini"), "w", encoding="ascii") as file:
            file.write(self.config(numbers))
        sanitizers = {name: f"log_path={self.reports}/report" for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
        with open(os.path.join(directory, "output"), "wb") as output:
            self.process = subprocess.Popen(
                [os.path.join(programs, "traitor"), "-f", os.path.join(directory, "webserver.ini")],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, pass_fds=[orders],
                env=dict(os.environ, TRAITOR=f"{TRAITOR_SLOT}:{orders}", **sanitizers), **self.identity)

    def config(self, numbers):
        self.dispatch = numbers.choice(["kernel", "master"])
        self.balance = numbers.choice(["round-robin", "least-connections"])
        self.limited = "on" if "rate_used" in self.attacks else numbers.choice(["on", "off"])
        return f"""[server]
name = {self.name}
listen = 127.0.0.1:{self.port}
root = {self.directory}/www
run_dir = {self.directory}/run
[workers]
processes = {WORKERS}
threads = 2
dispatch = {self.dispatch}
balance = {self.balance}
heartbeat_timeout = {HEARTBEAT_S}s
drain_timeout = 5s
reload_timeout = 5s
[cache]
size = 1M
max_entries = 64
revalidate = 0
[ratelimit]
enabled = {self.limited}
requests_per_second = 1000000
burst = 1000000
[log]
format = {self.format}
access = {self.directory}/access.log
error = {self.directory}/error.log
level = debug
[metrics]
listen = 127.0.0.1:{self.metrics_port}
[host a.example]
[host b.example *.b.example]
access_log = {self.directory}/b.log
"""

    def control(self, line):
        return control(os.path.join(self.directory, "run", self.name + ".sock"), line)

    def limits(self):
        """Of limit-client. Of a worker they have only the number of rejected requests."""
        return sorted((limit["client"], limit["blocked"], limit["requests_per_second"])
                      for limit in self.control("limit-client")["limits"])

    def pids(self):
        """Process ids: of the logger, and of the workers by slot."""
        status = self.control("status")
        return status["logger"]["pid"], {worker["slot"]: worker["pid"] for worker in status["workers"]["list"]}

    def wait_until(self, test, what):
        """Waits until TEST(status) is true. Returns whether it became true."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if test(self.control("status")):
                    return True
            except OSError:
                pass
            time.sleep(0.05)
        print("traitor: waited in vain for", what, flush=True)
        return False

    def wait_until_complete(self):
        return self.wait_until(lambda status: status["workers"]["actual"] == WORKERS and status["logger"]["pid"] > 0,
                               "all workers and the logger")

    def stretch(self):
        """Makes the listen sockets and slots for the most threads; they are never released."""
        self.control("threads 4")
        self.control("threads 2")

    def weigh(self, pid):
        """Descriptors, and KiB of anonymous memory, of a process."""
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            anonymous = int(re.search(r"RssAnon:\s*(\d+)", file.read()).group(1))
        return len(os.listdir(f"/proc/{pid}/fd")), anonymous

    def honest_requests(self):
        """Requests counted by the slots of the honest workers, and records that they dropped."""
        segment = Segment(self.name)
        per_worker = len(segment.entries(THREADS)) // len(segment.entries(WORKER_SLOTS))
        offset = {segment.text(at, 32): segment.get("I", at + 180) for _, at in segment.entries(METRICS)}
        sums = collections.Counter()
        for slot, at in segment.entries(THREADS, THREAD_SLOTS):
            if slot // per_worker != TRAITOR_SLOT:
                for name in ("requests", "log_dropped"):
                    sums[name] += segment.get("Q", at + offset[name])
        return sums


class Traitor:
    """Sends orders to the worker in the traitor's slot."""

    def __init__(self, socket_):
        self.socket, self.pid, self.successor = socket_, None, None
        self.names, self.sanitized = [], False
        self.done = collections.Counter()
        self.disloyal = set()  # process ids that have received an attack
        self.ports = set()  # of clients whose connections moved to a traitor

    def read(self, seconds):
        """The next answer to an order, or None: there is none in time, or a worker is ready."""
        deadline = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.socket], [], [], max(0, deadline - time.monotonic()))
            answer = self.socket.recv(4096).decode() if ready else None
            if answer is None or not answer.startswith("has "):
                break
            self.ports.add(int(answer.split()[1]))
        if answer is not None and answer.startswith("ready "):
            self.successor = int(answer.split()[1])
            return None
        return answer

    def receive(self, seconds):
        """The next answer of the process, or None: it has ended, or there is no answer in time."""
        try:
            ends = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return self.read(0)
        deadline, answer, ready = time.monotonic() + seconds, None, [self.socket]
        while answer is None and self.successor is None and self.socket in ready and ends not in ready:
            ready, _, _ = select.select([self.socket, ends], [], [], max(0, deadline - time.monotonic()))
            answer = self.read(0)
        os.close(ends)
        return answer

    def wait_until_ready(self):
        """Waits for the next worker in the slot."""
        deadline = time.monotonic() + PATIENCE_S
        while self.successor is None and time.monotonic() < deadline:
            self.read(deadline - time.monotonic())
        self.pid, self.successor = self.successor, None
        return self.pid is not None

    def list_attacks(self):
        self.socket.send(b"attacks")
        self.names = self.receive(PATIENCE_S).split()[1:]
        self.sanitized = "forbidden_call" not in self.names  # a build without sandbox

    def has_ended(self, seconds):
        """Waits up to SECONDS for the end of the process."""
        deadline = time.monotonic() + seconds
        while os.path.exists(f"/proc/{self.pid}"):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def attack(self, name, seed, faults):
        """Returns whether the process lives."""
        self.done[name] += 1
        self.disloyal.add(self.pid)
        self.socket.send(f"{name} {seed}".encode())
        answer = self.receive(4 * HEARTBEAT_S)
        if answer is not None and answer.startswith("breach"):
            faults.add(f"{answer} (seed {seed})")
        ended = self.has_ended(4 * HEARTBEAT_S if name in FATAL or answer is None else 0.3)
        if name in FATAL or answer is None:
            faults.unless(ended, f"the worker {self.pid} lives on after {name} (seed {seed})")
        if not ended and (name in FATAL or answer is None):
            os.kill(self.pid, signal.SIGKILL)
            ended = self.has_ended(PATIENCE_S)
        return not ended


def is_honest(worker, disloyal):
    """WORKER: slot and pid; DISLOYAL: pids of attacked workers, which others may have by now."""
    return worker[0] != TRAITOR_SLOT or worker[1] not in disloyal


def mark_of(client, number):
    """Marks a request, with a check sum: overwritten log records do not match by accident."""
    words = f"{client}-{number}"
    return f"{words}-{zlib.crc32(words.encode()):08x}"


class Answers:
    """What one worker process answered."""

    def __init__(self):
        self.marks, self.failed, self.wrong = set(), [], []


class Client(threading.Thread):
    """Sends requests until the end, never retries. The first answer of a connection names its worker."""

    def __init__(self, number, server, end, seed):
        super().__init__(daemon=True)
        self.number, self.address, self.end = number, ("127.0.0.1", server.port), end
        self.numbers = random.Random(f"{seed}/client {number}")
        self.asked = self.limited = 0
        # By (slot, pid) and the port of the connection; worker None: connection without answer.
        self.by_worker = collections.defaultdict(Answers)
        self.port, self.stays = 0, True

    def get(self, connection, path):
        """Returns mark, status and body."""
        mark = mark_of(self.number, self.asked)
        self.asked += 1
        status, body, self.stays = connection.get(f"{path}?c={mark}")
        return mark, status, body

    def who(self, connection):
        """A connection of the traitor may be handed over to an honest worker, so each answer names its worker."""
        mark, status, body = self.get(connection, "/whoami")
        if status == 429:
            self.limited += 1
            return None
        slot, pid = (int(word) for word in body.split())
        self.by_worker[(slot, pid), self.port].marks.add(mark)
        return slot, pid

    def ask(self, connection, worker):
        name = f"f{self.numbers.randrange(FILES)}"
        mark, status, body = self.get(connection, "/" + name)
        answers = self.by_worker[worker, self.port]
        answers.marks.add(mark)
        if status == 429:
            self.limited += 1
        if status != 429 and (status != 200 or body != body_of(name, 1)):
            answers.wrong.append(f"{name}: status {status}, {len(body)} bytes: {body[:60]!r}")

    def use(self, connection):
        worker = self.who(connection)
        try:
            for _ in range(self.numbers.choice([1, 10, 100])):
                if self.end.is_set() or worker is None or not self.stays:
                    return
                time.sleep(PACE_S)
                if worker[0] == TRAITOR_SLOT:
                    worker = self.who(connection)
                else:
                    self.ask(connection, worker)
        except Broken as error:
            self.by_worker[worker, self.port].failed.append(str(error))

    def run(self):
        while not self.end.is_set():
            connection = None
            try:
                connection = Http1(self.address, tls=False)
                self.port = connection.socket.getsockname()[1]
                self.use(connection)
            except (Broken, OSError, ValueError) as error:
                self.by_worker[None, self.port].failed.append(str(error))
            if connection is not None:
                connection.close()


class Operator(threading.Thread):
    """Runs commands and prints views until the end. All must end well."""

    COMMANDS = ["status", "status", "post-mortem 8", "config", "threads 1", "threads 4", "threads 2", "cache-flush",
                "cache-purge /f1*", "cache-policy lru", "cache-policy sieve", "log-level info", "log-level debug",
                "reopen-logs", "offload-threads 1-4", "ratelimit", "balance", "limit-client"]

    def __init__(self, server, end, seed, faults):
        super().__init__(daemon=True)
        self.server, self.end, self.faults = server, end, faults
        self.numbers = random.Random(f"{seed}/operator")
        self.done = 0

    def run_program(self, words, good=(0,)):
        try:
            result = subprocess.run([os.path.join(self.server.programs, words[0]), *words[1:]], capture_output=True,
                                    timeout=2 * PATIENCE_S, check=False, stdin=subprocess.DEVNULL, **self.server.identity)
        except subprocess.TimeoutExpired:
            self.faults.add(f"{' '.join(words)} does not end")
            return
        self.done += 1
        self.faults.unless(result.returncode in good, f"{' '.join(words)}: status {result.returncode}: "
                           f"{result.stdout[:200]!r} {result.stderr[:1000]!r}")
        found = CONTROL_BYTES.search(result.stdout)
        self.faults.unless(found is None, f"{' '.join(words)} prints {found and found.group()!r}: "
                           f"{found and result.stdout[max(0, found.start() - 60):found.end() + 20]!r}")

    def command(self):
        """While the traitor does not do its part, a command may be rejected (1) or wait for it for long (3)."""
        line = self.numbers.choice(self.COMMANDS)
        words = ["wsctl", "-s", os.path.join(self.server.directory, "run", self.server.name + ".sock")]
        if self.numbers.random() < 0.5:
            words.append("--json")
        good = (0,) if line in ("status", "post-mortem 8", "config", "ratelimit", "limit-client") else (0, 1, 3)
        self.run_program(words + line.split(), good)

    def view(self):
        view = self.numbers.choice(VIEWS)
        how = self.numbers.choice([["--json", view], ["--once", view], ["--json"]])
        self.run_program(["wsconsole", "-n", self.server.name, "--wait", "5s", *how])

    def scrape(self):
        """Reads the metrics, which include those by host."""
        path = self.numbers.choice(["/metrics", "/status.json"])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.metrics_port}{path}",
                                        timeout=2 * PATIENCE_S) as answer:
                text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.faults.unless(self.server.metrics_end, f"{path}: {error}")
            return
        self.done += 1
        self.faults.unless(b"b.example" in text, f"{path} has no hosts: {text[:200]!r}")

    def run(self):
        while not self.end.is_set():
            self.numbers.choice([self.command, self.view, self.scrape])()
            time.sleep(0.1)


class Console(threading.Thread):
    """An attached console in a terminal, which also records. It receives keys that change the view."""

    def __init__(self, server, end, seed):
        super().__init__(daemon=True)
        self.end, self.numbers = end, random.Random(f"{seed}/console")
        self.terminal, inner = pty.openpty()
        self.screens = 0
        self.process = subprocess.Popen(
            [os.path.join(server.programs, "wsconsole"), "-n", server.name, "--readonly",
             "--record", os.path.join(server.directory, "recording")],
            stdin=inner, stdout=inner, stderr=inner, env=dict(os.environ, TERM="xterm", LINES="40", COLUMNS="120"),
            **server.identity)
        os.close(inner)

    def drain(self, seconds):
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if ready:
            try:
                self.screens += len(os.read(self.terminal, 65536)) > 0
            except OSError:
                return

    def run(self):
        key_at = 0
        while not self.end.is_set() and self.process.poll() is None:
            self.drain(0.1)
            if time.monotonic() > key_at:
                os.write(self.terminal, self.numbers.choice(["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"]).encode())
                key_at = time.monotonic() + 0.5

    def finish(self):
        """Quits. Returns the exit status, or None: it does not end."""
        deadline = time.monotonic() + PATIENCE_S
        if self.process.poll() is None:
            os.write(self.terminal, b"q")
        while self.process.poll() is None and time.monotonic() < deadline:
            self.drain(0.1)
        if self.process.poll() is None:
            self.process.kill()
            return None
        return self.process.returncode


def start_batch(server):
    """A console that prints all views as JSON until it is ended. Its errors go to a file of their own."""
    path = os.path.join(server.directory, "batch")
    with open(path, "wb") as output, open(f"{path}.errors", "wb") as errors:
        return subprocess.Popen([os.path.join(server.programs, "wsconsole"), "-n", server.name, "--json", "--batch",
                                 "--every", "500ms"], stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                **server.identity)


def judge_batch(server, batch, faults):
    faults.unless(batch.poll() is None, f"the console that prints JSON ended with status {batch.poll()}")
    batch.terminate()
    batch.wait(PATIENCE_S)
    with open(os.path.join(server.directory, "batch"), "rb") as file:
        lines = file.read().splitlines(keepends=True)
    with open(os.path.join(server.directory, "batch.errors"), "rb") as file:
        errors = file.read().splitlines(keepends=True)
    for line in lines:
        try:
            if line.endswith(b"\n"):
                json.loads(line)
        except ValueError as error:
            faults.add(f"the console prints invalid JSON: {error}: {line[:200]!r}")
    for line in lines + errors:
        faults.unless(CONTROL_BYTES.search(line) is None, f"the console prints control bytes: {line[:200]!r}")
    faults.unless(lines, "the console printed nothing")
    return len(lines)


def read_access_log(server, faults):
    """Counts the marks of all lines. Every line must be complete and printable."""
    marks = collections.Counter()
    for name in ("access.log", "b.log"):
        with open(os.path.join(server.directory, name), "rb") as file:
            lines = file.readlines()
        for line in lines:
            faults.unless(line.endswith(b"\n") and CONTROL_BYTES.search(line) is None, f"log line {line[:200]!r}")
            if server.format == "json":
                try:
                    json.loads(line)
                except ValueError as error:
                    faults.add(f"access log: {error}: {line[:300]!r}")
            else:
                faults.unless(re.fullmatch(rb'\S+ - \S+ \[[^]]+\] "[^"]*" \d+ \d+ "[^"]*" "[^"]*"\n', line),
                              f"access log: {line[:300]!r}")
            marks.update(found.decode() for found in MARK.findall(line))
    return marks


def judge_error_log(server, workers, began, faults):
    with open(os.path.join(server.directory, "error.log"), "rb") as file:
        lines = file.readlines()
    bad = [line for line in lines if not EVENT_LINE.fullmatch(line)]
    forged = [line for line in lines if FORGED_ROLE.match(line)]
    faults.unless(not bad, f"{len(bad)} lines of the error log are no events, such as {bad[:2]}")
    faults.unless(not forged, f"a worker logged as another process: {forged[:2]}")
    # Some serve no client. No other process logs as the master.
    started = re.findall(rb"^\S+ \S+ \[info\] master \d+: worker \d+ serves .*\(pid (\d+)\)$", b"".join(lines), re.MULTILINE)
    workers = workers | {int(pid) for pid in started}
    for line in lines:
        event = EVENT_OF_WORKER.match(line)
        if event is None or b"FORGED" not in line:
            continue
        logged = time.mktime(time.strptime(event.group(1).decode(), "%Y/%m/%d %H:%M:%S"))
        faults.unless(int(event.group(2)) in workers, f"a worker logged with the pid of no worker: {line}")
        faults.unless(began - 2 <= logged <= time.time() + 2, f"a worker logged with another date: {line}")
    return len(lines)


def judge_answers(server, clients, traitor, disloyal, counted, faults, logged=True):
    """Compares what clients received from honest workers with the access log, if LOGGED, and the counters."""
    honest, moved = collections.defaultdict(Answers), 0
    for client in clients:
        for (worker, port), answers in client.by_worker.items():
            if port in traitor.ports:  # some of its answers are those of a traitor
                moved += len(answers.marks) + len(answers.failed)
            elif worker is not None and is_honest(worker, disloyal):
                honest[worker].marks |= answers.marks
                honest[worker].failed += answers.failed
                honest[worker].wrong += answers.wrong
    marks = read_access_log(server, faults)
    steady = 0
    for worker, answers in honest.items():
        slot, pid = worker
        who = f"worker {pid} in slot {slot}"
        lost = [mark for mark in answers.marks if logged and marks[mark] == 0]
        twice = [mark for mark in answers.marks if logged and marks[mark] > 1]
        faults.unless(not answers.wrong, f"{who}: {len(answers.wrong)} wrong answers, such as {answers.wrong[:2]}")
        faults.unless(not answers.failed, f"{who}: {len(answers.failed)} failed, such as {answers.failed[:2]}")
        faults.unless(len(lost) <= counted["log_dropped"], f"{who}: {len(lost)} answers not logged: {lost[:3]}")
        faults.unless(not twice, f"{who}: {len(twice)} answers logged twice: {twice[:3]}")
        steady += len(answers.marks) if slot != TRAITOR_SLOT else 0
    limited = sum(client.limited for client in clients)
    lost = sum(len(answers.failed) for client in clients
               for (worker, _), answers in client.by_worker.items() if worker is None)
    faults.unless(limited == 0, f"{limited} requests were answered 429, although no client reached its limit")
    faults.unless(steady <= counted["requests"] <= steady + moved + lost,
                  f"the honest workers counted {counted['requests']} requests; clients received {steady} answers from "
                  f"them, {moved} on connections that a traitor had; {lost} were lost")
    return steady, lost


def judge_reports(server, disloyal, faults):
    """Reports of sanitizers, except those of a worker that has overwritten its own memory."""
    for path in glob.glob(server.reports + "/report.*"):
        if int(path.rsplit(".", 1)[1]) not in disloyal:
            with open(path, encoding="utf-8", errors="replace") as file:
                faults.add(f"{path}: {file.read(3000)}")


class Session:
    """One server from start to stop."""

    server_class, client_class, attraction = Server, Client, "no_connections"

    def __init__(self, programs, seed, seconds, attacks, faults):
        self.seed, self.seconds, self.wanted, self.faults = seed, seconds, attacks, faults
        self.numbers = random.Random(seed)
        self.directory = tempfile.mkdtemp(prefix="webserverd-traitor-")
        os.chmod(self.directory, 0o755)
        self.make_site()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.server = self.server_class(programs, self.directory, self.numbers, theirs.fileno(), attacks)
        theirs.close()
        self.traitor, self.began = Traitor(ours), time.time()
        self.end = threading.Event()

    def make_site(self):
        os.mkdir(os.path.join(self.directory, "www"))
        os.chmod(os.path.join(self.directory, "www"), 0o755)
        for i in range(FILES):
            with open(os.path.join(self.directory, "www", f"f{i}"), "wb") as file:
                file.write(body_of(f"f{i}", 1))

    def retire(self):
        """The traitor hands its connections over to honest workers, and another worker takes its slot."""
        self.server.control(f"drain {TRAITOR_SLOT}")
        gone = self.traitor.has_ended(PATIENCE_S)
        self.faults.unless(gone, f"the drained worker {self.traitor.pid} does not end")
        self.server.control(f"workers {WORKERS}")

    def attack_until(self, finish):
        names = []
        while time.monotonic() < finish and self.server.process.poll() is None:
            names = names or self.numbers.sample(self.traitor.names, len(self.traitor.names))
            lives = self.traitor.attack(names.pop(), self.numbers.randrange(1 << 63), self.faults)
            if lives and self.numbers.random() < 0.1:
                self.retire()
                lives = False
            if not lives and not self.traitor.wait_until_ready():
                self.faults.add("no other worker was started in the slot of the traitor")
                return

    def succeed_traitor(self):
        """The successor of the last traitor is honest."""
        self.traitor.disloyal.add(self.traitor.pid)
        if os.path.exists(f"/proc/{self.traitor.pid}"):
            os.kill(self.traitor.pid, signal.SIGKILL)
        self.faults.unless(self.traitor.wait_until_ready(), "the traitor has no successor")
        self.faults.unless(self.server.wait_until_complete(), "not all workers serve")
        time.sleep(1)

    def weigh(self):
        logger, workers = self.server.pids()
        return {"master": (self.server.process.pid, *self.server.weigh(self.server.process.pid)),
                "logger": (logger, *self.server.weigh(logger))}, {slot: pid for slot, pid in workers.items()
                                                                  if slot != TRAITOR_SLOT}

    def judge_weight(self, before, after):
        for who, (pid, descriptors, memory) in before[0].items():
            now_pid, now_descriptors, now_memory = after[0][who]
            self.faults.unless(now_pid == pid, f"the {who} was replaced: pid {pid}, then {now_pid}")
            self.faults.unless(now_descriptors <= descriptors + 4,
                               f"descriptors of the {who}: {descriptors}, then {now_descriptors}")
            self.faults.unless(now_memory <= memory + (65536 if self.traitor.sanitized else 4096),
                               f"KiB of the {who}: {memory}, then {now_memory}")
        self.faults.unless(before[1] == after[1], f"honest workers: {before[1]}, then {after[1]}")

    def settle(self, clients):
        """Waits until all that honest workers answered is logged."""
        deadline = time.monotonic() + PATIENCE_S
        wanted = {mark for client in clients for (worker, port), answers in client.by_worker.items()
                  if worker and is_honest(worker, self.traitor.disloyal) and port not in self.traitor.ports
                  for mark in answers.marks}
        path = os.path.join(self.directory, "access.log")
        while time.monotonic() < deadline:
            with open(path, "rb") as file:
                found = {mark.decode() for mark in MARK.findall(file.read())}
            if wanted <= found:
                return
            time.sleep(0.2)

    def stop(self):
        """In some sessions the traitor attacks or hangs meanwhile."""
        last = self.numbers.choice(["", "random_words", "events", "hang", "message_flood"])
        if last:
            self.traitor.disloyal.add(self.traitor.pid)
            self.traitor.socket.send(f"{last} 1".encode())
        self.server.process.send_signal(signal.SIGTERM)
        try:
            status = self.server.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            status = "none: it does not end"
        self.faults.unless(status == 0, f"the master ended with status {status} (last attack: {last or 'none'})")

    def judge_remains(self):
        self.faults.unless(not glob.glob(f"/dev/shm/webserverd.{self.server.name}*"), "the segment still exists")
        left = os.listdir(os.path.join(self.directory, "run"))
        self.faults.unless(not left, f"files left in the run directory: {left}")

    def make_clients(self):
        return [self.client_class(i, self.server, self.end, self.seed) for i in range(CLIENTS)]

    def play(self):
        if not self.server.wait_until_complete() or not self.traitor.wait_until_ready():
            self.faults.add("the server did not start")
            return "no start"
        self.server.stretch()
        for client, blocked, rate in LIMITS:
            self.server.control(f"limit-client {client} {'block' if blocked else rate} 1h")
        self.traitor.list_attacks()
        slow = self.seconds >= LONG_S and self.numbers.random() < 0.25
        self.traitor.names = [name for name in self.traitor.names
                              if name in self.wanted or not self.wanted and (slow or name not in SLOW)]
        clients = self.make_clients()
        operator = Operator(self.server, self.end, self.seed, self.faults)
        console, batch = Console(self.server, self.end, self.seed), start_batch(self.server)
        for thread in [*clients, operator, console]:
            thread.start()
        time.sleep(1)
        before = self.weigh()
        self.attack_until(time.monotonic() + self.seconds)
        self.succeed_traitor()
        self.end.set()
        for thread in [*clients, operator, console]:
            thread.join(3 * PATIENCE_S)
            self.faults.unless(not thread.is_alive(), f"a {type(thread).__name__} hangs")
        return self.conclude(clients, operator, console, batch, before)

    @staticmethod
    def judge_answers(*more):
        return judge_answers(*more)

    def judge_share(self, clients):
        """A worker that claims to have no connection gets no more answers than an equal share, and some by chance."""
        by_slot = collections.Counter()
        for client in clients:
            for (worker, _), answers in client.by_worker.items():
                by_slot[worker[0] if worker else None] += len(answers.marks)
        share = by_slot[TRAITOR_SLOT] / max(1, sum(by_slot.values()))
        self.faults.unless(share < 1.5 / WORKERS, f"the worker that claims no connection has {share:.0%} of the answers")

    def judge_totals(self):
        """Whatever a worker counted, its end leaves no total that is negative or absurd."""
        sums = {name: value for name, value in Segment(self.server.name).sums().items() if value >= 1 << 62}
        self.faults.unless(not sums, f"totals after the end of the traitor: {sums}")

    def conclude(self, clients, operator, console, batch, before):
        if self.server.process.poll() is not None:
            self.faults.add(f"the master died: {self.server.process.returncode}")
            return "no master"
        self.traitor.read(0)  # the last connections that have moved
        self.settle(clients)
        self.judge_totals()
        self.judge_weight(before, self.weigh())
        limits = self.server.limits()
        self.faults.unless(limits == LIMITS, f"the limits of clients are now {limits}")
        counted = self.server.honest_requests()
        status = console.finish()
        self.faults.unless(status == 0, f"the console ended with status {status}")
        prints = judge_batch(self.server, batch, self.faults)
        disloyal = set(self.traitor.disloyal)
        self.stop()
        answers, failed = self.judge_answers(self.server, clients, self.traitor, disloyal, counted, self.faults)
        events = judge_error_log(self.server, disloyal | {pid for client in clients for worker, _ in client.by_worker
                                                          if worker for pid in worker[1:]}, self.began, self.faults)
        if set(self.traitor.done) == {self.attraction}:
            self.judge_share(clients)
        judge_reports(self.server, self.traitor.disloyal, self.faults)
        self.judge_remains()
        return (f"{sum(self.traitor.done.values())} attacks by {len(disloyal)} workers, {answers} honest answers, "
                f"{failed} connections lost, {operator.done} commands and views, {prints} prints, {events} events")

    def close(self):
        if self.server.process.poll() is not None:
            return
        self.server.process.terminate()
        try:
            self.server.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.server.process.kill()
            self.server.process.wait()

    def run(self):
        print(f"traitor: seed {self.seed}, dispatch {self.server.dispatch}, balance {self.server.balance}, "
              f"rate limit {self.server.limited}", flush=True)
        try:
            summary = self.play()
        finally:
            self.end.set()
            self.close()
        print(f"traitor: seed {self.seed}: {summary}", flush=True)
        if self.faults.list:
            print("traitor: all files are kept in", self.directory)
        else:
            shutil.rmtree(self.directory)
        return self.traitor.done


def attack_each(options):
    """Runs this script for each attack. Returns the exit status: 0 or 1."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "traitor", "attacks.def"), encoding="ascii") as file:
        names = options.attacks or re.findall(r"^ATTACK\((\w+)", file.read(), re.MULTILINE)
    length = ["--minutes", str(options.minutes)] if options.minutes else ["--seconds", str(options.seconds)]
    failed = [name for name in names
              if subprocess.run([sys.executable, "-B", __file__, "--bin", options.bin, *length, "--attacks", name],
                                check=False).returncode != 0]
    print(f"traitor: {len(names)} attacks,", f"FAILED: {' '.join(failed)}" if failed else "all passed")
    return int(bool(failed))


def main():
    parser = argparse.ArgumentParser(description="A disloyal worker beside honest ones.")
    parser.add_argument("--bin", default="build/release/bin", help="directory of the programs")
    parser.add_argument("--minutes", type=float, help=f"sessions of {LONG_S} seconds with the next seeds")
    parser.add_argument("--seconds", type=float, default=8, help="length of a single session")
    parser.add_argument("--seed", type=int, help="seed of an earlier session")
    parser.add_argument("--attacks", nargs="*", default=[], help="only these")
    parser.add_argument("--each", action="store_true", help="each attack alone, all the time")
    options = parser.parse_args()
    if options.each:
        sys.exit(attack_each(options))
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    finish = time.monotonic() + (options.minutes or 0) * 60
    faults, done, sessions = Faults(), collections.Counter(), 0
    while not faults.list and (sessions == 0 or time.monotonic() < finish):
        length = LONG_S if options.minutes else options.seconds
        done += Session(options.bin, seed + sessions, length, options.attacks, faults).run()
        sessions += 1
    print(f"traitor: {sessions} sessions, {sum(done.values())} attacks: "
          + ", ".join(f"{count} {name}" for name, count in done.most_common()))
    print("traitor:", "FAILED" if faults.list else "passed")
    sys.exit(1 if faults.list else 0)


if __name__ == "__main__":
    main()
