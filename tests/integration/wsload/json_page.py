#!/usr/bin/env python3
"""Compares wsload-json(5) and wsload.schema.json with actual reports: each member of a report must be in the page, and the
reverse, and each report must fit the schema.

    json_page.py PROGRAMS PAGE [UNITTEST_ARGUMENT...]
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import protocols
import servers

PAGE = None
SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[3] / "loadgen" / "wsload.schema.json").read_text())
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number",
         type(None): "null"}
QUICK = ("-c", "4", "-n", "400", "-t", "2")
HANDSHAKES = ("-c", "4", "-n", "40", "-t", "2")  # each request has one

# Each kind of run.
KINDS = (
    QUICK,
    ("-r", "200", "-d", "3s", "-w", "200ms", "-c", "4"),
    ("--stages", "2s:100,1s:200", "-c", "4"),
    (*QUICK, "--no-keepalive"),
    (*QUICK, "--repeat", "2"),
    (*QUICK, "--idle", "2"),
    (*QUICK, "-p", "50,99.99", "--fail-if", "p50>3600s", "--max-errors", "1%"),
)
# Sections of the page that a run uses.
SECTIONS = ("Run", "Times", "Histogram", "Round", "Interval", "Finding", "Hostile", "Environment")


class Misfit(Exception):
    """A value does not fit the schema."""


def fit(rule, value, name="report"):
    """Raises Misfit unless VALUE fits RULE. Supports the keywords of the schema, which allows only the members that it names."""
    if "$ref" in rule:
        fit(SCHEMA["$defs"][rule["$ref"].rpartition("/")[2]], value, name)
        return
    unknown = rule.keys() - {"title", "description", "type", "properties", "required", "patternProperties",
                             "additionalProperties", "items", "enum", "minimum"}
    assert not unknown, unknown
    types = {rule["type"]} if isinstance(rule["type"], str) else set(rule["type"])
    kind = TYPES[type(value)]
    if kind not in types and not (kind == "integer" and "number" in types):
        raise Misfit(f"{name} is {kind}")
    if value not in rule.get("enum", [value]) or (kind in ("integer", "number") and value < rule.get("minimum", value)):
        raise Misfit(f"{name} is {value}")
    for number, item in enumerate(value if kind == "array" else ()):
        fit(rule["items"], item, f"{name}[{number}]")
    if kind == "object":
        missing = set(rule.get("required", ())) - value.keys()
        if missing:
            raise Misfit(f"{name} has no {missing}")
        for member, its in value.items():
            rules = [one for pattern, one in rule.get("patternProperties", {}).items() if re.search(pattern, member)]
            rules = [rule["properties"][member]] if member in rule.get("properties", {}) else rules
            if not rules:
                raise Misfit(f"{name} has the member {member}")
            fit(rules[0], its, f"{name}.{member}")


class Member:
    def __init__(self, pattern, types):
        self.pattern = re.compile(pattern)
        self.types = set(types.split(" of ")[0].split(" or ")) | (
            {"null"} if types.endswith("or null") else set())
        self.section = None  # that describes the object
        self.seen = False

    def accepts(self, value):
        name = TYPES[type(value)]
        return name in self.types or (name == "integer" and "number" in self.types)


def read_page():
    """The members of each section of the page."""
    sections, section, member = {}, None, None
    for line in PAGE.read_text().splitlines():
        if line.startswith((".Ss ", ".Sh ")):
            section, member = sections.setdefault(line[4:], []), None
        elif line.startswith(".It Cm "):
            name, types = line[len(".It Cm "):].split(" Pq ")
            name, _, variable = name.partition(" Ns Ar ")
            member = Member(re.escape(name) + (".+" if variable else ""), types)
            section.append(member)
        elif line.startswith(".Sx ") and member is not None:
            member.section = line[4:].rstrip(" .")
    return sections


class Checker:
    def __init__(self):
        self.sections = read_page()
        self.wrong = set()

    def check_report(self, section, report):
        fit(SCHEMA["$defs"][section.lower()], report)
        self.check(section, report)

    def check(self, section, value, path=""):
        """Checks the members of the object VALUE; PATH is the beginning of their names."""
        for name, member in value.items():
            self.check_member(section, path + name, member)

    def check_member(self, section, path, value):
        # A literal name comes before a variable one.
        found = [one for one in self.sections[section] if one.pattern.fullmatch(path)]
        if not found or not found[0].accepts(value):
            self.wrong.add(f"{section}: {path} = {str(value)[:60]}")
            return
        found[0].seen = True
        inner, below = found[0].section or section, "" if found[0].section else path
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                mark = "[]." if isinstance(value, list) else "."
                self.check(inner, item, below + mark if below else "")

    def unseen(self):
        return [f"{name}: {one.pattern.pattern}" for name in SECTIONS for one in self.sections[name]
                if not one.seen]


class JsonPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="wsload-test.")
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        cls.server = protocols.Server(directory.name)
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.checker = Checker()

    def report(self, way, *words, url=None):
        process = protocols.start(way, url or self.server.url(way[1]), "--grace", "60s", *words)
        text, _ = process.communicate(timeout=servers.PATIENCE_S * 4)
        report = json.loads(text)
        self.assertEqual(report["schema"], 1)
        return report

    def check_runs(self):
        for engine in ("curl", "raw"):
            for words in KINDS:
                self.checker.check_report("Run", self.report((engine, "http", ()), *words))
            self.checker.check_report("Run", self.report((engine, "https", ()), *HANDSHAKES, "--no-keepalive"))
        for way in protocols.WAYS:
            self.checker.check_report("Run", self.report(way, *QUICK))

    def check_errors(self):
        """No listener, and a certificate that is not trusted."""
        (port,) = servers.free_ports(1)
        for engine in ("curl", "raw"):
            way = (engine, "https", ("--cacert", self.directory / "localhost.pem"))
            self.checker.check_report("Run", self.report(way, *HANDSHAKES, url=f"http://127.0.0.1:{port}/"))
            untrusted = subprocess.run(
                [protocols.PROGRAMS / "wsload", "--json", "--quiet", "--engine", engine, *servers.PATIENT, *HANDSHAKES,
                 self.server.url("https")], capture_output=True, text=True, check=False)
            self.checker.check_report("Run", json.loads(untrusted.stdout))

    def check_baseline(self):
        base = self.directory / "base.json"
        for engine in ("curl", "raw"):
            way = (engine, "http", ())
            base.write_text(json.dumps(self.report(way, *QUICK)))
            for condition in ("p50>100000x", "p50>0.00001x"):
                self.checker.check_report("Run", self.report(way, *QUICK, "--baseline", base,
                                                             "--fail-if", condition))

    def check_merged(self):
        names = [self.directory / "a.json", self.directory / "b.json"]
        for name in names:
            name.write_text(json.dumps(self.report(("raw", "http", ()), *QUICK)))
        merged = subprocess.run([protocols.PROGRAMS / "wsload", "merge", "--json", *names],
                                capture_output=True, text=True, check=True)
        self.checker.check_report("Run", json.loads(merged.stdout))

    def check_scenarios(self):
        """Also with a step whose value is missing."""
        file = self.directory / "visit.scenarios"
        file.write_text("scenario visit 2\nGET /\ntake missing field X-Missing\nGET /\n")
        for engine in ("curl", "raw"):
            self.checker.check_report("Run", self.report((engine, "http", ()), *QUICK, "--scenarios", file))

    def test_page_and_reports_have_the_same_members(self):
        self.check_runs()
        self.check_errors()
        self.check_baseline()
        self.check_merged()
        self.check_scenarios()
        self.assertEqual(sorted(self.checker.wrong), [])
        self.assertEqual(self.checker.unseen(), [])

    def test_page_has_the_members_of_a_sweep(self):
        sweep = subprocess.run(
            [protocols.PROGRAMS / "wsload", "sweep", "--json", "--quiet", *servers.PATIENT, "-c", "1,2,3,4,6,8", "-n", "50",
             "--repeat", "2", self.server.url("http")], capture_output=True, text=True, check=True)
        self.checker.check_report("Sweep", json.loads(sweep.stdout))
        self.assertEqual(sorted(self.checker.wrong), [])

    def test_page_has_the_members_of_a_search(self):
        for goal, status, text in (("p99<1us", 99, r"^No rate meets p99<1us: none of \d+ trials "),
                                   ("--connections", 0, "of the highest rate")):
            found = subprocess.run(
                [protocols.PROGRAMS / "wsload", "find", goal, "--json", "--quiet", *servers.PATIENT, "-c", "2", "-d", "30ms",
                 "-w", "0", self.server.url("http")], capture_output=True, text=True, check=False)
            self.assertEqual(found.returncode, status, found.stderr)
            report = json.loads(found.stdout)
            self.checker.check_report("Find", report)
            self.assertRegex(report["answer"]["text"], text)
        self.assertEqual(sorted(self.checker.wrong), [])

    def test_unknown_missing_and_mistyped_members_are_found(self):
        report = self.report(("raw", "http", ()), *QUICK)
        report["surprise"] = 1
        report["plan"]["threads"] = "two"
        report["latency_us"]["q50"] = 1.5
        report["seconds"][0]["begin_s"] = None
        self.checker.check("Run", report)
        self.assertEqual([line.split(" = ")[0] for line in sorted(self.checker.wrong)],
                         ["Run: plan.threads", "Run: seconds[].begin_s", "Run: surprise", "Times: q50"])
        self.assertIn(r"Interval: median", self.checker.unseen())

    def test_schema_requires_each_member_and_its_type(self):
        """Null stands only for what a run may lack; other members are not allowed."""
        report = self.report(("raw", "http", ()), *QUICK)
        rule = SCHEMA["$defs"]["run"]
        fit(rule, report)
        for name in rule["required"]:
            with self.subTest(member=name):
                with self.assertRaises(Misfit):
                    fit(rule, {other: value for other, value in report.items() if other != name})
                if name not in ("server", "due_per_second", "medians", "rounds", "merged", "scenarios"):
                    with self.assertRaises(Misfit):
                        fit(rule, {**report, name: None})
        other = copy.deepcopy(report)
        other["plan"]["surprise"] = True
        with self.assertRaises(Misfit):
            fit(rule, other)


if __name__ == "__main__":
    protocols.PROGRAMS, PAGE = map(pathlib.Path, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=1)
