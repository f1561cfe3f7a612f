"""The ACME process: what it may do, and that it may end at any time."""
import os
import pathlib
import signal
import threading

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
