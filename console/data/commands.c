#include "console/data/commands.h"

#include "common/tables.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int find_command(const char *word)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, word) == 0)
            return i;
    return -1;
}

static void say_unknown(const char *word, char *why, size_t size)
{
    const char *names[COMMAND_COUNT];
    const char *nearest;

    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = command_table[i].name;
    nearest = nearest_word(word, names, COMMAND_COUNT);
    if (nearest != NULL)
        snprintf(why, size, "unknown command '%s'; did you mean '%s'?", word, nearest);
    else
        snprintf(why, size, "unknown command '%s'; 'help' lists the commands", word);
}

static void say_usage(const struct command_info *command, int given, char *why, size_t size)
{
    if (command->max == 0)
        snprintf(why, size, "'%s' takes no argument, but %d %s given", command->name, given,
                 given == 1 ? "was" : "were");
    else
        snprintf(why, size, "'%s' takes %s%d argument%s, but %d %s given; usage: %s %s",
                 command->name, command->min < command->max ? "at most " : "", command->max,
                 command->max == 1 ? "" : "s", given, given == 1 ? "was" : "were", command->name,
                 command->arguments);
}

/* A word that the protocol can carry: not empty, nothing that would end it or the line. */
static bool word_fits(const char *word)
{
    if (*word == '\0')
        return false;
    for (; *word != '\0'; word++)
        if (isspace((unsigned char)*word) || iscntrl((unsigned char)*word))
            return false;
    return true;
}

static int join(int count, const char *const *words, char *line, size_t line_size)
{
    size_t used = 0;

    for (int i = 0; i < count; i++) {
        int more = snprintf(line + used, line_size - used, "%s%s", i > 0 ? " " : "", words[i]);

        if (more < 0 || (size_t)more >= line_size - used)
            return -1;
        used += (size_t)more;
    }
    return 0;
}

int command_check(int count, const char *const *words, char *line, size_t line_size, char *why,
                  size_t size)
{
    int command = count > 0 ? find_command(words[0]) : -1;

    if (count == 0) {
        snprintf(why, size, "no command was given; 'help' lists the commands");
        return -1;
    }
    if (command < 0) {
        say_unknown(words[0], why, size);
        return -1;
    }
    if (count - 1 < command_table[command].min || count - 1 > command_table[command].max) {
        say_usage(&command_table[command], count - 1, why, size);
        return -1;
    }
    for (int i = 1; i < count; i++)
        if (!word_fits(words[i])) {
            snprintf(why, size, "argument %d of '%s' is empty or has a blank in it", i, words[0]);
            return -1;
        }
    if (join(count, words, line, line_size) != 0) {
        snprintf(why, size, "the command is longer than %zu bytes", line_size - 1);
        return -1;
    }
    return command;
}
