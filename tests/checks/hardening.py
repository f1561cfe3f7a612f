#!/usr/bin/env python3
"""Checks that programs are built with the protections of cmake/Hardening.cmake.

    hardening.py PROGRAM...

Reads each program with readelf(1): its headers, dynamic section and symbols, and the options that gcc records in the
debugging information of each source file. Exit status 0, 1 (findings) or 77 (no readelf).
"""
import re
import shutil
import subprocess
import sys

SKIPPED = 77

# What gcc records; each must be there for every source file. The first of BRANCHES has an effect in a marked program only.
OPTIONS = {"-fstack-protector-strong", "-fstack-clash-protection", "-ftrivial-auto-var-init=zero", "-fPIE"}
BRANCHES = {"X86-64": "-fcf-protection=full", "AArch64": "-mbranch-protection=standard"}


def readelf(program, *options):
    return subprocess.run(["readelf", "--wide", *options, program], check=True, capture_output=True, text=True,
                          errors="replace").stdout


def of_headers(program):
    """Position-independent; no stack, no segment both writable and executable; relocations read-only from the start."""
    header, segments, dynamic = (readelf(program, option) for option in ("-h", "-l", "-d"))
    if not re.search(r"Type: +DYN", header) or not re.search(r"\(FLAGS_1\).*\bPIE\b", dynamic):
        yield "is not position-independent"
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b", dynamic) or "GNU_RELRO" not in segments:
        yield "has no full RELRO"
    if not re.search(r"GNU_STACK(?: +0x[0-9a-f]+)+ RW ", segments):
        yield "has an executable stack"
    if re.search(r"LOAD .* RWE ", segments):
        yield "has a segment that is writable and executable"
    for tag in ("TEXTREL", "RPATH", "RUNPATH"):
        if f"({tag})" in dynamic:
            yield f"has {tag}"


def of_symbols(program):
    """The run-time parts of the stack protector, of _FORTIFY_SOURCE and of assert() are used."""
    symbols = readelf(program, "--dyn-syms")
    if not re.search(r" __stack_chk_(fail|guard)\b", symbols):
        yield "has no stack protector"
    if not re.search(r" __(memcpy|snprintf|read|fprintf)_chk\b", symbols):
        yield "has no fortified functions"
    if " __assert_fail" not in symbols:
        yield "has no assertions"


def of_options(program):
    machine = re.search(r"Machine:.*?(X86-64|AArch64)", readelf(program, "-h"))
    units = readelf(program, "--debug-dump=info", "--dwarf-depth=1")  # without what they contain
    producers = set(re.findall(r"DW_AT_producer.*?: (GNU C\d.*)", units))
    branches = {BRANCHES[machine[1]]} if machine else set()
    if machine and machine[1] == "X86-64" and "SHSTK" not in readelf(program, "-n"):
        if any(branches & set(producer.split()) for producer in producers):
            yield f"has source files with {' '.join(branches)}, which has no effect: the program is not marked"
        branches = set()
    for producer in producers:
        missing = (OPTIONS | branches) - set(producer.split())
        if missing:
            yield f"has a source file without {' '.join(sorted(missing))}"


def main():
    if not shutil.which("readelf"):
        print("no readelf: skipped")
        sys.exit(SKIPPED)
    found = [f"{program} {finding}" for program in sys.argv[1:] for check in (of_headers, of_symbols, of_options)
             for finding in check(program)]
    print("\n".join(found) or f"{len(sys.argv) - 1} programs are hardened")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
