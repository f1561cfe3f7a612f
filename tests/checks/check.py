#!/usr/bin/env python3
"""Leaks and races of a loaded server, each as one command that fails on any finding.

    check.py leaks --bin build/release/bin
    check.py races --bin build/tsan/bin --helgrind-bin build/release/bin

leaks: Valgrind's memcheck follows master, workers and logger. races: a server built with ThreadSanitizer,
and Helgrind on the unit test of the offload queue. Before anything else the tool has to find the faults of
a small program that was made for it (faulty.c): a check that finds nothing there would find nothing at all.
Then the server is loaded in every way and changed meanwhile, with both ways of dispatch; it is stopped, the
reports are read, and nothing may be left on the machine. Exit status 0, 1 (findings) or 2 (wrong use).
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
            "--log-file=@FOLDER@/memcheck.%p"]
HELGRIND = ["valgrind", "--tool=helgrind", f"--suppressions={HERE}/helgrind.supp",
            "--log-file=@FOLDER@/helgrind.%p"]
TSAN = {"TSAN_OPTIONS": "log_path=@FOLDER@/tsan halt_on_error=0 exitcode=0 history_size=4"}

LEAKS = ("definite", "indirect", "possible", "invalid", "uninitialised", "descriptor")
RACES = ("race",)


def say(text):
    print("check:", text, flush=True)


def under(tool, folder, program, environment=None):
    """Runs PROGRAM with its words under TOOL; its output is shown only when it fails."""
    words = [word.replace("@FOLDER@", folder) for word in tool]
    variables = {name: text.replace("@FOLDER@", folder) for name, text in (environment or {}).items()}
    done = subprocess.run(words + program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, **variables), check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(program)}: exit status {done.returncode}:\n{done.stdout}")


# How many processes reported (None: those that have nothing to say don't), and what was found. MASTER is the
# process that was started.

def memcheck_reports(folder, master=None):
    reports = glob.glob(folder + "/memcheck.*")
    return len(reports), [one for report in reports for one in findings.of_memcheck(
        report, master is not None and not report.endswith(f".{master}"))]


def helgrind_reports(folder, _master=None):
    reports = glob.glob(folder + "/helgrind.*")
    return len(reports), [one for report in reports for one in findings.of_helgrind(report)]


def tsan_reports(folder, _master=None):
    return None, findings.of_tsan(folder)


def prove(faults, tool, program, reports, environment=None):
    """Each fault of faulty.c has to be found, and the same program without a fault has to be good."""
    for fault in ("none",) + faults:
        with tempfile.TemporaryDirectory(prefix="webserverd-check-") as folder:
            under(tool, folder, [program, fault], environment)
            found = bool(reports(folder)[1])
        if found != (fault != "none"):
            raise SystemExit(f"{program} {fault}: the tool {'found a fault' if found else 'found nothing'}")
    say(f"{os.path.basename((tool or ['ThreadSanitizer'])[0])} finds what it should: {', '.join(faults)}")


def watch(options, dispatch, tool, environment, reports):
    """One server from start to end, and what was found."""
    before = findings.system_v()
    server = loaded.Server(options.bin, tool, environment, dispatch)
    try:
        server.wait_until_ready()
        found = loaded.load_and_change(server, options.seconds)
        metrics = server.control("status")["metrics"]
        found += loaded.not_reached(metrics)
        status = server.stop()
    finally:
        server.end()
    if status != 0:
        found.append(f"the server ended with status {status}")
    count, reported = reports(server.reports, server.process.pid)
    if count is not None and count < 2 + metrics["workers_started"]:
        found.append(f"{count} processes reported; the master, the logger and {metrics['workers_started']} "
                     "workers ran")
    found += reported + findings.left_behind(server, before)
    say(f"dispatch {dispatch}: {metrics['requests']} requests, {metrics['workers_started']} workers, "
        f"{metrics['control_commands']} commands, {len(found)} findings")
    if found:
        say(f"all is kept in {server.folder}")
    else:
        server.forget()
    return found


def leaks(options):
    prove(LEAKS, MEMCHECK, options.bin + "/faulty", memcheck_reports)
    return [one for dispatch in options.dispatch
            for one in watch(options, dispatch, MEMCHECK, {}, memcheck_reports)]


def helgrind(programs):
    """The offload queue's unit test."""
    prove(RACES, HELGRIND, programs + "/faulty", helgrind_reports)
    with tempfile.TemporaryDirectory(prefix="webserverd-check-") as folder:
        under(HELGRIND, folder, [programs + "/test_daemon_offload"])
        count, found = helgrind_reports(folder)
    say(f"the offload queue's test under Helgrind: {len(found)} findings")
    return found if count == 1 else found + ["Helgrind wrote no report"]


def races(options):
    found = helgrind(options.helgrind_bin)
    prove(RACES, [], options.bin + "/faulty", tsan_reports, TSAN)
    return found + [one for dispatch in options.dispatch
                    for one in watch(options, dispatch, [], TSAN, tsan_reports)]


def main():
    parser = argparse.ArgumentParser(description="Leaks and races of a loaded server.")
    parser.add_argument("what", choices=["leaks", "races"])
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--helgrind-bin", default="build/release/bin",
                        help="folder of the programs without a sanitizer (build/release/bin)")
    parser.add_argument("--seconds", type=float, default=20, help="load for so long at least (20)")
    parser.add_argument("--dispatch", action="append", choices=["kernel", "master"],
                        help="one way of dispatch instead of both")
    options = parser.parse_args()
    options.dispatch = options.dispatch or ["kernel", "master"]
    found = leaks(options) if options.what == "leaks" else races(options)
    for one in found:
        say("FINDING: " + one)
    say(f"{len(found)} findings" if found else "good: no finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
