#include "console/load/settings.h"

#include "common/macros.h"
#include "common/units.h"

#include <stdio.h>
#include <string.h>

const struct load_field_info load_field_table[LOAD_FIELDS] = {
#define LOAD_FIELD(id, label, kind, option, initial, help)                                         \
    {label, LOAD_##kind, option, initial, help},
#include "console/load/fields.def"
#undef LOAD_FIELD
};

const struct load_preset load_preset_table[] = {
#define LOAD_PRESET(name, connections, requests, duration, rate, keepalive, help)                  \
    {name, connections, requests, duration, rate, keepalive, help},
#include "console/load/presets.def"
#undef LOAD_PRESET
};
const size_t load_preset_count = ARRAY_LENGTH(load_preset_table);

static void set_field(struct load_settings *settings, enum load_field field, const char *text)
{
    snprintf(settings->text[field], LOAD_TEXT_BYTES, "%s", text);
}

void load_settings_init(struct load_settings *settings)
{
    for (int i = 0; i < LOAD_FIELDS; i++)
        set_field(settings, (enum load_field)i, load_field_table[i].initial);
}

static bool is_acceptable(enum load_field_kind kind, const char *text)
{
    uint64_t number;

    switch (kind) {
    case LOAD_TEXT:
        return true;
    case LOAD_COUNT:
        return units_parse_count(text, &number) == 0 && number > 0;
    case LOAD_TIME:
        return units_parse_time_ms(text, &number) == 0 && number > 0;
    case LOAD_SWITCH:
        return strcmp(text, "on") == 0 || strcmp(text, "off") == 0;
    }
    return false;
}

int load_settings_set(struct load_settings *settings, enum load_field field, const char *text,
                      char *why, size_t size)
{
    static const char *const valid[] = {[LOAD_TEXT] = "",
                                        [LOAD_COUNT] = "examples: 500, 50k",
                                        [LOAD_TIME] = "examples: 30s, 2m",
                                        [LOAD_SWITCH] = "on or off"};
    const struct load_field_info *info = &load_field_table[field];

    if (strlen(text) >= LOAD_TEXT_BYTES)
        snprintf(why, size, "%s: more than %d bytes", info->label, LOAD_TEXT_BYTES - 1);
    else if (text[0] == '\0' && info->kind == LOAD_SWITCH)
        snprintf(why, size, "%s: no value (%s)", info->label, valid[info->kind]);
    else if (text[0] != '\0' && !is_acceptable(info->kind, text))
        snprintf(why, size, "%s: invalid value '%.60s' (%s)", info->label, text, valid[info->kind]);
    else if (text[0] == '-')
        snprintf(why, size, "%s: must not begin with a dash", info->label);
    else {
        set_field(settings, field, text);
        return 0;
    }
    return -1;
}

void load_settings_preset(struct load_settings *settings, size_t preset)
{
    const struct load_preset *from = &load_preset_table[preset];

    set_field(settings, LOAD_CONNECTIONS, from->connections);
    set_field(settings, LOAD_REQUESTS, from->requests);
    set_field(settings, LOAD_DURATION, from->duration);
    set_field(settings, LOAD_RATE, from->rate);
    set_field(settings, LOAD_KEEPALIVE, from->keepalive);
}

void load_settings_arguments(const struct load_settings *settings, const char *target,
                             const char *control, const char *argv[LOAD_ARGUMENTS_MAX])
{
    size_t count = 0;

    argv[count++] = "wsload";
    argv[count++] = "--json";
    argv[count++] = "--progress";
    if (control != NULL) {
        argv[count++] = "--control-fd";
        argv[count++] = control;
    }
    for (int i = 0; i < LOAD_FIELDS; i++) {
        const struct load_field_info *info = &load_field_table[i];
        const char *text = settings->text[i];

        if (info->option == NULL || text[0] == '\0' ||
            (info->kind == LOAD_SWITCH && strcmp(text, "off") != 0))
            continue;
        argv[count++] = info->option;
        if (info->kind != LOAD_SWITCH)
            argv[count++] = text;
    }
    argv[count++] = settings->text[LOAD_TARGET][0] != '\0' ? settings->text[LOAD_TARGET] : target;
    argv[count] = NULL;
}

/* Appends TEXT and SUFFIX, with a separating ", "; does nothing if TEXT is "". */
static void append_part(char *buffer, size_t size, const char *text, const char *suffix)
{
    size_t length = strlen(buffer);

    if (text[0] != '\0')
        snprintf(buffer + length, size - length, "%s%s%s", length > 0 ? ", " : "", text, suffix);
}

static void append_count_part(char *buffer, size_t size, const char *text, const char *one,
                              const char *more)
{
    append_part(buffer, size, text, strcmp(text, "1") == 0 ? one : more);
}

char *load_settings_summary(const struct load_settings *settings, char *buffer, size_t size)
{
    buffer[0] = '\0';
    append_count_part(buffer, size, settings->text[LOAD_CONNECTIONS], " connection",
                      " connections");
    append_count_part(buffer, size, settings->text[LOAD_REQUESTS], " request", " requests");
    append_part(buffer, size, settings->text[LOAD_DURATION], "");
    append_part(buffer, size, settings->text[LOAD_RATE], "/s");
    if (strcmp(settings->text[LOAD_KEEPALIVE], "off") == 0)
        append_part(buffer, size, "no keep-alive", "");
    return buffer;
}

/* Returns the length of the host in "host:port"; *PORT points at the port ("" without one). */
static size_t split_port(const char *text, size_t length, const char **port)
{
    size_t colon = length;

    while (colon > 0 && text[colon - 1] != ':' && text[colon - 1] != ']')
        colon--;
    if (colon == 0 || text[colon - 1] != ':') {
        *port = text + length;
        return length;
    }
    *port = text + colon;
    return colon - 1;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool any_address(const char *host, size_t length)
{
    return is_word(host, length, "*") || is_word(host, length, "0.0.0.0") ||
           is_word(host, length, "[::]");
}

char *load_target_default(const char *listening, char *buffer, size_t size)
{
    buffer[0] = '\0';
    while (*listening != '\0') {
        size_t length = strcspn(listening, " "), host;
        const char *port;

        host = split_port(listening, length, &port);
        if (strncmp(listening, "unix:", 5) != 0 && length > 0) {
            bool any = any_address(listening, host);

            snprintf(buffer, size, "http://%.*s:%.*s/", any ? 9 : (int)host,
                     any ? "127.0.0.1" : listening, (int)(listening + length - port), port);
            return buffer;
        }
        listening += length + (listening[length] == ' ');
    }
    return buffer;
}

static bool same_port(const char *a, size_t a_length, const char *b, size_t b_length)
{
    a = a_length > 0 ? a : "80";
    a_length = a_length > 0 ? a_length : 2;
    b = b_length > 0 ? b : "80";
    b_length = b_length > 0 ? b_length : 2;
    return a_length == b_length && memcmp(a, b, a_length) == 0;
}

static bool is_loopback_name(const char *host, size_t length)
{
    return is_word(host, length, "localhost") || is_word(host, length, "127.0.0.1") ||
           is_word(host, length, "[::1]");
}

bool load_target_matches(const char *url, const char *listening)
{
    const char *host = strstr(url, "://"), *port, *own_port;
    size_t length, host_length;

    host = host == NULL ? url : host + 3;
    length = strcspn(host, "/?");
    host_length = split_port(host, length, &port);
    while (*listening != '\0') {
        size_t own = strcspn(listening, " "), own_host = split_port(listening, own, &own_port);
        bool same_host =
            (own_host == host_length && memcmp(host, listening, own_host) == 0) ||
            any_address(listening, own_host) ||
            (is_loopback_name(host, host_length) && is_loopback_name(listening, own_host));

        if (same_host && same_port(port, (size_t)(host + length - port), own_port,
                                   (size_t)(listening + own - own_port)))
            return true;
        listening += own + (listening[own] == ' ');
    }
    return false;
}

json_t *load_settings_json(const struct load_settings *settings)
{
    json_t *object = json_object();

    for (int i = 0; i < LOAD_FIELDS; i++)
        json_object_set_new(object, load_field_table[i].label, json_string(settings->text[i]));
    return object;
}

void load_settings_from_json(struct load_settings *settings, const json_t *object)
{
    for (int i = 0; i < LOAD_FIELDS; i++) {
        const char *text = json_string_value(json_object_get(object, load_field_table[i].label));

        set_field(settings, (enum load_field)i, text != NULL ? text : "");
    }
}
