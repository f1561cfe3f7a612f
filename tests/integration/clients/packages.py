"""Programs that download from a static tree of files: git, pip, apt."""
import base64
import hashlib
import importlib.util
import os
import sys
import zipfile

from harness import client, expect, need, run

# Ignore the user's configuration of these programs.
PLAIN = {key: value for key, value in os.environ.items()
         if not key.startswith(("GIT_", "PIP_", "XDG_")) and not key.lower().endswith("_proxy")}


@client("git")
def git(server):
    """Clone and fetch over dumb HTTP: a bare repository as plain files."""
    need("git")
    work, bare, clone = (server.directory / "work", server.site / "project.git",
                         server.directory / "clone")
    plain = {**PLAIN, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
             "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "HOME": str(server.directory)}

    def call(*words, cwd=None):
        return run("git", "-c", "user.name=n", "-c", "user.email=e@example.org",
                   "-c", "init.defaultBranch=main", *words, cwd=cwd, env=plain).decode()

    def commit(number):
        (work / f"file{number}").write_text(f"text {number}\n" * 1000)
        call("add", "-A", cwd=work)
        call("commit", "-q", "-m", f"change {number}", cwd=work)

    call("init", "-q", work)
    for number in range(5):
        commit(number)
    call("clone", "-q", "--bare", work, bare)
    call("update-server-info", cwd=bare)
    call("clone", "-q", f"{server.url}/project.git", clone)
    commit(5)
    call("push", "-q", bare, "main", cwd=work)
    call("repack", "-q", "-a", "-d", cwd=bare)
    call("update-server-info", cwd=bare)
    server.control("cache-flush")
    call("pull", "-q", "--ff-only", cwd=clone)
    expect(call("log", "--format=%H", cwd=clone), call("log", "--format=%H", cwd=work),
           "the history of a clone")
    call("fsck", "--strict", cwd=clone)


def make_wheel(directory, name):
    """A minimal wheel: one module, its metadata, and a record of both."""
    files = {f"{name}.py": "ANSWER = 42\n",
             f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
             f"{name}-1.0.dist-info/WHEEL":
                 "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = f"{name}-1.0.dist-info/RECORD"
    lines = []
    for path, text in files.items():
        sum_ = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={sum_},{len(text)}\n")
    files[record] = "".join(lines) + f"{record},,\n"
    wheel = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


@client("pip")
def pip(server):
    """pip install from a static index, PEP 503: a directory with an index.html per project."""
    name = "webserverdprobe"
    directory = server.site / "simple" / name
    directory.mkdir(parents=True)
    wheel = make_wheel(directory, name)
    sum_ = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (directory / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}#sha256={sum_}">'
                                       f"{wheel.name}</a>\n")
    to = server.directory / "installed"
    if importlib.util.find_spec("pip") is None:
        need("pip for this Python")
    run(sys.executable, "-m", "pip", "--isolated", "--quiet", "install", "--no-cache-dir", "--no-compile",
        "--no-deps", "--disable-pip-version-check", "--index-url", f"{server.url}/simple",
        "--target", to, name, env={**PLAIN, "PIP_CONFIG_FILE": "/dev/null"})
    expect((to / f"{name}.py").read_text(), "ANSWER = 42\n", "what pip installed")


APT_CONFIGURATION = """
Dir "{directory}/apt";
Dir::Etc "etc";
Dir::Etc::sourcelist "sources.list";
Dir::Etc::sourceparts "none";
Dir::Etc::trusted "none";
Dir::Etc::trustedparts "none";
Dir::State "state";
Dir::State::status "{directory}/apt/status";
Dir::Cache "cache";
APT::Architecture "all";
APT::Architectures "all";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::http::Proxy "DIRECT";
"""


def make_package(server, tree):
    """An empty package, and the index files of an apt repository."""
    root = server.directory / "package"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(
        "Package: webserverd-probe\nVersion: 1.0\nArchitecture: all\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: a probe\n")
    run("dpkg-deb", "-Znone", "--root-owner-group", "-b", root, tree / "webserverd-probe.deb")
    deb = (tree / "webserverd-probe.deb").read_bytes()
    index = (f"Package: webserverd-probe\nVersion: 1.0\nArchitecture: all\n"
             f"Maintainer: nobody <nobody@example.org>\nDescription: a probe\n"
             f"Filename: ./webserverd-probe.deb\nSize: {len(deb)}\n"
             f"SHA256: {hashlib.sha256(deb).hexdigest()}\n\n")
    (tree / "Packages").write_text(index)
    (tree / "Release").write_text(
        f"Origin: probe\nSuite: probe\nDate: Sat, 01 Jan 2000 00:00:00 UTC\nSHA256:\n"
        f" {hashlib.sha256(index.encode()).hexdigest()} {len(index)} Packages\n")


@client("apt")
def apt(server):
    """apt-get update (twice) and a download, with a private configuration."""
    need("apt-get")
    need("dpkg-deb")
    tree, private = server.site / "debian", server.directory / "apt"
    tree.mkdir()
    make_package(server, tree)
    for part in ("etc", "state/lists/partial", "cache/archives/partial"):
        (private / part).mkdir(parents=True)
    (private / "status").touch()
    (private / "etc" / "sources.list").write_text(f"deb [trusted=yes] {server.url}/debian ./\n")
    configuration = server.directory / "apt.conf"
    configuration.write_text(APT_CONFIGURATION.format(directory=server.directory))
    plain = {**PLAIN, "APT_CONFIG": str(configuration)}
    for _ in range(2):
        said = run("apt-get", "-o", "APT::Update::Error-Mode=any", "update", env=plain).decode()
    if "Hit:" not in said:
        raise AssertionError("nothing was taken as unchanged the second time: " + said)
    run("apt-get", "download", "-q", "webserverd-probe", cwd=private, env=plain)
    found = list(private.glob("webserverd-probe*.deb"))
    expect([path.read_bytes() for path in found], [(tree / "webserverd-probe.deb").read_bytes()],
           "what apt fetched")
