/* Output and exit status of main() for each kind of command line. The master does not run. */
#include "common/macros.h"
#include "daemon/config/options.h"
#include "daemon/sandbox/sandbox.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The main() of webserverd, which the build renames. */
int webserverd_main(int argc, char **argv);

static bool fork_fails;

pid_t __wrap_fork(void)
{
    errno = EMFILE;
    return fork_fails ? -1 : __real_fork();
}

/* Calls of main() */

struct result {
    int status;
    char out[64 * 1024], err[4096];
};

/* Redirects FD to a file in memory. Returns a duplicate of the original, for restore(). */
static int divert(int fd)
{
    int before = dup(fd), file = memfd_create("stream", MFD_CLOEXEC);

    assert_true(before >= 0 && file >= 0);
    assert_int_equal(dup2(file, fd), fd);
    close(file);
    return before;
}

/* Makes FD a duplicate of BEFORE again and closes BEFORE. TEXT receives what was written meanwhile. */
static void restore(int fd, int before, char *text, size_t size)
{
    ssize_t length = pread(fd, text, size, 0);

    dup2(before, fd);
    close(before);
    assert_in_range(length, 0, size - 1);
    text[length] = '\0';
}

/* Calls main() with the words of LINE, which blanks separate. */
static const struct result *call_main(const char *line)
{
    static struct result result;
    char program[] = "webserverd", *argv[32] = {program}, words[1024];
    int argc = 1, out, err;

    snprintf(words, sizeof(words), "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    fflush(NULL);
    out = divert(STDOUT_FILENO);
    err = divert(STDERR_FILENO);
    result.status = webserverd_main(argc, argv);
    fflush(NULL);
    restore(STDOUT_FILENO, out, result.out, sizeof(result.out));
    restore(STDERR_FILENO, err, result.err, sizeof(result.err));
    return &result;
}

/* OUT and ERR are the complete output. */
static void check(const char *line, int status, const char *out, const char *err)
{
    const struct result *result = call_main(line);

    assert_string_equal(result->err, err);
    assert_string_equal(result->out, out);
    assert_int_equal(result->status, status);
}

/* A new working directory with a configuration and a certificate */

static const char *const files[] = {"good.ini", "hosts.ini", "localhost.pem", "localhost.key"};
static char no_key[512]; /* the message if good.ini is the key */

static int enter_directory(void **state)
{
    static char directory[] = "/tmp/webserverd-main-XXXXXX";
    char path[256];
    FILE *file;

    unsetenv("XDG_RUNTIME_DIR"); /* it may be too long for a control socket */
    if (mkdtemp(directory) == NULL || chmod(directory, 0755) != 0 || chdir(directory) != 0 ||
        getcwd(path, sizeof(path)) == NULL)
        return -1;
    *state = directory;
    file = fopen(files[0], "w");
    if (file == NULL)
        return -1;
    fputs("[server]\nlisten = 127.0.0.1:0\nroot = .\n[connections]\nmax = 1234\n", file);
    fclose(file);
    file = fopen(files[1], "w");
    if (file == NULL)
        return -1;
    fputs("[server]\nlisten = 127.0.0.1:0\nroot = .\n[host a.example]\nroot = .\naccess_log = "
          "a.log\n",
          file);
    fclose(file);
    chmod(files[0], 0600); /* a key that others can read causes a warning */
    snprintf(no_key, sizeof(no_key),
             "webserverd: [tls] certificate: %s/good.ini: contains no private key in PEM format\n",
             path);
    check("-S .", EXIT_SUCCESS, "[tls]\ncertificate = ./localhost.pem\nkey = ./localhost.key\n",
          "");
    return 0;
}

static int leave_directory(void **state)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        unlink(files[i]);
    return chdir("/") == 0 ? rmdir(*state) : -1;
}

const struct test_fixture test_group_fixture = {enter_directory, leave_directory};

TEST(check_names_the_file_and_dump_prints_its_content)
{
    const struct result *result;

    check("-t -o server.listen=127.0.0.1:0", EXIT_SUCCESS,
          "webserverd: the configuration (defaults) is valid\n", "");
    check("-t -f good.ini", EXIT_SUCCESS, "webserverd: the configuration good.ini is valid\n", "");
    result = call_main("-T -f good.ini");
    assert_string_equal(result->err, "");
    assert_non_null(strstr(result->out, "\nmax = 1234\n"));
    assert_null(strstr(result->out, "webserverd: the configuration"));
    assert_int_equal(result->status, EXIT_SUCCESS);
}

TEST(check_names_addresses_that_only_root_can_open)
{
    if (geteuid() != 0)
        skip();
    check(
        "-t -o server.listen=127.0.0.1:0,127.0.0.1:80", EXIT_SUCCESS,
        "webserverd: the configuration (defaults) is valid\n"
        "note: 127.0.0.1:80: a port below 1024 needs root, CAP_NET_BIND_SERVICE or a socket of the "
        "service manager, such as webserverd.socket\n",
        "");
}

TEST(check_fails_where_a_start_would)
{
    static const struct {
        const char *option, *message;
    } faults[] = {
        {"log.access=none/access.log", "none/access.log: No such file or directory"},
        {"log.access=link.log", "link.log: it is a symbolic link"},
        {"log.access=/dev", "/dev: Is a directory"},
        {"log.error=syslog:daemon@/none/socket", "cannot open the error log"},
        {"server.listen=unix:/none/socket", "/none/socket: No such file or directory"},
        {"server.listen=127.0.0.1:9 -o metrics.listen=127.0.0.1:9", "both have 127.0.0.1:9:"},
        {"server.run_dir=none/run", "cannot create the run directory"},
        {"control.socket=none/socket", "cannot create the control socket"},
        {"server.listen=https://127.0.0.1:0 -o tls.certificate=none.pem -o log.access=none/log",
         "none.pem: No such file or directory\n"},
    };
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int taken = socket(AF_INET, SOCK_STREAM, 0);
    char line[160], message[64];

    assert_int_equal(symlink("good.ini", "link.log"), 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(taken, 1), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&address, &length), 0);
    snprintf(message, sizeof(message), "cannot listen on 127.0.0.1:%d: Address already in use",
             ntohs(address.sin_port));
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof(line), "-t -f good.ini -o %s=127.0.0.1:%d",
                 i == 0 ? "server.listen" : "metrics.listen", ntohs(address.sin_port));
        assert_non_null(strstr(call_main(line)->err, message));
    }
    close(taken);
    for (size_t i = 0; i < ARRAY_LENGTH(faults); i++) {
        snprintf(line, sizeof(line), "-t -f good.ini -o %s", faults[i].option);
        if (strstr(call_main(line)->err, faults[i].message) == NULL)
            fail_msg("%s: %s", line, call_main(line)->err);
    }
    if (geteuid() == 0) { /* the workers are another user */
        assert_int_equal(chmod(*state, 0700), 0);
        assert_non_null(strstr(call_main("-t -f good.ini")->err, "who may not enter"));
        assert_int_equal(chmod(*state, 0755), 0);
    }
    assert_int_equal(unlink("link.log"), 0);
    assert_int_equal(access("none", F_OK), -1);
    assert_int_equal(access("access.log", F_OK), -1); /* it creates nothing */
}

TEST(faulty_configuration_fails_whatever_the_action)
{
    static const char *const actions[] = {"", "-d", "-t", "-T"};

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        const struct result *result;
        char line[64];

        snprintf(line, sizeof(line), "%s -o connections.max=x", actions[i]);
        result = call_main(line);
        assert_non_null(strstr(result->err, "connections.max"));
        assert_string_equal(result->out, "");
        assert_int_equal(result->status, EXIT_FAILURE);
    }
}

static const char no_descriptors[] =
    "webserverd: 1 access log of [host] sections: the master needs 52 descriptors (4 for each, and "
    "48), but 51 are allowed (raise the limit: ulimit -n)\n";

#define TLS "-o server.listen=https://127.0.0.1:0 -o tls.certificate=localhost.pem -o tls.key="

TEST(check_reads_certificates_and_keys)
{
    static const char note[] =
        "note: %s/localhost.key: only root can read this key; a service of another user needs "
        "it as a credential (LoadCredential=), or in a group (SupplementaryGroups=)\n";
    static const char valid[] = "webserverd: the configuration (defaults) is valid\n";
    char path[256], expected[1024];

    assert_non_null(getcwd(path, sizeof(path)));
    snprintf(expected, sizeof(expected), "%s", valid);
    if (geteuid() == 0)
        snprintf(expected + strlen(valid), sizeof(expected) - strlen(valid), note, path);
    check("-t " TLS "localhost.key", EXIT_SUCCESS, expected, "");
    assert_int_equal(chmod("localhost.key", 0640), 0);
    check("-t " TLS "localhost.key", EXIT_SUCCESS, valid, "");
    check("-t " TLS "good.ini", EXIT_FAILURE, "", no_key);
    check("-T " TLS "good.ini", EXIT_FAILURE, "", no_key);
}

/* In a child, because the limit cannot be raised again. */
TEST(check_refuses_logs_without_descriptors)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        const struct rlimit few = {51, 51};

        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        check("-t -f hosts.ini", EXIT_FAILURE, "", no_descriptors);
        _exit(EXIT_SUCCESS);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/*
 * A systemctl that shows UNIT_FILES and PROPERTIES of the unit, in the working directory, which is the
 * only one in PATH. No socket unit is active.
 */
static void write_systemctl(const char *unit_files, const char *properties)
{
    FILE *file = fopen("systemctl", "w");

    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\ncase $1 in\ncat) printf '%%s' '%s' ;;\n"
            "show) printf '%%s' '%s' ;;\n*) exit 1 ;;\nesac\n",
            unit_files, properties);
    fclose(file);
    assert_int_equal(chmod("systemctl", 0755), 0);
}

/* In a child, because it becomes another user. Each expected line is in the output. */
static void check_as_service(const char *unit_files, const char *properties, const char *line,
                             int status, const char *const *expected)
{
    pid_t child;
    int ended;

    write_systemctl(unit_files, properties);
    child = fork();
    if (child == 0) {
        char path[256];
        const struct result *result;

        assert_non_null(getcwd(path, sizeof(path)));
        setenv("PATH", path, 1);
        result = call_main(line);
        for (; *expected != NULL; expected++)
            if (strstr(result->out, *expected) == NULL && strstr(result->err, *expected) == NULL)
                fail_msg("'%s' is not in:\n%s%s", *expected, result->out, result->err);
        assert_int_equal(result->status, status);
        _exit(EXIT_SUCCESS);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(unlink("systemctl"), 0);
}

#define AS_UNIT "# /lib/systemd/system/webserverd.service\n[Service]\n"

TEST(check_as_service_names_what_the_service_cannot_open)
{
    static const char *const faults[] = {
        "note: checked as webserverd.service: user daemon (1), no capabilities\n",
        "cannot listen on 127.0.0.1:79: Permission denied",
        "localhost.key: Permission denied (for a service: LoadCredential=",
        "cannot open the access log /root/access.log: Permission denied", NULL};
    static const char *const good[] = {
        "note: checked as webserverd.service: user daemon (1), capabilities CAP_NET_BIND_SERVICE, "
        "credentials a.key\n",
        "note: checked without what webserverd.service has by ProtectHome=\n", "is valid", NULL};
    static const char *const no_credential[] = {
        "LoadCredential=a.key:/none: No such file or directory: the service does not start", NULL};
    static const char *const no_path[] = {"LoadCredential=a.key: write NAME:/PATH", NULL};
    static const char *const relative[] = {"LoadCredential=a.key:none: write NAME:/PATH", NULL};
    static const char *const no_user[] = {"webserverd.service: unknown user 'nobody-knows'", NULL};
    static const char *const no_capset[] = {"leaves out capset: the service does not start", NULL};
    static const char missing[] = AS_UNIT "LoadCredential=a.key:/none\nAmbientCapabilities=\n";
    static const char daemon[] = "User=daemon\nGroup=\nDynamicUser=no\nPrivateUsers=no\n"
                                 "CapabilityBoundingSet=\nAmbientCapabilities=\n";
    static const char binds[] = "User=daemon\nAmbientCapabilities=cap_net_bind_service\n"
                                "CapabilityBoundingSet=cap_chown cap_net_bind_service\n"
                                "SystemCallFilter=capset read write\n";
    static const char filtered[] = "User=daemon\nAmbientCapabilities=cap_net_bind_service\n"
                                   "SystemCallFilter=read write\n";
    char path[256], changed[1024], long_variable[6000];

    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0)
        skip();
    assert_int_equal(chmod("localhost.key", 0600), 0);
    assert_int_equal(chmod("good.ini", 0644), 0);
    snprintf(changed, sizeof(changed), "%s# drop-in\n[Service]\nLoadCredential=\n", missing);
    check_as_service(
        changed, daemon,
        "-t --as-service -f good.ini " TLS "localhost.key -o "
        "server.listen=127.0.0.1:79,https://127.0.0.1:0 -o log.access=/root/access.log",
        EXIT_FAILURE, faults);
    assert_non_null(getcwd(path, sizeof(path)));
    snprintf(changed, sizeof(changed),
             "%s# drop-in\n[Service]\nLoadCredential=\n"
             "LoadCredential = a.key:%s/localhost.key\nProtectHome=tmpfs\n",
             missing, path);
    snprintf(long_variable, sizeof(long_variable), "%sEnvironment=LONG=%05000d\n", binds, 0);
    check_as_service(changed, long_variable,
                     "-t -A -f good.ini " TLS "/run/credentials/webserverd.service/a.key -o "
                     "server.run_dir=/none/run -o "
                     "server.listen=127.0.0.1:79,https://127.0.0.1:0 -o log.access=off",
                     EXIT_SUCCESS, good);
    check_as_service(missing, daemon, "-t -A -f good.ini", EXIT_FAILURE, no_credential);
    check_as_service(AS_UNIT "LoadCredential=a.key\n", daemon, "-t -A -f good.ini", EXIT_FAILURE,
                     no_path);
    check_as_service(AS_UNIT "LoadCredential=a.key:none\n", daemon, "-t -A -f good.ini",
                     EXIT_FAILURE, relative);
    check_as_service("", filtered, "-t -A -f good.ini", EXIT_FAILURE, no_capset);
    check_as_service("", "User=nobody-knows\n", "-t -A -f good.ini", EXIT_FAILURE, no_user);
    check("-A", OPTIONS_EXIT_USAGE, "", "webserverd: --as-service needs -t\ntry webserverd -h\n");
}

TEST(certificate_that_exists_is_not_replaced)
{
    check("-S .", EXIT_FAILURE, "",
          "webserverd: cannot create ./localhost.key: File exists (it is not replaced: remove it, "
          "or name another directory)\n");
}

TEST(version_names_the_sandbox)
{
    char sandbox[64], expected[256];

    sandbox_describe(sandbox, sizeof(sandbox));
    snprintf(expected, sizeof(expected), "webserverd %s\nsandbox of workers: %s\n",
             WEBSERVERD_VERSION, sandbox);
    check("-V", EXIT_SUCCESS, expected, "");
}

TEST(help_prints_usage_and_unknown_option_is_an_error)
{
    const struct result *result = call_main("-h");

    assert_string_equal(result->err, "");
    assert_memory_equal(result->out, "usage: webserverd ", 18);
    assert_int_equal(result->status, EXIT_SUCCESS);
    check("-z", OPTIONS_EXIT_USAGE, "", "webserverd: unknown option -z\ntry webserverd -h\n");
}

TEST(failure_to_run_in_the_background_is_reported)
{
    fork_fails = true;
    check("-d -f good.ini", EXIT_FAILURE, "",
          "webserverd: cannot run in the background: Too many open files\n");
    fork_fails = false;
}
