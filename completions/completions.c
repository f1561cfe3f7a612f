/*
 * Writes the shell completions of one program: `completions bash|zsh|fish PROGRAM OUTPUT`.
 *
 * Options, commands, configuration keys, views, scenarios and experiments come from the .def lists
 * that the programs themselves use. A program has modes: its first word that is not an option (a
 * command of wsctl, "lab" of wsload) selects the options and words that may follow. The mode named ""
 * is in effect before that word and after a word that is not a mode.
 */
#include "common/instance.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { WORDS_BYTES = 8192 };

struct option {
    char letter; /* 0: long form only */
    const char *name, *argument, *help;
};

static const struct option webserverd_options[] = {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "daemon/config/options.def"
#undef OPTION
};

static const struct option wsctl_options[] = {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "console/wsctl.def"
#undef OPTION
};

static const struct option watch_options[] = {
#define OPTION(letter, name, argument, help) {letter, name, argument, help},
#include "console/wsctl_watch.def"
#undef OPTION
};

static const struct option wsconsole_options[] = {
#define OPTION(name, letter, argument, place, help) {letter, #name, argument, help},
#include "console/app/options.def"
#undef OPTION
};

static const struct option wsload_options[] = {
#define GROUP(title)
#define ALIAS(name, letter, spelling)
#define OPTION(name, letter, spelling, argument, help) {letter, spelling, argument, help},
#include "loadgen/cli/options.def"
#undef OPTION
#undef ALIAS
#undef GROUP
};

static const struct option lab_options[] = {
#define OPTION(id, letter, name, argument, help) {letter, name, argument, help},
#include "loadgen/lab/options.def"
#undef OPTION
};

struct mode {
    const char *name;
    const struct option *options;
    size_t option_count;
    const char *words; /* that may follow, as in struct argument; of a command its usage */
    const char *help;
};

static const struct mode webserverd_modes[] = {
    {"", webserverd_options, COUNT(webserverd_options), "", NULL},
};

static const struct mode wsctl_modes[] = {
    {"", wsctl_options, COUNT(wsctl_options), "@modes", NULL},
    {"watch", watch_options, COUNT(watch_options), "", "print the load every second"},
    {"check", NULL, 0, "", "send a request to the server's own address"},
#define COMMAND(name, function, arguments, min, max, changes, help)                                \
    {name, NULL, 0, arguments, help},
#include "common/commands.def"
#undef COMMAND
};

static const struct mode wsconsole_modes[] = {
    {"", wsconsole_options, COUNT(wsconsole_options), "@views", NULL},
};

static const struct mode wsload_modes[] = {
    {"", wsload_options, COUNT(wsload_options), "@modes", NULL},
    {"find", wsload_options, COUNT(wsload_options), "", "find the load that meets a condition"},
    {"sweep", wsload_options, COUNT(wsload_options), "", "find what limits the server"},
    {"merge", wsload_options, COUNT(wsload_options), "@files", "make one report of several"},
    {"lab", lab_options, COUNT(lab_options), "@experiments", "run experiments"},
};

static const struct program {
    const char *name;
    const struct mode *modes;
    size_t mode_count;
} programs[] = {
    {"webserverd", webserverd_modes, COUNT(webserverd_modes)},
    {"wsctl", wsctl_modes, COUNT(wsctl_modes)},
    {"wsconsole", wsconsole_modes, COUNT(wsconsole_modes)},
    {"wsload", wsload_modes, COUNT(wsload_modes)},
};

/*
 * Completes the argument of an option. A word with '@' is a list; files, directories and instances
 * are computed by the shell, the others expanded here.
 */
static const struct argument {
    const char *program, *mode, *option, *words;
} arguments[] = {
    {"webserverd", "", "config", "@files"},
    {"webserverd", "", "override", "@settings"},
    {"wsctl", "", "name", "@instances"},
    {"wsctl", "", "socket", "@files"},
    {"wsconsole", "", "name", "@instances"},
    {"wsconsole", "", "socket", "@files"},
    {"wsconsole", "", "wait", "off"},
    {"wsconsole", "", "alert-command", "@files"},
    {"wsconsole", "", "theme", "dark light mono"},
    {"wsconsole", "", "view", "@views"},
    {"wsconsole", "", "once", "@views"},
    {"wsconsole", "", "csv", "@views"},
    {"wsconsole", "", "span", "1m 5m 15m 1h 6h 24h"},
    {"wsconsole", "", "record", "@files"},
    {"wsconsole", "", "replay", "@files"},
    {"wsconsole", "", "html", "@files"},
    {"wsconsole", "", "size", "80x24 120x40 200x50"},
    {"wsconsole", "", "lab", "list @scenarios"},
    {"wsload", "", "arrivals", "constant poisson"},
    {"wsload", "", "keepalive", "on off both"},
    {"wsload", "", "urls", "@files"},
    {"wsload", "", "har", "@files"},
    {"wsload", "", "scenarios", "@files"},
    {"wsload", "", "csv", "@files"},
    {"wsload", "", "rows", "seq random once"},
    {"wsload", "", "think", "recorded"},
    {"wsload", "", "order", "seq random each once"},
    {"wsload", "", "replay", "@files"},
    {"wsload", "", "method", "GET HEAD POST PUT DELETE OPTIONS"},
    {"wsload", "", "body-file", "@files"},
    {"wsload", "", "engine", "curl raw"},
    {"wsload", "", "unix-socket", "@files"},
    {"wsload", "", "cacert", "@files"},
    {"wsload", "", "cert", "@files"},
    {"wsload", "", "key", "@files"},
    {"wsload", "", "format", "text csv hdr html junit"},
    {"wsload", "", "output", "@files"},
    {"wsload", "", "log", "@files"},
    {"wsload", "", "compare", "@files"},
    {"wsload", "", "baseline", "@files"},
    {"wsload", "lab", "output", "@directories"},
    {"wsload", "lab", "server", "@files"},
};

static const char views[] =
#define VIEW(name) #name " "
#include "console/views/views.def"
#undef VIEW
    ;

static const char scenarios[] =
#define SCENARIO(name) #name " "
#include "console/lab/scenarios.def"
#undef SCENARIO
    ;

static const char experiments[] =
#define EXPERIMENT(name, title, question) #name " "
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT
    "all ";

static const char sections[] =
#define CONFIG_SECTION(section, help) #section " "
#define CONFIG_KEY(section, key, type, fallback, allowed, help)
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
    ;

static const char keys[] =
#define CONFIG_SECTION(section, help)
#define CONFIG_KEY(section, key, type, fallback, allowed, help) #section "." #key " "
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
    ;

/* Keys with a fixed set of values. */
static const struct {
    const char *key, *type, *allowed;
} settings[] = {
#define CONFIG_SECTION(section, help)
#define CONFIG_KEY(section, key, type, fallback, allowed, help) {#section "." #key, #type, allowed},
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
};

/* The values of settings[i], separated by spaces; "" if they are not a fixed set. */
static const char *setting_values(size_t i)
{
    if (strcmp(settings[i].type, "SWITCH") == 0)
        return "on off";
    return strcmp(settings[i].type, "CHOICE") == 0 ? settings[i].allowed : "";
}

static void append(char *words, const char *word)
{
    size_t length = strlen(words);

    snprintf(words + length, WORDS_BYTES - length, "%s%s", length > 0 ? " " : "", word);
}

/* A list that is known here, as words; anything else as it is. */
static void append_list(const struct program *program, char *words, const char *word)
{
    if (strcmp(word, "@views") == 0)
        append(words, views);
    else if (strcmp(word, "@scenarios") == 0)
        append(words, scenarios);
    else if (strcmp(word, "@experiments") == 0)
        append(words, experiments);
    else if (strcmp(word, "@modes") == 0 || strcmp(word, "COMMAND") == 0)
        for (size_t i = 1; i < program->mode_count; i++)
            append(words, program->modes[i].name);
    else if (strcmp(word, "SECTION") == 0)
        append(words, sections);
    else if (strcmp(word, "SECTION.KEY") == 0)
        append(words, keys);
    else if (strpbrk(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == NULL)
        append(words, word);
}

/* TEXT expanded into a static buffer: "[on | off | RATE [BURST]]" becomes "on off". */
static const char *expand(const struct program *program, const char *text)
{
    static const char separators[] = " []|";
    static char words[WORDS_BYTES];

    words[0] = '\0';
    while (*(text += strspn(text, separators)) != '\0') {
        size_t length = strcspn(text, separators);
        char word[64];

        snprintf(word, sizeof(word), "%.*s", (int)length, text);
        append_list(program, words, word);
        text += length;
    }
    return words;
}

/* What completes OPTION in MODE; NULL if nothing does. */
static const char *argument_words(const struct program *program, const struct mode *mode,
                                  const char *option)
{
    const char *options_of = strcmp(mode->name, "lab") == 0 ? "lab" : "";

    for (size_t i = 0; i < COUNT(arguments); i++)
        if (strcmp(arguments[i].program, program->name) == 0 &&
            strcmp(arguments[i].mode, options_of) == 0 && strcmp(arguments[i].option, option) == 0)
            return arguments[i].words;
    return NULL;
}

/* An optional argument, "[=TIME]", is part of the word: --option=TIME. */
static bool takes_argument(const struct option *option)
{
    return option->argument != NULL && option->argument[0] != '\0' && option->argument[0] != '[';
}

/* The long form; wsconsole's table has '_' for '-'. */
static const char *long_name(const struct option *option)
{
    static char name[64];

    snprintf(name, sizeof(name), "%s", option->name);
    for (char *at = name; *at != '\0'; at++)
        if (*at == '_')
            *at = '-';
    return name;
}

/* TEXT inside single quotes; zsh also takes ESCAPED characters with a backslash before them. */
static void put_quoted(FILE *out, const char *text, const char *escaped, const char *quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs(quote, out);
        else if (strchr(escaped, *text) != NULL)
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* A pattern of all options of PROGRAM that take an argument: "-f|--config|-o". */
static void put_options_with_argument(FILE *out, const struct program *program,
                                      const char *separator)
{
    const char *before = "";

    for (size_t m = 0; m < program->mode_count; m++)
        for (size_t i = 0; i < program->modes[m].option_count; i++) {
            const struct option *option = &program->modes[m].options[i];

            if (!takes_argument(option))
                continue;
            if (option->letter != 0)
                fprintf(out, "%s-%c%s", before, option->letter, separator);
            fprintf(out, "%s--%s", option->letter != 0 ? "" : before, long_name(option));
            before = separator;
        }
    if (*before == '\0')
        fputs("--", out);
}

/* A pattern of the modes other than "". */
static void put_mode_names(FILE *out, const struct program *program, const char *separator)
{
    for (size_t i = 1; i < program->mode_count; i++)
        fprintf(out, "%s%s", i > 1 ? separator : "", program->modes[i].name);
}

/* bash */

static void bash_argument(FILE *out, const struct program *program, const struct mode *mode,
                          const struct option *option)
{
    const char *words = argument_words(program, mode, long_name(option));

    fprintf(out, "    %s/", mode->name);
    if (option->letter != 0)
        fprintf(out, "-%c | %s/", option->letter, mode->name);
    fprintf(out, "--%s) ", long_name(option));
    if (words == NULL)
        fputs("return ;;\n", out);
    else if (strcmp(words, "@files") == 0)
        fputs("compopt -o default; return ;;\n", out);
    else if (strcmp(words, "@directories") == 0)
        fputs("compopt -o dirnames; return ;;\n", out);
    else if (strcmp(words, "@instances") == 0)
        fputs("words=$(cd /dev/shm && compgen -G 'webserverd.*' |\n"
              "            sed -E 's/^webserverd\\.//; s/\\.[0-9a-f]{16}$//') ;;\n",
              out);
    else if (strcmp(words, "@settings") == 0)
        fprintf(out, "words='%s'; compopt -o nospace; suffix='=' ;;\n", keys);
    else
        fprintf(out, "words='%s' ;;\n", expand(program, words));
}

static void bash_mode(FILE *out, const struct program *program, const struct mode *mode)
{
    for (size_t i = 0; i < mode->option_count; i++)
        if (takes_argument(&mode->options[i]))
            bash_argument(out, program, mode, &mode->options[i]);
    fprintf(out, "    %s/*) words='", mode->name);
    for (size_t i = 0; i < mode->option_count; i++) {
        if (mode->options[i].letter != 0)
            fprintf(out, "-%c ", mode->options[i].letter);
        fprintf(out, "--%s ", long_name(&mode->options[i]));
    }
    fprintf(out, "%s' ;;\n", expand(program, mode->words));
}

static void write_bash(FILE *out, const struct program *program)
{
    fprintf(
        out,
        "# bash completion for %s. Generated from its option tables.\n"
        "_%s()\n{\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local mode='' words='' suffix='' i\n\n"
        "    COMPREPLY=()\n"
        "    # readline makes '=' a word: --name=web, section.key=value\n"
        "    if [[ $current == = ]]; then\n        current=''\n"
        "    elif [[ $previous == = ]]; then\n"
        "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n        case ${COMP_WORDS[i]} in\n        ",
        program->name, program->name);
    put_options_with_argument(out, program, " | ");
    fputs(") i=$((i + 1)); [[ ${COMP_WORDS[i]} == = ]] && i=$((i + 1)) ;;\n", out);
    if (program->mode_count > 1) {
        fputs("        ", out);
        put_mode_names(out, program, " | ");
        fputs(") mode=${COMP_WORDS[i]}; break ;;\n", out);
    }
    fputs("        esac\n    done\n    case $mode/$previous in\n", out);
    if (strcmp(program->name, "webserverd") == 0)
        for (size_t i = 0; i < COUNT(settings); i++)
            if (setting_values(i)[0] != '\0')
                fprintf(out, "    /%s) words='%s' ;;\n", settings[i].key, setting_values(i));
    for (size_t i = program->mode_count; i-- > 0;)
        bash_mode(out, program, &program->modes[i]);
    fprintf(out,
            "    esac\n"
            "    mapfile -t COMPREPLY < <(compgen -S \"$suffix\" -W \"$words\" -- \"$current\")\n"
            "}\ncomplete -F _%s %s\n",
            program->name, program->name);
}

static bool names_instances(const struct program *program)
{
    return strcmp(program->name, "wsctl") == 0 || strcmp(program->name, "wsconsole") == 0;
}

/* zsh */

static void zsh_action(FILE *out, const struct program *program, const char *words)
{
    if (words == NULL)
        fputs(" ", out);
    else if (strcmp(words, "@files") == 0)
        fputs("_files", out);
    else if (strcmp(words, "@directories") == 0)
        fputs("_files -/", out);
    else if (words[0] == '@' && (words[1] == 'i' || words[1] == 's'))
        fprintf(out, "_%s_%s", program->name, words + 1);
    else
        fprintf(out, "(%s)", expand(program, words));
}

static void zsh_option(FILE *out, const struct program *program, const struct mode *mode,
                       const struct option *option, const char *form, const char *suffix)
{
    bool repeats = strcmp(option->name, "override") == 0 || strcmp(option->name, "header") == 0;

    fprintf(out, " \\\n            '%s%s%s[", repeats ? "*" : "", form,
            takes_argument(option) ? suffix : "");
    put_quoted(out, option->help, "[]:\\", "'\\''");
    fputs("]", out);
    if (takes_argument(option)) {
        fputs(":", out);
        put_quoted(out, option->argument, ":\\", "");
        fputs(":", out);
        zsh_action(out, program, argument_words(program, mode, long_name(option)));
    }
    fputs("'", out);
}

static void zsh_mode(FILE *out, const struct program *program, const struct mode *mode)
{
    fprintf(out, "    %s)\n        _arguments -S :", mode->name[0] != '\0' ? mode->name : "*");
    for (size_t i = 0; i < mode->option_count; i++) {
        const struct option *option = &mode->options[i];
        char form[80];

        if (option->letter != 0) {
            snprintf(form, sizeof(form), "-%c", option->letter);
            zsh_option(out, program, mode, option, form, "+");
        }
        snprintf(form, sizeof(form), "--%s", long_name(option));
        zsh_option(out, program, mode, option, form, "=");
    }
    if (strcmp(mode->words, "@modes") == 0)
        fprintf(out, " \\\n            '*: :_%s_modes'", program->name);
    else if (expand(program, mode->words)[0] != '\0')
        fprintf(out, " \\\n            '*: :(%s)'", expand(program, mode->words));
    else
        fputs(" \\\n            '*: : '", out);
    fputs(" ;;\n", out);
}

static void zsh_functions(FILE *out, const struct program *program)
{
    if (names_instances(program))
        fprintf(out,
                "_%s_instances() {\n    local -a names=(/dev/shm/webserverd.*(N:t))\n"
                "    compadd -- ${${names#webserverd.}%%.[0-9a-f](#c16)}\n}\n",
                program->name);
    if (program->mode_count > 1) {
        fprintf(out, "_%s_modes() {\n    local -a modes=(\n", program->name);
        for (size_t i = 1; i < program->mode_count; i++) {
            fprintf(out, "        '%s:", program->modes[i].name);
            put_quoted(out, program->modes[i].help, ":\\", "'\\''");
            fputs("'\n", out);
        }
        fputs("    )\n    _describe command modes\n}\n", out);
    }
    if (strcmp(program->name, "webserverd") != 0)
        return;
    fputs("_webserverd_settings() {\n    if ! compset -P '*='; then\n", out);
    fprintf(out, "        compadd -S = -- %s\n        return\n    fi\n    case $IPREFIX in\n",
            keys);
    for (size_t i = 0; i < COUNT(settings); i++)
        if (setting_values(i)[0] != '\0')
            fprintf(out, "    *%s=) compadd -- %s ;;\n", settings[i].key, setting_values(i));
    fputs("    esac\n}\n", out);
}

static void write_zsh(FILE *out, const struct program *program)
{
    fprintf(out, "#compdef %s\n# zsh completion for %s. Generated from its option tables.\n",
            program->name, program->name);
    zsh_functions(out, program);
    fprintf(out,
            "_%s() {\n    local mode= i\n"
            "    for ((i = 2; i < CURRENT; i++)); do\n        case $words[i] in\n        ",
            program->name);
    put_options_with_argument(out, program, "|");
    fputs(") ((i++)) ;;\n", out);
    if (program->mode_count > 1) {
        fputs("        ", out);
        put_mode_names(out, program, "|");
        fputs(") mode=$words[i]; break ;;\n", out);
    }
    fputs("        esac\n    done\n    case $mode in\n", out);
    for (size_t i = program->mode_count; i-- > 0;)
        zsh_mode(out, program, &program->modes[i]);
    fprintf(out, "    esac\n}\n_%s \"$@\"\n", program->name);
}

/* fish */

static void fish_argument(FILE *out, const struct program *program, const char *words)
{
    if (words == NULL)
        fputs(" -x", out);
    else if (strcmp(words, "@files") == 0)
        fputs(" -r -F", out);
    else if (strcmp(words, "@directories") == 0)
        fputs(" -x -a '(__fish_complete_directories)'", out);
    else if (strcmp(words, "@instances") == 0)
        fprintf(out, " -x -a '(__%s_instances)'", program->name);
    else if (strcmp(words, "@settings") == 0) {
        fputs(" -x -a '", out);
        for (size_t i = 0; i < COUNT(settings); i++) {
            const char *values = setting_values(i);

            if (values[0] == '\0')
                fprintf(out, "%s= ", settings[i].key);
            for (; *values != '\0'; values += strspn(values, " ")) {
                size_t length = strcspn(values, " ");

                fprintf(out, "%s=%.*s ", settings[i].key, (int)length, values);
                values += length;
            }
        }
        fputs("'", out);
    } else {
        fprintf(out, " -x -a '%s'", expand(program, words));
    }
}

static void fish_mode(FILE *out, const struct program *program, const struct mode *mode)
{
    for (size_t i = 0; i < mode->option_count; i++) {
        const struct option *option = &mode->options[i];

        fprintf(out, "complete -c %s -n '__%s_mode \"%s\"' -l %s", program->name, program->name,
                mode->name, long_name(option));
        if (option->letter != 0)
            fprintf(out, " -s %c", option->letter);
        if (takes_argument(option))
            fish_argument(out, program, argument_words(program, mode, long_name(option)));
        fputs(" -d '", out);
        put_quoted(out, option->help, "\\", "\\'");
        fputs("'\n", out);
    }
    if (strcmp(mode->words, "@modes") != 0 && expand(program, mode->words)[0] != '\0')
        fprintf(out, "complete -c %s -n '__%s_mode \"%s\"' -a '%s'\n", program->name, program->name,
                mode->name, expand(program, mode->words));
    if (mode->help == NULL)
        return;
    fprintf(out, "complete -c %s -n '__%s_mode \"\"' -a %s -d '", program->name, program->name,
            mode->name);
    put_quoted(out, mode->help, "\\", "\\'");
    fputs("'\n", out);
}

static void write_fish(FILE *out, const struct program *program)
{
    fprintf(out, "# fish completion for %s. Generated from its option tables.\n", program->name);
    if (names_instances(program))
        fprintf(out,
                "function __%s_instances\n"
                "    for file in /dev/shm/webserverd.*\n"
                "        string replace -r '.*/webserverd\\.(.*?)(\\.[0-9a-f]{16})?$' '$1' $file\n"
                "    end\nend\n",
                program->name);
    fprintf(out,
            "function __%s_mode\n    set -l mode ''\n    set -l argument no\n"
            "    for word in (commandline -opc)[2..-1]\n"
            "        if test $argument = yes\n            set argument no\n            continue\n"
            "        end\n        switch $word\n            case ",
            program->name);
    put_options_with_argument(out, program, " ");
    fputs("\n                set argument yes\n", out);
    if (program->mode_count > 1) {
        fputs("            case ", out);
        put_mode_names(out, program, " ");
        fputs("\n                set mode $word\n                break\n", out);
    }
    fprintf(out,
            "        end\n    end\n    test \"$mode\" = \"$argv[1]\"\nend\n"
            "complete -c %s -f\n",
            program->name);
    for (size_t i = 0; i < program->mode_count; i++)
        fish_mode(out, program, &program->modes[i]);
}

static const struct {
    const char *name;
    void (*write)(FILE *out, const struct program *program);
} shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};

int main(int argc, char **argv)
{
    for (size_t shell = 0; argc == 4 && shell < COUNT(shells); shell++)
        for (size_t i = 0; i < COUNT(programs); i++) {
            FILE *out;

            if (strcmp(argv[1], shells[shell].name) != 0 || strcmp(argv[2], programs[i].name) != 0)
                continue;
            out = fopen(argv[3], "we");
            if (out != NULL)
                shells[shell].write(out, &programs[i]);
            if (out == NULL || fclose(out) != 0) {
                perror(argv[3]);
                return 1;
            }
            return 0;
        }
    fprintf(stderr, "usage: completions bash|zsh|fish PROGRAM OUTPUT\n");
    return 2;
}
