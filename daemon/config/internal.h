/*
 * The parts of loading a configuration: text to entries (reader.c), errors with their place
 * (report.c), and what each module adds of its section, checks and prints.
 */
#ifndef DAEMON_CONFIG_INTERNAL_H
#define DAEMON_CONFIG_INTERNAL_H

#include "common/macros.h"
#include "common/span.h"
#include "daemon/config/acme.h"
#include "daemon/config/config.h"
#include "daemon/config/hosts.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/config/rules.h"
#include "daemon/config/value.h"
#include "daemon/http/target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* --- report.c --- */

/*
 * Error messages of the configuration. Each names the place, shows the line with carets under the
 * offending word, and gives advice:
 *
 *     etc/webserver.ini:3:1: error: [server] has no key 'lisen'
 *         lisen = 127.0.0.1:8080
 *         ^^^^^
 *         did you mean 'listen'?
 *
 * Columns count characters from 1, as editors do. Bytes that are not printable text are replaced,
 * so that a file cannot send escape sequences to the terminal. Any thread.
 */

enum {
    CONFIG_ERRORS_SHOWN = 20, /* others are only counted */
    CONFIG_QUOTED_MAX = 60,   /* bytes of a word in a message */
};

/* A span as the two arguments of "%.*s", cut to CONFIG_QUOTED_MAX. */
#define CONFIG_QUOTED(span)                                                                        \
    (int)((span).length < CONFIG_QUOTED_MAX ? (span).length : CONFIG_QUOTED_MAX), (span).start

/* A word in a line of a source. Everything is borrowed. */
struct config_place {
    const char *source; /* as in struct config_line, and so is the next */
    size_t line;
    struct span text; /* the whole line; start NULL: show none */
    size_t offset;    /* of the word in text, bytes */
    size_t length;    /* of the word, bytes; 0 is shown as one caret */
};

struct config_report {
    FILE *out;
    size_t errors; /* so far, including those not shown */
};

/* Reports one error. ADVICE may be empty. */
void config_report_error(struct config_report *report, const struct config_place *place,
                         const char *advice, const char *format, ...) PRINTF_LIKE(4, 5);

/* Prints how many errors were not shown, if any. */
void config_report_end(const struct config_report *report);

/* Reports one fault; FORMAT is the problem. Returns -1. */
int config_fault_report(const struct config_faults *faults, size_t offset, size_t length,
                        const char *advice, const char *format, ...) PRINTF_LIKE(5, 6);
int config_fault_memory(const struct config_faults *faults);

/* --- reader.c --- */

/*
 * Parses the text of a configuration into entries (section, key, value). Any thread.
 *
 * The format: lines "key = value" below "[section]". Blanks at the start and end of a line, and
 * around key, value and section, mean nothing. A line that begins with '#' or ';' is a comment, and
 * so is the rest of a line after a blank and ';', except in values that may have a ';'.
 *
 * Variables in values and in the arguments of sections are replaced (variables.c). A line "include =
 * PATTERN" may be anywhere; its entry has no section.
 */

enum {
    CONFIG_LINE_MAX = 16 * 1024,        /* bytes */
    CONFIG_TEXT_MAX = 16 * 1024 * 1024, /* bytes */
};

/* A key with its value. Borrowed: the line lives as long as the text, the rest during the call. */
struct config_entry {
    const char *section;  /* a valid one; NULL: include */
    struct span argument; /* of the section, "/prefix" in [headers /prefix]; length 0: none */
    struct span key;      /* empty: the line [host …] itself */
    struct config_place key_place;
    const char *value;   /* may be empty */
    size_t value_offset; /* where it begins in the line */
    size_t written;      /* bytes of the value as written, with variables; 0: it has none */
};

/* The place of LENGTH bytes at OFFSET of ENTRY's value. */
struct config_place config_entry_place(const struct config_entry *entry, size_t offset,
                                       size_t length);

/*
 * Reports quotes around the value, and a '#' or ';' that looks like a comment but is not. Returns 0
 * or -1.
 */
int config_entry_check(const struct config_entry *entry, struct config_report *report);

/* The same for values with quoted words. */
int config_entry_check_words(const struct config_entry *entry, struct config_report *report);

/* Reports control characters in LINE. Returns 0 or -1. */
int config_line_check(const struct config_place *line, struct config_report *report);

/* True if TEXT has at least one byte, and all of them are in BYTES. */
bool config_consists_of(struct span text, const char *bytes);

/* The same for a token of RFC 9110 section 5.6.2. */
bool config_is_token(struct span text);

/* Reports that ENTRY's key is already set on the line FIRST of a file. */
void config_report_duplicate(struct config_report *report, const struct config_entry *entry,
                             const struct config_line *first);

static inline struct config_line config_entry_line(const struct config_entry *entry)
{
    return (struct config_line){entry->key_place.source, entry->key_place.line};
}

/* The first '=' of LINE that is not between double quotes, which paths may have; or NULL. */
const char *config_find_equals(struct span line);

/* TEXT without a byte order mark of UTF-8 at its start. */
struct span config_skip_mark(struct span text);

typedef void config_entry_handler(void *owner, const struct config_entry *entry);

/*
 * Parses LENGTH bytes at TEXT; NAME is the source in messages. Passes well-formed entries in valid
 * sections to HANDLE, in order, and errors to REPORT.
 */
void config_read(const char *name, const char *text, size_t length, struct config_report *report,
                 config_entry_handler *handle, void *owner);

/* --- variables.c --- */

/*
 * Variables: ${NAME} and ${NAME:-default} are those of the environment, ${file:NAME} a credential: the
 * file NAME in $CREDENTIALS_DIRECTORY, or of any directory if NAME begins with '/'. "$${" is a
 * literal "${". A '$' before anything else is one.
 */

/*
 * The text at PLACE with its variables replaced, which the caller frees. If PATHS, a credential is
 * the path of its file, else its content without the end of the last line. NULL: there is no
 * variable, or, with *FAILED, after a report.
 */
char *config_variables_expand(const struct config_place *place, bool paths, bool *failed,
                              struct config_report *report);

/* Prints the line of the key NAME so that it can be read again. */
void config_value_print(const char *name, const char *value, FILE *out);

/* --- load.c --- */

/*
 * The rest of FD, of at most MAX bytes, and a NUL; the caller frees it. NULL with errno; EFBIG: it
 * has more.
 */
char *config_text_read(int fd, size_t max, size_t *length);

struct config_draft;

/* Sets the value of ENTRY; reports errors. */
void config_entry_add(struct config_draft *draft, const struct config_entry *entry);

/* --- check.c --- */

/*
 * A configuration while it is loaded: its values so far, where each was set, and the checks of
 * values that need more than one key or this system. Lives for one config_load().
 */

/* Where the values of a [host] were set. */
struct config_host_draft {
    struct config_place set_at[HOST_KEY_COUNT];
};

struct config_draft {
    struct config *config;
    struct config_report report;
    const char *working;                    /* directory */
    const char *base;                       /* directory for the current source's relative paths */
    struct config_place set_at[KEY_COUNT];  /* where the value in force was set */
    bool given[KEY_COUNT];                  /* not the default */
    bool faulty[KEY_COUNT];                 /* its last text was invalid */
    bool expanded[KEY_COUNT];               /* it has variables */
    struct config_line given_in[KEY_COUNT]; /* number 0: not in a file */
    struct config_host_draft *hosts;        /* of each host */
    struct config_file *file;               /* that is read; see include.c */
    struct config_file *files;              /* all that have been read, the last one first */
    size_t file_bytes;                      /* of all of them */
};

static inline void *config_draft_field(const struct config_draft *draft,
                                       const struct config_key *key)
{
    return (char *)draft->config + key->offset;
}

/*
 * Parses the value of ENTRY as KEY's type into *FIELD, which is overwritten without being freed.
 * Returns 0, or -1 after a report, with *FIELD unchanged.
 */
int config_draft_parse(struct config_draft *draft, const struct config_key *key,
                       const struct config_entry *entry, void *field);

/* Sets what depends on other values: run_dir, the control socket, the number of threads. */
void config_draft_complete(struct config_draft *draft);

/*
 * Reports values that are valid one by one, but not together or not on this system. SYSTEM may be
 * NULL.
 */
void config_draft_check(struct config_draft *draft, const struct config_system *system);

/* --- include.c --- */

/*
 * Reads the file of SOURCES and those that it includes: the names that match a pattern in their
 * order, which may be none. Relative paths of each file are below its directory. Returns false after
 * a report if there is no such file.
 */
bool config_file_read(struct config_draft *draft, const struct config_sources *sources);

/* The absolute directory of FILE (NULL: none), below WORKING; the caller frees it. */
char *config_file_directory(const char *file, const char *working);

/* Frees the texts of all files, to which the places in DRAFT point. */
void config_files_free(struct config_draft *draft);

/* A copy of NAME that lives as long as the configuration; NULL: out of memory. */
const char *config_source_name(struct config *config, const char *name);

/* --- hosts.c --- */

/*
 * The sections [host NAME…]. Names are compared without regard to case. "*.example.org" stands for
 * all names below example.org.
 */

/*
 * Adds ENTRY, or only its host if its key is empty. The first name of a section identifies the
 * host; a later section or override with that name sets more of its values.
 */
void config_host_add(struct config_draft *draft, const struct config_entry *entry);

/* Gives each host the values that it does not set, and checks its names. */
void config_hosts_complete(struct config_draft *draft);

void config_hosts_free(struct config *config);

/*
 * True if there is a host whose first name is NAME; else reports it for SOURCE, a section or key.
 */
bool config_host_require(const struct config *config, const char *name, const char *source,
                         struct config_report *report);

/* --- paths.c --- */

/*
 * A path in any section is written as in a request, and decoded and normalised as there: "/a%20b",
 * or in double quotes "/a b". A last segment '*' is for all paths that begin with the rest.
 */

struct config_path {
    char text[TARGET_PATH_MAX]; /* without the star */
    size_t length;
    bool below; /* there was a star, so text ends in '/' */
};

/* Returns NULL, or what is wrong with TEXT, as advice. */
const char *config_path_read(struct span text, struct config_path *path);

/* Prints a decoded PATH so that it can be read again, with quotes or not. */
void config_path_print(const char *path, FILE *out);

/* The rules with a path, of all hosts. See path_index_find(). */

enum path_order { PATH_FIRST_RULE, PATH_LONGEST_FIRST };

/*
 * An index for at most PATHS paths, two for a rule that is also for those below it; NULL: out of
 * memory. Which of the matching rules applies?
 */
struct path_index *path_index_new(size_t paths, enum path_order order);
void path_index_free(struct path_index *index);

/*
 * Adds RULE for PATH, which is borrowed; if BELOW, also for all paths below PATH, which then has no
 * '/' at its end. PLAIN: only for requests without TLS. Of two equal ones, the first is kept.
 */
void path_index_add(struct path_index *index, uint32_t host, struct span path, bool below,
                    bool plain, size_t rule);

/*
 * As path_index_find(), among the rules of HOST only. If BELOW, only a rule for PATH, which has no
 * '/' at its end, and all paths below it.
 */
size_t path_index_find_in(const struct path_index *index, uint32_t host, struct span path,
                          bool below, bool secure);

/*
 * The scope of a section with a path, as in [access /prefix] and [access host NAME /prefix]: the
 * path and all below it.
 */

/* The scope of a section with ARGUMENT, as in the file. Returns 0, or -1: out of memory. */
int config_scope_read(struct config_scope *scope, struct span argument);
void config_scope_free(struct config_scope *scope);

bool config_scopes_equal(const struct config_scope *scope, const struct config_scope *other);

/* Prints the line of SECTION with this scope. */
void config_scope_print(const struct config_scope *scope, const char *section, FILE *out);

/*
 * Makes the indexes of CONFIG, once its sections and hosts are complete. Returns 0, or -1: out of
 * memory.
 */
int config_paths_index(struct config *config);

/* --- lists.c --- */

/*
 * DIRECTORY, a '/' and PATH. Each leading "./" of PATH is left out, and each leading "../" with the
 * component before it, unless that is a symbolic link. The caller frees it. NULL: out of memory.
 */
char *config_path_join(const char *directory, const char *path);

/* --- access.c --- */

/* Adds ENTRY to the configuration; reports errors. */
void config_access_add(struct config_draft *draft, const struct config_entry *entry);

/* Returns true, or false after an error at PLACE: REALM cannot be sent. */
bool config_realm_check(const char *realm, const struct config_place *place,
                        struct config_report *report);

/* Reports a users file that could be served, at PLACE. */
void config_users_check(const struct config *config, const struct config_users *users,
                        const struct config_place *place, struct config_report *report);

/*
 * Reports sections for a host that does not exist, a realm without users, and users files that
 * could be served.
 */
void config_access_check(const struct config *config, struct config_report *report);

void config_access_print(const struct config *config, FILE *out);
void config_access_free(struct config *config);

/* --- users.c --- */

/*
 * Loads FILE, whose path USERS then owns. Errors go to REPORT: of the file to PLACE, which names
 * it, of a line to its number in the file; never with a hash. Returns 0, or -1 with USERS empty.
 */
int config_users_load(const char *file, struct config_users *users,
                      const struct config_place *place, struct config_report *report);
void config_users_free(struct config_users *users);

/* --- cors.c --- */

/* Adds ENTRY to the configuration; reports errors. */
void config_cors_add(struct config_draft *draft, const struct config_entry *entry);

/*
 * Reports sections for a host that does not exist, without origins, and with credentials for every
 * origin or field.
 */
void config_cors_check(const struct config *config, struct config_report *report);

void config_cors_print(const struct config *config, FILE *out);
void config_cors_free(struct config *config);

/* --- field_values.c --- */

/*
 * Returns NULL, or advice if no client would understand VALUE of the header field NAME as it was
 * meant: it has the name or the '=' once more, a variable of a template, or is not made as the
 * values of this field are. *ELEMENT is the faulty part of VALUE.
 */
const char *config_field_fault(struct span name, const char *value, struct span *element);

/* --- headers.c: [headers] and [mime] --- */

/* Adds ENTRY, or replaces the line of the same scope and field; reports errors. */
void config_header_add(struct config_draft *draft, const struct config_entry *entry);

/*
 * Reports rules for a host that does not exist, and hosts whose rules together exceed
 * HEADER_RULES_MAX bytes.
 */
void config_header_check(const struct config *config, struct config_report *report);

/* The section [mime]: "extension = type", the media type of files whose name ends in .extension. */

/* Adds ENTRY, or replaces the pair of the same extension; reports errors. */
void config_mime_add(struct config_draft *draft, const struct config_entry *entry);

/* --- redirects.c --- */

/* Adds ENTRY to the configuration; reports errors. */
void config_redirect_add(struct config_draft *draft, const struct config_entry *entry);

/*
 * Reports rules for a host that does not exist, rules that never apply, and redirects that lead to
 * themselves.
 */
void config_redirects_check(const struct config *config, struct config_report *report);

/* An index of the rules; NULL: out of memory. Call it when the hosts are complete. */
struct path_index *config_redirects_index(struct config *config);

/* The rule as in the file, key and value; for printing. */
void config_redirect_print(const struct config_redirect *rule, FILE *out);

void config_redirects_free(struct config *config);

/* --- acme.c --- */

/* Sets the default of state_dir, and the names. Call it after the hosts are complete. */
void config_acme_complete(struct config_draft *draft);

/* Reports values that do not fit together, and names that an authority does not certify. */
void config_acme_check(struct config_draft *draft);

void config_acme_free(struct config *config);

#endif
