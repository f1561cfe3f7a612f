"""The live page: its files and their header fields, and the events that it draws."""
import json
import re
import socket

from metrics_server import MORE, PATIENCE_S, MetricsServer, expect, expect_in, test, until

STREAMS_MAX = 8


class Events:
    """A client of /events."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.metrics_port), PATIENCE_S)
        self.socket.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        self.file = self.socket.makefile("rb")
        self.head = b"".join(iter(self.file.readline, b"\r\n")).decode().lower()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def next(self):
        line = self.file.readline()
        expect((line[:6], self.file.readline()), (b"data: ", b"\n"), f"event {line[:200]!r}")
        return json.loads(line[6:])


@test
def page_has_strict_headers_and_no_external_asset(bench):
    with MetricsServer(bench) as server:
        for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
            response = server.request(path)
            expect((response.status, response["content-type"]), (200, f"{kind}; charset=utf-8"), path)
            rules = dict(rule.split(" ", 1) for rule in response["content-security-policy"].split("; "))
            expect(rules, {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
                           "img-src": "data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}, path)
            expect((response["x-content-type-options"], response["x-frame-options"], response["referrer-policy"]),
                   ("nosniff", "DENY", "no-referrer"), path)
        page = server.read("/")
        expect(set(re.findall(r'(?:src|href)="([^"#]+)"', page)),
               {"/page.js", "/page.css", "data:,", "/metrics", "/status.json", "/healthz", "/readyz"}, "references")
        expect(re.findall(r"<script>|<style|style=| on[a-z]+=|https?:", page), [], "inline code in the page")
        expect(re.findall(r"innerHTML|outerHTML|document\.write|eval\(", server.read("/page.js")), [], "HTML made by the script")
        expect_in("prefers-color-scheme: dark", server.read("/page.css"), "style")


@test
def events_follow_the_server(bench):
    with MetricsServer(bench) as server, Events(server) as events:
        expect(events.head.startswith("http/1.1 200 "), True, "status")
        expect_in("content-type: text/event-stream\r\n", events.head, "type")
        expect("content-length" in events.head, False, "length of a stream")
        first = events.next()
        expect((first["name"], first["model"], first["workers"], first["stopping"]), (server.name, "events", 2, False), "server")
        expect(sorted((one["worker"], one["thread"]) for one in first["threads"]), [(0, 0), (0, 1), (1, 0), (1, 1)], "threads")
        for _ in range(3):
            server.get("/page.html")
        server.get("/none")
        event = first
        while event["counters"]["requests"] < 4:
            event = events.next()
        expect(event["responses"], [3, 0, 1, 0], "responses by class")
        expect(sum(one["requests"] for one in event["threads"]), 4, "requests of the threads")
        expect_in("/none", " ".join(one["work"] for one in event["threads"]), "work")
        expect(event["time_ms"] > first["time_ms"], True, "time")
        while event["latency_ns"] is None:  # of one second, which an event may miss
            server.get("/page.html")
            event = events.next()
        expect(event["latency_ns"]["p50"] <= event["latency_ns"]["max"], True, "percentiles")


@test
def page_begins_with_the_past_and_details(bench):
    with MetricsServer(bench, MORE + "[host a.example]\n") as server:
        server.get("/none", host="a.example")

        def counted():
            history = json.loads(server.read("/history.json"))
            place = history["counters"].index("requests") + 1
            samples = history["samples"]
            expect({len(sample) for sample in samples} <= {len(history["counters"]) + 6}, True, "length of samples")
            return samples if samples and samples[-1][place] == 1 else None

        samples = until(counted, "a sample with the request")
        expect(samples[-1][-5:-1], [0, 0, 1, 0], "responses by class")
        expect(samples[0][0] <= samples[-1][0], True, "order")
        details = json.loads(server.read("/details.json"))
        host = next(host for host in details["hosts"] if host["name"] == "a.example")
        expect((host["requests"], host["responses_4xx"]), (1, 1), "requests of the host")
        expect(details["certificates"], [], "certificates")
        expect_in("worker 0 serves", " ".join(event["text"] for event in details["events"]), "events")


@test
def streams_keep_no_scrape_out(bench):
    with MetricsServer(bench) as server:
        streams = [Events(server) for _ in range(STREAMS_MAX)]
        for stream in streams:
            stream.next()
        expect(server.request("/events").status, 503, "one more")
        expect(server.request("/events", method="HEAD").status, 503, "HEAD")
        expect_in("webserverd_requests_total", server.read("/metrics"), "metrics")
        streams[0].socket.shutdown(socket.SHUT_RDWR)

        def again():
            with Events(server) as events:
                return " 200 " in events.head.split("\r\n")[0]

        until(again, "room for another stream")
        for stream in streams:
            stream.__exit__()


@test
def streams_end_with_the_process(bench):
    with MetricsServer(bench) as server, Events(server) as events:
        events.next()
        server.reload(MORE.replace("[workers]", "hosts = other.example\n[workers]"))
        while line := events.file.readline():
            expect(line[:1] in b"d\n", True, f"event {line[:100]!r}")
        with Events(server) as others:
            expect(others.next()["generation"], 2, "generation")
