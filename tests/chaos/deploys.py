#!/usr/bin/env python3
"""Deploys to a server under load, each as another directory in the place of its document root.

A swap moves a link to the next release over the link that is the root. A rebuild removes the root and makes it again.
Clients on keep-alive connections, two for each, request files of both roots all the time. No request may fail, each
answer must be of one release, and no client may get an older release after a newer one; while a root is rebuilt, its
files may be answered 404 and 503. In the end no worker or descriptor is left over.

    deploys.py --bin build/release/bin --swaps 300 --rebuilds 100 --clients 50

Exit status 0 or 1.
"""

import argparse
import functools
import os
import shutil
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True

from processes import PATIENCE_S, Fault, Server, free_port, run_in_directory, wait_until  # noqa: E402

LINES = {"small": 3, "medium": 2000, "large": 100000}  # of one answer; large is sent from the file, not from the cache
NAMES = ("small", "medium", "small", "medium", "small", "large")  # in the order of requests
WORKERS = 2
SETTLED_S = 2  # an answer 404 from before the end of a rebuild is in a cache for cache.revalidate


@functools.lru_cache(64)
def release_text(number, name):
    return f"{number}\n".encode() * LINES[name]


def write_release(directory, number):
    os.mkdir(directory)
    for name in LINES:
        path = os.path.join(directory, name)
        with open(path + ".new", "wb") as file:
            file.write(release_text(number, name))
        os.rename(path + ".new", path)


class Site:
    """One of the two roots."""

    def __init__(self, directory, name):
        self.directory, self.name, self.number = directory, name, 0
        self.root = os.path.join(directory, name)
        self.rebuilding, self.rebuilt = False, -SETTLED_S

    def swap(self):
        self.number += 1
        release = f"{self.root}-{self.number}"
        write_release(release, self.number)
        os.symlink(release, self.root + ".new")
        os.rename(self.root + ".new", self.root)
        shutil.rmtree(f"{self.root}-{self.number - 3}", ignore_errors=True)

    def rebuild(self):
        self.rebuilding = True
        shutil.rmtree(self.root, ignore_errors=True)
        self.number += 1
        write_release(self.root, self.number)
        self.rebuilt = time.monotonic()
        self.rebuilding = False

    def may_lack_files(self, begin):
        """Of an answer to a request that was sent at BEGIN."""
        return self.rebuilding or begin < self.rebuilt + SETTLED_S


class Connection:
    """A keep-alive connection, which is opened again after an answer that closes it."""

    def __init__(self, port):
        self.port, self.socket = port, None

    def get(self, name, host):
        """Returns status and body. It is of little work, as many clients share two cores with the server."""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        self.socket.sendall(f"GET /{name} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self.receive()
        head = received[:end].lower()
        length, parts = int(head.partition(b"content-length: ")[2].partition(b"\r")[0]), [received[end + 4:]]
        missing = length - len(parts[0])
        while missing > 0:
            parts.append(self.receive())
            missing -= len(parts[-1])
        if b"\r\nconnection: close" in head:
            self.socket.close()
            self.socket = None
        return int(head.split(b" ", 2)[1]), b"".join(parts)

    def receive(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise Fault("the connection ends within or before an answer")
        return data


class Client(threading.Thread):
    def __init__(self, port, sites, rate):
        super().__init__()
        self.connections = [Connection(port) for _ in range(2)]
        self.sites, self.pause = sites, 1 / rate
        self.seen = {site: 0 for site in sites}
        self.answers, self.faults, self.stopped = 0, [], False

    def request(self, turn):
        site, name = self.sites[turn // 2 % 2], NAMES[turn // 4 % len(NAMES)]
        begin = time.monotonic()
        status, body = self.connections[turn % 2].get(name, site.name)
        self.answers += 1
        if status != 200:
            if status not in (404, 503) or not site.may_lack_files(begin):
                raise Fault(f"{site.name}/{name}: status {status}")
            return
        number = int(body.split(b"\n", 1)[0])
        if body != release_text(number, name):
            raise Fault(f"{site.name}/{name}: a mixture of releases")
        if number < self.seen[site]:
            raise Fault(f"{site.name}/{name}: release {number} after release {self.seen[site]}")
        self.seen[site] = number

    def run(self):
        """A request that is late does not delay those after it."""
        turn, start = 0, time.monotonic()
        try:
            while not self.stopped:
                self.request(turn)
                turn += 1
                time.sleep(max(0, start + turn * self.pause - time.monotonic()))
        except (OSError, ValueError, Fault) as error:
            self.faults.append(repr(error))


def check_faults(clients):
    faults = [fault for client in clients for fault in client.faults]
    if faults:
        raise Fault(f"{len(faults)} of {len(clients)} clients: {faults[0]}")


def deploy(server, clients, site, how):
    """Returns how long it took until each client had an answer of the new release."""
    how()
    begin = time.monotonic()

    def all_have_it():
        check_faults(clients)
        return all(client.seen[site] == site.number for client in clients)
    wait_until(all_have_it, f"release {site.number} of {site.name} for all clients")
    server.wait_for_workers(WORKERS)
    return time.monotonic() - begin


def size_of(pid):
    """Descriptors and KiB of a process, without shared memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        anonymous = next(line for line in file if line.startswith("RssAnon:"))
    return len(os.listdir(f"/proc/{pid}/fd")), int(anonymous.split()[1])


def run(options, directory):
    swapped, rebuilt = sites = [Site(directory, name) for name in ("swapped", "rebuilt")]
    swapped.swap()
    rebuilt.rebuild()
    port = free_port()
    server = Server(options, directory, f"""listen = 127.0.0.1:{port}
root = {swapped.root}
[workers]
processes = {WORKERS}
threads = 2
[host rebuilt]
root = {rebuilt.root}
""")
    server.wait_for_workers(WORKERS)
    os.nice(options.nice)
    clients = [Client(port, sites, options.rate / options.clients) for _ in range(options.clients)]
    try:
        for client in clients:
            client.start()
        deploys = [(swapped, swapped.swap)] * options.swaps + [(rebuilt, rebuilt.rebuild)] * options.rebuilds
        deploy(server, clients, *deploys[0])
        before, slowest, start = size_of(server.pid), 0, time.monotonic()
        for number, (site, how) in enumerate(deploys[1:], 1):
            time.sleep(max(0, start + number * 60 / options.per_minute - time.monotonic()))
            slowest = max(slowest, deploy(server, clients, site, how))
        taken = time.monotonic() - start
        wait_until(lambda: size_of(server.pid)[0] <= before[0], f"no more descriptors than {before[0]}")
        after = size_of(server.pid)
        if after[1] > before[1] + options.growth:
            raise Fault(f"KiB of the master: {before[1]}, then {after[1]}")
        answers = sum(client.answers for client in clients)
        print(f"{len(deploys)} deploys, {answers} answers ({answers / taken:.0f}/s), the slowest after {slowest:.2f} s; "
              f"master: {after[1] - before[1]} KiB more")
    finally:
        for client in clients:
            client.stopped = True
        for client in clients:
            client.join()
    check_faults(clients)
    server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="directory of webserverd")
    parser.add_argument("--swaps", type=int, default=300)
    parser.add_argument("--rebuilds", type=int, default=100)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rate", type=float, default=2000, help="requests per second of all clients")
    parser.add_argument("--per-minute", type=float, default=20, help="deploys per minute, if the machine is fast enough")
    parser.add_argument("--nice", type=int, default=0, help="lower the priority of the clients by this")
    parser.add_argument("--growth", type=int, default=2048, help="allowed growth of the master, in KiB")
    parser.add_argument("--dispatch", choices=("kernel", "master"), default="kernel")
    return run_in_directory(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
