#include "daemon/config/keys.h"

#include "common/macros.h"
#include "common/tables.h"
#include "daemon/config/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    TYPED_MAX = 80, /* no key resembles a longer name */
    HOST_NAME_MAX = 253,
};

const struct config_key config_keys[KEY_COUNT] = {
#define CONFIG_SECTION(section, help)
#define CONFIG_KEY(section, key, type, fallback, allowed, help)                                    \
    {#section, #key, CONFIG_##type,       fallback,                                                \
     allowed,  help, #key " = " fallback, offsetof(struct config, section##_##key)},
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
};

const struct config_change_info config_changes[KEY_COUNT] = {
#define CONFIG_LIVE(section, key, command) [KEY_##section##_##key] = {CHANGE_LIVE, command},
#define CONFIG_FIXED(section, key)         [KEY_##section##_##key] = {CHANGE_NEVER, NULL},
#include "common/config_changes.def"
#undef CONFIG_FIXED
#undef CONFIG_LIVE
};

const struct config_section config_sections[] = {
#define CONFIG_SECTION(section, help) {#section, help},
#define CONFIG_KEY(section, key, type, fallback, allowed, help)
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
};
const size_t config_section_count = ARRAY_LENGTH(config_sections);

static bool is_word(struct span name, const char *word)
{
    return span_is(name, span_of(word));
}

const struct config_section *config_section_find(struct span name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(config_sections); i++)
        if (is_word(name, config_sections[i].name))
            return &config_sections[i];
    return NULL;
}

struct span config_trim(struct span text)
{
    while (text.length > 0 && isspace((unsigned char)text.start[0])) {
        text.start++;
        text.length--;
    }
    while (text.length > 0 && isspace((unsigned char)text.start[text.length - 1]))
        text.length--;
    return text;
}

void config_section_split(struct span *name, struct span *argument)
{
    size_t first = 0;

    while (first < name->length && !isspace((unsigned char)name->start[first]))
        first++;
    *argument = config_trim((struct span){name->start + first, name->length - first});
    if (argument->length > 0)
        name->length = first;
}

bool config_scope_cut_always(struct span *argument)
{
    struct span word = *argument, rest;

    config_section_split(&word, &rest);
    if (!span_is(word, SPAN("always")))
        return false;
    *argument = rest;
    return true;
}

bool config_argument_cut_host(struct span *argument, struct span *host)
{
    struct span word = *argument, rest;

    config_section_split(&word, &rest);
    if (!span_is(word, SPAN("host")))
        return false;
    *host = rest;
    config_section_split(host, argument);
    return true;
}

bool config_is_host_name(struct span name)
{
    bool wildcard = name.length > 2 && memcmp(name.start, "*.", 2) == 0;
    char before = '.';

    for (size_t i = wildcard ? 2 : 0; i < name.length; i++) {
        char byte = name.start[i];

        if (!isalnum((unsigned char)byte) && byte != '-' && byte != '_' &&
            (byte != '.' || before == '.'))
            return false;
        before = byte;
    }
    return before != '.' && name.length <= HOST_NAME_MAX;
}

/*
 * A path, or "*.extension" if EXTENSIONS. *FAULT is what is wrong with a path, if that is the
 * problem.
 */
static bool is_scope(struct span text, bool extensions, const char **fault)
{
    struct config_path path;

    if (!extensions || text.start[0] == '/' || text.start[0] == '"') {
        *fault = config_path_read(text, &path);
        return *fault == NULL;
    }
    return text.length > 2 && memcmp(text.start, "*.", 2) == 0 &&
           memchr(text.start, '/', text.length) == NULL &&
           memchr(text.start + 1, '*', text.length - 1) == NULL;
}

bool config_section_argument_fits(const char *section, struct span argument, char *advice,
                                  size_t size)
{
    struct span rest = argument, host = SPAN("");
    bool of_host = config_argument_cut_host(&rest, &host);
    bool host_fits = !of_host || (host.length > 0 && config_is_host_name(host)), fits;
    bool is_headers = strcmp(section, "headers") == 0;
    const char *fault = NULL;

    if (is_headers || strcmp(section, "access") == 0 || strcmp(section, "cors") == 0) {
        bool always = is_headers && config_scope_cut_always(&rest);

        fits = host_fits && (((of_host || always) && rest.length == 0) ||
                             (rest.length > 0 && is_scope(rest, is_headers, &fault)));
        snprintf(advice, size, "%s%s", fault != NULL ? fault : "", fault != NULL ? "; " : "");
        size -= strlen(advice);
        advice += strlen(advice);
        if (is_headers)
            snprintf(advice, size,
                     "write [headers], [headers /prefix], [headers *.extension], or always before "
                     "the argument, as in [headers always /prefix], or a host before it, as in "
                     "[headers host www.example.org]");
        else
            snprintf(advice, size, "write [%s], [%s /prefix] or [%s host www.example.org /prefix]",
                     section, section, section);
        return fits;
    }
    if (strcmp(section, "redirect") == 0) {
        snprintf(advice, size, "write [redirect], or [redirect host www.example.org]");
        return of_host && host_fits && rest.length == 0;
    }
    if (strcmp(section, "host") == 0) {
        bool valid = true;

        snprintf(advice, size,
                 "write host names, separated by blanks: [host www.example.org *.example.net]");
        for (; argument.length > 0; argument = rest) {
            config_section_split(&argument, &rest);
            valid = valid && config_is_host_name(argument);
        }
        return valid;
    }
    snprintf(advice, size, "write [%s]", section);
    return false;
}

const struct config_key *config_key_find(const char *section, struct span name)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(config_keys[i].section, section) == 0 && is_word(name, config_keys[i].name))
            return &config_keys[i];
    return NULL;
}

/* The first key called NAME in any section, or NULL. */
static const struct config_key *find_anywhere(struct span name)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (is_word(name, config_keys[i].name))
            return &config_keys[i];
    return NULL;
}

/* Copies NAME to TYPED as a string, cut if it is too long. */
static const char *as_string(struct span name, char typed[TYPED_MAX])
{
    snprintf(typed, TYPED_MAX, "%.*s", (int)(name.length < TYPED_MAX ? name.length : TYPED_MAX),
             name.start);
    return typed;
}

/* The key nearest to NAME in SECTION (NULL: in any), or NULL. */
static const struct config_key *nearest_key(const char *section, struct span name)
{
    const char *words[KEY_COUNT], *word;
    const struct config_key *of_word[KEY_COUNT];
    size_t count = 0;
    char typed[TYPED_MAX];

    for (size_t i = 0; i < KEY_COUNT; i++)
        if (section == NULL || strcmp(config_keys[i].section, section) == 0) {
            of_word[count] = &config_keys[i];
            words[count++] = config_keys[i].name;
        }
    word = nearest_word(as_string(name, typed), words, count);
    for (size_t i = 0; i < count; i++)
        if (words[i] == word)
            return of_word[i];
    return NULL;
}

/* A name of another server or of an earlier version: either the key here, or why there is none. */
struct foreign_key {
    const char *name;
    const struct config_key *key;
    const char *unsupported;
};

static const struct foreign_key *find_foreign(struct span name)
{
    static const struct foreign_key foreign[] = {
#define FOREIGN(name, section, key) {name, &config_keys[KEY_##section##_##key], NULL},
#define UNSUPPORTED(name, why)      {name, NULL, why},
#include "daemon/config/foreign_keys.def"
#undef FOREIGN
#undef UNSUPPORTED
    };
    char letters[TYPED_MAX];
    size_t length = 0;

    for (size_t i = 0; i < name.length && length < sizeof(letters) - 1; i++)
        if (name.start[i] != '_' && name.start[i] != '-')
            letters[length++] = (char)tolower((unsigned char)name.start[i]);
    letters[length] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(foreign); i++)
        if (strcmp(letters, foreign[i].name) == 0)
            return &foreign[i];
    return NULL;
}

/* Appends WORD to the list in TEXT, as far as it fits. */
static void list_word(char *text, size_t size, const char *separator, const char *word)
{
    size_t length = strlen(text);

    snprintf(text + length, size - length, "%s%s", separator, word);
}

void config_section_advice(struct span name, char *advice, size_t size)
{
    const char *words[ARRAY_LENGTH(config_sections)], *word;
    char typed[TYPED_MAX];

    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        words[i] = config_sections[i].name;
    word = nearest_word(as_string(name, typed), words, ARRAY_LENGTH(words));
    if (word != NULL) {
        snprintf(advice, size, "did you mean [%s]?", word);
        return;
    }
    snprintf(advice, size, "valid sections: ");
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        list_word(advice, size, i == 0 ? "[" : " [", words[i]);
        list_word(advice, size, "", "]");
    }
}

void config_key_advice(const char *section, struct span name, char *advice, size_t size)
{
    const struct config_key *elsewhere = find_anywhere(name);
    const struct foreign_key *foreign = find_foreign(name);
    const struct config_key *meant = foreign != NULL ? foreign->key : NULL;
    const char *separator = "";

    if (foreign != NULL && foreign->unsupported != NULL) {
        snprintf(advice, size, "%s", foreign->unsupported);
        return;
    }
    if (meant == NULL)
        meant = nearest_key(section, name);
    if (meant == NULL)
        meant = nearest_key(NULL, name);
    if (elsewhere != NULL) {
        snprintf(advice, size, "'%s' belongs to [%s]", elsewhere->name, elsewhere->section);
    } else if (meant != NULL && strcmp(meant->section, section) == 0) {
        snprintf(advice, size, "did you mean '%s'?", meant->name);
    } else if (meant != NULL) {
        snprintf(advice, size, "did you mean '%s' in [%s]?", meant->name, meant->section);
    } else {
        snprintf(advice, size, "valid keys: ");
        for (size_t i = 0; i < KEY_COUNT; i++)
            if (strcmp(config_keys[i].section, section) == 0) {
                list_word(advice, size, separator, config_keys[i].name);
                separator = ", ";
            }
    }
}

const struct config_key *config_key_guess(struct span name)
{
    const struct config_key *key = find_anywhere(name);
    const struct foreign_key *foreign = find_foreign(name);

    if (key == NULL && foreign != NULL)
        key = foreign->key;
    return key != NULL ? key : nearest_key(NULL, name);
}
