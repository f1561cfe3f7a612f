#!/usr/bin/env python3
"""Checks the layers of the source tree. Run from the top directory; exits 1 and lists every violation.

usage: layers.py [BUILD_DIRECTORY]

1. A file includes only files of its own directory and of the directories that the table of layers in CONTRIBUTING.md
   allows. internal.h of a directory is for the files of that directory. When BUILD_DIRECTORY names a finished build, a
   file uses only symbols that files of these directories define.
2. No circle of directories in that table. Inside a directory, files may depend on each other.
3. The library of a directory links the libraries of exactly the directories that the table allows.
4. The README of a directory names each of its modules. A module is a .c file with its .h file.
"""
import json
import os
import re
import subprocess
import sys

# Directory: the directories that its files may include, besides its own.
LAYERS = {}


def read_layers():
    """Reads the table between the markers <!-- layers --> of CONTRIBUTING.md."""
    with open("CONTRIBUTING.md", encoding="utf-8") as file:
        table = file.read().split("<!-- layers -->")[1].split("<!-- /layers -->")[0]
    for row in table.strip().splitlines()[2:]:
        directory, _, may_include = row.strip("|").split("|")
        LAYERS[directory.strip(" `")] = re.findall(r"`([^`]+)`", may_include)


def allowed(directory):
    """The directories that DIRECTORY may include, as paths from the top."""
    program = directory.split("/")[0]
    names = LAYERS[directory]
    return {directory} | {name if name == "common" else f"{program}/{name}" for name in names}


def sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "common", "daemon", "console", "loadgen"],
                            check=True, capture_output=True, text=True).stdout.split()
    return [path for path in listed if path.endswith((".c", ".h", ".def")) and os.path.exists(path)]


def module(path):
    return os.path.splitext(path)[0] if path.endswith((".c", ".h")) else path


def check_links(problems):
    for directory in LAYERS:
        program, _, name = directory.partition("/")
        if not name:
            continue
        with open(os.path.join(directory, "CMakeLists.txt"), encoding="utf-8") as file:
            found = re.search(rf"target_link_libraries\({program}_{name} PUBLIC([^)]*)\)", file.read())
        linked = set(found.group(1).split()) - {f"{program}_libraries"} if found else set()
        wanted = {path.replace("/", "_") for path in allowed(directory) - {directory, "common"}}
        if linked != wanted:
            problems.append(f"{directory}/CMakeLists.txt: links {' '.join(sorted(linked))} instead of "
                            f"{' '.join(sorted(wanted))}")


def check_readmes(paths, problems):
    for directory in LAYERS:
        readme = os.path.join(directory, "README.md")
        if not os.path.exists(readme):
            problems.append(f"{readme} is missing")
            continue
        with open(readme, encoding="utf-8") as file:
            text = file.read()
        for name in sorted({os.path.basename(module(path)) for path in paths
                            if os.path.dirname(path) == directory and path.endswith((".c", ".h"))}):
            if name not in text and re.sub("_.*", "_*", name) not in text:
                problems.append(f"{readme}: does not name the module {name}")


def check_includes(paths, problems):
    for path in paths:
        directory = os.path.dirname(path)
        if directory not in LAYERS:
            problems.append(f"{path}: {directory} is missing in the table of layers")
            continue
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                if not found:
                    continue
                target = found.group(1)
                if os.path.dirname(target) not in allowed(directory):
                    problems.append(f"{path}:{number}: {directory}/ must not include {target}")
                elif os.path.basename(target) == "internal.h" and os.path.dirname(target) != directory:
                    problems.append(f"{path}:{number}: {target} is private to its directory")


def check_symbols(build, problems):
    """Checks who uses a symbol of whom, in the object files of BUILD."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    top = os.getcwd()
    sources = {}  # by object file
    for command in commands:
        path = os.path.relpath(command["file"], top)
        if os.path.dirname(path) not in LAYERS:
            continue
        output = command["output"] if "output" in command else re.search(r" -o (\S+)", command["command"]).group(1)
        sources[os.path.join(command["directory"], output)] = path
    defined, used = {}, {}  # by program, as two programs may have functions of one name
    listing = subprocess.run(["nm", "-A", "-P", "-g", *sources], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        output, name, kind = re.match(r"(.*): (\S+) (\S)", line).groups()
        path = sources[output]
        if kind == "U":
            used.setdefault(path, set()).add(name)
        else:
            defined[path.split("/")[0], name] = os.path.dirname(path)
    for path, names in sorted(used.items()):
        directory, program = os.path.dirname(path), path.split("/")[0]
        for name in sorted(names - {"__assert_fail"}):  # which replaces a function of the C library
            definer = defined.get((program, name)) or defined.get(("common", name), directory)
            if definer not in allowed(directory):
                problems.append(f"{path}: must not use {name}() of {definer}/")


def check_circles(problems):
    """Reports the directories of the table that no order of layers can contain."""
    left = {directory: allowed(directory) - {directory} for directory in LAYERS}
    while True:
        lowest = [directory for directory, below in left.items() if not below & left.keys()]
        if not lowest:
            break
        for directory in lowest:
            del left[directory]
    if left:
        problems.append("these directories form a circle: " + " ".join(sorted(left)))


def main():
    read_layers()
    problems = []
    paths = sources()
    check_circles(problems)
    check_links(problems)
    check_readmes(paths, problems)
    check_includes(paths, problems)
    if len(sys.argv) > 1:
        check_symbols(sys.argv[1], problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
