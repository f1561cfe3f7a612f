"""Writes code into a running process by ptrace(2), and has a new thread of it run there. x86-64 only.

The process may not make executable memory (its filter of system calls kills it), so the code replaces the part of its
libcrypto that decodes CMS, which no process of the server uses. Only this process's privilege makes that possible.
"""

import ctypes
import os
import signal
import struct

SEIZE, INTERRUPT, GETREGS, SETREGS, CONT, DETACH = 0x4206, 0x4207, 12, 13, 7, 17
EVENT_STOP = 128
ALL_KINDS = 0x40000000  # __WALL: also threads, and children of others
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs "
             "gs").split()
SYS_MMAP, SYS_CLONE = 9, 56
READ_WRITE, PRIVATE_ANONYMOUS = 3, 0x22
# CLONE_VM, _FS, _FILES, _SIGHAND, _THREAD and _SYSVSEM
THREAD_FLAGS = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000
STACK_BYTES = 64 * 1024
UNUSED_FROM, UNUSED_TO = "CMS_SharedInfo_encode", "CMS_compress"

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class Gone(Exception):
    """The process has ended."""


def trace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) == -1:
        error = ctypes.get_errno()
        raise Gone if error == 3 else OSError(error, f"ptrace({request:#x}, {pid}): {os.strerror(error)}")


def mappings(pid):
    """Start, end, rights, offset in the file, inode number and path of each mapping of a process."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            span, rights, offset, _, inode, *path = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in span.split("-"))
            found.append((start, end, rights, int(offset, 16), int(inode), "".join(path).strip()))
    return found


def unused_code():
    """Inode number, offset and length of the unused part of libcrypto."""
    library = ctypes.CDLL("libcrypto.so.3")
    first, end = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in (UNUSED_FROM, UNUSED_TO))
    for start, limit, _, offset, inode, _ in mappings("self"):
        if start <= first < end < limit:
            return inode, first - start + offset, end - first
    raise OSError("libcrypto has another layout")


class Blob:
    """The code of an ELF file with one segment and no relocations."""

    def __init__(self, path):
        with open(path, "rb") as file:
            image = file.read()
        entry, table = struct.unpack_from("<QQ", image, 24)
        size, count = struct.unpack_from("<HH", image, 54)
        loads = [fields for fields in (struct.unpack_from("<IIQQQQQQ", image, table + i * size) for i in range(count))
                 if fields[0] == 1]
        (_, _, offset, address, _, in_file, in_memory, _), = loads
        if in_file != in_memory:
            raise ValueError(f"{path} has variables")
        self.bytes, self.entry = image[offset:offset + in_file], entry - address
        self.inode, self.offset, room = unused_code()
        self.skew = (address - self.offset) % 64  # keeps the alignment
        if len(self.bytes) + self.skew > room:
            raise ValueError(f"{path} is too long: {len(self.bytes)} bytes")

    def place(self, pid):
        """Writes the code. Returns the address of its entry."""
        at = next(start + self.offset - offset for start, end, rights, offset, inode, _ in mappings(pid)
                  if inode == self.inode and "x" in rights and offset <= self.offset < offset + end - start)
        write(pid, at + self.skew, self.bytes)
        return at + self.skew + self.entry


def write(pid, address, content):
    with open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        memory.seek(address)
        memory.write(content)


def read(pid, address, length):
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(address)
            content = memory.read(length)
    except OSError as error:
        raise Gone from error
    if not content:
        raise Gone
    return content


def stop(thread):
    trace(SEIZE, thread)
    trace(INTERRUPT, thread)
    wait(thread)


def wait(thread):
    """Returns the signal that has stopped the thread. 0: INTERRUPT has, or a stop of the whole process."""
    try:
        status = os.waitpid(thread, ALL_KINDS)[1]
    except ChildProcessError as error:
        raise Gone from error
    if not os.WIFSTOPPED(status):
        raise Gone
    return 0 if status >> 16 == EVENT_STOP else os.WSTOPSIG(status)


def release(thread):
    """Lets it run on. If it has ended, its parent can then reap it."""
    try:
        trace(DETACH, thread)
    except Gone:
        try:
            os.waitpid(thread, ALL_KINDS)
        except ChildProcessError:
            pass


def call(thread, registers, entry, number, *arguments, stack=None):
    """Has the stopped thread make a system call. Returns the result."""
    values = dict(registers, rip=entry, rax=number, orig_rax=2 ** 64 - 1)
    values.update(zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments))
    if stack is not None:
        values["rsi"] = stack
    trace(SETREGS, thread, ctypes.byref((ctypes.c_uint64 * 27)(*(values[name] for name in REGISTERS))))
    trace(CONT, thread)
    while (reason := wait(thread)) != signal.SIGTRAP:
        trace(CONT, thread, reason)
    return get_registers(thread)["rax"]


def get_registers(thread):
    values = (ctypes.c_uint64 * 27)()
    trace(GETREGS, thread, ctypes.byref(values))
    return dict(zip(REGISTERS, values))


class Injected:
    """A process with the code: ORDER is at self.address. HOLD: its other threads stop until release()."""

    def __init__(self, pid, blob, order, hold=False):
        self.pid, self.held = pid, []
        try:
            stop(pid)
            self.held.append(pid)
            if hold:
                for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                    if thread != pid:
                        stop(thread)
                        self.held.append(thread)
            self.start(blob, order)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Gone from error
        finally:
            if not hold:
                self.release()

    def start(self, blob, order):
        registers, entry = get_registers(self.pid), blob.place(self.pid)
        length = (len(order) + STACK_BYTES + 4095) // 4096 * 4096
        self.address = call(self.pid, registers, entry, SYS_MMAP, 0, length, READ_WRITE, PRIVATE_ANONYMOUS, 2 ** 64 - 1, 0)
        if self.address >= 2 ** 64 - 4096:
            raise OSError(2 ** 64 - self.address, "mmap() in the process")
        top = self.address + length - 64
        write(self.pid, self.address, order)
        write(self.pid, top, struct.pack("<Q", self.address))
        result = call(self.pid, registers, entry, SYS_CLONE, THREAD_FLAGS, 0, 0, 0, 0, stack=top)
        if result >= 2 ** 64 - 4096:
            raise OSError(2 ** 64 - result, "clone() in the process")
        self.thread = result
        trace(SETREGS, self.pid, ctypes.byref((ctypes.c_uint64 * 27)(*(registers[name] for name in REGISTERS))))

    def release(self):
        for thread in self.held:
            release(thread)
        self.held = []
