"""wsctl acme rollover: another key of the account."""
import contextlib
import json
import os
import signal
import stat
import threading

from acme_server import NAME
from authority import Problem, openssl
from harness import PATIENCE_S, expect, expect_in, test, until
from pebble import find, issuer_begins, server_with_pebble

REPLACED = "the key of the account is replaced\n"


def rollover(server):
    return server.control("acme", "rollover", check=False)


def read_key(server):
    return (server.state / "account.key").read_text()


def await_one_key(server, what):
    """Waits until it is decided which key the account has."""
    until(lambda: not (server.state / "account.key.next").exists(), f"one key, {what}\n{server.output()}")


def expect_renewal(server, what):
    """The account can be used."""
    expect_in("a new certificate is in use", server.control("acme", "renew", NAME, check=False), f"answer to renew, {what}")


@contextlib.contextmanager
def server_with_certificate(bench, authority, **settings):
    with bench.start(authority, **settings) as server:
        server.await_certificate()
        yield server


@test
def rollover_replaces_the_key_of_the_account(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        before, first = read_key(server), authority.thumbprint()
        expect(rollover(server), REPLACED, "answer")
        server.await_event("another key of the ACME account requested, by uid")
        server.await_event("the key of the account is replaced: ")
        expect(read_key(server) != before, True, "another key is stored")
        expect(stat.S_IMODE((server.state / "account.key").stat().st_mode), 0o600, "mode of account.key")
        expect((server.state / "account.key.next").exists(), False, "account.key.next")
        expect((len(authority.accounts), authority.thumbprint() != first), (1, True), "accounts, another key at the authority")
        expect_renewal(server, "after the change")
        expect(json.loads(server.control("--json", "acme", "rollover")), {"ok": True, "key_replaced": True}, "answer in JSON")
        state = server.state
    with bench.start(authority, acme__state_dir=state) as server:
        until(lambda: "next_attempt" in server.shown(), "the plan after a restart")
        expect_renewal(server, "after a restart")
        expect(authority.requests.count("/newAccount"), 1, "registrations")


@test
def refused_rollover_keeps_the_key(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        for fault, message in ((Problem(409, "malformed", "the new key belongs to an account"), "answers 409: the new key belongs"),
                               (Problem(403, "unauthorized", "not now"), "answers 403: not now"),
                               (Problem(500, "serverInternal", "out of order"), "answers 500: out of order")):
            before = read_key(server)
            authority.faults.append(lambda path, fault=fault: fault if path == "/keyChange" else None)
            text = rollover(server)
            for part in ("the key of the account is not replaced: ", message):
                expect_in(part, text, "answer")
            authority.faults.clear()
            expect((read_key(server), (server.state / "account.key.next").exists()), (before, False), "files")
            expect_renewal(server, message)


@test
def rollover_without_an_answer_asks_which_key_the_account_has(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        for accepted in (True, False):
            before = read_key(server)
            faults = authority.late_faults if accepted else authority.faults
            faults.append(lambda path: b"" if path == "/keyChange" else None)
            text = rollover(server)
            expect(text == REPLACED, accepted, f"answer {text}")
            faults.clear()
            expect(read_key(server) != before, accepted, "another key is stored")
            await_one_key(server, f"accepted: {accepted}")
            expect_renewal(server, f"accepted: {accepted}")


@test
def authority_that_is_silent_is_asked_again(bench):
    """It has accepted the key, and then answers nothing for a while."""
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        before = read_key(server)
        authority.late_faults.append(lambda path: authority.faults.append(lambda _: b"") or b"" if path == "/keyChange" else None)
        expect_in("the authority may have accepted the new key", rollover(server), "answer")
        expect((read_key(server), (server.state / "account.key.next").exists()), (before, True), "files meanwhile")
        server.await_event("it is not known which key the account has")
        authority.late_faults.clear()
        authority.faults.clear()
        await_one_key(server, "after the silence")
        expect(read_key(server) != before, True, "another key is stored")
        expect_renewal(server, "after the silence")


def kill_process(server):
    os.kill(until(server.acme_pid, "the process"), signal.SIGKILL)


def kill_master(server):
    os.kill(server.status()["pid"], signal.SIGKILL)
    server.process.wait(PATIENCE_S)
    server.launch()


@test
def kill_in_each_step_of_a_rollover_leaves_one_key(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        for kill, accepted in ((kill_process, True), (kill_process, False), (kill_master, True), (kill_master, False)):
            what = f"{kill.__name__}, accepted: {accepted}"
            reached, killed = threading.Event(), threading.Event()

            def hold(path, reached=reached, killed=killed):
                if path != "/keyChange":
                    return None
                reached.set()
                killed.wait(PATIENCE_S)
                return b""

            before = read_key(server)
            faults = authority.late_faults if accepted else authority.faults
            faults.append(hold)
            answer = server.ask("acme", "rollover")
            expect(reached.wait(PATIENCE_S), True, what)
            expect((server.state / "account.key.next").exists(), True, f"account.key.next, {what}")
            expect(stat.S_IMODE((server.state / "account.key.next").stat().st_mode), 0o600, f"its mode, {what}")
            kill(server)
            faults.clear()
            killed.set()
            authority.http_port = server.plain_port
            answer.communicate(timeout=PATIENCE_S)
            await_one_key(server, what)
            expect(read_key(server) != before, accepted, f"another key is stored, {what}")
            until(lambda: "next_attempt" in server.shown(), f"the plan, {what}")
            expect_renewal(server, what)
            expect(len(authority.accounts), 1, f"accounts, {what}")


@test
def next_key_that_the_authority_has_never_seen_is_removed(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        before, state = read_key(server), server.state
    (state / "account.key.next").write_text(openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256").decode())
    with bench.start(authority, acme__state_dir=state) as server:
        await_one_key(server, "at the start of the server")
        expect(read_key(server), before, "account.key")
        for text in (openssl("genpkey", "-algorithm", "ed25519").decode(), "no key", ""):
            (state / "account.key.next").write_text(text)
            kill_process(server)
            await_one_key(server, f"at the start of the process with {text!r}")
            expect(read_key(server), before, "account.key")


@test
def rollover_that_cannot_be_is_explained(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        authority.changes_keys = False
        expect_in("the directory has no keyChange", rollover(server), "answer")
        expect_in("wrong number of arguments; usage: acme renew HOST, or acme rollover",
                  server.control("acme", "rollover", NAME, check=False), "answer to a name")
        server.set(acme__enabled="off", server__listen="127.0.0.1:0", **bench.own_certificate())
        server.control("reload")
        expect_in("the server obtains no certificates: acme.enabled is off", rollover(server), "answer without [acme]")


@test
def rollover_that_cannot_store_the_key_sends_none(bench):
    authority = bench.authority()
    with server_with_certificate(bench, authority) as server:
        before = read_key(server)
        (server.state / "account.key.next.new").mkdir()  # where the file is written first
        expect_in("account.key.next: Is a directory", rollover(server), "answer")
        expect((read_key(server), authority.requests.count("/keyChange")), (before, 0), "account.key, changes of the key")
        expect_renewal(server, "after the failure")
        (server.state / "account.key.next.new").rmdir()
        expect(rollover(server), REPLACED, "answer to the next one")


@test
def rollover_waits_for_the_order_that_runs(bench):
    authority = bench.authority()
    gate, reached = threading.Event(), threading.Event()

    def hold():
        reached.set()
        gate.wait(PATIENCE_S)

    with server_with_certificate(bench, authority) as server:
        authority.faults.append(lambda path: hold() if path == "/finalize/1" else None)
        renewal = server.ask("acme", "renew", NAME)
        expect(reached.wait(PATIENCE_S), True, "the order runs")
        answers = [server.ask("acme", "rollover") for _ in range(2)]
        server.await_event("another key of the ACME account requested", 2)
        gate.set()
        expect_in("is in use", renewal.communicate(timeout=PATIENCE_S)[0], "answer to renew")
        for answer in answers:
            expect(answer.communicate(timeout=PATIENCE_S)[0], REPLACED, "answer to rollover")
        expect(authority.requests.count("/keyChange"), 1, "changes of the key")


@test
def pebble_accepts_another_key_of_the_account(bench):
    if find("pebble") is None or find("pebble-challtestsrv") is None:
        return
    with server_with_pebble(bench, (NAME,), 5) as server:
        until(lambda: issuer_begins(server, NAME), f"a certificate of Pebble\n{server.output()}")
        before = read_key(server)
        expect(rollover(server), REPLACED, "answer")
        expect(read_key(server) != before, True, "another key is stored")
        expect_renewal(server, "at Pebble")
        after = read_key(server)
        (server.state / "account.key.next").write_text(before)  # as after a kill: Pebble no longer knows the former key
        kill_process(server)
        await_one_key(server, "at Pebble")
        expect(read_key(server), after, "account.key")
