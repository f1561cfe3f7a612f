#include "loadgen/lab/store.h"

#include "common/units.h"

#include "loadgen/base/sha256.h"
#include "loadgen/report/document_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    DIGEST_SHOWN = 16, /* digits */
    READ_BYTES = 65536,
};

/* ---- Conditions ---- */

/* Writes "" if the program cannot be read. */
static void read_digest(char *digits, size_t size, pid_t pid)
{
    static uint8_t bytes[READ_BYTES];
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha = {NULL};
    char path[64];
    FILE *file;
    size_t got;

    digits[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return;
    if (sha256_open(&sha)) {
        sha256_begin(&sha);
        while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
            sha256_add(&sha, bytes, got);
        sha256_end(&sha, digest);
        for (size_t i = 0; !ferror(file) && 2 * i + 3 <= size; i++)
            snprintf(digits + 2 * i, 3, "%02x", digest[i]);
    }
    sha256_close(&sha);
    fclose(file);
}

void store_describe_program(char *text, const char *version, pid_t pid)
{
    char digest[DIGEST_SHOWN + 1];

    read_digest(digest, sizeof(digest), pid);
    snprintf(text, STORE_PROGRAM, "%.64s%s%s", version, digest[0] != '\0' ? ", SHA-256 " : "",
             digest);
}

PRINTF_LIKE(3, 4)
static void add(json_t *conditions, const char *label, const char *format, ...)
{
    char text[MACHINE_TEXT];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    json_object_set_new(conditions, label, json_string(text));
}

json_t *store_conditions(const struct lab *lab, const struct machine *machine, const char *server,
                         const char *client)
{
    json_t *conditions = json_object();

    if (conditions == NULL)
        return NULL;
    add(conditions, "--quick", "%s", lab->quick ? "yes" : "no");
    add(conditions, "--rounds", "%u", lab->rounds);
    add(conditions, "--duration", "%" PRIu64 "ms", lab->trial_ms);
    add(conditions, "--until-decided", "%" PRIu64 "ms", lab->until_ms);
    if (lab->rate > 0)
        add(conditions, "--rate", "%.0f", lab->rate);
    else
        add(conditions, "--rate", "none");
    for (size_t i = 0; i < machine->count; i++)
        if (!machine->fact[i].changes)
            add(conditions, machine->fact[i].label, "%s", machine->fact[i].text);
    add(conditions, "webserverd", "%s", server);
    add(conditions, "wsload", "%s", client);
    return conditions;
}

/* The first difference, as "Kernel: 'A', now 'B'". Returns false if there is none. */
static bool find_difference(json_t *old, json_t *now, char *text, size_t size)
{
    const char *label;
    json_t *value;

    json_object_foreach(now, label, value)
    {
        const char *before = json_string_value(json_object_get(old, label));
        const char *after = json_string_value(value);

        if (before != NULL && after != NULL && strcmp(before, after) == 0)
            continue;
        snprintf(text, size, "%s: '%s', now '%s'", label, before != NULL ? before : "unknown",
                 after != NULL ? after : "unknown");
        return true;
    }
    return false;
}

/* ---- Files ---- */

static void make_path(char *path, const char *directory, const char *name)
{
    snprintf(path, PATH_BYTES, "%.4000s/%s.json", directory, name);
}

int store_replace(const char *path, const char *text, size_t length, char *why, size_t size)
{
    char new_path[PATH_BYTES + 8];
    bool good;
    FILE *file;

    errno = 0;
    snprintf(new_path, sizeof(new_path), "%s.new", path);
    file = fopen(new_path, "we");
    good = file != NULL && fwrite(text, 1, length, file) == length;
    if (file != NULL && fclose(file) != 0)
        good = false;
    if (good && rename(new_path, path) == 0)
        return 0;
    snprintf(why, size, "cannot write %s: %s", path, strerror(errno != 0 ? errno : EIO));
    if (file != NULL)
        unlink(new_path);
    return -1;
}

static json_t *machine_json(const struct machine *machine)
{
    json_t *facts = json_array();

    for (size_t i = 0; i < machine->count; i++)
        json_array_append_new(facts, json_pack("{s:s,s:s,s:b}", "label", machine->fact[i].label,
                                               "text", machine->fact[i].text, "changes",
                                               machine->fact[i].changes));
    return facts;
}

static void read_machine(struct machine *machine, const json_t *facts)
{
    const json_t *fact;
    size_t i;

    machine->count = 0;
    json_array_foreach(facts, i, fact)
    {
        const char *label = json_string_value(json_object_get(fact, "label"));
        const char *text = json_string_value(json_object_get(fact, "text"));

        if (label != NULL && text != NULL)
            machine_add(machine, label, text, json_is_true(json_object_get(fact, "changes")));
    }
}

int store_write(const char *directory, const char *name, const json_t *conditions,
                const struct machine *machine, const struct document *findings, char *why,
                size_t size)
{
    json_t *whole = json_pack("{s:O,s:o,s:o}", "conditions", conditions, "machine",
                              machine_json(machine), "findings", document_to_json(findings));
    char *text = whole != NULL ? json_dumps(whole, JSON_INDENT(1)) : NULL;
    char path[PATH_BYTES];
    int result = -1;

    make_path(path, directory, name);
    if (text == NULL)
        snprintf(why, size, "cannot write %s: out of memory", path);
    else
        result = store_replace(path, text, strlen(text), why, size);
    free(text);
    json_decref(whole);
    return result;
}

static enum store_outcome check(const json_t *whole, const char *path, const json_t *conditions,
                                char *why, size_t size)
{
    char difference[2 * MACHINE_TEXT + 64];

    if (find_difference(json_object_get(whole, "conditions"), (json_t *)(uintptr_t)conditions,
                        difference, sizeof(difference))) {
        snprintf(
            why, size,
            "cannot resume: %.200s has other conditions: %s; leave out --resume to start again",
            path, difference);
        return STORE_REFUSED;
    }
    return STORE_FOUND;
}

enum store_outcome store_read(const char *directory, const char *name, const json_t *conditions,
                              struct machine *machine, struct document **findings, char *why,
                              size_t size)
{
    enum store_outcome outcome = STORE_FOUND;
    char path[PATH_BYTES];
    json_error_t error;
    json_t *whole;

    make_path(path, directory, name);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return STORE_MISSING;
    whole = json_load_file(path, 0, &error);
    if (whole != NULL)
        outcome = check(whole, path, conditions, why, size);
    if (outcome == STORE_REFUSED) {
        json_decref(whole);
        return outcome;
    }
    *findings = findings_create("");
    read_machine(machine, json_object_get(whole, "machine"));
    if (*findings == NULL ||
        document_from_json(*findings, json_object_get(whole, "findings")) != 0) {
        document_free(*findings);
        snprintf(why, size, "cannot resume: %.200s has no findings; remove it", path);
        outcome = STORE_REFUSED;
    }
    json_decref(whole);
    return outcome;
}

int store_forget(const char *directory, const char *name, char *why, size_t size)
{
    char path[PATH_BYTES];

    make_path(path, directory, name);
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    return snprintf(why, size, "cannot remove %s: %s", path, strerror(errno)), -1;
}
