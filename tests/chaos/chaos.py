#!/usr/bin/env python3
"""Random operations on a loaded server while clients check and count every answer.

The operations: change threads and workers, with --models also the concurrency model and the connection queue, turn balancing off and on, reload, rotate logs, cache commands, replace and
truncate files, clients that stall and reset; with options also binary upgrades, killed workers and loggers, stopped
processes, a full log disk, a full /dev/shm. Counting clients, over HTTP/1.1 and HTTP/2, with and without TLS, request
files that are replaced by rename. They never retry, and mark each request so that it can be found in the logs. The
test checks:

  each answer is a complete version of its file; without kills no request fails, and each is in the logs exactly
  once; with kills at most the requests in progress fail; counters, log lines and answers agree; memory and
  descriptors do not grow; nothing is left behind.

    chaos.py --bin build/release/bin --seconds 300 --dispatch master --kill --upgrade --full --pause

It ends after --seconds, but not before --requests and --operations are reached. With --pace the clients pause between
bursts, longer while the test waits for an operation that takes long.

It prints its seed; --seed repeats the same decisions (not the same timing). Exit status 0 or 1.
"""

import argparse
import collections
import functools
import glob
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from connections import KINDS, Broken, Http1, Refused  # noqa: E402
from processes import (  # noqa: E402
    PATIENCE_S, Fault, Filler, adopt_orphans, control, free_port, kill_descendants, kill_if_alive, mount_own, parents,
    reap, unmount, wait_until)

FILES = 24
CLIENTS = 16
BURST = 10  # requests between two pauses of a client, on average
LONG_S, LONGER = 0.5, 5  # pauses are that much longer after that part of an operation
LARGEST = 3_000_000
LOG_BYTES = 32 * 1024 * 1024  # rotated when larger; a full disk is an action of its own
WORKERS_MOST, THREADS_MOST = 4, 8


@functools.lru_cache(maxsize=8 * FILES)
def body_of(name, version):
    """The content of NAME in VERSION. It names both, so that a client can generate and compare it."""
    head = f"{name} {version}\n".encode()
    numbers = random.Random(f"{name}/{version}")
    size = int(10 ** numbers.uniform(1, 4.5))
    if numbers.random() < 0.02:
        size = LARGEST
    return head + numbers.randbytes(size)


class Site:
    """The document root. Files f* are replaced by rename, files m* are truncated and filled in place."""

    def __init__(self, directory, numbers):
        self.directory, self.numbers = directory, numbers
        self.version = collections.Counter()
        os.mkdir(directory)
        os.chmod(directory, 0o755)
        for i in range(FILES):
            self.replace(f"f{i}")
            self.fill(f"m{i % 4}")

    def replace(self, name):
        self.version[name] += 1
        path = os.path.join(self.directory, name)
        with open(path + ".new", "wb") as file:
            file.write(body_of(name, self.version[name]))
        os.rename(path + ".new", path)

    def fill(self, name):
        with open(os.path.join(self.directory, name), "wb") as file:
            file.write(b"x" * self.numbers.randrange(1, LARGEST))

    def cut(self, name):
        os.truncate(os.path.join(self.directory, name), self.numbers.randrange(0, 1000))


class Pace:
    """The pauses of the clients."""

    def __init__(self, milliseconds):
        self.mean, self.began = milliseconds / 1000 * BURST, time.monotonic()

    def begin_operation(self):
        self.began = time.monotonic()

    def pause(self, numbers):
        if self.mean > 0 and numbers.random() < 1 / BURST:
            longer = LONGER if time.monotonic() - self.began > LONG_S else 1
            time.sleep(numbers.uniform(0, 2 * self.mean * longer))


class Marks:
    """How often each request of each client was seen."""

    def __init__(self):
        self.counts = [bytearray() for _ in range(CLIENTS)]

    def add(self, client, request):
        counts = self.counts[client]
        if request >= len(counts):
            counts.extend(bytes(request + 1024 - len(counts)))
        counts[request] = min(counts[request] + 1, 255)

    def count(self, client, request):
        return self.counts[client][request] if request < len(self.counts[client]) else 0

    def all(self):
        """Each request that was seen, and how often."""
        for client, counts in enumerate(self.counts):
            for request, count in enumerate(counts):
                if count:
                    yield (client, request), count


class Client(threading.Thread):
    """Sends requests until the end, never retries, and records all results."""

    def __init__(self, number, ports, end, seed, answered, pace, models):
        super().__init__(daemon=True)
        kinds = [kind for kind in KINDS if kind[0] is Http1 or not models]  # pool and thread speak HTTP/1 only
        self.kind, self.tls = kinds[number % len(kinds)]
        self.expected = (200, 503) if models else (200,)  # 503: dropped from a full queue
        self.pace = pace
        self.number, self.address, self.end = number, ("127.0.0.1", ports[self.tls]), end
        self.numbers = random.Random(f"{seed}/client {number}")
        self.answered, self.failed, self.wrong = answered, [], []
        self.asked = 0

    def check(self, name, answer):
        status, body, _ = answer
        if status not in self.expected:
            self.wrong.append(f"{name}: status {status}: {body[:100]!r}")
        if status != 200:
            return
        said, _, _ = body.partition(b"\n")
        try:
            version = int(said.split()[1])
        except (IndexError, ValueError):
            version = 0
        if body != body_of(name, version):
            self.wrong.append(f"{name}: {len(body)} bytes, beginning with {said[:40]!r}")

    def ask(self, connection):
        name = f"f{self.numbers.randrange(FILES)}"
        request = self.asked
        self.asked += 1
        answer = connection.get(f"/{name}?c={self.number}-{request}")
        self.answered.add(self.number, request)
        self.check(name, answer)
        self.pace.pause(self.numbers)
        return answer[2]

    def run(self):
        while not self.end.is_set():
            connection = None
            try:
                connection = self.kind(self.address, self.tls)
                for _ in range(self.numbers.choice([1, 10, 200])):
                    if not self.ask(connection) or self.end.is_set():
                        break
            except Refused:
                pass
            except (Broken, OSError) as error:
                how = self.kind.__name__ + (" over TLS" if self.tls else "")
                self.failed.append((time.monotonic(), f"{self.number}-{self.asked - 1}, {how}: {error}"))
            if connection is not None:
                connection.close()


class Nuisance(threading.Thread):
    """A client that stalls, disconnects early, or requests files that change in place."""

    def __init__(self, number, address, end, seed):
        super().__init__(daemon=True)
        self.address, self.end = address, end
        self.numbers = random.Random(f"{seed}/nuisance {number}")

    def reset(self, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def once(self):
        words = f"GET /m{self.numbers.randrange(4)} HTTP/1.1\r\nHost: chaos\r\n\r\n".encode()
        with socket.create_connection(self.address, timeout=5) as connection:
            part = self.numbers.choice([words[:20], words, words * 5])
            connection.sendall(part)
            if self.numbers.random() < 0.5:
                time.sleep(self.numbers.random())
            for _ in range(self.numbers.randrange(20)):
                connection.recv(self.numbers.choice([1, 1000, 100000]))
            if self.numbers.random() < 0.5:
                self.reset(connection)

    def run(self):
        while not self.end.is_set():
            try:
                self.once()
            except OSError:
                pass


class Server:
    def __init__(self, options, directory, numbers):
        self.bin, self.directory, self.numbers = options.bin, directory, numbers
        self.models = options.models
        self.name, self.port, self.tls_port = f"chaos-{os.getpid()}", free_port(), free_port()
        self.config = os.path.join(directory, "webserver.ini")
        self.dispatch, self.summary_interval = options.dispatch, "24h"
        self.logs = os.path.join(directory, "logs")
        self.rotations, self.ended = 0, {}
        os.mkdir(self.logs)
        self.full = options.full and mount_own("/dev/shm", 256) and mount_own(self.logs, 256)
        if self.full != options.full:
            print("chaos: no mount namespace: nothing gets full")
        os.chmod(self.logs, 0o755)
        self.write_config(cache_size="16M", index="index.html")
        subprocess.run([os.path.join(self.bin, "webserverd"), "--self-signed", directory], stdout=subprocess.DEVNULL,
                       check=True)
        with open(os.path.join(directory, "output"), "wb") as output:
            process = subprocess.Popen([os.path.join(self.bin, "webserverd"), "-f", self.config], stdout=output,
                                       stderr=subprocess.STDOUT, env=dict(os.environ, XDG_RUNTIME_DIR=directory))
        process.returncode = 0  # its status is in `ended`
        self.master = process.pid

    def has_ended(self, pid):
        reap(self.ended)
        return pid in self.ended

    def lives(self):
        return not self.has_ended(self.master)

    def write_config(self, cache_size, index):
        with open(self.config + ".new", "w", encoding="ascii") as file:
            file.write(f"""[server]
name = {self.name}
listen = 127.0.0.1:{self.port} https://127.0.0.1:{self.tls_port}
root = {self.directory}/www
run_dir = {self.directory}/run
index = {index}
[tls]
certificate = {self.directory}/localhost.pem
key = {self.directory}/localhost.key
keys_process = {"off" if self.models else "on"}
[workers]
processes = 2
threads = 2
dispatch = {self.dispatch}
drain_timeout = 20s
[connections]
header_timeout = 10s
send_timeout = 10s
[cache]
size = {cache_size}
revalidate = 0
[log]
access = {self.logs}/access.log
error = {self.directory}/error.log
summary_interval = {self.summary_interval}
""")
        os.rename(self.config + ".new", self.config)

    def control(self, *words):
        return control(os.path.join(self.directory, "run", self.name + ".sock"), " ".join(words))

    def wait_until_ready(self):
        wait_until(lambda: not self.lives() or self.serving() == 2, "the start")
        if not self.lives():
            raise SystemExit("chaos: the server did not start; see " + self.directory)

    def serving(self):
        """The number of workers that serve; 0: the server is not ready for commands."""
        try:
            return self.control("status")["workers"]["actual"]
        except OSError:
            return 0

    def serving_master(self):
        """The process id of the master that has the control socket; 0: none."""
        try:
            return self.control("ping")["pid"]
        except (OSError, KeyError):
            return 0

    def upgrade(self):
        """Replaces the master. The old one must exit well, and logs its last summary."""
        before = self.master
        self.control("log-level info")
        reap(self.ended)
        self.ended.clear()  # the kernel uses process ids again
        os.kill(before, signal.SIGUSR2)
        wait_until(lambda: self.serving_master() not in (0, before) or self.has_ended(before), "the new master")
        self.master = self.serving_master()
        wait_until(lambda: self.has_ended(before), "the end of the old master")
        if self.ended[before] != 0:
            raise Fault(f"master {before} ended with wait status {self.ended[before]:#x}")

    def workers(self):
        return [worker["pid"] for worker in self.control("status")["workers"]["list"]]

    def logger(self):
        return self.control("status")["logger"]["pid"]

    def rotate(self):
        """The rotated file leaves the directory, which may be small."""
        self.rotations += 1
        log = os.path.join(self.logs, "access.log")
        os.rename(log, f"{log}.1")
        answer = self.control("reopen-logs")
        shutil.move(f"{log}.1", os.path.join(self.directory, f"access.log.{self.rotations}"))
        return answer

    def log_size(self):
        return os.path.getsize(os.path.join(self.logs, "access.log"))

    def memory_slack(self):
        """KiB by which the master may grow."""
        with open(os.path.join(self.bin, "webserverd"), "rb") as file:
            code = file.read()
        if b"__tsan_init" in code:
            return sys.maxsize  # TSan's own memory grows with every fork
        return 65536 if b"__asan_init" in code else 4096  # ASan keeps freed memory in quarantine

    def weigh(self):
        """Usage of the master with two workers of two threads each, which had its largest size before: descriptors,
        KiB of anonymous memory, KiB of shared memory."""
        self.stretch()
        self.control("workers", "2")
        self.control("threads", "2")
        wait_until(lambda: workers_serve(self.control("status")), "the end of the leaving workers")
        with open(f"/proc/{self.master}/status", encoding="ascii") as file:
            anonymous = int(re.search(r"RssAnon:\s*(\d+)", file.read()).group(1))
        shared = os.stat(glob.glob(f"/dev/shm/webserverd.{self.name}.*")[0]).st_blocks // 2
        return len(os.listdir(f"/proc/{self.master}/fd")), anonymous, shared

    def stretch(self):
        """Grows the server to its largest size, with two generations at once. Listening sockets and slots
        are never released, so later growth would be a leak."""
        if self.models:
            self.control("model", "events")
        self.control("workers", str(WORKERS_MOST))
        self.control("threads", str(THREADS_MOST))
        self.control("restart", "all")
        self.write_config(cache_size="64M", index="index.html")
        self.control("reload")


class Chaos:
    def __init__(self, options, server, site, numbers, pace):
        self.server, self.site, self.numbers, self.pace = server, site, numbers, pace
        self.kills, self.done, self.refused = [], collections.Counter(), []
        self.actions = [self.threads, self.threads, self.workers, self.balance]
        if not options.moves:
            self.actions += [
                self.reload, self.rotate, self.flush, self.policy, self.cache_size, self.level,
                self.replace, self.replace, self.replace, self.cut, self.offload, self.restart]
        if options.models:  # offload-threads is refused by pool and thread
            self.actions = [action for action in self.actions if action != self.offload]
            self.actions += [self.model, self.model, self.queue]
        if options.kill:
            self.actions += [self.kill, self.kill_logger]
        if options.upgrade:
            self.actions.append(self.upgrade)
        if options.pause:
            self.actions.append(self.pause)
        if server.full:
            self.actions += [self.full_log_disk, self.full_shared_memory]

    def ask(self, *words):
        answer = self.server.control(*words)
        if not answer["ok"]:
            self.refused.append(f"{' '.join(words)}: {answer['error']}")

    def threads(self):
        self.ask("threads", str(self.numbers.choice([1, 2, 3, 5, THREADS_MOST])))

    def workers(self):
        self.ask("workers", str(self.numbers.randint(1, WORKERS_MOST)))

    def model(self):
        """Refused while a reload by SIGHUP is under way."""
        answer = self.server.control("model", self.numbers.choice(["events", "pool", "thread"]))
        if not answer["ok"] and "under way" not in answer["error"]:
            self.refused.append(f"model: {answer['error']}")

    def queue(self):
        self.ask("queue", self.numbers.choice(["fifo", "lifo", "sff"]),
                 self.numbers.choice(["block", "drop-tail", "drop-head", "drop-random"]),
                 self.numbers.choice(["1", "4", "64"]))

    def balance(self):
        """Refused by pool and thread."""
        answer = self.server.control("balance", self.numbers.choice(["on", "on", "off"]))
        if not answer["ok"] and "moves no connections" not in answer["error"]:
            self.refused.append(f"balance: {answer['error']}")

    def offload(self):
        self.ask("offload-threads", self.numbers.choice(["1", "4", "1-8"]))

    def restart(self):
        self.ask("restart", "all")

    def reload(self):
        self.server.write_config(cache_size=self.numbers.choice(["1M", "16M", "64M"]),
                                 index=self.numbers.choice(["index.html", "other.html"]))
        if self.numbers.random() < 0.3:
            os.kill(self.server.master, signal.SIGHUP)
        else:
            self.ask("reload")

    def rotate(self):
        self.server.rotate()

    def flush(self):
        self.ask(*self.numbers.choice([["cache-flush"], ["cache-purge", "/f1*"]]))

    def policy(self):
        self.ask("cache-policy", self.numbers.choice(["sieve", "lru"]))

    def cache_size(self):
        self.ask("cache-size", self.numbers.choice(["4M", "32M"]))

    def level(self):
        self.ask("log-level", self.numbers.choice(["debug", "info", "warn"]))

    def replace(self):
        for _ in range(5):
            self.site.replace(f"f{self.numbers.randrange(FILES)}")

    def cut(self):
        name = f"m{self.numbers.randrange(4)}"
        self.site.cut(name)
        self.site.fill(name)

    def kill(self):
        victims = self.server.workers()
        if victims:
            self.kills.append(time.monotonic())
            kill_if_alive(self.numbers.choice(victims))

    def kill_logger(self):
        logger = self.server.logger()
        if logger > 0:
            kill_if_alive(logger)

    def upgrade(self):
        self.server.upgrade()

    def pause(self):
        """Stops a process for a moment that is shorter than the timeouts."""
        victim = self.numbers.choice(list(parents()))
        try:
            os.kill(victim, signal.SIGSTOP)
            time.sleep(self.numbers.uniform(0, 1))
            os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def full_log_disk(self):
        """For less than log.wait_timeout, so that no line is lost."""
        with Filler(self.server.logs):
            time.sleep(self.numbers.uniform(0, 1))

    def full_shared_memory(self):
        """Changes are made or refused."""
        with Filler("/dev/shm"):
            for line in ["reload", f"threads {THREADS_MOST}", f"workers {WORKERS_MOST}", "threads 2"]:
                self.server.control(line)

    def happen(self):
        if self.server.log_size() > LOG_BYTES:
            self.server.rotate()
        action = self.numbers.choice(self.actions)
        self.done[action.__name__] += 1
        self.pace.begin_operation()
        action()


def logged_marks(server):
    marks, lines = Marks(), 0
    for path in glob.glob(os.path.join(server.directory, "access.log*")) + [os.path.join(server.logs, "access.log")]:
        with open(path, encoding="latin-1") as file:
            for line in file:
                lines += 1
                if found := re.search(r"\?c=([0-9]+)-([0-9]+) ", line):
                    marks.add(int(found.group(1)), int(found.group(2)))
    return marks, lines


class Verdict:
    def __init__(self):
        self.faults = []

    def hold(self, good, words):
        if not good:
            self.faults.append(words)


def judge_answers(verdict, clients, answered, kills, marks, dropped):
    failures = [failure for client in clients for failure in client.failed]
    wrong = [words for client in clients for words in client.wrong]
    in_flight = CLIENTS * len(kills)
    verdict.hold(not wrong, f"{len(wrong)} wrong answers, such as {wrong[:3]}")
    verdict.hold(len(failures) <= in_flight,
                 f"{len(failures)} requests failed, such as {failures[:3]}; at most {in_flight} "
                 "could be in progress at the kills")
    received = [mark for mark, _ in answered.all()]
    unlogged = [mark for mark in received if marks.count(*mark) == 0]
    verdict.hold(len(unlogged) <= in_flight + dropped,
                 f"{len(unlogged)} answers are missing in the logs, {dropped} lines were dropped: {unlogged[:3]}")
    twice = [mark for mark, count in marks.all() if count > 1]
    verdict.hold(not twice, f"{len(twice)} answers are in the logs twice: {twice[:3]}")
    return len(received), len(failures)


def judge_counters(verdict, status, lines, requests, dropped, kills):
    """Counters are in shared memory, survive a killed worker, and go on over an upgrade."""
    verdict.hold(abs(requests - lines - dropped) <= (CLIENTS + 8) * 8 * len(kills),
                 f"the server counted {requests} requests, logged {lines} lines and dropped {dropped}")
    moved = {why: status["metrics"][f"connections_moved_{why}"] for why in ("leaving", "resize", "uneven")}
    adopted = status["metrics"]["connections_adopted"]
    print(f"chaos: {adopted} connections moved to another thread since the last upgrade:", moved)
    verdict.hold(adopted <= sum(moved.values()), f"{adopted} connections were adopted, but fewer moved: {moved}")


def judge_remains(verdict, server, before, after):
    print("chaos: master: descriptors, memory and shared memory (KiB):", before, "before,", after, "after")
    # stretch() has used the slots of two generations, which are never released. While old workers leave, a resize and
    # a restart can use those of a third one. After an upgrade there is also what the old masters counted.
    for what, most, first, last in zip(
            ("descriptors of the master", "KiB of the master", "KiB of shared memory"),
            (4, server.memory_slack(), before[2]), before, after):
        verdict.hold(last <= first + most, f"{what}: {first}, then {last}")
    verdict.hold(not glob.glob(f"/dev/shm/webserverd.{server.name}*"), "the shared memory still exists")
    left = os.listdir(os.path.join(server.directory, "run"))
    verdict.hold(not left, f"files left in the run directory: {left}")


def unaccepted(port):
    """Connections in the accept queues. They may hold requests of clients that have disconnected."""
    waiting = 0
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].split(":")[1], 16) == port:
                waiting += int(fields[4].split(":")[1], 16)
    return waiting


def workers_serve(status):
    """True if there are no others than those wanted, and none leaves."""
    workers = status["workers"]
    return (len(workers["list"]) == workers["wanted"]
            and all(worker["state"] == "serving" and worker["generation"] == status["generation"]
                    for worker in workers["list"]))


def is_quiet(server, status):
    metrics = status["metrics"]
    return (unaccepted(server.port) == 0 and metrics["connections_open"] == 0
            and metrics["dispatch_pending"] == 0 and metrics["log_lines"] >= metrics["requests"]
            and workers_serve(status))


def settle(server):
    """Waits until the last resize or reload is in force and all requests are answered and logged, in
    two successive looks."""
    deadline = time.monotonic() + PATIENCE_S
    requests = None
    while time.monotonic() < deadline:
        status = server.control("status")
        if not is_quiet(server, status):
            requests = None
        elif requests == status["metrics"]["requests"]:
            break
        else:
            requests = status["metrics"]["requests"]
        time.sleep(0.1)
    return status


def run(options):
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    print(f"chaos: seed {seed}, {options.seconds} s, dispatch {options.dispatch}, "
          f"{'with' if options.kill else 'without'} kills", flush=True)
    adopt_orphans()
    numbers = random.Random(seed)
    directory = tempfile.mkdtemp(prefix="webserverd-chaos-")
    os.chmod(directory, 0o755)
    site = Site(os.path.join(directory, "www"), numbers)
    server = Server(options, directory, numbers)
    try:
        verdict = play(options, seed, numbers, site, server)
    finally:
        kill_descendants()
    for fault in verdict.faults:
        print("chaos: FAULT:", fault)
    if verdict.faults:
        print(f"chaos: seed {seed}; all files are kept in {directory}")
        return 1
    if server.full:
        unmount(server.logs)
    shutil.rmtree(directory)
    print("chaos: passed")
    return 0


def play(options, seed, numbers, site, server):
    server.wait_until_ready()
    server.stretch()
    end = threading.Event()
    address, answered, pace = ("127.0.0.1", server.port), Marks(), Pace(options.pace)
    ports = (server.port, server.tls_port)
    clients = [Client(i, ports, end, seed, answered, pace, options.models) for i in range(CLIENTS)]
    nuisances = [Nuisance(i, address, end, seed) for i in range(4)]
    chaos, verdict = Chaos(options, server, site, numbers, pace), Verdict()
    for thread in clients + nuisances:
        thread.start()
    finish = time.monotonic() + options.seconds
    before = None

    def requests():
        return sum(client.asked for client in clients)

    def enough():
        return chaos.done.total() >= options.operations and requests() >= options.requests

    asked, progress = 0, finish  # an operation that takes too long ends with a Fault
    try:
        while server.lives() and (time.monotonic() < finish
                                  or not enough() and time.monotonic() < progress + PATIENCE_S):
            chaos.happen()
            if requests() > asked:
                asked, progress = requests(), max(finish, time.monotonic())
            if before is None and time.monotonic() > finish - options.seconds * 0.7:
                before = server.weigh()
            time.sleep(numbers.random() * 0.3)
    except (Fault, OSError) as fault:
        verdict.hold(False, f"{list(chaos.done)[-1]}: {fault}")
    verdict.hold(enough(), f"only {chaos.done.total()} operations and {requests()} requests")
    conclude(verdict, server, chaos, clients, nuisances, answered, end, before)
    return verdict


def ended_well(server):
    os.kill(server.master, signal.SIGTERM)
    try:
        wait_until(lambda: server.has_ended(server.master), "the end of the master")
    except Fault:
        with open(f"/proc/{server.master}/status", encoding="ascii") as file:
            print("chaos: the master does not exit:", file.readlines()[2].strip(), parents())
        return False
    return server.ended[server.master] == 0


def conclude(verdict, server, chaos, clients, nuisances, answered, end, before):
    verdict.hold(server.lives(), "the master exited early")
    end.set()
    for thread in clients + nuisances:
        thread.join(PATIENCE_S)
        verdict.hold(not thread.is_alive(), "a client hangs")
    if not server.lives():
        return
    status = settle(server)
    after = server.weigh()
    verdict.hold(not chaos.refused, f"refused: {chaos.refused[:5]}")
    verdict.hold(ended_well(server), "the server did not exit with status 0")
    marks, lines = logged_marks(server)
    requests, dropped = status["metrics"]["requests"], status["metrics"]["log_dropped"]
    received, failed = judge_answers(verdict, clients, answered, chaos.kills, marks, dropped)
    judge_counters(verdict, status, lines, requests, dropped, chaos.kills)
    judge_remains(verdict, server, before or after, after)
    print(f"chaos: {received} answers, {failed} failed, {lines} lines in {server.rotations + 1} logs, {requests} requests "
          f"counted, {dropped} lines dropped, {len(chaos.kills)} workers killed; "
          + ", ".join(f"{n} {w}" for w, n in chaos.done.most_common()))


def main():
    parser = argparse.ArgumentParser(description="Random operations on a loaded server.")
    parser.add_argument("--bin", default="build/release/bin", help="directory of the programs")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--operations", type=int, default=0, help="go on until that many are done")
    parser.add_argument("--requests", type=int, default=0, help="go on until that many are sent")
    parser.add_argument("--pace", type=float, default=0, help="mean pause of a client, in ms per request")
    parser.add_argument("--dispatch", choices=["kernel", "master"], default="kernel")
    parser.add_argument("--moves", action="store_true", help="only operations that move connections")
    parser.add_argument("--models", action="store_true", help="also change the concurrency model and the queue, over HTTP/1")
    parser.add_argument("--kill", action="store_true", help="also kill workers and loggers")
    parser.add_argument("--upgrade", action="store_true", help="also upgrade the binary")
    parser.add_argument("--pause", action="store_true", help="also stop processes for a moment")
    parser.add_argument("--full", action="store_true", help="also fill the log disk and /dev/shm (as root)")
    parser.add_argument("--seed", type=int, help="seed of an earlier run")
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
