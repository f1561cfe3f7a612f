#include "daemon/control/command.h"

#include "common/escape.h"
#include "common/json_text.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/config/load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The request line */

static enum command_line check_line(const char *line, size_t length)
{
    if (length >= CONTROL_LINE_MAX)
        return COMMAND_LINE_TOO_LONG;
    return strlen(line) == length && escape_utf8_valid(line) ? COMMAND_LINE_WHOLE
                                                             : COMMAND_LINE_INVALID;
}

enum command_line command_line_read(struct evbuffer *input, char **line)
{
    size_t length;

    *line = evbuffer_readln(input, &length, EVBUFFER_EOL_CRLF);
    if (*line != NULL) {
        enum command_line result = check_line(*line, length);

        if (result != COMMAND_LINE_WHOLE) {
            free(*line);
            *line = NULL;
        }
        return result;
    }
    if (evbuffer_search_eol(input, NULL, NULL, EVBUFFER_EOL_CRLF).pos >= 0)
        return COMMAND_LINE_NO_MEMORY;
    return evbuffer_get_length(input) >
                   CONTROL_LINE_MAX /* one more byte: the line may end in CRLF */
               ? COMMAND_LINE_TOO_LONG
               : COMMAND_LINE_INCOMPLETE;
}

int command_line_split(char *line, char **words, int max)
{
    int count = 0;
    char *word;

    while ((word = strsep(&line, " \t")) != NULL) {
        if (*word == '\0')
            continue;
        if (count == max)
            return max + 1;
        words[count++] = word;
    }
    return count;
}

/* Results */

json_t *command_error(const char *format, ...)
{
    char text[8192];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return json_pack("{s:b, s:o}", "ok", 0, "error", json_text(text));
}

struct command_result command_reply(json_t *reply)
{
    return (struct command_result){.reply = reply};
}

struct command_result command_reply_when(struct master *master,
                                         bool (*in_force)(struct master *, uint64_t),
                                         json_t *(*report)(struct master *, uint64_t))
{
    if (in_force(master, 0))
        return command_reply(report(master, 0));
    return (struct command_result){.in_force = in_force, .report = report};
}

/* Changes */

void command_log_change(const struct call *call, const char *what, const char *from, const char *to)
{
    event_log(LEVEL_INFO, "%s changed from %s to %s, by uid %u pid %d", what, from, to, call->uid,
              call->pid);
}

void command_log_number(const struct call *call, const char *what, uint32_t from, uint32_t to)
{
    char from_text[16], to_text[16];

    snprintf(from_text, sizeof(from_text), "%u", from);
    snprintf(to_text, sizeof(to_text), "%u", to);
    command_log_change(call, what, from_text, to_text);
}

void command_log_action(const struct call *call, const char *what)
{
    event_log(LEVEL_INFO, "%s, by uid %u pid %d", what, call->uid, call->pid);
}

void command_changed_key(const struct call *call, enum config_key_number key)
{
    struct server *server = &call->master->server;
    char origin[96];

    snprintf(origin, sizeof(origin), "command, by uid %u pid %d", call->uid, call->pid);
    config_set_origin(server->config, key, origin);
    server_publish_config(server);
}

/* Arguments */

uint32_t command_number(const struct call *call, const char *what, uint32_t max,
                        struct command_result *result)
{
    uint64_t number;

    if (units_parse_number(call->argument[0], &number) == 0 && number >= 1 && number <= max)
        return (uint32_t)number;
    *result = command_reply(
        command_error("invalid number of %s '%.64s' (valid: 1-%u)", what, call->argument[0], max));
    return 0;
}
