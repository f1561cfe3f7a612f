"""A certificate is renewed while wsload sends requests over TLS: no request fails, and new connections get the new one."""
import json
import signal
import subprocess
import time

from harness import PATIENCE_S, expect, expect_in, test, until

DAY = 86400
REQUESTS = 200


class Load:
    """wsload until stop(), which returns its report."""

    def __init__(self, bench, server, *words):
        self.server = server
        self.report = server.directory / "report.json"
        self.said = open(server.directory / "wsload", "wb")
        self.process = subprocess.Popen(
            [bench.programs / "wsload", "-k", "-c", "8", "--think", "100ms", "-t", "1", "-d", f"{10 * PATIENCE_S}s", "--quiet", "--json",
             "--connect-timeout", f"{PATIENCE_S}s", "--grace", f"{PATIENCE_S}s", "-o", self.report, *words,
             f"https://localhost:{server.port}/small.txt"], stdout=self.said, stderr=self.said)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.said.close()

    def text(self):
        return (self.server.directory / "wsload").read_text(errors="replace")

    def await_requests(self):
        start = self.server.metric("requests")
        until(lambda: self.server.metric("requests") > start + REQUESTS, f"{REQUESTS} more requests of wsload\n{self.text()}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        expect(self.process.wait(PATIENCE_S), 128 + signal.SIGINT, f"exit status of wsload\n{self.text()}")
        return json.loads(self.report.read_text())


def renew_under_load(bench, authority, renew, *words):
    """RENEW(SERVER) has the certificate renewed. Returns the report of wsload with WORDS."""
    with bench.start(authority) as server:
        serial = server.await_certificate()
        state = server.state
    sent = []
    # A fresh server: the master does not delay the first renewal.
    with bench.start(authority, acme__state_dir=state, workers__processes="2") as server:
        expect(server.certificate()[1], serial, "serial number after the restart")
        authority.faults.append(lambda path: sent.append(time.monotonic()) if path.startswith("/certificate") else None)
        with Load(bench, server, *words) as load:
            load.await_requests()
            workers = server.worker_pids()
            renew(server)
            server.await_certificate(other_than=serial)
            seen = time.monotonic()
            load.await_requests()
            report = load.stop()
            expect(server.worker_pids(), workers, "the workers")
    print(f"{' '.join(words)}: {report['requests']['answered']} requests on {report['connections']['opened']} connections; "
          f"the new certificate {1000 * (seen - sent[0]):.0f} ms after its download")
    expect({name: count for name, count in report["errors"].items() if count}, {}, f"errors: {report['error_texts']}")
    expect([report["requests"][name] for name in ("failed", "unanswered", "bad_statuses", "bad_contents")], [0] * 4, "failures")
    expect(list(report["statuses"]), ["200"], "statuses")
    return report


@test
def new_connections_are_served_while_a_certificate_is_renewed(bench):
    authority = bench.authority()
    answers = []

    def renew(server):
        answers.append(server.request_renewal())

    report = renew_under_load(bench, authority, renew, "--no-keepalive", "--no-resume")
    expect_in("a new certificate is in use", answers[0].communicate(timeout=PATIENCE_S)[0], "answer")
    expect(report["connections"]["opened"] >= report["requests"]["answered"], True, "a connection for each request")


@test
def http2_connections_are_served_while_a_certificate_is_renewed(bench):
    authority = bench.authority()
    authority.windows, authority.check_after_s = {"": (5 * DAY, 6 * DAY)}, 1

    def renew(_):
        authority.windows[authority.identifier(authority.orders[0])] = (-2 * DAY, -1 * DAY)

    report = renew_under_load(bench, authority, renew, "--http2", "--streams", "4")
    expect(report["requests"]["downgraded"], 0, "requests by HTTP/1.1")
    expect(report["connections"]["opened"], report["connections"]["asked"], "connections, which the renewal does not end")
