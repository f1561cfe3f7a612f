#!/usr/bin/env python3
"""Prints what a server publishes in shared memory, by webserverd-shm(7) alone: read.py NAME"""
import glob
import mmap
import os
import struct
import sys

METRICS, STATES, WORKER_SLOTS, THREAD_SLOTS, MASTER, WORKERS, THREADS, LATENCY = range(1, 9)


def find(name):
    paths = glob.glob(f"/dev/shm/webserverd.{name}") + glob.glob(f"/dev/shm/webserverd.{name}.*")
    own = [path for path in paths if os.stat(path).st_uid in (0, os.geteuid())]
    return max(own, key=os.path.getmtime) if own else sys.exit(f"read.py: no server '{name}'")


class Board:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        if self.bytes[:8] != b"WSRVSEG1" or self.u16(8) != 3 or self.u32(52) != 1:
            sys.exit("read.py: not a board of version 3, or not ready")
        self.sections = {}
        for kind, *section in struct.iter_unpack("<IIQQQ", self.bytes[544:544 + 32 * self.u32(60)]):
            self.sections[kind] = section
        self.metrics = [self.metric(at) for at in self.entries(METRICS)]

    def u16(self, at):
        return struct.unpack_from("<H", self.bytes, at)[0]

    def u32(self, at):
        return struct.unpack_from("<I", self.bytes, at)[0]

    def u64(self, at):
        return struct.unpack_from("<Q", self.bytes, at)[0]

    def text(self, at, size):
        return self.bytes[at:at + size].split(b"\0")[0].decode("ascii", "replace")

    def entries(self, kind):
        count, offset, stride, _ = self.sections.get(kind, (0, 0, 0, 0))
        return range(offset, offset + count * stride, stride)

    def metric(self, at):
        return self.text(at, 32), self.bytes[at + 176], self.u32(at + 180)  # name, scope, offset

    def blocks(self, kind):
        """The entries of THREADS or WORKERS whose slots are reserved."""
        slots = self.entries(THREAD_SLOTS if kind == THREADS else WORKER_SLOTS)
        return [at for at, slot in zip(self.entries(kind), slots) if self.u32(slot) == 1]

    def sums(self):
        blocks = {0: self.blocks(THREADS), 1: self.blocks(WORKERS), 2: self.entries(MASTER), 3: []}
        return {name: sum(self.u64(at + offset) for at in blocks[scope])
                for name, scope, offset in self.metrics if name}

    def threads(self):
        letters = [chr(self.bytes[at]) for at in self.entries(STATES)]
        return [(letters[self.u32(at + 16)], self.text(at + 24, 96)) for at in self.blocks(THREADS)]


if __name__ == "__main__":
    board = Board(find(sys.argv[1]))
    print(board.text(80, 64), board.text(144, 32))
    print("threads", "".join(letter for letter, _ in board.threads() if letter != "."))
    for name, value in board.sums().items():
        if value:
            print(f"{name:24} {value}")
