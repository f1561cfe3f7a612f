"""Reading the reports of Valgrind and ThreadSanitizer, and what a server may have left on the machine.

Every function returns findings: texts to be printed; none is good. A report that is not whole is one.
"""

import glob
import os
import re
import subprocess


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def plain(report):
    """A report of Valgrind without the process ids at the beginning of its lines."""
    return re.sub(r"^(==|--)\d+(==|--) ?", "", report, flags=re.MULTILINE)


# What a worker or the logger keeps for as long as it lives, by the function that opened it: the lock that tells
# whether anything of a server still runs, the segment, the logger's doorbell, and its line to the master.
# The master itself has to close all of them.
KEPT_BY_CHILDREN = ("runtime_take", "segment_create", "make_parts", "logger_process_start")


def of_descriptors(text, child):
    """Those that were open at a process's end. CHILD: it is not the one that was started."""
    begin = text.find("FILE DESCRIPTORS:")
    if begin < 0:
        return ["the report says nothing of file descriptors"]
    blocks = re.findall(r"^Open .*(?:\n   .*)*", text[begin:], flags=re.MULTILINE)
    return ["left open: " + block for block in blocks if "<inherited from parent>" not in block
            and not (child and any(name in block for name in KEPT_BY_CHILDREN))]


def of_memcheck(path, child):
    """Errors, leaks and descriptors of one process."""
    text = plain(read(path))
    summary = re.search(r"ERROR SUMMARY: (\d+) errors", text)
    if summary is None:
        return [f"{path}: the process did not come to its end:\n{text[-2000:]}"]
    found = [f"{path}:\n{one}" for one in of_descriptors(text, child)]
    if int(summary.group(1)) > 0:
        found.append(f"{path}:\n{text}")
    return found


def of_helgrind(path):
    text = plain(read(path))
    return [] if "ERROR SUMMARY: 0 errors" in text else [f"{path}:\n{text}"]


def of_tsan(folder):
    """ThreadSanitizer writes a file only for a process that has something to say."""
    return [f"{path}:\n{read(path)}" for path in sorted(glob.glob(folder + "/tsan.*"))]


def system_v():
    """The System V queues, segments and semaphores of this machine."""
    listed = subprocess.run(["ipcs"], capture_output=True, text=True, check=True).stdout
    return {" ".join(line.split()[:5]) for line in listed.splitlines() if line.startswith("0x")}


def left_behind(server, before):
    """What of SERVER there still is after its end; BEFORE is system_v() from before its start."""
    found = [f"left in /dev/shm: {name}" for name in os.listdir("/dev/shm")
             if name.startswith("webserverd." + server.name) or name.startswith("sem." + server.name)]
    found += [f"ipcs shows what was not there before: {line}" for line in sorted(system_v() - before)]
    found += [f"left in the run directory: {name}" for name in os.listdir(server.folder + "/run")]
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            command = read(folder + "/cmdline").replace("\0", " ")
        except OSError:
            continue
        if server.folder + "/webserver.ini" in command:
            found.append(f"process {os.path.basename(folder)} still runs: {command}")
    return found
