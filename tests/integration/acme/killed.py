"""Other processes than the one of ACME are killed in each step of obtaining a certificate: a certificate is served afterwards."""
import os
import signal
import threading

from acme_server import NAME
from harness import PATIENCE_S, expect, test, until

STEPS = ("/directory", "/newAccount", "/newOrder", "/authorization", "/challenge", "/finalize", "/order", "/certificate", "install")
RENEWAL_STEPS = ("/newOrder", "/challenge", "/finalize", "/certificate", "install")


def kill_master(server):
    os.kill(server.status()["pid"], signal.SIGKILL)
    server.process.wait(PATIENCE_S)
    server.launch()
    server.authority.http_port = server.plain_port


def kill_workers(server):
    for pid in server.worker_pids():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has left
            pass


def kill_keys(server):
    """Returns when another keys process runs: a handshake before that may wait for seconds."""
    pid = until(lambda: server.status()["keys"]["pid"], "the keys process")
    os.kill(pid, signal.SIGKILL)
    until(lambda: server.status()["keys"]["pid"] not in (0, pid), "another keys process")


def served_serial(server):
    """"": no handshake while processes start."""
    try:
        return server.certificate()[1]
    except OSError:
        return ""


def await_convergence(server, other_than, what):
    """Waits until clients get the certificate in the state directory, and the next attempt is a renewal."""
    def converged():
        shown = server.shown()
        return (server.may_serve_another_than(other_than) and "next_attempt" in shown and shown["failures"] == 0
                and served_serial(server) == server.stored_serial())

    until(converged, f"convergence after {what}\n{server.output()}")


class Gate:
    """A fault of an authority that holds the request of STEP until it is opened."""

    def __init__(self, step):
        self.step, self.reached, self.opened, self.passed = step, threading.Event(), threading.Event(), False

    def __call__(self, path):
        if path.startswith(self.step) and not self.passed:
            self.passed = True
            self.reached.set()
            self.opened.wait(PATIENCE_S)


def kill_in_step(server, kill, gate, before):
    """
    Calls KILL when the authority has got the request of the gate's step; in the step "install" when another certificate than
    BEFORE is in the state directory, and clients may not get it yet.
    """
    if gate.step == "install":
        until(lambda: server.stored_serial() not in ("", before), "the file of the certificate")
    else:
        expect(gate.reached.wait(PATIENCE_S), True, f"step {gate.step} is reached")
    kill(server)
    gate.opened.set()


def kill_in_each_step_of_the_first_certificate(bench, kill, **settings):
    for step in STEPS:
        authority, gate = bench.authority(), Gate(step)
        authority.faults.append(gate)
        with bench.start(authority, **settings) as server:
            server.authority = authority
            kill_in_step(server, kill, gate, None)
            await_convergence(server, None, f"kill in step {step}")
        print(f"kill in step {step}: {len(authority.orders)} orders")


def kill_in_each_step_of_a_renewal(bench, kill, **settings):
    authority = bench.authority()
    with bench.start(authority, **settings) as server:
        server.authority = authority
        serial = server.await_certificate()
        for step in RENEWAL_STEPS:
            gate = Gate(step)
            authority.faults[:] = [gate]
            answer = server.request_renewal()
            kill_in_step(server, kill, gate, serial)
            await_convergence(server, None if kill is kill_master else serial, f"kill in step {step}")
            answer.communicate(timeout=PATIENCE_S)
            serial = server.stored_serial()
            print(f"kill in step {step}: {len(authority.orders)} orders")


@test
def master_killed_in_each_step_of_the_first_certificate(bench):
    kill_in_each_step_of_the_first_certificate(bench, kill_master)


@test
def master_killed_in_each_step_of_a_renewal(bench):
    kill_in_each_step_of_a_renewal(bench, kill_master)


@test
def workers_killed_in_each_step_of_the_first_certificate(bench):
    kill_in_each_step_of_the_first_certificate(bench, kill_workers, workers__processes="2")


@test
def workers_killed_in_each_step_of_a_renewal(bench):
    kill_in_each_step_of_a_renewal(bench, kill_workers, workers__processes="2")


@test
def keys_process_killed_in_each_step_of_the_first_certificate(bench):
    kill_in_each_step_of_the_first_certificate(bench, kill_keys)


@test
def keys_process_killed_in_each_step_of_a_renewal(bench):
    kill_in_each_step_of_a_renewal(bench, kill_keys)
