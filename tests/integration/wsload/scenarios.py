#!/usr/bin/env python3
"""Tests the scenarios of wsload before an application with sessions, which counts what it is asked for.

    scenarios.py WSLOAD [UNITTEST_ARGUMENT...]

With both engines over HTTP/1.1 and, if there are nginx and openssl, which translate for the application, HTTP/2.
"""
import collections
import csv
import itertools
import json
import subprocess
import sys
import threading
import unittest
import urllib.parse

import lists
import servers

WSLOAD = None


class Shop(servers.HttpServer):
    """POST /login answers with a cookie and, as JSON, a token; all else needs both of the same session.

    POST /orders redirects to /orders/NUMBER, whose page has a form with a secret, which /pay needs. .count has the
    number of good requests by step, .refused those without the right cookie, token or secret, and logins with a cookie.
    """

    def answer(self, method, target, fields, body):
        path, _, query = target.partition("?")
        step = f"{method} {'/orders/N' if path.startswith('/orders/') else path}"
        with self.lock:
            self.seen.append((method, target, body))
            if path == "/page":
                self.count[step] += 1
                return 200, b"page", ()
            if path == "/login":
                return self.login(step, fields, json.loads(body))
            if not self.is_known(fields):
                self.refused += 1
                return 403, b"", ()
            if path == "/orders":
                self.count[step] += 1
                return 303, b"", [f"Location: /orders/{next(self.numbers)}?from=shop"]
            if path.startswith("/orders/"):
                self.count[step] += 1
                number = path[len("/orders/"):].encode()
                return 200, b"<form><input name=\"secret\" value=\"s/%s&\"></form>" % number, ()
            return self.pay(step, urllib.parse.parse_qs(query))

    def login(self, step, fields, names):
        number = next(self.numbers)
        self.count[step] += 1
        self.users[names["user"]] += 1
        if self.broken_logins and number % self.broken_logins == 0:
            return 200, b'{"user": {}}', ()
        self.refused += "cookie" in fields  # of another user
        self.sessions[str(number)] = f"t{number}"
        return 200, json.dumps({"user": {"tokens": ["old", f"t{number}"]}}).encode(), [
            f"Set-Cookie: session={number}; Path=/", "Content-Type: application/json"]

    def is_known(self, fields):
        session = fields.get("cookie", "").partition("session=")[2]
        token = fields.get("authorization", "").removeprefix("Bearer ")
        return token != "" and self.sessions.get(session) == token

    def pay(self, step, query):
        good = query["secret"][0] == f"s/{query['order'][0]}&"
        self.count[step if good else "bad secret"] += 1
        return 200 if good else 403, b"", ()

    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.reset()
        super().__init__()

    def reset(self, broken_logins=0):
        self.seen, self.count, self.users, self.sessions = [], collections.Counter(), collections.Counter(), {}
        self.refused, self.broken_logins = 0, broken_logins


BUY = """# a user who buys
scenario buy 3
POST /login
  field Content-Type: application/json
  body {"user": "{{name}}"}
  take token json user.tokens.1
  take session cookie session
POST /orders
  field Authorization: Bearer {{token}}
  body count=1
  expect 303
  take order field Location match "/orders/([0-9]+)[?]"
  take next field Location
GET {{{next}}}
  field authorization: Bearer {{token}}
  take secret body between "value=\\"" "\\""
  think 1ms-3ms
GET /pay?order={{order}}&secret={{secret}}&session={{session}}
  field Authorization: Bearer {{token}}

scenario look
GET /page
GET /page
"""


def rows_of(report):
    """(scenario, step, begun, passed, failed, number of times) of each scenario and step of a JSON report."""
    rows = []
    for one in report["scenarios"]:
        rows.append((one["name"], "", one["begun"], one["completed"], one["failed"], one["duration_us"]["count"]))
        rows += [(one["name"], step["name"], step["begun"], step["passed"],
                  step["begun"] - step["passed"] - step["unanswered"], step["latency_us"]["count"])
                 for step in one["steps"]]
    return rows


class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kept = lists.tempfile.TemporaryDirectory(prefix="wsload-test.")
        cls.addClassCleanup(kept.cleanup)
        cls.directory = lists.pathlib.Path(kept.name)
        cls.shop = Shop()
        cls.addClassCleanup(cls.shop.stop)
        cls.ways = [("curl", cls.shop.url, ()), ("raw", cls.shop.url, ())]
        if servers.NGINX and servers.OPENSSL:
            nginx = lists.Nginx(cls.directory, cls.shop.port)
            cls.addClassCleanup(nginx.stop)
            h2c, h2 = (nginx.port[name] for name in ("h2c", "h2"))
            cls.ways += [("raw", f"http://127.0.0.1:{h2c}", ("--http2", "--streams", "4")),
                         ("curl", f"https://127.0.0.1:{h2}", ("-k", "--http2", "--streams", "4"))]

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def run_wsload(self, way, words, status=0):
        engine, url, more = way
        ended = subprocess.run([WSLOAD, "--json", "--quiet", "--engine", engine, *servers.PATIENT, *more, *map(str, words), url],
                               capture_output=True, text=True, check=False, timeout=servers.PATIENCE_S * 4)
        self.assertEqual(ended.returncode, status, ended.stderr + ended.stdout[:4000])
        return json.loads(ended.stdout)

    def fail_to_start(self, words):
        ended = subprocess.run([WSLOAD, *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        return ended.stderr

    def files(self, text=BUY):
        return (self.write("shop.scenarios", text),
                self.write("users.csv", "name\n" + "".join(f"user {i}\n" for i in range(10))))

    def check_rows(self, report, counts):
        """Each step has begun and passed as often as COUNTS says, and nothing failed."""
        found = {}
        for scenario in report["scenarios"]:
            self.assertEqual(scenario["completed"], scenario["begun"])
            self.assertEqual(scenario["duration_us"]["count"], scenario["begun"])
            for step in scenario["steps"]:
                self.assertEqual((step["passed"], step["latency_us"]["count"]), (step["begun"], step["begun"]))
                found[step["name"]] = found.get(step["name"], 0) + step["begun"]
        self.assertEqual(found, counts)
        self.assertEqual(report["requests"]["begun"], sum(counts.values()))
        self.assertEqual(report["requests"]["answered"], sum(counts.values()))

    def test_values_and_cookies_of_each_user_arrive(self):
        """-n scenarios in exact proportion, closed and open loop; the application counts the same steps."""
        scenarios, users = self.files()
        for way in self.ways:
            for loop in ([], ["-r", 500]):
                with self.subTest(way=way, loop=loop):
                    self.shop.reset()
                    report = self.run_wsload(way, ["-c", 6, "-t", 2, "-n", 80, "--scenarios", scenarios, "--csv",
                                                   users, *loop])
                    self.check_rows(report, {"POST /login": 60, "POST /orders": 60, "GET {{{next}}}": 60,
                                             "GET /pay": 60,
                                             "GET /page": 40})
                    self.assertEqual(self.shop.refused, 0)
                    self.assertEqual(self.shop.count, {"POST /login": 60, "POST /orders": 60, "GET /orders/N": 60,
                                                       "GET /pay": 60, "GET /page": 40})
                    self.assertEqual([(one["name"], one["weight"], one["begun"]) for one in report["scenarios"]],
                                     [("buy", 3, 60), ("look", 1, 20)])

    def test_each_row_is_used_once(self):
        scenarios, users = self.files("scenario one\nPOST /login\nbody {\"user\": \"{{name}}\"}\n")
        for way in self.ways:
            with self.subTest(way=way):
                self.shop.reset()
                self.run_wsload(way, ["-c", 3, "-t", 1, "--scenarios", scenarios, "--csv", users, "--rows", "once"])
                self.assertEqual(self.shop.users, {f"user {i}": 1 for i in range(10)})

    def test_missing_value_ends_the_scenario(self):
        """Every third login has no token: the later steps are skipped, and the report names the value."""
        scenarios, users = self.files(BUY.partition("scenario look")[0])
        for way in self.ways:
            with self.subTest(way=way):
                self.shop.reset(broken_logins=3)
                report = self.run_wsload(way, ["-c", 4, "-t", 2, "-n", 30, "--scenarios", scenarios, "--csv", users],
                                         status=3)
                scenario = report["scenarios"][0]
                login, orders, *_ = scenario["steps"]
                bad = 30 - len(self.shop.sessions)
                self.assertGreater(bad, 0)
                self.assertEqual(report["requests"]["bad_extractions"], bad)
                self.assertEqual((scenario["begun"], scenario["completed"], scenario["failed"]), (30, 30 - bad, bad))
                self.assertEqual((login["begun"], login["bad_extractions"], login["failed"]), (30, bad, 0))
                self.assertEqual(login["extraction_error"],
                                 "no value for 'token': no JSON member 'user.tokens.1' in the body")
                self.assertEqual((orders["begun"], orders["extraction_error"]), (30 - bad, None))
                self.assertEqual(self.shop.count["POST /orders"], 30 - bad)
                self.assertEqual(self.shop.refused, 0)

    def test_unexpected_status_ends_the_scenario(self):
        scenarios = self.write("strict", "scenario a\nGET /page\nexpect 204,205\nGET /page\n")
        for way in self.ways:
            with self.subTest(way=way):
                self.shop.reset()
                report = self.run_wsload(way, ["-c", 1, "-n", 5, "--scenarios", scenarios], status=3)
                self.assertEqual(self.shop.count, {"GET /page": 5})
                self.assertEqual(report["requests"]["bad_statuses"], 5)
                self.assertEqual([step["begun"] for step in report["scenarios"][0]["steps"]], [5, 0])

    def test_value_that_leads_to_another_server_is_an_error(self):
        scenarios, users = self.files("scenario a\nGET /page?{{name}}\ntake host body\nGET http://{{{host}}}.test/\n")
        for way in self.ways:
            with self.subTest(way=way):
                self.shop.reset()
                report = self.run_wsload(way, ["-c", 1, "-n", 6, "--scenarios", scenarios, "--csv", users],
                                         status=3)
                second = report["scenarios"][0]["steps"][1]
                self.assertEqual((second["begun"], second["bad_extractions"]), (6, 6))
                self.assertIn("'http://page.test/' is on another server", second["extraction_error"])
                self.assertEqual(report["requests"]["begun"], 12)
                self.assertEqual(sorted(path for _, path, _ in self.shop.seen),
                                 [f"/page?user%20{i}" for i in range(6)])

    def test_run_that_ends_in_think_time_leaves_scenarios_unfinished(self):
        scenarios = self.write("slow", "scenario a\nGET /page\nthink 1h\nGET /page\n")
        for way in self.ways[:2]:
            with self.subTest(way=way):
                self.shop.reset()
                report = self.run_wsload(way, ["-c", 3, "-d", "1s", "--grace", "60s", "--scenarios", scenarios])
                one = report["scenarios"][0]
                self.assertGreater(one["begun"], 0)
                self.assertEqual((one["unfinished"], one["completed"]), (one["begun"], 0))
                self.assertEqual(self.shop.count, {"GET /page": one["begun"]})

    def test_text_report_has_scenarios_and_steps(self):
        scenarios, users = self.files()
        ended = subprocess.run([WSLOAD, "--quiet", *servers.PATIENT, "-c", "2", "-n", "8", "--scenarios", scenarios, "--csv", users,
                                self.ways[0][1]], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, r"(?m)^ *buy +6 +6 +0 ")
        self.assertRegex(ended.stdout, r"(?m)^ *GET /page +2 +2 +0 ")

    def merge(self, files, form):
        ended = subprocess.run([WSLOAD, "merge", "--json" if form == "json" else f"--format={form}", *map(str, files)], capture_output=True, text=True,
                               check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def test_formats_of_a_merged_report_have_the_sums_of_scenarios_and_steps(self):
        scenarios, users = self.files()
        self.shop.reset(broken_logins=3)
        files, parts = [], []
        for name in ("a.json", "b.json"):
            report = self.run_wsload(self.ways[0], ["-c", 2, "-n", 16, "--scenarios", scenarios, "--csv", users,
                                                    "--max-errors", "100%"])
            files.append(self.write(name, json.dumps(report)))
            parts.append(rows_of(report))
        sums = [(*one[:2], *(a + b for a, b in zip(one[2:], other[2:]))) for one, other in zip(*parts)]
        failed = sum(row[4] for row in sums if row[1] == "POST /login")
        self.assertGreater(failed, 0)
        self.assertEqual(rows_of(json.loads(self.merge(files, "json"))), sums)

        table = list(csv.DictReader(self.merge(files, "csv").splitlines()))
        self.assertEqual(table[-1]["row"], "total")
        self.assertEqual([(row["scenario"], row["step"], int(row["begun"]), int(row["answered"]), int(row["bad"]))
                          for row in table if row["row"] in ("scenario", "step")],
                         [(name, step, begun, answered, bad) for name, step, begun, _, bad, answered in sums])

    def test_invalid_use_is_an_error_before_the_run(self):
        broken = self.write("broken", "scenario a\nGET /{{id}}\n")
        self.assertIn(f"{broken}:2: no step before takes a value for {{{{id}}}}",
                      self.fail_to_start(["--scenarios", broken, "http://127.0.0.1:1/"]))
        good = self.write("good", "scenario a\nGET /\ntake x body\n")
        for words, text in ((["-m", "GET"], "conflicts with -m"), (["--order", "each"], "conflicts with --order"),
                            (["-f", good], "--scenarios conflicts with -f: only one of "), (["-H", "Cookie: a=b"], "conflicts with -H"),
                            (["--gzip"], f"{good}:2: --gzip conflicts with a value from the body")):
            self.assertIn(text, self.fail_to_start(["--scenarios", good, *words, "http://127.0.0.1:1/"]))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    WSLOAD = sys.argv.pop(1)
    unittest.main(verbosity=2)
