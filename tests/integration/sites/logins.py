"""[access] with users: Basic authentication with files of htpasswd and with fixed ones."""
import base64
import os
import shutil
import subprocess
import threading

from site_server import VERSIONS, SiteServer, expect, expect_in, run, test, until

# Made by htpasswd; the password is "pass word".
HASHES = {
    "bcrypt": "$2y$04$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2",
    "sha256": "$5$dD8YeXtIU8mGvbn7$rnNFDsBqL6or4htTyWweiHoeySwQl/jVIapfrWeEQf7",
    "sha512": "$6$rounds=1000$bKss4EGV6XhdxUmJ$e/fqQxOCwy5MSJTMsIsPI.R.VtpnkTRiNIEBhlT9flMTZJ4WdTSThnSOoBXvCVO4k1voeAEYbEnL"
              "17SKPwpqo1",
}
RULES = """
[access /private]
realm = Staff only
users = @/users
[access /inner]
deny = 127.0.0.2
users = users
"""


def write_users(server, lines, name="users", mode=0o600):
    server.put(name, "".join(f"{line}\n" for line in lines))
    os.chmod(server.directory / name, mode)


def login(server, target, user, password, **more):
    return server.get(target, login=(user, password), **more)


def total(server, name):
    return server.status()["metrics"][name]


def staff(bench, text=RULES):
    server = SiteServer(bench, text)
    write_users(server, [f"{name}:{value}" for name, value in HASHES.items()])
    for path in ("private/a", "inner/a", "open"):
        server.put(f"www/{path}", path)
    return server


@test
def passwords_of_each_kind_are_verified(bench):
    with staff(bench) as server:
        for version in VERSIONS:
            expect(server.get("/open", version=version).status, 200, "a path without users")
            for user in HASHES:
                for _ in range(3):  # by the thread for passwords, then from memory
                    response = login(server, "/private/a", user, "pass word", version=version)
                    expect((response.status, response.body), (200, b"private/a"), f"{user}, HTTP/{version}")
                expect(login(server, "/inner/a", user, "pass word", version=version).status, 200, "the same users")
                expect(login(server, "/inner/a", user, "pass word", source="127.0.0.2", version=version).status, 403,
                       "address and password")
                expect(login(server, "/private/none", user, "pass word", version=version).status, 404, "missing")
        expect_in("[access /private]\nrealm = Staff only\nusers = ", run(*server.command("-T")), "-T")
        expect(total(server, "logins_failed"), 0, "failures")


@test
def file_of_another_rule_needs_its_users_too(bench):
    """Ann is in both files, Bob in the one of the path only."""
    rules = "[limits]\nfailed_logins = 0\n[files]\nfallback = /app/index.html\n[access /d]\nusers = @/users\n[access /d/index.html]\nusers = @/more\n" \
            "[access /app]\nusers = @/more\nrealm = More\n[access /errors]\nusers = @/more\n"
    server = SiteServer(bench, rules)
    write_users(server, [f"ann:{HASHES['bcrypt']}", f"bob:{HASHES['sha256']}"])
    write_users(server, [f"ann:{HASHES['bcrypt']}"], "more")
    for path in ("d/index.html", "d/f", "app/index.html", "errors/404.html"):
        server.put(f"www/{path}", path)
    with server:
        for version in VERSIONS:
            for _ in range(3):  # after another client got the file
                for target, user, status, body in (
                        ("/d/", "ann", 200, "d/index.html"), ("/d/", "bob", 401, None), ("/d/f", "bob", 200, "d/f"),
                        ("/d/f", "ann", 200, "d/f"), ("/route", "ann", 200, "app/index.html"), ("/route", "bob", 401, None),
                        ("/none.txt", "ann", 404, None)):
                    response = login(server, target, user, "pass word", version=version)
                    expect(response.status, status, f"{target} for {user}, HTTP/{version}")
                    expect(body or "<!DOCTYPE html>", response.body.decode()[:len(body or "<!DOCTYPE html>")], target)
                for target in ("/d/", "/d/index.html", "/route"):
                    expect(server.get(target, version=version).status, 401, f"{target} without a password, HTTP/{version}")
        expect_in("More", server.get("/route")["www-authenticate"], "the realm of the file")


@test
def wrong_credentials_are_answered_401(bench):
    with staff(bench, "[limits]\nfailed_logins = 0\n" + RULES) as server:
        for version in VERSIONS:
            for path in ("/private/a", "/private", "/private/", "/private/none", "/%70rivate/a", "/x/../private/a"):
                response = server.get(path, version=version)
                expect((response.status, response["www-authenticate"]), (401, 'Basic realm="Staff only", charset="UTF-8"'),
                       path)
                expect(response["cache-control"], "no-store", path)
            expect(server.get("/inner/a", version=version)["www-authenticate"], 'Basic realm="Restricted", charset="UTF-8"',
                   "the default realm")
            for user, password in (("bcrypt", "pass worc"), ("bcrypt", ""), ("bcrypt", "pass word "), ("bcryp", "pass word"),
                                   ("", "pass word"), ("BCRYPT", "pass word"), ("sha512", HASHES["sha512"])):
                expect(login(server, "/private/a", user, password, version=version).status, 401, f"{user}:{password}")
            for value in ("Basic", "Basic x", "Bearer abc", "Basic " + base64.b64encode(b"bcrypt").decode()):
                expect(server.get("/private/a", f"Authorization: {value}", version=version).status, 401, value)
            good = "Authorization: Basic " + base64.b64encode(b"bcrypt:pass word").decode()
            expect(server.get("/private/a", good, version=version).status, 200, "by a field")
            expect(server.get("/private/a", good, good, version=version).status, 401, "two fields")
        expect(total(server, "logins_failed"), 14, "failures that were verified")


@test
def user_is_logged_and_password_is_not(bench):
    with staff(bench) as server:
        login(server, "/private/a", "sha256", "pass word")
        login(server, "/private/a", "sha256", "swordfish")
        server.get("/open")
        lines = until(lambda: len(server.log().splitlines()) == 3 and server.log().splitlines(), "the log")
        expect(sorted(line.split(" [")[0] for line in lines), ["127.0.0.1 - -", "127.0.0.1 - -", "127.0.0.1 - sha256"],
               "users")  # each thread has a log ring of its own: the order is open
        for secret in ("swordfish", "pass", base64.b64encode(b"sha256:swordfish").decode()):
            expect(secret in server.log() + server.output(), False, secret)


@test
def failures_of_a_client_are_limited(bench):
    text = "[workers]\nprocesses = 1\n[limits]\nfailed_logins = 3\n" + RULES
    with staff(bench, text) as server:
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 200, "first login")
        statuses = [login(server, "/private/a", "bcrypt", f"guess {i}").status for i in range(6)]
        expect(statuses, [401, 401, 401, 429, 429, 429], "six guesses")
        response = login(server, "/private/a", "sha256", "pass word")
        expect(response.status, 429, "a right password that must be verified")
        expect(1 <= int(response["retry-after"]) <= 60, True, "Retry-After")
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 200, "a remembered password")
        expect(login(server, "/private/a", "sha256", "pass word", source="127.0.0.3").status, 200, "another client")
        expect(server.get("/private/a").status, 401, "no credentials")
        expect([total(server, name) for name in ("logins", "logins_failed", "logins_limited")], [2, 3, 4], "counters")


@test
def guesses_at_once_are_counted_before_they_are_checked(bench):
    with staff(bench, "[workers]\nprocesses = 1\nthreads = 2\n[limits]\nfailed_logins = 3\n" + RULES) as server:
        statuses = []
        threads = [threading.Thread(target=lambda i=i: statuses.append(login(server, "/private/a", "bcrypt", f"x{i}").status))
                   for i in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(sorted(statuses), [401] * 3 + [429] * 37, "40 guesses")
        expect(total(server, "logins_failed"), 3, "checked")


@test
def many_logins_at_once_are_verified_and_remembered(bench):
    server = SiteServer(bench, "[workers]\nprocesses = 1\nthreads = 2\n" + RULES)
    write_users(server, [f"u{i}:{HASHES['bcrypt']}" for i in range(500)])
    server.put("www/private/a", "a")
    with server:
        failed = []

        def visit(first):
            for i in range(first, first + 20):
                if login(server, "/private/a", f"u{i % 50}", "pass word").status != 200:
                    failed.append(i)

        threads = [threading.Thread(target=visit, args=(20 * i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(failed, [], "logins that failed")
        for i in range(50):
            login(server, "/private/a", f"u{i}", "pass word")
        before = total(server, "logins")
        for i in range(50):
            login(server, "/private/a", f"u{i}", "pass word")
        expect(total(server, "logins"), before, "verified again")


@test
def file_is_read_again_by_reload(bench):
    with staff(bench) as server:
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 200, "before")
        write_users(server, [f"new:{HASHES['sha256']}"])
        expect_in("reloaded: generation", server.reload(RULES), "reload")
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 401, "removed")
        expect(login(server, "/private/a", "new", "pass word").status, 200, "added")
        write_users(server, ["new:plain"])
        expect_in("passwords in plain text are not supported", server.reload(RULES), "a reload with a bad file")
        expect(login(server, "/private/a", "new", "pass word").status, 200, "the old users stay")


@test
def files_of_htpasswd_are_accepted_or_refused(bench):
    if not shutil.which("htpasswd"):
        return
    for options, words in (("-B", None), ("-B -C 4", None), ("-2", None), ("-5", None), ("-5 -r 1000", None),
                           ("-m", "MD5 hashes are too weak"), ("-d", "DES hashes are too weak"),
                           ("-s", "SHA-1 hashes without salt are too weak"), ("-p", "passwords in plain text")):
        server = SiteServer(bench, RULES)
        server.put("www/private/a", "a")
        file = server.directory / "users"
        subprocess.run(["htpasswd", "-cb", *options.split(), file, "ann", "pa:ss"], check=True, capture_output=True)
        os.chmod(file, 0o600)
        if words is not None:
            expect_in(f"users:1:1: error: user 'ann': {words}", server.check(), options)
            continue
        with server:
            expect(login(server, "/private/a", "ann", "pa:ss").status, 200, options)
            expect(login(server, "/private/a", "ann", "pa:sx").status, 401, options)


@test
def faults_of_users_are_reported(bench):
    for text, mode, words in (("users = none", 0o600, "none: No such file or directory"),
                              ("users =", 0o600, "no path given"), ("users = .", 0o600, "not a regular file"),
                              ("users = users\nusers = users", 0o600, "'users' is already set for this path"),
                              ("users = users", 0o604, "other users may read or change the file"),
                              ("realm = x", 0o600, "realm 'x' has no users"),
                              ('realm = a"b\nusers = users', 0o600, "the realm is not valid"),
                              ("users = www/users", 0o600, "is below a document root")):
        server = SiteServer(bench, f"[access /p]\n{text}\n")
        write_users(server, [f"a:{HASHES['bcrypt']}"], mode=mode)
        write_users(server, [f"a:{HASHES['bcrypt']}"], name="www/users")
        expect_in(words, server.check(), text)


@test
def replaced_users_file_is_used_without_a_command(bench):
    """A file with an error changes nothing, and neither does one that is missing."""
    with staff(bench) as server:
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 200, "a user at first")
        write_users(server, ["new:plain"])
        until(lambda: "configuration unchanged: " in server.output(), "the refusal")
        expect_in("passwords in plain text are not supported", server.output(), "the reason")
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 200, "the user with a faulty file")
        write_users(server, [f"new:{HASHES['bcrypt']}"])
        until(lambda: "new users files in use, generation 2" in server.output(), "the event")
        until(lambda: login(server, "/private/a", "new", "pass word").status == 200, "the new user")
        expect(login(server, "/private/a", "bcrypt", "pass word").status, 401, "the user who was removed")
        os.unlink(server.directory / "users")
        server.control("restart", "all")
        expect(login(server, "/private/a", "new", "pass word").status, 200, "the user without the file")
