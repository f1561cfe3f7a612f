/*
 * Writes webserver.ini(5): `config_manual TEMPLATE OUTPUT` copies the mdoc(7) page TEMPLATE and
 * replaces its line "@KEYS@" by the sections and keys of common/config.def.
 */
#include "daemon/config/hosts.h"
#include "daemon/config/keys.h"
#include "daemon/config/value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MARK "@KEYS@\n"

/* Whether a sentence ends at TEXT; in mdoc each sentence starts a line. */
static bool ends_sentence(const char *text)
{
    return text[0] == '.' && text[1] == ' ' && (isupper((unsigned char)text[2]) || text[2] == '$');
}

/* Prints TEXT, escaped for mdoc. */
static void print_text(FILE *out, const char *text)
{
    bool line_start = true;

    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        line_start = false;
        if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
        if (ends_sentence(text)) {
            fputc('\n', out);
            text++;
            line_start = true;
        }
    }
    fputc('\n', out);
}

/* Prints WORD as a literal, followed by SUFFIX. */
static void print_literal(FILE *out, const char *word, const char *suffix)
{
    fputs(".Ql \"", out);
    for (; *word != '\0'; word++)
        fputs(*word == '"' ? "\\(dq" : *word == '\\' ? "\\e" : (char[]){*word, '\0'}, out);
    fprintf(out, "\"%s\n", suffix);
}

static const char *argument_of(enum config_type type)
{
    switch (type) {
    case CONFIG_TEXT:
    case CONFIG_SECRET:
        return "Ar text";
    case CONFIG_NAME:
        return "Ar name";
    case CONFIG_PATH:
        return "Ar path";
    case CONFIG_PREFIX:
        return "Ar /prefix";
    case CONFIG_ADDRESS:
        return "Ar address ...";
    case CONFIG_PATHS:
        return "Ar path ...";
    case CONFIG_NETWORKS:
        return "Ar network ...";
    case CONFIG_NAMES:
        return "Ar name ...";
    case CONFIG_SWITCH:
        return "Cm on | Cm off";
    case CONFIG_COUNT:
        return "Ar number";
    case CONFIG_AUTO:
        return "Cm auto | Ar number";
    case CONFIG_SPAN:
        return "Ar number | Ar min Ns - Ns Ar max";
    case CONFIG_SIZE:
        return "Ar size";
    case CONFIG_TIME:
        return "Ar time";
    case CONFIG_MODE:
        return "Ar mode";
    case CONFIG_CHOICE:
        break;
    }
    return NULL;
}

/* "Cm sieve | Cm lru" for "sieve lru". */
static void print_choices(FILE *out, const char *words)
{
    const char *before = "Cm ";

    while (*words != '\0') {
        size_t length = strcspn(words, " ");

        fprintf(out, "%s%.*s", before, (int)length, words);
        words += length + strspn(words + length, " ");
        before = " | Cm ";
    }
}

static void print_key(FILE *out, const struct config_key *key)
{
    const char *argument = argument_of(key->type);
    char allowed[CONFIG_ADVICE_MAX];

    fprintf(out, ".It Ic %s No = ", key->name);
    if (argument != NULL)
        fputs(argument, out);
    else
        print_choices(out, key->allowed);
    fputc('\n', out);
    print_text(out, key->help);
    config_value_allowed(key, allowed, sizeof(allowed));
    if (key->allowed[0] != '\0' && key->type != CONFIG_CHOICE)
        fprintf(out, "Allowed: %s.\n", allowed);
    fputs("Default:\n", out);
    if (key->fallback[0] == '\0')
        fputs("unset.\n", out);
    else
        print_literal(out, key->fallback, " .");
}

/* The keys of [host] refer to those that give their defaults. */
static void print_host_keys(FILE *out)
{
    fputs(".Bl -tag -width Ds\n", out);
    for (int i = 0; i < HOST_KEY_COUNT; i++) {
        const struct config_key *key = config_host_key_type((enum config_host_key)i);

        fprintf(out, ".It Ic %s\nAs\n.Ic %s\nof [%s].\n", config_host_key_names[i], key->name,
                key->section);
    }
    fputs(".El\n", out);
}

static void print_section(FILE *out, const struct config_section *section)
{
    size_t keys = 0;

    fprintf(out, ".Ss [%s]\n", section->name);
    print_text(out, section->help);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(config_keys[i].section, section->name) != 0)
            continue;
        if (keys++ == 0)
            fputs(".Bl -tag -width Ds\n", out);
        print_key(out, &config_keys[i]);
    }
    if (keys > 0)
        fputs(".El\n", out);
    if (strcmp(section->name, "host") == 0)
        print_host_keys(out);
}

static int copy_template(FILE *template, FILE *out)
{
    char *line = NULL;
    size_t room = 0, marks = 0;

    while (getline(&line, &room, template) > 0) {
        if (strcmp(line, KEYS_MARK) != 0) {
            fputs(line, out);
            continue;
        }
        marks++;
        for (size_t i = 0; i < config_section_count; i++)
            print_section(out, &config_sections[i]);
    }
    free(line);
    return marks == 1 && !ferror(template) ? 0 : -1;
}

int main(int argc, char **argv)
{
    FILE *template, *out = NULL;
    int result = -1;

    if (argc != 3) {
        fprintf(stderr, "usage: config_manual TEMPLATE OUTPUT\n");
        return 2;
    }
    template = fopen(argv[1], "r");
    if (template == NULL) {
        perror(argv[1]);
        return 1;
    }
    out = fopen(argv[2], "w");
    if (out == NULL)
        perror(argv[2]);
    else if (copy_template(template, out) != 0)
        fprintf(stderr, "%s: read error, or not exactly one line " KEYS_MARK, argv[1]);
    else
        result = 0;
    fclose(template);
    if (out != NULL && fclose(out) != 0) {
        perror(argv[2]);
        result = -1;
    }
    return result == 0 ? 0 : 1;
}
