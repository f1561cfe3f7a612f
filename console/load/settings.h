/* The settings of a load run: the values of the form as typed, and the wsload arguments made from
 * them. Pure. */
#ifndef CONSOLE_LOAD_SETTINGS_H
#define CONSOLE_LOAD_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum load_field {
#define LOAD_FIELD(id, label, kind, option, initial, help) LOAD_##id,
#include "console/load/fields.def"
#undef LOAD_FIELD
    LOAD_FIELDS
};

enum load_field_kind { LOAD_TEXT, LOAD_COUNT, LOAD_TIME, LOAD_SWITCH };

struct load_field_info {
    const char *label;
    enum load_field_kind kind;
    const char *option, *initial, *help;
};
extern const struct load_field_info load_field_table[LOAD_FIELDS];

enum { LOAD_TEXT_BYTES = 256, LOAD_ARGUMENTS_MAX = 2 * LOAD_FIELDS + 8 };

struct load_settings {
    char text[LOAD_FIELDS][LOAD_TEXT_BYTES];
};

void load_settings_init(struct load_settings *settings);

/* Returns 0, or -1 with an error message in WHY; the settings are then unchanged. */
int load_settings_set(struct load_settings *settings, enum load_field field, const char *text,
                      char *why, size_t size);

struct load_preset {
    const char *name, *connections, *requests, *duration, *rate, *keepalive, *help;
};
extern const struct load_preset load_preset_table[];
extern const size_t load_preset_count;

/* Sets all fields but TARGET and THREADS to those of preset number PRESET. */
void load_settings_preset(struct load_settings *settings, size_t preset);

/*
 * The arguments of wsload with argv[0] and the final NULL. They point into SETTINGS, TARGET (the
 * URL if the form has none), and constants. CONTROL: the descriptor number of its control channel
 * as text, or NULL.
 */
void load_settings_arguments(const struct load_settings *settings, const char *target,
                             const char *control, const char *argv[LOAD_ARGUMENTS_MAX]);

/* "50 connections, 30s, 1000/s". Returns BUFFER. */
char *load_settings_summary(const struct load_settings *settings, char *buffer, size_t size);

/* The URL of the first TCP address in LISTENING (separated by spaces); "" if there is none. */
char *load_target_default(const char *listening, char *buffer, size_t size);

/* True if URL refers to one of the addresses in LISTENING. */
bool load_target_matches(const char *url, const char *listening);

json_t *load_settings_json(const struct load_settings *settings);
void load_settings_from_json(struct load_settings *settings, const json_t *object);

#endif
