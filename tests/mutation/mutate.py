#!/usr/bin/env python3
"""Breaks the daemon in small ways, one at a time, and reports which of them the tests do not notice.

    mutate.py [--count 60] [--seed S] [--first 1] [--jobs 32]

A mutant is one changed line of daemon/ or common/: an inverted condition, a changed comparison, an off-by-one, a
removed statement, an inverted result. The directory is chosen first, so that each has the same number of mutants.
Mutants that do not compile, or whose object file is the same, do not count. The test of the module runs first, then
the integration tests of its directory (RELATED), then all others; each stage builds only what its tests need. The
first failure ends the run, if the test fails again. The tree is build/mutation/tree, a copy of the sources of the
last commit, in which all tests must pass. --seed S --first N continues a run with the same seed that was ended before
mutant N. Exit status 0, 1 (a mutant survived) or 2 (usage error).
"""

import argparse
import collections
import contextlib
import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

TREE, BUILD = "build/mutation/tree", "build/mutation/build"
SECONDS_FOR_A_TEST, SECONDS_FOR_A_UNIT_TEST = 120, 30
TRIES = 3
PATIENCE_S = 20  # the C tests wait so long for an event, instead of 90: many mutants make them wait in vain
LEFT_OUT = r"wsload|screens\.|completions|man\.|install|container|systemd|clients"  # no tests of the daemon
RELATED = {  # the integration tests that notice most of the mutants of a directory, the cheap ones
    "common": "http_responses|access_log|commands|control|corrupt_segment|segment",
    "daemon": r"lifecycle|stop\.|control",
    "daemon/base": "http_responses|supervision|log_targets|arithmetic_work",
    "daemon/config": "control|commands|reload|http_responses",
    "daemon/sandbox": "sandbox|http_responses",
    "daemon/tls": "tls",
    "daemon/keys": "tls",
    "daemon/acme": r"acme\.",
    "daemon/metrics": "metrics",
    "daemon/http": "http_responses|rfc|http_files|http_variants",
    "daemon/content": "http_files|http_variants|files_policy",
    "daemon/transaction": "http_responses|admission|http_files|arithmetic_work",
    "daemon/connection": "http_responses|http_connections|balance|tls",
    "daemon/http1": "http_responses|rfc|http_connections",
    "daemon/http2": "http2|rfc",
    "daemon/worker": "http_responses|resize|reload|balance|arithmetic_work",
    "daemon/logger": "access_log|log_targets|log_stalls",
    "daemon/master": r"supervision|lifecycle|stop\.|reload|resize|upgrade|life_",
    "daemon/control": "control|commands|reload",
}

FAILED = re.compile(r"Test +#\d+: (\S+) .*\*\*\*(?!Skipped|Not Run)")  # a line of ctest
STATEMENT = re.compile(r"^\s+(?!return\b|break\b|case\b|goto\b|continue\b)"
                       r"[a-z_][\w>.\-\[\]]*(\(.*\)|\s*[-+|&]?=[^=].*|\+\+|--);$")
CHANGES = (
    ("inverted condition", re.compile(r"(?<=if \()([^()]*(?:\([^()]*\)[^()]*)*)(?=\)( \{)?$)"),
     lambda found: f"!({found})"),
    ("changed comparison", re.compile(r"(?<= )(<=|>=|<|>|==|!=)(?= )"),
     lambda found: {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}[found]),
    ("off by one", re.compile(r" [-+] 1(?=[;,)\]])"), lambda found: ""),
    ("changed operator", re.compile(r"(?<= )(&&|\|\|)(?= )"), lambda found: "||" if found == "&&" else "&&"),
    ("inverted result", re.compile(r"(?<=return )(true|false)(?=;)"),
     lambda found: "false" if found == "true" else "true"),
)

Mutant = collections.namedtuple("Mutant", "path number what before after")


def run(*command):
    """Runs COMMAND in a session of its own. If this program is ended, SIGTERM lets ctest end its tests."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def processes_of_build():
    """Those whose program is in the build directory."""
    below = os.path.abspath(BUILD) + "/"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe").startswith(below):
                yield int(pid)


def end_servers():
    """Ends the servers of tests that ctest has killed, and removes their segments."""
    for pid in list(processes_of_build()):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                segments = set(re.findall(r"/dev/shm/webserverd\.[\w.-]+", file.read()))
            os.kill(pid, signal.SIGKILL)
            for segment in segments:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(segment)


def end(signal_number, _frame):
    raise SystemExit(128 + signal_number)


def say(text):
    print("mutate:", text, flush=True)


def mutants_of_line(path, number, line):
    for what, pattern, change in CHANGES:
        for found in pattern.finditer(line):
            after = line[:found.start()] + change(found.group(0)) + line[found.end():]
            yield Mutant(path, number, what, line, after)
    if STATEMENT.match(line):
        what = "dropped lock" if "lock(" in line else "removed statement"
        yield Mutant(path, number, what, line, re.match(r"\s*", line).group(0) + ";")


def mutants_of_file(path):
    with open(f"{TREE}/{path}", encoding="utf-8") as file:
        lines = file.read().split("\n")
    found, in_function = [], False
    for number, line in enumerate(lines):
        if line in ("{", "}"):
            in_function = line == "{"
        elif in_function and not re.match(r"\s*(/?\*|//|#)", line):
            found += mutants_of_line(path, number, line)
    return found


def write_line(mutant, line):
    path = f"{TREE}/{mutant.path}"
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    lines[mutant.number] = line
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def prepare():
    """Copies the sources of the last commit and builds everything: ctest names only commands that exist."""
    shutil.rmtree(TREE, ignore_errors=True)
    os.makedirs(TREE)
    with subprocess.Popen(["git", "archive", "HEAD"], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", TREE, "-m"], stdin=archive.stdout, check=True)
    for command in (("cmake", "-S", TREE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DHARDENING=OFF",
                     f"-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG -DPATIENCE_S={PATIENCE_S}"),
                    ("cmake", "--build", BUILD)):
        done = run(*command)
        if done.returncode != 0:
            raise SystemExit(done.stdout[-3000:])
    limit_tests()


def limit_tests():
    """The option --timeout of ctest is only for tests without a limit of their own."""
    for path in glob.glob(f"{BUILD}/**/CTestTestfile.cmake", recursive=True):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            seconds = SECONDS_FOR_A_UNIT_TEST if "/tests/unit/" in path else SECONDS_FOR_A_TEST
            file.write(re.sub(r'(?<=TIMEOUT ")\d+', str(seconds), text))


def objects():
    """Source, relative to the tree: object file."""
    with open(f"{BUILD}/compile_commands.json", encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        path = re.search(r" -o (\S+)", entry["command"]).group(1)
        if not path.startswith("tests/"):
            found[os.path.relpath(entry["file"], os.path.abspath(TREE))] = path
    return found


def code(path):
    """A hash of the instructions and data, without debug information, whose lines change."""
    stripped = path + ".stripped"
    subprocess.run(["objcopy", "--strip-debug", path, stripped], check=True)
    with open(stripped, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    os.remove(stripped)
    return digest


def programs_of(selection):
    """The build targets that the selected tests run."""
    listed = run("ctest", "--test-dir", BUILD, "--show-only=json-v1", *selection).stdout
    tests = json.loads(listed[listed.index("{"):])["tests"]
    below = os.path.abspath(BUILD) + "/"
    return sorted({word[len(below):] for test in tests for word in test.get("command", [])[:1]
                   if word.startswith(below)})


def ctest(jobs, *selection):
    """Returns the name of the first test that fails, or None. Ends the others then: the mutant may make them hang."""
    with subprocess.Popen(("ctest", "--test-dir", BUILD, f"-j{jobs}", *selection), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as process:
        try:
            failed = next((found.group(1) for line in process.stdout if (found := FAILED.search(line))), None)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
    end_servers()
    return failed


def failing(jobs, *selection):
    """The name of a test that fails, also by itself, or None. After a failure that was not repeated, all run again."""
    for _ in range(TRIES):
        name = ctest(jobs, *selection)
        if not name or ctest(jobs, "-R", f"^{re.escape(name)}$"):
            return name
    return None


def check_tests(jobs):
    """A test that fails without a mutant would notice every mutant."""
    name = failing(jobs, "-E", LEFT_OUT)
    if name:
        raise SystemExit(f"mutate: {name} fails without a mutant")


def stages(mutant):
    """Selections of tests, those that notice the mutant most likely and most cheaply first."""
    directory, name = os.path.split(mutant.path)
    program, module = directory.split("/")[0], os.path.splitext(name)[0]
    yield ["-R", rf"^unit\.{program}\.{module}$"]
    yield ["-R", rf"^integration\.({module}|{RELATED[directory]})", "-E", LEFT_OUT]
    yield ["-L", "unit|fuzz", "-E", LEFT_OUT]
    yield ["-LE", "unit|fuzz", "-E", rf"{LEFT_OUT}|^integration\.({module}|{RELATED[directory]})"]


def noticed_by(mutant, jobs):
    """The name of the test that notices the mutant, or None."""
    for selection in stages(mutant):
        if run("cmake", "--build", BUILD, "--target", "programs", *programs_of(selection)).returncode != 0:
            raise SystemExit(f"the tests {' '.join(selection)} cannot be built")
        name = failing(jobs, *selection)
        if name:
            return name
    return None


@contextlib.contextmanager
def mutated(mutant, object_file):
    """Yields True if the mutant counts: it compiles, and changes the object file."""
    before = code(f"{BUILD}/{object_file}")
    write_line(mutant, mutant.after)
    try:
        yield run("cmake", "--build", BUILD, "--target", object_file).returncode == 0 and code(f"{BUILD}/{object_file}") != before
    finally:
        write_line(mutant, mutant.before)
        run("cmake", "--build", BUILD, "--target", object_file)


def choose(mutants, numbers):
    """A random mutant of a random file of a random directory; removed, so that none comes twice."""
    directory = numbers.choice(sorted({os.path.dirname(path) for path in mutants}))
    path = numbers.choice(sorted(path for path in mutants if os.path.dirname(path) == directory))
    what = numbers.choice(sorted({mutant.what for mutant in mutants[path]}))
    mutant = numbers.choice([mutant for mutant in mutants[path] if mutant.what == what])
    mutants[path].remove(mutant)
    if not mutants[path]:
        del mutants[path]
    return mutant


def try_mutants(options):
    """Returns the number of those that were tried, and a list of those that no test notices."""
    numbers = random.Random(options.seed)
    say(f"seed {options.seed}")
    prepare()
    check_tests(options.jobs)
    files = objects()
    mutants = {path: found for path in sorted(files) if path.startswith(("daemon/", "common/"))
               if (found := mutants_of_file(path))}
    survivors, number, tried = [], 0, 0
    while number < options.count and mutants:
        mutant = choose(mutants, numbers)
        with mutated(mutant, files[mutant.path]) as counts:
            number += counts
            if not counts or number < options.first:
                continue
            name = noticed_by(mutant, options.jobs)
        tried += 1
        where = f"{mutant.path}:{mutant.number + 1}: {mutant.what}: {mutant.before.strip()}  ->  {mutant.after.strip()}"
        say(f"{number}/{options.count} {'noticed by ' + name if name else 'SURVIVED'}: {where}")
        if not name:
            survivors.append(where)
    return tried, survivors


def main():
    parser = argparse.ArgumentParser(description="Breaks the daemon in small ways; reports what no test notices.")
    parser.add_argument("--count", type=int, default=60, help="number of mutants (default 60)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="default random")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="only from the N-th mutant on (default 1)")
    parser.add_argument("--jobs", type=int, default=32, help="tests at a time (default 32)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end)
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)  # the workers run as another user
        os.environ["TMPDIR"] = directory
        try:
            tried, survivors = try_mutants(options)
        finally:
            end_servers()
    say(f"{tried - len(survivors)} of {tried} mutants noticed ({100 * (tried - len(survivors)) / max(tried, 1):.0f} %)")
    for where in survivors:
        say("SURVIVED: " + where)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
