"""Access logs of hosts: each line is in the log of its host, once, whatever happens to the server."""
import collections
import json
import os
import re
import signal
import socket
import threading

from site_server import PATIENCE_S, SiteServer, expect, expect_in, has_ended, run, test, until

HOSTS = """
[workers]
processes = 2
threads = 2
[host one.example]
access_log = @/one.log
[host two.example]
access_log = @/two.log
[host too.example]
access_log = @/two.log
[host main.example]
access_log = @/access.log
[host plain.example]
"""
FILE_OF = {"one.example": "one.log", "two.example": "two.log", "too.example": "two.log", "main.example": "access.log",
           "plain.example": "access.log", "unknown.example": "access.log"}
MARK = re.compile(r'"GET /\?(\S+) ')


class Requests:
    """Sends requests with marks and knows in which file each mark must be."""

    def __init__(self, server, file_of=None):
        self.server = server
        self.file_of = dict(FILE_OF if file_of is None else file_of)
        self.expected = collections.defaultdict(list)
        self.count = 0
        self.lock = threading.Lock()

    def mark(self, host):
        with self.lock:
            self.count += 1
            mark = f"{host}-{self.count}"
            if self.file_of[host] is not None:
                self.expected[self.file_of[host]].append(mark)
            return mark

    def send(self, rounds=1, port=None):
        """One connection with requests to all hosts in turn, so that their records alternate in the ring."""
        hosts = list(self.file_of) * rounds
        text = "".join(f"GET /?{self.mark(host)} HTTP/1.1\r\nHost: {host}\r\n"
                       + ("Connection: close\r\n" if i == len(hosts) - 1 else "") + "\r\n"
                       for i, host in enumerate(hosts))
        with socket.create_connection(("127.0.0.1", port or self.server.port), PATIENCE_S) as stream:
            sender = threading.Thread(target=stream.sendall, args=(text.encode(),))
            sender.start()
            answer = b"".join(iter(lambda: stream.recv(1 << 16), b""))
            sender.join()
        expect(answer.count(b"HTTP/1.1 200 OK\r\n"), len(hosts), "answers")

    def forget(self, name):
        return self.expected.pop(name)

    def expect_logged(self, names=None):
        for name in names or self.expected:
            wanted = collections.Counter(self.expected[name])
            until(lambda name=name, count=wanted.total(): len(marks(self.server, name)) >= count, f"lines of {name}")
            got = collections.Counter(marks(self.server, name))
            expect((sorted(wanted - got)[:5], sorted(got - wanted)[:5]), ([], []), f"missing and surplus lines of {name}")


def marks(server, name):
    file = server.directory / name
    return MARK.findall(file.read_text()) if file.exists() else []


def expect_metric(server, name, value):
    """Waits: a request is counted after its response, a line after it has been written."""
    until(lambda: metric(server, name) == value, f"{name} = {value}, not {metric(server, name)}")


def metric(server, name):
    return server.status()["metrics"][name]


def logger_of(server):
    return server.status()["logger"]["pid"]


def new_logger(server, before):
    return until(lambda: logger_of(server) not in (0, before), "another logger")


@test
def lines_are_in_the_logs_of_their_hosts(bench):
    with SiteServer(bench, HOSTS) as server:
        requests = Requests(server)
        for _ in range(5):
            requests.send(100)
        requests.expect_logged()
        expect_metric(server, "log_lines", requests.count)
        expect_metric(server, "requests", requests.count)
        expect_metric(server, "log_bytes", sum((server.directory / name).stat().st_size for name in requests.expected))
        expect(oct((server.directory / "one.log").stat().st_mode & 0o777), "0o640", "mode of one.log")


@test
def host_without_a_log_writes_no_lines(bench):
    with SiteServer(bench, HOSTS + "[host off.example]\naccess_log = off\n") as server:
        requests = Requests(server, FILE_OF | {"off.example": None})
        requests.send(20)
        requests.expect_logged()
        expect_metric(server, "requests", requests.count)
        expect_metric(server, "log_lines", sum(len(list_) for list_ in requests.expected.values()))
        expect((server.directory / "off").exists(), False, "a file off")


@test
def host_has_a_log_although_all_others_have_none(bench):
    server = SiteServer(bench, HOSTS)
    text = HOSTS.replace("access_log = @/access.log\n", "") + "[log]\naccess = off\n"
    (server.directory / "webserver.ini").write_text(
        (server.directory / "webserver.ini").read_text().split("[log]")[0] + text.replace("@", str(server.directory)))
    with server:
        requests = Requests(server, {host: None if file == "access.log" else file for host, file in FILE_OF.items()})
        requests.send(20)
        requests.expect_logged()
        expect_metric(server, "requests", requests.count)
        expect_metric(server, "log_lines", sum(len(list_) for list_ in requests.expected.values()))
        expect((server.directory / "access.log").exists(), False, "access.log")


def rotate(server, how):
    for name in ("one.log", "access.log"):
        (server.directory / name).rename(server.directory / f"{name}.{how}")
    if how == "command":
        server.control("reopen-logs")
    else:
        server.process.send_signal(signal.SIGUSR1)
    until(lambda: all((server.directory / name).exists() for name in ("one.log", "access.log")), "new files")
    reply = json.loads(server.control("reopen-logs", "--json"))  # answers when the logger has the files
    expect(reply["hosts"], sorted(str(server.directory / name) for name in set(FILE_OF.values()) - {"access.log"}),
           "files of hosts")


@test
def rotated_logs_of_hosts_are_opened_again(bench):
    with SiteServer(bench, HOSTS) as server:
        requests = Requests(server)
        for how in ("command", "signal"):
            requests.send(5)
            requests.expect_logged()
            rotate(server, how)
            for name in ("one.log", "access.log"):
                requests.expected[f"{name}.{how}"] = requests.forget(name)
        requests.send(5)
        requests.expect_logged()


@test
def full_disk_of_one_host_holds_up_no_other(bench):
    """/dev/full takes nothing. The rings are small, so that waiting for it would hold up the requests."""
    text = HOSTS.replace("@/one.log", "/dev/full") + "[log]\nring = 64K\nwait_timeout = 1h\n"
    with SiteServer(bench, text) as server:
        requests = Requests(server, FILE_OF | {"one.example": None})
        requests.send(1000)
        requests.expect_logged()
        expect_metric(server, "log_lost", 1000)
        expect_metric(server, "log_lines", requests.count - 1000)
        expect(metric(server, "log_dropped"), 0, "dropped lines")
        until(lambda: "cannot write the access log /dev/full" in server.output(), "the event")
        expect(server.output().count("cannot write the access log /dev/full"), 1, "events")


@test
def killed_logger_neither_loses_nor_repeats_lines_of_hosts(bench):
    with SiteServer(bench, HOSTS + "[log]\nring = 64K\nwait_timeout = 1h\n") as server:
        requests = Requests(server)
        done = threading.Event()
        failed = []

        def load():
            try:
                while not done.wait(0.01):
                    requests.send(20)
            except (AssertionError, OSError) as error:
                failed.append(error)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                logger, lines = logger_of(server), metric(server, "log_lines")
                until(lambda lines=lines: metric(server, "log_lines") > lines, "more lines")
                os.kill(logger, signal.SIGKILL)
                new_logger(server, logger)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        expect(failed, [], "failures")
        requests.expect_logged()
        expect_metric(server, "log_lines", requests.count)


@test
def next_server_writes_the_lines_of_a_killed_one_to_the_logs_of_hosts(bench):
    server = SiteServer(bench, HOSTS + "[log]\nring = 1M\n")
    requests = Requests(server)
    with server:
        logger = logger_of(server)
        os.kill(logger, signal.SIGSTOP)
        requests.send(100)
        status = server.status()
        pids = [status["pid"], logger] + [worker["pid"] for worker in status["workers"]["list"]]
        for pid in pids:  # the master first, or it starts others
            os.kill(pid, signal.SIGKILL)
        until(lambda: all(has_ended(pid) for pid in pids), "end of all processes")
        server.process.wait(PATIENCE_S)
        expect([marks(server, name) for name in requests.expected], [[], [], []], "lines of a stopped logger")
        # Another order gives the hosts other entries and targets.
        server.write("[host three.example]\naccess_log = @/a.log\n" + HOSTS)
        with server:
            requests.expect_logged()
            expect(marks(server, "a.log"), [], "lines of a new host")
        server.process = type("Ended", (), {"terminate": lambda self: None, "wait": lambda self, time: 0})()


def reload_logs(server, text, what):
    """Waits until a logger serves that has the new files: the former one may still write to its own."""
    before = logger_of(server)
    expect_in("reloaded", server.reload(text), what)
    new_logger(server, before)


@test
def reload_adds_changes_and_removes_logs_of_hosts(bench):
    with SiteServer(bench, HOSTS) as server:
        requests = Requests(server)
        requests.send(5)
        reload_logs(server, HOSTS.replace("one.log", "uno.log") + "[host new.example]\naccess_log = @/new.log\n", "a change")
        requests.file_of |= {"one.example": "uno.log", "new.example": "new.log"}
        requests.send(5)
        requests.expect_logged()
        reload_logs(server, HOSTS.split("[host")[0] + "[host one.example]\naccess_log = off\n", "removal")
        requests.file_of = dict.fromkeys(requests.file_of, "access.log") | {"one.example": None}
        requests.send(5)
        requests.expect_logged()
        reload_logs(server, HOSTS, "as before")
        requests.file_of = dict(FILE_OF)
        requests.send(5)
        requests.expect_logged()
        expect_in("/nowhere/one.log of a [host]: No such file",
                  server.reload(HOSTS.replace("@/one.log", "/nowhere/one.log")), "a file that cannot be opened")
        requests.send(5)
        requests.expect_logged()


@test
def reload_with_more_logs_than_entries_is_refused(bench):
    with SiteServer(bench, HOSTS) as server:
        for i in range(100):
            (server.directory / str(i)).mkdir()
        many = "".join(f"[host h{i}.example]\naccess_log = @/{i}/log\n" for i in range(100))
        expect_in("cannot have an access_log: the table of hosts has 64 entries", server.reload(HOSTS + many), "reload")
        requests = Requests(server)
        requests.send()
        requests.expect_logged()


@test
def upgrade_keeps_the_logs_of_hosts(bench):
    with SiteServer(bench, HOSTS) as server:
        requests = Requests(server)
        requests.send(5)
        before = server.status()["pid"]
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: server.process.poll() is not None and server.status()["pid"] != before, "new master")
        requests.send(5)
        requests.expect_logged()
        pid = server.status()["pid"]
        server.control("stop")
        until(lambda: has_ended(pid), "end of the new master")


@test
def faults_of_host_logs_are_reported(bench):
    for value in ("-", "syslog:", "syslog:local0", "journald"):
        expect_in(f"the access log of a [host] cannot be '{value}'",
                  SiteServer(bench, f"[host a.example]\naccess_log = {value}\n").check(), value)
    expect_in("no path given", SiteServer(bench, "[host a.example]\naccess_log =\n").check(), "no path")
    server = SiteServer(bench, "[host a.example]\naccess_log = @/fifo\n")
    os.mkfifo(server.directory / "fifo")
    reader = os.open(server.directory / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    expect_in("a pipe or terminal can only be [log] access", run(*server.command(), check=False), "a pipe")
    os.close(reader)
    many = SiteServer(bench, "".join(f"[host h{i}.example]\naccess_log = @/{i}.log\n" for i in range(200)))
    limit = ("prlimit", "--nofile=500:500")
    for words in (("-t",), ()):
        expect_in("200 access logs of [host] sections: the master needs 848 descriptors (4 for each, and 48), but 500 "
                  "are allowed", run(*limit, *many.command(*words), check=False), "few descriptors")
    expect_in("is valid", many.check(), "enough descriptors")


@test
def many_logs_of_hosts_are_written(bench):
    file_of = {f"h{i}.example": f"{i}.log" for i in range(300)}
    with SiteServer(bench, "".join(f"[host {host}]\naccess_log = @/{file}\n" for host, file in file_of.items())) as server:
        requests = Requests(server, file_of)
        requests.send(3)
        requests.expect_logged()
