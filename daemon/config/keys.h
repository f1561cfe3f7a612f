/*
 * common/config.def as a table, and the finding of names in it. Read-only; any thread.
 * "Configuration key" is meant throughout: a key belongs to a section.
 */
#ifndef DAEMON_CONFIG_KEYS_H
#define DAEMON_CONFIG_KEYS_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>

enum config_type {
    CONFIG_TEXT,
    CONFIG_NAME,
    CONFIG_PATH,
    CONFIG_ADDRESS,
    CONFIG_PATHS,
    CONFIG_NETWORKS,
    CONFIG_SWITCH,
    CONFIG_COUNT,
    CONFIG_AUTO,
    CONFIG_SPAN,
    CONFIG_SIZE,
    CONFIG_TIME,
    CONFIG_CHOICE,
    CONFIG_MODE,
};

/* KEY_server_name is the position of [server] name in config_keys[]. */
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
    const char *fallback; /* the default, as it would be written */
    const char *allowed;
    const char *help;
    const char *default_line; /* "name = fallback", to be shown in messages */
    size_t offset;            /* of the field in struct config */
};
extern const struct config_key config_keys[KEY_COUNT];

/* How a change of a key comes into force; common/config_changes.def. */
enum config_change { CHANGE_BY_RELOAD, CHANGE_LIVE, CHANGE_NEVER };

struct config_change_info {
    enum config_change change;
    const char *command; /* CHANGE_LIVE: the one that does it; else NULL */
};
extern const struct config_change_info config_changes[KEY_COUNT];

struct config_section {
    const char *name;
    const char *help;
};
extern const struct config_section config_sections[];
extern const size_t config_section_count;

/* The section of that name, or NULL. */
const struct config_section *config_section_find(struct span name);

/* TEXT without the blanks around it. */
struct span config_trim(struct span text);

/* Cuts what follows the first blank off NAME, "headers /prefix"; an absent ARGUMENT has length 0. */
void config_section_split(struct span *name, struct span *argument);

/*
 * May [SECTION ARGUMENT] be written? Only [headers] takes one. If not, ADVICE (at most SIZE bytes)
 * says what may be.
 */
bool config_section_argument_fits(const char *section, struct span argument, char *advice,
                                  size_t size);

/* The key NAME of SECTION, or NULL. */
const struct config_key *config_key_find(const char *section, struct span name);

/*
 * Advice for a name that is not known: the one that may have been meant, where a key does belong,
 * or all that there are. Writes at most SIZE bytes with the NUL.
 */
void config_section_advice(struct span name, char *advice, size_t size);
void config_key_advice(const char *section, struct span name, char *advice, size_t size);

/* The key that NAME most likely means, whatever its section; NULL when none is near. */
const struct config_key *config_key_guess(struct span name);

#endif
