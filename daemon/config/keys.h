/* The keys and sections of common/config.def as tables, and lookups by name. Any thread. */
#ifndef DAEMON_CONFIG_KEYS_H
#define DAEMON_CONFIG_KEYS_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>

enum config_type {
    CONFIG_TEXT,
    CONFIG_SECRET,
    CONFIG_NAME,
    CONFIG_PATH,
    CONFIG_PREFIX,
    CONFIG_ADDRESS,
    CONFIG_PATHS,
    CONFIG_NETWORKS,
    CONFIG_NAMES,
    CONFIG_SWITCH,
    CONFIG_COUNT,
    CONFIG_AUTO,
    CONFIG_SPAN,
    CONFIG_SIZE,
    CONFIG_TIME,
    CONFIG_CHOICE,
    CONFIG_MODE,
};

/* KEY_server_name is the index of [server] name in config_keys[]. */
enum config_key_number {
#define CONFIG_SECTION(section, help)
#define CONFIG_KEY(section, key, type, fallback, allowed, help) KEY_##section##_##key,
#include "common/config.def"
#undef CONFIG_KEY
#undef CONFIG_SECTION
    KEY_COUNT
};

struct config_key {
    const char *section;
    const char *name;
    enum config_type type;
    const char *fallback; /* the default, as text */
    const char *allowed;
    const char *help;
    const char *default_line; /* "name = fallback", for messages */
    size_t offset;            /* the place of its field in struct config */
};
extern const struct config_key config_keys[KEY_COUNT];

/* How a change of a key takes effect; common/config_changes.def. */
enum config_change { CHANGE_BY_RELOAD, CHANGE_LIVE, CHANGE_NEVER };

struct config_change_info {
    enum config_change change;
    const char *command; /* CHANGE_LIVE: the command that changes it; else NULL */
};
extern const struct config_change_info config_changes[KEY_COUNT];

struct config_section {
    const char *name;
    const char *help;
};
extern const struct config_section config_sections[];
extern const size_t config_section_count;

/* The section called NAME, or NULL. */
const struct config_section *config_section_find(struct span name);

/* TEXT without the blanks around it. */
struct span config_trim(struct span text);

/* Splits NAME at the first blank: "headers /prefix". ARGUMENT has length 0 if there is none. */
void config_section_split(struct span *name, struct span *argument);

/* Letters, digits, '-', '_' and single dots between them; the first label may be a star. */
bool config_is_host_name(struct span name);

/* Cuts "always" off the start of the argument of [headers]. True if it was there. */
bool config_scope_cut_always(struct span *argument);

/*
 * Cuts "host NAME" off the start of an argument. True if it was there, with *HOST, which may be
 * empty: then the argument is not valid.
 */
bool config_argument_cut_host(struct span *argument, struct span *host);

/*
 * Returns true if [SECTION ARGUMENT] is valid; only some sections have arguments. If not, writes
 * the valid forms to ADVICE (at most SIZE bytes).
 */
bool config_section_argument_fits(const char *section, struct span argument, char *advice,
                                  size_t size);

/* The key NAME of SECTION, or NULL. */
const struct config_key *config_key_find(const char *section, struct span name);

/*
 * Advice for an unknown name: the nearest name, the section a key belongs to, or all valid names.
 * Writes at most SIZE bytes including the NUL.
 */
void config_section_advice(struct span name, char *advice, size_t size);
void config_key_advice(const char *section, struct span name, char *advice, size_t size);

/* The key nearest to NAME in any section; NULL if none is near. */
const struct config_key *config_key_guess(struct span name);

#endif
