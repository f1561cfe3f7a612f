#!/usr/bin/env python3
"""Runs the daemon with the restrictions of its systemd unit, without systemd as the init process.

    run.py BIN_DIRECTORY UNIT

Gives the unit's command the user, capabilities, system call filter, mounts and limits of the unit. It must serve,
reload, reopen its logs, replace a killed worker, upgrade and stop. Needs root, unshare(1) and systemd-analyze(1);
otherwise skipped (status 77).
"""
import ctypes
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

from filter import Filter

PATIENCE_S = 60
SKIPPED = 77
USER = 61234  # DynamicUser= takes one from 61184 to 65519
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
WORK = pathlib.Path("/run/unit-test")

# Directives that mount_as_in_unit() and restrict() emulate, so with another value these must change; and
# OOMPolicy, because the master replaces a worker that is killed for lack of memory.
EXPECTED = {
    "OOMPolicy": "continue",
    "CapabilityBoundingSet": "", "AmbientCapabilities": "", "NoNewPrivileges": "yes", "DynamicUser": "yes",
    "PrivateTmp": "yes", "ProtectSystem": "strict", "ProtectProc": "invisible", "ProcSubset": "pid",
    "SystemCallArchitectures": "native",
}


def read_service(path):
    """The directives of [Service]: name to the list of values."""
    directives, section = {}, ""
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            directives.setdefault(name, []).append(value)
    for name, value in EXPECTED.items():
        if directives.get(name) != [value]:
            sys.exit(f"{path}: {name} is {directives.get(name)}, but this test expects '{value}'")
    return directives


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def mount_as_in_unit(directives, programs):
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    (WORK / "bin").mkdir(parents=True)
    for name in ("webserverd", "wsctl"):
        shutil.copy(pathlib.Path(programs, name), WORK / "bin")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/log")
    for shared in ("/tmp", "/dev/shm"):
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", shared)
    mount("-t", "proc", "-o", "hidepid=invisible,subset=pid", "proc", "/proc")
    for parent, name in (("/run", "RuntimeDirectory"), ("/var/log", "LogsDirectory")):
        directory = pathlib.Path(parent, directives[name][-1])
        directory.mkdir(mode=int(directives.get(name + "Mode", ["0755"])[-1], 8))
        os.chown(directory, USER, USER)
    mount("-o", "remount,ro,bind", "/")


def restrict(directives, calls):
    """Runs in the new process before the command, in the order of systemd."""
    libc = ctypes.CDLL(None, use_errno=True)
    most = min(int(directives["LimitNOFILE"][-1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))
    tasks = int(directives["TasksMax"][-1])
    resource.setrlimit(resource.RLIMIT_NPROC, (tasks, tasks))
    os.umask(int(directives["UMask"][-1], 8))
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    calls.load()


class Service:
    """The unit's command, and what it reports to its service manager."""

    def __init__(self, directives):
        calls = Filter(directives)
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notifications.bind(str(WORK / "notify"))
        self.notifications.settimeout(1)
        os.chmod(WORK / "notify", 0o666)
        self.expect_same_sandbox(directives, calls)
        self.journal, errors = socket.socketpair()
        status = os.fstat(errors.fileno())
        environment = {"NOTIFY_SOCKET": str(WORK / "notify"), "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        self.process = subprocess.Popen(self.command(directives), env=environment, stdout=errors, stderr=errors,
                                        preexec_fn=lambda: restrict(directives, calls))
        errors.close()
        self.main, self.directives, self.calls = self.process.pid, directives, calls

    @staticmethod
    def expect_same_sandbox(directives, calls):
        """The unit must leave the daemon its own sandbox: -V prints what is possible."""
        words = [WORK / "bin" / "webserverd", "-V"]
        outside = subprocess.run(words, capture_output=True, check=True).stdout
        inside = subprocess.run(words, capture_output=True, check=True,
                                preexec_fn=lambda: restrict(directives, calls)).stdout
        if inside != outside:
            sys.exit(f"the unit restricts the sandbox: {inside}")

    def command(self, directives):
        """ExecStart= with the built program and a configuration of this test."""
        (WORK / "www").mkdir()
        (WORK / "www" / "index.html").write_text("served\n")
        (WORK / "webserver.ini").write_text(f"[server]\nroot = {WORK}/www\nlisten = 127.0.0.1:0\n"
                                            "[workers]\nprocesses = 2\nthreads = 1\n[log]\naccess = /var/log/webserverd/access.log\n")
        words = directives["ExecStart"][-1].split()
        words[0] = str(WORK / "bin" / "webserverd")
        words[words.index("-f") + 1] = str(WORK / "webserver.ini")
        return words

    def notified(self, wanted):
        """Waits for a notification with a line that begins with WANTED. Returns the rest of the line."""
        for _ in range(PATIENCE_S):
            try:
                lines = self.notifications.recv(4096).decode().splitlines()
            except TimeoutError:
                if self.process.poll():
                    break
                continue
            for line in lines:
                if line.startswith(wanted):
                    return line[len(wanted):]
        sys.exit(f"no notification {wanted}")

    def reload(self):
        """Returns the exit status of ExecReload=, and what it prints."""
        words = self.directives["ExecReload"][-1].split()
        words[0] = str(WORK / "bin" / "wsctl")
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                              preexec_fn=lambda: restrict(self.directives, self.calls))
        return done.returncode, done.stdout + done.stderr

    def signal(self, number):
        os.kill(self.main, number)

    def status(self):
        done = subprocess.run([WORK / "bin" / "wsctl", "--json", "status"], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=True)
        return json.loads(done.stdout)

    def wait_for(self, condition, what):
        for _ in range(PATIENCE_S * 20):
            status = self.status()
            if condition(status):
                return status
            signal.sigtimedwait([], 0.05)
        sys.exit(f"never: {what}")

    def get(self):
        """Fetches the page. Returns the status of the server."""
        status = self.wait_for(lambda status: status["workers"]["actual"] == 2, "two workers")
        with urllib.request.urlopen(f"http://{status['listening'][0]}/", timeout=PATIENCE_S) as answer:
            if answer.read() != b"served\n":
                sys.exit("the page has another text")
        return status


def workers_of(status):
    return {worker["pid"] for worker in status["workers"]["list"] if worker["state"] == "serving"}


def check(service):
    service.notified("READY=1")
    status = service.get()
    if service.reload()[0] != 0:
        sys.exit("a reload fails")
    service.notified("RELOADING=1")
    service.notified("READY=1")
    service.get()
    good = (WORK / "webserver.ini").read_text()
    (WORK / "webserver.ini").write_text("[server]\nroot = /nowhere\n")
    status, output = service.reload()
    if status == 0 or "/nowhere: No such file or directory" not in output:
        sys.exit(f"a reload of a faulty configuration has status {status}: {output}")
    (WORK / "webserver.ini").write_text(good)
    service.get()

    before = workers_of(service.status())
    os.kill(min(before), signal.SIGKILL)
    service.wait_for(lambda status: len(workers_of(status) - before) == 1, "a replacement of the killed worker")
    status = service.get()
    if status["metrics"]["workers_died"] != 1:
        sys.exit(f"{status['metrics']['workers_died']} workers died, but one was killed")

    os.rename("/var/log/webserverd/access.log", "/var/log/webserverd/access.log.1")
    service.signal(signal.SIGUSR1)
    service.wait_for(lambda status: os.path.exists("/var/log/webserverd/access.log"), "the reopened log")

    service.signal(signal.SIGUSR2)
    former, service.main = service.main, int(service.notified("MAINPID="))
    if os.waitpid(former, 0)[1] != 0:
        sys.exit("the former master fails")
    if service.get()["metrics"]["workers_died"] != 1:
        sys.exit("workers die after the upgrade, or the total does not go on")

    service.signal(signal.SIGTERM)
    service.notified("STOPPING=1")
    if os.waitpid(service.main, 0)[1] != 0:
        sys.exit("the server fails at its end")
    lines = b""
    while part := service.journal.recv(65536):
        lines += part
    for wanted in (rb"^<6>master \d+: worker \d+ ", rb"^<3>.* starting another", rb"^<3>.*/nowhere"):
        if not re.search(wanted, lines, re.MULTILINE):
            sys.exit(f"the journal has no {wanted}:\n{lines.decode()}")
    left = os.listdir("/run/webserverd") + os.listdir("/dev/shm")
    if left:
        sys.exit(f"left behind: {' '.join(left)}")


def main():
    programs, unit = sys.argv[1:3]
    inside = sys.argv[3:] == ["inside"]
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0 or not shutil.which("systemd-analyze") or \
            not inside and subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("not root, no namespaces, or no systemd-analyze: skipped")
        sys.exit(SKIPPED)
    if not inside:
        os.execvp(words[0], [*words, sys.executable, "-B", __file__, programs, unit, "inside"])
    directives = read_service(unit)
    mount_as_in_unit(directives, programs)
    check(Service(directives))
    print("the unit's command serves, reloads, upgrades and stops within its restrictions")


if __name__ == "__main__":
    main()
