#include "daemon/config/internal.h"

#include "daemon/base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { REALM_MAX = 64 };

/* Applying */

bool access_allows(const struct config_access *rule, const uint8_t address[NETWORK_ADDRESS_BYTES])
{
    return !network_set_contains(&rule->deny.set, address) &&
           (rule->allow.text == NULL || network_set_contains(&rule->allow.set, address));
}

const struct config_access *access_find(const struct config *config, uint32_t host,
                                        const char *path)
{
    size_t i = path_index_find(config->access_index, host, path, true);

    return i != PATH_INDEX_NONE ? &config->access[i] : NULL;
}

/* Loading */

/* The section of SCOPE, which is taken over; it may be new. NULL: out of memory. */
static struct config_access *access_section(struct config *config, struct config_scope *scope)
{
    struct config_access *more;

    for (size_t i = 0; i < config->access_count; i++)
        if (config_scopes_equal(&config->access[i].scope, scope)) {
            config_scope_free(scope);
            return &config->access[i];
        }
    more = realloc(config->access, (config->access_count + 1) * sizeof(*more));
    if (more == NULL) {
        config_scope_free(scope);
        return NULL;
    }
    config->access = more;
    more[config->access_count] = (struct config_access){.scope = *scope};
    return &more[config->access_count++];
}

/* True if KEY, already set in the section, is set again by the file. */
static bool is_repeated(bool set, const struct config_entry *entry, const char *advice,
                        struct config_report *report)
{
    if (!set || entry->key_place.line == 0)
        return false;
    config_report_error(report, &entry->key_place, advice, "'%.*s' is already set for this path",
                        CONFIG_QUOTED(entry->key));
    return true;
}

static void add_networks(struct config_networks *list, const struct config_entry *entry,
                         struct config_draft *draft)
{
    static const struct config_key networks_key = {.type = CONFIG_NETWORKS};
    struct config_networks networks;

    if (entry->value[strspn(entry->value, ",")] == '\0') {
        config_report_error(&draft->report, &entry->key_place, "write none or any, or networks",
                            "'%.*s' has no networks", CONFIG_QUOTED(entry->key));
        return;
    }
    if (config_draft_parse(draft, &networks_key, entry, &networks) != 0)
        return;
    if (is_repeated(list->text != NULL, entry, "put all networks in one list", &draft->report)) {
        config_networks_free(&networks);
        return;
    }
    config_networks_free(list);
    *list = networks;
}

/* The realm is sent as a quoted string without escapes. */
bool config_realm_check(const char *realm, const struct config_place *place,
                        struct config_report *report)
{
    size_t length = strlen(realm);
    bool valid = length > 0 && length <= REALM_MAX;

    for (size_t i = 0; i < length; i++)
        valid = valid && realm[i] >= ' ' && realm[i] <= '~' && strchr("\"\\", realm[i]) == NULL;
    if (valid)
        return true;
    config_report_error(report, place, "write 1 to 64 printable ASCII characters without \" and \\",
                        "the realm is not valid");
    return false;
}

static void add_realm(struct config_access *section, const struct config_entry *entry,
                      struct config_draft *draft)
{
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));

    if (!config_realm_check(entry->value, &place, &draft->report))
        return;
    if (is_repeated(section->realm != NULL, entry, "remove one of the lines", &draft->report))
        return;
    free(section->realm);
    section->realm = strdup(entry->value);
    if (section->realm == NULL)
        config_report_error(&draft->report, &place, "", "out of memory");
}

static void add_users(struct config_access *section, const struct config_entry *entry,
                      struct config_draft *draft)
{
    struct config_place place = config_entry_place(entry, 0, strlen(entry->value));
    struct config_users users;
    char *file;

    if (is_repeated(section->users.file != NULL, entry, "put all users in one file",
                    &draft->report))
        return;
    if (entry->value[0] == '\0') {
        config_report_error(&draft->report, &place, "name a file made by htpasswd -B",
                            "no path given");
        return;
    }
    file =
        entry->value[0] == '/' ? strdup(entry->value) : config_path_join(draft->base, entry->value);
    if (file == NULL) {
        config_report_error(&draft->report, &place, "", "out of memory");
    } else if (config_users_load(file, &users, &place, &draft->report) == 0) {
        config_users_free(&section->users);
        section->users = users;
    }
    free(file);
}

static bool is_access_key(struct span key)
{
    return span_is(key, SPAN("allow")) || span_is(key, SPAN("deny")) ||
           span_is(key, SPAN("realm")) || span_is(key, SPAN("users"));
}

void config_access_add(struct config_draft *draft, const struct config_entry *entry)
{
    struct config_access *section = NULL;
    struct config_scope scope;

    if (!is_access_key(entry->key)) {
        config_report_error(&draft->report, &entry->key_place,
                            "valid keys: allow, deny, realm, users", "[access] has no key '%.*s'",
                            CONFIG_QUOTED(entry->key));
        return;
    }
    if (config_entry_check(entry, &draft->report) != 0)
        return;
    if (config_scope_read(&scope, entry->argument) == 0)
        section = access_section(draft->config, &scope);
    if (section == NULL)
        config_report_error(&draft->report, &entry->key_place, "", "out of memory");
    else if (span_is(entry->key, SPAN("realm")))
        add_realm(section, entry, draft);
    else if (span_is(entry->key, SPAN("users")))
        add_users(section, entry, draft);
    else
        add_networks(span_is(entry->key, SPAN("allow")) ? &section->allow : &section->deny, entry,
                     draft);
}

/* Checking */

static bool is_inside(const char *file, const char *root)
{
    char *real = root != NULL ? realpath(root, NULL) : NULL;
    size_t length = real != NULL ? strlen(real) : 0;
    bool inside = real != NULL && strncmp(file, real, length) == 0 &&
                  (file[length] == '/' || length == 1 /* the root directory */);

    free(real);
    return inside;
}

/* A users file below a root could be served. */
void config_users_check(const struct config *config, const struct config_users *users,
                        const struct config_place *place, struct config_report *report)
{
    char *file = realpath(users->file, NULL);
    bool served = file != NULL && is_inside(file, config->server_root);

    for (size_t i = 0; file != NULL && i < config->host_count; i++)
        served = served || is_inside(file, config->hosts[i].root);
    if (served)
        config_report_error(report, place, "move it out of the document root",
                            "the users file %s is below a document root", users->file);
    free(file);
}

void config_access_check(const struct config *config, struct config_report *report)
{
    const struct config_place place = {.source = "[access]"};

    for (size_t i = 0; i < config->access_count; i++) {
        const struct config_access *section = &config->access[i];

        if (section->scope.host[0] != '\0')
            config_host_require(config, section->scope.host, "[access host]", report);
        if (section->users.file != NULL)
            config_users_check(config, &section->users, &place, report);
        else if (section->realm != NULL && report->errors == 0)
            config_report_error(report, &place, "set users to a file made by htpasswd -B",
                                "realm '%s' has no users", section->realm);
    }
}

/* Reading users files again */

/* Loads the files of OLD into NEXT; errors go to REPORT. */
static void load_users_again(const struct config *config, const struct config_users *old,
                             struct config_users *next, struct config_report *report)
{
    const struct config_place place = {.source = old->file};

    *next = (struct config_users){.file = NULL};
    if (old->file != NULL && config_users_load(old->file, next, &place, report) == 0)
        config_users_check(config, next, &place, report);
}

static void replace_users(struct config_users *users, struct config_users *next, bool good)
{
    struct config_users unused = good ? *users : *next;

    if (good)
        *users = *next;
    config_users_free(&unused);
}

int config_users_renew(struct config *config, FILE *errors)
{
    struct config_report report = {.out = errors};
    struct config_users *next = calloc(config->access_count + 1, sizeof(*next));
    struct config_users *metrics = next != NULL ? &next[config->access_count] : NULL;

    if (next == NULL) {
        fputs("out of memory\n", errors);
        return 1;
    }
    for (size_t i = 0; i < config->access_count; i++)
        load_users_again(config, &config->access[i].users, &next[i], &report);
    load_users_again(config, &config->metrics_logins, metrics, &report);
    for (size_t i = 0; i < config->access_count; i++)
        replace_users(&config->access[i].users, &next[i], report.errors == 0);
    replace_users(&config->metrics_logins, metrics, report.errors == 0);
    free(next);
    config_report_end(&report);
    return (int)report.errors;
}

/* Printing */

/* The comment makes another content of a file a change of the section, and says what it has. */
static void print_networks(const char *key, const struct config_networks *networks, FILE *out)
{
    const struct network_set *set = &networks->set;

    if (networks->text == NULL)
        return;
    if (strchr(networks->text, '@') != NULL)
        fprintf(out, "# %zu networks, checksum %016" PRIx64 "\n", set->count,
                hash_bytes((const char *)set->item, set->count * sizeof(*set->item), 0));
    config_value_print(key, networks->text, out);
}

void config_access_print(const struct config *config, FILE *out)
{
    for (size_t i = 0; i < config->access_count; i++) {
        const struct config_access *section = &config->access[i];

        config_scope_print(&section->scope, "access", out);
        print_networks("allow", &section->allow, out);
        print_networks("deny", &section->deny, out);
        if (section->realm != NULL)
            config_value_print("realm", section->realm, out);
        if (section->users.file != NULL)
            config_value_print("users", section->users.file, out);
    }
}

void config_access_free(struct config *config)
{
    for (size_t i = 0; i < config->access_count; i++) {
        struct config_access *section = &config->access[i];

        config_scope_free(&section->scope);
        config_networks_free(&section->allow);
        config_networks_free(&section->deny);
        config_users_free(&section->users);
        free(section->realm);
    }
    free(config->access);
}
