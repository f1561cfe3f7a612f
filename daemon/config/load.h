/* Loading, printing and comparing configurations. */
#ifndef DAEMON_CONFIG_LOAD_H
#define DAEMON_CONFIG_LOAD_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stdio.h>

/* Borrowed. */
struct config_sources {
    const char *file; /* NULL: none */
    const char *text; /* content of the file if it is in memory already; NULL: read the file */
    size_t length;    /* of text, bytes */
    const char *const *overrides; /* "section.key=value" */
    size_t override_count;
    const struct config_system *system; /* NULL: skip the checks that depend on this system */
};

/*
 * Fills *CONFIG. Relative paths become absolute: relative to the directory of the file; without a
 * file, and in overrides, to the working directory. Sets run_dir and control_socket if they are
 * unset; workers_threads is never 0. Prints every error to ERRORS, with file:line, the line, carets
 * under the word, and advice. Returns the number of errors; 0: the caller must call config_free().
 */
int config_load(struct config *config, const struct config_sources *sources, FILE *errors);
void config_free(struct config *config);

/*
 * Reads the users files of CONFIG again. Returns the number of errors, which it prints to ERRORS;
 * with errors CONFIG stays as it is.
 */
int config_users_renew(struct config *config, FILE *errors);

/*
 * Where the value of KEY (enum config_key_number) came from: "FILE:LINE", "-o 2", "default", a
 * command.
 */
const char *config_origin(const struct config *config, size_t key);

/* Sets the origin after a change at run time; "?" if out of memory. */
void config_set_origin(struct config *config, size_t key, const char *origin);

/* True if an address of server.listen has https://. */
bool config_needs_tls(const struct config *config);

/* The number of serving threads of a worker with MODEL: workers_threads, which may be auto. */
uint32_t config_threads_of_model(const struct config *config, uint32_t model);

/*
 * Why the workers cannot use MODEL with the other settings, with the key that decides; NULL: they
 * can.
 */
const char *config_model_conflict(const struct config *config, uint32_t model);

/*
 * Calls PRINT with CONTEXT for each setting that is not a default and has no effect, with the key
 * that decides. SUBJECT (enum config_key_number): only those for which this key decides, and this
 * key itself, even if it has its default; KEY_COUNT: all. ACTIVATED: the listen sockets are a
 * service manager's, not those of server.listen.
 */
void config_notes(const struct config *config, size_t subject, bool activated,
                  void (*print)(void *context, const char *note), void *context);

/*
 * Calls PRINT for each address and key that only root can open. -t may be run by root, but the
 * server by a service manager as another user.
 */
void config_root_notes(const struct config *config, void (*print)(void *context, const char *note),
                       void *context);

/* True if lines of the access log have the member NAME of [log] fields. */
bool config_logs_field(const struct config *config, const char *name);

/* True if [tls] or a [host] names a certificate. */
bool config_has_certificate(const struct config *config);

/*
 * Prints CONFIG as a file that config_load() reads back to the same values, with the help of each
 * key; if ORIGINS, also where each value was set
 * that is not a default.
 */
void config_print(const struct config *config, bool origins, FILE *out);

/*
 * Calls FOUND for the title, such as "[host example.org]" (not terminated), of each section without
 * keys in config.def that is in one configuration only or has other lines in the other one: first
 * those of AFTER, then those of BEFORE alone. Returns 0, or -1: out of memory.
 */
int config_changed_sections(const struct config *before, const struct config *after,
                            void (*found)(void *owner, const char *title, size_t length),
                            void *owner);

#endif
