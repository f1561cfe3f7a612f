#include "daemon/config/internal.h"

#include "common/macros.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PATH_BYTES = 4096, HOST_BYTES = 256 };

#define URI_CHARACTERS                                                                             \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%"

static const char advice[] =
    "examples: 301 /new, 308 https://example.org/*, 410, try file directory /index.html 404, pass";

/* Matching */

static bool redirect_matches(const struct config_redirect *rule, const char *path, bool secure)
{
    if (rule->plain && secure)
        return false;
    return rule->below ? strncmp(path, rule->path, strlen(rule->path)) == 0
                       : strcmp(path, rule->path) == 0;
}

const struct config_redirect *redirect_find(const struct redirect_rules *rules, const char *path,
                                            bool secure)
{
    for (size_t i = 0; i < rules->count; i++)
        if (redirect_matches(rules->rule[i], path, secure))
            return rules->rule[i];
    return NULL;
}

static void add_redirect_rules(const struct config *config, const char *host,
                               struct redirect_rules *rules)
{
    for (size_t i = 0; i < config->redirect_count; i++) {
        const struct config_redirect *rule = &config->redirects[i];

        if (strcasecmp(rule->host, host) != 0)
            continue;
        rules->rule[rules->count++] = rule;
        rules->of_scheme |= rule->plain;
    }
}

int redirect_rules_of_host(const struct config *config, const struct config_host *host,
                           struct redirect_rules *rules)
{
    *rules = (struct redirect_rules){.count = 0};
    if (config->redirect_count == 0)
        return 0;
    rules->rule = calloc(config->redirect_count, sizeof(const struct config_redirect *));
    if (rules->rule == NULL)
        return -1;
    if (host != NULL)
        add_redirect_rules(config, host->names[0], rules);
    add_redirect_rules(config, "", rules);
    return 0;
}

/* Parsing */

/* The next word of TEXT, which loses it; empty at the end. */
static struct span next_redirect_word(struct span *text)
{
    struct span word = *text, rest;

    config_section_split(&word, &rest);
    *text = rest;
    return word;
}

static struct span trimmed_text(const char *text)
{
    return config_trim((struct span){text, strlen(text)});
}

static int redirect_status(struct span word)
{
    static const int statuses[] = {301, 302, 307, 308, 403, 404, 410};
    char text[4];

    if (word.length != 3)
        return 0;
    memcpy(text, word.start, 3);
    text[3] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        if (atoi(text) == statuses[i])
            return statuses[i];
    return 0;
}

static int report_word(const struct config_entry *entry, struct span word, const char *problem,
                       struct config_report *report)
{
    struct config_place place =
        config_entry_place(entry, (size_t)(word.start - entry->value), word.length);

    config_report_error(report, &place, advice, "'%.*s' %s", CONFIG_QUOTED(word), problem);
    return -1;
}

static int report_redirect_key(const struct config_entry *entry, const char *problem,
                               struct config_report *report)
{
    config_report_error(
        report, &entry->key_place,
        "write a path, as in /old or /old/*; before it http, for requests without TLS", "%s",
        problem);
    return -1;
}

/* A path that may end in a star, "http" before it. */
static int parse_from(const struct config_entry *entry, struct config_redirect *rule,
                      struct config_report *report)
{
    struct span path = entry->key, first = next_redirect_word(&path);

    rule->plain = span_is(first, SPAN("http"));
    if (!rule->plain && path.length > 0)
        return report_redirect_key(entry, "a path of [redirect] has no blank", report);
    if (!rule->plain)
        path = first;
    if (path.length == 0 || path.start[0] != '/' ||
        memmem(path.start, path.length, "//", 2) != NULL)
        return report_redirect_key(entry, "a rule of [redirect] begins with a path", report);
    rule->below = path.length >= 2 && memcmp(path.start + path.length - 2, "/*", 2) == 0;
    path.length -= rule->below;
    if (memchr(path.start, '*', path.length) != NULL)
        return report_redirect_key(entry, "only the last segment of a path can be '*'", report);
    rule->path = strndup(path.start, path.length);
    return rule->path != NULL ? 0 : -1;
}

static bool is_target(struct span word)
{
    if (span_is(word, SPAN("https:")))
        return true;
    if (!config_consists_of(word, URI_CHARACTERS))
        return false;
    if (word.start[0] == '/')
        return word.length == 1 || word.start[1] != '/';
    return (word.length > 8 && memcmp(word.start, "https://", 8) == 0 && word.start[8] != '/') ||
           (word.length > 7 && memcmp(word.start, "http://", 7) == 0 && word.start[7] != '/');
}

static int parse_target(const struct config_entry *entry, struct span word,
                        struct config_redirect *rule, struct config_report *report)
{
    const char *star = word.length > 0 ? memchr(word.start, '*', word.length) : NULL;

    if (word.length == 0 || !is_target(word))
        return report_word(entry, word,
                           "is not a target: a path, http://, https:// or https:", report);
    if (star != NULL && (star != word.start + word.length - 1 || star[-1] != '/' || !rule->below))
        return report_word(
            entry, word, "has a '*' that is not its last segment, or the path before '=' has none",
            report);
    rule->rest = star != NULL;
    rule->target = strndup(word.start, word.length - rule->rest);
    return rule->target != NULL ? 0 : -1;
}

static int parse_try(const struct config_entry *entry, struct span rest,
                     struct config_redirect *rule, struct config_report *report)
{
    struct span word;

    rule->status = 404;
    while ((word = next_redirect_word(&rest)).length > 0) {
        if (span_is(word, SPAN("file")) && rule->target == NULL) {
            rule->try_file = true;
        } else if (span_is(word, SPAN("directory")) && rule->target == NULL) {
            rule->try_directory = true;
        } else if (word.start[0] == '/' && rule->target == NULL) {
            rule->target = strndup(word.start, word.length);
        } else if (redirect_status(word) >= 400 && rest.length == 0) {
            rule->status = redirect_status(word);
        } else {
            return report_word(entry, word, "is not file, directory, one path or a last status",
                               report);
        }
    }
    if (rule->try_file || rule->try_directory || rule->target != NULL)
        return 0;
    return report_word(entry, trimmed_text(entry->value), "tries nothing", report);
}

static int parse_redirect(const struct config_entry *entry, struct config_redirect *rule,
                          struct config_report *report)
{
    struct span rest = trimmed_text(entry->value), word = next_redirect_word(&rest);

    rule->status = redirect_status(word);
    if (span_is(word, SPAN("try"))) {
        rule->action = REDIRECT_TRY;
        return parse_try(entry, rest, rule, report);
    }
    if (span_is(word, SPAN("pass")) || rule->status >= 400) {
        rule->action = rule->status >= 400 ? REDIRECT_STATUS : REDIRECT_PASS;
        return rest.length == 0 ? 0 : report_word(entry, rest, "is too much", report);
    }
    if (rule->status == 0)
        return report_word(entry, word, "is neither a status of a redirect nor try nor pass",
                           report);
    rule->action = REDIRECT_TO;
    word = next_redirect_word(&rest);
    if (rest.length > 0)
        return report_word(entry, rest, "is too much", report);
    return parse_target(entry, word, rule, report);
}

static void free_redirect(struct config_redirect *rule)
{
    free(rule->host);
    free(rule->path);
    free(rule->target);
}

static int parse_redirect_host(const struct config_entry *entry, struct config_redirect *rule)
{
    struct span argument = entry->argument, host = SPAN("");

    if (argument.length > 0)
        config_argument_cut_host(&argument, &host);
    rule->host = strndup(host.start, host.length);
    return rule->host != NULL ? 0 : -1;
}

void config_redirect_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config *config = draft->config;
    struct config_report *report = &draft->report;
    struct config_redirect rule = {.file_line = entry->key_place.line}, *more;
    size_t errors = report->errors;

    if (config_entry_check(entry, report) == 0 && parse_redirect_host(entry, &rule) == 0 &&
        parse_from(entry, &rule, report) == 0 && parse_redirect(entry, &rule, report) == 0) {
        more = realloc(config->redirects, (config->redirect_count + 1) * sizeof(*more));
        if (more != NULL) {
            config->redirects = more;
            config->redirects[config->redirect_count++] = rule;
            return;
        }
    }
    free_redirect(&rule);
    if (report->errors == errors)
        config_report_error(report, &entry->key_place, "", "out of memory");
}

void config_redirects_free(struct config *config)
{
    for (size_t i = 0; i < config->redirect_count; i++)
        free_redirect(&config->redirects[i]);
    free(config->redirects);
}

/* Loops */

/* A request on its way through the rules. */
struct step {
    const struct config_host *host; /* NULL: none */
    bool secure;
    char path[PATH_BYTES];
};

/* Moves to the host of the URL TARGET. Returns its path, or NULL: it is not a known host. */
static const char *move_to_host(const struct config *config, struct step *step, const char *target)
{
    const char *name = strstr(target, "//") + 2;
    const struct span host_name = {name, strcspn(name, ":/?#")};

    step->secure = target[4] == 's';
    step->host = NULL;
    for (size_t i = 0; i < config->host_count && step->host == NULL; i++)
        for (size_t k = 0; k < config->hosts[i].name_count; k++)
            if (config_host_name_is(config->hosts[i].names[k], host_name))
                step->host = &config->hosts[i];
    return step->host != NULL ? name + strcspn(name, "/?#") : NULL;
}

/* Follows RULE. Returns false if its target is not known: another server, or an encoded path. */
static bool follow_redirect(const struct config *config, const struct config_redirect *rule,
                            struct step *step)
{
    const char *target = rule->target;
    char rest[PATH_BYTES] = "";
    int length;

    if (strcmp(target, "https:") == 0) {
        step->secure = true;
        return true;
    }
    if (rule->rest)
        snprintf(rest, sizeof(rest), "%s", step->path + strlen(rule->path));
    if (target[0] != '/')
        target = move_to_host(config, step, target);
    if (target == NULL || strchr(target, '%') != NULL)
        return false;
    length = (int)strcspn(target, "?#");
    return snprintf(step->path, sizeof(step->path), "%s%.*s%s", length == 0 ? "/" : "", length,
                    target, rest) < (int)sizeof(step->path);
}

/* True if RULE, followed by the rules for its targets, never ends. */
static bool redirect_loops(const struct config *config, const struct config_redirect *rule)
{
    struct step step = {.host = NULL};
    struct redirect_rules rules;

    if (rule->host[0] != '\0')
        step.host = config_host_find(config, (struct span){rule->host, strlen(rule->host)});
    snprintf(step.path, sizeof(step.path), "%s%s", rule->path, rule->below ? "x" : "");
    for (size_t i = 0; i <= config->redirect_count + 1; i++) {
        const struct config_redirect *next;

        if (!follow_redirect(config, rule, &step) ||
            redirect_rules_of_host(config, step.host, &rules) != 0)
            return false;
        next = redirect_find(&rules, step.path, step.secure);
        free((void *)rules.rule);
        if (next == NULL || next->action != REDIRECT_TO)
            return false;
        rule = next;
    }
    return true;
}

static void redirect_key(const struct config_redirect *rule, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", rule->plain ? "http " : "", rule->path, rule->below ? "*" : "");
}

void config_redirects_check(const struct config *config, struct config_report *report)
{
    struct config_place place = {.source = "[redirect]"};

    for (size_t i = 0; i < config->redirect_count; i++) {
        const struct config_redirect *rule = &config->redirects[i];
        char key[CONFIG_PROBLEM_MAX];

        if (rule->host[0] != '\0' &&
            !config_host_require(config, rule->host, "[redirect host]", report))
            continue;
        if (rule->action != REDIRECT_TO || !redirect_loops(config, rule))
            continue;
        redirect_key(rule, key, sizeof(key));
        place.line = rule->file_line;
        config_report_error(report, &place, "a rule for its target must come first, such as pass",
                            "the redirect of %.100s never ends", key);
    }
}

/* Printing */

void config_redirect_print(const struct config_redirect *rule, FILE *out)
{
    fprintf(out, "%s%s%s =", rule->plain ? "http " : "", rule->path, rule->below ? "*" : "");
    if (rule->action == REDIRECT_PASS)
        fputs(" pass", out);
    if (rule->action == REDIRECT_STATUS)
        fprintf(out, " %d", rule->status);
    if (rule->action == REDIRECT_TO)
        fprintf(out, " %d %s%s", rule->status, rule->target, rule->rest ? "*" : "");
    if (rule->action == REDIRECT_TRY)
        fprintf(out, " try%s%s%s%s %d", rule->try_file ? " file" : "",
                rule->try_directory ? " directory" : "", rule->target != NULL ? " " : "",
                rule->target != NULL ? rule->target : "", rule->status);
    fputc('\n', out);
}
