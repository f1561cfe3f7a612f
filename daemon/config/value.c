#include "daemon/config/internal.h"

#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"
#include "daemon/base/memory_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <syslog.h>

enum { WORD_MAX = 64, WORDS_MAX = 16 };

/* Reports a fault of the whole TEXT. */
static int fault_all(const struct config_faults *faults, const char *text, const char *advice,
                     const char *problem)
{
    struct span all = span_of(text);

    return config_fault_report(faults, 0, all.length, advice, "'%.*s' %s", CONFIG_QUOTED(all),
                               problem);
}

/* Numbers. */

static int parse_octal(const char *text, uint64_t *out)
{
    size_t digits = strspn(text, "01234567");

    if (digits == 0 || digits > 6 || text[digits] != '\0')
        return -1;
    *out = strtoull(text, NULL, 8);
    return 0;
}

struct number_kind {
    int (*parse)(const char *text, uint64_t *out);
    const char *problem; /* if the text is not such a number */
    const char *example;
};

static const struct number_kind *number_kind(enum config_type type)
{
    static const struct number_kind count = {units_parse_number, "is not a whole number", ""};
    static const struct number_kind size = {units_parse_size, "is not a size",
                                            "examples: 4096, 64K, 16M, 1G; "};
    static const struct number_kind time = {units_parse_time_ms, "is not a duration",
                                            "examples: 500ms, 30s, 5m, 1h; "};
    static const struct number_kind mode = {parse_octal, "is not an octal number",
                                            "example: 0600; "};

    return type == CONFIG_SIZE   ? &size
           : type == CONFIG_TIME ? &time
           : type == CONFIG_MODE ? &mode
                                 : &count;
}

/* KEY's "MIN..MAX" as two texts. */
static void split_allowed(const struct config_key *key, char min[WORD_MAX], char max[WORD_MAX])
{
    const char *dots = strstr(key->allowed, "..");

    snprintf(min, WORD_MAX, "%.*s", (int)(dots - key->allowed), key->allowed);
    snprintf(max, WORD_MAX, "%s", dots + 2);
}

/* Sets *MIN and *MAX to those of KEY, a number with a range. */
static void range_of(const struct config_key *key, uint64_t *min, uint64_t *max)
{
    char min_text[WORD_MAX], max_text[WORD_MAX];

    split_allowed(key, min_text, max_text);
    number_kind(key->type)->parse(min_text, min);
    number_kind(key->type)->parse(max_text, max);
}

uint64_t config_value_max(const struct config_key *key)
{
    uint64_t min = 0, max = 0;

    range_of(key, &min, &max);
    return max;
}

/* Parses LENGTH bytes of TEXT at OFFSET as a number of KEY's type and range. */
static int parse_number(const struct config_key *key, const char *text, size_t offset,
                        size_t length, uint64_t *number, const struct config_faults *faults)
{
    const struct number_kind *kind = number_kind(key->type);
    struct span word = {text + offset, length};
    char copy[WORD_MAX], allowed[WORD_MAX * 2], advice[CONFIG_ADVICE_MAX];
    uint64_t min = 0, max = 0;

    snprintf(copy, sizeof(copy), "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), word.start);
    config_value_allowed(key, allowed, sizeof(allowed));
    if (length >= WORD_MAX || kind->parse(copy, number) != 0) {
        snprintf(advice, sizeof(advice), "%sallowed: %s", kind->example, allowed);
        return config_fault_report(faults, offset, length, advice, "'%.*s' %s", CONFIG_QUOTED(word),
                                   kind->problem);
    }
    range_of(key, &min, &max);
    if (*number >= min && *number <= max)
        return 0;
    snprintf(advice, sizeof(advice), "allowed: %s", allowed);
    return config_fault_report(faults, offset, length, advice, "'%s' is out of range", copy);
}

/* One number; "auto" is 0. The ranges of all types but CONFIG_SIZE fit 32 bits. */
static int parse_one_number(const struct config_key *key, const char *text, void *field,
                            const struct config_faults *faults)
{
    uint64_t number = 0;

    if ((key->type != CONFIG_AUTO || strcmp(text, "auto") != 0) &&
        parse_number(key, text, 0, strlen(text), &number, faults) != 0)
        return -1;
    if (key->type == CONFIG_SIZE)
        *(uint64_t *)field = number;
    else
        *(uint32_t *)field = (uint32_t)number;
    return 0;
}

static int parse_span(const struct config_key *key, const char *text, struct config_range *field,
                      const struct config_faults *faults)
{
    size_t length = strlen(text), first = strcspn(text, "-");
    uint64_t min = 0, max;

    if (parse_number(key, text, 0, first, &min, faults) != 0)
        return -1;
    max = min;
    if (first < length && parse_number(key, text, first + 1, length - first - 1, &max, faults) != 0)
        return -1;
    if (min > max)
        return fault_all(faults, text, "write the smaller number first", "is an empty range");
    *field = (struct config_range){(uint32_t)min, (uint32_t)max};
    return 0;
}

/* Words. */

static int parse_switch(const char *text, bool *field, const struct config_faults *faults)
{
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return fault_all(faults, text, "allowed: on or off", "is neither on nor off");
    *field = strcmp(text, "on") == 0;
    return 0;
}

/* The word at POSITION in WORDS; length 0 after the last. */
static struct span choice_word(const char *words, size_t position)
{
    struct span word = {words, strcspn(words, " ")};

    while (position-- > 0) {
        word.start += word.length + strspn(word.start + word.length, " ");
        word.length = strcspn(word.start, " ");
    }
    return word;
}

static int fault_choice(const struct config_key *key, const char *text,
                        const struct config_faults *faults)
{
    char copies[WORDS_MAX][WORD_MAX], allowed[CONFIG_ADVICE_MAX / 2], advice[CONFIG_ADVICE_MAX];
    const char *words[WORDS_MAX], *near;
    size_t count = 0;

    for (; count < WORDS_MAX && choice_word(key->allowed, count).length > 0; count++) {
        struct span word = choice_word(key->allowed, count);

        snprintf(copies[count], WORD_MAX, "%.*s", (int)word.length, word.start);
        words[count] = copies[count];
    }
    near = nearest_word(text, words, count);
    config_value_allowed(key, allowed, sizeof(allowed));
    if (near != NULL)
        snprintf(advice, sizeof(advice), "did you mean '%s'? allowed: %s", near, allowed);
    else
        snprintf(advice, sizeof(advice), "allowed: %s", allowed);
    return fault_all(faults, text, advice, "is not a valid value");
}

static int parse_choice(const struct config_key *key, const char *text, uint32_t *field,
                        const struct config_faults *faults)
{
    struct span typed = span_of(text);

    for (uint32_t i = 0; typed.length > 0 && choice_word(key->allowed, i).length > 0; i++)
        if (span_is(choice_word(key->allowed, i), typed)) {
            *field = i;
            return 0;
        }
    return fault_choice(key, text, faults);
}

/* Texts. */

static int copy_text(const char *text, const char **field, const struct config_faults *faults)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return config_fault_memory(faults);
    *field = copy;
    return 0;
}

static int parse_name(const char *text, const char **field, const struct config_faults *faults)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t wrong = strspn(text, good);

    if (text[wrong] != '\0')
        return config_fault_report(faults, wrong, 1, "allowed: letters, digits and . _ -",
                                   "'%.*s' is not valid in a name", 1, text + wrong);
    if (!instance_name_valid(text))
        return fault_all(faults, text,
                         "allowed: 1 to 48 letters, digits and . _ -, not starting with '.'",
                         "is not a name");
    return copy_text(text, field, faults);
}

/* [log] access and error, unless they are paths. */
static int parse_log_word(const struct config_key *key, const char *text, const char **field,
                          const struct config_faults *faults)
{
    struct log_target target;
    const char *problem = log_target_parse(text, &target);

    if (problem != NULL)
        return config_fault_report(faults, 0, strlen(text),
                                   "syslog:, syslog:FACILITY, syslog:FACILITY@/SOCKET, journald",
                                   "%s", problem);
    if (target.kind == LOG_TARGET_OFF && strcmp(key->name, "access") != 0)
        return config_fault_report(faults, 0, strlen(text), "set [log] level to log less",
                                   "the %s log cannot be off", key->name);
    return copy_text(text, field, faults);
}

static int parse_path(const struct config_key *key, const char *text, const char *base,
                      const char **field, const struct config_faults *faults)
{
    char *joined;

    if (text[0] == '\0' && key->fallback[0] != '\0')
        return config_fault_report(faults, 0, 0, "remove the line to use the default",
                                   "no path given");
    if (strcmp(key->section, "log") == 0 && log_target_is_word(text))
        return parse_log_word(key, text, field, faults);
    if (text[0] == '/' || text[0] == '\0')
        return copy_text(text, field, faults);
    joined = config_path_join(base, text);
    if (joined == NULL)
        return config_fault_memory(faults);
    *field = joined;
    return 0;
}

static int parse_prefix(const char *text, const char **field, const struct config_faults *faults)
{
    struct config_path path;
    const char *fault;

    if (text[0] == '\0')
        return copy_text(text, field, faults);
    fault = config_path_read(span_of(text), &path);
    return fault != NULL ? fault_all(faults, text, fault, "is not a path of requests")
                         : copy_text(path.text, field, faults);
}

int config_value_parse(const struct config_key *key, const char *text, const char *base,
                       void *field, const struct config_faults *faults)
{
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_SECRET:
        return copy_text(text, field, faults);
    case CONFIG_NAME:
        return parse_name(text, field, faults);
    case CONFIG_PATH:
        return parse_path(key, text, base, field, faults);
    case CONFIG_PREFIX:
        return parse_prefix(text, field, faults);
    case CONFIG_ADDRESS:
        return config_addresses_parse(text, key->fallback[0] != '\0', field, faults);
    case CONFIG_PATHS:
        return config_words_parse(text, base, field, faults);
    case CONFIG_NAMES:
        return config_words_parse(text, NULL, field, faults);
    case CONFIG_NETWORKS:
        return config_networks_parse(text, base, field, faults);
    case CONFIG_SWITCH:
        return parse_switch(text, field, faults);
    case CONFIG_SPAN:
        return parse_span(key, text, field, faults);
    case CONFIG_SIZE:
    case CONFIG_COUNT:
    case CONFIG_AUTO:
    case CONFIG_TIME:
    case CONFIG_MODE:
        return parse_one_number(key, text, field, faults);
    case CONFIG_CHOICE:
        return parse_choice(key, text, field, faults);
    }
    return -1;
}

void config_value_free(const struct config_key *key, void *field)
{
    const char **text = field;
    struct config_addresses *list = field;

    if (key->type == CONFIG_TEXT || key->type == CONFIG_SECRET || key->type == CONFIG_NAME ||
        key->type == CONFIG_PATH || key->type == CONFIG_PREFIX) {
        free((void *)*text);
        *text = NULL;
    } else if (key->type == CONFIG_ADDRESS) {
        free(list->item);
        *list = (struct config_addresses){.count = 0};
    } else if (key->type == CONFIG_PATHS || key->type == CONFIG_NAMES) {
        config_words_free(field);
    } else if (key->type == CONFIG_NETWORKS) {
        config_networks_free(field);
    }
}

static char *number_text(const struct config_key *key, const void *field)
{
    const struct config_range *range = field;
    char text[UNITS_TEXT];
    uint64_t number = key->type == CONFIG_SIZE   ? *(const uint64_t *)field
                      : key->type == CONFIG_SPAN ? range->min
                                                 : *(const uint32_t *)field;

    if (key->type == CONFIG_SIZE)
        units_format_size(text, sizeof(text), number);
    else if (key->type == CONFIG_TIME)
        units_format_time_ms(text, sizeof(text), number);
    else if (key->type == CONFIG_MODE)
        snprintf(text, sizeof(text), "%04" PRIo64, number);
    else if (key->type == CONFIG_AUTO && number == 0)
        snprintf(text, sizeof(text), "auto");
    else if (key->type == CONFIG_SPAN && range->min != range->max)
        snprintf(text, sizeof(text), "%" PRIu32 "-%" PRIu32, range->min, range->max);
    else
        snprintf(text, sizeof(text), "%" PRIu64, number);
    return strdup(text);
}

static char *prefix_text(const char *path)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return NULL;
    config_path_print(path, memory);
    if (memstream_close(memory, &text) == 0)
        return text;
    free(text);
    return NULL;
}

char *config_value_text(const struct config_key *key, const void *field)
{
    struct span word;

    switch (key->type) {
    case CONFIG_SECRET:
        return strdup((*(const char *const *)field)[0] != '\0' ? "(hidden)" : "");
    case CONFIG_TEXT:
    case CONFIG_NAME:
    case CONFIG_PATH:
        return strdup(*(const char *const *)field);
    case CONFIG_PREFIX:
        return prefix_text(*(const char *const *)field);
    case CONFIG_ADDRESS:
        return config_addresses_text(field);
    case CONFIG_PATHS:
    case CONFIG_NAMES:
        return config_words_text(field);
    case CONFIG_NETWORKS:
        return strdup(((const struct config_networks *)field)->text);
    case CONFIG_SWITCH:
        return strdup(*(const bool *)field ? "on" : "off");
    case CONFIG_CHOICE:
        word = choice_word(key->allowed, *(const uint32_t *)field);
        return strndup(word.start, word.length);
    default:
        return number_text(key, field);
    }
}

void config_value_allowed(const struct config_key *key, char *buffer, size_t size)
{
    char min[WORD_MAX], max[WORD_MAX];

    buffer[0] = '\0';
    if (key->type == CONFIG_CHOICE) {
        for (size_t i = 0; choice_word(key->allowed, i).length > 0; i++) {
            struct span word = choice_word(key->allowed, i);
            size_t used = strlen(buffer);

            snprintf(buffer + used, size - used, "%s%.*s", i > 0 ? ", " : "", (int)word.length,
                     word.start);
        }
    } else if (key->type == CONFIG_SWITCH) {
        snprintf(buffer, size, "on, off");
    } else if (key->allowed[0] != '\0') {
        split_allowed(key, min, max);
        snprintf(buffer, size, "%s%s to %s", key->type == CONFIG_AUTO ? "auto, or " : "", min, max);
    }
}

/* Log targets */

static const char syslog_word[] = "syslog:", journald_word[] = "journald";

static const struct {
    const char *name;
    int facility;
} facilities[] = {{"daemon", LOG_DAEMON}, {"user", LOG_USER},     {"auth", LOG_AUTH},
                  {"cron", LOG_CRON},     {"local0", LOG_LOCAL0}, {"local1", LOG_LOCAL1},
                  {"local2", LOG_LOCAL2}, {"local3", LOG_LOCAL3}, {"local4", LOG_LOCAL4},
                  {"local5", LOG_LOCAL5}, {"local6", LOG_LOCAL6}, {"local7", LOG_LOCAL7}};

static bool starts_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static bool is_journald(const char *text)
{
    size_t length = strlen(journald_word);

    return starts_with(text, journald_word) && (text[length] == '\0' || text[length] == ':');
}

bool log_target_is_word(const char *text)
{
    return strcmp(text, "-") == 0 || strcmp(text, "off") == 0 || starts_with(text, syslog_word) ||
           is_journald(text);
}

/* "@/path" or nothing */
static const char *parse_socket(const char *text, struct log_target *target)
{
    const struct sockaddr_un *address = NULL;

    if (text[0] == '\0')
        return NULL;
    if (text[0] != '@' || text[1] != '/')
        return "a socket path begins with '@/'";
    if (strlen(text + 1) >= sizeof(address->sun_path))
        return "a socket path has at most 107 bytes";
    target->path = text + 1;
    return NULL;
}

static const char *parse_syslog(const char *text, struct log_target *target)
{
    size_t length = strcspn(text, "@");

    *target = (struct log_target){LOG_TARGET_SYSLOG, LOG_DAEMON, "/dev/log"};
    if (length == 0)
        return parse_socket(text, target);
    for (size_t i = 0; i < ARRAY_LENGTH(facilities); i++) {
        if (strlen(facilities[i].name) != length || strncmp(text, facilities[i].name, length) != 0)
            continue;
        target->syslog_facility = facilities[i].facility;
        return parse_socket(text + length, target);
    }
    return "unknown syslog facility (valid: daemon, user, auth, cron, local0 to local7)";
}

const char *log_target_parse(const char *text, struct log_target *target)
{
    *target = (struct log_target){LOG_TARGET_FILE, 0, text};
    if (text[0] == '\0')
        return "no path given";
    if (strcmp(text, "off") == 0)
        target->kind = LOG_TARGET_OFF;
    if (starts_with(text, syslog_word))
        return parse_syslog(text + strlen(syslog_word), target);
    if (!is_journald(text))
        return NULL;
    *target = (struct log_target){LOG_TARGET_JOURNALD, 0, "/run/systemd/journal/socket"};
    text += strlen(journald_word);
    return parse_socket(text[0] == ':' ? text + 1 : text, target);
}
