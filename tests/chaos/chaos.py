#!/usr/bin/env python3
"""Random operations on a loaded server while clients check and count every answer.

The operations: change threads and workers, reload, rotate logs, cache commands, kill workers, replace and
truncate files, clients that stall and reset. Counting clients request files that are replaced by rename. They
never retry, and mark each request so that it can be found in the logs. The test checks:

  each answer is a complete version of its file; without kills no request fails, and each is in the logs exactly
  once; with kills at most the requests in progress fail; counters, log lines and answers agree; memory and
  descriptors do not grow; nothing is left behind.

    chaos.py --bin build/release/bin --seconds 300 --dispatch master --kill

It prints its seed; --seed repeats the same decisions (not the same timing). Exit status 0 or 1.
"""

import argparse
import collections
import glob
import json
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

FILES = 24
CLIENTS = 16
PATIENCE_S = 60
LARGEST = 3_000_000
WORKERS_MOST, THREADS_MOST = 4, 8


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


class Broken(Exception):
    """A missing or incomplete answer."""


class Connection:
    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = self.socket.makefile("rb")

    def get(self, target):
        """Returns status, fields and body of the answer."""
        try:
            self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: chaos\r\n\r\n".encode())
            status = self.read.readline()
            if not status.startswith(b"HTTP/1.1 "):
                raise Broken(f"no status line: {status!r}")
            fields = {}
            while (line := self.read.readline()) != b"\r\n":
                if not line:
                    raise Broken("connection closed within the head")
                name, _, value = line.partition(b":")
                fields[name.lower()] = value.strip()
            length = int(fields[b"content-length"])
            body = self.read.read(length)
            if len(body) < length:
                raise Broken(f"{len(body)} of {length} bytes")
        except (OSError, KeyError) as error:
            raise Broken(repr(error)) from error
        return int(status.split()[1]), fields, body

    def close(self):
        self.read.close()
        self.socket.close()


class Client(threading.Thread):
    """Sends requests until the end, never retries, and records all results."""

    def __init__(self, number, address, end, seed):
        super().__init__(daemon=True)
        self.number, self.address, self.end = number, address, end
        self.numbers = random.Random(f"{seed}/client {number}")
        self.answered, self.failed, self.wrong = set(), [], []
        self.asked = 0

    def check(self, name, answer):
        status, _, body = answer
        if status != 200:
            self.wrong.append(f"{name}: status {status}: {body[:100]!r}")
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
        mark = f"{self.number}-{self.asked}"
        self.asked += 1
        answer = connection.get(f"/{name}?c={mark}")
        self.answered.add(mark)
        self.check(name, answer)
        return answer[1].get(b"connection") != b"close"

    def run(self):
        while not self.end.is_set():
            connection = None
            try:
                connection = Connection(self.address)
                for _ in range(self.numbers.choice([1, 10, 200])):
                    if not self.ask(connection) or self.end.is_set():
                        break
            except (Broken, OSError) as error:
                self.failed.append((time.monotonic(), f"{self.number}-{self.asked - 1}: {error}"))
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
        self.name = f"chaos-{os.getpid()}"
        self.config = os.path.join(directory, "webserver.ini")
        self.dispatch = options.dispatch
        self.rotations = 0
        self.write_config(cache_size="16M", index="index.html")
        environment = dict(os.environ, XDG_RUNTIME_DIR=directory)
        self.process = subprocess.Popen(
            [os.path.join(self.bin, "webserverd"), "-f", self.config],
            stdout=open(os.path.join(directory, "output"), "wb"),
            stderr=subprocess.STDOUT, env=environment)

    def write_config(self, cache_size, index):
        with open(self.config + ".new", "w", encoding="ascii") as file:
            file.write(f"""[server]
name = {self.name}
listen = 127.0.0.1:{self.port()}
root = {self.directory}/www
run_dir = {self.directory}/run
index = {index}
[workers]
processes = 2
threads = 2
dispatch = {self.dispatch}
drain_timeout = 20s
[connections]
header_timeout = 2s
send_timeout = 2s
[cache]
size = {cache_size}
revalidate = 0
[log]
access = {self.directory}/access.log
error = {self.directory}/error.log
""")
        os.rename(self.config + ".new", self.config)

    def port(self):
        """Chosen once: a reload must keep the port."""
        if not hasattr(self, "chosen"):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.chosen = probe.getsockname()[1]
        return self.chosen

    def control(self, *words):
        line = " ".join(words).encode() + b"\n"
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE_S)
            control.connect(os.path.join(self.directory, "run", self.name + ".sock"))
            control.sendall(line)
            answer = control.makefile("rb").readline()
        return json.loads(answer)

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                status = self.control("status")
                if status["workers"]["actual"] == 2:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit("chaos: the server did not start; see " + self.directory)

    def workers(self):
        return [worker["pid"] for worker in self.control("status")["workers"]["list"]]

    def rotate(self):
        self.rotations += 1
        log = os.path.join(self.directory, "access.log")
        os.rename(log, f"{log}.{self.rotations}")
        return self.control("reopen-logs")

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                  encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def sanitized(self):
        version = subprocess.run([os.path.join(self.bin, "webserverd"), "-V"], capture_output=True,
                                 text=True, check=True)
        return "sanitizer" in version.stdout

    def weigh(self):
        """Usage of the master with two workers of two threads each: descriptors, KiB of anonymous
        memory, KiB of shared memory."""
        self.control("workers", "2")
        self.control("threads", "2")
        pid = self.process.pid
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            anonymous = int(re.search(r"RssAnon:\s*(\d+)", file.read()).group(1))
        shared = os.stat(f"/dev/shm/webserverd.{self.name}").st_blocks // 2
        return len(os.listdir(f"/proc/{pid}/fd")), anonymous, shared

    def stretch(self):
        """Grows the server to its largest size, with two generations at once. Listening sockets and slots
        are never released, so later growth would be a leak."""
        self.control("workers", str(WORKERS_MOST))
        self.control("threads", str(THREADS_MOST))
        self.control("restart", "all")
        self.write_config(cache_size="64M", index="index.html")
        self.control("reload")


class Chaos:
    def __init__(self, options, server, site, numbers):
        self.server, self.site, self.numbers = server, site, numbers
        self.kills, self.done, self.refused = [], collections.Counter(), []
        self.actions = [
            self.threads, self.threads, self.workers, self.reload, self.rotate, self.flush,
            self.policy, self.cache_size, self.level, self.replace, self.replace, self.replace,
            self.cut, self.offload, self.restart]
        if options.kill:
            self.actions.append(self.kill)

    def ask(self, *words):
        answer = self.server.control(*words)
        if not answer["ok"]:
            self.refused.append(f"{' '.join(words)}: {answer['error']}")

    def threads(self):
        self.ask("threads", str(self.numbers.choice([1, 2, 3, 5, THREADS_MOST])))

    def workers(self):
        self.ask("workers", str(self.numbers.randint(1, WORKERS_MOST)))

    def offload(self):
        self.ask("offload-threads", self.numbers.choice(["1", "4", "1-8"]))

    def restart(self):
        self.ask("restart", "all")

    def reload(self):
        self.server.write_config(cache_size=self.numbers.choice(["1M", "16M", "64M"]),
                                 index=self.numbers.choice(["index.html", "other.html"]))
        if self.numbers.random() < 0.3:
            os.kill(self.server.process.pid, signal.SIGHUP)
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
            os.kill(self.numbers.choice(victims), signal.SIGKILL)

    def happen(self):
        action = self.numbers.choice(self.actions)
        self.done[action.__name__] += 1
        action()


def logged_marks(directory):
    marks, lines = collections.Counter(), 0
    for path in glob.glob(os.path.join(directory, "access.log*")):
        with open(path, encoding="latin-1") as file:
            for line in file:
                lines += 1
                found = re.search(r"\?c=([0-9]+-[0-9]+) ", line)
                if found:
                    marks[found.group(1)] += 1
    return marks, lines


class Verdict:
    def __init__(self):
        self.faults = []

    def hold(self, good, words):
        if not good:
            self.faults.append(words)


def judge_answers(verdict, clients, kills, marks):
    answered = set().union(*(client.answered for client in clients))
    failures = [failure for client in clients for failure in client.failed]
    wrong = [words for client in clients for words in client.wrong]
    in_flight = CLIENTS * len(kills)
    verdict.hold(not wrong, f"{len(wrong)} wrong answers, such as {wrong[:3]}")
    verdict.hold(len(failures) <= in_flight,
                 f"{len(failures)} requests failed, such as {failures[:3]}; at most {in_flight} "
                 "could be in progress at the kills")
    unlogged = [mark for mark in answered if mark not in marks]
    verdict.hold(len(unlogged) <= in_flight, f"{len(unlogged)} answers are missing in the logs: {unlogged[:3]}")
    twice = [mark for mark, count in marks.items() if count > 1]
    verdict.hold(not twice, f"{len(twice)} answers are in the logs twice: {twice[:3]}")
    return len(answered), len(failures)


def judge_counters(verdict, status, lines, kills):
    """Counters are in shared memory and survive a killed worker."""
    requests = status["metrics"]["requests"]
    verdict.hold(abs(requests - lines) <= (CLIENTS + 8) * 8 * len(kills),
                 f"the server counted {requests} requests and logged {lines} lines")


def judge_remains(verdict, server, before, after):
    print("chaos: master: descriptors, memory and shared memory (KiB):", before, "before,", after, "after")
    memory = 4096 if not server.sanitized() else 65536  # ASan keeps freed memory in quarantine
    for what, most, first, last in zip(
            ("descriptors of the master", "KiB of the master", "KiB of shared memory"),
            (4, memory, 0), before, after):
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


def is_quiet(server, status):
    metrics, workers = status["metrics"], status["workers"]
    return (unaccepted(server.port()) == 0 and metrics["connections_open"] == 0
            and metrics["dispatch_pending"] == 0 and metrics["log_lines"] >= metrics["requests"]
            and len(workers["list"]) == workers["wanted"]
            and all(worker["state"] == "serving" and worker["generation"] == status["generation"]
                    for worker in workers["list"]))


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
    numbers = random.Random(seed)
    directory = tempfile.mkdtemp(prefix="webserverd-chaos-")
    os.chmod(directory, 0o755)
    site = Site(os.path.join(directory, "www"), numbers)
    server = Server(options, directory, numbers)
    try:
        verdict = play(options, seed, numbers, site, server)
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    for fault in verdict.faults:
        print("chaos: FAULT:", fault)
    if verdict.faults:
        print(f"chaos: seed {seed}; all files are kept in {directory}")
        return 1
    shutil.rmtree(directory)
    print("chaos: passed")
    return 0


def play(options, seed, numbers, site, server):
    server.wait_until_ready()
    server.stretch()
    end = threading.Event()
    address = ("127.0.0.1", server.port())
    clients = [Client(i, address, end, seed) for i in range(CLIENTS)]
    nuisances = [Nuisance(i, address, end, seed) for i in range(4)]
    chaos = Chaos(options, server, site, numbers)
    for thread in clients + nuisances:
        thread.start()
    finish = time.monotonic() + options.seconds
    before = None
    while time.monotonic() < finish and server.process.poll() is None:
        chaos.happen()
        if before is None and time.monotonic() > finish - options.seconds * 0.7:
            before = server.weigh()
        time.sleep(numbers.random() * 0.3)
    return conclude(server, chaos, clients, nuisances, end, before)


def ended_well(server):
    try:
        return server.process.wait(PATIENCE_S) == 0
    except subprocess.TimeoutExpired:
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            print("chaos: the master does not exit:", file.readlines()[2].strip(), server.children())
        return False


def conclude(server, chaos, clients, nuisances, end, before):
    verdict = Verdict()
    verdict.hold(server.process.poll() is None, "the master exited early")
    end.set()
    for thread in clients + nuisances:
        thread.join(PATIENCE_S)
        verdict.hold(not thread.is_alive(), "a client hangs")
    if server.process.poll() is not None:
        return verdict
    status = settle(server)
    after = server.weigh()
    verdict.hold(not chaos.refused, f"refused: {chaos.refused[:5]}")
    server.process.send_signal(signal.SIGTERM)
    verdict.hold(ended_well(server), "the server did not exit with status 0")
    marks, lines = logged_marks(server.directory)
    answered, failed = judge_answers(verdict, clients, chaos.kills, marks)
    judge_counters(verdict, status, lines, chaos.kills)
    judge_remains(verdict, server, before or after, after)
    print(f"chaos: {answered} answers, {failed} failed, {lines} lines in {server.rotations + 1} logs, "
          f"{len(chaos.kills)} kills; " + ", ".join(f"{n} {w}" for w, n in chaos.done.most_common()))
    return verdict


def main():
    parser = argparse.ArgumentParser(description="Random operations on a loaded server.")
    parser.add_argument("--bin", default="build/release/bin", help="directory of the programs")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--dispatch", choices=["kernel", "master"], default="kernel")
    parser.add_argument("--kill", action="store_true", help="also kill workers")
    parser.add_argument("--seed", type=int, help="seed of an earlier run")
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
