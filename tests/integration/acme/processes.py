"""The ACME process: what it may do, and that it may end at any time."""
import contextlib
import os
import pathlib
import pwd
import signal
import threading

from acme_server import NAME
from harness import PATIENCE_S, expect, has_ended, run, test, until


@test
def off_means_no_process(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        server.set(acme__enabled="off", server__listen="127.0.0.1:0")
        server.control("reload")
        until(lambda: server.acme_pid() == 0, "the end of the process")


@test
def killed_process_is_replaced(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        pid = until(server.acme_pid, "the process")
        os.kill(pid, signal.SIGKILL)
        until(lambda: server.acme_pid() not in (0, pid), "another process")
        server.await_event("the ACME process")


@test
def kill_in_each_step_is_followed_by_a_certificate(bench):
    for step in ("/directory", "/newAccount", "/newOrder", "/authorization", "/challenge", "/finalize", "/order",
                 "/certificate"):
        authority = bench.authority()
        killed, started = [], threading.Event()

        def kill(path, step=step, killed=killed, started=started):
            if path.startswith(step) and not killed and started.wait(PATIENCE_S):
                killed.append(until(server.acme_pid, "the process"))
                os.kill(killed[0], signal.SIGKILL)

        authority.faults.append(kill)
        with bench.start(authority) as server:
            started.set()
            server.await_certificate()
            expect(len(killed), 1, f"kills in step {step}")


@test
def state_directory_may_be_below_one_that_only_root_enters(bench):
    closed = bench.directory / "closed"
    closed.mkdir(mode=0o700)
    authority = bench.authority()
    with bench.start(authority, acme__state_dir=closed / "state") as server:
        server.await_certificate()


@test
def hanging_process_is_replaced(bench):
    authority = bench.authority()
    with bench.start(authority, workers__heartbeat_timeout="2s") as server:
        server.await_certificate()
        pid = until(server.acme_pid, "the process")
        os.kill(pid, signal.SIGSTOP)
        server.await_event("has given no sign of life")
        until(lambda: server.acme_pid() not in (0, pid), "another process")


@test
def it_ends_with_a_killed_master(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        pid = until(server.acme_pid, "the process")
        server.process.kill()
        server.process.wait()
        until(lambda: has_ended(pid), "the end of the process")
        server.launch()


@test
def second_instance_waits_for_the_directory(bench):
    authority = bench.authority()
    with bench.start(authority) as first:
        first.await_certificate()
        with bench.start(authority, acme__state_dir=first.state) as second:
            second.await_event("another process uses it; waiting")
            expect(len(authority.orders), 1, "orders")


@test
def process_of_an_upgrade_takes_over(bench):
    authority = bench.authority()
    with bench.start(authority, workers__processes="2") as server:
        serial = server.await_certificate()
        before = until(server.acme_pid, "the process")
        master = server.status()["pid"]
        os.kill(master, signal.SIGUSR2)
        until(lambda: server.status()["pid"] != master, "the new master")
        until(lambda: server.acme_pid() not in (0, before), "the new process")
        expect(server.certificate()[1], serial, "serial number")
        os.kill(server.status()["pid"], signal.SIGTERM)
        server.process.wait(90)


@test
def each_process_has_a_title_and_its_pid_in_the_status(bench):
    with bench.start(bench.authority(), metrics__listen="127.0.0.1:0") as server:
        status = until(lambda: all_run(server.status()), "all processes")
        for role, pid in status.items():
            shown = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
            expect(shown[0], f"webserverd: {role} ({server.name})", "title")
            expect(len(shown) > 1, role == "acme", "words after it")
        nicer = min(os.getpriority(os.PRIO_PROCESS, server.process.pid) + 10, 19)
        until(lambda: os.getpriority(os.PRIO_PROCESS, status["acme"]) == nicer, "the nice value")
        text = server.control("status")
        pids = ", ".join(f"{role} {status[role]}" for role in ("logger", "keys", "metrics", "acme"))
        expect(f"pids         {pids}\n" in text, True, text)


def all_run(status):
    """The process ids by role; None: one is missing."""
    pids = {"master": status["pid"], "worker 0": status["workers"]["list"][0]["pid"], "metrics": status["metrics_process"]["pid"],
            **{role: status[role]["pid"] for role in ("logger", "keys", "acme")}}
    return pids if all(pids.values()) else None


@test
def it_has_a_sandbox(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        pid = until(server.acme_pid, "the process")
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        if "seccomp" in run(bench.programs / "webserverd", "-V"):
            expect((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "no_new_privs and seccomp")
        expect(int(status["CapEff"], 16), 0, "capabilities")
        expect(pathlib.Path(f"/proc/{pid}/comm").read_text(), "webserverd-acme\n", "name of the process")
        maps = pathlib.Path(f"/proc/{server.status()['pid']}/maps").read_text()
        expect("libcurl" in maps, False, "libcurl in the master")
        expect([line for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "/dev/shm" in line], [],
               "shared memory of the ACME process")


def tree(directory):
    """Owner, mode and content of all files below DIRECTORY."""
    files = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        files[path.name] = (status.st_uid, status.st_gid, status.st_mode, path.read_bytes() if path.is_file() else b"")
    return files


def plant(state, outside, uid):
    """Links of user UID to OUTSIDE in place of each file that the server reads, writes or renames."""
    targets = [outside / "file", outside, "../outside/file", "../outside"]
    names = ["account.key", "account.json", f"{NAME}.pem", f"{NAME}.json", f"{NAME}.pem.new", f"{NAME}.pem.unusable", "account.key.new",
             "lock", "self-signed"]
    for number, name in enumerate(names):
        with contextlib.suppress(FileNotFoundError):
            (state / name).unlink()
        (state / name).symlink_to(targets[number % len(targets)])
        os.lchown(state / name, uid, uid)


@test
def links_in_the_state_directory_change_nothing_outside(bench):
    if os.geteuid() != 0:
        return
    uid, nobody = pwd.getpwnam("daemon").pw_uid, pwd.getpwnam("nobody").pw_uid
    outside, state = bench.directory / "outside", bench.directory / "planted"
    for directory in (outside, state):
        directory.mkdir(mode=0o755)
    (outside / "file").write_text("outside", encoding="ascii")
    os.chmod(outside / "file", 0o600)
    before = tree(outside)
    plant(state, outside, nobody)
    os.chown(state, nobody, nobody)
    authority = bench.authority()
    with bench.start(authority, acme__state_dir=state, acme__user="daemon") as server:
        server.await_event(f"it and the files of user {nobody} now belong to user {uid}")
        server.await_event("keeps its owner: a symbolic link", 9)
        server.await_event(f"{NAME}.pem: Too many levels of symbolic links: serving a self-signed certificate")
        expect(server.certificate()[2], [NAME], "names of the certificate")
        expect(tree(outside), before, "files outside")
        expect((state.stat().st_uid, state.stat().st_mode & 0o777), (uid, 0o700), "owner and mode of the directory")
        pid = until(server.acme_pid, "the process, whose lock has replaced a link")
        for path in state.iterdir():
            path.unlink()
        os.kill(pid, signal.SIGKILL)  # it would wait a minute for another key of the account
        server.await_certificate()
        pid = until(server.acme_pid, "the process")
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        expect([line.split()[1:] for line in status.splitlines() if line.startswith("Uid")], [[str(uid)] * 4], "users of the process")
        expect({(state / name).stat().st_uid for name in ("account.key", f"{NAME}.pem", "lock")}, {uid}, "owner of the files")
        plant(state, outside, uid)
        server.control("reload")
        server.await_event(f"{NAME}.pem: Too many levels of symbolic links: serving a self-signed certificate", 2)
        expect(tree(outside), before, "files outside after a reload")
        server.set(acme__user="nobody")
        server.control("reload")
        server.await_event(f"it and the files of user {uid} now belong to user {nobody}")
        expect(tree(outside), before, "files outside after the change of the user")
