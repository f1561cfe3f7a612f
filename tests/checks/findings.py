"""Reads reports of Valgrind and ThreadSanitizer, and finds what a server left on the machine.

Each function returns a list of findings as text. An incomplete report is a finding.
"""

import glob
import os
import re
import subprocess


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def plain(report):
    """A Valgrind report without the process id at the start of each line."""
    return re.sub(r"^(==|--)\d+(==|--) ?", "", report, flags=re.MULTILINE)


# Functions that open descriptors which a worker or the logger keeps until it exits: the lock on the pid file, the
# segment, the logger's doorbell and the socketpair to the master. The master must close all of them.
KEPT_BY_CHILDREN = ("pid_file_acquire", "segment_create", "make_parts", "logger_process_start")


def of_descriptors(text, child):
    """Descriptors that were open when a process exited. CHILD: a forked process, not the one started."""
    begin = text.find("FILE DESCRIPTORS:")
    if begin < 0:
        return ["the report has no section on file descriptors"]
    blocks = re.findall(r"^Open .*(?:\n   .*)*", text[begin:], flags=re.MULTILINE)
    return ["left open: " + block for block in blocks if "<inherited from parent>" not in block
            and not (child and any(name in block for name in KEPT_BY_CHILDREN))]


def of_memcheck(path, child):
    """Errors, leaks and descriptors of one process."""
    text = plain(read(path))
    summary = re.search(r"ERROR SUMMARY: (\d+) errors", text)
    if summary is None:
        return [f"{path}: the process did not exit normally:\n{text[-2000:]}"]
    found = [f"{path}:\n{one}" for one in of_descriptors(text, child)]
    if int(summary.group(1)) > 0:
        found.append(f"{path}:\n{text}")
    return found


def of_helgrind(path):
    text = plain(read(path))
    return [] if "ERROR SUMMARY: 0 errors" in text else [f"{path}:\n{text}"]


def of_tsan(directory):
    """ThreadSanitizer writes a file only for a process with a finding."""
    return [f"{path}:\n{read(path)}" for path in sorted(glob.glob(directory + "/tsan.*"))]


def system_v():
    """All System V queues, segments and semaphores."""
    listed = subprocess.run(["ipcs"], capture_output=True, text=True, check=True).stdout
    return {" ".join(line.split()[:5]) for line in listed.splitlines() if line.startswith("0x")}


def left_behind(server, before):
    """What SERVER left behind. BEFORE is the result of system_v() before its start."""
    found = [f"left in /dev/shm: {name}" for name in os.listdir("/dev/shm")
             if name.startswith("webserverd." + server.name) or name.startswith("sem." + server.name)]
    found += [f"new System V object: {line}" for line in sorted(system_v() - before)]
    found += [f"left in the run directory: {name}" for name in os.listdir(server.directory + "/run")]
    for directory in glob.glob("/proc/[0-9]*"):
        try:
            command = read(directory + "/cmdline").replace("\0", " ")
        except OSError:
            continue
        if command.startswith("webserverd: ") and f"({server.name})" in command:
            found.append(f"process {os.path.basename(directory)} still runs: {command}")
    return found
