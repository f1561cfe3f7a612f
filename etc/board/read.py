#!/usr/bin/env python3
"""Prints what a server publishes in shared memory, by webserverd-shm(7) alone: read.py NAME"""
import glob
import mmap
import os
import struct
import sys

METRICS, STATES, WORKER_SLOTS, THREAD_SLOTS, MASTER, WORKERS, THREADS, LATENCY = range(1, 9)


class Board:
    def __init__(self, name):
        paths = glob.glob(f"/dev/shm/webserverd.{name}") + glob.glob(f"/dev/shm/webserverd.{name}.*")
        paths = [path for path in paths if os.stat(path).st_uid in (0, os.geteuid())]
        if not paths:
            sys.exit(f"read.py: no server '{name}'")
        with open(max(paths, key=os.path.getmtime), "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert self.bytes[:8] == b"WSRVSEG1" and self.read("H", 8) == 3 and self.read("I", 52) == 1, "not a board"
        self.sections = {}
        for kind, count, offset, stride, size in struct.iter_unpack("<IIQQQ", self.bytes[544:544 + 32 * self.read("I", 60)]):
            assert offset + (count - 1) * stride + size <= len(self.bytes)
            self.sections[kind] = range(offset, offset + count * stride, stride)

    def read(self, type_, at):
        return struct.unpack_from("<" + type_, self.bytes, at)[0]

    def text(self, at, size):
        return self.bytes[at:at + size].split(b"\0")[0].decode("ascii", "replace")

    def blocks(self, kind, slots):
        """The entries of KIND whose slots are reserved."""
        return [at for at, slot in zip(self.sections[kind], self.sections[slots]) if self.read("I", slot) == 1]

    def sums(self):
        blocks = [self.blocks(THREADS, THREAD_SLOTS), self.blocks(WORKERS, WORKER_SLOTS), self.sections[MASTER], []]
        return {self.text(at, 32): sum(self.read("Q", block + self.read("I", at + 180)) for block in blocks[self.bytes[at + 176]])
                for at in self.sections[METRICS] if self.bytes[at]}

    def threads(self):
        letters = [chr(self.bytes[at]) for at in self.sections[STATES]]
        return [(letters[self.read("I", at + 16)], self.text(at + 24, 96)) for at in self.blocks(THREADS, THREAD_SLOTS)]

    def median_ns(self):
        """The first value of the bucket of the median, of all threads and outcomes."""
        starts = [at + i * 16920 + 24 for at in self.blocks(LATENCY, THREAD_SLOTS) for i in range(self.read("I", 72))]
        counts = [sum(bucket) for bucket in zip(*(struct.unpack_from("<2112Q", self.bytes, at) for at in starts))]
        bucket = next((i for i in range(len(counts)) if 2 * sum(counts[:i + 1]) > sum(counts)), 0)
        return bucket if bucket < 128 else (64 + bucket % 64) << bucket // 64 - 1


if __name__ == "__main__":
    board = Board(sys.argv[1])
    print(board.text(80, 64), board.text(144, 32))
    print("threads", "".join(letter for letter, _ in board.threads() if letter != "."))
    print("median", board.median_ns(), "ns")
    for name, value in board.sums().items():
        if value:
            print(f"{name:24} {value}")
