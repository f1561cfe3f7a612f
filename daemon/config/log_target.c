#include "daemon/config/log_target.h"

#include "common/macros.h"

#include <string.h>
#include <sys/un.h>
#include <syslog.h>

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
        target->facility = facilities[i].facility;
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
