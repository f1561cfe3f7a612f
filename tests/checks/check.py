#!/usr/bin/env python3
"""Finds leaks and races in a loaded server. Any finding is a failure.

    check.py leaks --bin build/memcheck/bin --load build/release/bin/wsload
    check.py races --bin build/tsan/bin --helgrind-bin build/release/bin

leaks: Valgrind's memcheck on master, workers and logger. races: a server built with ThreadSanitizer, and Helgrind
on the unit tests of the queues between threads. First the tool must find the faults of a small faulty program (faulty.c), to
show that it works. Then the check loads and changes a server in both dispatch modes, stops it, reads the reports,
and looks for anything left on the machine. Exit status 0, 1 (findings) or 2 (usage error).
"""

import argparse
import glob
import os
import subprocess
import sys
import tempfile

import findings
import loaded

HERE = os.path.dirname(os.path.abspath(__file__))

MEMCHECK = ["valgrind", "--trace-children=yes", "--child-silent-after-fork=no", "--track-fds=yes",
            "--leak-check=full", "--show-leak-kinds=definite,indirect,possible",
            "--errors-for-leak-kinds=definite,indirect,possible", "--num-callers=30",
            f"--suppressions={HERE}/memcheck.supp", "--log-file=@DIRECTORY@/memcheck.%p"]
HELGRIND = ["valgrind", "--tool=helgrind", f"--suppressions={HERE}/helgrind.supp",
            "--log-file=@DIRECTORY@/helgrind.%p"]
TSAN = {"TSAN_OPTIONS": "log_path=@DIRECTORY@/tsan halt_on_error=0 exitcode=0 history_size=4"}

LEAKS = ("definite", "indirect", "possible", "invalid", "uninitialised", "descriptor")
RACES = ("race",)


def say(text):
    print("check:", text, flush=True)


def under(tool, directory, program, environment=None):
    """Runs PROGRAM (with arguments) under TOOL. Shows its output only if it fails."""
    words = [word.replace("@DIRECTORY@", directory) for word in tool]
    variables = {name: text.replace("@DIRECTORY@", directory) for name, text in (environment or {}).items()}
    done = subprocess.run(words + program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, **variables), check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(program)}: exit status {done.returncode}:\n{done.stdout}")


# Each returns the number of reports (None: processes without findings write none) and the findings. MASTER is the
# pid of the started process.

def memcheck_reports(directory, master=None):
    reports = glob.glob(directory + "/memcheck.*")
    return len(reports), [one for report in reports for one in findings.of_memcheck(
        report, master is not None and not report.endswith(f".{master}"))]


def helgrind_reports(directory, _master=None):
    reports = glob.glob(directory + "/helgrind.*")
    return len(reports), [one for report in reports for one in findings.of_helgrind(report)]


def tsan_reports(directory, _master=None):
    return None, findings.of_tsan(directory)


def prove(faults, tool, program, reports, environment=None):
    """The tool must find each fault of faulty.c, and nothing in the same program without a fault."""
    for fault in ("none",) + faults:
        with tempfile.TemporaryDirectory(prefix="webserverd-check-") as directory:
            under(tool, directory, [program, fault], environment)
            found = bool(reports(directory)[1])
        if found != (fault != "none"):
            raise SystemExit(f"{program} {fault}: the tool {'found a fault' if found else 'found nothing'}")
    say(f"{os.path.basename((tool or ['ThreadSanitizer'])[0])} finds all test faults: {', '.join(faults)}")


def watch(options, dispatch, tool, environment, reports):
    """Runs one server from start to exit. Returns the findings."""
    before = findings.system_v()
    server = loaded.Server(options.bin, tool, environment, dispatch)
    try:
        server.wait_until_ready()
        found = loaded.load_and_change(server, options.load or options.bin + "/wsload", options.seconds)
        metrics = server.control("status")["metrics"]
        found += loaded.not_reached(metrics)
        status = server.stop()
    finally:
        server.end()
    if status != 0:
        found.append(f"the server exited with status {status}")
    count, reported = reports(server.reports, server.process.pid)
    if count is not None and count < 2 + metrics["workers_started"]:
        found.append(f"{count} processes reported; the master, the logger and {metrics['workers_started']} "
                     "workers ran")
    found += reported + findings.left_behind(server, before)
    say(f"dispatch {dispatch}: {metrics['requests']} requests, {metrics['workers_started']} workers, "
        f"{metrics['control_commands']} commands, {len(found)} findings")
    if found:
        say(f"all files are kept in {server.directory}")
    else:
        server.forget()
    return found


def leaks(options):
    prove(LEAKS, MEMCHECK, options.bin + "/faulty", memcheck_reports)
    return [one for dispatch in options.dispatch
            for one in watch(options, dispatch, MEMCHECK, {}, memcheck_reports)]


def helgrind(programs):
    """Runs unit tests under Helgrind. Tables of atomics without locks are left to ThreadSanitizer, which knows atomics."""
    prove(RACES, HELGRIND, programs + "/faulty", helgrind_reports)
    found = []
    for test in ("test_daemon_offload", "test_daemon_mailbox"):
        with tempfile.TemporaryDirectory(prefix="webserverd-check-") as directory:
            under(HELGRIND, directory, [f"{programs}/{test}"])
            count, reported = helgrind_reports(directory)
        say(f"{test} under Helgrind: {len(reported)} findings")
        found += reported if count == 1 else reported + [f"{test}: Helgrind wrote no report"]
    return found


def races(options):
    found = helgrind(options.helgrind_bin)
    prove(RACES, [], options.bin + "/faulty", tsan_reports, TSAN)
    return found + [one for dispatch in options.dispatch
                    for one in watch(options, dispatch, [], TSAN, tsan_reports)]


def main():
    parser = argparse.ArgumentParser(description="Finds leaks and races in a loaded server.")
    parser.add_argument("what", choices=["leaks", "races"])
    parser.add_argument("--bin", required=True, help="directory of the programs")
    parser.add_argument("--load", help="wsload (default that in --bin)")
    parser.add_argument("--helgrind-bin", default="build/release/bin",
                        help="directory of the programs without a sanitizer (default build/release/bin)")
    parser.add_argument("--seconds", type=float, default=20, help="minimum duration of the load (default 20)")
    parser.add_argument("--dispatch", action="append", choices=["kernel", "master"],
                        help="only this dispatch mode (default both)")
    options = parser.parse_args()
    options.dispatch = options.dispatch or ["kernel", "master"]
    found = leaks(options) if options.what == "leaks" else races(options)
    for one in found:
        say("FINDING: " + one)
    say(f"{len(found)} findings" if found else "passed: no findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
