"""Measurements besides load scenarios: idle connections, an attached console, thread counts, growth."""
import fcntl
import json
import os
import pty
import re
import resource
import socket
import ssl
import statistics
import struct
import subprocess
import termios
import threading
import time

import load
import report
from servers import LOAD_CORE, SERVER_CORE, Floor
from scenarios import SCENARIOS

BY_KEY = {scenario.key: scenario for scenario in SCENARIOS}
SMALL, MANY_CONNECTIONS, MANY_FILES = BY_KEY["small"], BY_KEY["small-5000"], BY_KEY["files"]
IDLE = 10000
HANDSHAKE_CLIENTS = 8
HANDSHAKE_MARK = {True: "r", False: "*"}  # of openssl s_time for a connection, by whether its session is resumed
IDLE_BAR_MIB, WATCHED_BAR, THREADS_BAR = 6.5, 1.02, 1.10
FILES_BAR, CONNECTIONS_BAR = 1.10, 1.05
ASK = b"GET /1k.html HTTP/1.1\r\nHost: bench\r\n\r\n"


def ask(stream):
    stream.sendall(ASK)
    got = 0
    while got < 1024:
        got += len(stream.recv(65536))


def open_idle(server, count, tls):
    """Opens connections and sends one request on each. Over TLS the client forgets the session, to save memory."""
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    sockets = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", server.tls_port if tls else server.port), 20)
        if tls:
            stream = context.wrap_socket(one)
            ask(stream)
            one = socket.socket(fileno=stream.detach())
        else:
            ask(one)
        sockets.append(one)
    return sockets


def idle(servers, tls=False):
    """Memory added by idle connections. By server: {connections, added_mib, bytes_each}."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    count = min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
    print(f"\n{count:,} idle connections{' over TLS' if tls else '':12}added memory (PSS)           per connection")
    results = {}
    for server in servers:
        load.wrk(server, BY_KEY["tls-small"] if tls else SMALL, 1)
        time.sleep(0.5)
        before = server.pss_kib()
        sockets = open_idle(server, count, tls)
        time.sleep(0.5)
        added = server.pss_kib() - before
        for one in sockets:
            one.close()
        time.sleep(1)
        results[server.name] = {"connections": count, "added_mib": added / 1024, "bytes_each": added * 1024 / count}
        print(f"  {server.name:36}{added / 1024:10.2f} MiB{added * 1024 / count:16,.0f} bytes", flush=True)
    return results


def only_x25519(directory):
    """Environment of a client of OpenSSL that offers this group alone. Debian 13's prefers X25519MLKEM768, which not all peers have."""
    path = os.path.join(directory, "x25519.cnf")
    with open(path, "w", encoding="utf-8") as file:
        file.write("openssl_conf = all\n[all]\nssl_conf = tls\n[tls]\nsystem_default = groups\n[groups]\nGroups = X25519\n")
    return {"OPENSSL_CONF": path}


def handshake_connections(server, seconds, resumed, environment):
    """Connections with one request each, all resumed or none: (their number, CPU time in nanoseconds)."""
    before = server.cpu_ns()
    clients = [subprocess.Popen(
        ["taskset", "-c", LOAD_CORE, "openssl", "s_time", "-connect", f"127.0.0.1:{server.tls_port}",
         "-reuse" if resumed else "-new", "-ciphersuites", "TLS_AES_256_GCM_SHA384", "-www", "/1k.html", "-time", str(seconds)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | environment)
        for _ in range(HANDSHAKE_CLIENTS)]
    texts = [client.communicate()[0] for client in clients]
    time.sleep(load.SETTLE)
    used = server.cpu_ns() - before
    start = "^starting\n" if resumed else "^Collecting .*\n"
    marks = "".join(re.search(start + r"(\S*)", text, re.MULTILINE).group(1) for text in texts)
    if marks.strip(HANDSHAKE_MARK[resumed]) or not marks:
        raise RuntimeError(f"{server.name} resumed {marks.count('r')} of {len(marks)} sessions")
    return len(marks), used


def handshakes(servers, rounds, seconds, resumed, environment):
    """Interleaved rounds of connections, as load.compare()."""
    figures = {}
    for server in servers:
        handshake_connections(server, 1, resumed, environment)
        figures[server.name] = {"pss_kib": server.pss_kib(), "rounds": []}
    for turn in range(rounds):
        at = turn % len(servers)
        for server in servers[at:] + servers[:at]:
            count, used = handshake_connections(server, seconds, resumed, environment)
            figures[server.name]["rounds"].append({"cpu_us": used / count / 1000, "rate": count / seconds, "failed": 0,
                                                   "p50_us": None, "p99_us": None})
    return figures


class Watcher:
    """A console on its own terminal that draws ten frames per second."""

    def __init__(self, directory, server):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            ["taskset", "-c", LOAD_CORE, os.path.join(directory, "wsconsole"), "-n", server.instance, "-s", server.socket,
             "-r", "10"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=dict(os.environ, TERM="xterm-256color"))
        os.close(slave)
        self.bytes = 0
        threading.Thread(target=self.drain, daemon=True).start()
        time.sleep(0.5)

    def drain(self):
        try:
            while True:
                self.bytes += len(os.read(self.master, 65536))
        except OSError:
            pass

    def stop(self):
        if self.process.poll() is not None or self.bytes == 0:
            raise RuntimeError("the console exited or drew nothing")
        self.process.terminate()
        self.process.wait(10)
        os.close(self.master)


def system_calls(server):
    """System calls of all threads in 6 s, counted by strace: 1,000 requests at a fixed rate, then idle."""
    pids = [argument for pid in server.pids() for argument in ("-p", str(pid))]
    out = f"/tmp/bench-strace-{os.getpid()}"
    tracer = subprocess.Popen(["strace", "-f", "-q", "-c", "-o", out] + pids, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), 20) as client:
        for turn in range(1000):
            time.sleep(max(0, start + turn * 0.004 - time.monotonic()))
            client.sendall(ASK)
            got = 0
            while got < 1024:
                got += len(client.recv(65536))
    time.sleep(max(0, start + 6 - time.monotonic()))
    tracer.terminate()
    tracer.wait()
    with open(out) as file:
        found = {line.split()[-1]: int(line.split()[3]) for line in file
                 if re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+\d+", line) and not line.rstrip().endswith("total")}
    os.unlink(out)
    return found


def watched(ours, site, work, rounds, seconds):
    """The cost of an attached console: pairs of rounds with and without one."""
    server = ours.start(site, work, True)
    alone, seen = [], []
    try:
        load.warm(server, SMALL, 2)
        for turn in range(rounds):
            for on in ((True, False) if turn % 2 else (False, True)):
                watcher = Watcher(ours.directory, server) if on else None
                (seen if on else alone).append(load.round_of(server, SMALL, seconds)["cpu_us"])
                if watcher:
                    watcher.stop()
        median, low, high = report.ratio_of(seen, alone)
        calls_alone = system_calls(server)
        watcher = Watcher(ours.directory, server)
        calls_seen = system_calls(server)
        watcher.stop()
    finally:
        server.stop()
    print(f"\nwatched at 10 Hz, {rounds} pairs: CPU/request {statistics.median(seen):.2f} us, alone "
          f"{statistics.median(alone):.2f} us, ratio {median:.3f}, 95 % {low:.3f} .. {high:.3f}: "
          f"{'met' if low <= WATCHED_BAR else 'NOT MET'} (reaches {WATCHED_BAR})")
    for name in sorted(calls_alone.keys() | calls_seen.keys()):
        print(f"    {name:20} {calls_alone.get(name, 0):7} alone {calls_seen.get(name, 0):7} watched")
    return {"watched_us": seen, "alone_us": alone, "ratio": median, "low": low, "high": high,
            "system_calls_alone": calls_alone, "system_calls_watched": calls_seen}


def costs_in_turns(asked, rounds, seconds):
    """CPU time per request of each (server, scenario), interleaved so that all see the same machine."""
    found = [[] for _ in asked]
    for server, scenario in asked:
        load.warm(server, scenario, 1)
    for turn in range(rounds):
        for i in range(len(asked)):
            at = (turn + i) % len(asked)
            found[at].append(load.round_of(*asked[at], seconds)["cpu_us"])
    return found


def each(above, below):
    return [a / b for a, b in zip(above, below)]


def growth(ours, site, work, rounds, seconds):
    """Cost of 5,000 files relative to one, and of 5,000 connections relative to 100: [(what, bar, median, low, high)]."""
    server = ours.start(site, work, True)
    floor = None
    try:
        floor = Floor(ours.directory).start(SMALL)
        asked = [(server, SMALL), (server, MANY_FILES), (server, MANY_CONNECTIONS), (floor, SMALL),
                 (floor, MANY_CONNECTIONS)]
        one, files, connections, floor_one, floor_connections = costs_in_turns(asked, rounds, seconds)
    finally:
        server.stop()
        if floor:
            floor.stop()
    return [("5,000 files relative to one", FILES_BAR, *report.ratio_of(files, one)),
            ("5,000 connections: growth relative to the floor's", CONNECTIONS_BAR,
             *report.ratio_of(each(connections, one), each(floor_connections, floor_one)))]


def threads(ours, site, work, rounds, seconds):
    """1 to 16 threads on two cores that the load shares. Threads of the floor, which have the same number of
    connections each, show what any server loses that serves as few requests per wake-up."""
    counts = [1, 2, 4, 8, 16]
    cores = f"{SERVER_CORE},{LOAD_CORE}"
    figures, bare = ({count: {"rounds": []} for count in counts} for _ in range(2))
    servers, floors = {}, {}
    try:
        for count in counts:
            servers[count] = ours.start(site, work, True, {"workers.threads": count}, cores)
            floors[count] = Floor(ours.directory).start(SMALL, count, cores)
            load.warm(servers[count], SMALL, 1)
        for turn in range(rounds):
            at = turn % len(counts)
            for count in counts[at:] + counts[:at]:
                figures[count]["rounds"].append(load.round_of(servers[count], SMALL, seconds, cores))
                bare[count]["rounds"].append(load.round_of(floors[count], SMALL, seconds, cores))
    finally:
        for one in [*servers.values(), *floors.values()]:
            one.stop()
    print(f"\n{'threads on two cores':24}{'requests/s':>12}{'to 1':>8}{'CPU/request':>14}{'to 1':>8}"
          f"{'floor':>8}{'to floor':>10}{'95 %':>15}")
    results = {}
    for count in counts:
        costs, floor = report.costs(figures[count]), report.costs(bare[count])
        speed = report.ratio_of([one["rate"] for one in figures[count]["rounds"]],
                                [one["rate"] for one in figures[1]["rounds"]])[0]
        cost = each(costs, report.costs(figures[1]))
        floor_cost = each(floor, report.costs(bare[1]))
        loss, low, high = report.ratio_of(cost, floor_cost)
        results[count] = {"rounds": figures[count]["rounds"], "floor": bare[count]["rounds"], "rate_to_one": speed,
                          "cpu_to_one": statistics.median(cost), "cpu_to_floor": loss}
        print(f"  {count:22}{load.median_of(figures[count], 'rate'):12,.0f}{speed:8.2f}"
              f"{load.median_of(figures[count], 'cpu_us'):11.2f} us{statistics.median(cost):8.2f}"
              f"{statistics.median(floor_cost):8.2f}{loss:10.2f}{low:8.2f} .. {high:.2f}"
              f"  {'met' if loss <= THREADS_BAR else 'NOT MET'}")
    return results
