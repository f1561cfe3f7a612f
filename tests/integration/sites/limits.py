"""limit-client: limits of single clients and networks, set by command, for some time. [limits] of one request."""
import signal
import socket

from site_server import HTTP1, HTTP2, PATIENCE_S, VERSIONS, SiteServer, expect, expect_in, has_ended, test, until


def limits(server):
    return server.query("limit-client")["limits"]


def statuses(server, client, count=1, version=HTTP1):
    return [server.get("/", source=f"127.0.0.{client}", version=version).status for _ in range(count)]


def pipeline(server, client, count):
    """Sends COUNT requests at once. What follows each "HTTP/1.1 " of the answer."""
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S, (f"127.0.0.{client}", 0)) as stream:
        stream.sendall(request * (count - 1) + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = b""
        while part := stream.recv(65536):
            answer += part
    return answer.split(b"HTTP/1.1 ")[1:]


@test
def blocked_client_is_answered_403(bench):
    with SiteServer(bench, "") as server:
        expect(server.control("limit-client").strip(), "no client has a limit of its own", "list of none")
        answer = server.control("limit-client", "127.0.0.2", "block", "1h")
        expect_in("127.0.0.2", answer, "answer")
        for version in VERSIONS:
            expect(statuses(server, 2, version=version), [403], f"blocked client, HTTP/{version}")
            expect(statuses(server, 3, version=version), [200], f"other client, HTTP/{version}")
        only = limits(server)
        expect([(one["client"], one["blocked"], one["rejected"]) for one in only], [("127.0.0.2", True, len(VERSIONS))], "list")
        expect(3500 < only[0]["remaining_s"] <= 3600, True, f"remaining time {only[0]['remaining_s']}")
        expect(server.status()["metrics"]["requests_blocked"], len(VERSIONS), "requests_blocked")
        server.control("limit-client", "127.0.0.2", "off")
        expect(statuses(server, 2), [200], "released client")
        expect(limits(server), [], "list after off")
        for words in ("limit of client 127.0.0.2 changed from none to blocked for 1h",
                      "limit of client 127.0.0.2 changed from blocked to none"):
            until(lambda text=words: text in server.output(), words)


@test
def limited_client_is_answered_429_over_its_rate(bench):
    with SiteServer(bench, "") as server:
        server.control("limit-client", "127.0.0.0/28", "1", "1h")
        heads = pipeline(server, 2, 40)
        rejected = [head for head in heads if head.startswith(b"429 ")]
        expect(len(rejected) > 20, True, "most of 40 requests at once are rejected by a rate of 1 per second")
        expect(len(rejected) + sum(head.startswith(b"200 ") for head in heads), 40, "responses 200 and 429")
        expect(all(b"Retry-After: 1\r\n" in head for head in rejected), True, "Retry-After")
        expect(server.status()["metrics"]["requests_limited"], len(rejected), "requests_limited")
        server.control("limit-client", "127.0.0.2", "1000", "1h")
        expect(statuses(server, 2, 5), [200] * 5, "client with a limit of its own within the network")
        expect(statuses(server, 99, 5), [200] * 5, "client of another network")


@test
def limit_ends_after_its_time(bench):
    with SiteServer(bench, "") as server:
        server.control("limit-client", "127.0.0.2", "block", "1s")
        until(lambda: statuses(server, 2) == [200], "end of the limit")
        until(lambda: "limit of client 127.0.0.2 has ended (blocked)" in server.output(), "event at the end")
        expect(limits(server), [], "list after the end")


@test
def limits_survive_reload_new_workers_and_upgrade(bench):
    with SiteServer(bench, "[workers]\nprocesses = 1\n") as server:
        server.control("limit-client", "127.0.0.2", "block", "1h")
        server.control("limit-client", "2001:db8::1", "7", "1h")
        server.reload("[workers]\nprocesses = 1\nthreads = 2\n")
        expect(statuses(server, 2), [403], "after a reload")
        server.control("workers", "2")
        server.control("restart", "all")
        expect(statuses(server, 2, 4), [403] * 4, "by new workers")
        before = server.status()["pid"]
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: server.process.poll() is not None and server.status()["pid"] != before, "new master")
        expect(statuses(server, 2), [403], "after an upgrade")
        expect([(one["client"], one["requests_per_second"]) for one in limits(server)],
               [("127.0.0.2", 0), ("2001:db8::/64", 7)], "list after an upgrade")
        pid = server.status()["pid"]
        server.control("stop")
        until(lambda: has_ended(pid), "end of the new master")


@test
def wrong_limits_are_rejected(bench):
    with SiteServer(bench, "") as server:
        for words, message in ((("1.2.3", "block"), "invalid address '1.2.3'"), (("unix:", "block"), "invalid address 'unix:'"),
                               (("10.0.0.1/8", "block"), "has bits set after its prefix"),
                               (("10.0.0.0/33", "block"), "invalid prefix length"),
                               (("10.0.0.1",), "say how to limit 10.0.0.1"), (("10.0.0.1", "0"), "invalid limit '0'"),
                               (("10.0.0.1", "x"), "invalid limit 'x'"), (("10.0.0.1", "5", "0s"), "invalid time '0s'"),
                               (("10.0.0.1", "5", "720h1s"), "invalid time '720h1s'"),
                               (("10.0.0.1", "5", "999ms"), "invalid time '999ms'"), (("10.0.0.1", "1000001"), "(valid: 1-1000000 requests"), (("10.0.0.1", "off", "5m"), "takes no time"),
                               (("10.0.0.1", "off"), "10.0.0.1 has no limit")):
            expect_in(message, server.control("limit-client", *words, check=False), str(words))
        for words in (("5", "720h"), ("5", "1000ms"), ("1000000",), ("off",)):
            server.query("limit-client", "10.0.0.1", *words)
        for number in range(64):
            server.query("limit-client", f"10.0.0.{number}", "block")
        expect_in("all 64 limits", server.control("limit-client", "10.0.1.0", "block", check=False), "65th limit")
        server.control("limit-client", "10.0.0.7", "5")
        expect(len(limits(server)), 64, "limits")


@test
def pieces_of_cookie_are_one_field_over_http2(bench):
    """RFC 9113 section 8.2.3: browsers send each cookie as a field of its own. Over HTTP/1.1 each line is a field."""
    with SiteServer(bench, "") as server:
        for size, two, one in ((1, 200, 431), (200, 431, 431)):
            pieces = [f"Cookie: c{number}={'x' * size}" for number in range(150)]
            expect([server.get("/", *pieces, version=version).status for version in (HTTP2, HTTP1)], [two, one], f"pieces of {size} bytes")


@test
def maintenance_answers_503_until_it_ends(bench):
    with SiteServer(bench, "[host a.example b.example]\n[host c.example]\n[workers]\nprocesses = 2\n") as server:
        server.put("www/page.html", "page")

        def answers():
            return [server.get("/page.html", host=host).status for host in ("a.example", "b.example", "c.example", "other.example")]

        expect(answers(), [200] * 4, "at first")
        server.control("maintenance", "on", "--host", "B.example", "--retry-after", "7m")
        expect(answers(), [503, 503, 200, 200], "one host")
        expect(server.get("/page.html", host="a.example")["retry-after"], "420", "Retry-After")
        expect(server.status()["maintenance"], ["a.example"], "status")
        expect(server.status()["metrics"]["maintenance"], 1, "metric")
        expect_in("maintenance  a.example are answered 503", server.control("status"), "status as text")
        server.control("maintenance", "on", "--host", "*")
        expect(answers(), [503, 503, 200, 503], "and all that have no section")
        server.control("maintenance", "off", "--host", "a.example")
        expect(answers(), [200, 200, 200, 503], "only these")
        expect_in("maintenance: 503 with Retry-After 300 s for all hosts", server.control("maintenance", "on"), "reply")
        expect(answers(), [503] * 4, "all")
        server.put("www/away.html", "<p>away")
        page = str(server.directory / "www/away.html")
        expect_in("with a page of 7 bytes", server.control("maintenance", "on", "--page", page), "reply")
        response = server.get("/page.html")
        expect((response.status, response.body, response["retry-after"], response["content-type"]),
               (503, b"<p>away", "300", "text/html; charset=utf-8"), "page")
        expect(server.get("/page.html", method="HEAD")["content-length"], "7", "HEAD")
        before = server.status()["pid"]
        server.control("upgrade")
        until(lambda: server.process.poll() is not None and server.status()["pid"] != before, "new master")
        expect((answers(), server.get("/").body), ([503] * 4, b"<p>away"), "after an upgrade")
        server.control("reload")
        expect(answers(), [200] * 4, "after a reload")
        expect_in("maintenance: off", server.control("maintenance"), "reply")
        for words, message in ((("of",), "invalid word 'of'"), (("on", "--host", "x.example"), "has the name 'x.example'"),
                               (("on", "--retry-after", "0s"), "invalid time '0s'"), (("on", "--page", "x"), "invalid page 'x'"),
                               (("on", "--page", "/none.html"), "/none.html: No such file"), (("on", "--page", "/"), "not a file"),
                               (("off", "--page", "/"), "unknown option '--page' (valid: --host)"),
                               (("on", "--host"), "missing value")):
            expect_in(message, server.control("maintenance", *words, check=False), str(words))
        pid = server.status()["pid"]
        server.control("stop")
        until(lambda: has_ended(pid), "end of the new master")
