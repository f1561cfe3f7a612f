/*
 * webserverd-acme, which the master starts: obtains the certificates of [acme] hosts, one after the
 * other, and renews them. It has the sandbox of its own role: it can connect and write below its
 * state directory, but reads no site and talks to no worker. Its options are those that
 * execute_program() of daemon/acme/process.c passes.
 */
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/acme/internal.h"
#include "daemon/acme/state.h"
#include "daemon/base/directory.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/config/acme.h"
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { NICER = 10, WHY = 512, LOCK_WAIT_MS = 500, CLOCK_MS = 1000, IDLE_S = 60, READABLE_MAX = 16 };

#define RESOLVER "/etc/resolv.conf"

struct program {
    struct acme acme;
    int channel; /* a descriptor that the master has passed */
    struct certificate *certificate;
    size_t certificate_count;
    int lock;
    uint32_t key_change; /* the last one that the master requested and has ended */
    uint64_t decide_ns;  /* when to ask the authority which key is the account's, monotonic */
};

/* The sandbox */

/*
 * Opens the files and directories with the system's settings of names and certificates, not those
 * with keys. Returns their number.
 */
static size_t open_readable(int *paths)
{
    static const char *const usual[] = {RESOLVER,
                                        "/etc/hosts",
                                        "/etc/host.conf",
                                        "/etc/nsswitch.conf",
                                        "/etc/gai.conf",
                                        "/etc/services",
                                        "/etc/localtime",
                                        "/etc/ld.so.cache",
                                        "/etc/ssl/openssl.cnf",
                                        "/etc/ssl/certs",
                                        "/usr/lib/ssl",
                                        "/usr/share/ca-certificates",
                                        "/usr/local/share/ca-certificates"};
    char resolver[PATH_MAX];
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++) {
        paths[count] = open(usual[i], O_PATH | O_CLOEXEC);
        count += paths[count] >= 0;
    }
    /* Perhaps a link to a file in a directory of its own, below /run, which others replace. */
    if (realpath(RESOLVER, resolver) != NULL && strcmp(resolver, RESOLVER) != 0) {
        *strrchr(resolver, '/') = '\0';
        paths[count] = open(resolver, O_PATH | O_DIRECTORY | O_CLOEXEC);
        count += paths[count] >= 0;
    }
    return count;
}

/* Only the file that was there at the start may be read, none that has replaced it. */
static bool resolver_is_readable(void)
{
    int fd = open(RESOLVER, O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd >= 0 || errno != EACCES;
}

static int enter_acme_sandbox(const struct program *program)
{
    static const struct rlimit none = {0, 0};
    const struct acme_settings *settings = &program->acme.settings;
    const struct config identity = {.server_user = settings->user,
                                    .server_group = settings->group,
                                    .server_jail = settings->without_jail ? JAIL_OFF : JAIL_ON};
    int readable[READABLE_MAX];
    size_t count = open_readable(readable);
    const int keep[] = {program->channel, program->acme.directory};
    const struct sandbox_setup sandbox = {.role = SANDBOX_ACME,
                                          .config = &identity,
                                          .roots = readable,
                                          .root_count = count,
                                          .writable = &program->acme.directory,
                                          .keep = keep,
                                          .keep_count = ARRAY_LENGTH(keep)};
    int failed;

    /* Even without a sandbox, no other process reads its memory, which has keys in it. */
    failed = setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
                     sandbox_prepare() != 0 || sandbox_enter(&sandbox) != 0
                 ? -1
                 : 0;
    while (count > 0)
        close(readable[--count]);
    return failed;
}

/* Before the sandbox: what is in files and libraries. Returns 0, or -1 with WHY. */
static int load_files_and_libraries(struct acme *acme, char *why, size_t size)
{
    const struct acme_settings *settings = &acme->settings;
    const char *ca = "";

    acme->directory = directory_open(settings->state_dir, false, why, size);
    if (acme->directory < 0)
        return -1;
    if (settings->ca_file[0] != '\0') {
        ca = state_read(AT_FDCWD, settings->ca_file);
        if (ca == NULL) {
            snprintf(why, size, "[acme] ca_file: %s: %s", settings->ca_file, strerror(errno));
            return -1;
        }
    }
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    if (authority_init(&acme->authority, settings->directory, ca) == 0) {
        acme->authority.profile = settings->profile;
        return 0;
    }
    snprintf(why, size, "out of memory");
    return -1;
}

/* The process */

/* Another server, or the old process of a binary upgrade, may use the directory. */
static int take_lock(struct program *program)
{
    const struct acme *acme = &program->acme;
    bool reported = false;

    while ((program->lock = state_lock(acme->directory)) < 0) {
        if (!reported)
            link_log(acme->link, LEVEL_WARN, "cannot lock %s: %s; waiting",
                     acme->settings.state_dir,
                     errno == EWOULDBLOCK ? "another process uses it" : strerror(errno));
        reported = true;
        if (!link_wait(acme->link, LOCK_WAIT_MS))
            return -1;
    }
    return 0;
}

/* Ends a change of the key that an earlier process began, or one without an answer. */
static void decide_key(struct program *program)
{
    struct acme *acme = &program->acme;
    uint64_t now_ns = clock_monotonic_ns();

    if (acme->next_key == NULL || now_ns < program->decide_ns)
        return;
    program->decide_ns = now_ns + acme->settings.retry_ms * NS_PER_MS;
    if (account_open(acme) != 0 && link_pulse(acme->link))
        link_log(acme->link, LEVEL_WARN, "it is not known which key the account has: %s",
                 acme->authority.why);
}

/* Changes the key of the account if the master has requested it. */
static void handle_account(struct program *program)
{
    struct acme *acme = &program->acme;
    uint32_t requested = link_key_change(acme->link);
    struct message_acme_key_changed changed = {0};
    int failed;

    if (requested == program->key_change) {
        decide_key(program);
        return;
    }
    failed = account_change_key(acme);
    if (!link_pulse(acme->link)) /* the server stops */
        return;
    program->key_change = requested;
    if (failed != 0)
        link_log(acme->link, LEVEL_WARN, "the key of the account is not replaced: %s",
                 acme->authority.why);
    changed.change = requested;
    snprintf(changed.error, sizeof(changed.error), "%s", failed != 0 ? acme->authority.why : "");
    link_report(acme->link, MESSAGE_ACME_KEY_CHANGED, &changed, sizeof(changed));
}

static bool others_wait(const struct program *program, size_t number)
{
    for (size_t i = 0; i < program->certificate_count; i++)
        if (i != number && certificate_is_due(&program->certificate[i], &program->acme))
            return true;
    return false;
}

/*
 * Requests what is due, until the master has gone. The clock may be set at any time: it is read
 * each second.
 */
static void obtain_certificates(struct program *program)
{
    struct acme *acme = &program->acme;
    bool ended = false, readable = resolver_is_readable();

    while (!ended) {
        if (readable && !resolver_is_readable()) {
            link_log(acme->link, LEVEL_INFO, "%s is another file: starting again to read it",
                     RESOLVER);
            return;
        }
        acme->authority.limit_s = 0;
        acme->authority.unreachable = false;
        handle_account(program);
        for (size_t i = 0; i < program->certificate_count && !ended; i++) {
            certificate_handle(&program->certificate[i], acme, others_wait(program, i));
            ended = !link_pulse(acme->link);
        }
        if (!ended)
            ended = !link_wait_for_request(acme->link, CLOCK_MS);
    }
}

/* Returns the exit status. */
static int run_program(struct program *program)
{
    struct acme *acme = &program->acme;
    char why[WHY] = "";
    int failed = load_files_and_libraries(acme, why, sizeof(why));

    if (enter_acme_sandbox(program) != 0)
        return EXIT_FAILURE;
    acme->link = link_new(program->channel); /* the sandbox closes all others */
    if (acme->link == NULL)
        return EXIT_FAILURE;
    if (failed != 0) {
        link_log(acme->link, LEVEL_ERROR, "no certificates: %s", why);
        while (link_wait(acme->link, IDLE_S * 1000)) /* another process would fail the same way */
            continue;
        return EXIT_FAILURE;
    }
    acme->authority.link = acme->link;
    if (take_lock(program) != 0)
        return EXIT_SUCCESS;
    /*
     * Until there is space for the account's files, or the administrator has removed what is wrong.
     */
    while (account_load(acme) != 0)
        if (!link_wait(acme->link, IDLE_S * 1000))
            return EXIT_SUCCESS;
    program->certificate = calloc(acme->settings.name_count, sizeof(*program->certificate));
    if (program->certificate == NULL)
        return EXIT_FAILURE;
    program->certificate_count = acme->settings.name_count;
    for (size_t i = 0; i < program->certificate_count; i++)
        certificate_init(&program->certificate[i], acme, (uint32_t)i);
    obtain_certificates(program);
    free(program->certificate);
    account_free(acme);
    authority_free(&acme->authority);
    link_free(acme->link);
    return EXIT_SUCCESS;
}

/* The command line */

static int read_descriptor(const char *text)
{
    char *end;
    long fd = strtol(text, &end, 10);

    return *end == '\0' && fd > STDERR_FILENO && fd <= INT_MAX &&
                   fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0
               ? (int)fd
               : -1;
}

/* Not an option, which other users could read. The sandbox overwrites the environment. */
static void read_secret(struct acme_settings *settings)
{
    const char *key = getenv(ACME_EAB_KEY_VARIABLE);
    char *copy = key != NULL ? strdup(key) : NULL;

    if (copy != NULL)
        settings->eab_key = copy;
}

/* Returns 0, or -1: not as the master writes it. */
static int read_options(struct program *program, int argc, char **argv)
{
    static const struct option options[] = {
        {"channel", required_argument, NULL, 'c'},   {"user", required_argument, NULL, 'u'},
        {"group", required_argument, NULL, 'g'},     {"no-jail", no_argument, NULL, 'j'},
        {"state-dir", required_argument, NULL, 's'}, {"ca-file", required_argument, NULL, 'a'},
        {"directory", required_argument, NULL, 'd'}, {"email", required_argument, NULL, 'e'},
        {"rsa2048", no_argument, NULL, 'k'},         {"retry-ms", required_argument, NULL, 'r'},
        {"challenge", required_argument, NULL, 'h'}, {"profile", required_argument, NULL, 'p'},
        {"eab-kid", required_argument, NULL, 'b'},   {NULL, 0, NULL, 0}};
    struct acme_settings *settings = &program->acme.settings;
    int option;

    program->channel = -1;
    *settings = (struct acme_settings){.user = "",
                                       .group = "",
                                       .ca_file = "",
                                       .email = "",
                                       .state_dir = "",
                                       .directory = "",
                                       .profile = "",
                                       .eab_kid = "",
                                       .eab_key = ""};
    read_secret(settings);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 'c':
            program->channel = read_descriptor(optarg);
            break;
        case 'u':
            settings->user = optarg;
            break;
        case 'g':
            settings->group = optarg;
            break;
        case 'j':
            settings->without_jail = true;
            break;
        case 's':
            settings->state_dir = optarg;
            break;
        case 'a':
            settings->ca_file = optarg;
            break;
        case 'd':
            settings->directory = optarg;
            break;
        case 'e':
            settings->email = optarg;
            break;
        case 'k':
            settings->key = ACME_KEY_RSA2048;
            break;
        case 'r':
            settings->retry_ms = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'p':
            settings->profile = optarg;
            break;
        case 'b':
            settings->eab_kid = optarg;
            break;
        case 'h':
            for (enum challenge_kind kind = 0; kind < CHALLENGE_KINDS; kind++)
                if (strcmp(optarg, config_acme_challenge_name(kind)) == 0 &&
                    settings->challenge_count < CHALLENGE_KINDS)
                    settings->challenge[settings->challenge_count++] = kind;
            break;
        default:
            return -1;
        }
    settings->name = argv + optind;
    settings->name_count = (size_t)(argc - optind);
    return program->channel >= 0 && settings->challenge_count > 0 && settings->name_count > 0 &&
                   settings->name_count <= ACME_NAMES_MAX
               ? 0
               : -1;
}

/* _exit(): a thread of libcurl may still resolve a name. */
int main(int argc, char **argv)
{
    struct program program = {0};

    prctl(PR_SET_NAME, "webserverd-acme");
    /* A certificate can wait; requests that need the same cores cannot. */
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICER);
    events_set_role(ROLE_ACME);
    signals_ignore_in_child();
    if (read_options(&program, argc, argv) != 0) {
        fputs("webserverd-acme: webserverd starts this program: see [acme] in webserver.ini(5)\n",
              stderr);
        return 2;
    }
    _exit(run_program(&program));
}
