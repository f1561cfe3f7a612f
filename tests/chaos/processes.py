"""What the tests of this directory share: families of processes, waiting, a small /dev/shm, the control socket, a server."""

import contextlib
import ctypes
import glob
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 60
PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.05  # between two looks at a condition
PR_SET_CHILD_SUBREAPER = 36
ADDR_NO_RANDOMIZE = 0x40000
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 0x40000, 2
libc = ctypes.CDLL(None, use_errno=True)


class Fault(Exception):
    """The server is not as it should be."""


def wait_until(condition, what):
    deadline, pause = time.monotonic() + PATIENCE_S, PAUSE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Fault(f"timeout: {what}")
        time.sleep(pause)
        pause = min(pause * 1.2, LONGEST_PAUSE_S)


def free_port():
    """A port that no other program gets by chance: below those that the kernel gives to connections."""
    while True:
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def free_ports(count):
    """Different ones."""
    found = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def control(path, line):
    """Sends LINE to the control socket PATH and returns the answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        connection.sendall(line.encode() + b"\n")
        return json.loads(connection.makefile("rb").readline() or b"{}")


def adopt_orphans():
    """Makes this process the parent of descendants whose parent exits, such as a master after an upgrade."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def fix_addresses():
    """Gives the programs that this process starts no random addresses, as `setarch -R` does."""
    if libc.personality(libc.personality(ctypes.c_ulong(0xFFFFFFFF)) | ADDR_NO_RANDOMIZE) == -1:
        raise OSError(ctypes.get_errno(), "personality")


def reap(ended):
    """Adds the wait status of each child that has exited to ENDED. Returns whether no process is left: all descendants
    are children of this process, or of a descendant, as it adopts orphans."""
    try:
        while (child := os.waitpid(-1, os.WNOHANG))[0] != 0:
            ended[child[0]] = child[1]
    except ChildProcessError:
        return True
    return False


def children(pid):
    """The children of a process that have not been reaped."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/[0-9]*/children"):
        try:
            with open(path, encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


def has_exited(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def family():
    """The parent of each descendant of this process, with those that have exited but are not reaped."""
    found, unread = {}, [os.getpid()]
    while unread:
        parent = unread.pop()
        new = [pid for pid in children(parent) if pid not in found]
        found.update(dict.fromkeys(new, parent))
        unread += new
    return found


def parents():
    """The parent of each descendant of this process."""
    found = None
    while found != (found := family()):  # the children of a process that exits meanwhile have another parent
        continue
    return {pid: parent for pid, parent in found.items() if not has_exited(pid)}


def kill_if_alive(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def kill_descendants():
    for pid in parents():
        kill_if_alive(pid)


def mount_own(path, megabytes):
    """Mounts a tmpfs on PATH that only this process and its descendants see. Only root may."""
    return (libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
            and libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"size={megabytes}m".encode()) == 0)


def unmount(path):
    libc.umount2(path.encode(), MNT_DETACH)


class Filler:
    """A context in which DIRECTORY's file system is full."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "filler")

    def __enter__(self):
        file = os.open(self.path, os.O_CREAT | os.O_WRONLY)
        for size in (1024 * 1024, 4096):
            try:
                while os.write(file, bytes(size)) > 0:
                    pass
            except OSError:
                pass
        os.close(file)

    def __exit__(self, *error):
        os.unlink(self.path)


class Server:
    """A webserverd in DIRECTORY with the configuration TEXT, which begins in the section [server]."""

    def __init__(self, options, directory, text):
        self.directory, self.bin = directory, options.bin
        self.socket, self.output = os.path.join(directory, "control.sock"), os.path.join(directory, "output")
        file = os.path.join(directory, "server.ini")
        with open(file, "w", encoding="ascii") as config:
            config.write(f"[control]\nsocket = {self.socket}\n[log]\naccess = off\n[workers]\ndispatch = {options.dispatch}\n"
                         f"[server]\nname = test-{os.getpid()}\nrun_dir = {directory}\n{text}")
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen([os.path.join(self.bin, "webserverd"), "-f", file], stdout=output, stderr=output)
        self.pid = self.process.pid  # of the master, which an upgrade changes

    def status(self):
        return control(self.socket, "status")

    def workers(self, state):
        """Their pids; none while the server starts."""
        if has_exited(self.pid):
            raise Fault("the server has ended")
        try:
            return [worker["pid"] for worker in self.status()["workers"]["list"] if worker["state"] == state]
        except (OSError, KeyError, ValueError):
            return []

    def wait_for_workers(self, count):
        """Only COUNT serving ones."""
        wait_until(lambda: len(self.workers("serving")) == count and not self.workers("leaving"), f"{count} workers")

    def printed(self, text):
        with open(self.output, encoding="utf-8") as file:
            return file.read().count(text)

    def stop(self):
        control(self.socket, "stop")
        wait_until(lambda: has_exited(self.pid), "end of the server")


def run_in_directory(run, options):
    """Calls RUN with OPTIONS and a new directory, where a Server may be. Returns the exit status: 1 after a Fault."""
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="webserverd-") as directory:
        os.chmod(directory, 0o755)
        try:
            run(options, directory)
        except Fault as fault:
            with open(os.path.join(directory, "output"), encoding="utf-8") as file:
                print(file.read()[-8000:])
            print(f"FAULT: {fault}")
            return 1
        finally:
            kill_descendants()
    return 0
