"""The probe points of a program, as readelf(1) and the manual list them."""
import re
import subprocess
from dataclasses import dataclass

NOTE = re.compile(r"Provider: webserverd\s+Name: (\S+)\s+Location: 0x([0-9a-f]+), Base: 0x[0-9a-f]+, "
                  r"Semaphore: 0x([0-9a-f]+)\s+Arguments: ?(.*)")


@dataclass
class Point:
    name: str
    address: int
    semaphore: int
    arguments: int  # their number


def of_program(program):
    """One Point per place in the code; several may have the same name."""
    notes = subprocess.run(["readelf", "--wide", "--notes", program], check=True, capture_output=True, text=True).stdout
    # An argument is SIZE@OPERAND; the operand may contain spaces.
    return [Point(name, int(address, 16), int(semaphore, 16), len(re.findall(r"-?\d@", arguments)))
            for name, address, semaphore, arguments in NOTE.findall(notes)]


def of_manual(page):
    """Name to the list of arguments, from the table."""
    with open(page, encoding="utf-8") as text:
        rows = re.findall(r"^\.It (\w+) Ta (.*?) Ta ", text.read(), re.M)
    return {name: arguments.split(", ") for name, arguments in rows}
