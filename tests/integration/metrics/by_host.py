"""Counters and latency by host: in status, in /metrics, in the console and the log, through reloads."""
import json
import shutil
import subprocess

from metrics_server import HTTP2, MORE, Decimal, MetricsServer, expect, expect_in, run, test, until

TWO = "[host one.example www.one.example]\n[host two.example *.two.example]\n"


def use(server, hosts):
    """Per host: two responses with 200 and one with 404. The bytes of the bodies, as the log has them."""
    for host in hosts:
        for target in ("/page.html", "/none", "/page.html"):
            server.get(target, host=host)
    server.counted()


def host(server, name):
    found = [one for one in server.status()["hosts"] if one["name"] == name]
    expect(len(found), 1, f"entries of {name}")
    return found[0]


@test
def requests_are_counted_by_host(bench):
    with MetricsServer(bench, MORE + TWO) as server:
        use(server, ("one.example", "WWW.ONE.EXAMPLE:80", "a.two.example", "elsewhere.example"))
        server.get("/page.html", host="two.example", version=HTTP2)
        sent = {"one.example": 6, "two.example": 4, "*": 3}
        status = server.counted()
        expect({one["name"]: one["requests"] for one in status["hosts"]}, sent, "requests")
        expect([one["name"] for one in status["hosts"]], ["one.example", "two.example", "*"], "order: most requests first")
        expect(sum(one["response_time"] for one in status["hosts"]), status["metrics"]["response_time"], "response time")
        one, two = host(server, "one.example"), host(server, "two.example")
        expect([one[f"responses_{group}xx"] for group in "2345"], [4, 0, 2, 0], "statuses of the first")
        expect([two[f"responses_{group}xx"] for group in "2345"], [3, 0, 1, 0], "statuses of the second")
        server.control("stop")
        server.process.wait()
        sizes = [int(line.split('"')[2].split()[1]) for line in server.log().splitlines()]
        expect(sum(one["body_bytes"] for one in status["hosts"]), sum(sizes), "bytes in the log")


@test
def metrics_by_host_are_those_of_status(bench):
    with MetricsServer(bench, MORE + TWO) as server:
        use(server, ("one.example", "two.example", "two.example"))
        exposition, status = server.metrics(), server.status()
        expect(len(status["hosts"]), 3, "hosts")
        for one in status["hosts"]:
            name = one["name"]
            for group in ("2xx", "3xx", "4xx", "5xx"):
                expect(exposition.sum("webserverd_host_responses_total", **{"host": name, "class": group}),
                       one[f"responses_{group}"], f"{group} of {name}")
            expect(exposition.sum("webserverd_host_body_bytes_total", host=name), one["body_bytes"], f"bytes of {name}")
            family = "webserverd_host_request_duration_seconds"
            buckets = [sample.value for sample in exposition.named(f"{family}_bucket", host=name)]
            expect(buckets, sorted(buckets), f"growing counts of {name}")
            expect(buckets[-1:], [one["requests"]] if one["requests"] else [], f"last bucket of {name}")
            expect(exposition.sum(f"{family}_count", host=name), one["requests"], f"requests of {name}")
            expect(exposition.sum(f"{family}_sum", host=name) * 10**9, one["response_time"], f"response time of {name}")
            longest = Decimal(one["latency_ns"]["max"] or 0) / 10**9
            for sample in exposition.named(f"{family}_bucket", host=name):
                if sample.labels["le"] != "+Inf" and Decimal(sample.labels["le"]) > longest:
                    expect(sample.value, one["requests"], f"count below {sample.labels['le']} of {name}")
        if shutil.which("promtool"):
            done = subprocess.run(["promtool", "check", "metrics"], input=server.read("/metrics").encode(),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            expect((done.returncode, done.stdout.decode()), (0, ""), "promtool check metrics")


@test
def reload_keeps_counts_of_hosts_that_stay(bench):
    with MetricsServer(bench, MORE + TWO) as server:
        use(server, ("one.example", "two.example", "two.example"))
        expect_in("changed", server.reload(MORE + "[host new.example]\n[host two.example]\n"), "answer to the reload")
        use(server, ("new.example", "two.example", "one.example"))
        status = server.status()
        expect({one["name"]: one["requests"] for one in status["hosts"]}, {"two.example": 9, "new.example": 3, "*": 3},
               "requests after the reload")
        server.reload(MORE)
        server.get("/page.html")
        expect(server.status()["hosts"], [], "hosts of a configuration without any")
        expect("webserverd_host" in server.read("/metrics"), False, "metrics by host")
        server.reload(MORE + TWO)
        use(server, ("one.example",))
        expect({one["name"]: one["requests"] for one in server.status()["hosts"]},
               {"one.example": 3, "two.example": 0, "*": 0}, "requests of hosts that came back")


@test
def failed_reload_keeps_the_hosts(bench):
    with MetricsServer(bench, MORE + TWO) as server:
        use(server, ("one.example",))
        server.reload(MORE + TWO + "[host three.example]\nroot = @/missing\n")
        use(server, ("one.example", "two.example"))
        expect({one["name"]: one["requests"] for one in server.status()["hosts"]},
               {"one.example": 6, "two.example": 3, "*": 0}, "requests")


@test
def status_shows_the_busiest_hosts(bench):
    names = "".join(f"[host h{number}.example]\n" for number in range(20))
    with MetricsServer(bench, MORE + names) as server:
        use(server, ("h7.example", "h12.example", "h7.example"))
        lines = server.control("status").splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("hosts "))
        expect_in("21", lines[at], "number of hosts")
        expect([line.split()[:2] for line in lines[at + 2:at + 4]], [["h7.example", "6"], ["h12.example", "3"]], "busiest hosts")
        expect(len(lines[at + 2:]), 10, "hosts listed")


@test
def json_log_names_the_host(bench):
    with MetricsServer(bench, "format = json\n" + MORE + TWO) as server:
        use(server, ("www.one.example", "x.two.example", "other"))
        names = until(lambda: server.log().count("\n") == 9 and [json.loads(line)["host"] for line in server.log().splitlines()],
                      "9 lines of the log")
        expect({name: names.count(name) for name in names}, {"one.example": 3, "two.example": 3, "*": 3}, "hosts in the log")
        server.reload("format = json\n" + MORE)
        server.get("/page.html")
        last = until(lambda: server.log().count("\n") == 10 and server.log().splitlines()[-1], "a line after the reload")
        expect("host" in json.loads(last), False, "host in the log of a server without any")


@test
def console_shows_what_status_has(bench):
    with MetricsServer(bench, MORE + TWO) as server:
        use(server, ("one.example", "one.example", "two.example"))

        def console(*words):
            text = run(bench.programs / "wsconsole", "-n", server.name, *words)
            return json.loads(text) if "--json" in words else text

        rows = console("--json", "hosts")["hosts"]["hosts"]
        expect({one["host"]: (one["requests"], one["bytes"]) for one in rows},
               {one["name"]: (one["requests"], one["body_bytes"]) for one in server.status()["hosts"]}, "rows")
        for words, count in ((("host=one.example",), 6), (("host:two",), 3), (("!host=one.example",), 3),
                             (("host=one.example|two.example",), 9), (("host=one.example", "status=404"), 2)):
            lines = console("--json", "log", "--filter", " ".join(words))["log"]["lines"]
            expect(len(lines), count, f"lines of {words}")
        top = console("--json", "top", "--filter", "host=one.example")["top"]
        expect({one["path"]: one["requests"] for one in top["paths"]}, {"/page.html": 4, "/none": 2}, "paths of one host")
        server.reload(MORE)
        expect_in("no [host] sections", console("--once", "hosts"), "hosts of a server without any")
