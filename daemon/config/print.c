#include "daemon/config/internal.h"

#include "common/escape.h"
#include "daemon/base/memory_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { COMMENT_WIDTH = 96 };

/* Prints HELP as lines of a comment, which break at blanks. */
static void print_help(FILE *out, const char *help)
{
    size_t length;

    for (; *help != '\0'; help += length + (help[length] == ' ')) {
        length = strlen(help);
        while (length > COMMENT_WIDTH - strlen("# ")) {
            const char *blank = memrchr(help, ' ', length);

            if (blank == NULL)
                break;
            length = (size_t)(blank - help);
        }
        fprintf(out, "# %.*s\n", (int)length, help);
    }
}

/* As a comment, if ORIGINS. */
static void print_line_of_value(FILE *out, const struct config_line *line, bool origins)
{
    if (!origins || line->source == NULL)
        return;
    fputs("# ", out);
    escape_print(out, line->source);
    if (line->number > 0)
        fprintf(out, ":%zu", line->number);
    fputc('\n', out);
}

static void print_config_key(FILE *out, const struct config_key *key, const struct config *config,
                             bool origins)
{
    const char *origin = config_origin(config, (size_t)(key - config_keys));
    char *value = config_value_text(key, (const char *)config + key->offset);

    print_help(out, key->help);
    if (origins && strcmp(origin, "default") != 0) {
        fputs("# ", out);
        escape_print(out, origin);
        fputc('\n', out);
    }
    if (key->type == CONFIG_SECRET && value != NULL && value[0] != '\0')
        fputs("# It is set; -T does not show it: ", out); /* so that the line is a comment */
    if (value != NULL)
        config_value_print(key->name, value, out);
    free(value);
}

/* True for a line of [headers] without an argument. */
static bool is_for_all(const struct config_header *header)
{
    return header->host[0] == '\0' && header->scope[0] == '\0' && !header->always;
}

static bool same_scope(const struct config_header *one, const struct config_header *other)
{
    return one->always == other->always && strcmp(one->scope, other->scope) == 0 &&
           strcasecmp(one->host, other->host) == 0;
}

static void print_headers_title(FILE *out, const struct config_header *header)
{
    fprintf(out, "\n[headers%s%s%s%s", header->host[0] != '\0' ? " host " : "", header->host,
            header->always ? " always" : "", header->scope[0] != '\0' ? " " : "");
    if (header->scope[0] == '/')
        config_path_print(header->scope, out);
    else
        fputs(header->scope, out);
    fputs("]\n", out);
}

/* [headers] itself first, then each scope with all of its lines. */
static void print_headers(FILE *out, const struct config *config, bool origins)
{
    for (int narrow = 0; narrow <= 1; narrow++)
        for (size_t i = 0; i < config->header_count; i++) {
            const struct config_header *header = &config->headers[i];
            size_t first = 0;

            while (!same_scope(&config->headers[first], header))
                first++;
            if (first < i || !is_for_all(header) != narrow)
                continue;
            if (narrow)
                print_headers_title(out, header);
            for (size_t k = i; k < config->header_count; k++)
                if (same_scope(&config->headers[k], header)) {
                    print_line_of_value(out, &config->headers[k].line, origins);
                    config_value_print(config->headers[k].name, config->headers[k].value, out);
                }
        }
}

/* Those for all hosts, whose number is 0, then those of each host. */
static void print_redirects(FILE *out, const struct config *config, bool origins)
{
    for (uint32_t host = 0; host <= config->host_count; host++) {
        bool has_title = host == 0;

        for (size_t i = 0; i < config->redirect_count; i++) {
            const struct config_redirect *rule = &config->redirects[i];

            if (rule->host_number != host)
                continue;
            if (!has_title)
                fprintf(out, "\n[redirect host %s]\n", rule->host);
            has_title = true;
            print_line_of_value(out, &rule->line, origins);
            config_redirect_print(rule, out);
        }
    }
}

static void print_host(FILE *out, const struct config_host *host, bool origins)
{
    fputs("\n[host", out);
    for (size_t i = 0; i < host->name_count; i++)
        fprintf(out, " %s", host->names[i]);
    fputs("]\n", out);
    for (int key = 0; key < HOST_KEY_COUNT; key++) {
        char *value = NULL;

        if (host->given[key])
            value = config_value_text(config_host_key_type((enum config_host_key)key),
                                      config_host_field(host, (enum config_host_key)key));
        if (value != NULL && (value[0] != '\0' || key != HOST_KEY_key)) {
            print_line_of_value(out, &host->line[key], origins);
            config_value_print(config_host_key_names[key], value, out);
        }
        free(value);
    }
}

static void print_section(FILE *out, const struct config_section *section,
                          const struct config *config, bool origins)
{
    if (strcmp(section->name, "host") == 0) {
        fputs("# Sites with their own names.\n", out);
        for (size_t i = 0; i < config->host_count; i++)
            print_host(out, &config->hosts[i], origins);
        return;
    }
    fprintf(out, "# %s\n[%s]\n", section->help, section->name);
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(config_keys[i].section, section->name) == 0)
            print_config_key(out, &config_keys[i], config, origins);
    if (strcmp(section->name, "headers") == 0)
        print_headers(out, config, origins);
    if (strcmp(section->name, "access") == 0)
        config_access_print(config, out);
    if (strcmp(section->name, "cors") == 0)
        config_cors_print(config, out);
    if (strcmp(section->name, "redirect") == 0)
        print_redirects(out, config, origins);
}

void config_print(const struct config *config, bool origins, FILE *out)
{
    for (size_t i = 0; i < config_section_count; i++) {
        if (i > 0)
            fputc('\n', out);
        print_section(out, &config_sections[i], config, origins);
    }
    for (size_t i = 0; i < config->mime_count; i++) {
        print_line_of_value(out, &config->mime_lines[i], origins);
        config_value_print(config->mime_extensions[i], config->mime_types[i], out);
    }
}

/* Comparing */

/* A part of a printed configuration. */
struct section {
    const char *title, *lines;
    size_t title_length, length;
};

/* NULL: out of memory. */
static char *printed_config(const struct config *config)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return NULL;
    config_print(config, false, memory);
    if (memstream_close(memory, &text) == 0)
        return text;
    free(text);
    return NULL;
}

/* Ends before the comment of the next section. */
static size_t lines_length(const char *lines)
{
    const char *end = lines;

    while (*end != '\0' && *end != '[' && strncmp(end, "\n#", 2) != 0) {
        end += strcspn(end, "\n");
        end += *end == '\n';
    }
    while (end > lines && end[-1] == '\n')
        end--;
    return (size_t)(end - lines);
}

/* The first section at or after AT. */
static bool next_printed_section(const char *at, struct section *section)
{
    const char *title = *at == '[' ? at : strstr(at, "\n[");

    if (title == NULL)
        return false;
    section->title = title + (*title == '\n');
    section->title_length = strcspn(section->title, "\n");
    section->lines = section->title + section->title_length;
    section->lines += *section->lines == '\n';
    section->length = lines_length(section->lines);
    return true;
}

static bool find_printed_section(const char *text, const struct section *wanted,
                                 struct section *section)
{
    for (bool more = next_printed_section(text, section); more;
         more = next_printed_section(section->lines, section))
        if (section->title_length == wanted->title_length &&
            memcmp(section->title, wanted->title, wanted->title_length) == 0)
            return true;
    return false;
}

static bool has_keys(const struct section *section)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const char *name = config_keys[i].section;

        if (section->title_length == strlen(name) + 2 &&
            memcmp(section->title + 1, name, strlen(name)) == 0)
            return true;
    }
    return false;
}

int config_changed_sections(const struct config *before, const struct config *after,
                            void (*found)(void *owner, const char *title, size_t length),
                            void *owner)
{
    char *old = printed_config(before), *new = printed_config(after);
    struct section one, other;
    bool more;
    int result = old != NULL && new != NULL ? 0 : -1;

    for (more = result == 0 && next_printed_section(new, &one); more;
         more = next_printed_section(one.lines, &one)) {
        bool is_new = !find_printed_section(old, &one, &other);

        if (!has_keys(&one) && (is_new ? one.length > 0
                                       : one.length != other.length ||
                                             memcmp(one.lines, other.lines, one.length) != 0))
            found(owner, one.title, one.title_length);
    }
    for (more = result == 0 && next_printed_section(old, &one); more;
         more = next_printed_section(one.lines, &one))
        if (!has_keys(&one) && one.length > 0 && !find_printed_section(new, &one, &other))
            found(owner, one.title, one.title_length);
    free(old);
    free(new);
    return result;
}
