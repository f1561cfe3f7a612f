#!/usr/bin/env python3
"""The clients in Go and Java, compiled once for all tests, into the directory of the programs.

    compiled.py DIRECTORY     compiles them; exits with 77 if no compiler is installed

A test that needs one waits while another test compiles it: without a cache Go compiles its library for a minute.
"""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 1200
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"  # for a program that runs for a second
# Without optimisation and debug information Go compiles in half the time.
GO_OPTIONS = "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w"


def find(*names):
    path = os.environ.get("PATH", "") + ":/usr/local/go/bin"
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def is_current(target, *sources):
    return target.exists() and all(target.stat().st_mtime > os.stat(source).st_mtime for source in (*sources, __file__))


@contextlib.contextmanager
def locked(path):
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def go_client(programs):
    """The program, or None without Go."""
    compiler = find("go")
    if compiler is None:
        return None
    source, target = HERE / "client.go", pathlib.Path(programs) / "go_client"
    with locked(f"{target}.lock"):
        if not is_current(target, source, compiler):
            environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local",
                           "GOCACHE": os.environ.get("GOCACHE", os.path.expanduser("~/.cache/go-build"))}
            subprocess.run([compiler, "build", *GO_OPTIONS, "-o", f"{target}.new", source], check=True, timeout=PATIENCE_S,
                           env=environment)
            os.replace(f"{target}.new", target)
    return target


def java_client(programs):
    """Words that run the program, or None without Java."""
    program = find("java")
    if program is None:
        return None
    source, directory = HERE / "Fetch.java", pathlib.Path(programs) / "java_client"
    with locked(f"{directory}.lock"):
        if not is_current(directory / "complete", source, program):
            subprocess.run([program, *JAVA_OPTIONS, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", directory, source],
                           check=True, timeout=PATIENCE_S)
            (directory / "complete").touch()
    return [program, *JAVA_OPTIONS, "-cp", directory, "Fetch"]


if __name__ == "__main__":
    found = [make(sys.argv[1]) for make in (go_client, java_client)]
    print(*(words or "not installed" for words in found))
    sys.exit(0 if any(found) else 77)
