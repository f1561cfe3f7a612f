#!/usr/bin/env python3
"""Starts a server again and again; each time the next system call fails once that has not failed before.

    failing_calls.py --bin build/release/bin --preload libfailing_calls.so [--start] [--seconds S]

A run starts the server, sends requests, reloads and stops. At first a call of the start fails; when all of them have
failed, those of the later steps. The server must exit with a message or go on working: no process may crash, and no
process or name may be left behind. The master may kill a child that does not leave in time. The program ends when no
new call fails, with --start when those of the start have failed, or after S seconds. Exit status 0,
1 (a fault) or 2 (usage error).
"""
import argparse
import glob
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time

from processes import (
    PATIENCE_S, Fault, adopt_orphans, control, fix_addresses, free_port, kill_descendants, reap, wait_until)

PLACES_BYTES = 16 + 8 * (1 << 16)  # struct failing_places
MORE, FAILED = 4, 8
FAILURES_A_STEP, LEAST_FAILURES = 3, 20
CRASHES = re.compile(r"killed by signal (?!9 )|Sanitizer|runtime error:|is impossible when")


class Places:
    """The control file of failing_calls.c."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.truncate(PLACES_BYTES)
        os.chmod(path, 0o666)
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), PLACES_BYTES)

    def allow(self, failures):
        self.memory[MORE:MORE + 4] = struct.pack("i", failures)

    def failed(self):
        return struct.unpack_from("I", self.memory, FAILED)[0]


class Server:
    def __init__(self, options, directory):
        self.directory, self.name, self.port = directory, f"failing-{os.getpid()}", free_port()
        self.start_only = options.start
        self.places = Places(os.path.join(directory, "places"))
        self.output, self.pid, self.ended = os.path.join(directory, "output"), 0, {}
        os.mkdir(os.path.join(directory, "www"))
        os.chmod(directory, 0o755)
        self.write("www/index.html", "text")
        self.write("www/large", "x" * 300000)
        self.write("server.ini", f"""[server]
name = {self.name}
listen = 127.0.0.1:{self.port}
root = www
run_dir = run
[workers]
processes = 2
threads = 2
dispatch = {options.dispatch}
stop_grace = 10ms
drain_timeout = 2s
[files]
autoindex = on
[cache]
max_entries = 64
[log]
access = access.log
ring = 64K
""")
        self.command = [os.path.abspath(os.path.join(options.bin, "webserverd")), "-f",
                        os.path.join(directory, "server.ini")]
        self.environment = {**os.environ, "LD_PRELOAD": os.path.basename(options.preload),
                            "LD_LIBRARY_PATH": os.path.dirname(os.path.abspath(options.preload)),
                            "FAILING_PLACES": os.path.join(directory, "places")}

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    def printed(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def has_ended(self):
        reap(self.ended)
        return self.pid in self.ended

    def start(self):
        """Returns whether it serves."""
        self.ended.clear()
        with open(self.output, "wb") as output:
            self.pid = os.posix_spawn(self.command[0], self.command, self.environment, file_actions=[
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1), (os.POSIX_SPAWN_DUP2, output.fileno(), 2)])
        wait_until(lambda: self.has_ended() or "watch it:" in self.printed(), "a start or an exit")
        return not self.has_ended()

    def command_line(self, line):
        """An answer, or the end of the connection."""
        try:
            control(os.path.join(self.directory, "run", self.name + ".sock"), line)
        except TimeoutError as error:
            raise Fault(f"no answer to {line}") from error
        except (OSError, ValueError):
            pass

    def request(self, target):
        """A response, or the end of the connection."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
                while connection.recv(65536) != b"":
                    pass
        except TimeoutError as error:
            raise Fault(f"no response to {target}") from error
        except OSError:
            pass

    def stop(self):
        if not self.has_ended():
            os.kill(self.pid, signal.SIGTERM)
        wait_until(self.has_ended, "the end")

    def check_end(self, served, may_leave):
        printed = self.printed()
        status = os.waitstatus_to_exitcode(self.ended[self.pid])
        if status < 0 or CRASHES.search(printed):
            raise Fault(f"a process crashed; exit status {status}")
        messages = [line for line in printed.splitlines() if not line.startswith("failing: ")]
        if not served and (status == 0 or (not messages and "failing: write" not in printed)):
            raise Fault(f"exit status {status} without a message")
        wait_until(lambda: reap(self.ended), "the end of all processes")
        if may_leave:
            return
        left = os.listdir(os.path.join(self.directory, "run")) if os.path.exists(self.directory + "/run") else []
        left += [name for name in os.listdir("/dev/shm") if name.startswith(f"webserverd.{self.name}.")]
        if left:
            raise Fault(f"left behind: {' '.join(left)}")

    def clean_up(self):
        kill_descendants()
        wait_until(lambda: reap(self.ended), "the end of all processes")
        shutil.rmtree(os.path.join(self.directory, "run"), ignore_errors=True)
        for segment in glob.glob(f"/dev/shm/webserverd.{self.name}.*"):
            os.unlink(segment)

    def run(self):
        """Returns whether a call failed."""
        before = before_stop = self.places.failed()
        self.places.allow(1)
        served = self.start()
        if served and self.places.failed() == before and not self.start_only:
            for step in (lambda: (self.request("/"), self.request("/large"), self.request("/")),
                         lambda: self.command_line("status"), lambda: self.command_line("reload"),
                         lambda: self.command_line("threads 3"), self.stop):
                self.places.allow(FAILURES_A_STEP)
                before_stop = self.places.failed()
                step()
        self.places.allow(0)
        if served and not self.has_ended():
            self.request("/")
        self.stop()
        # A call that fails before a name is removed may leave it; the next start replaces it.
        self.check_end(served, served and self.places.failed() > before_stop)
        return self.places.failed() > before


def try_run(server, faults):
    """A run; a fault is reported and what it left is removed."""
    try:
        return server.run()
    except Fault as fault:
        print(f"FAULT: {fault}\n{server.printed()}", flush=True)
        faults.append(fault)
        server.clean_up()
        return True


def main():
    parser = argparse.ArgumentParser(description="Lets each system call of a server fail once.")
    parser.add_argument("--bin", required=True, help="directory of webserverd")
    parser.add_argument("--preload", required=True, help="libfailing_calls.so")
    parser.add_argument("--dispatch", choices=("kernel", "master"), default="kernel")
    parser.add_argument("--start", action="store_true", help="only the calls of the start")
    parser.add_argument("--seconds", type=float, default=1 << 20, help="no new run after this time")
    options = parser.parse_args()
    adopt_orphans()
    fix_addresses()  # call stacks are the same in each run only without random addresses
    until, runs, faults = time.monotonic() + options.seconds, 0, []
    with tempfile.TemporaryDirectory() as directory:
        server = Server(options, directory)
        try:
            while time.monotonic() < until and try_run(server, faults):
                runs += 1
        finally:
            kill_descendants()
        print(f"{server.places.failed()} calls failed in {runs} runs, {len(faults)} faults")
        if server.places.failed() < LEAST_FAILURES:
            faults.append("too few calls failed: is the library loaded?")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
