"""Certificates in the metrics."""
import re

from acme_server import NAME
from authority import Problem
from failures import times
from harness import expect_in, test, until


def read_metrics(server):
    port = until(lambda: re.search(r"metrics on http://\S+:(\d+)/metrics", server.output()), "the address of the metrics")[1]
    import urllib.request  # pylint: disable=import-outside-toplevel
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        return response.read().decode()


@test
def metrics_have_end_attempts_and_failures(bench):
    authority = bench.authority()
    authority.faults.append(times(1, "/newOrder", lambda: Problem(500, "serverInternal", "out of order")))
    with bench.start(authority, metrics__listen="127.0.0.1:0") as server:
        server.await_certificate()
        server.expect_metric("certificate_attempts", 2)
        server.expect_metric("certificate_failures", 1)
        server.expect_metric("certificates_ending", 0)
        end = server.query("certificates")["certificates"][0]["not_after"]
        sample = f'webserverd_certificate_not_after_seconds{{certificate="0",host="{NAME}"}} {end}\n'
        until(lambda: sample in read_metrics(server), f"{sample} in\n{read_metrics(server)}")
        expect_in("\nwebserverd_certificate_failures_total 1\n", read_metrics(server), "metrics")


@test
def certificates_that_end_soon_are_counted(bench):
    authority = bench.authority()
    authority.age_s, authority.life_s = 80 * 86400, 10 * 86400
    with bench.start(authority, acme__retry="1h") as server:
        server.await_certificate()
        server.expect_metric("certificates_ending", 1)
        authority.age_s, authority.life_s = 1, 90 * 86400
        server.control("acme", "renew", NAME)
        server.expect_metric("certificates_ending", 0)
