#!/usr/bin/env python3
"""Checks the probe points of webserverd against webserverd-probes(7) and the scripts for bpftrace.

    described.py PROGRAM MANUAL SCRIPT...

The manual has every probe with the right number of arguments, the scripts use only those, and each probe is a single nop
instruction without a semaphore.
"""
import pathlib
import re
import subprocess
import sys

import points

USE = re.compile(r"^usdt:/usr/sbin/webserverd:webserverd:(\w+)$", re.M)


def of_manual(found, described):
    """A compiler that makes several copies of a probe gives all of them the same arguments."""
    for point in found:
        wanted = len(described.get(point.name, []))
        if point.name in described and point.arguments != wanted:
            yield f"{point.name} has {point.arguments} arguments, {wanted} in the manual"
    names = {point.name for point in found}
    yield from (f"the manual lacks {name}" for name in sorted(names - set(described)))
    yield from (f"the program lacks {name} of the manual" for name in sorted(set(described) - names))


def of_script(path, described):
    """Each block belongs to the probe above it."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    blocks = USE.split(text)[1:]
    if not blocks:
        yield f"{path} uses no probe"
    for name, block in zip(blocks[::2], blocks[1::2]):
        body = block.split("\n}\n")[0]
        highest = max((int(number) for number in re.findall(r"\barg(\d)", body)), default=-1)
        if name not in described:
            yield f"{path} uses {name}, which the manual lacks"
        elif highest >= len(described[name]):
            yield f"{path} uses arg{highest} of {name}, which has {len(described[name])} arguments"


def of_code(program, found):
    """Addresses are those of the file's virtual memory, which objdump uses as well."""
    for point in found:
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={point.address}",
                                  f"--stop-address={point.address + 1}", program], check=True, capture_output=True,
                                 text=True).stdout
        instruction = listing.strip().splitlines()[-1].split("\t")[-1].strip()
        if instruction != "nop":
            yield f"{point.name} at {point.address:#x} is '{instruction}', not a nop"
        if point.semaphore != 0:
            yield f"{point.name} has a semaphore, so its arguments have a cost"


def main(program, manual, *scripts):
    found, described = points.of_program(program), points.of_manual(manual)
    faults = [*of_manual(found, described), *of_code(program, found)]
    for script in scripts:
        faults += of_script(script, described)
    print(f"{len(found)} places of {len(described)} probes, {len(scripts)} scripts")
    print(*faults, sep="\n")
    return 1 if faults or not found or not scripts else 0


sys.exit(main(*sys.argv[1:]))
