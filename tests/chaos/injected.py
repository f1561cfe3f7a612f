#!/usr/bin/env python3
"""Code injected into each kind of process of a loaded server: worker, logger, keys, metrics and ACME process.

ptrace.py has a new thread of the process run injected/blob.c, so it has what the process has: memory, descriptors, sandbox.
The server is that of traitor.py, with TLS and [acme]; so are clients, commands, consoles, and all that is checked.
Besides:

  no path, page or call gives the injected code what is not the process's; none has the environment of the master; the
  worker gets no signature of anything but a handshake, and no mark of a request that another worker has served; all
  calls of injected/blob.c that no process may make end it; the master answers pings within PING_S.

It prints the 99th percentile of the honest workers' answers without attacks, and by how much the worst three attacks raise it: a busy
machine changes that.

    injected.py --bin build/release/bin                                # each attack once
    injected.py --bin build/release/bin --unprivileged                 # the same with a master that is not root
    injected.py --bin build/release/bin --minutes 10 --only keys.accuse    # one attack for ten minutes
    injected.py --bin build/release/bin --handshakes 80                    # handshakes while two workers request signatures
    injected.py --bin build/release/bin --latencies 5                      # answers of honest workers, timed by another process

Exit status 0, 1, or 77: it must be root, on x86-64.
"""

import argparse
import collections
import contextlib
import glob
import json
import os
import platform
import random
import re
import shutil
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import traitor  # noqa: E402
from connections import Broken, Http1  # noqa: E402
from processes import PATIENCE_S, children, has_exited  # noqa: E402
from ptrace import Blob, Gone, Injected, mappings, read  # noqa: E402
from reader import METRICS, RATE_BUCKETS, RINGS, Segment, THREADS, WORKER_EVENTS, WORKERS  # noqa: E402
from traitor import Faults, TRAITOR_SLOT  # noqa: E402

SKIPPED = 77
PING_S = 10  # also on a busy machine; the master waits for no child
LONGEST_S = 0.5  # for a handshake: those with workers whose links are full are none
FOR_S = 0.4  # length of an attack that repeats itself, in a short run
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
RSA_KEY = os.path.join(SOURCES, "tests", "integration", "tls", "rsa.key")  # to make another one takes seconds
NAME = "acme.example"
NOBODY = 65534

# As in blob.h
OPEN, FORBIDDEN, STORE, SCRIBBLE, SEND, SPAWN, APPEND, SAVE = range(8)
DESCRIPTORS, PIDS, PATHS, PATH_BYTES, ITEMS = 64, 16, 32, 256, 2048
BREACHES = {1: "opened path", 2: "has the segment as descriptor", 3: "mremap() succeeded:", 4: "lives on after call",
            5: "has a UNIX socket as descriptor"}
REPORT = 8 * (10 + DESCRIPTORS + PIDS + 2 * ITEMS) + PATHS * PATH_BYTES

with open(os.path.join(SOURCES, "daemon", "base", "messages.def"), encoding="ascii") as definitions:
    KINDS = re.findall(r"^MESSAGE\((\w+),", definitions.read(), re.MULTILINE)


def message(kind, data=b""):
    return struct.pack("<q", KINDS.index(kind)) + data


def order(attack, seconds, *, seed=0, rounds=0, inode=0, fds=(), pids=(), paths=(), items=(), content=b""):
    head = struct.pack("<10Q", attack, seed, time.monotonic_ns() + int(seconds * 1e9), rounds, inode, len(content), len(fds),
                       len(pids), len(paths), len(items))
    fixed = struct.pack(f"<{DESCRIPTORS}q", *fds, *[0] * (DESCRIPTORS - len(fds)))
    fixed += struct.pack(f"<{PIDS}q", *pids, *[0] * (PIDS - len(pids)))
    fixed += b"".join(struct.pack(f"{PATH_BYTES}s", path.encode()) for path in paths).ljust(PATHS * PATH_BYTES, b"\0")
    fixed += b"".join(struct.pack("<QQ", at, value % 2 ** 64) for at, value in items).ljust(16 * ITEMS, b"\0")
    return head + fixed + bytes(40) + content


def packets(*contents):
    """Items and bytes of an order that sends CONTENTS."""
    items, joined = [], b""
    for content in contents:
        items.append((len(joined), len(content)))
        joined += content
    return items, joined


def sockets(pid):
    """The inode numbers of the sockets of a process, by descriptor."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found[int(name)] = int(target[8:-1])
    return found


def peers():
    """The inode number of the other end of each UNIX socket (sock_diag(7))."""
    found, dump, name_peer = {}, 0x301, 4
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as diagnosis:
        diagnosis.send(struct.pack("<IHHII", 40, 20, dump, 1, 0) + struct.pack("<BBHIIIII", socket.AF_UNIX, 0, 0, 2 ** 32 - 1, 0,
                                                                              name_peer, 0, 0))
        while True:
            answer, at = diagnosis.recv(1 << 20), 0
            while at < len(answer):
                length, kind = struct.unpack_from("<IH", answer, at)
                if kind != 20:
                    return found
                inode, = struct.unpack_from("<I", answer, at + 20)
                if length >= 40:
                    found[inode], = struct.unpack_from("<I", answer, at + 36)
                at += (length + 3) // 4 * 4


def links(pid, other):
    """Descriptors of a process whose sockets lead to another one."""
    peer, theirs = peers(), set(sockets(other).values())
    return [fd for fd, inode in sockets(pid).items() if peer.get(inode) in theirs and inode not in theirs]


def is_confined(pid):
    """Whether the process has entered its sandbox."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return "\nSeccomp:\t2\n" in file.read()
    except OSError:
        return False


# Signatures

TLS13 = b" " * 64 + b"TLS 1.3, server CertificateVerify\0" + bytes(32)
EC, RSA = (0, 0x0403), (1, 0x0804)  # number of a key, and scheme


def element(tag, content):
    length = bytes([len(content)]) if len(content) < 128 else struct.pack(">BH", 0x82, len(content))
    return bytes([tag]) + length + content


def certificate_request(numbers):
    """What is signed of a request for a certificate, with a key of the attacker."""
    name = element(0x30, element(0x31, element(0x30, b"\x06\x03\x55\x04\x03" + element(0x0c, b"victim.example"))))
    key = element(0x30, bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
                  + element(0x03, b"\0\4" + numbers.randbytes(64)))
    return element(0x30, b"\x02\x01\x00" + name + key + b"\xa0\x00")


def certificate(numbers):
    """What is signed of a certificate."""
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    name = element(0x30, element(0x31, element(0x30, b"\x06\x03\x55\x04\x03" + element(0x0c, b"victim.example"))))
    validity = element(0x30, element(0x17, b"260101000000Z") + element(0x17, b"270101000000Z"))
    return element(0x30, b"\xa0\x03\x02\x01\x02" + element(0x02, numbers.randbytes(8)) + algorithm + name + validity + name
                   + certificate_request(numbers)[-93:-2])


def unsigned_contents(numbers):
    """What the keys process must not sign."""
    exchange = numbers.randbytes(56) + b"DOWNGRD\x01\x03\x00\x1d\x20" + numbers.randbytes(32)
    return {"a certificate request": certificate_request(numbers),
            "a certificate": certificate(numbers),
            "a client's CertificateVerify": TLS13.replace(b"server", b"client"),
            "a longer CertificateVerify": TLS13 + b"\0",
            "a CertificateVerify with other spaces": b"\t" + TLS13[1:],
            "an exchange on an explicit curve": exchange[:64] + b"\x01" + exchange[65:],
            "an exchange with more after its point": exchange + b"\0",
            "an exchange with a request in it": b"\x30\x62\x02\x01\x00" + exchange[5:66] + b"\x16\x20" + bytes(32),
            "a digest": numbers.randbytes(32),
            "random bytes": numbers.randbytes(numbers.randrange(1, 500)),
            "nothing": b""}


def sign_request(number, key, content):
    return message("SIGN", struct.pack("<QII", number, *key) + content)


def slow_key(numbers):
    """A DSA key with numbers so large that its public part takes minutes to compute."""
    number = element(0x02, b"\x01" + numbers.randbytes(10000) + b"\x01")
    kind = element(0x30, bytes.fromhex("06072a8648ce380401") + element(0x30, number * 3))
    key = element(0x30, b"\x02\x01\x00" + kind + element(0x04, number))
    return ssl.DER_cert_to_PEM_cert(key).replace("CERTIFICATE", "PRIVATE KEY").encode()


class Server(traitor.Server):
    """With TLS and the ACME process, whose authority does not answer."""

    def __init__(self, programs, directory, numbers, orders, attacks):
        self.secret = f"environment-{random.randbytes(12).hex()}"
        os.environ.update(SECRET_OF_THE_MASTER=self.secret, HOME=directory)
        shutil.copyfile(RSA_KEY, f"{directory}/rsa.key")
        os.chmod(f"{directory}/rsa.key", 0o600)
        for name, words in (("ec", ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{directory}/ec.key"]),
                            ("rsa", ["-key", f"{directory}/rsa.key"])):
            subprocess.run(["openssl", "req", "-x509", *words, "-days", "9", "-subj", "/CN=a",
                            "-addext", f"subjectAltName=DNS:localhost,DNS:chaos,DNS:{NAME}", "-addext",
                            "basicConstraints=critical,CA:FALSE", "-out", f"{directory}/{name}.pem"], check=True, capture_output=True)
        if self.identity:
            for path in (directory, *glob.glob(f"{directory}/**", recursive=True)):
                os.chown(path, NOBODY, NOBODY)
        super().__init__(programs, directory, numbers, orders, attacks)

    def config(self, numbers):
        text = super().config(numbers)
        address = f"listen = 127.0.0.1:{self.port}"
        return text.replace(address, f"{address} https://127.0.0.1:{self.tls_port}") + f"""
[tls]
certificate = {self.directory}/ec.pem {self.directory}/rsa.pem
key = {self.directory}/ec.key {self.directory}/rsa.key
[acme]
enabled = on
agree_to_terms = yes
directory = https://127.0.0.1:9/directory
hosts = {NAME}
state_dir = {self.directory}/state
"""

    def processes(self):
        """Process ids by kind; without those that are not running."""
        status = self.control("status")
        found = {"logger": status["logger"]["pid"], "keys": status["keys"]["pid"],
                 "metrics": status["metrics_process"]["pid"]}
        for pid in children(self.process.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"--state-dir" in file.read():
                        found["acme"] = pid
            except OSError:
                pass
        return {kind: pid for kind, pid in found.items() if pid > 0}

    def segment_file(self):
        name, = [entry for entry in os.listdir("/dev/shm") if entry.startswith(f"webserverd.{self.name}.")]
        return os.path.join("/dev/shm", name)


class Client(traitor.Client):
    """Knows when it asked, and which marks other workers have served. Every fourth one uses TLS."""

    def __init__(self, number, server, end, seed):
        super().__init__(number, server, end, seed)
        self.tls = number % 4 == 3
        if self.tls:
            self.address = ("127.0.0.1", server.tls_port)
        self.times, self.lost, self.of_others = [], [], set()

    def who(self, connection):
        mark, status, body = self.get(connection, "/whoami")
        if status == 429:
            self.limited += 1
            return None
        slot, pid = (int(word) for word in body.split())
        self.by_worker[(slot, pid), self.port].marks.add(mark)
        if slot != TRAITOR_SLOT:
            self.of_others.add(mark)
        return slot, pid

    def ask(self, connection, worker):
        began = time.monotonic()
        if self.numbers.random() < 0.3:
            self.who(connection)
        else:
            super().ask(connection, worker)
        self.times.append((began, time.monotonic() - began))

    def run(self):
        while not self.end.is_set():
            connection = None
            try:
                connection = Http1(self.address, self.tls)
                self.port = connection.socket.getsockname()[1]
                self.use(connection)
            except (Broken, OSError, ValueError) as error:
                self.by_worker[None, self.port].failed.append(str(error))
                self.lost.append((time.monotonic(), str(error)))
            if connection is not None:
                connection.close()


def waited_s(pid):
    """Seconds that the main thread of a process has waited for a CPU."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0


class Pings(threading.Thread):
    """The longest that the master took for a ping, without the time in which it waited for a CPU."""

    def __init__(self, server, end):
        super().__init__(daemon=True)
        self.server, self.end, self.longest_s = server, end, 0

    def run(self):
        while not self.end.is_set():
            began, waited = time.monotonic(), waited_s(self.server.process.pid)
            try:
                self.server.control("ping")
            except OSError:
                return
            took = time.monotonic() - began - (waited_s(self.server.process.pid) - waited)
            self.longest_s = max(self.longest_s, took)
            time.sleep(0.05)


class Session(traitor.Session):
    server_class, client_class, attraction = Server, Client, "worker.attract"

    def __init__(self, options, seed, faults):
        if options.unprivileged:  # then all processes have the same user
            Server.identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        super().__init__(options.bin, seed, options.minutes * 60, options.only, faults)
        self.blob = Blob(os.path.join(options.bin, "blob"))
        self.repeats, self.searches = options.minutes > 0, True
        self.length_s = FOR_S
        self.attacked = []  # when, and what; ends of attacks as well
        self.gained = self.ended = 0

    # What the attacks need

    def others(self, pid):
        """Other processes of the server."""
        return [other for other in [self.server.process.pid, *children(self.server.process.pid)] if other != pid]

    def shared(self, pid, writable=True):
        """Mappings of the segment in a process: address, length, offset."""
        return [(start, end - start, offset) for start, end, rights, offset, _, path in mappings(pid)
                if "/webserverd." in path and rights.startswith("rw" if writable else "r")]

    def addresses(self, pid, offsets):
        """Where the process can write what has these offsets in the segment."""
        shared = self.shared(pid)
        return [start + at - offset for at in offsets for start, length, offset in shared if offset <= at < offset + length]

    def run_blob(self, pid, words, hold=False):
        """Returns whether the process lives on, and the report: ended, done, answers."""
        try:
            injected = Injected(pid, self.blob, words, hold)
        except Gone:
            return False, (0, 0, 0)
        deadline, report = time.monotonic() + PATIENCE_S, (0, 0, 0)
        try:
            while time.monotonic() < deadline:
                ended, done, answers, breach, detail = struct.unpack("<4Qq", read(pid, injected.address + REPORT, 40))
                report = (ended, done, answers)
                if breach:
                    self.gain(f"{BREACHES[breach]} {detail}")
                if ended or breach:
                    return True, report
                time.sleep(0.02)
            self.faults.add(f"the code in process {pid} does not end")
        except Gone:
            return False, report
        finally:
            injected.release()
        return True, report

    def gain(self, words):
        self.gained += 1
        self.faults.add(f"{self.attacked[-1][1]}: {words}")

    def search_memory(self, pid, needles):
        """The first of NEEDLES, compiled to one pattern, that is in the memory of the process."""
        for start, end, rights, _, _, path in mappings(pid):
            if not rights.startswith("r") or path.startswith(("[v", "/usr/", "/lib")):
                continue
            for at in range(start, end, 1 << 24):
                try:
                    content = read(pid, at, min(1 << 24, end - at))
                except Gone:
                    continue
                for found in needles(content):
                    yield found

    # Attacks in all processes

    def open(self, pid, kind):
        """Files, sockets and pages of others."""
        segment, paths = self.server.segment_file(), []
        other = self.others(pid)[0]
        own = "" if kind == "acme" else f"{self.directory}/state"  # it may list its own directory
        paths = ["/etc/shadow", "/etc/passwd-", f"{self.directory}/rsa.key", f"{self.directory}/ec.key", segment, own,
                 "/dev/shm", "/proc/self/environ", "/proc/self/mem", "/proc/self/maps", f"/proc/{other}/mem",
                 f"/proc/{other}/environ", f"/proc/{other}/fd/3", f"/proc/{other}/maps", f"{self.directory}/access.log",
                 self.server.process.args[0], "/proc/self/map_files"]
        # Not the sockets of connections, whose numbers may be those of files of the site by then.
        paths += [f"/proc/self/fd/{fd}" for fd in links(pid, self.server.process.pid)][:8]
        items = [(start, length) for start, length, _ in self.shared(pid, writable=False)]
        # In the others, socket() is one of the calls that end the process.
        lives, report = self.run_blob(pid, order(OPEN, 1, seed=kind == "acme", inode=os.stat(segment).st_ino, items=items[:ITEMS],
                                                 paths=[path for path in paths if path and len(path) < PATH_BYTES]))
        self.faults.unless(lives and report[1] == 1, f"{kind}.open did not run to its end in process {pid}")
        if not self.searches:
            return lives
        self.attacked.append((time.monotonic(), f"{kind}.search"))  # which delays the clients of this process
        secret = self.server.secret.encode()
        for _ in self.search_memory(pid, lambda content: [1] if secret in content else []):
            self.gain("the process has the environment of the master")
            break
        if kind == "worker":
            self.search_marks(pid)
        return lives

    def search_marks(self, pid):
        """Requests that other workers have served."""
        marks = set(self.search_memory(pid, lambda content: [mark.decode() for mark in traitor.MARK.findall(content)]))
        read_of_others = [mark for client in self.clients for mark in marks & client.of_others]
        if read_of_others:
            self.gain(f"the worker has {len(read_of_others)} requests of others, such as {read_of_others[:2]}")
        self.marks_seen += len(marks)

    def forbidden(self, pid, _):
        """A system call that no process makes."""
        lives, _ = self.run_blob(pid, order(FORBIDDEN, 1, seed=self.numbers.randrange(1 << 30), pids=self.others(pid)[:PIDS]))
        return lives

    def spawn(self, pid, kind):
        """3,000 threads."""
        lives, _ = self.run_blob(pid, order(SPAWN, PATIENCE_S / 2))
        self.faults.unless(not lives, f"the {kind} process keeps 3,000 threads")
        return lives

    def scribble(self, pid, _):
        """Random words in all that the process can write."""
        items = [(start, length) for start, length, _ in self.shared(pid)]
        return self.run_blob(pid, order(SCRIBBLE, self.length_s, seed=self.numbers.randrange(1 << 60), items=items[:ITEMS]))[0]

    # Attacks in a worker

    def blocks(self, segment, kind):
        """Entries of a section that belong to the traitor's slot."""
        count, offset, stride, _ = segment.sections[kind]
        each = count // segment.sections[WORKERS][0]
        return [offset + (TRAITOR_SLOT * each + i) * stride for i in range(each)]

    def store(self, pid, words):
        """WORDS: pairs of offset in the segment and value."""
        items = [(start + offset - base, value) for start, length, base in self.shared(pid) for offset, value in words
                 if base <= offset < base + length]
        return self.run_blob(pid, order(STORE, self.length_s, items=items[:ITEMS]))[0]

    def metric_offsets(self, segment, scope):
        return {segment.text(at, 32): segment.get("I", at + 180) for _, at in segment.entries(METRICS)
                if segment.get("B", at + 176) == scope}

    def attract(self, pid, _):
        """The claim to have no connection."""
        segment = Segment(self.server.name)
        metrics, worker = self.metric_offsets(segment, 0), self.blocks(segment, WORKERS)[0]
        words = [(worker + 8, segment.get("I", worker + 8))]  # the number of threads, and 0 offload threads
        words += [(worker + 16, 0)]
        words += [(at + metrics[name], 0) for at in self.blocks(segment, THREADS) for name in metrics if "connections" in name]
        return self.store(pid, words)

    def totals(self, pid, _):
        """Counters that are negative or huge."""
        segment = Segment(self.server.name)
        return self.store(pid, [(at + offset, self.numbers.choice([2 ** 63 + 5, 2 ** 64 - 1, 2 ** 62]))
                                for at in self.blocks(segment, THREADS)
                                for name, offset in self.metric_offsets(segment, 0).items() if name])

    def answer(self, pid, _):
        """Answers to questions that the master has not asked, and heartbeats from the future."""
        segment = Segment(self.server.name)
        words = [(at + 120, self.numbers.randrange(1 << 64)) for at in self.blocks(segment, THREADS)]
        worker = self.blocks(segment, WORKERS)[0]
        return self.store(pid, [*words, (worker, 2 ** 63), (worker + 24, self.numbers.randrange(1 << 64))])

    def rate(self, pid, _):
        """Claims in the table of the rate limit."""
        _, offset, _, size = Segment(self.server.name).sections[RATE_BUCKETS]
        words = [(offset + 8 * at, self.numbers.choice([2 ** 64 - 1, 2 ** 63, 2 ** 32 - 1, time.monotonic_ns()]))
                 for at in self.numbers.sample(range(size // 8), min(ITEMS, size // 8))]
        return self.store(pid, words)

    def events(self, pid, _):
        """Events of another process, pid and date, with texts that try to add a line."""
        segment = Segment(self.server.name)
        ring, = self.blocks(segment, WORKER_EVENTS)
        number, slots = segment.get("Q", ring), (segment.sections[WORKER_EVENTS][3] - 64) // 256
        words = []
        for n in range(number, number + 40):
            text = b"FORGED\n2020/01/01 00:00:00 [error] master 1: FORGED\0".ljust(224, b"\0")
            fields = [n, self.numbers.choice([0, 1, 2 ** 63]), 3 | 0 << 8 | 1 << 32, *struct.unpack("<28Q", text)]
            check = 0xcbf29ce484222325
            for value in fields:
                check = ((check ^ value) * 0x100000001b3) % 2 ** 64
            at = ring + 64 + n % slots * 256
            words += [(at + 8, fields[1]), (at + 16, fields[2]), (at + 24, check)]
            words += [(at + 32 + 8 * i, value) for i, value in enumerate(fields[3:])] + [(at, 2 * n + 2)]
        return self.store(pid, [*words, (ring, number + 40)])

    def log_flood(self, pid, _):
        """The last record of a log ring, as fast as possible."""
        segment = Segment(self.server.name)
        rings = self.blocks(segment, RINGS)[:2]
        capacity = 1 << ((segment.sections[RINGS][3] - 64) // 8).bit_length() - 1
        items = [(at, capacity) for at in self.addresses(pid, rings)]
        record = next((record for record in map(lambda at: self.last_record(segment, at, capacity), rings) if record), None)
        if record is None or not items:
            return True
        lives, report = self.run_blob(pid, order(APPEND, self.length_s, items=items, content=record))
        self.appended += report[1]
        return lives

    @staticmethod
    def last_record(segment, ring, capacity):
        at, end, last = 0, segment.get("Q", ring + 8), None
        while at < end <= capacity:
            count = segment.get("Q", ring + 64 + 8 * at) & 0xffff
            if count == 0 or at + count > end:
                break
            last, at = segment.map[ring + 64 + 8 * at:ring + 64 + 8 * (at + count)], at + count
        return last

    def request_signatures(self, pid, fds, requests):
        """The other threads of the worker do not take the answers, of which those with this number count."""
        number = self.numbers.randrange(2 ** 60, 2 ** 61)
        items, joined = packets(*[sign_request(number, *request) for request in requests])
        return self.run_blob(pid, order(SEND, 0.5, seed=number, rounds=1, fds=fds[:1], items=items, content=joined), hold=True)

    def sign(self, pid, _):
        """Requests for signatures of anything but handshakes."""
        what, content = self.numbers.choice(sorted(unsigned_contents(self.numbers).items()))
        keys = self.server.processes().get("keys", 0)
        fds = links(pid, keys) if keys else []
        if not fds:
            return True
        lives, report = self.request_signatures(pid, fds, [(self.numbers.choice([EC, RSA, (1, 0x0401)]), content)])
        if lives and report[2] > 0:
            self.gain(f"the keys process signed {what}: {content.hex()}")
        if not self.traitor.has_ended(5):  # the master replaces it, but not while another one leaves
            os.kill(pid, signal.SIGKILL)
        return False

    def sign_handshake(self, pid, _):
        """That requests for signatures arrive, and answers return."""
        keys = self.server.processes().get("keys", 0)
        fds = links(pid, keys) if keys else []
        lives, report = self.request_signatures(pid, fds, [(EC, TLS13), (RSA, TLS13)])
        self.signed += report[2]
        return lives

    def sign_flood(self, pid, _):
        """Valid requests for RSA signatures, as many as the sockets take."""
        keys = self.server.processes().get("keys", 0)
        items, joined = packets(sign_request(2 ** 62, RSA, TLS13))
        return self.run_blob(pid, order(SEND, self.length_s, fds=links(pid, keys)[:DESCRIPTORS] if keys else [], items=items,
                                        content=joined))[0]

    # Attacks in the others

    def flood_master(self, pid, *contents):
        fds = links(pid, self.server.process.pid)
        if not fds:
            return True
        items, joined = packets(*contents)
        lives, report = self.run_blob(pid, order(SEND, self.length_s, fds=fds[:1], items=items, content=joined))
        self.sent += report[1]
        return lives

    def accuse(self, pid, _):
        """Reports of honest workers for requests that they have not sent."""
        workers = [(slot, worker) for slot, worker in self.server.pids()[1].items() if slot != TRAITOR_SLOT]
        return self.flood_master(pid, *[message("KEYS_FAULT", struct.pack("<IIi", 1, slot, worker)) for slot, worker in workers])

    def pong(self, pid, _):
        """Answers to pings that the master has not sent."""
        return self.flood_master(pid, message("KEYS_PONG"))

    def lose_logs(self, pid, _):
        """Requests to open the logs again."""
        return self.flood_master(pid, message("LOG_LOST", struct.pack("<II", 0, 1)), message("LOG_LOST", struct.pack("<II", 1, 0)))

    def fail_logins(self, pid, _):
        """Counts of failed logins."""
        return self.flood_master(pid, b"\xff" * 64)

    def report(self, pid, _):
        """Signs of life, events, plans and challenges."""
        event = struct.pack("<I", 3) + b"x\n2020/01/01 00:00:00 [error] master 1: FORGED\0"
        plan = struct.pack("<IIIIqq320s", 0, 2 ** 32 - 1, 1, 2 ** 32 - 1, -2 ** 63, 2 ** 63 - 1, b"\x1b[2J")
        challenge = struct.pack("<III128s48s", 0, 0, 0, b"token", b"thumbprint")
        record = struct.pack("<IIII48s", 0, 2 ** 32 - 1, 0, 0, b"$(id)")
        return self.flood_master(pid, message("ACME_ALIVE"), message("ACME_EVENT", event), message("ACME_PLAN", plan),
                                 message("ACME_CHALLENGE", challenge), message("ACME_RECORD", record))

    def save(self, pid, _):
        """A bad certificate, and the report that it is new."""
        with open(f"{self.directory}/ec.pem", "rb") as file:
            leaf = file.read()
        content = self.numbers.choice([self.numbers.randbytes(3000), b"-----BEGIN CERTIFICATE-----\n" + b"A" * 60000, bytes(60000),
                                       leaf + slow_key(self.numbers)])
        items, joined = packets(message("ACME_CERTIFICATE", struct.pack("<I", 0)))
        path = f"{self.directory}/state/{NAME}.pem"
        fds = links(pid, self.server.process.pid)
        lives, report = self.run_blob(pid, order(SAVE, 1, seed=len(content), fds=fds[:1], paths=[path],
                                                 items=[(len(content), items[0][1])], content=content + joined))
        self.faults.unless(report[2] == 1 or not lives, "the ACME process cannot write its file")
        # The pause is nine times as long as the last check.
        refused = any(self.server.wait_until(lambda _: os.path.exists(f"{path}.unusable"), "the refusal of a certificate")
                      for _ in range(3))
        self.faults.unless(refused, "a bad certificate is not set aside")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.unusable")
        return lives

    KINDS_OF_ATTACKS = {
        "worker": ("sign_handshake", "open", "attract", "totals", "answer", "rate", "events", "log_flood", "sign_flood", "scribble",
                   "sign", "spawn", "forbidden"),
        "logger": ("open", "scribble", "lose_logs", "spawn", "forbidden"),
        "keys": ("open", "accuse", "pong", "spawn", "forbidden"),
        "metrics": ("open", "scribble", "fail_logins", "spawn", "forbidden"),
        "acme": ("open", "report", "spawn", "forbidden", "save"),
    }

    # The session

    def attack_until(self, finish):
        self.marks_seen = self.signed = self.appended = self.sent = 0
        time.sleep(2)
        plan = [(kind, name) for kind, names in self.KINDS_OF_ATTACKS.items() for name in names
                if not self.wanted or f"{kind}.{name}" in self.wanted or kind in self.wanted]
        rounds = 0
        while rounds == 0 or self.repeats and time.monotonic() < finish:
            for kind, name in plan:
                self.attack(kind, name)
                if self.faults.list or self.repeats and time.monotonic() > finish:
                    return
            rounds += 1

    def attack(self, kind, name):
        if kind == "worker":
            pid = self.traitor.pid
            self.traitor.disloyal.add(pid)
        elif not self.server.wait_until(lambda _: is_confined(self.server.processes().get(kind, 0)), f"the {kind} process"):
            self.faults.add(f"there is no {kind} process")
            return
        else:
            pid = self.server.processes()[kind]
        self.server.metrics_end = self.server.metrics_end or kind == "metrics"
        self.attacked.append((time.monotonic(), f"{kind}.{name}"))
        print(f"injected: {kind}.{name}", flush=True)
        self.traitor.done[f"{kind}.{name}"] += 1
        try:
            lives = getattr(self, name)(pid, kind) and not has_exited(pid)
        except (Gone, FileNotFoundError, ProcessLookupError):
            lives = False
        if not lives:
            self.ended += 1
            self.expect_another(kind, pid)

    # Handshakes during floods of signature requests

    def handshake(self, context):
        """Seconds of a full handshake with the worker in the last slot; None: with another one, or none within LONGEST_S."""
        try:
            with socket.create_connection(("127.0.0.1", self.server.tls_port), timeout=LONGEST_S) as stream:
                began = time.monotonic()
                with context.wrap_socket(stream, server_hostname="localhost") as secured:
                    took = time.monotonic() - began
                    secured.sendall(b"GET /whoami HTTP/1.1\r\nHost: chaos\r\n\r\n")
                    answer = secured.recv(4096)
                    return took if b"\r\n\r\n%d " % (traitor.WORKERS - 1) in answer else None
        except OSError:
            return None

    def handshakes(self, count, kind):
        """COUNT times of handshakes by a certificate of this kind."""
        context, times = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), []
        context.check_hostname, context.verify_mode, context.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2
        context.set_ciphers(f"ECDHE-{kind}-AES128-GCM-SHA256")
        while len(times) < count:
            took = self.handshake(context)
            self.attempts += 1
            if took is not None:
                times.append(took)
        return times

    def compare_handshakes(self, count):
        """Rounds without and with floods of the other workers, in turn. Prints medians and their ratio."""
        self.faults.unless(self.server.wait_until_complete(), "not all workers serve")
        keys, (_, workers) = self.server.processes()["keys"], self.server.pids()
        items, joined = packets(sign_request(2 ** 62, RSA, TLS13))
        for kind in ("RSA", "ECDSA"):
            quiet, flooded, attempts = [], [], [0, 0]
            for _ in range(4):
                self.attempts = 0
                quiet += self.handshakes(count // 4, kind)
                attempts[0] += self.attempts
                floods = [threading.Thread(target=self.run_blob, daemon=True, args=(pid, order(
                    SEND, PATIENCE_S / 4, fds=links(pid, keys)[:DESCRIPTORS], items=items, content=joined)))
                          for slot, pid in workers.items() if slot < traitor.WORKERS - 1]
                for flood in floods:
                    flood.start()
                time.sleep(0.5)
                self.attempts = 0
                flooded += self.handshakes(count // 4, kind)
                attempts[1] += self.attempts
                for flood in floods:
                    flood.join()
                time.sleep(0.5)
            medians = statistics.median(quiet) * 1e3, statistics.median(flooded) * 1e3
            print(f"injected: {kind}: median of {count} handshakes {medians[0]:.1f} ms, with two floods {medians[1]:.1f} ms, "
                  f"ratio {medians[1] / medians[0]:.2f}, of {attempts[0]} and {attempts[1]} attempts", flush=True)

    # Answers of honest workers during the attacks of each process

    def compare_latencies(self, seconds):
        """SECONDS without and with attacks in each of four rounds, for each process. Prints percentiles and their ratios."""
        self.faults.unless(self.server.wait_until_complete() and self.traitor.wait_until_ready(), "not all workers serve")
        self.searches = False
        self.marks_seen = self.signed = self.appended = self.sent = 0
        client = subprocess.Popen([sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "latencies.py"),
                                   str(self.server.port), str(TRAITOR_SLOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def begin(name):
            client.stdin.write(name + "\n")
            client.stdin.flush()

        attacks = {kind: [name for name in names if not self.wanted or kind in self.wanted or f"{kind}.{name}" in self.wanted]
                   for kind, names in self.KINDS_OF_ATTACKS.items()}
        attacks = {kind: names for kind, names in attacks.items() if names}
        for _ in range(4):
            for kind, names in attacks.items():
                begin(f"calm.{kind}")
                time.sleep(seconds)
                begin(kind)
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    self.attack(kind, self.numbers.choice(names))
        times = json.loads(client.communicate()[0])
        for kind in attacks:
            calm, attacked = times.get(f"calm.{kind}", []), times.get(kind, [])
            pairs = [(statistics.median(each) * 1e3, self.percentile(each) * 1e3) for each in (calm, attacked)]
            print(f"injected: {kind}: {len(calm)} answers without attacks, {len(attacked)} with; median {pairs[0][0]:.2f} and "
                  f"{pairs[1][0]:.2f} ms, ratio {pairs[1][0] / pairs[0][0]:.2f}; p99 {pairs[0][1]:.2f} and {pairs[1][1]:.2f} ms, "
                  f"ratio {pairs[1][1] / pairs[0][1]:.2f}", flush=True)

    def expect_another(self, kind, pid):
        if kind == "worker":
            self.server.wait_until_complete()
            workers = self.server.pids()[1]
            if TRAITOR_SLOT not in workers:  # it was replaced by one in another slot
                self.server.control(f"restart {max(workers)}")
            self.faults.unless(self.traitor.wait_until_ready(), "no other worker was started in the slot of the attacked one")
            self.server.wait_until_complete()
        else:
            self.faults.unless(self.server.wait_until(lambda _: self.server.processes().get(kind, pid) != pid, f"another {kind}"),
                               f"no other {kind} process was started")

    def succeed_traitor(self):
        self.attacked.append((time.monotonic(), "worker.end"))
        super().succeed_traitor()

    def make_clients(self):
        self.clients = super().make_clients()
        self.pings = Pings(self.server, self.end)
        self.pings.start()
        return self.clients

    def judge_weight(self, before, after):
        """Attacks may replace the logger, and workers."""
        if any(what.startswith("logger.") for _, what in self.attacked):
            before[0].pop("logger")
        if any(what in ("keys.accuse", "worker.sign") for _, what in self.attacked):
            after = (after[0], before[1])
        super().judge_weight(before, after)

    def settle(self, clients):
        """A logger that was attacked may lose lines."""
        if not self.attacked_logger():
            super().settle(clients)

    def attacked_logger(self):
        return any(what == "logger.scribble" for _, what in self.attacked)

    def judge_answers(self, *more):
        """Which lines a logger wrote that was attacked is its own affair."""
        return traitor.judge_answers(*more, logged=not self.attacked_logger())

    def last_attack(self, when):
        return next((what for began, what in reversed(self.attacked) if began <= when), "nothing")

    def conclude(self, clients, *more):
        summary = super().conclude(clients, *more)
        lost = [(self.last_attack(when), words) for client in clients for when, words in client.lost
                if not self.last_attack(when).startswith("worker.")
                and not (client.tls and self.last_attack(when).startswith("keys."))]
        self.faults.unless(not lost, f"{len(lost)} connections failed, such as {lost[:3]}")
        self.faults.unless(self.pings.longest_s < PING_S, f"a ping took {self.pings.longest_s:.1f} s")
        during = collections.defaultdict(list)
        for client in clients:
            for began, took in client.times:
                during[self.last_attack(began)].append(took)
        quiet = self.percentile(during.pop("nothing", []))
        slowest = sorted(((self.percentile(times) / quiet, what) for what, times in during.items()
                          if not what.endswith((".search", ".end"))), reverse=True)[:3]
        return (f"{summary}; {self.gained} breaches, {self.ended} processes ended, {self.signed} handshake signatures, "
                f"{self.marks_seen} own marks seen, {self.sent} messages, {self.appended} records, longest ping "
                f"{self.pings.longest_s:.2f} s, p99 {quiet * 1e3:.1f} ms without attacks, times "
                + ", ".join(f"{ratio:.1f} ({what})" for ratio, what in slowest))

    @staticmethod
    def percentile(times):
        return statistics.quantiles(times, n=100)[98] if len(times) > 1 else max(times, default=1)


def runs_as_nobody(programs):
    try:
        return subprocess.run([os.path.join(programs, "wsctl"), "-V"], user=NOBODY, check=False, capture_output=True).returncode == 0
    except PermissionError:
        return False


def main():
    parser = argparse.ArgumentParser(description="Code injected into the processes of a server.")
    parser.add_argument("--bin", default="build/release/bin", help="directory of the programs")
    parser.add_argument("--minutes", type=float, default=0, help="repeat the attacks for so long")
    parser.add_argument("--seed", type=int, help="seed of an earlier session")
    parser.add_argument("--only", nargs="*", default=[], help="only these attacks, such as worker.sign, or processes")
    parser.add_argument("--unprivileged", action="store_true", help="the master is not root")
    parser.add_argument("--handshakes", type=int, help="compare as many with and without floods of signature requests")
    parser.add_argument("--latencies", type=float, metavar="SECONDS",
                        help="compare the times of answers with and without attacks, for so long at a time")
    options = parser.parse_args()
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        print("skipped: only root can inject code, and only on x86-64")
        sys.exit(SKIPPED)
    if options.unprivileged and not runs_as_nobody(options.bin):
        print("skipped: the directory of the programs is not readable for a user without privileges")
        sys.exit(SKIPPED)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    faults = Faults()
    session = Session(options, seed, faults)
    if options.handshakes or options.latencies:
        try:
            if options.handshakes:
                session.compare_handshakes(options.handshakes)
            if options.latencies:
                session.compare_latencies(options.latencies)
        finally:
            session.close()
            shutil.rmtree(session.directory)
    else:
        session.run()
    print("injected:", "FAILED" if faults.list else "passed")
    sys.exit(1 if faults.list else 0)


if __name__ == "__main__":
    main()
