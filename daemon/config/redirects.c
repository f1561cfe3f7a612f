#include "daemon/config/internal.h"

#include "common/macros.h"
#include "daemon/base/hash.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URI_CHARACTERS                                                                             \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%"

static const char advice[] =
    "examples: 301 /new, 308 https://example.org/*, 410, try file directory /index.html 404, pass";

/* Matching */

static uint32_t https_of_host(const struct config *config, uint32_t host)
{
    return host > 0 && host <= config->host_count ? config->hosts[host - 1].https
                                                  : config->server_https;
}

const struct config_redirect *redirect_find(const struct config *config, uint32_t host,
                                            const char *path, bool secure)
{
    static const struct config_redirect to_https = {.path = "",
                                                    .below = true,
                                                    .plain = true,
                                                    .action = REDIRECT_TO,
                                                    .status = 308,
                                                    .target = "https:"};
    size_t i = path_index_find(config->redirect_index, host, path, secure);

    if (i != PATH_INDEX_NONE)
        return &config->redirects[i];
    return !secure && https_of_host(config, host) == HTTPS_REDIRECT ? &to_https : NULL;
}

const char *redirect_rest(const struct config_redirect *rule, const char *path)
{
    path += strlen(rule->path);
    return path[0] == '/' ? path + 1 : path;
}

struct path_index *config_redirects_index(struct config *config)
{
    size_t paths = config->redirect_count;
    struct path_index *index;

    for (size_t i = 0; i < config->redirect_count; i++)
        paths += config->redirects[i].below;
    for (uint32_t host = 0; host <= config->host_count; host++)
        config->redirects_by_scheme |= https_of_host(config, host) == HTTPS_REDIRECT;
    index = path_index_new(paths, PATH_FIRST_RULE);
    for (size_t i = 0; index != NULL && i < config->redirect_count; i++) {
        struct config_redirect *rule = &config->redirects[i];

        /* usually those of the rule before */
        rule->host_number = i > 0 && strcasecmp(rule[-1].host, rule->host) == 0
                                ? rule[-1].host_number
                                : config_host_number(config, rule->host);
        config->redirects_by_scheme |= rule->plain;
        path_index_add(index, rule->host_number, span_of(rule->path), rule->below, rule->plain, i);
    }
    return index;
}

/* Parsing */

/* The next word of TEXT, which loses it; empty at the end. A word in quotes may have blanks. */
static struct span next_redirect_word(struct span *text)
{
    struct span word = *text, rest;
    const char *quote = NULL;

    if (text->length > 0 && text->start[0] == '"')
        quote = memchr(text->start + 1, '"', text->length - 1);
    if (quote == NULL) {
        config_section_split(&word, &rest);
        *text = rest;
        return word;
    }
    word.length = (size_t)(quote + 1 - text->start);
    *text = config_trim((struct span){quote + 1, text->length - word.length});
    return word;
}

static struct span trimmed_text(const char *text)
{
    return config_trim(span_of(text));
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

/* Other servers replace $1 and $uri, which are plain text here. Returns -1 after a report. */
static int check_no_variable(const struct config_entry *entry, struct span word,
                             struct config_report *report)
{
    const char *end = word.start + word.length;
    const char *dollar = memchr(word.start, '$', word.length);
    struct span name = {dollar, 1};
    struct config_place place;

    if (dollar == NULL)
        return 0;
    while (dollar + name.length < end && isalnum((unsigned char)dollar[name.length]))
        name.length++;
    if (!(name.length > 1 && isdigit((unsigned char)dollar[1])) && !span_is(name, SPAN("$uri")) &&
        !(name.length == 1 && end - dollar > 1 && dollar[1] == '{'))
        return 0;
    place = config_entry_place(entry, (size_t)(dollar - entry->value), name.length);
    config_report_error(report, &place,
                        "'*' is the rest of the path, as in 301 /new/*; for /about to be "
                        "about.html set [files] extensions; for a '$' write %24",
                        "there is no variable '%.*s'", CONFIG_QUOTED(name));
    return -1;
}

/* A path that may end in a star, "http" before it. */
static int parse_from(const struct config_entry *entry, struct config_redirect *rule,
                      struct config_report *report)
{
    struct span text = entry->key, rest = text;
    struct config_path path;
    const char *fault;

    rule->plain = span_is(next_redirect_word(&rest), SPAN("http"));
    fault = config_path_read(rule->plain ? rest : text, &path);
    if (fault != NULL) {
        config_report_error(
            report, &entry->key_place, fault,
            "'%.*s' is not a path, as in /old or /old/*, or http and a path, for requests without "
            "TLS",
            CONFIG_QUOTED(text));
        return -1;
    }
    rule->below = path.below;
    rule->path = strndup(path.text, path.length - path.below);
    return rule->path != NULL ? 0 : -1;
}

/* WORD without its quotes, bytes that a URI cannot have percent-encoded. NULL: out of memory. */
static char *encode_target(struct span word)
{
    bool quoted = word.length >= 2 && word.start[0] == '"' && word.start[word.length - 1] == '"';
    char *target = calloc(3, word.length + 1), *to = target;

    for (size_t i = quoted; target != NULL && i < word.length - quoted; i++)
        if (strchr(URI_CHARACTERS, word.start[i]) != NULL)
            *to++ = word.start[i];
        else
            to += sprintf(to, "%%%02X", (unsigned char)word.start[i]);
    return target;
}

static bool is_target(const char *target)
{
    if (strcmp(target, "https:") == 0)
        return true;
    if (target[0] == '/')
        return target[1] != '/';
    return (strncmp(target, "https://", 8) == 0 && target[8] != '/' && target[8] != '\0') ||
           (strncmp(target, "http://", 7) == 0 && target[7] != '/' && target[7] != '\0');
}

static int parse_target(const struct config_entry *entry, struct span word,
                        struct config_redirect *rule, struct config_report *report)
{
    char *star;

    if (check_no_variable(entry, word, report) != 0)
        return -1;
    rule->target = encode_target(word);
    if (rule->target == NULL)
        return -1;
    if (!is_target(rule->target))
        return report_word(entry, word,
                           "is not a target: a path, http://, https:// or https:", report);
    star = strchr(rule->target, '*');
    if (star != NULL && (star[1] != '\0' || star[-1] != '/' || !rule->below))
        return report_word(
            entry, word, "has a '*' that is not its last segment, or the path before '=' has none",
            report);
    rule->rest = star != NULL;
    if (rule->rest)
        *star = '\0';
    return 0;
}

/* The file of a rule that tries. */
static int parse_try_path(const struct config_entry *entry, struct span word,
                          struct config_redirect *rule, struct config_report *report)
{
    struct config_path path;
    const char *fault = config_path_read(word, &path);

    if (check_no_variable(entry, word, report) != 0)
        return -1;
    if (fault == NULL && path.below)
        fault = "it is the path of one file";
    if (fault != NULL)
        return report_word(entry, word, fault, report);
    rule->target = strndup(path.text, path.length);
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
        } else if ((word.start[0] == '/' || word.start[0] == '"') && rule->target == NULL) {
            if (parse_try_path(entry, word, rule, report) != 0)
                return -1;
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
    free((void *)rule->path);
    free((void *)rule->target);
}

static int parse_redirect_host(const struct config_entry *entry, struct config_redirect *rule)
{
    struct span argument = entry->argument, host = SPAN("");

    if (argument.length > 0)
        config_argument_cut_host(&argument, &host);
    rule->host = strndup(host.start, host.length);
    return rule->host != NULL ? 0 : -1;
}

/* Returns 0, or -1: out of memory. */
static int store_redirect(struct config *config, const struct config_redirect *rule)
{
    size_t count = config->redirect_count;
    size_t at = rule->line.number > 0 ? count : 0; /* an override is first */
    struct config_redirect *rules = config->redirects;

    if ((count & (count - 1)) == 0) { /* room for twice as many at each power of two */
        rules = realloc(rules, (count > 0 ? 2 * count : 1) * sizeof(*rules));
        if (rules == NULL)
            return -1;
        config->redirects = rules;
    }
    memmove(rules + at + 1, rules + at, (count - at) * sizeof(*rules));
    rules[at] = *rule;
    config->redirect_count++;
    return 0;
}

void config_redirect_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config_report *report = &draft->report;
    struct config_redirect rule = {.line = config_entry_line(entry)};
    size_t errors = report->errors;

    if (config_entry_check(entry, report) == 0 && parse_redirect_host(entry, &rule) == 0 &&
        parse_from(entry, &rule, report) == 0 && parse_redirect(entry, &rule, report) == 0 &&
        store_redirect(draft->config, &rule) == 0)
        return;
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
    uint32_t host;
    bool secure;
    struct target target;
};

enum step_end { STEP_OPEN, STEP_ENDS, STEP_LOOPS };

/*
 * The requests that have been followed, by a hash, and how they end. It is linear in the number of
 * rules: when it is full, the rest is not followed.
 */
struct steps {
    size_t mask, count;
    struct {
        uint64_t hash; /* 0: an empty place */
        enum step_end end;
        size_t next; /* of the place of the request before it, plus 1 */
    } place[];
};

static struct steps *new_steps(size_t rules)
{
    size_t places = 16384; /* a path that grows for ever needs up to 2048 */
    struct steps *steps;

    while (places < 8 * rules)
        places *= 2;
    steps = calloc(1, sizeof(*steps) + places * sizeof(steps->place[0]));
    if (steps != NULL)
        steps->mask = places - 1;
    return steps;
}

/* The place of STEP, which may be empty. */
static size_t place_of_step(const struct steps *steps, const struct step *step, uint64_t *hash)
{
    size_t i;

    *hash = 1 | hash_bytes(step->target.path, step->target.length, step->host * 2 + step->secure);
    for (i = *hash >> 1 & steps->mask; steps->place[i].hash != 0; i = (i + 1) & steps->mask)
        if (steps->place[i].hash == *hash)
            break;
    return i;
}

/* Moves to the host of the URL TARGET. Returns its path, or NULL: it is not a known host. */
static const char *move_to_host(const struct config *config, struct step *step, const char *target)
{
    const char *name = strstr(target, "//") + 2;
    const struct span host_name = {name, strcspn(name, ":/?#")};

    step->secure = target[4] == 's';
    step->host = 0;
    for (size_t i = 0; i < config->host_count && step->host == 0; i++)
        for (size_t k = 0; k < config->hosts[i].name_count; k++)
            if (config_host_name_is(config->hosts[i].names[k], host_name))
                step->host = (uint32_t)i + 1;
    return step->host != 0 ? name + strcspn(name, "/?#") : NULL;
}

/* Follows RULE. STEP_ENDS: at another server; STEP_LOOPS: the path grows for ever. */
static enum step_end follow_redirect(const struct config *config,
                                     const struct config_redirect *rule, struct step *step)
{
    const char *target = rule->target;
    const char *rest = rule->rest ? redirect_rest(rule, step->target.path) : "";
    size_t rest_length = strlen(rest);
    struct target next;

    if (strcmp(target, "https:") == 0) {
        step->secure = true;
        return STEP_OPEN;
    }
    if (target[0] != '/')
        target = move_to_host(config, step, target);
    if (target == NULL ||
        target_canonical(target[0] == '/' ? (struct span){target, strcspn(target, "#")} : SPAN("/"),
                         &next) != 0)
        return STEP_ENDS;
    if (next.length + rest_length >= TARGET_PATH_MAX)
        return STEP_LOOPS;
    memcpy(next.path + next.length, rest, rest_length + 1);
    next.length += rest_length;
    step->target = next;
    return STEP_OPEN;
}

/* How the redirects of RULE, followed by the rules for its targets, end. */
static enum step_end end_of_redirect(const struct config *config,
                                     const struct config_redirect *rule, struct steps *steps)
{
    struct step step = {.host = rule->host_number};
    enum step_end end = STEP_OPEN;
    size_t last = 0;

    step.target.length =
        (size_t)(stpcpy(stpcpy(step.target.path, rule->path), rule->below ? "/*" : "") -
                 step.target.path);
    while (end == STEP_OPEN) {
        uint64_t hash;
        size_t i = place_of_step(steps, &step, &hash);

        if (steps->place[i].hash != 0) {
            end = steps->place[i].end == STEP_ENDS ? STEP_ENDS : STEP_LOOPS;
            break;
        }
        if (steps->count++ > steps->mask / 2)
            return STEP_ENDS;
        steps->place[i].hash = hash;
        steps->place[i].next = last;
        last = i + 1;
        end = follow_redirect(config, rule, &step);
        rule = redirect_find(config, step.host, step.target.path, step.secure);
        if (end == STEP_OPEN && (rule == NULL || rule->action != REDIRECT_TO))
            end = STEP_ENDS;
    }
    for (; last > 0; last = steps->place[last - 1].next)
        steps->place[last - 1].end = end;
    return end;
}

static void redirect_key(const struct config_redirect *rule, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s", rule->plain ? "http " : "", rule->path, rule->below ? "/*" : "");
}

/* The first rule, if it is another one, that applies to all requests for which RULE is. */
static const struct config_redirect *find_shadow(const struct config *config,
                                                 const struct config_redirect *rule)
{
    size_t first = path_index_find_in(config->redirect_index, rule->host_number,
                                      span_of(rule->path), rule->below, !rule->plain);

    return first < (size_t)(rule - config->redirects) ? &config->redirects[first] : NULL;
}

static void check_redirect(const struct config *config, const struct config_redirect *rule,
                           struct steps *steps, struct config_report *report)
{
    const struct config_redirect *shadow = find_shadow(config, rule);
    const struct config_place place = {.source = rule->line.source, .line = rule->line.number};
    char key[CONFIG_PROBLEM_MAX], first[CONFIG_PROBLEM_MAX];

    redirect_key(rule, key, sizeof(key));
    if (shadow != NULL && shadow->line.number > 0) { /* an override replaces rules on purpose */
        bool same = shadow->line.source == rule->line.source;

        redirect_key(shadow, first, sizeof(first));
        config_report_error(report, &place, "put it before that rule, or remove it",
                            "the rule for %.100s never applies: %.100s %s%s%s%zu is first", key,
                            first, same ? "on line " : "in ", same ? "" : shadow->line.source,
                            same ? "" : ":", shadow->line.number);
    } else if (shadow == NULL && rule->action == REDIRECT_TO &&
               end_of_redirect(config, rule, steps) == STEP_LOOPS) {
        config_report_error(report, &place, "a rule for its target must come first, such as pass",
                            "the redirect of %.100s never ends", key);
    }
}

void config_redirects_check(const struct config *config, struct config_report *report)
{
    struct steps *steps = new_steps(config->redirect_count);

    for (size_t i = 0;
         steps != NULL && config->redirect_index != NULL && i < config->redirect_count; i++) {
        const char *host = config->redirects[i].host;

        if (config->redirects[i].host_number <= config->host_count)
            check_redirect(config, &config->redirects[i], steps, report);
        else if (i == 0 || strcasecmp(host, config->redirects[i - 1].host) != 0)
            config_host_require(config, host, "[redirect host]", report);
    }
    free(steps);
}

/* Printing */

void config_redirect_print(const struct config_redirect *rule, FILE *out)
{
    fputs(rule->plain ? "http " : "", out);
    config_path_print(rule->path, out);
    fprintf(out, "%s =", rule->below ? "/*" : "");
    if (rule->action == REDIRECT_PASS)
        fputs(" pass", out);
    if (rule->action == REDIRECT_STATUS)
        fprintf(out, " %d", rule->status);
    if (rule->action == REDIRECT_TO)
        fprintf(out, " %d %s%s", rule->status, rule->target, rule->rest ? "*" : "");
    if (rule->action == REDIRECT_TRY) {
        fprintf(out, " try%s%s%s", rule->try_file ? " file" : "",
                rule->try_directory ? " directory" : "", rule->target != NULL ? " " : "");
        config_path_print(rule->target != NULL ? rule->target : "", out);
        fprintf(out, " %d", rule->status);
    }
    fputc('\n', out);
}
