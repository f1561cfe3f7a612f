#include "daemon/config/internal.h"

#include "common/escape.h"
#include "common/macros.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define LETS_ENCRYPT_TERMS "https://letsencrypt.org/repository/"

static const struct {
    const char *name, *url;
} authorities[] = {
    {"production", "https://acme-v02.api.letsencrypt.org/directory"},
    {"staging", "https://acme-staging-v02.api.letsencrypt.org/directory"},
};

enum { EMAIL_MAX = 254, URL_MAX = 1024 };

const char *config_acme_directory(const struct config *config)
{
    for (size_t i = 0; i < ARRAY_LENGTH(authorities); i++)
        if (strcmp(config->acme_directory, authorities[i].name) == 0)
            return authorities[i].url;
    return config->acme_directory;
}

const char *config_acme_user(const struct config *config)
{
    static const char usual[] = "webserverd-acme";

    if (config->acme_user[0] == '\0' && geteuid() == 0 && getpwnam(usual) != NULL)
        return usual;
    return config->acme_user;
}

size_t config_acme_find(const struct config *config, struct span name)
{
    size_t i = 0;

    for (; i < config->acme_names.count; i++) {
        const char *names = config->acme_names.item[i];
        struct span one;

        while ((one = config_acme_next_name(&names)).length > 0)
            if (span_is_nocase(one, name))
                return i;
    }
    return i;
}

/* Challenges */

static bool has_plain_address(const struct config *config)
{
    for (size_t i = 0; i < config->server_listen.count; i++)
        if (!config->server_listen.item[i].tls)
            return true;
    return false;
}

size_t config_acme_challenges(const struct config *config,
                              enum challenge_kind kinds[CHALLENGE_KINDS])
{
    size_t count = 0;

    if (config->acme_challenge == ACME_CHALLENGE_HTTP_01 ||
        (config->acme_challenge == ACME_CHALLENGE_AUTO && has_plain_address(config)))
        kinds[count++] = CHALLENGE_HTTP_01;
    if (config->acme_challenge == ACME_CHALLENGE_TLS_ALPN_01 ||
        config->acme_challenge == ACME_CHALLENGE_AUTO)
        kinds[count++] = CHALLENGE_TLS_ALPN_01;
    if (config->acme_challenge == ACME_CHALLENGE_DNS_01 || config->acme_dns_hook[0] != '\0')
        kinds[count++] = CHALLENGE_DNS_01;
    return count;
}

const char *config_acme_challenge_name(enum challenge_kind kind)
{
    static const char *const names[CHALLENGE_KINDS] = {[CHALLENGE_HTTP_01] = "http-01",
                                                       [CHALLENGE_TLS_ALPN_01] = "tls-alpn-01",
                                                       [CHALLENGE_DNS_01] = "dns-01"};

    return names[kind];
}

/* Names */

bool config_acme_is_address(const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

struct span config_acme_next_name(const char **names)
{
    struct span name = {*names, strcspn(*names, " ")};

    *names += name.length + ((*names)[name.length] == ' ');
    return name;
}

void config_acme_file(const char *names, char file[ACME_NAME_MAX + 1])
{
    struct span name = config_acme_next_name(&names);

    snprintf(file, ACME_NAME_MAX + 1, "%.*s", (int)name.length, name.start);
    if (file[0] == '*')
        file[0] = '+';
}

/*
 * Why no public authority certifies NAME, or NULL. The last ones are reserved: RFC 6761, RFC 6762,
 * RFC 8375.
 */
static const char *why_not_public(const struct config *config, const char *name)
{
    static const char *const reserved[] = {".localhost", ".local",    ".test",     ".example",
                                           ".invalid",   ".internal", ".home.arpa"};
    const char *last = strrchr(name, '.');

    if (strchr(name, '*') != NULL && config->acme_dns_hook[0] == '\0')
        return "a wildcard needs a DNS record of the authority's choice: set [acme] dns_hook";
    if (last == NULL)
        return "a name without a dot is not public";
    if (strspn(last + 1, "0123456789") == strlen(last + 1))
        return "an address must be listed in [acme] hosts";
    for (size_t i = 0; i < ARRAY_LENGTH(reserved); i++)
        if (strlen(name) >= strlen(reserved[i]) &&
            strcasecmp(name + strlen(name) - strlen(reserved[i]), reserved[i]) == 0)
            return "a name in a domain that is not public";
    return NULL;
}

static bool has_certificate_name(const struct config_words *names, struct span name)
{
    for (size_t i = 0; i < names->count; i++)
        if (config_host_name_is(names->item[i], name))
            return true;
    return false;
}

/* Returns 0, or -1: out of memory. */
static int add_certificate_name(struct config_words *names, struct span name)
{
    char **grown, *copy;

    if (has_certificate_name(names, name))
        return 0;
    grown = realloc(names->item, (names->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -1;
    names->item = grown;
    copy = strndup(name.start, name.length);
    if (copy == NULL)
        return -1;
    for (size_t i = 0; i < name.length; i++)
        copy[i] = (char)tolower((unsigned char)copy[i]);
    names->item[names->count++] = copy;
    return 0;
}

/* Completing */

/* The number of the host with NAME, from 1; 0: none. */
static size_t host_with_name(const struct config *config, const char *name)
{
    struct span wanted = span_of(name);

    for (size_t i = 0; i < config->host_count; i++)
        for (size_t k = 0; k < config->hosts[i].name_count; k++)
            if (config_host_name_is(config->hosts[i].names[k], wanted))
                return i + 1;
    return 0;
}

/* Appends NAME, which it frees, to the certificate NAMES. Returns 0, or -1: out of memory. */
static int join_certificate_name(char **names, char *name)
{
    char *joined = NULL;
    int length = asprintf(&joined, "%s %s", *names, name);

    free(name);
    if (length < 0)
        return -1;
    free(*names);
    *names = joined;
    return 0;
}

/*
 * Joins the names that get one certificate. Addresses are first: a client that connects to one sends
 * no name, and gets the first certificate.
 */
static int join_certificate_names(struct config *config)
{
    struct config_words *names = &config->acme_names;
    char **item = names->item;
    size_t *host = calloc(names->count + 1, sizeof(*host)), count = 0, addresses = 0;
    int failed = host != NULL ? 0 : -1;

    for (size_t i = 0; i < names->count && failed == 0; i++)
        if (config_acme_is_address(item[i])) {
            char *name = item[i];

            memmove(item + addresses + 1, item + addresses, (i - addresses) * sizeof(*item));
            item[addresses++] = name;
        }
    for (size_t i = 0; i < names->count && failed == 0; i++) {
        size_t number = SIZE_MAX, k = 0; /* of the addresses */

        if (i >= addresses)
            number =
                config->acme_certificate_per == ACME_PER_HOST ? host_with_name(config, item[i]) : 0;
        while (k < count && (number == 0 || host[k] != number))
            k++;
        if (k < count) {
            failed = join_certificate_name(&item[k], item[i]);
        } else {
            host[count] = number;
            item[count++] = item[i];
        }
        if (i >= count)
            item[i] = NULL;
    }
    free(host);
    if (failed == 0)
        names->count = count;
    return failed;
}

/*
 * The state directory that a service manager made, or the usual one. NULL: none, or out of memory.
 */
static char *default_state_dir(void)
{
    const char *made = getenv("STATE_DIRECTORY"), *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char *path = NULL;
    int length = -1;

    if (made != NULL && made[0] == '/')
        length = asprintf(&path, "%.*s/acme", (int)strcspn(made, ":"), made);
    else if (geteuid() == 0)
        length = asprintf(&path, "/var/lib/webserverd/acme");
    else if (state != NULL && state[0] == '/')
        length = asprintf(&path, "%s/webserverd/acme", state);
    else if (home != NULL && home[0] == '/')
        length = asprintf(&path, "%s/.local/state/webserverd/acme", home);
    return length < 0 ? NULL : path;
}

void config_acme_complete(struct config_draft *draft)
{
    struct config *config = draft->config;
    struct span name = span_of(config->acme_hosts), rest;
    bool listed = name.length > 0;
    int failed = 0;

    if (!config->acme_enabled)
        return;
    if (config->acme_state_dir[0] == '\0') {
        char *path = default_state_dir();

        if (path != NULL) {
            free((void *)config->acme_state_dir);
            config->acme_state_dir = path;
        }
    }
    for (; name.length > 0 && failed == 0; name = rest) {
        config_section_split(&name, &rest);
        failed = add_certificate_name(&config->acme_names, name);
    }
    for (size_t i = 0; i < config->host_count && !listed; i++) {
        const struct config_host *host = &config->hosts[i];

        for (size_t k = 0; k < host->name_count && failed == 0; k++)
            if (!host->given[HOST_KEY_certificate] &&
                why_not_public(config, host->names[k]) == NULL)
                failed = add_certificate_name(&config->acme_names, span_of(host->names[k]));
    }
    if (failed != 0 || join_certificate_names(config) != 0)
        config_report_error(&draft->report, &draft->set_at[KEY_acme_hosts], "", "out of memory");
}

/* Checking */

static void check_email(struct config_draft *draft)
{
    const char *email = draft->config->acme_email, *at = strchr(email, '@');

    if (email[0] == '\0' || (at != NULL && at != email && at[1] != '\0' &&
                             strlen(email) <= EMAIL_MAX && strpbrk(email, " \t,;<>\"?&%") == NULL))
        return;
    config_report_error(&draft->report, &draft->set_at[KEY_acme_email],
                        "write one address, as in admin@example.org", "'%.60s' is not an address",
                        email);
}

static void check_directory_url(struct config_draft *draft)
{
    const char *url = config_acme_directory(draft->config);

    if (strncasecmp(url, "https://", strlen("https://")) == 0 && strlen(url) <= URL_MAX &&
        strpbrk(url, " \t\"<>") == NULL)
        return;
    config_report_error(
        &draft->report, &draft->set_at[KEY_acme_directory],
        "write production, staging, or a URL as in https://ca.example.org/directory",
        "'%.60s' is not the URL of an ACME directory", url);
}

static void check_listed_name(struct config_draft *draft, struct span name)
{
    const struct config_place *place = &draft->set_at[KEY_acme_hosts];
    char text[ACME_NAME_MAX + 1];
    const char *why = NULL;

    snprintf(text, sizeof(text), "%.*s", (int)name.length, name.start);
    if (config_acme_is_address(text)) {
        enum challenge_kind kinds[CHALLENGE_KINDS];

        if (config_acme_challenges(draft->config, kinds) == 0 || kinds[0] != CHALLENGE_HTTP_01)
            config_report_error(&draft->report, place,
                                "set challenge to auto or http-01, and list an address without "
                                "https://",
                                "the address %s can only be checked by http-01", text);
        return;
    }
    if (strchr(text, '*') != NULL || strchr(text, '.') == NULL ||
        strspn(text, "0123456789.") == strlen(text))
        why = strspn(text, "0123456789.") == strlen(text) ? "it is not an IP address"
                                                          : why_not_public(draft->config, text);
    if (why != NULL)
        config_report_error(&draft->report, place, "list names as in www.example.org",
                            "no certificate for '%.*s': %s", CONFIG_QUOTED(name), why);
    else if (name.length > ACME_NAME_MAX || !config_is_host_name(name))
        config_report_error(&draft->report, place,
                            "list names separated by blanks: example.org www.example.org",
                            "'%.*s' is not a host name", CONFIG_QUOTED(name));
}

static void check_certificate_names(struct config_draft *draft)
{
    const struct config *config = draft->config;
    const struct config_place *place = &draft->set_at[KEY_acme_hosts];
    struct span name = span_of(config->acme_hosts), rest;

    for (; name.length > 0; name = rest) {
        config_section_split(&name, &rest);
        check_listed_name(draft, name);
    }
    if (config->acme_names.count == 0)
        config_report_error(&draft->report, place,
                            "set hosts = www.example.org, or give a [host] section a public name",
                            "[acme] has no name to request a certificate for");
    if (config->acme_names.count > ACME_NAMES_MAX)
        config_report_error(&draft->report, place, "list fewer names in hosts",
                            "[acme] has %zu names (at most %d)", config->acme_names.count,
                            ACME_NAMES_MAX);
    for (size_t i = 0; i < config->acme_names.count; i++) {
        const char *names = config->acme_names.item[i];
        size_t count = 0;

        while (config_acme_next_name(&names).length > 0)
            count++;
        if (count > ACME_CERTIFICATE_NAMES_MAX)
            config_report_error(&draft->report, &draft->set_at[KEY_acme_certificate_per],
                                "set certificate_per = name, or list fewer names in hosts",
                                "a certificate would have %zu names (at most %d)", count,
                                ACME_CERTIFICATE_NAMES_MAX);
    }
}

/* http-01 needs an address without TLS; the certificates and tls-alpn-01 one with it. */
static void check_listen(struct config_draft *draft)
{
    const struct config *config = draft->config;
    const struct config_place *place = &draft->set_at[KEY_server_listen];

    if (draft->faulty[KEY_server_listen])
        return;
    if (!config_needs_tls(config))
        config_report_error(&draft->report, place, "list both, as in listen = *:80 https://*:443",
                            "[acme] needs an address with https:// that uses the certificates");
    else if (config->acme_challenge == ACME_CHALLENGE_HTTP_01 && !has_plain_address(config))
        config_report_error(&draft->report, place,
                            "list both, as in listen = *:80 https://*:443, or set [acme] challenge "
                            "= tls-alpn-01",
                            "[acme] challenge = http-01 needs an address without https://: the "
                            "authority connects to port 80");
}

/* A program of the administrator. */
static void check_hook(struct config_draft *draft, enum config_key_number key, const char *program)
{
    struct stat status;

    if (program[0] == '\0')
        return;
    if (stat(program, &status) != 0)
        config_report_error(&draft->report, &draft->set_at[key], "name a program", "%s: %m",
                            program);
    else if (!S_ISREG(status.st_mode) || (status.st_mode & S_IXUSR) == 0)
        config_report_error(&draft->report, &draft->set_at[key],
                            "name a program: a file that may be executed", "%s is not a program",
                            program);
    else if ((status.st_mode & S_IWOTH) != 0)
        config_report_error(&draft->report, &draft->set_at[key], "chmod o-w it",
                            "%s may be changed by every user", program);
}

static void check_hooks(struct config_draft *draft)
{
    const struct config *config = draft->config;

    check_hook(draft, KEY_acme_dns_hook, config->acme_dns_hook);
    check_hook(draft, KEY_acme_deploy_hook, config->acme_deploy_hook);
    if (config->acme_challenge == ACME_CHALLENGE_DNS_01 && config->acme_dns_hook[0] == '\0')
        config_report_error(&draft->report, &draft->set_at[KEY_acme_challenge],
                            "set dns_hook to the program that makes the DNS records",
                            "challenge = dns-01 needs a dns_hook");
}

/* Both or none of the binding. */
static void check_binding(struct config_draft *draft)
{
    static const char base64url[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=";
    const struct config *config = draft->config;

    if ((config->acme_eab_kid[0] != '\0') != (config->acme_eab_key[0] != '\0'))
        config_report_error(
            &draft->report,
            &draft->set_at[config->acme_eab_kid[0] != '\0' ? KEY_acme_eab_kid : KEY_acme_eab_key],
            "the authority gives its customers both", "%s is not set",
            config->acme_eab_kid[0] != '\0' ? "eab_key" : "eab_kid");
    if (strspn(config->acme_eab_key, base64url) != strlen(config->acme_eab_key))
        config_report_error(&draft->report, &draft->set_at[KEY_acme_eab_key],
                            "write it as the authority gives it",
                            "eab_key is not text in base64url");
}

static void check_terms(struct config_draft *draft)
{
    static const char known[] = "read " LETS_ENCRYPT_TERMS ", then set agree_to_terms = yes";
    static const char other[] = "read the terms that the authority's directory names "
                                "(meta.termsOfService), then set agree_to_terms = yes";
    bool lets_encrypt = draft->config->acme_directory != config_acme_directory(draft->config);

    if (draft->config->acme_agree_to_terms != ACME_TERMS_YES)
        config_report_error(&draft->report, &draft->set_at[KEY_acme_agree_to_terms],
                            lets_encrypt ? known : other,
                            "[acme] obtains certificates only if you agree to the authority's "
                            "terms");
}

/* Of Docker, Podman, systemd-nspawn or Kubernetes. */
static bool is_in_container(void)
{
    return getenv("container") != NULL || getenv("KUBERNETES_SERVICE_HOST") != NULL ||
           access("/.dockerenv", F_OK) == 0;
}

static void check_files(struct config_draft *draft)
{
    const struct config *config = draft->config;

    if (!draft->given[KEY_acme_state_dir] && getenv("STATE_DIRECTORY") == NULL && is_in_container())
        config_report_error(&draft->report, &draft->set_at[KEY_acme_state_dir],
                            "name a directory of a volume, such as /var/lib/webserverd/acme",
                            "[acme] needs state_dir in a container, with which account and "
                            "certificates would end");
    if (config->acme_state_dir[0] == '\0')
        config_report_error(&draft->report, &draft->set_at[KEY_acme_state_dir],
                            "set it to a directory of your own",
                            "[acme] has no directory for its files: neither STATE_DIRECTORY nor "
                            "HOME is set");
    if (config->acme_ca_file[0] != '\0' && access(config->acme_ca_file, R_OK) != 0)
        config_report_error(&draft->report, &draft->set_at[KEY_acme_ca_file],
                            "name a readable file in PEM format", "%s: %m", config->acme_ca_file);
}

void config_acme_check(struct config_draft *draft)
{
    if (!draft->config->acme_enabled)
        return;
    check_terms(draft);
    check_email(draft);
    check_directory_url(draft);
    check_certificate_names(draft);
    check_listen(draft);
    check_files(draft);
    check_hooks(draft);
    check_binding(draft);
}

/* Printing */

static void describe_host(const struct config *config, const struct config_host *host, FILE *out)
{
    for (size_t k = 0; k < host->name_count; k++) {
        struct span name = span_of(host->names[k]);
        const char *why = host->given[HOST_KEY_certificate]
                              ? "its [host] has a certificate"
                              : why_not_public(config, host->names[k]);

        if (config_acme_find(config, name) < config->acme_names.count)
            continue;
        fputs("  ", out);
        escape_print(out, host->names[k]);
        fprintf(out, ": none: %s\n", why != NULL ? why : "[acme] hosts does not list it");
    }
}

static void describe_user(const struct config *config, FILE *out)
{
    const char *user = config_acme_user(config);

    if (user[0] != '\0') {
        fputs("  if root starts the server, the account and the keys belong to user ", out);
        escape_print(out, user);
        fputc('\n', out);
    } else if (geteuid() == 0) {
        fputs("  if root starts the server, " ACME_SHARED_USER "\n", out);
    }
}

void config_acme_describe(const struct config *config, FILE *out)
{
    static const char *const checks[] = {[CHALLENGE_HTTP_01] = "connects to port 80",
                                         [CHALLENGE_TLS_ALPN_01] = "connects to port 443",
                                         [CHALLENGE_DNS_01] = "reads a DNS record"};
    enum challenge_kind kinds[CHALLENGE_KINDS];
    size_t count;

    if (!config->acme_enabled)
        return;
    count = config_acme_challenges(config, kinds);
    fputs("certificates by ACME from ", out);
    escape_print(out, config_acme_directory(config));
    fputs("; to check a name, it ", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " or " : "", checks[kinds[i]]);
    fputs(":\n", out);
    for (size_t i = 0; i < config->acme_names.count; i++) {
        fputs("  ", out);
        escape_print(out, config->acme_names.item[i]);
        fprintf(out, ": one certificate with a key of kind %s\n",
                config->acme_key == ACME_KEY_P256 ? "p256" : "rsa2048");
    }
    for (size_t i = 0; i < config->host_count; i++)
        describe_host(config, &config->hosts[i], out);
    describe_user(config, out);
}

void config_acme_free(struct config *config)
{
    for (size_t i = 0; i < config->acme_names.count; i++)
        free(config->acme_names.item[i]);
    free(config->acme_names.item);
}
