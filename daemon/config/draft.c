#include "daemon/config/check.h"

#include "daemon/config/value.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIELD_MAX = sizeof(struct config_list) > sizeof(uint64_t) ? sizeof(struct config_list) : 8 };

void *config_draft_field(const struct config_draft *draft, const struct config_key *key)
{
    return (char *)draft->config + key->offset;
}

static size_t field_size(enum config_type type)
{
#define SIZE_OF(type)                                                                              \
    case CONFIG_##type:                                                                            \
        return sizeof(CONFIG_C_##type);
    switch (type) {
        SIZE_OF(TEXT)
        SIZE_OF(NAME)
        SIZE_OF(PATH)
        SIZE_OF(ADDRESS)
        SIZE_OF(PATHS)
        SIZE_OF(NETWORKS)
        SIZE_OF(SWITCH)
        SIZE_OF(COUNT)
        SIZE_OF(AUTO)
        SIZE_OF(SPAN)
        SIZE_OF(SIZE)
        SIZE_OF(TIME)
        SIZE_OF(CHOICE)
        SIZE_OF(MODE)
    }
#undef SIZE_OF
    return 0;
}

/* An entry whose value is being read, for the faults in it. */
struct reading {
    struct config_draft *draft;
    const struct config_entry *entry;
};

static void tell_fault(void *owner, const struct config_fault *fault)
{
    struct reading *reading = owner;
    struct config_place place = config_entry_place(reading->entry, fault->offset, fault->length);

    config_report_error(&reading->draft->report, &place, fault->advice, "%s", fault->problem);
}

/* Reads ENTRY's value into the field of KEY. */
static void set_field(struct config_draft *draft, const struct config_key *key,
                      const struct config_entry *entry)
{
    struct reading reading = {draft, entry};
    struct config_faults faults = {tell_fault, &reading};
    size_t number = (size_t)(key - config_keys);
    void *field = config_draft_field(draft, key);
    _Alignas(max_align_t) char fresh[FIELD_MAX];

    draft->faulty[number] = true;
    if (config_entry_check(entry, &draft->report) != 0 ||
        config_value_parse(key, entry->value, draft->base, fresh, &faults) != 0)
        return;
    config_value_free(key, field);
    memcpy(field, fresh, field_size(key->type));
    draft->faulty[number] = false;
    draft->set_at[number] = config_entry_place(entry, 0, strlen(entry->value));
}

/* ENTRY's key stands in the file a second time. */
static void refuse_second(struct config_draft *draft, const struct config_entry *entry,
                          size_t first)
{
    config_report_error(&draft->report, &entry->key_place, "keep one of the two lines",
                        "'%.*s' is already set in line %zu", CONFIG_QUOTED(entry->key), first);
}

void config_draft_take(void *owner, const struct config_entry *entry)
{
    struct config_draft *draft = owner;
    const struct config_key *key = config_key_find(entry->section, entry->key);
    char advice[CONFIG_ADVICE_MAX];
    size_t number;

    if (strcmp(entry->section, "mime") == 0) {
        config_mime_take(draft, entry);
        return;
    }
    if (strcmp(entry->section, "headers") == 0) {
        config_header_take(draft, entry);
        return;
    }
    if (key == NULL) {
        config_key_advice(entry->section, entry->key, advice, sizeof(advice));
        config_report_error(&draft->report, &entry->key_place, advice, "[%s] has no key '%.*s'",
                            entry->section, CONFIG_QUOTED(entry->key));
        return;
    }
    number = (size_t)(key - config_keys);
    if (draft->given_in_line[number] > 0 && entry->key_place.line > 0) {
        refuse_second(draft, entry, draft->given_in_line[number]);
        return;
    }
    if (entry->key_place.line > 0)
        draft->given_in_line[number] = entry->key_place.line;
    draft->given[number] = true;
    set_field(draft, key, entry);
}

void config_draft_defaults(struct config_draft *draft)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        const struct config_key *key = &config_keys[i];
        struct span line = {key->default_line, strlen(key->default_line)};
        struct span name = {key->name, strlen(key->name)};
        struct config_piece piece = {.text = line, .text_offset = name.length + strlen(" = ")};
        struct config_entry entry = {.section = key->section,
                                     .key = name,
                                     .key_place = {"default", 0, line, 0, name.length},
                                     .value = key->fallback,
                                     .piece = &piece,
                                     .piece_count = 1};

        set_field(draft, key, &entry);
    }
}

/* Overrides. */

/* The three parts of an override. The section's start is NULL where there is no '.'. */
struct parts {
    struct span section, key, value;
};

static struct parts split(const char *text, const char *equals)
{
    const char *dot =
        memrchr(text, '.', (size_t)(equals - text)); /* [headers *.ending] has its own */
    const char *key = dot == NULL ? text : dot + 1;
    struct parts parts = {
        .key = config_trim((struct span){key, (size_t)(equals - key)}),
        .value = config_trim((struct span){equals + 1, strlen(equals + 1)}),
    };

    if (dot != NULL)
        parts.section = config_trim((struct span){text, (size_t)(dot - text)});
    return parts;
}

static struct config_place place_in(const char *text, const char *name, struct span word)
{
    struct span line = {text, strlen(text)};

    return (struct config_place){name, 0, line, (size_t)(word.start - text), word.length};
}

/* The override begins with a key. */
static void refuse_lone_key(struct config_draft *draft, const char *text, const char *name,
                            struct span key)
{
    struct config_place place = place_in(text, name, key);
    const struct config_key *meant = config_key_guess(key);
    char advice[CONFIG_ADVICE_MAX] = "write section.key=value, as in server.listen=127.0.0.1:8080";

    if (meant != NULL)
        snprintf(advice, sizeof(advice), "did you mean %s.%s?", meant->section, meant->name);
    config_report_error(&draft->report, &place, advice, "there is no section before the key");
}

/* Fills in the section that an override names, and its argument. False after a complaint. */
static bool find_section(struct config_draft *draft, const char *text, const char *name,
                         struct span word, struct config_entry *entry)
{
    const struct config_section *section;
    char advice[CONFIG_ADVICE_MAX];
    struct config_place place;

    config_section_split(&word, &entry->argument);
    section = config_section_find(word);
    if (section == NULL) {
        place = place_in(text, name, word);
        config_section_advice(word, advice, sizeof(advice));
        config_report_error(&draft->report, &place, advice, "there is no section [%.*s]",
                            CONFIG_QUOTED(word));
        return false;
    }
    entry->section = section->name;
    if (entry->argument.length == 0 ||
        config_section_argument_fits(section->name, entry->argument, advice, sizeof(advice)))
        return true;
    place = place_in(text, name, entry->argument);
    config_report_error(&draft->report, &place, advice, "the section can't have this argument");
    return false;
}

/* An override in good form. */
static void take_parts(struct config_draft *draft, const char *text, const char *name,
                       const struct parts *parts)
{
    struct config_place whole = place_in(text, name, (struct span){text, strlen(text)});
    struct config_piece piece = {.text = whole.text,
                                 .text_offset = (size_t)(parts->value.start - text)};
    struct config_entry entry = {.key = parts->key,
                                 .key_place = place_in(text, name, parts->key),
                                 .piece = &piece,
                                 .piece_count = 1};
    char *value;

    if (parts->section.start == NULL) {
        refuse_lone_key(draft, text, name, parts->key);
        return;
    }
    if (!find_section(draft, text, name, parts->section, &entry))
        return;
    value = strndup(parts->value.start, parts->value.length);
    if (value == NULL) {
        config_report_error(&draft->report, &whole, "", "out of memory");
        return;
    }
    entry.value = value;
    config_draft_take(draft, &entry);
    free(value);
}

void config_draft_override(struct config_draft *draft, const char *text, const char *name)
{
    struct config_place whole = place_in(text, name, (struct span){text, strlen(text)});
    const char *equals = strchr(text, '=');
    struct parts parts;

    if (config_line_check(&whole, &draft->report) != 0)
        return;
    if (equals == NULL) {
        config_report_error(&draft->report, &whole,
                            "write section.key=value, as in server.listen=127.0.0.1:8080",
                            "the override has no '='");
        return;
    }
    parts = split(text, equals);
    take_parts(draft, text, name, &parts);
}
