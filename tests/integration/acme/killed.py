"""Other processes than the one of ACME are killed in each step of obtaining a certificate: a certificate is served afterwards."""
import os
import signal
import threading

import x509
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


def stored_serial(server):
    return x509.parse_pem((server.state / f"{NAME}.pem").read_text()).serial.hex()


def served_serial(server):
    """"": no handshake while processes start."""
    try:
        return server.certificate()[1]
    except OSError:
        return ""


def await_convergence(server, other_than, what):
    """Waits until clients get the certificate in the state directory, and the next attempt is a renewal."""
    def converged():
        if not (server.state / f"{NAME}.pem").exists():
            return False
        serial = stored_serial(server)
        if serial == other_than or served_serial(server) != serial:
            return False
        text = server.control("certificates", check=False)
        return "next attempt 2" in text and "failed" not in text

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


def await_install(server, before):
    """Waits until another certificate than BEFORE is in the state directory; clients may not get it yet."""
    path = server.state / f"{NAME}.pem"
    until(lambda: path.exists() and stored_serial(server) != before, "the file of the certificate")


def kill_in_each_step(bench, kill, renew, **settings):
    """RENEW: a certificate is in use already."""
    for step in RENEWAL_STEPS if renew else STEPS:
        authority, answers = bench.authority(), []
        gate, what = Gate(step), f"kill in step {step}"
        if not renew:
            authority.faults.append(gate)
        with bench.start(authority, **settings) as server:
            server.authority = authority
            serial = None
            if renew:
                serial = server.await_certificate()
                authority.faults.append(gate)
                answers.append(server.request_renewal())
            if step == "install":
                await_install(server, serial)
            else:
                expect(gate.reached.wait(PATIENCE_S), True, f"step {step} is reached")
            kill(server)
            gate.opened.set()
            await_convergence(server, None if kill is kill_master else serial, what)
            for answer in answers:
                answer.communicate(timeout=PATIENCE_S)
        print(f"{what}: {len(authority.orders)} orders")


@test
def master_killed_in_each_step_of_the_first_certificate(bench):
    kill_in_each_step(bench, kill_master, False)


@test
def master_killed_in_each_step_of_a_renewal(bench):
    kill_in_each_step(bench, kill_master, True)


@test
def workers_killed_in_each_step_of_the_first_certificate(bench):
    kill_in_each_step(bench, kill_workers, False, workers__processes="2")


@test
def workers_killed_in_each_step_of_a_renewal(bench):
    kill_in_each_step(bench, kill_workers, True, workers__processes="2")


@test
def keys_process_killed_in_each_step_of_the_first_certificate(bench):
    kill_in_each_step(bench, kill_keys, False)


@test
def keys_process_killed_in_each_step_of_a_renewal(bench):
    kill_in_each_step(bench, kill_keys, True)
