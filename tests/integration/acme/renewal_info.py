"""The authority suggests when to renew (RFC 9773)."""
import contextlib
import json
import time

from acme_server import NAME
from authority import Problem
from harness import expect, expect_in, test, until

DAY = 86400


def plan(server, name=NAME):
    return json.loads((server.state / f"{name}.json").read_text())


def await_window(server):
    """The plan, once it is by a window of the authority."""
    server.await_event("the authority suggests renewal between")
    return until(lambda: plan(server) if plan(server)["window_start"] else None, "a plan by the window")


def expect_two_thirds(bench, authority, names):
    """The renewal information for NAMES cannot be used, so they are planned by the life."""
    with bench.start(authority, names) as server:
        for name in names:
            server.await_certificate(name)
            server.await_event(f"{name}: no renewal information: ")
            planned = plan(server, name)
            expect(50 * DAY < planned["next_attempt"] - time.time() < 61 * DAY, True, f"next attempt at two thirds of the life, {name}")
            expect(planned["failures"], 0, f"failures of {name}")


@test
def window_of_the_authority_decides(bench):
    authority = bench.authority()
    authority.windows = {"": (5 * DAY, 6 * DAY)}
    with bench.start(authority) as server:
        server.await_certificate()
        stored = await_window(server)
        expect(stored["window_start"] <= stored["next_attempt"] <= stored["window_end"], True, f"next attempt of {stored}")
        expect(stored["certificate"], authority.identifier(authority.orders[0]), "identifier")
        shown = server.query("certificates")["certificates"][0]
        expect(shown["next_attempt"], stored["next_attempt"], "next attempt in wsctl certificates")
        state = server.state
    requests = len(authority.requests)
    with bench.start(authority, acme__state_dir=state) as server:
        shown = until(lambda: server.shown() if "next_attempt" in server.shown() else None, "the plan after a restart")
        expect_in("next attempt", server.control("certificates"), "wsctl certificates")
        expect(shown["next_attempt"], stored["next_attempt"], "next attempt after a restart")
        expect(len(authority.requests), requests, "requests before the time that the authority set")


@test
def window_in_the_past_is_a_renewal_at_once(bench):
    authority = bench.authority()
    authority.windows = {"": (5 * DAY, 6 * DAY)}
    authority.check_after_s = 1
    with bench.start(authority) as server:
        serial = server.await_certificate()
        await_window(server)
        first = authority.identifier(authority.orders[0])
        authority.windows[first] = (-2 * DAY, -1 * DAY)
        server.await_certificate(other_than=serial)
        expect([order["replaces"] for order in authority.orders], [None, first], "replaced certificates")


@test
def windows_that_are_always_over_do_not_mean_many_orders(bench):
    authority = bench.authority()
    authority.windows = {"": (-2 * DAY, -1 * DAY)}
    authority.check_after_s = 1
    with bench.start(authority, acme__retry="1h") as server:
        server.await_event("the authority suggests renewal between", 2)
        until(lambda: plan(server)["certificate"] == authority.identifier(authority.orders[1]) and plan(server)["window_start"],
              "the plan for the second")
        expect(plan(server)["next_attempt"] > time.time() + 3000, True, "a delay before the third")
        expect(len(authority.orders), 2, "orders")


@test
def certificate_that_waits_for_its_check_is_not_used_by_a_stop(bench):
    """The second one waits for 5 s. Meanwhile a stop begins, which waits for a client that does not read."""
    authority = bench.authority()
    authority.windows = {"": (-2 * DAY, -1 * DAY)}
    authority.check_after_s = 1
    with open(bench.site / "large.bin", "wb") as file:
        file.truncate(64 << 20)
    with bench.start(authority, acme__retry="1h", workers__drain_timeout="8s") as server:
        with contextlib.closing(server.raw(server.plain_port)) as client:
            client.sendall(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(1)
            server.await_event("the authority suggests renewal between", 2)
            server.control("stop")


@test
def errors_leave_the_plan_by_the_life(bench):
    faults = {"error.test-site.org": lambda: Problem(500, "serverInternal", "out of order"), "reset.test-site.org": lambda: b"",
              "wrong.test-site.org": lambda: b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{\"suggestedWindow\": [1,2]}"}
    authority = bench.authority()
    authority.windows = {"": (5 * DAY, 6 * DAY)}

    def fault(path):
        order = authority.find_order(path.removeprefix("/renewalInfo/")) if path.startswith("/renewalInfo/") else None
        return faults[order["name"]]() if order else None

    authority.faults.append(fault)
    expect_two_thirds(bench, authority, faults)


@test
def windows_that_make_no_sense_leave_the_plan_by_the_life(bench):
    authority = bench.authority()
    authority.windows = {"reverse.test-site.org": (6 * DAY, 5 * DAY), "late.test-site.org": (5 * DAY, 100 * DAY)}
    expect_two_thirds(bench, authority, tuple(authority.windows))


@test
def order_without_replaces_follows_a_refused_one(bench):
    authority = bench.authority()
    authority.windows = {"": (5 * DAY, 6 * DAY)}
    with bench.start(authority) as server:
        server.await_certificate()
        await_window(server)
        new_order = authority.new_order
        refused = []

        def refuse(payload):
            if "replaces" in payload:
                refused.append(payload["replaces"])
                raise Problem(409, "alreadyReplaced", "by another order")
            return new_order(payload)

        authority.new_order = refuse
        expect_in("a new certificate is in use", server.control("acme", "renew", NAME), "answer")
        expect(refused, [authority.identifier(authority.orders[0])], "refused orders")


@test
def check_of_the_authority_without_information_is_no_event(bench):
    authority = bench.authority()
    with bench.start(authority) as server:
        server.await_certificate()
        server.control("acme", "renew", NAME)
        expect("renewal information" in server.output(), False, "events")
        expect([order["replaces"] for order in authority.orders], [None, None], "replaced certificates")
