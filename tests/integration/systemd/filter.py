"""The system call filter of a systemd unit, loaded with libseccomp.

Emulates SystemCallFilter=, SystemCallErrorNumber=, MemoryDenyWriteExecute=, RestrictAddressFamilies=,
RestrictNamespaces=, RestrictRealtime=, RestrictSUIDSGID= and LockPersonality= as systemd.exec(5) describes them.
"""
import ctypes
import errno
import socket
import subprocess

KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000
BAD_ARCHITECTURE = 2  # SCMP_FLTATR_ACT_BADARCH
NOT_EQUAL, GREATER, MASKED_EQUAL = 1, 6, 7
PROT_WRITE_EXEC, PROT_EXEC = 6, 4
NAMESPACES = 0x7E020080  # all CLONE_NEW flags
SET_ID_BITS = (0o4000, 0o2000)
SCHED_BATCH, SCHED_IDLE = 3, 5


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp"""
    _fields_ = [("argument", ctypes.c_uint), ("operation", ctypes.c_int),
                ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


def fail_with(number):
    """SCMP_ACT_ERRNO()"""
    return 0x00050000 | number


def system_call_sets():
    """The sets of systemd, such as @system-service: name to members, which may be sets."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], check=True,
                          capture_output=True, text=True).stdout
    sets, name = {}, None
    for line in text.splitlines():
        word = line.strip()
        if line.startswith("@"):
            name = word
            sets[name] = []
        elif name is not None and word and not word.startswith("#"):
            sets[name].append(word)
    return sets


def expand(sets, word):
    if not word.startswith("@"):
        return {word}
    return set().union(*(expand(sets, member) for member in sets[word]))


def allowed_calls(lines):
    """SystemCallFilter=: the first line allows, and later ones add or, after a ~, remove."""
    sets = system_call_sets()
    allowed = expand(sets, "@default")
    if lines[0].startswith("~"):
        raise ValueError("SystemCallFilter= does not begin with a list of allowed calls")
    for line in lines:
        calls = set().union(*(expand(sets, word) for word in line.lstrip("~").split()))
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    return allowed


def switched_on(directives, name):
    return directives.get(name, ["no"])[-1] == "yes"


def restrictions(directives):
    """Calls that fail: (name, errno, comparisons)."""
    rules = []
    if switched_on(directives, "MemoryDenyWriteExecute"):
        rules += [("mmap", errno.EPERM, [(2, MASKED_EQUAL, PROT_WRITE_EXEC, PROT_WRITE_EXEC)]),
                  ("mprotect", errno.EPERM, [(2, MASKED_EQUAL, PROT_EXEC, PROT_EXEC)])]
    if switched_on(directives, "RestrictNamespaces"):
        rules += [("unshare", errno.EPERM, []), ("setns", errno.EPERM, []), ("clone3", errno.ENOSYS, [])]
        rules += [("clone", errno.EPERM, [(0, MASKED_EQUAL, 1 << bit, 1 << bit)])
                  for bit in range(32) if NAMESPACES >> bit & 1]
    if switched_on(directives, "RestrictRealtime"):
        rules += [("sched_setscheduler", errno.EPERM, [(1, GREATER, SCHED_IDLE, 0)])]
        rules += [("sched_setscheduler", errno.EPERM, [(1, MASKED_EQUAL, 0xFFFFFFFF, policy)])
                  for policy in range(1, SCHED_BATCH)]
    if switched_on(directives, "RestrictSUIDSGID"):
        rules += [(call, errno.EPERM, [(argument, MASKED_EQUAL, bit, bit)]) for bit in SET_ID_BITS
                  for call, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1),
                                         ("mkdirat", 2), ("creat", 1))]
    if switched_on(directives, "LockPersonality"):
        rules += [("personality", errno.EPERM, [(0, NOT_EQUAL, 0, 0)])]
    if "RestrictAddressFamilies" in directives:
        families = {getattr(socket, name) for name in directives["RestrictAddressFamilies"][-1].split()}
        rules += [("socket", errno.EAFNOSUPPORT, [(0, MASKED_EQUAL, 0xFFFFFFFF, family)])
                  for family in range(46) if family not in families]
    return rules


class Filter:
    """Built in advance; load() may run in a child between fork and exec."""

    def __init__(self, directives):
        self.seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self.seccomp.seccomp_init.restype = ctypes.c_void_p
        error = getattr(errno, directives["SystemCallErrorNumber"][-1])
        self.allow_list = self.new(fail_with(error))
        for name in sorted(allowed_calls(directives["SystemCallFilter"])):
            self.add(self.allow_list, ALLOW, name, [])
        # systemd loads a filter for each directive; of several the strictest answer counts.
        self.deny_list = self.new(ALLOW)
        for name, number, comparisons in restrictions(directives):
            self.add(self.deny_list, fail_with(number), name, comparisons)

    def new(self, action):
        context = ctypes.c_void_p(self.seccomp.seccomp_init(ctypes.c_uint32(action)))
        if not context or self.seccomp.seccomp_attr_set(context, BAD_ARCHITECTURE,
                                                        ctypes.c_uint32(KILL_PROCESS)) != 0:
            raise OSError("seccomp_init")
        return context

    def add(self, context, action, name, comparisons):
        number = self.seccomp.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # unknown, or of another architecture
            return
        values = (Comparison * len(comparisons))(*comparisons)
        failed = self.seccomp.seccomp_rule_add_array(context, ctypes.c_uint32(action), number,
                                                     len(comparisons), values)
        if failed:
            raise OSError(-failed, f"cannot add a rule for {name}")

    def load(self):
        for context in (self.deny_list, self.allow_list):
            failed = self.seccomp.seccomp_load(context)
            if failed:
                raise OSError(-failed, "cannot load the filter")
