#include "daemon/config/internal.h"

#include "common/escape.h"
#include "daemon/base/memory_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char forms[] =
    "write ${NAME}, ${NAME:-default} or ${file:NAME}; $${ stands for the characters ${";

/* What is replaced, and where the result goes. */
struct expansion {
    const struct config_place *place; /* of the whole text */
    struct config_report *report;
    bool paths;
    FILE *out;
};

/* Reports an error of VARIABLE, a part of the text. Returns false. */
static bool report_variable(const struct expansion *expansion, struct span variable,
                            const char *advice, const char *problem)
{
    struct config_place place = *expansion->place;

    place.offset = (size_t)(variable.start - place.text.start);
    place.length = variable.length;
    config_report_error(expansion->report, &place, advice, "%s", problem);
    return false;
}

/* Writes VALUE, which may be anything. */
static bool write_value(const struct expansion *expansion, struct span variable, const char *value)
{
    char problem[CONFIG_PROBLEM_MAX];
    size_t length = strlen(value);

    for (size_t i = 0, step; i < length; i += step) {
        step = value[i] == '\t' ? 1 : escape_printable(value + i, length - i);
        if (step > 0)
            continue;
        snprintf(problem, sizeof(problem), "its value has %s (byte 0x%02x)",
                 (unsigned char)value[i] < 0x80 ? "a control character"
                                                : "a control character or is not UTF-8",
                 (unsigned char)value[i]);
        return report_variable(expansion, variable, "a value is one line of text in UTF-8",
                               problem);
    }
    fputs(value, expansion->out);
    return true;
}

/* Writes the path of a credential, or its content. */
static bool write_credential(const struct expansion *expansion, struct span variable,
                             struct span name)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    char path[PATH_MAX], problem[CONFIG_PROBLEM_MAX], *text;
    bool absolute = name.length > 0 && name.start[0] == '/', good;
    size_t length;
    int fd;

    if (name.length == 0 || (!absolute && memchr(name.start, '/', name.length) != NULL) ||
        span_is(name, SPAN(".")) || span_is(name, SPAN("..")))
        return report_variable(expansion, variable,
                               "write the name of a credential, as in ${file:tls.key}, or an "
                               "absolute path",
                               "this is not the name of a credential");
    if (!absolute && (directory == NULL || directory[0] != '/'))
        return report_variable(expansion, variable,
                               "systemd sets it for a unit with LoadCredential=; or write an "
                               "absolute path, as in ${file:/run/secrets/tls.key}",
                               "CREDENTIALS_DIRECTORY is not set");
    if (snprintf(path, sizeof(path), "%s%s%.*s", absolute ? "" : directory, absolute ? "" : "/",
                 (int)name.length, name.start) >= (int)sizeof(path))
        return report_variable(expansion, variable, "", strerror(ENAMETOOLONG));
    if (expansion->paths)
        return write_value(expansion, variable, path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    text = fd >= 0 ? config_text_read(fd, CONFIG_LINE_MAX, &length) : NULL;
    if (text == NULL)
        snprintf(problem, sizeof(problem), "%.150s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (text == NULL)
        return report_variable(expansion, variable,
                               "the user that starts webserverd must be able to read it", problem);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        text[--length] = '\0';
    good = strlen(text) == length
               ? write_value(expansion, variable, text)
               : report_variable(expansion, variable, "a value is one line of text in UTF-8",
                                 "its value has a control character (byte 0x00)");
    explicit_bzero(text, length);
    free(text);
    return good;
}

/* Writes the value of VARIABLE, "${…}", whose inner part is INNER. */
static bool write_variable(const struct expansion *expansion, struct span variable,
                           struct span inner)
{
    char name[CONFIG_QUOTED_MAX + 1], problem[CONFIG_PROBLEM_MAX];
    const char *value;
    struct span fallback;
    size_t length = 0;

    if (inner.length >= 5 && memcmp(inner.start, "file:", 5) == 0)
        return write_credential(expansion, variable,
                                (struct span){inner.start + 5, inner.length - 5});
    while (length < inner.length &&
           (isalnum((unsigned char)inner.start[length]) || inner.start[length] == '_'))
        length++;
    fallback = (struct span){inner.start + length, inner.length - length};
    if (length == 0 || length > CONFIG_QUOTED_MAX || isdigit((unsigned char)inner.start[0]) ||
        (fallback.length > 0 && (fallback.length < 2 || memcmp(fallback.start, ":-", 2) != 0)) ||
        memmem(inner.start, inner.length, "${", 2) != NULL)
        return report_variable(expansion, variable, forms, "this is not a valid variable");
    snprintf(name, sizeof(name), "%.*s", (int)length, inner.start);
    value = getenv(name);
    if (fallback.length > 0 && (value == NULL || value[0] == '\0')) {
        fwrite(fallback.start + 2, 1, fallback.length - 2, expansion->out);
        return true;
    }
    if (value != NULL)
        return write_value(expansion, variable, value);
    snprintf(problem, sizeof(problem), "the environment has no %s", name);
    return report_variable(expansion, variable,
                           "set it, or give it a default: ${NAME:-default}; $${ stands for the "
                           "characters ${",
                           problem);
}

/* Returns false after a report. */
static bool write_expanded(const struct expansion *expansion, struct span text)
{
    const char *end = text.start + text.length;
    bool good = true;

    for (const char *at = text.start; at < end;) {
        struct span variable = {at, 0};
        const char *brace;

        if (end - at >= 3 && memcmp(at, "$${", 3) == 0) {
            fputs("${", expansion->out);
            at += 3;
            continue;
        }
        if (end - at < 2 || memcmp(at, "${", 2) != 0) {
            fputc(*at++, expansion->out);
            continue;
        }
        brace = memchr(at, '}', (size_t)(end - at));
        variable.length = (size_t)((brace != NULL ? brace + 1 : end) - at);
        if (brace == NULL)
            return report_variable(expansion, variable, forms, "the '}' is missing");
        good =
            write_variable(expansion, variable, (struct span){at + 2, (size_t)(brace - at) - 2}) &&
            good;
        at = brace + 1;
    }
    return good;
}

char *config_variables_expand(const struct config_place *place, bool paths, bool *failed,
                              struct config_report *report)
{
    const struct span text = {place->text.start + place->offset, place->length};
    struct expansion expansion = {place, report, paths, NULL};
    char *expanded = NULL;
    size_t length;

    *failed = false;
    if (text.length < 2 || memmem(text.start, text.length, "${", 2) == NULL)
        return NULL;
    expansion.out = open_memstream(&expanded, &length);
    if (expansion.out == NULL) {
        *failed = !report_variable(&expansion, text, "", "out of memory");
        return NULL;
    }
    *failed = !write_expanded(&expansion, text);
    if (memstream_close(expansion.out, &expanded) != 0)
        *failed = !report_variable(&expansion, text, "", "out of memory");
    else if (!*failed && strlen(expanded) > CONFIG_LINE_MAX)
        *failed =
            !report_variable(&expansion, text, "", "with its variables the value is too long");
    if (!*failed)
        return expanded;
    free(expanded);
    return NULL;
}

void config_value_print(const char *name, const char *value, FILE *out)
{
    fprintf(out, "%s = ", name);
    for (; *value != '\0'; value++) {
        if (value[0] == '$' && value[1] == '{')
            fputc('$', out);
        fputc(*value, out);
    }
    fputc('\n', out);
}
