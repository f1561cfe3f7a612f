#!/usr/bin/env python3
"""Tests the requests of wsload that differ in method, fields and body, with both engines and HTTP/1.1 and HTTP/2.

    lists.py WSLOAD [UNITTEST_ARGUMENT...]

A server records what arrives. HTTP/2 needs nginx and openssl, which translate for it; otherwise it is left out.
"""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

import servers

WSLOAD = None

CONFIGURATION = """
daemon off; master_process off; pid nginx.pid; error_log error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp;
  scgi_temp_path temp;
  ssl_certificate server.pem; ssl_certificate_key server.key;
  upstream origin {{ server 127.0.0.1:{origin}; keepalive 16; }}
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{ listen 127.0.0.1:{h2c} http2; location / {{ proxy_pass http://origin; }} }}
  server {{ listen 127.0.0.1:{h2} ssl http2; location / {{ proxy_pass http://origin; }} }}
}}
"""


class Origin(servers.HttpServer):
    """Answers every request with "hello". .seen has (method, path, fields with names in lower case, body).

    /login sets a new cookie, which /logout deletes.
    """
    sessions = itertools.count()

    def answer(self, method, path, fields, body):
        self.seen.append((method, path, fields, body))
        cookies = []
        if path == "/login":
            cookies = [f"session={next(self.sessions)}; Path=/; HttpOnly", "elsewhere=1; Path=/elsewhere"]
        elif path == "/logout":
            cookies = ["session=; Path=/; Max-Age=0"]
        return 200, b"hello", [f"Set-Cookie: {cookie}" for cookie in cookies]


class Nginx:
    """Translates HTTP/2 for the server at port ORIGIN."""

    def __init__(self, directory, origin):
        self.port = dict(zip(("h2c", "h2"), servers.free_ports(2)))
        (directory / "temp").mkdir()
        servers.make_certificate(directory, "server", "IP:127.0.0.1")
        (directory / "nginx.conf").write_text(CONFIGURATION.format(origin=origin, **self.port))
        self.process = subprocess.Popen([servers.NGINX, "-p", directory, "-c", "nginx.conf"],
                                        stderr=subprocess.DEVNULL)
        servers.wait_for(self.answers, "nginx")

    def answers(self):
        with servers.socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port["h2"])) == 0

    def stop(self):
        self.process.terminate()
        self.process.wait()


def setUpModule():
    """All tests have the same servers."""
    kept = tempfile.TemporaryDirectory(prefix="wsload-test.")
    unittest.addModuleCleanup(kept.cleanup)
    Requests.directory = pathlib.Path(kept.name)
    origin = Requests.origin = Origin()
    unittest.addModuleCleanup(origin.stop)
    Requests.ways = [("curl", origin.url, ()), ("raw", origin.url, ())]
    if servers.NGINX and servers.OPENSSL:
        nginx = Nginx(Requests.directory, origin.port)
        unittest.addModuleCleanup(nginx.stop)
        Requests.ways += [("raw", f"http://127.0.0.1:{nginx.port['h2c']}", ("--http2",)),
                          ("curl", f"https://127.0.0.1:{nginx.port['h2']}", ("--http2", "-k")),
                          ("raw", f"https://127.0.0.1:{nginx.port['h2']}", ("--http2", "-k"))]


class Requests(unittest.TestCase):
    directory = origin = ways = None

    def run_wsload(self, way, words, path="/"):
        """Returns the report. What arrived is in self.origin.seen."""
        engine, url, options = way
        self.origin.seen.clear()
        command = [WSLOAD, "--json", "--quiet", "--engine", engine, *servers.PATIENT, *options, *map(str, words), url + path]
        ended = subprocess.run(command, capture_output=True, text=True, check=False,
                               timeout=4 * servers.PATIENCE_S)
        self.assertEqual(ended.returncode, 0, f"{command}: {ended.stderr}{ended.stdout}")
        return json.loads(ended.stdout)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path


def recorded(method, url, headers=(), **members):
    """An entry of a recording."""
    return {"startedDateTime": members.pop("begun", "2026-11-21T06:18:30.000Z"),
            "time": members.pop("time", 1),
            "request": {"method": method, "url": url, "httpVersion": "h2",
                        "headers": [{"name": name, "value": value} for name, value in headers],
                        **members}}


RECORDING = {"log": {"version": "1.2", "creator": {"name": "test", "version": "1"}, "entries": [
    recorded("GET", "https://shop.test/?a=b", [(":method", "GET"), ("Host", "shop.test"),
                                               ("accept", "text/html"), ("cookie", "id=1")]),
    recorded("POST", "https://shop.test/login", [("Content-Length", "99"), ("x-token", "t")],
             postData={"mimeType": "application/json", "text": '{"name": "\u00e9"}'}),
    recorded("GET", "https://elsewhere.test/pixel"),
    recorded("PUT", "https://shop.test/cart", [("content-type", "text/plain")],
             postData={"mimeType": "text/plain", "text": "x" * 50000}),
    recorded("HEAD", "https://shop.test/end"),
    recorded("DELETE", "https://shop.test/end")]}}


class Recordings(Requests):
    def test_methods_fields_and_bodies_arrive_in_recorded_order(self):
        recording = self.write("shop.har", json.dumps(RECORDING))
        for way in self.ways:
            with self.subTest(way=way):
                report = self.run_wsload(way, ["-c", 1, "-n", 10, "--har", recording])
                self.assertEqual(report["requests"]["answered"], 10)
                self.assertIn("skipped_requests", [note["name"] for note in report["notes"]])
                seen = self.origin.seen
                self.assertEqual([row[:2] for row in seen[:5]],
                                 [("GET", "/?a=b"), ("POST", "/login"), ("PUT", "/cart"),
                                  ("HEAD", "/end"), ("DELETE", "/end")])
                self.assertEqual([row[:2] for row in seen[5:]], [row[:2] for row in seen[:5]])
                for first in (0, 5):
                    page, login, cart = seen[first:first + 3]
                    self.assertEqual(page[2]["accept"], "text/html")
                    self.assertEqual(page[2]["cookie"], "id=1")
                    self.assertNotIn("shop.test", page[2]["host"])
                    self.assertEqual(page[3], b"")
                    self.assertEqual(login[2]["content-type"], "application/json")
                    self.assertEqual(login[2]["x-token"], "t")
                    self.assertNotIn("cookie", login[2])
                    self.assertEqual(login[3].decode(), '{"name": "\u00e9"}')
                    self.assertEqual(cart[2]["content-type"], "text/plain")
                    self.assertEqual(cart[3], b"x" * 50000)

    def test_each_connection_plays_the_whole_recording(self):
        recording = self.write("shop.har", json.dumps(RECORDING))
        for way in self.ways:
            with self.subTest(way=way):
                self.run_wsload(way, ["-c", 3, "-n", 3, "-t", 2, "--har", recording])
                self.assertEqual([row[:2] for row in self.origin.seen], [("GET", "/?a=b")] * 3)

    def test_options_replace_recorded_fields(self):
        recording = self.write("shop.har", json.dumps(RECORDING))
        for way in self.ways:
            with self.subTest(way=way):
                self.run_wsload(way, ["-c", 1, "-n", 2, "-H", "Cookie: mine", "-H", "Accept: image/png",
                                      "--har", recording])
                for row in self.origin.seen:
                    self.assertEqual(row[2]["cookie"], "mine")
                    self.assertEqual(row[2]["accept"], "image/png")

    def test_recorded_think_time_is_waited(self):
        """The run lasts at least as long as the think times of its requests."""
        recording = self.write("slow.har", json.dumps({"log": {"entries": [
            recorded("GET", "http://a.test/1", begun="2026-11-21T06:18:30.000Z", time=1000),
            recorded("GET", "http://a.test/2", begun="2026-11-21T06:18:31.600Z", time=1)]}}))
        for way in self.ways[:2]:
            with self.subTest(way=way):
                words = ["-c", 1, "-n", 2, "--har", recording, "--think", "recorded", "--speed", 2]
                self.assertGreaterEqual(self.run_wsload(way, words)["elapsed_s"], 0.3)

    def test_invalid_recording_is_a_usage_error(self):
        broken = self.write("broken.har", '{"log":\n{"entries": 1}}')
        ended = subprocess.run([WSLOAD, "--har", broken], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"{broken}: not a HAR recording: no array log.entries", ended.stderr)


class Variables(Requests):
    def test_rows_are_sent_once_in_url_field_and_body(self):
        """Each row arrives exactly once, with its own URL, field and body, in a closed and in an open loop."""
        rows = {f"{i}": f'user {i}, "{"&" * (i % 3)}"' for i in range(100)}
        lines = "".join("{},\"{}\"\r\n".format(i, name.replace('"', '""')) for i, name in rows.items())
        table = self.write("users.csv", "id,name\r\n" + lines)
        for way in self.ways:
            for loop in ([], ["-r", 2000]):
                with self.subTest(way=way, loop=loop):
                    report = self.run_wsload(way, ["-c", 7, "-t", 2, "--csv", table, "--rows", "once",
                                                   "-H", "X-User: {{id}}", "-b", '{"name": {{name}}}', *loop],
                                             "/{{id}}?name={{name}}")
                    self.assertEqual(report["requests"]["answered"], 100)
                    arrived = {}
                    for method, path, fields, body in self.origin.seen:
                        self.assertEqual(method, "POST")
                        number = fields["x-user"]
                        arrived[number] = body.decode()
                        query = urllib.parse.quote(rows[number], safe="")
                        self.assertEqual(path, f"/{number}?name={query}")
                    self.assertEqual(arrived, {number: f'{{"name": {name}}}' for number, name in rows.items()})

    def test_each_connection_keeps_its_row_for_a_pass(self):
        """With think times in between, which must not end the run before the passes are complete."""
        table = self.write("users.csv", "id\n" + "".join(f"{i}\n" for i in range(12)))
        urls = self.write("urls", "/login/{{id}}\n/page\n/logout/{{id}}\n")
        for way in self.ways:
            with self.subTest(way=way):
                report = self.run_wsload(way, ["-c", 5, "-t", 1, "--csv", table, "--rows", "once", "--order",
                                               "each", "--think", "10ms", "-f", urls, "-H", "X-User: {{id}}"])
                self.assertEqual(report["requests"]["answered"], 36)
                visits = {}
                for _, path, fields, _ in self.origin.seen:
                    visits.setdefault(fields["x-user"], []).append(path)
                self.assertEqual(visits, {f"{i}": [f"/login/{i}", "/page", f"/logout/{i}"] for i in range(12)})

    def test_invalid_table_is_a_usage_error(self):
        table = self.write("broken.csv", 'id,name\n1,a\n2\n')
        for engine in ("curl", "raw"):
            ended = subprocess.run([WSLOAD, "--engine", engine, "--csv", table, "http://127.0.0.1:1/{{id}}"],
                                   capture_output=True, text=True, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"{table}:3: 1 values, but the first row has 2 names", ended.stderr)


class Cookies(Requests):
    def sessions(self):
        """The paths that were requested with each session, and those without one."""
        found = {}
        for _, path, fields, _ in self.origin.seen:
            found.setdefault(fields.get("cookie", ""), []).append(path)
        return found

    def test_each_connection_keeps_its_cookies(self):
        """Also in requests with a body, and over the connections of one user."""
        urls = self.write("urls", "/login\nPOST /cart\n/page\n/logout\n/elsewhere/1\n")
        for way in self.ways:
            for words in ([], ["--no-keepalive"]):
                with self.subTest(way=way, words=words):
                    self.run_wsload(way, ["-c", 1, "-n", 10, "--order", "each", "--cookies", "-b", "x" * 3000,
                                          "-f", urls, *words])
                    rows = [(path, fields.get("cookie", "")) for _, path, fields, _ in self.origin.seen]
                    for first in (0, 5):
                        session = rows[first + 1][1]
                        self.assertRegex(session, "^session=[0-9]+$")
                        self.assertEqual(rows[first:first + 5],
                                         [("/login", ""), ("/cart", session), ("/page", session),
                                          ("/logout", session), ("/elsewhere/1", "elsewhere=1")])
                    self.assertNotEqual(rows[1], rows[6])
                    self.assertEqual({row[3] for row in self.origin.seen}, {b"x" * 3000})

    def test_users_have_their_own_cookies(self):
        urls = self.write("urls", "/login\n/page\n/page\n/page\n/logout\n")
        for way in self.ways:
            with self.subTest(way=way):
                report = self.run_wsload(way, ["-c", 4, "-t", 2, "-n", 200, "--order", "each", "--cookies",
                                               "-f", urls])
                self.assertEqual(report["requests"]["answered"], 200)
                found = self.sessions()
                self.assertEqual(set(found.pop("")), {"/login"})
                for paths in found.values():
                    self.assertEqual(paths, ["/page", "/page", "/page", "/logout"][:len(paths)])

    def test_without_the_option_no_cookie_is_sent(self):
        urls = self.write("urls", "/login\n/page\n")
        for way in self.ways:
            with self.subTest(way=way):
                self.run_wsload(way, ["-c", 1, "-n", 4, "-f", urls])
                self.assertEqual(set(self.sessions()), {""})

    def test_recorded_cookies_are_replaced(self):
        recording = self.write("login.har", json.dumps({"log": {"entries": [
            recorded("GET", f"http://a.test/{path}", [("Cookie", "session=old")]) for path in ("login", "page")]}}))
        for way in self.ways:
            with self.subTest(way=way):
                self.run_wsload(way, ["-c", 1, "-n", 2, "--cookies", "--har", recording])
                self.assertNotIn("session=old", self.sessions())
                self.assertEqual([len(paths) for paths in self.sessions().values()], [1, 1])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    WSLOAD = sys.argv.pop(1)
    unittest.main(verbosity=2)
