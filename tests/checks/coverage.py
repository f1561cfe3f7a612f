#!/usr/bin/env python3
"""Shows which lines and branches the tests of a build with COVERAGE reach.

    coverage.py build/coverage

Merges the counters in BUILD/profile, prints a table by directory, and writes BUILD/unreached.txt (each line that
no test reaches, with its text) and BUILD/html. Exit status 0, or 1 if there are no counters.
"""
import argparse
import collections
import glob
import json
import os
import subprocess
import sys

PARTS = ("common", "daemon", "console", "loadgen")


def llvm_cov(command, programs, profile, *options):
    objects = [word for program in programs[1:] for word in ("-object", program)]
    return subprocess.run(["llvm-cov", command, programs[0], *objects, f"-instr-profile={profile}", *options],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def has_counters(path):
    """False: a client in another language, or a file beside the programs."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as program:
        return b"__llvm_covmap" in program.read()  # the name of a section


def directory_of(path, top):
    relative = os.path.relpath(path, top)
    return os.path.dirname(relative) if relative.split("/")[0] in PARTS else None


def print_table(files, top):
    sums = collections.defaultdict(collections.Counter)
    for file in files:
        directory = directory_of(file["filename"], top)
        for name in (directory, "all") if directory is not None else ():
            for kind in ("lines", "branches"):
                for key in ("covered", "count"):
                    sums[name][kind, key] += file["summary"][kind][key]
    print(f"{'DIRECTORY':24} {'LINES':>7} {'REACHED':>8} {'BRANCHES':>9} {'REACHED':>8}")
    for name in sorted(sums, key=lambda name: (name == "all", name)):
        lines, branches = (sums[name][kind, "count"] for kind in ("lines", "branches"))
        reached = [100 * sums[name][kind, "covered"] / (sums[name][kind, "count"] or 1) for kind in ("lines", "branches")]
        print(f"{name:24} {lines:7} {reached[0]:7.1f}% {branches:9} {reached[1]:7.1f}%")


def unreached_lines(segments):
    """The numbers of the lines whose every region has the count 0 (LLVM's rule for a line)."""
    by_line = collections.defaultdict(list)
    for line, _, count, has_count, is_entry, *_ in segments:
        by_line[line].append((count, has_count, is_entry))
    found, wrapped = [], None
    last = segments[-1][0] if segments else 0
    for line in range(1, last + 1):
        starting = [count for count, has_count, is_entry in by_line[line] if has_count and is_entry]
        counts = starting + ([wrapped] if wrapped is not None else [])
        if counts and max(counts) == 0:
            found.append(line)
        if by_line[line]:
            count, has_count, _ = by_line[line][-1]
            wrapped = count if has_count else None
    return found


def write_unreached(files, top, path):
    with open(path, "w", encoding="utf-8") as output:
        for file in files:
            name = file["filename"]
            if directory_of(name, top) is None or not name.endswith((".c", ".h")):
                continue
            with open(name, encoding="utf-8") as source:
                text = source.read().split("\n")
            for line in unreached_lines(file["segments"]):
                if text[line - 1].strip() not in ("", "}"):
                    output.write(f"{os.path.relpath(name, top)}:{line}: {text[line - 1].strip()}\n")


def main():
    parser = argparse.ArgumentParser(description="Shows which lines and branches the tests reach.")
    parser.add_argument("build", help="directory of a build with COVERAGE")
    build = os.path.abspath(parser.parse_args().build)
    top = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
    profile, counters = os.path.join(build, "profile.data"), glob.glob(os.path.join(build, "profile", "*.profraw"))
    if not counters:
        print(f"coverage: no counters in {build}/profile; run the tests first", file=sys.stderr)
        return 1
    # All but invalid counters: the worker that misbehaves on purpose (tests/chaos/traitor) overwrites its own.
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-failure-mode=all", "-o", profile, *counters], check=True)
    programs = [path for path in sorted(glob.glob(os.path.join(build, "bin", "*"))) if has_counters(path)]
    files = json.loads(llvm_cov("export", programs, profile))["data"][0]["files"]
    print_table(files, top)
    write_unreached(files, top, os.path.join(build, "unreached.txt"))
    llvm_cov("show", programs, profile, "-format=html", f"-output-dir={build}/html",
             *(os.path.join(top, part) for part in PARTS))
    print(f"\n{build}/unreached.txt: each line that no test reaches\n{build}/html/index.html: all lines with their counts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
