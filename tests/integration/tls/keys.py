"""The keys process: the only one with private keys in its memory; the workers need it for full handshakes only."""
import concurrent.futures
import ctypes
import os
import pathlib
import re
import signal
import socket
import stat
import struct
import subprocess
import threading
import time

from harness import Exchange, expect, expect_in, has_ended, open_files, run, serving_pids, test, until
from sessions import full, is_resumed


def keys_pid(server):
    return server.status()["keys"]["pid"]


def another_keys_pid(server, before):
    return until(lambda: keys_pid(server) not in (0, before) and keys_pid(server), "another keys process")


def kill(pid):
    """Returns when the process has ended, and takes no further request with it."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: has_ended(pid), "the end of the killed process")


def worker_pids(server):
    return [worker["pid"] for worker in server.status()["workers"]["list"]]


def secrets(bench, name):
    """Forms in which a process may have the private key: as text, as a number in either order of its bytes."""
    found = {}
    text = pathlib.Path(bench.path(f"{name}.key")).read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("-")]
    found["a line of the file"] = lines[1].encode()
    shown = run("openssl", "pkey", "-in", bench.path(f"{name}.key"), "-noout", "-text")
    for part in ("priv", "prime1", "privateExponent"):
        number = re.search(rf"{part}:\n((?:\s+(?:[0-9a-f]{{2}}:?)+\n)+)", shown)
        if number is not None:
            value = bytes.fromhex(re.sub(r"[^0-9a-f]", "", number.group(1))).lstrip(b"\0")
            # A process may have a part of it, if the rest has been overwritten.
            found[part], found[f"{part} as stored in memory"] = value[:24], value[::-1][:24]
    expect(len(found) >= 3, True, "forms of the key")
    return found


USED_PAGES = re.compile(rb"[\x40-\xff]+")  # the last bytes of their entries in pagemap: present or swapped


def used_spans(pid):
    """Where the process has memory, except mapped programs and libraries: pairs of addresses."""
    page = os.sysconf("SC_PAGESIZE")
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap:
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(word, 16) for word in span.split("-"))
            if not rights.startswith("r") or "[v" in line or " /usr/" in line:
                continue
            pagemap.seek(start // page * 8)
            for used in USED_PAGES.finditer(pagemap.read((end - start) // page * 8)[7::8]):
                yield start + used.start() * page, start + used.end() * page


def find_in_memory(pid, needles):
    """The names of those of NEEDLES that are in the memory of the process."""
    found = set()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end in used_spans(pid):
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except OSError:
                continue
            found.update(name for name, needle in needles.items() if needle in content)
    return found


def handshakes(server, count=3):
    for host in ("localhost", "other.example"):
        for _ in range(count):
            with server.connect(host) as stream:
                expect(Exchange(stream).get("small.txt")[0], 200, "a response")


@test
def private_keys_are_in_the_keys_process_only(bench):
    """Searches the memory of all processes. Without the keys process the search finds the keys in the workers."""
    if os.geteuid() != 0 or "sanitizer" in run(bench.programs / "webserverd", "-V"):  # which maps terabytes
        return
    both = pathlib.Path(bench.path("rsa-both.pem"))
    both.touch(0o600)
    both.write_text(pathlib.Path(bench.path("rsa.key")).read_text() + pathlib.Path(bench.path("rsa.pem")).read_text())
    files = {"tls__certificate": f"{bench.path('ec.pem')} {both} {bench.path('other.pem')}",
             "tls__key": f"{bench.path('ec.key')} {both} {bench.path('other.key')}"}
    needles = {f"{name}: {form}": needle for name in ("ec", "rsa", "other")
               for form, needle in secrets(bench, name).items()}
    for setting in ("on", "off"):
        with bench.start(tls__keys_process=setting, workers__processes="2", **files) as server:
            handshakes(server)
            for reloaded in (False, True):
                if reloaded:
                    old = set(worker_pids(server))
                    server.control("reload")
                    until(lambda before=old: not before & set(worker_pids(server)), "the end of the old workers")
                    handshakes(server)
                for pid in worker_pids(server):
                    found = find_in_memory(pid, needles)
                    expect(not found if setting == "on" else len(found) >= 3, True,
                           f"keys_process = {setting}, reloaded: {reloaded}: a worker has {sorted(found)}")
                status = server.status()
                if setting == "on":
                    expect(find_in_memory(status["pid"], needles), set(), "the master has")
                    expect(find_in_memory(status["logger"]["pid"], needles), set(), "the logger has")
                    expect(len(find_in_memory(keys_pid(server), needles)) >= 3, True, "the keys process has keys")
                else:
                    expect(keys_pid(server), 0, "a keys process")


@test
def all_kinds_of_keys_sign_for_both_versions(bench):
    run("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=ed",
        "-addext", "subjectAltName=DNS:ed.example", "-keyout", bench.path("ed.key"), "-out", bench.path("ed.pem"))
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-days", "2",
        "-subj", "/CN=p384", "-addext", "subjectAltName=DNS:p384.example", "-keyout", bench.path("p384.key"),
        "-out", bench.path("p384.pem"))
    ecdsa, pss, pkcs1 = r"ECDSA|ecdsa_\w+", r"RSA-PSS|rsa_pss_\w+", r"RSA|rsa_pkcs1_\w+"  # of OpenSSL 3.0 and 3.5
    for setting in ("on", "off"):
        with bench.start("ec", "rsa", "ed", "p384", tls__keys_process=setting) as server:
            for version in ("-tls1_2", "-tls1_3"):
                for words, wanted in (("-servername localhost -sigalgs ECDSA+SHA256", ecdsa),
                                      ("-servername localhost -sigalgs ECDSA+SHA384", ecdsa),
                                      ("-servername localhost -sigalgs RSA-PSS+SHA256", pss),
                                      ("-servername localhost -sigalgs RSA-PSS+SHA512", pss),
                                      ("-servername localhost -sigalgs RSA+SHA256", pkcs1),
                                      ("-servername ed.example -sigalgs ed25519", "ed25519"),
                                      ("-servername p384.example -sigalgs ECDSA+SHA384", ecdsa)):
                    if wanted == pkcs1 and version == "-tls1_3":
                        continue
                    if version == "-tls1_3" and words.startswith("-servername localhost -sigalgs ECDSA+SHA384"):
                        continue  # there the name of the algorithm includes the curve
                    said = server.probe(version, *words.split())
                    expect(re.search(rf"^Peer signature type: ({wanted})$", said, re.MULTILINE) is not None, True,
                           f"{setting}: {version} {words}: {wanted} is in {said}")


@test
def keys_process_killed_under_load_loses_only_handshakes_under_way(bench):
    """Handshakes go on afterwards; open connections and resumed sessions do not notice."""
    failures, stop, done = [], threading.Event(), [0]
    killed = [0]  # odd from the signal to the end of the process
    with bench.start("ec", "rsa", workers__processes="2", workers__threads="2") as server:
        open_one = Exchange(server.connect())

        def load():
            while not stop.is_set():
                before = killed[0]
                try:
                    with server.connect() as stream:
                        expect(Exchange(stream).get("small.txt")[0], 200, "a response")
                    done[0] += 1
                except Exception as error:  # pylint: disable=broad-except
                    if before == killed[0] and before % 2 == 0:
                        failures.append(repr(error))
                time.sleep(0.01)
        threads = [threading.Thread(target=load) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(4):
                reached = done[0] + 30
                until(lambda: done[0] >= reached, "handshakes")
                pid = keys_pid(server)
                killed[0] += 1
                kill(pid)
                killed[0] += 1
                expect(open_one.get("small.txt")[0], 200, "a response on the open connection")
                another_keys_pid(server, pid)
            reached = done[0] + 30
            until(lambda: done[0] >= reached, "handshakes after the last one")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        expect(failures, [], "handshakes that failed without a kill")
        until(lambda: re.search(r"the keys process \(pid \d+\) was killed by signal 9", server.output()), "the error log")


@test
def handshakes_wait_for_a_stopped_keys_process(bench):
    """The loop does not: other connections and resumptions of its only thread go on."""
    path = bench.path("waiting-session")
    with bench.start(workers__processes="1", workers__threads="1", connections__header_timeout="1h") as server:
        full(server, "-tls1_3", path)
        open_one = Exchange(server.connect())
        pid = keys_pid(server)
        os.kill(pid, signal.SIGSTOP)
        until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "T", "a stopped process")
        results = []

        def wait():
            with server.connect() as stream:
                results.append(Exchange(stream).get("small.txt")[0])
        threads = [threading.Thread(target=wait) for _ in range(3)]
        opened = server.metric("tls_open")
        for thread in threads:
            thread.start()
        until(lambda: server.metric("tls_open") == opened + 3, "three handshakes that wait")
        for _ in range(3):
            expect(open_one.get("small.txt")[0], 200, "a response on the open connection")
            expect(is_resumed(server, "-tls1_3", path), True, "a resumed session")
        expect(results, [], "full handshakes while the keys process is stopped")
        os.kill(pid, signal.SIGCONT)
        for thread in threads:
            thread.join()
        expect(results, [200] * 3, "responses after it continues")


@test
def handshakes_that_wait_too_long_fail(bench):
    with bench.start(connections__header_timeout="3s", workers__processes="1") as server:
        pid = keys_pid(server)
        os.kill(pid, signal.SIGSTOP)
        try:
            server.connect().close()
            raise AssertionError("a handshake without a signature")
        except OSError as error:
            expect_in("alert internal error", str(error).lower(), "the client's error")
        until(lambda: server.metric("tls_failed_other") >= 1, "the count of failed handshakes")
        os.kill(pid, signal.SIGCONT)
        handshakes(server, 1)


@test
def clients_that_leave_while_their_handshake_waits_harm_nobody(bench):
    with bench.start(workers__processes="1", workers__threads="1", connections__header_timeout="1h") as server:
        pid = keys_pid(server)
        os.kill(pid, signal.SIGSTOP)
        opened = server.metric("tls_open")
        streams = []
        for _ in range(20):
            raw = server.raw()
            raw.sendall(client_hello(server))
            streams.append(raw)
        until(lambda: server.metric("tls_open") == opened + 20, "handshakes that wait")
        for number, raw in enumerate(streams):
            if number % 2 == 0:  # a reset instead of an end
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()
        os.kill(pid, signal.SIGCONT)
        server.expect_metric("tls_open", opened)
        handshakes(server, 1)


def client_hello(server):
    """What a client sends first."""
    import ssl  # pylint: disable=import-outside-toplevel
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        stream.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


@test
def hung_keys_process_is_replaced(bench):
    with bench.start(workers__heartbeat_timeout="4s", workers__processes="1") as server:
        pid = keys_pid(server)
        os.kill(pid, signal.SIGSTOP)
        another_keys_pid(server, pid)
        handshakes(server, 1)


@test
def signature_is_awaited_on_a_machine_that_has_just_booted(bench):
    """The monotonic clock shows less than header_timeout."""
    under = ["unshare", "--time", f"--monotonic={-int(time.monotonic()) + 60}", "--fork"]
    if subprocess.run([*under, "true"], check=False, capture_output=True).returncode != 0:
        print("skipped: no time namespace")
        return
    with bench.start(under=under, connections__header_timeout="1h", workers__processes="1") as server:
        os.kill(keys_pid(server), signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            connected = pool.submit(server.connect)
            time.sleep(2.5)  # the serving threads look once a second
            os.kill(keys_pid(server), signal.SIGCONT)
            connected.result().close()


@test
def threads_and_workers_that_are_added_get_links(bench):
    with bench.start(workers__processes="1", workers__threads="1") as server:
        for words in (("threads", "4"), ("workers", "3"), ("threads", "1"), ("threads", "3"), ("restart", "all")):
            server.control(*words)
            handshakes(server, 6)
            kill(another_keys_pid(server, 0))
            handshakes(server, 6)


@test
def threads_that_replace_ended_ones_get_their_links(bench):
    """The master has sent these links before."""
    with bench.start(workers__processes="1", workers__threads="4") as server:
        server.control("threads", "1")
        server.control("threads", "4")
        handshakes(server, 16)


@test
def reload_switches_the_keys_process(bench):
    with bench.start(tls__keys_process="off") as server:
        for setting in ("on", "off", "on"):
            server.set(tls__keys_process=setting)
            server.control("reload")
            handshakes(server, 2)
            until(lambda: (keys_pid(server) != 0) == (setting == "on"), f"a keys process if {setting}")


@test
def keys_process_is_confined(bench):
    """Another user, no capability, a filter of system calls, no descriptor but its sockets."""
    with bench.start(workers__processes="1") as server:
        handshakes(server, 1)
        pid, worker = keys_pid(server), serving_pids(server, 1)[0]
        status = dict(line.split(":\t") for line in
                      pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        workers = dict(line.split(":\t") for line in
                       pathlib.Path(f"/proc/{worker}/status").read_text().splitlines() if ":\t" in line)
        for name in ("Uid", "Gid", "CapEff", "NoNewPrivs", "Seccomp", "Threads"):
            if name != "Threads":
                expect(status[name], workers[name], f"{name} of the keys process and of a worker")
        expect(int(status["CapEff"], 16) if os.geteuid() == 0 else 0, 0, "capabilities")
        if os.geteuid() == 0:
            for target in open_files(pid):
                known = target.startswith(("socket:", "anon_inode:", "/dev/null", "pipe:")) \
                    or target == str(server.directory / "said")  # without a sandbox
                expect(known, True, f"a descriptor of the keys process: {target}")
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            expect("/dev/shm/webserverd" in maps, False, "the shared memory in its address space")


MESSAGES = pathlib.Path(__file__).parents[3] / "daemon/base/messages.def"
KINDS = re.findall(r"^MESSAGE\((\w+),", MESSAGES.read_text(), re.MULTILINE)
PIDFD_OPEN, PIDFD_GETFD = 434, 438


def sockets(pid):
    """The inode numbers of the sockets of a process."""
    return {int(path[8:-1]) for path in open_files(pid) if path.startswith("socket:")}


def borrow_links(pid, keys):
    """
    Copies of the sockets of a worker that lead to the keys process: the ends of a pair nearly always have neighbouring
    inode numbers.
    """
    others = sockets(keys)
    call = ctypes.CDLL(None, use_errno=True).syscall
    process, found = call(PIDFD_OPEN, pid, 0), []
    for fd in sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd")):
        copy = call(PIDFD_GETFD, process, fd, 0)
        if copy >= 0 and stat.S_ISSOCK(os.fstat(copy).st_mode):
            stream = socket.socket(fileno=copy)
            inode = os.fstat(copy).st_ino
            if {inode - 1, inode + 1} & others:
                found.append(stream)
        elif copy >= 0:
            os.close(copy)
    os.close(process)
    return found


def worker_with_links(server, keys):
    """The worker, and its links. A worker whose links cannot be told from its channels is replaced."""
    while True:
        handshakes(server, 1)  # so it has started, and closed what it inherited
        worker = worker_pids(server)[0]
        links = borrow_links(worker, keys)
        if links:
            return worker, links
        os.kill(worker, signal.SIGKILL)
        until(lambda: worker_pids(server) not in ([], [worker]), "another worker")


TLS13 = b" " * 64 + b"TLS 1.3, server CertificateVerify\0" + bytes(32)
TLS12 = bytes(56) + b"DOWNGRD\x01\x03\x00\x1d\x20" + bytes(32)
CERTIFICATE_REQUEST = b"\x30\x62\x02\x01\x00" + TLS12[5:66] + b"\x16\x20" + bytes(32)  # begins as one, on an unknown curve


def request(key, scheme, content, kind="SIGN"):
    return struct.pack("=qQII", KINDS.index(kind), 2 ** 60, key, scheme) + content


# More of them: tests/unit/daemon/keys
INVALID = (
    (request(0, 0x0403, TLS13.replace(b"server", b"client")), "the text of a client"),
    (request(0, 0x0403, CERTIFICATE_REQUEST), "a certificate request"),
    (request(2, 0x0403, TLS13), "an unknown key"),
    (request(0, 0x0804, TLS13), "a scheme of another key"),
    (request(0, 0x0403, TLS13 * 10), "too much"),
    (request(0, 0x0403, TLS13, "KEYS_PING"), "a message of the master"),
    (b"x" * 11, "no message"))


REPLACING = "sent the keys process an invalid request: replacing it"


@test
def worker_that_requests_another_signature_is_replaced(bench):
    """The keys process signs nothing but handshakes, and survives."""
    if os.geteuid() != 0:
        return
    with bench.start("ec", "rsa", workers__processes="1", workers__threads="1") as server:
        for words, what in INVALID:
            handshakes(server, 1)
            keys = keys_pid(server)
            worker, links = worker_with_links(server, keys)
            links[0].send(request(0, 0x0403, TLS13))  # a valid one, whose answer the worker ignores
            links[0].send(request(1, 0x0804, TLS12))
            handshakes(server, 1)
            expect(worker_pids(server), [worker], f"the worker before {what}")
            messages = server.output().count(REPLACING)
            links[0].send(words)
            until(lambda before=worker: has_ended(before), f"the end of the worker after {what}")
            for link in links:
                link.close()
            handshakes(server, 1)
            expect(keys_pid(server), keys, f"the keys process after {what}")
            until(lambda before=messages: server.output().count(REPLACING) > before, f"the message about {what}")
            time.sleep(1)  # REPLACE_PAUSE_NS of auxiliary.c
