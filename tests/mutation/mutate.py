#!/usr/bin/env python3
"""Breaks the daemon in small ways, one at a time, and reports which of them the tests do not notice.

    mutate.py [--count 60] [--seed S] [--first 1]

A mutant is one changed line of daemon/ or common/: an inverted condition, a changed comparison, an off-by-one, a
removed statement, an inverted result. The directory is chosen first, so that each has the same number of mutants.
Mutants that do not compile, or whose object file is the same, do not count. The test of the module runs first, then
the integration tests of its directory (RELATED), then all others; each stage builds only what its tests need. The
first failure ends the run, if the test fails again. At the end, the mutants that remain are tried with sanitizers, as
in ./dev test debug, and dropped locks as in ./dev test tsan. The tree is build/mutation/tree, a copy of the sources of
the last commit, in which all tests must pass. --seed S --first N continues a run with the same seed that was ended
before mutant N; only those from N on are tried. Exit status 0, 1 (a mutant survived) or 2 (an error).
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

# The C tests wait PATIENCE_S for an event, instead of 90 s: many mutants make them wait in vain.
Build = collections.namedtuple("Build", "directory options jobs seconds unit_seconds")
TREE = "build/mutation/tree"
RELEASE = Build("build/mutation/release",
                ("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DHARDENING=OFF",
                 "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG -DPATIENCE_S=20"), jobs=32, seconds=120, unit_seconds=30)
DEBUG = Build("build/mutation/debug",
              ("-DCMAKE_BUILD_TYPE=Debug", "-DSANITIZER=address", "-DCMAKE_C_FLAGS_DEBUG=-DPATIENCE_S=40"),
              jobs=24, seconds=400, unit_seconds=100)
TSAN = Build("build/mutation/tsan",
             ("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DSANITIZER=thread",
              "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -DNDEBUG -DPATIENCE_S=40"), jobs=24, seconds=400, unit_seconds=100)
TRIES = 3
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
    "daemon/control": "control|commands",
    "daemon/master": r"control|commands|supervision|lifecycle|stop\.|reload|resize|upgrade|life_",
}

FAILED = re.compile(r"Test +#\d+: (\S+) .*\*\*\*(?!Skipped|Not Run)")  # a line of ctest
STATEMENT = re.compile(r"^\s+(?!return\b|break\b|case\b|goto\b|continue\b)"
                       r"[a-z_][\w>.\-\[\]]*(\(.*\)|\s*[-+|&]?=[^=].*|\+\+|--);$")
CHANGES = (
    ("inverted condition", re.compile(r"(?<=if \()([^()]*(?:\([^()]*\)[^()]*)*)(?=\)( \{)?$)"),
     lambda found: f"!({found})"),
    ("changed comparison", re.compile(r"(?<= )(<=|>=(?! 0\b)|<(?! 0\b)|>|==|!=)(?= )"),
     lambda found: {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}[found]),
    ("changed comparison", re.compile(r"(?<= )(<|>=)(?= 0\b)"),  # of a result, which is rarely 0
     lambda found: {"<": ">=", ">=": "<"}[found]),
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


def processes_of_builds():
    """Those whose program is in a build directory."""
    below = os.path.dirname(os.path.abspath(TREE)) + "/"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe").startswith(below):
                yield int(pid)


def end_servers():
    """Ends the servers of tests that ctest has killed, and removes their segments."""
    for pid in list(processes_of_builds()):
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


def give_up(why):
    say(why)
    raise SystemExit(2)


def mutants_of_line(path, number, line):
    for what, pattern, change in CHANGES:
        for found in pattern.finditer(line):
            after = line[:found.start()] + change(found.group(0)) + line[found.end():]
            yield Mutant(path, number, what, line, after)
    if STATEMENT.match(line):
        what = "dropped lock" if "mutex_lock(" in line or "mutex_unlock(" in line else "removed statement"
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


def copy_sources():
    shutil.rmtree(TREE, ignore_errors=True)
    os.makedirs(TREE)
    with subprocess.Popen(["git", "archive", "HEAD"], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", TREE, "-m"], stdin=archive.stdout, check=True)


def prepare(build):
    """Builds everything, because ctest names only commands that exist, and runs the tests without a mutant."""
    for command in (("cmake", "-S", TREE, "-B", build.directory, "-G", "Ninja", *build.options),
                    ("cmake", "--build", build.directory)):
        done = run(*command)
        if done.returncode != 0:
            give_up(done.stdout[-3000:])
    limit_tests(build)
    name = failing(build, "-E", LEFT_OUT)
    if name:  # it would notice every mutant
        give_up(f"{name} fails without a mutant in {build.directory}")


def limit_tests(build):
    """The option --timeout of ctest is only for tests without a limit of their own."""
    for path in glob.glob(f"{build.directory}/**/CTestTestfile.cmake", recursive=True):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            seconds = build.unit_seconds if "/tests/unit/" in path else build.seconds
            file.write(re.sub(r'(?<=TIMEOUT ")\d+', str(seconds), text))


def objects():
    """Source, relative to the tree: object file, relative to the build directory."""
    with open(f"{RELEASE.directory}/compile_commands.json", encoding="utf-8") as file:
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


def programs_of(build, selection):
    """The build targets that the selected tests run."""
    listed = run("ctest", "--test-dir", build.directory, "--show-only=json-v1", *selection).stdout
    tests = json.loads(listed[listed.index("{"):])["tests"]
    below = os.path.abspath(build.directory) + "/"
    return sorted({word[len(below):] for test in tests for word in test.get("command", [])[:1]
                   if word.startswith(below)})


def ctest(build, *selection):
    """Returns the name of the first test that fails, or None. Ends the others then: the mutant may make them hang."""
    command = ("ctest", "--test-dir", build.directory, f"-j{build.jobs}", *selection)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            failed = next((found.group(1) for line in process.stdout if (found := FAILED.search(line))), None)
            if not failed and process.wait() != 0:
                give_up(f"'{' '.join(command)}' ended with status {process.returncode}, without a failed test")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
    end_servers()
    return failed


def failing(build, *selection):
    """The name of a test that fails, also by itself, or None. After a failure that was not repeated, all run again."""
    for _ in range(TRIES):
        name = ctest(build, *selection)
        if not name or ctest(build, "-R", f"^{re.escape(name)}$"):
            return name
    return None


def stages(mutant):
    """Selections of tests, those that notice the mutant most likely and most cheaply first."""
    directory, name = os.path.split(mutant.path)
    program, module = directory.split("/")[0], os.path.splitext(name)[0]
    yield ["-R", rf"^unit\.{program}\.{module}$"]
    yield ["-R", rf"^integration\.({module}|{RELATED[directory]})", "-E", LEFT_OUT]
    yield ["-L", "unit|fuzz", "-E", LEFT_OUT]
    yield ["-LE", "unit|fuzz", "-E", rf"{LEFT_OUT}|^integration\.({module}|{RELATED[directory]})"]


def noticed_by(build, mutant):
    """The name of the test that notices the mutant, or None."""
    for selection in stages(mutant):
        made = run("cmake", "--build", build.directory, "--target", "programs", *programs_of(build, selection))
        if made.returncode != 0:
            give_up(f"the tests {' '.join(selection)} cannot be built")
        name = failing(build, *selection)
        if name:
            return name
    return None


@contextlib.contextmanager
def mutated(mutant):
    write_line(mutant, mutant.after)
    try:
        yield
    finally:
        write_line(mutant, mutant.before)


def counts(mutant, object_file):
    """Whether the mutant compiles, and changes the object file. Leaves the object file of the mutant."""
    built = ("cmake", "--build", RELEASE.directory, "--target", object_file)
    run(*built)
    before = code(f"{RELEASE.directory}/{object_file}")
    with mutated(mutant):
        return run(*built).returncode == 0 and code(f"{RELEASE.directory}/{object_file}") != before


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


def describe(mutant):
    return f"{mutant.path}:{mutant.number + 1}: {mutant.what}: {mutant.before.strip()}  ->  {mutant.after.strip()}"


def try_mutants(build, mutants):
    """MUTANTS is a sequence of (label, mutant). Returns their number, and those that no test of BUILD notices."""
    survivors, tried = [], 0
    for tried, (label, mutant) in enumerate(mutants, 1):
        with mutated(mutant):
            name = noticed_by(build, mutant)
        say(f"{label} {'noticed by ' + name if name else 'SURVIVED'}: {describe(mutant)}")
        if not name:
            survivors.append((label, mutant))
    return tried, survivors


def chosen_mutants(options):
    """Yields (label, mutant)."""
    numbers = random.Random(options.seed)
    files = objects()
    mutants = {path: found for path in sorted(files) if path.startswith(("daemon/", "common/"))
               if (found := mutants_of_file(path))}
    number = 0
    while number < options.count and mutants:
        mutant = choose(mutants, numbers)
        if counts(mutant, files[mutant.path]):
            number += 1
            if number >= options.first:
                yield f"{number}/{options.count}", mutant


def try_builds(options):
    """Returns the number of mutants, and those that no test of any build notices."""
    say(f"seed {options.seed}")
    copy_sources()
    prepare(RELEASE)
    tried, survivors = try_mutants(RELEASE, chosen_mutants(options))
    for build, kinds in ((DEBUG, None), (TSAN, {"dropped lock"})):
        candidates = [(label, mutant) for label, mutant in survivors if not kinds or mutant.what in kinds]
        if candidates:
            say(f"{len(candidates)} to try in {build.directory}")
            prepare(build)
            _, remaining = try_mutants(build, candidates)
            survivors = [each for each in survivors if each not in candidates or each in remaining]
    return tried, survivors


def main():
    parser = argparse.ArgumentParser(description="Breaks the daemon in small ways; reports what no test notices.")
    parser.add_argument("--count", type=int, default=60, help="number of mutants (default 60)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="default random")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="only from the N-th mutant on (default 1)")
    options = parser.parse_args()
    if not 1 <= options.first <= options.count:
        parser.error(f"--first {options.first}: not between 1 and --count {options.count}")
    signal.signal(signal.SIGTERM, end)
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)  # the workers run as another user
        os.environ["TMPDIR"] = directory
        try:
            tried, survivors = try_builds(options)
        finally:
            end_servers()
    say(f"{tried - len(survivors)} of {tried} mutants noticed ({100 * (tried - len(survivors)) / max(tried, 1):.0f} %)")
    for label, mutant in survivors:
        say(f"SURVIVED: {label} {describe(mutant)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
