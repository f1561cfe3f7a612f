"""wsctl acme renew: a new certificate at once."""
import concurrent.futures
import os
import signal
import threading

from acme_server import NAME
from authority import Problem
from harness import expect, expect_in, test, until


def renew(server, name=NAME):
    return server.control("acme", "renew", name, check=False)


@test
def renew_replaces_the_certificate_in_use(bench):
    authority = bench.authority()
    with bench.start(authority, workers__processes="2") as server:
        serial = server.await_certificate()
        expect_in(f"{NAME}: a new certificate is in use\n  next attempt 2", renew(server, NAME.upper()), "answer")
        until(lambda: server.certificate()[1] != serial, "another serial number")  # a leaving worker may accept for a moment
        expect(len(authority.orders), 2, "orders")
        server.await_event(f"{NAME}: new certificate requested, by uid")


@test
def renew_rejects_what_is_not_managed(bench):
    authority = bench.authority()
    with bench.start(authority, names=(NAME, "more.test-site.org")) as server:
        for words, message in ((("renew", "other.test-site.org"), "the server obtains no certificate for 'other.test-site.org' "
                                f"(valid: {NAME}, more.test-site.org)"),
                               (("rnew", NAME), "invalid argument 'rnew'; usage: acme renew HOST"),
                               (("renew",), "usage: acme renew HOST")):
            expect_in(message, server.control("acme", *words, check=False), f"answer to acme {words}")
        server.set(acme__enabled="off", server__listen="127.0.0.1:0", **bench.own_certificate())
        server.control("reload")
        expect_in("the server obtains no certificates: acme.enabled is off", renew(server), "answer without [acme]")


@test
def failed_renewal_says_why_and_may_be_repeated(bench):
    authority = bench.authority()
    with bench.start(authority, acme__retry="1h") as server:
        serial = server.await_certificate()
        authority.faults.append(lambda path: Problem(500, "serverInternal", "out of order") if path == "/newOrder" else None)
        expect_in("answers 500: out of order (serverInternal); next attempt: 2", renew(server), "answer")
        expect(server.certificate()[1], serial, "serial number")
        authority.faults.clear()
        expect_in("is in use", renew(server), "answer before the next attempt")


@test
def renew_respects_the_delay_of_the_authority(bench):
    authority = bench.authority()
    fault = Problem(429, "rateLimited", "too many", **{"Retry-After": "3000"})
    with bench.start(authority) as server:
        server.await_certificate()
        authority.faults.append(lambda path: fault if path == "/newOrder" else None)
        expect_in("answers 429: too many (rateLimited)", renew(server), "first answer")
        authority.faults.clear()
        state, requests = server.state, len(authority.requests)
        expect_in("the authority accepts no request before 2", renew(server), "second answer")
        expect(len(authority.requests), requests, "requests")
    with bench.start(authority, acme__state_dir=state) as server:
        until(lambda: server.shown().get("failures") == 1, "the plan after a restart")
        expect_in("1 attempt failed", server.control("certificates"), "wsctl certificates")
        text = renew(server)
        for part in ("the authority accepts no request before 2", "rateLimited"):
            expect_in(part, text, "answer after a restart")
        expect(len(authority.requests), requests, "requests after a restart")


@test
def renewals_of_one_name_at_the_same_time_are_one_order(bench):
    authority = bench.authority()
    gate = threading.Event()
    with bench.start(authority) as server, concurrent.futures.ThreadPoolExecutor(2) as pool:
        server.await_certificate()
        authority.faults.append(lambda path: None if gate.wait(60) else None)
        answers = [pool.submit(renew, server) for _ in range(2)]
        try:
            server.await_event("new certificate requested", 2)
        finally:
            gate.set()
        for answer in answers:
            expect_in("is in use", answer.result(), "answer")
        expect(len(authority.orders), 2, "orders")


@test
def renewal_whose_process_is_killed_has_an_answer(bench):
    authority = bench.authority()
    gate = threading.Event()
    with bench.start(authority) as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        server.await_certificate()
        authority.faults.append(lambda path: None if gate.wait(60) else None)
        answer = pool.submit(renew, server)
        try:
            server.await_event("new certificate requested")
            os.kill(until(server.acme_pid, "the process"), signal.SIGKILL)
            expect_in("the ACME process has ended before the certificate came", answer.result(), "answer")
        finally:
            gate.set()
