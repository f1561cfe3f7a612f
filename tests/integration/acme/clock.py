"""The wall clock is set while the server runs, or between two runs: no plan is stuck, and what is due is requested at once."""
import json
import os
import struct
import time

from acme_server import NAME
from authority import Problem
from harness import expect, expect_in, test, until

HOUR, DAY = 3600, 86400


class Clock:
    """The wall clock of a server: seconds ahead of that of the test."""

    def __init__(self, bench, ahead_s):
        self.preload = bench.programs / "libmoving_clock.so"
        self.path = bench.directory / f"clock{bench.servers}"
        self.path.write_bytes(struct.pack("q", ahead_s))
        self.path.chmod(0o644)
        self.ahead_s = ahead_s

    def words(self):
        """Of a program that runs the server."""
        preload = " ".join(filter(None, (os.environ.get("LD_PRELOAD"), self.preload.name)))
        sanitizer = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
        return ("env", f"LD_LIBRARY_PATH={self.preload.parent}", f"LD_PRELOAD={preload}", f"MOVING_CLOCK={self.path}",
                f"ASAN_OPTIONS={sanitizer}")

    def set(self, ahead_s):
        with open(self.path, "r+b", buffering=0) as file:
            file.write(struct.pack("q", ahead_s))
        self.ahead_s = ahead_s

    def now(self):
        return int(time.time()) + self.ahead_s


def plan(server):
    return json.loads((server.state / f"{NAME}.json").read_text())


def shown(server):
    return server.query("certificates")["certificates"][0]


def out_of_order(path):
    return Problem(500, "serverInternal", "out of order") if path == "/newOrder" else None


def stored_state(bench, authority):
    """The state directory of a server that has obtained a certificate, and its serial number."""
    with bench.start(authority) as server:
        serial = server.await_certificate()
        until(lambda: (server.state / f"{NAME}.json").exists() and plan(server)["failures"] == 0, "the plan")
    return server.state, serial


@test
def clock_set_past_two_thirds_of_the_life_renews(bench):
    authority = bench.authority()
    authority.life_s = HOUR
    clock = Clock(bench, 0)
    with bench.start(authority, under=clock.words()) as server:
        serial = server.await_certificate()
        authority.age_s, authority.life_s = 1 - 45 * 60, 45 * 60 + 90 * DAY
        clock.set(45 * 60)
        server.await_certificate(other_than=serial)
        expect(len(authority.orders), 2, "orders")
        expect(shown(server)["next_attempt"] > clock.now() + 50 * DAY, True, "the next attempt is that of the new certificate")


@test
def clock_set_back_does_not_delay_the_attempt_after_a_failure(bench):
    authority = bench.authority()
    authority.faults.append(out_of_order)
    clock = Clock(bench, 2 * DAY)
    with bench.start(authority, under=clock.words(), acme__retry="1h") as server:
        server.await_event("out of order (serverInternal)")
        until(lambda: plan(server)["next_attempt"] > clock.now(), "the plan after the failure")
        clock.set(0)
        until(lambda: plan(server)["next_attempt"] < clock.now() + 2 * HOUR, f"another plan\n{server.output()}")
        server.await_event("the clock was set back")
        until(lambda: shown(server).get("failures") == 1 and shown(server)["next_attempt"] == plan(server)["next_attempt"],
              "the plan in wsctl certificates")
        expect_in("serverInternal", shown(server)["error"], "error in wsctl certificates")
        expect("serverInternal" in plan(server)["error"], True, "error in the plan")
        authority.faults.clear()
        clock.set(2 * HOUR)
        server.await_certificate()


@test
def delay_of_the_authority_keeps_its_length_when_the_clock_is_set(bench):
    authority = bench.authority()
    authority.faults.append(lambda path: Problem(429, "rateLimited", "too many", **{"Retry-After": "3000"})
                            if path == "/newOrder" else None)
    clock = Clock(bench, 2 * DAY)
    with bench.start(authority, under=clock.words()) as server:
        server.await_event("too many (rateLimited)")
        for ahead_s in (0, 5 * DAY):
            clock.set(ahead_s)
            until(lambda: clock.now() < plan(server)["refused_until"] <= clock.now() + 3000,
                  f"a plan by the clock\n{server.output()}")
            expect(plan(server)["next_attempt"] >= plan(server)["refused_until"], True, "the attempt is not earlier")
        requests = len(authority.requests)
        expect_in("the authority accepts no request before 2", server.control("acme", "renew", NAME, check=False), "answer")
        expect(len(authority.requests), requests, "requests")


@test
def plan_of_a_wrong_clock_is_corrected_after_a_restart(bench):
    authority = bench.authority()
    state, serial = stored_state(bench, authority)
    stored = json.loads((state / f"{NAME}.json").read_text())
    for ahead_s in (2 * HOUR, 2000 * DAY):
        later = int(time.time()) + ahead_s
        (state / f"{NAME}.json").write_text(json.dumps(
            {**stored, "failures": 2, "error": "as it was", "written": later, "next_attempt": later + HOUR, "refused_until": later + HOUR}))
        with bench.start(authority, acme__state_dir=state, acme__retry="1h") as server:
            until(lambda: shown(server).get("failures") == 2, "the plan after a restart")
            expect(shown(server)["next_attempt"] <= time.time() + HOUR, True, f"next attempt with a clock that was {ahead_s} s ahead")
            expect(server.certificate()[1], serial, "serial number")


@test
def plan_far_ahead_is_an_attempt_at_once(bench):
    """Of a server that did not write when it made the plan."""
    authority = bench.authority()
    state, serial = stored_state(bench, authority)
    stored = json.loads((state / f"{NAME}.json").read_text())
    del stored["written"]
    far = int(time.time()) + 2000 * DAY
    (state / f"{NAME}.json").write_text(json.dumps({**stored, "failures": 2, "next_attempt": far, "refused_until": far}))
    with bench.start(authority, acme__state_dir=state) as server:
        server.await_certificate(other_than=serial)


@test
def certificate_of_the_future_is_served_and_not_requested_again(bench):
    authority = bench.authority()
    authority.age_s = -HOUR
    state, serial = stored_state(bench, authority)
    with bench.start(authority, acme__state_dir=state) as server:
        until(lambda: "next_attempt" in shown(server), "the plan")
        entry = shown(server)
        expect(time.time() < entry["not_before"] < entry["next_attempt"] < entry["not_after"], True, f"times of {entry}")
        expect(server.certificate()[1], serial, "serial number")
        expect(len(authority.orders), 1, "orders")


@test
def certificate_that_has_ended_is_replaced_after_a_restart(bench):
    authority = bench.authority()
    authority.life_s = 4 * DAY
    state, serial = stored_state(bench, authority)
    authority.life_s = 90 * DAY
    with bench.start(authority, acme__state_dir=state, under=Clock(bench, 5 * DAY).words()) as server:
        server.await_event("it has expired: requesting another one")
        server.await_certificate(other_than=serial)
