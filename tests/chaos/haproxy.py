#!/usr/bin/env python3
"""Three instances of webserverd behind a real HAProxy, under load, as etc/haproxy.cfg describes them.

Each instance in turn is drained and replaced, upgraded (SIGUSR2), stopped and started without a drain, and killed
(SIGKILL to all of its processes). Clients with addresses 127.0.1.1, 127.0.1.2 and so on send requests that contain their
address. No request may fail but those that a kill interrupted, each log line must have the address of its client, and
each answered request a log line, except those before a kill, which takes the last lines with it.

    haproxy.py --bin build/release/bin --rounds 3

Needs Debian's package haproxy. Exit status 0 or 1; 77 without haproxy.
"""

import argparse
import collections
import csv
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True

from processes import (  # noqa: E402
    PATIENCE_S, Fault, adopt_orphans, control, free_port, kill_descendants, kill_if_alive, parents, reap, wait_until)

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "etc", "haproxy.cfg")
NAMES = ("one", "two", "three")
FILES = {"small": 1000, "large": 300000}
LINE = re.compile(r'^(\S+) .*"GET /(\w+)\?client=([0-9.]+)&number=(\d+) HTTP/1\.1" (\d+) ')

Answer = collections.namedtuple("Answer", "client number begin end error")  # error: None for 200 with its body


class Instance:
    """A webserverd that trusts the PROXY headers of 127.0.0.1."""

    def __init__(self, options, directory, name):
        self.bin, self.name = options.bin, name
        self.directory = os.path.join(directory, name)
        self.port, self.metrics_port = free_port(), free_port()
        self.ended = {}
        self.kills = []
        os.mkdir(self.directory)
        with open(os.path.join(self.directory, "server.ini"), "w", encoding="ascii") as file:
            file.write(f"""[server]
name = haproxy-{os.getpid()}-{name}
listen = 127.0.0.1:{self.port}
root = {directory}/www
run_dir = run
[proxy]
listen = 127.0.0.1:{self.port}
trusted = 127.0.0.1
[metrics]
listen = 127.0.0.1:{self.metrics_port}
[workers]
processes = 2
threads = 1
drain_timeout = 5s
[log]
access = access.log
error = error.log
""")

    def pid(self):
        try:
            return control(os.path.join(self.directory, "run", f"haproxy-{os.getpid()}-{self.name}.sock"),
                           "ping").get("pid", 0)
        except (OSError, ValueError):
            return 0

    def start(self):
        with open(os.path.join(self.directory, "output"), "ab") as output:
            process = subprocess.Popen([os.path.join(self.bin, "webserverd"), "-f",
                                        os.path.join(self.directory, "server.ini")], stdout=output, stderr=output)
        process.returncode = 0  # reap() takes its status
        wait_until(lambda: self.pid() == process.pid, f"start of {self.name}")

    def has_ended(self, pid):
        reap(self.ended)
        return pid in self.ended

    def expect_success(self, pid):
        wait_until(lambda: self.has_ended(pid), f"end of {self.name}")
        if self.ended.pop(pid) != 0:
            raise Fault(f"{self.name}: exit status is not 0")

    def stop(self):
        pid = self.pid()
        os.kill(pid, signal.SIGTERM)
        self.expect_success(pid)

    def upgrade(self):
        pid = self.pid()
        os.kill(pid, signal.SIGUSR2)
        wait_until(lambda: self.pid() not in (0, pid), f"upgrade of {self.name}")
        self.expect_success(pid)

    def kill(self):
        master, family = self.pid(), parents()
        doomed = [pid for pid in family if pid == master or family[pid] == master]
        self.kills.append(time.monotonic())
        for pid in doomed:
            kill_if_alive(pid)
        wait_until(lambda: not parents().keys() & set(doomed), f"death of {self.name}")
        reap(self.ended)
        self.ended.clear()

    def log_lines(self):
        with open(os.path.join(self.directory, "access.log"), encoding="latin-1") as file:
            return file.read().splitlines()


class Balancer:
    """HAProxy with the example's configuration, except for addresses and ports."""

    def __init__(self, directory, instances):
        self.port, self.admin = free_port(), os.path.join(directory, "admin.sock")
        with open(EXAMPLE, encoding="utf-8") as file:
            text = file.read()
        text = text.replace("/run/haproxy/admin.sock", self.admin).replace("bind *:80", f"bind 127.0.0.1:{self.port}")
        text = text.replace(" port 9180", "")
        for instance in instances:
            text, found = re.subn(rf"server {instance.name} \S+",
                                  f"server {instance.name} 127.0.0.1:{instance.port} port {instance.metrics_port}", text)
            if found != 1:
                raise Fault(f"the example has no server {instance.name}")
        self.file = os.path.join(directory, "haproxy.cfg")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)
        self.process = subprocess.Popen(["haproxy", "-f", self.file])
        for instance in instances:
            self.wait_for(instance, "UP")

    def ask(self, command):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(PATIENCE_S)
            stream.connect(self.admin)
            stream.sendall(command.encode() + b"\n")
            return stream.makefile("r").read()

    def row(self, instance):
        try:
            text = self.ask("show stat")
        except OSError:
            return {}
        rows = csv.DictReader(text.removeprefix("# ").splitlines())
        return next((row for row in rows if row["pxname"] == "web" and row["svname"] == instance.name), {})

    def wait_for(self, instance, status):
        wait_until(lambda: self.row(instance).get("status", "").split(" ")[0] == status, f"{instance.name} {status}")

    def set_state(self, instance, state):
        self.ask(f"set server web/{instance.name} state {state}")

    def total(self, column):
        rows = csv.DictReader(self.ask("show stat").removeprefix("# ").splitlines())
        return sum(int(row[column] or 0) for row in rows if row["pxname"] == "web" and row["svname"] in NAMES)

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Client(threading.Thread):
    """Sends requests from its own address, 50 per connection, until it is stopped."""

    def __init__(self, number, port, stopped):
        super().__init__(daemon=True)
        self.address, self.port, self.stopped = f"127.0.1.{number}", port, stopped
        self.answers = []

    def request(self, connection, number):
        name = "large" if number % 10 == 0 else "small"
        begin = time.monotonic()
        error = None
        try:
            connection.request("GET", f"/{name}?client={self.address}&number={number}")
            response = connection.getresponse()
            body = response.read()
            if response.status != 200 or len(body) != FILES[name]:
                error = f"status {response.status}, {len(body)} bytes"
        except (OSError, http.client.HTTPException) as fault:
            error = repr(fault)
            connection.close()
        self.answers.append(Answer(self.address, number, begin, time.monotonic(), error))

    def run(self):
        number = 0
        while not self.stopped.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, PATIENCE_S, source_address=(self.address, 0))
            for _ in range(50):
                number += 1
                self.request(connection, number)
            connection.close()


class Trial:
    def __init__(self, options, directory):
        os.mkdir(os.path.join(directory, "www"))
        os.chmod(directory, 0o755)
        for name, size in FILES.items():
            with open(os.path.join(directory, "www", name), "wb") as file:
                file.write(b"x" * size)
        self.instances = [Instance(options, directory, name) for name in NAMES]
        for instance in self.instances:
            instance.start()
        self.balancer = Balancer(directory, self.instances)
        self.stopped = threading.Event()
        self.clients = [Client(number, self.balancer.port, self.stopped) for number in range(1, options.clients + 1)]
        for client in self.clients:
            client.start()

    def let_clients_work(self):
        """Until each has had 20 more answers."""
        goals = [len(client.answers) + 20 for client in self.clients]
        wait_until(lambda: all(len(client.answers) >= goal for client, goal in zip(self.clients, goals)), "answers")

    def drain_and_replace(self, instance):
        self.balancer.set_state(instance, "drain")
        wait_until(lambda: self.balancer.row(instance).get("scur") == "0", f"drain of {instance.name}")
        instance.stop()
        instance.start()
        self.balancer.set_state(instance, "ready")
        self.balancer.wait_for(instance, "UP")

    def upgrade(self, instance):
        instance.upgrade()

    def restart(self, instance):
        instance.stop()
        instance.start()
        self.balancer.wait_for(instance, "UP")

    def kill_and_start(self, instance):
        instance.kill()
        self.let_clients_work()
        instance.start()
        self.balancer.wait_for(instance, "UP")

    def round(self):
        for step in (self.drain_and_replace, self.upgrade, self.restart, self.kill_and_start):
            for instance in self.instances:
                self.let_clients_work()
                step(instance)
            print(f"{step.__name__}: {sum(len(client.answers) for client in self.clients)} requests so far", flush=True)

    def end(self):
        """Stops everything. Returns True if all is as it should be."""
        self.let_clients_work()
        self.stopped.set()
        for client in self.clients:
            client.join(PATIENCE_S)
        retried, moved = self.balancer.total("wretr"), self.balancer.total("wredis")
        self.balancer.stop()
        for instance in self.instances:
            instance.stop()
        answers = [answer for client in self.clients for answer in client.answers]
        print(f"{len(answers)} requests by {len(self.clients)} clients; HAProxy repeated {retried}, to another instance {moved}")
        good_answers = self.check_answers(answers)  # prints
        return self.check_logs(answers) and good_answers

    def check_answers(self, answers):
        kills = [kill for instance in self.instances for kill in instance.kills]
        failed = [answer for answer in answers if answer.error is not None]
        wrong = [answer for answer in failed if not any(answer.begin <= kill <= answer.end for kill in kills)]
        print(f"{len(failed)} failed; {len(failed) - len(wrong)} of them were under way at one of {len(kills)} kills")
        for answer in wrong[:10]:
            print(f"failed without a kill: {answer}")
        return not wrong

    def check_logs(self, answers):
        logged, wrong, lines = set(), [], 0
        for instance in self.instances:
            for line in instance.log_lines():
                match = LINE.match(line)
                lines += 1
                if match is None or match[1] != match[3]:
                    wrong.append(line)
                else:
                    logged.add((match[3], int(match[4])))
        last_kill = max(kill for instance in self.instances for kill in instance.kills)
        missing = [answer for answer in answers if answer.error is None and answer[:2] not in logged]
        late = [answer for answer in missing if answer.begin > last_kill]
        print(f"{lines} log lines, {len(wrong)} with a wrong address; {len(missing)} answered requests have none")
        for line in wrong[:10]:
            print(f"wrong: {line}")
        for answer in late[:10]:
            print(f"not logged although no kill came after it: {answer}")
        return not wrong and not late


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True, help="directory of webserverd")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    if shutil.which("haproxy") is None:
        print("haproxy is not installed")
        return 77
    adopt_orphans()
    with tempfile.TemporaryDirectory() as directory:
        try:
            trial = Trial(options, directory)
            for _ in range(options.rounds):
                trial.round()
            good = trial.end()
        except Fault as fault:
            print(f"fault: {fault}")
            good = False
        finally:
            kill_descendants()
    print("good" if good else "failed")
    return 0 if good else 1


sys.exit(main())
