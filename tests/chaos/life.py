#!/usr/bin/env python3
"""Walks the life cycle of a real server at random: start, reload, upgrade, stop, their crossings, and killed processes.

After each step it checks who serves (one master, all other processes are its children, the site is answered), the exit
status of each master that has ended, that nothing is left behind after a stop, and that no event came that the table of
daemon/master/lifecycle.def excludes.

    life.py --bin build/release/bin --steps 10000 --dispatch master

It prints its seed; --seed repeats the same steps. With --small (as root) /dev/shm is small. Exit status 0 or 1.
"""

import argparse
import collections
import glob
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from processes import (  # noqa: E402
    PATIENCE_S, Fault, Filler, adopt_orphans, control, free_port, kill_descendants, kill_if_alive, mount_own, parents,
    reap, wait_until)

LARGE = 32 * 1024 * 1024
STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT]


class Server:
    def __init__(self, options, directory):
        self.directory, self.name, self.dispatch = directory, f"life-{os.getpid()}", options.dispatch
        self.real = os.path.abspath(os.path.join(options.bin, "webserverd"))
        self.program = os.path.join(directory, "webserverd")
        self.output = os.path.join(directory, "output")
        self.ended = {}
        os.mkdir(os.path.join(directory, "www"))
        os.chmod(directory, 0o755)
        self.write("www/index.html", b"life")
        self.write("www/large", b"")
        os.truncate(os.path.join(directory, "www/large"), LARGE)
        self.write("broken", b"#!/bin/sh\nexit 3\n")
        os.chmod(os.path.join(directory, "broken"), 0o755)
        self.port = free_port()
        self.set_program(self.real)
        self.write_config()

    def write(self, name, content):
        with open(os.path.join(self.directory, name), "wb") as file:
            file.write(content)

    def set_program(self, target):
        os.symlink(target, self.program + ".next")
        os.rename(self.program + ".next", self.program)

    def write_config(self, processes="2", cache="16M"):
        self.write("server.ini", f"""[server]
name = {self.name}
listen = 127.0.0.1:{self.port}
root = www
run_dir = run
[cache]
size = {cache}
max_entries = 64
[workers]
processes = {processes}
threads = 2
dispatch = {self.dispatch}
stop_grace = 10ms
[log]
access = access.log
ring = 64K
""".encode())

    def control(self, line):
        return control(os.path.join(self.directory, "run", self.name + ".sock"), line)

    def pid(self):
        """Of the master that has the control socket; 0: none."""
        try:
            return self.control("ping").get("pid", 0)
        except (OSError, ValueError):
            return 0

    def has_ended(self, pid):
        reap(self.ended)
        return pid in self.ended

    def expect_success(self, pid):
        wait_until(lambda: self.has_ended(pid), f"the end of master {pid}")
        if self.ended[pid] != 0:
            raise Fault(f"master {pid} ended with wait status {self.ended[pid]:#x}")

    def printed(self, words, begin=0):
        """How often, from the byte BEGIN on."""
        with open(self.output, "rb") as file:
            file.seek(begin)
            return file.read().count(words.encode())

    def printed_bytes(self):
        return os.path.getsize(self.output)

    def forget_ended(self):
        """Before a step: the kernel uses process ids again."""
        reap(self.ended)
        self.ended.clear()

    def start(self):
        self.forget_ended()
        with open(self.output, "ab") as output:
            process = subprocess.Popen([self.program, "-f", os.path.join(self.directory, "server.ini")],
                                       stdout=output, stderr=output)
        process.returncode = 0  # its status is in `ended`
        wait_until(lambda: self.pid() == process.pid or self.has_ended(process.pid), "the start")

    def all_gone(self):
        return reap(self.ended)

    def expect_nothing_left(self):
        wait_until(self.all_gone, "the end of all processes")
        left = os.listdir(os.path.join(self.directory, "run")) + glob.glob(f"/dev/shm/webserverd.{self.name}*")
        if left:
            raise Fault(f"left behind: {left}")

    def answer(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: life\r\nConnection: close\r\n\r\n")
                return client.makefile("rb").read()
        except OSError as error:
            raise Fault(f"no answer: {error}") from error

    def is_settled(self):
        reap(self.ended)
        master = self.pid()
        if master == 0 or any(parent != master for pid, parent in parents().items() if pid != master):
            return False
        workers = self.control("status")["workers"]
        return len(workers["list"]) == workers["wanted"] and all(
            worker["state"] == "serving" for worker in workers["list"])

    def check(self):
        wait_until(self.is_settled, "one master with its workers")
        if not (answer := self.answer()).endswith(b"\r\n\r\nlife"):
            raise Fault(f"wrong answer: {answer}")
        if self.printed("is impossible when"):
            raise Fault("an impossible event")


class Walk:
    def __init__(self, server, numbers, small):
        self.server, self.numbers = server, numbers
        self.steps = [getattr(self, name) for name in dir(self) if name.startswith("step_")]
        if not small:
            self.steps.remove(self.step_full_memory)

    def signal(self, number):
        pid = self.server.pid()
        os.kill(pid, number)
        return pid

    def pause(self):
        """Anywhere in what a signal has begun; each outcome is checked."""
        time.sleep(self.numbers.choice([0, 0.001, 0.005, 0.01, 0.02, 0.05]))

    def download(self):
        client = socket.create_connection(("127.0.0.1", self.server.port), PATIENCE_S)
        client.sendall(b"GET /large HTTP/1.1\r\nHost: life\r\n\r\n")
        if not client.recv(1):
            raise Fault("no download")
        return client

    def step_reload(self):
        self.server.write_config(cache=self.numbers.choice(["1M", "16M", "32M"]))
        reply = self.server.control("reload")
        if not reply["ok"]:
            raise Fault(f"reload: {reply['error']}")

    def step_bad_reload(self):
        self.server.write_config(processes="many")
        if self.server.control("reload")["ok"]:
            raise Fault("a bad configuration was accepted")
        self.signal(signal.SIGHUP)
        self.pause()
        self.server.write_config()

    def step_reloads_by_signal(self):
        for _ in range(3):
            self.signal(signal.SIGHUP)
            self.pause()

    def step_upgrade(self):
        before = self.signal(signal.SIGUSR2)
        wait_until(lambda: self.server.pid() not in (0, before), "the new master")
        self.server.expect_success(before)

    def step_bad_upgrade(self):
        failures = self.server.printed("this one continues")
        self.server.set_program(os.path.join(self.server.directory, "broken"))
        before = self.signal(signal.SIGUSR2)
        wait_until(lambda: self.server.printed("this one continues") > failures, "the end of the broken master")
        self.server.set_program(self.server.real)
        if self.server.pid() != before:
            raise Fault("the old master is gone")

    def step_upgrade_and_reload(self):
        both = [signal.SIGUSR2, signal.SIGHUP]
        self.numbers.shuffle(both)
        before = self.server.pid()
        os.kill(before, both[0])
        self.pause()
        if not self.server.has_ended(before):
            os.kill(before, both[1])
        wait_until(lambda: self.server.pid() not in (0, before), "the new master")
        self.server.expect_success(before)

    def step_upgrade_and_stop(self):
        """All masters stop, unless the new one serves already: then the old one retires."""
        begin = self.server.printed_bytes()  # an earlier master may have had the same process id
        before = self.signal(signal.SIGUSR2)
        self.pause()
        if not self.server.has_ended(before):
            os.kill(before, self.numbers.choice(STOPS))
        self.server.expect_success(before)
        stopped = ("upgrade ended by a stop", "upgrade rejected: the server is stopping")
        if not any(self.server.printed(f"master {before}: {words}", begin) for words in stopped):
            wait_until(lambda: self.server.pid() not in (0, before), "the new master")
            self.server.expect_success(self.signal(signal.SIGTERM))
        self.server.expect_nothing_left()
        self.server.start()

    def step_stop(self):
        master = self.server.pid()
        if self.numbers.random() < 0.5:
            self.server.control("stop")
        else:
            os.kill(master, self.numbers.choice(STOPS))
        self.server.expect_success(master)
        self.server.expect_nothing_left()
        self.server.start()

    def step_second_stop(self):
        with self.download():
            master = self.signal(self.numbers.choice(STOPS))
            self.pause()
            os.kill(master, self.numbers.choice(STOPS))
            self.server.expect_success(master)
        self.server.expect_nothing_left()
        self.server.start()

    def step_kill_child(self):
        children = [pid for pid, parent in parents().items() if parent == self.server.pid()]
        kill_if_alive(self.numbers.choice(children))

    def step_kill_master(self):
        master = self.signal(signal.SIGKILL)
        wait_until(lambda: self.server.has_ended(master) and self.server.all_gone(), "the end after a kill")
        self.server.start()

    def step_resize(self):
        self.server.control(f"workers {self.numbers.randint(1, 4)}")
        self.server.control(f"threads {self.numbers.randint(1, 4)}")

    def step_restart(self):
        self.server.control("restart all")

    def step_no_descriptors(self):
        """Changes are made or refused, but answered."""
        master = self.server.pid()
        before = resource.prlimit(master, resource.RLIMIT_NOFILE)
        opened = len(os.listdir(f"/proc/{master}/fd"))
        resource.prlimit(master, resource.RLIMIT_NOFILE, (opened + 2, before[1]))
        for line in ["reload", "threads 3", "workers 4"]:
            self.server.control(line)
        resource.prlimit(master, resource.RLIMIT_NOFILE, before)

    def step_full_memory(self):
        """The same without a byte of shared memory left."""
        with Filler("/dev/shm"):
            for line in ["reload", "threads 4", "workers 8", "restart all", "threads 2"]:
                self.server.control(line)


def run(options):
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    print(f"life: seed {seed}, {options.steps} steps, at most {options.seconds:.0f} s, dispatch {options.dispatch}",
          flush=True)
    finish = time.monotonic() + options.seconds
    small = options.small and mount_own("/dev/shm", 64)
    if small != options.small:
        print("life: no mount namespace: the memory is not small")
    adopt_orphans()
    directory = tempfile.mkdtemp(prefix="webserverd-life-")
    server = Server(options, directory)
    walk = Walk(server, random.Random(seed), small)
    done, name = collections.Counter(), "start"
    try:
        server.start()
        server.check()
        while sum(done.values()) < options.steps and time.monotonic() < finish:
            step = walk.numbers.choice(walk.steps)
            name = step.__name__[5:]
            done[name] += 1
            server.forget_ended()
            step()
            server.check()
        name = "last stop"
        server.forget_ended()
        server.expect_success(walk.signal(signal.SIGTERM))
        server.expect_nothing_left()
    except (Fault, OSError) as fault:
        print(f"life: FAULT in step {sum(done.values())}, {name}: {fault}; seed {seed}; all files are kept in {directory}")
        return 1
    finally:
        kill_descendants()
    shutil.rmtree(directory)
    print("life: passed; " + ", ".join(f"{count} {word}" for word, count in done.most_common()))
    return 0


def main():
    parser = argparse.ArgumentParser(description="A random walk through the life cycle of a server.")
    parser.add_argument("--bin", default="build/release/bin", help="directory of the programs")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=86400, help="end after this time, with fewer steps")
    parser.add_argument("--dispatch", choices=["kernel", "master"], default="kernel")
    parser.add_argument("--small", action="store_true", help="with a small /dev/shm of its own, which gets full")
    parser.add_argument("--seed", type=int, help="seed of an earlier run")
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
