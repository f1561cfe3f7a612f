#!/usr/bin/env python3
"""The tests and attacks that SECURITY.md names exist."""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/chaos"))

from injected import Session  # noqa: E402

OF_INJECTED = Session.KINDS_OF_ATTACKS
OF_TRAITOR = re.findall(r"^ATTACK\((\w+)", (ROOT / "tests/chaos/traitor/attacks.def").read_text(), re.MULTILINE)


def is_attack(name):
    *_, kind, attack = ("", *name.removeprefix("injected.").split("."))
    if kind:
        return attack in OF_INJECTED.get(kind, ())
    return attack in OF_TRAITOR or any(attack in attacks for attacks in OF_INJECTED.values())


def unknown_words(text):
    for word in re.findall(r"`([^`\s]+)`", text):
        if word.startswith("tests/") and not (ROOT / word).exists() \
                or re.fullmatch(r"test_\w+\.c", word) and not any(ROOT.glob(f"tests/**/{word}")):
            yield f"there is no test {word}"
    for table in re.findall(r"^\| it cannot \| attack \|.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines()[1:]:
            yield from (f"there is no attack {word}" for word in re.findall(r"`([^`]+)`", line.split("|")[2]) if not is_attack(word))


faults = list(unknown_words((ROOT / "SECURITY.md").read_text()))
for fault in faults:
    print(f"SECURITY.md: {fault}")
sys.exit(1 if faults else 0)
