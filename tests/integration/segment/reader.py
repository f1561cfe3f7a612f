#!/usr/bin/env python3
"""reader.py NAME: prints what the server NAME publishes in shared memory, as JSON.

Written after webserverd-shm(7) alone, without the C sources.
"""
import glob
import json
import mmap
import os
import struct
import sys

MAGIC, MAJOR = b"WSRVSEG1", 3
METRICS, STATES, WORKER_SLOTS, THREAD_SLOTS, MASTER, WORKERS, THREADS, LATENCY, RINGS, EVENTS = range(1, 11)
(HISTORY, CONFIG, RATE, ADDRESS_LIMITS, CHALLENGE, CERTIFICATES, HOSTS, LOGGER, LOG_CURSORS, EVENT_CURSORS, LOGGER_EVENTS,
 RATE_BUCKETS, CACHE, CLIENTS, WORKER_EVENTS, HITS, HOST_COUNTS) = range(32, 49)
SECTION_OF_SCOPE = [THREADS, WORKERS, MASTER, LOGGER]
SLOTS = {WORKERS: WORKER_SLOTS, THREADS: THREAD_SLOTS}


class Segment:
    def __init__(self, name):
        names = glob.glob(f"/dev/shm/webserverd.{name}") + glob.glob(f"/dev/shm/webserverd.{name}." + 16 * "[0-9a-f]")
        with open(max(names, key=os.path.getctime), "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        if self.map[:8] != MAGIC or self.get("H", 8) != MAJOR or self.get("I", 52) != 1:
            raise SystemExit(f"{name}: not a ready segment of major version {MAJOR}")
        self.sections = {kind: rest for kind, *rest in struct.iter_unpack("<IIQQQ", self.map[544:544 + 32 * self.get("I", 60)])}

    def get(self, code, at):
        return struct.unpack_from("<" + code, self.map, at)[0]

    def text(self, at, size):
        return self.map[at:at + size].split(b"\0")[0].decode("utf-8", "backslashreplace")

    def entries(self, kind, slots=None):
        """Offsets of the entries; of slots: only those that are reserved."""
        count, offset, stride, _ = self.sections[kind]
        flags = self.sections[slots] if slots else None
        return [(i, offset + i * stride) for i in range(count) if not flags or self.get("I", flags[1] + i * flags[2])]

    def sums(self):
        result = {}
        blocks = {section: self.entries(section, SLOTS.get(section)) for section in SECTION_OF_SCOPE}
        for _, at in self.entries(METRICS):
            section, offset = SECTION_OF_SCOPE[self.get("B", at + 176)], self.get("I", at + 180)
            if self.text(at, 32): # an entry without a name is no metric
                result[self.text(at, 32)] = sum(self.get("Q", block + offset)
                                                for _, block in blocks[section])
        return result

    def threads(self):
        states = [self.text(at + 1, 15) for _, at in self.entries(STATES)]
        slots = {i: at for i, at in self.entries(THREAD_SLOTS)}
        return [{"worker": self.get("I", slots[i] + 4), "thread": self.get("I", slots[i] + 8),
                 "state": states[self.get("I", at + 16)], "work": self.text(at + 24, 96)}
                for i, at in self.entries(THREADS, THREAD_SLOTS) if self.get("I", slots[i] + 4) != 0xffffffff]

    def workers(self):
        return [{"slot": i, "pid": self.get("i", at + 8), "starts": self.get("I", at + 12)}
                for i, at in self.entries(WORKER_SLOTS) if self.get("I", at) and self.get("I", at + 4)]

    def hosts(self):
        """Responses by class, and bytes of bodies."""
        found = {}
        for entry, at in self.entries(HOSTS) if HOSTS in self.sections else ():
            if host := self.get("Q", at):
                counts = [slot + 1152 * entry for _, slot in self.entries(HOST_COUNTS, THREAD_SLOTS)]
                found[self.text(at + 8, 256)] = [sum(self.get("Q", at + 16 + 8 * i) for at in counts if self.get("Q", at) == host)
                                                 for i in range(5)]
        return found

    def latencies(self):
        """Numbers of responses by outcome."""
        outcomes = [0] * self.get("I", 72)
        for _, at in self.entries(LATENCY, THREAD_SLOTS):
            for i in range(len(outcomes)):
                outcomes[i] += sum(struct.unpack_from("<2112Q", self.map, at + 16920 * i + 24))
        return outcomes

    def records(self):
        """Status, bytes of body, client and request line of each request; no ring is full yet."""
        found = []
        for _, ring in self.entries(RINGS, THREAD_SLOTS):
            at, end = ring + 64, ring + 64 + 8 * self.get("Q", ring + 8)
            while at < end:
                first, time, _, body, _, lengths = struct.unpack_from("<4Q16sQ", self.map, at)
                line = self.map[at + 56:at + 56 + (lengths & 0xffff)].decode()
                found.append((time, first >> 48, body & (1 << 48) - 1, list(self.map[at + 44:at + 48]), line))
                at += 8 * (first & 0xffff)
        return [record[1:] for record in sorted(found)]

    def events(self):
        rings = [at for kind in (EVENTS, LOGGER_EVENTS) for _, at in self.entries(kind)]
        rings += [at for _, at in self.entries(WORKER_EVENTS, WORKER_SLOTS)]
        sizes = [self.sections[EVENTS][3], self.sections[LOGGER_EVENTS][3]] + [self.sections[WORKER_EVENTS][3]] * len(rings)
        found = []
        for ring, size in zip(rings, sizes):
            slots, end = (size - 64) // 256, self.get("Q", ring)
            for number in range(max(0, end - slots), end):
                at = ring + 64 + number % slots * 256
                if self.get("Q", at) == 2 * number + 2:
                    found.append((self.get("Q", at + 8), self.text(at + 32, 224)))
        return [text for _, text in sorted(found)]


if __name__ == "__main__":
    segment = Segment(sys.argv[1])
    print(json.dumps({"name": segment.text(80, 64), "version": segment.text(144, 32), "listening": segment.text(284, 256),
                      "metrics": segment.sums(), "workers": segment.workers(), "threads": segment.threads(), "events": segment.events(),
                      "hosts": segment.hosts(), "latencies": segment.latencies(), "records": segment.records()}))
