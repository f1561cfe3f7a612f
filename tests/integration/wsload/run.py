#!/usr/bin/env python3
"""Tests wsload over TLS, HTTP/2 and proxies, with bodies and logs, by what arrives at the other end.

    run.py WSLOAD [UNITTEST_ARGUMENT...]

The tests of TLS, HTTP/2, compression and ranges need nginx and openssl; otherwise they are skipped.
"""
import contextlib
import csv
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
import xml.etree.ElementTree

import servers

WSLOAD = None
ENGINES = ("curl", "raw")


def run(words, engine="curl", status=0, environment=(), stdin=None):
    """Runs wsload, which must exit with STATUS (unless None). Returns its report from JSON."""
    command = [WSLOAD, "--json", "--quiet", "--engine", engine, *servers.PATIENT, *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False,
                           timeout=servers.PATIENCE_S * 4, env={**os.environ, **dict(environment)},
                           stdin=stdin)
    if status is not None and ended.returncode != status:
        raise AssertionError(f"{command} ended with {ended.returncode}\n{ended.stderr}{ended.stdout}")
    return json.loads(ended.stdout) if ended.stdout else ended.stderr


def run_text(words):
    return subprocess.run([WSLOAD, *words], capture_output=True, text=True, check=True).stdout


class WithFolder(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="wsload-test.")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)


@unittest.skipUnless(servers.NGINX and servers.OPENSSL, "nginx or openssl is missing")
class BeforeNginx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="wsload-test.")
        cls.directory = pathlib.Path(cls.kept.name)
        cls.nginx = servers.Nginx(cls.directory)

    @classmethod
    def tearDownClass(cls):
        cls.nginx.stop()
        cls.kept.cleanup()

    def url(self, port, path="/hello", host="127.0.0.1"):
        scheme = "http" if port in ("plain", "h2c") else "https"
        return f"{scheme}://{host}:{self.nginx.port[port]}{path}"

    def test_tls(self):
        """With a valid certificate, by any option, every request is sent over TLS exactly once."""
        for engine in ENGINES:
            for words in (["-k"], ["--cacert", self.directory / "server.pem"]):
                with self.subTest(engine=engine, words=words):
                    report = run(["-c", 3, "-n", 200, *words, self.url("tls")], engine)
                    arrived = self.nginx.arrived("tls", 200)
                    self.assertEqual(len(arrived), 200)
                    self.assertTrue(all(row["tls"].startswith("TLSv1.") for row in arrived))
                    self.assertEqual(len({row["connection"] for row in arrived}), 3)
                    self.assertEqual(report["connections"]["opened"], 3)
                    self.assertEqual(report["requests"]["answered"], 200)

    def test_connections_of_an_open_loop(self):
        """The report has as many connections as the server, also if libcurl needs fewer than allowed."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["-c", 60, "-r", 300, "-n", 150, self.url("plain")], engine)
                seen = len({row["connection"] for row in self.nginx.arrived("plain", 150)})
                self.assertEqual(report["connections"], {"asked": 60, "used": seen, "at_the_end": seen, "up": seen,
                                                         "opened": seen, "unsolicited": 0})

    def test_connection_for_each_request(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                run(["-c", 3, "-n", 30, "-k", "--no-keepalive", self.url("tls")], engine)
                arrived = self.nginx.arrived("tls", 30)
                self.assertEqual(len({row["connection"] for row in arrived}), 30)

    def test_refused_certificate(self):
        """Untrusted certificate or wrong host: no request is sent, and the report says why."""
        cases = ((["--cacert", "/etc/ssl/certs/ca-certificates.crt"], "127.0.0.1", "certificate"),
                 (["--cacert", self.directory / "client.pem"], "127.0.0.1", "certificate"),
                 (["--cacert", self.directory / "server.pem", "--connect-to",
                   f"elsewhere.test:{self.nginx.port['tls']}:127.0.0.1:{self.nginx.port['tls']}"],
                  "elsewhere.test", "elsewhere.test"))
        for engine in ENGINES:
            for words, host, why in cases:
                if not pathlib.Path(words[1]).exists():
                    continue
                with self.subTest(engine=engine, words=words):
                    report = run(["-c", 2, "-n", 6, *words, self.url("tls", host=host)], engine, 2)
                    self.assertEqual(report["errors"]["tls"], 6)
                    self.assertIn(why, report["error_texts"]["tls"])
                    self.assertEqual(self.nginx.arrived("tls"), [])

    def test_certificate_of_the_client(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                run(["-c", 2, "-n", 10, "-k", "--cert", self.directory / "client.pem",
                     "--key", self.directory / "client.key", self.url("client")], engine)
                arrived = self.nginx.arrived("client", 10)
                self.assertEqual([row["client"] for row in arrived], ["SUCCESS"] * 10)
                report = run(["-c", 1, "-n", 2, "-k", self.url("client")], engine, 3)
                self.assertEqual(report["statuses"], {"400": 2})
                self.assertEqual({row["client"] for row in self.nginx.arrived("client", 2)}, {"NONE"})

    def test_files_that_cannot_be_read(self):
        missing = self.directory / "missing"
        for words in (["--cacert", missing], ["--cert", missing, "--key", missing]):
            said = run(["-n", 1, *words, self.url("tls")], status=1)
            self.assertIn(f"cannot read '{missing}'", said)

    def test_authorities_are_read_once(self):
        """With a CA directory, libcurl would read all certificates again for each connection."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                ended = subprocess.run([WSLOAD, "-v", *servers.PATIENT, "--engine", engine, "-n", "1", self.url("tls")],
                                       capture_output=True, text=True, check=False)
                self.assertIn("CAfile: ", ended.stderr)
                self.assertIn("CApath: none", ended.stderr)

    def test_http2(self):
        cases = [(engine, port, words, connections) for engine in ENGINES
                 for port, words, connections in (("h2", ["-k"], 3), ("h2", ["-k", "--streams", 20], 3),
                                                  ("h2c", ["--no-keepalive"], 200))]
        cases += [("raw", "h2c", ["--streams", 20], 3),
                  ("raw", "h2c", ["--max-reqs-per-conn", 50], 4)]
        for engine, port, words, connections in cases:
            with self.subTest(engine=engine, port=port, words=words):
                count = 1 if connections == 4 else 3
                report = run(["-c", count, "-n", 200, "--http2", "--expect-size", 5, *words,
                              self.url(port)], engine)
                arrived = self.nginx.arrived(port, 200)
                self.assertEqual([row["version"] for row in arrived], ["HTTP/2.0"] * 200)
                self.assertEqual(len({row["connection"] for row in arrived}), connections)
                self.assertEqual(report["connections"]["opened"], connections)
                self.assertEqual(report["connections"]["up"], count)
                self.assertNotIn("not_http2", [note["name"] for note in report["notes"]])

    def test_requests_that_nginx_does_not_process_are_sent_again(self):
        """nginx ends a connection after 20 requests, however many streams are open."""
        for engine in ENGINES:
            for streams in (1, 10, 50):
                with self.subTest(engine=engine, streams=streams):
                    report = run(["-c", 2, "-n", 120, "--http2", "-k", "--streams", streams, self.url("few")], engine)
                    self.assertEqual(len(self.nginx.arrived("few", 120)), 120)
                    self.assertEqual(report["requests"]["answered"], 120)

    def test_streams_are_concurrent(self):
        """Requests of one connection overlap: nginx limits the rate of each response."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["-c", 1, "-n", 20, "--http2", "--streams", 20, "-k",
                              self.url("h2", "/slow")], engine)
                self.assertEqual(len(self.nginx.arrived("h2", 20)), 20)
                self.assertGreater(report["latency_us"]["p50"], 0.9e6)
                self.assertLess(report["elapsed_s"], 15)  # one at a time: 20 s

    def test_negotiation(self):
        """The report names what nginx logs."""
        cipher = "ECDHE-ECDSA-AES256-GCM-SHA384"
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["-c", 2, "-n", 10, "-k", "--http2", "--tls-max", "1.2", "--ciphers",
                              f"{cipher}:TLS_AES_128_GCM_SHA256", "--groups", "P-256", self.url("h2")], engine)
                self.assertEqual({row["tls"] for row in self.nginx.arrived("h2", 10)}, {"TLSv1.2"})
                self.assertEqual(report["negotiated"], [{"http": "HTTP/2", "tls": "TLSv1.2",
                                                         "cipher": cipher, "tls_group": "secp256r1",
                                                         "connections": 2}])
                report = run(["-c", 1, "-n", 2, "-k", "--ciphers", f"{cipher}:TLS_AES_128_GCM_SHA256",
                              "--groups", "P-384", self.url("tls")], engine)
                self.assertEqual(report["negotiated"], [
                    {"http": "HTTP/1.1", "tls": "TLSv1.3", "cipher": "TLS_AES_128_GCM_SHA256", "tls_group": "secp384r1",
                     "connections": 1}])
                self.nginx.arrived("tls", 2)

    def test_sessions_are_resumed(self):
        for engine in ENGINES:
            for version in ("1.2", "1.3"):
                with self.subTest(engine=engine, version=version):
                    words = ["-c", 2, "-n", 20, "-k", "--no-keepalive", "--tls-max", version]
                    report = run([*words, self.url("tls")], engine)
                    resumed = report["resumed_handshake_us"]["count"]
                    self.assertEqual(report["full_handshake_us"]["count"] + resumed, 20)
                    self.assertGreaterEqual(resumed, 8)  # TLS 1.3: if each ticket is valid once
                    self.assertEqual([row["resumed"] for row in self.nginx.arrived("tls", 20)].count("r"),
                                     resumed)
                    report = run([*words, "--no-resume", self.url("tls")], engine)
                    self.assertEqual(report["full_handshake_us"]["count"], 20)
                    self.assertEqual({row["resumed"] for row in self.nginx.arrived("tls", 20)}, {"."})

    def test_long_bodies(self):
        for engine in ENGINES:
            for words in (["tls"], ["h2", "--http2", "--streams", 3]):
                with self.subTest(engine=engine, words=words):
                    report = run(["-c", 2, "-n", 6, "-k", "--expect-size", 5000000, *words[1:],
                                  self.url(words[0], "/large")], engine)
                    self.assertEqual(report["bytes"]["body"], 6 * 5000000)
                    self.nginx.arrived(words[0], 6)

    def test_body_over_http2(self):
        """Before a server that reads the body before it answers: libcurl loses responses that come earlier."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["-c", 1, "-n", 10, "-k", "--http2", "--streams", 5, "-b", "x" * 10000,
                              "--expect-status", 405, self.url("h2", "/body/hello")], engine)
                arrived = self.nginx.arrived("h2", 10)
                self.assertEqual({(row["method"], row["length"]) for row in arrived}, {("POST", "10000")})
                self.assertEqual(report["statuses"], {"405": 10})

    def test_http2_without_tls_kept_alive(self):
        """A missing libcurl feature is an error before the run."""
        version = run_text(["-V"])
        words = ["-c", 3, "-n", 200, "--http2", self.url("h2c")]
        if "libcurl/7.88" in version:
            self.assertIn("cannot reuse HTTP/2 connections without TLS; use --engine raw",
                          run(words, status=1))
        else:
            run(words)
            arrived = self.nginx.arrived("h2c", 200)
            self.assertEqual({row["version"] for row in arrived}, {"HTTP/2.0"})
            self.assertEqual(len({row["connection"] for row in arrived}), 3)

    def test_upload_that_is_ignored(self):
        """The server answers without reading the body."""
        (self.directory / "body").write_bytes(bytes(2000000))
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["--http2", "-k", "-c", 1, "-n", 5, "--body-file", self.directory / "body",
                              self.url("h2", "/ignored")], engine)
                self.assertEqual(report["requests"]["answered"], 5)
                self.assertEqual([(row["method"], row["status"]) for row in self.nginx.arrived("h2", 5)],
                                 [("POST", "200")] * 5)

    def test_http2_that_is_not_agreed_to(self):
        report = run(["-c", 2, "-n", 10, "-k", "--http2", self.url("tls")], "raw", 2)
        self.assertIn("no application protocol", report["error_texts"]["tls"])
        self.assertEqual(self.nginx.arrived("tls"), [])
        report = run(["-c", 2, "-n", 10, "-k", "--http2", self.url("tls")])
        self.assertIn("not_http2", [note["name"] for note in report["notes"]])
        self.assertEqual({row["version"] for row in self.nginx.arrived("tls", 10)}, {"HTTP/1.1"})

    def test_versions(self):
        for engine in ENGINES:
            for word, version in (("--http1.0", "HTTP/1.0"), ("--http1.1", "HTTP/1.1")):
                with self.subTest(engine=engine, version=version):
                    run(["-c", 2, "-n", 10, word, self.url("plain")], engine)
                    arrived = self.nginx.arrived("plain", 10)
                    self.assertEqual({row["version"] for row in arrived}, {version})

    def test_gzip(self):
        """Requests compressed answers, and counts their encoded bytes."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                plain = run(["-c", 2, "-n", 10, self.url("plain", "/long")], engine)
                self.assertEqual({row["encoding"] for row in self.nginx.arrived("plain", 10)}, {"-"})
                packed = run(["-c", 2, "-n", 10, "--gzip", self.url("plain", "/long")], engine)
                arrived = self.nginx.arrived("plain", 10)
                self.assertEqual({row["encoding"] for row in arrived}, {"gzip"})
                self.assertEqual(plain["bytes"]["body"], 10 * 22000)
                self.assertLess(packed["bytes"]["body"], 10 * 1000)

    def test_range(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["-c", 2, "-n", 10, "--range", "5-14", "--expect-status", 206,
                              "--expect-size", 10, self.url("plain", "/long")], engine)
                self.assertEqual(report["bytes"]["body"], 100)
                arrived = self.nginx.arrived("plain", 10)
                self.assertEqual({row["range"] for row in arrived}, {"bytes=5-14"})


@unittest.skipUnless(servers.OPENSSL, "openssl is missing")
class Http2Endings(WithFolder):
    def load(self, decide, engine, status, *words):
        """Runs wsload against a server that decides so. Returns the report and how many requests were answered."""
        server = servers.Http2Server(self.directory, decide)
        try:
            return run(["-k", "--http2", *words, server.url], engine, status), server.answered
        finally:
            server.stop()

    def test_requests_not_processed_are_sent_again(self):
        """After GOAWAY and after REFUSED_STREAM, as RFC 9113 section 8.7 guarantees that it is safe."""
        cases = {"goaway": lambda number: "goaway" if number >= 10 else None,
                 "refused": lambda number: servers.REFUSED_STREAM if number % 3 == 2 else None}
        for engine in ENGINES:
            for name, decide in cases.items():
                for streams in (1, 25):
                    with self.subTest(engine=engine, case=name, streams=streams):
                        report, answered = self.load(decide, engine, 0, "-c", 2, "-n", 75, "--streams", streams)
                        self.assertEqual(report["requests"]["answered"], 75)
                        self.assertEqual(answered, 75)
                        if name == "refused" or streams > 1:
                            self.assertGreater(report["requests"]["retried"], 0)

    def test_code_of_a_reset(self):
        """The report has the code with which the server resets streams."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report, answered = self.load(lambda number: 2 if number > 0 else None, engine, 3, "-c", 1, "-n", 5)
                self.assertEqual((answered, report["errors"]["closed"]), (1, 4))
                self.assertIn("INTERNAL_ERROR", report["error_texts"]["closed"])

    def test_fewer_streams_than_requested(self):
        server = servers.Http2Server(self.directory, lambda _: None, streams=3)
        self.addCleanup(server.stop)
        for engine, streams in (("raw", 3), ("raw", 4), ("curl", 3), ("curl", 20)):
            with self.subTest(engine=engine, streams=streams):
                report = run(["--http2", "-k", "-c", 1, "-n", 1000, "--streams", streams, server.url], engine)
                self.assertEqual(report["requests"]["answered"], 1000)
                notes = [note["text"] for note in report["notes"] if note["name"] == "fewer_streams"]
                self.assertEqual([text.split(" streams")[0] for text in notes],
                                 ["The server permits 3"] if streams > 3 else [])

    def test_server_that_refuses_every_request(self):
        """The requests fail; they are not sent for ever."""
        for engine in ENGINES:
            for decision in (servers.REFUSED_STREAM, "goaway"):
                with self.subTest(engine=engine, decision=decision):
                    report, answered = self.load(lambda _, same=decision: same, engine, 2, "-c", 1, "-n", 5,
                                                 "--streams", 2)
                    self.assertEqual(answered, 0)
                    self.assertEqual(report["requests"]["failed"], 5)
                    self.assertLess(report["requests"]["retried"], 100)


class Proxies(unittest.TestCase):
    def setUp(self):
        self.origin = servers.Recorder()
        self.addCleanup(self.origin.stop)

    def proxy(self, kind):
        proxy = kind()
        self.addCleanup(proxy.stop)
        return proxy

    def test_http(self):
        """Engine curl uses the proxy per request, engine raw through tunnels; the origin receives each once."""
        for engine in ENGINES:
            with self.subTest(engine=engine):
                proxy = self.proxy(servers.HttpProxy)
                self.origin.seen.clear()
                report = run(["-c", 3, "-n", 60, "-x", f"http://me:pw@{proxy.address}",
                              f"{self.origin.url}/a?b"], engine)
                self.assertEqual(report["requests"]["answered"], 60)
                self.assertEqual([row[:2] for row in self.origin.seen], [("GET", "/a?b")] * 60)
                expected = ("GET", f"{self.origin.url}/a?b"), 60
                if engine == "raw":
                    expected = ("CONNECT", self.origin.url.removeprefix("http://")), 3
                self.assertEqual({row[:2] for row in proxy.seen}, {expected[0]})
                self.assertEqual(len(proxy.seen), expected[1])
                self.assertTrue(all(f"Proxy-Authorization: {servers.basic('me:pw')}\r\n" in row[2]
                                    for row in proxy.seen))

    def test_names_are_the_proxys_affair(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                proxy = self.proxy(servers.HttpProxy)
                status = 2 if engine == "raw" else 3
                report = run(["-c", 1, "-n", 2, "-x", proxy.address, "http://forbidden.test/"], engine,
                             status)
                self.assertEqual(len(proxy.seen), 2)
                if engine == "raw":
                    self.assertIn("403", report["error_texts"]["other"])
                else:
                    self.assertEqual(report["statuses"], {"403": 2})

    def test_socks(self):
        for engine in ENGINES:
            for scheme in ("socks5", "socks5h"):
                with self.subTest(engine=engine, scheme=scheme):
                    proxy = self.proxy(servers.SocksProxy)
                    self.origin.seen.clear()
                    run(["-c", 3, "-n", 60, "--proxy", f"{scheme}://{proxy.address}",
                         f"{self.origin.url}/x"], engine)
                    self.assertEqual(len(self.origin.seen), 60)
                    self.assertEqual(proxy.seen, [self.origin.url.removeprefix("http://")] * 3)

    def test_environment_means_nothing(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                self.origin.seen.clear()
                run(["-c", 1, "-n", 3, self.origin.url], engine,
                    environment={"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}.items())
                self.assertEqual(len(self.origin.seen), 3)
                proxy = self.proxy(servers.HttpProxy)
                run(["-c", 1, "-n", 3, "-x", proxy.address, self.origin.url], engine,
                    environment={"no_proxy": "*"}.items())
                self.assertEqual(len(proxy.seen), 1 if engine == "raw" else 3)

    def test_a_proxy_that_is_not_there(self):
        port, = servers.free_ports(1)
        for engine in ENGINES:
            report = run(["-c", 1, "-n", 3, "-x", f"127.0.0.1:{port}", self.origin.url], engine, 2)
            self.assertEqual(report["errors"]["refused"], 3)
        self.assertEqual(self.origin.seen, [])


class Responses(unittest.TestCase):
    def load(self, answer, engine, status):
        server = servers.Fixed(answer)
        try:
            return run(["-c", 2, "-n", 20, server.url], engine, status)
        finally:
            server.stop()

    def test_reason_of_an_invalid_response(self):
        head = b"HTTP/1.1 200 OK\r\n"
        cases = ((b"220 mail\r\n", "HTTP/0.9", "invalid HTTP/1 status line"),
                 (head + b"Content-Length: x\r\n\r\n", "Content-Length", "Content-Length is not a number"),
                 (head + b"A: " + b"x" * 150000 + b"\r\n\r\n", "", "line longer than 100 KiB, the limit of wsload"))
        for answer, curl, raw in cases:
            for engine, reason in (("curl", curl), ("raw", raw)):
                with self.subTest(engine=engine, reason=reason):
                    report = self.load(answer, engine, 2)
                    self.assertEqual(report["errors"]["malformed"], 20)
                    self.assertIn(reason, report["error_texts"]["malformed"])

    def test_unusual_responses(self):
        """A long field, and a length that chunks override, are valid; the connections stay open."""
        head = b"HTTP/1.1 200 OK\r\n"
        for answer in (head + b"A: " + b"x" * 90000 + b"\r\nContent-Length: 2\r\n\r\nok",
                       head + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"):
            for engine in ENGINES:
                with self.subTest(engine=engine, answer=answer[:30]):
                    report = self.load(answer, engine, 0)
                    self.assertEqual(report["bytes"]["body"], 40)
                    self.assertEqual(report["connections"]["opened"], 2)
                    self.assertNotIn("reopened", [note["name"] for note in report["notes"]])


class Requests(WithFolder):
    def setUp(self):
        super().setUp()
        self.origin = servers.Recorder()
        self.addCleanup(self.origin.stop)

    def test_body_from_a_file(self):
        """Bodies of any bytes and length arrive unchanged."""
        source = random.Random(1)
        bodies = (b"", b"one line\n", bytes(range(256)), b"\xff" * 1000, b"\0\r\n\r\n\0",
                  source.randbytes(3_000_000))
        for engine in ENGINES:
            for body in bodies:
                with self.subTest(engine=engine, length=len(body)):
                    (self.directory / "body").write_bytes(body)
                    self.origin.seen.clear()
                    run(["-c", 2, "-n", 6, "-m", "PUT", "--body-file", self.directory / "body",
                         f"{self.origin.url}/put"], engine)
                    expected = ("PUT", "/put", len(body), hashlib.sha256(body).hexdigest())
                    self.assertEqual([row[:4] for row in self.origin.seen], [expected] * 6)
        said = run(["--body-file", self.directory / "missing", self.origin.url], status=1)
        self.assertIn("cannot read body file ", said)

    def test_characters_of_a_url(self):
        """Both engines send the same path, percent-encoded where it is not ASCII."""
        (self.directory / "urls").write_text("/ä?ö=ü\n/%C3%A4\n/b/é\n", encoding="utf-8")
        for engine in ENGINES:
            self.origin.seen.clear()
            run(["-c", 1, "-n", 1, f"{self.origin.url}/grüße?q=ß#é"], engine)
            run(["-c", 1, "-n", 3, "-f", self.directory / "urls", f"{self.origin.url}/"], engine)
            self.assertEqual([row[1] for row in self.origin.seen],
                             ["/gr%C3%BC%C3%9Fe?q=%C3%9F", "/%C3%A4?%C3%B6=%C3%BC", "/%C3%A4", "/b/%C3%A9"])

    def test_report_names_command_and_machine(self):
        """Without secrets."""
        words = ["-c", 1, "-n", 1, "-u", "me:secret", "-ume:secret", "--user=me:secret", "-H", "Authorization: secret",
                 "-H", "X-A: two words", f"{self.origin.url}/"]
        environment = run(words)["environment"]
        self.assertEqual((environment["host"], environment["kernel"]), (os.uname().nodename, os.uname().release))
        self.assertTrue(environment["command"].endswith(
            f"-c 1 -n 1 -u *** -u*** --user=*** -H *** -H 'X-A: two words' {self.origin.url}/"), environment["command"])
        text = run_text([*map(str, words)])
        self.assertIn(environment["kernel"], text)
        self.assertNotIn("secret", text)

    def test_request_that_closes_its_connection(self):
        """-H 'Connection: close' is --no-keepalive, and a step may close its connection: the server does so silently."""
        scenario = self.directory / "scenario"
        scenario.write_text("scenario two\nGET /a\nGET /b\n  field Connection: close\n")
        for engine in ENGINES:
            for words, connections in (("-H", "Connection: close"), 60), (("--scenarios", scenario), 30):
                with self.subTest(engine=engine, words=words):
                    count = 30 if words[0] == "--scenarios" else 60
                    report = run(["-c", 3, "-n", count, *words, f"{self.origin.url}/"], engine)
                    self.assertEqual(report["requests"]["answered"], 60)
                    self.assertEqual(report["connections"]["opened"], connections)
                    self.assertEqual(report["plan"]["keepalive"], words[0] == "--scenarios")

    def test_seed(self):
        """The seed of the report repeats a Poisson process and a random order; without it, each run has its own."""
        (self.directory / "list").write_text("".join(f"/{path}\n" for path in range(100)))

        def load(*words):
            self.origin.seen.clear()
            report = run(["-c", 1, "-n", 30, "-r", 1000, "--arrivals", "poisson", "--order", "random",
                          "-f", self.directory / "list", *words, self.origin.url])
            return report["plan"]["seed"], [row[1] for row in self.origin.seen]

        seed, order = load()
        other = load()
        self.assertNotEqual(other[0], seed)
        self.assertNotEqual(other[1], order)
        self.assertEqual(load("--seed", seed), (seed, order))

    def test_random_order(self):
        """Shares match the weights within five standard deviations, in no fixed order."""
        (self.directory / "list").write_text("/a 6\n/b 3\n# a comment\n\nHEAD /c 1\n")
        for engine in ENGINES:
            with self.subTest(engine=engine):
                self.origin.seen.clear()
                run(["-c", 4, "-n", 2000, "-t", 2, "--order", "random", "-f", self.directory / "list",
                     self.origin.url], engine)
                self.assertEqual(len(self.origin.seen), 2000)
                for method, path, part in (("GET", "/a", .6), ("GET", "/b", .3), ("HEAD", "/c", .1)):
                    count = sum(row[:2] == (method, path) for row in self.origin.seen)
                    spread = 5 * (2000 * part * (1 - part)) ** .5
                    self.assertAlmostEqual(count, 2000 * part, delta=spread)

    def replay(self, lines, engine, *words):
        """The replayed requests as (seconds since before wsload began, method, path)."""
        (self.directory / "access.log").write_text(lines)
        self.origin.seen.clear()
        begun = time.monotonic()
        report = run(["-c", 4, "-t", 1, "--replay", self.directory / "access.log", *words,
                      self.origin.url], engine)
        return report, [(row[4] - begun, *row[:2]) for row in self.origin.seen]

    def test_replay(self):
        """No request arrives early. On a busy machine it may arrive late."""
        lines = "".join(f'h - - [21/Nov/2026:13:00:0{path // 2} +0000] "GET /{path} HTTP/1.1" 200 5 '
                        f'"-" "x"\n' for path in (0, 1, 2))
        for engine in ENGINES:
            with self.subTest(engine=engine):
                _, arrived = self.replay(lines, engine)
                self.assertEqual([row[1:] for row in arrived],
                                 [("GET", "/0"), ("GET", "/1"), ("GET", "/2")])
                self.assertGreaterEqual(arrived[2][0], 1)

    def test_scaled_replay(self):
        """A minute of JSON log in half a second: each request once, in order, none early."""
        lines = "".join(json.dumps({"time": f"2026-11-21T13:00:{second:02}Z", "method": "GET",
                                    "target": f"/{second}", "status": 200}) + "\n"
                        for second in range(60))
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report, arrived = self.replay(lines, engine, "--speed", 120, "-c", 1)
                self.assertEqual([row[1:] for row in arrived],
                                 [("GET", f"/{second}") for second in range(60)])
                for second, row in enumerate(arrived):
                    self.assertGreaterEqual(row[0], second / 120)
                self.assertLess(report["elapsed_s"], 30)


class InScripts(WithFolder):
    """Checks against a baseline, and reports for other programs."""

    def setUp(self):
        super().setUp()
        self.origin = servers.Recorder()
        self.addCleanup(self.origin.stop)

    def load(self, *words, status=0):
        ended = subprocess.run([WSLOAD, "--quiet", *servers.PATIENT, "-c", "2", "-n", "50", *map(str, words),
                                f"{self.origin.url}/a?b=1&c=%2C"],
                               capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, status, ended.stderr)
        return ended.stdout + ended.stderr

    def test_baseline(self):
        base = self.directory / "base.json"
        self.load("-o", base)
        for condition, status in (("mean>100000x", 0), ("mean>0.00001x", 99), ("p90<=0.00001x", 0),
                                  ("p90>=0.00001x", 99), ("rate<0.00001x", 0), ("rate<100000x", 99),
                                  ("200>1x", 0), ("200>=1x", 99), ("errors>2x", 0)):
            for engine in ENGINES:
                with self.subTest(engine=engine, condition=condition):
                    self.load("--engine", engine, "--baseline", base, "--fail-if", condition,
                              status=status)
        self.assertIn("has no number for the condition p99.9>1x",
                      self.load("--baseline", base, "--fail-if", "p99.9>1x", status=1))
        self.assertIn("requires --baseline", self.load("--fail-if", "p99>1.1x", status=1))
        self.assertIn("cannot read the report",
                      self.load("--baseline", self.directory / "none", "--fail-if", "p50>1x", status=1))

    def test_merge(self):
        """Two runs at the same time: all counts add up, in each format, and checks apply to the sum."""
        names = [self.directory / "a.json", self.directory / "b.json"]
        for engine in ENGINES:
            runs = [subprocess.Popen([WSLOAD, "--quiet", *servers.PATIENT, "--engine", engine, "-c", "2", "-n", str(requests),
                                      "-o", name, self.origin.url])
                    for name, requests in zip(names, (30, 50))]
            self.assertEqual([run.wait() for run in runs], [0, 0])
            for form in ("--json", *(f"--format={name}" for name in ("csv", "hdr", "html", "junit", "text"))):
                with self.subTest(engine=engine, format=form):
                    self.assertIn("80", subprocess.run([WSLOAD, "merge", form, *names],
                                                       capture_output=True, text=True, check=True).stdout)
            for condition, status in (("200>=80", 99), ("200>80", 0)):
                ended = subprocess.run([WSLOAD, "merge", "--fail-if", condition, *names],
                                       capture_output=True, check=False)
                self.assertEqual(ended.returncode, status)
        names[1].write_text("[]")
        ended = subprocess.run([WSLOAD, "merge", *names], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("is not a report of a run", ended.stderr)

    def test_junit(self):
        path = self.directory / "report.xml"
        self.load("-o", path, "--fail-if", "mean>0us", "--fail-if", "503>0",
                  status=99)
        suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("4", "1"))
        cases = {case.get("name"): case for case in suite}
        self.assertEqual(list(cases), ["responses", "errors", "mean>0us", "503>0"])
        self.assertEqual([name for name, case in cases.items() if case.find("failure") is not None],
                         ["mean>0us"])
        self.assertEqual(cases["responses"].find("system-out").text, "50 of 50 requests were answered")
        self.assertTrue(cases["errors"].get("classname").endswith("/a?b=1&c=%2C"))

    def test_sweeps_have_no_checks(self):
        for name in ("junit", "hdr"):
            ended = subprocess.run([WSLOAD, "sweep", "--format", name], capture_output=True, text=True,
                                   check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"--format {name} is not available for sweeps", ended.stderr)


class Records(WithFolder):
    def setUp(self):
        super().setUp()
        self.server = servers.Recorder()
        self.addCleanup(self.server.stop)

    def test_log_has_a_line_for_each_request(self):
        file = self.directory / "log.csv"
        for engine in ENGINES:
            for words in (["-n", 300], ["-n", 100, "-r", 2000], ["-n", 60, "--no-keepalive"]):
                with self.subTest(engine=engine, words=words):
                    report = run(["-c", 4, "-t", 2, "--log", file, *words, self.server.url], engine)
                    rows = list(csv.DictReader(file.read_text().splitlines()))
                    self.assertEqual(len(rows), words[1])
                    self.assertEqual({(row["status"], row["error"]) for row in rows}, {("200", "")})
                    for row in rows:
                        times = [int(row[name]) for name in ("due_us", "begun_us", "first_byte_us", "end_us")]
                        self.assertEqual(times, sorted(times))
                    self.assertEqual(sum(int(row["bytes"]) for row in rows), sum(report["bytes"].values()))
                    self.assertEqual(sum(int(row["connected"]) for row in rows), report["connections"]["opened"])
                    self.assertLessEqual(len({(row["thread"], row["connection"]) for row in rows}), 4)
                    longest = max(int(row["end_us"]) - int(row["due_us"]) for row in rows)
                    self.assertAlmostEqual(longest, report["latency_us"]["max"], delta=2)

    def test_log_has_errors(self):
        file = self.directory / "log.csv"
        lost = servers.Fixed(b"")
        self.addCleanup(lost.stop)
        for engine in ENGINES:
            run(["-c", 1, "-n", 1, "--timeout", "50ms", "--log", file, lost.url], engine, 2)
            rows = list(csv.DictReader(file.read_text().splitlines()))
            self.assertEqual([(row["status"], row["first_byte_us"]) for row in rows], [("", "")])
            self.assertIn(rows[0]["error"], ("timeout", "connect_timeout"))  # on a busy machine before the connection is open
        for name, why in (("/dev/full", "No space left"), ("/missing/a", "No such file")):
            self.assertIn(f"--log {name}: {why}", run(["-n", 1, "--log", name, self.server.url], status=1))

    def test_metrics_are_served_during_the_run(self):
        (port,) = servers.free_ports(1)
        run_of = subprocess.Popen([WSLOAD, *servers.PATIENT, "-c", "2", "-d", "1h", "--json", "--quiet", "--think", "10ms",
                                   "--metrics", f"127.0.0.1:{port}", self.server.url], stdout=subprocess.PIPE, text=True)

        def metric(name):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
                found = [line.split()[1] for line in page.read().decode().splitlines() if line.startswith(f"{name} ")]
                return float(found[0]) if found else 0
            return 0

        try:
            servers.wait_for(lambda: metric("wsload_requests_total") >= 2, "requests")
            servers.wait_for(lambda: metric('wsload_responses_total{status="200"}') >= 2, "responses")
            self.assertEqual(metric("wsload_connections"), 2)
            with self.assertRaises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=60)
            self.assertEqual(error.exception.code, 404)
            error.exception.close()
            seen = metric("wsload_latency_seconds_count")
        finally:
            run_of.send_signal(signal.SIGINT)
            report = json.loads(run_of.communicate()[0])
        self.assertGreaterEqual(report["requests"]["answered"], seen)
        self.assertIn("cannot listen", run(["-n", 1, "--metrics", "192.0.2.1:9", self.server.url], status=1))

    def test_start_at(self):
        """On a busy machine, wsload may begin only when that second is over."""
        for ahead in (2, 5, 30):
            start = int(time.time()) + ahead
            report = run(["-n", 4, "-c", 2, "--start-at", start, self.server.url], status=None)
            if not isinstance(report, str):
                break
        self.assertGreaterEqual(report["began_unix_us"], start * 1000000)

    def test_hostile_clients(self):
        """The server has the connections that the report says, and honest clients their responses."""
        kinds = {"slow-head": 3, "slow-body": 2, "slow-read": 2, "reset": 2, "idle": 3}
        words = [word for kind, count in kinds.items() for word in (f"--{kind}", count)]
        report = run(["-c", 2, "-t", 1, "-d", "300ms", *words, self.server.url])
        clients = {client["kind"]: client for client in report["hostile"]}
        self.assertEqual({kind: client["clients"] for kind, client in clients.items()}, kinds)
        for kind, client in clients.items():
            self.assertEqual(client["failed"], 0)
            self.assertGreaterEqual(client["opened"], kinds[kind])
            self.assertEqual(client["at_the_end"], 0 if kind == "reset" else kinds[kind])
        opened = sum(client["opened"] for client in clients.values())
        servers.wait_for(lambda: self.server.accepted >= opened + 4, "all connections")
        self.assertLessEqual(self.server.accepted, opened + 4 + kinds["reset"])  # those may just connect at the end
        self.assertEqual(report["requests"]["answered"], report["requests"]["begun"])
        self.assertGreater(report["without_hostile"][0]["requests_per_second"], 0)


class Limits(WithFolder):
    """Scarce resources, closed descriptors, silent servers."""

    def setUp(self):
        super().setUp()
        self.origin = servers.Recorder()
        self.addCleanup(self.origin.stop)

    def test_changes_from_a_file(self):
        """A file cannot be polled: its content applies from the start."""
        (self.directory / "changes").write_text("connections 7\nthreads 2\n")
        for engine in ENGINES:
            for words in (["-d", "3s", "--grace", "60s", "--think", "10ms"], ["-r", 200, "-n", 100]):
                with self.subTest(engine=engine, words=words), \
                        (self.directory / "changes").open() as changes:
                    report = run(["-c", 3, "-t", 1, "--control-fd", 0, *words, self.origin.url],
                                 engine, stdin=changes)
                    self.assertEqual(report["plan"]["connections"], 3)
                    self.assertEqual(report["seconds"][-1]["connections"], 7)

    def test_no_answer(self):
        """Established connections are counted, even without an answer."""
        with socket.create_server(("127.0.0.1", 0), backlog=128) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            for engine in ENGINES:
                with self.subTest(engine=engine):
                    report = run(["-c", 5, "-d", "3s", "--grace", 0, url], engine, 2)
                    self.assertEqual(report["requests"]["unanswered"], 5)
                    self.assertEqual(report["connections"]["up"], 5)
                    self.assertEqual(report["connections"]["opened"], 5)

    def test_server_that_cannot_be_reached(self):
        """The run ends at once, with one line and, for programs, the report."""
        port, = servers.free_ports(1)
        cases = [(f"http://127.0.0.1:{port}", (), "connection refused; --wait-for-server")]
        if servers.OPENSSL:
            server = servers.Http2Server(self.directory, lambda _: None)
            self.addCleanup(server.stop)
            cases.append((server.url, (), "; -k does not verify certificates"))
        cases.append((cases[0][0], ("-r", "500", "-w", "1h"), "connection refused"))
        cases.append((cases[0][0], ("--repeat", "2"), "connection refused"))
        for engine in ENGINES:
            for url, words, reason in cases:
                with self.subTest(engine=engine, url=url, words=words):
                    command = [WSLOAD, "--quiet", *servers.PATIENT, "--engine", engine, "-c", "5", "-d", "1h", *words, url]
                    ended = subprocess.run(command, capture_output=True, text=True, check=False,
                                           timeout=servers.PATIENCE_S * 4)
                    self.assertEqual((ended.returncode, ended.stdout), (2, ""))
                    self.assertEqual(ended.stderr.count("\n"), 1)
                    self.assertIn(f"{url}", ended.stderr)
                    self.assertIn("no connection was established", ended.stderr)
                    self.assertIn(reason, ended.stderr)
            report = run(["-c", 5, "-d", "1h", cases[0][0]], engine, 2)
            self.assertEqual([note["name"] for note in report["notes"]][:1], ["unreachable"])
        sweep = subprocess.run([WSLOAD, "sweep", "-c", "1,2", "-d", "1h", cases[0][0]], capture_output=True, text=True,
                               check=False, timeout=servers.PATIENCE_S * 4)
        self.assertEqual((sweep.returncode, sweep.stdout), (2, ""))
        self.assertIn("connection refused", sweep.stderr)

    def test_server_that_starts_later(self):
        port, = servers.free_ports(1)
        command = [WSLOAD, "--json", "--quiet", *servers.PATIENT, "-c", "2", "-n", "10",
                   "--wait-for-server", f"{servers.PATIENCE_S}s", f"http://127.0.0.1:{port}"]
        load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(0.3)  # it usually tries once or twice before there is a server
        server = servers.Recorder(port)
        self.addCleanup(server.stop)
        out, _ = load.communicate(timeout=servers.PATIENCE_S * 2)
        self.assertEqual(load.returncode, 0)
        self.assertEqual(json.loads(out)["requests"]["answered"], 10)
        self.assertEqual(len(server.seen), 10)
        server.stop()
        self.assertIn("no server within 1.00 ms (--wait-for-server): Connection refused",
                      run(["--wait-for-server", "1ms", f"http://127.0.0.1:{port}"], status=2))

    def test_ports_run_out(self):
        first = servers.free_ports(1)[0]
        last = min(first + 9, 65535)
        for engine in ENGINES:
            with self.subTest(engine=engine):
                report = run(["-c", 20, "-n", 100, "--local-port", f"{first}-{last}",
                              self.origin.url], engine, None)
                self.assertLessEqual(report["connections"]["opened"], 10)
                self.assertEqual(report["errors"]["local"], 100 - report["requests"]["answered"])
                self.assertIn("in use", report["error_texts"]["local"])
                notes = [note["name"] for note in report["notes"]]
                self.assertIn("local_limits", notes)
                missing = report["connections"]["up"] < report["connections"]["used"]
                self.assertEqual("connections_missing" in notes, missing)
                if engine == "raw":  # libcurl may share a connection among clients
                    self.assertTrue(missing)

    def test_descriptors_run_out(self):
        """Reported before the run, with advice."""
        ended = subprocess.run(f"ulimit -n 64; exec '{WSLOAD}' -c 500 {self.origin.url}", shell=True,
                               capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("500 connections exceed the limit", ended.stderr)
        self.assertEqual(self.origin.seen, [])

    def test_closed_descriptors(self):
        """A connection never takes the number of a closed standard descriptor."""
        for closed, status in ((">&-", 1), ("2>&-", 0), ("<&-", 0), ("<&- 2>&-", 0)):
            for engine in ENGINES:
                with self.subTest(engine=engine, closed=closed):
                    self.origin.seen.clear()
                    ended = subprocess.run(
                        f"exec '{WSLOAD}' -v {' '.join(servers.PATIENT)} --engine {engine} -c 2 -n 10 {self.origin.url} {closed}",
                        shell=True, capture_output=True, text=True, check=False)
                    self.assertEqual(ended.returncode, status)
                    self.assertEqual([row[:3] for row in self.origin.seen], [("GET", "/", 0)] * 10)

    def test_full_disk(self):
        for words in (["-o", "/dev/full"], ["-o", "/dev/full", "--format", "html"]):
            ended = subprocess.run([WSLOAD, *servers.PATIENT, "-n", "5", *words, self.origin.url],
                                   capture_output=True, text=True, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("No space left on device", ended.stderr)

    def test_first_request_is_told(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                ended = subprocess.run([WSLOAD, "-v", *servers.PATIENT, "--engine", engine, "-c", "2", "-n", "10",
                                        f"{self.origin.url}/told"],
                                       capture_output=True, text=True, check=True)
                lines = ended.stderr.splitlines()
                self.assertEqual(lines.count("> GET /told HTTP/1.1"), 1)
                self.assertEqual(lines.count("< HTTP/1.1 200 OK"), 1)
                self.assertTrue(any(line.startswith("* Connected to 127.0.0.1") for line in lines))
                self.assertNotIn("> GET", ended.stdout)


def load_tests(_loader, tests, _pattern):
    """The part of the tests that TEST_PART selects, as in part.c."""
    part, parts = map(int, os.environ.get("TEST_PART", "1/1").split("/"))
    return unittest.TestSuite([test for suite in tests for test in suite][part - 1::parts])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    WSLOAD = sys.argv.pop(1)
    unittest.main(verbosity=2)
