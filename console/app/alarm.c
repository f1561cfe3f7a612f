#include "console/app/alarm.h"

#include "common/clock.h"
#include "common/macros.h"
#include "console/ui/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const state_names[] = {
    [ALERT_SAME] = "", [ALERT_BEGAN] = "began", [ALERT_ENDED] = "ended"};

enum { FACTS = 4, FACT_BYTES = 160 };

/* The environment of this process with FACTS in front; only the array is allocated. */
static char **environment_with(char facts[FACTS][FACT_BYTES])
{
    size_t count = 0;
    char **list;

    while (environ[count] != NULL)
        count++;
    list = calloc(count + FACTS + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < FACTS; i++)
        list[i] = facts[i];
    if (list != NULL)
        memcpy(list + FACTS, environ, count * sizeof(*list));
    return list;
}

/* Starts COMMAND without a shell, a terminal or our descriptors. */
static pid_t spawn(const char *command, char **environment)
{
    char *arguments[] = {(char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = 0;

    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    if (posix_spawn(&pid, command, &files, &attributes, arguments, environment) != 0)
        pid = 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

static void reap(struct alarm *alarm)
{
    for (size_t i = 0; i < ALARM_PROGRAMS; i++)
        if (alarm->program[i] != 0 && waitpid(alarm->program[i], NULL, WNOHANG) != 0)
            alarm->program[i] = 0;
}

/* Runs COMMAND unless too many of its kind still run. */
static void run(struct alarm *alarm, const char *command, const char *instance,
                const struct alert_record *record)
{
    char facts[FACTS][FACT_BYTES], **environment;
    size_t i = 0;

    while (i < ALARM_PROGRAMS && alarm->program[i] != 0)
        i++;
    if (command[0] == '\0' || i == ALARM_PROGRAMS)
        return;
    snprintf(facts[0], FACT_BYTES, "WSCONSOLE_ALERT=%s", record->rule);
    snprintf(facts[1], FACT_BYTES, "WSCONSOLE_STATE=%s", state_names[record->change]);
    snprintf(facts[2], FACT_BYTES, "WSCONSOLE_VALUE=%s", record->value);
    snprintf(facts[3], FACT_BYTES, "WSCONSOLE_INSTANCE=%s", instance);
    environment = environment_with(facts);
    if (environment != NULL)
        alarm->program[i] = spawn(command, environment);
    free(environment);
}

static const struct alert_record *newest(const struct alerts *alerts, uint64_t back)
{
    return &alerts->record[(alerts->recorded - 1 - back) % ALERT_RECORDS];
}

bool alarm_update(struct alarm *alarm, struct watch *watch, const char *command, uint64_t now_ns,
                  uint64_t wall_ns)
{
    struct alerts *alerts = &alarm->alerts;
    bool began = false;

    reap(alarm);
    for (size_t i = 0; i < alerts->count; i++) {
        enum alert_change change =
            alerts_update(alerts, i, watch_info(watch)->model, now_ns, wall_ns);
        char text[ALERT_RULE_BYTES + ALERT_VALUE_BYTES + 24];

        if (change == ALERT_SAME)
            continue;
        began = began || change == ALERT_BEGAN;
        snprintf(text, sizeof(text), "alert %s: %s (%s)", state_names[change],
                 newest(alerts, 0)->rule, newest(alerts, 0)->value);
        watch_add_alert(watch, change == ALERT_BEGAN, wall_ns, text);
        run(alarm, command, watch_info(watch)->snapshot.server.name, newest(alerts, 0));
    }
    return began;
}

void alarm_print(const struct alarm *alarm, const struct model *model, char *text, size_t size)
{
    const struct alerts *alerts = &alarm->alerts;
    char value[ALERT_VALUE_BYTES], clock[TEXT_SHORT];
    FILE *out = fmemopen(text, size, "w");
    uint64_t records = alerts->recorded < ALERT_RECORDS ? alerts->recorded : ALERT_RECORDS;

    if (out == NULL)
        return;
    if (alerts->count == 0)
        fprintf(out, "No alerts. Add one: :alert p99 > 20ms for 5s\n");
    for (size_t i = 0; i < alerts->count; i++) {
        const struct alert *alert = &alerts->alert[i];

        fprintf(out, "%s: now %s%s\n", alert->rule.text,
                alert_rule_format(&alert->rule, alert_rule_value(&alert->rule, model), value,
                                  sizeof(value)),
                alert->active ? ", active" : "");
    }
    if (records > 0)
        fprintf(out, "History:\n");
    for (uint64_t back = 0; back < records; back++)
        fprintf(out, "%.8s %s: %s (%s)\n", text_clock(clock, newest(alerts, back)->wall_ns),
                state_names[newest(alerts, back)->change], newest(alerts, back)->rule,
                newest(alerts, back)->value);
    fclose(out);
}
