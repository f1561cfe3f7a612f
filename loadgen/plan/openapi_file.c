#include "loadgen/plan/openapi_file.h"

#include "common/macros.h"

#include "loadgen/plan/import.h"
#include "loadgen/plan/message.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    REFERENCES_MAX = 16, /* that follow each other */
    PARAMETERS_MAX = 200,
    SKIP = 1,
};

/* Functions that return int return 0, SKIP with WHY, or -1 with WHY. */
struct reader {
    struct request_plan *request_plan;
    const char *file;
    const json_t *root;
    char *why;
    size_t size;
};

/* An operation and its request so far. */
struct operation {
    char method[16];
    const char *path; /* with {name} */
    const json_t *parameters[PARAMETERS_MAX];
    size_t parameter_count;
    char *target; /* the path so far; owned */
    struct curl_slist *fields;
    char *cookies; /* "a=b; c=d"; NULL: none; owned */
    char *body;    /* NULL: none; owned */
};

PRINTF_LIKE(3, 4)
static int end_with(const struct reader *reader, int result, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->why, reader->size, format, arguments);
    va_end(arguments);
    return result;
}

static int fail_memory(const struct reader *reader)
{
    return end_with(reader, -1, "%s: out of memory", reader->file);
}

/* ---- References ---- */

/* Undoes ~1 and ~0 of a JSON pointer (RFC 6901) and %HH in place. */
static void unescape(char *name)
{
    char *to = name;

    for (const char *at = name; *at != '\0'; at++)
        if (at[0] == '~' && (at[1] == '0' || at[1] == '1'))
            *to++ = *++at == '1' ? '/' : '~';
        else if (at[0] == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2])) {
            const char digits[3] = {at[1], at[2], '\0'};

            *to++ = (char)strtoul(digits, NULL, 16);
            at += 2;
        } else
            *to++ = *at;
    *to = '\0';
}

/* The value at "#/components/...", or NULL. */
static const json_t *follow(const struct reader *reader, const char *reference)
{
    const json_t *value = reader->root;
    char text[512], *rest = NULL;

    if (strncmp(reference, "#/", 2) != 0 || strlen(reference) >= sizeof(text))
        return NULL;
    snprintf(text, sizeof(text), "%s", reference + 2);
    for (char *name = strtok_r(text, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
        unescape(name);
        value = json_object_get(value, name);
    }
    return value;
}

/* VALUE, or what its "$ref" refers to; NULL if that is not in the file. */
static const json_t *resolve(const struct reader *reader, const json_t *value)
{
    const char *reference;

    for (int i = 0; (reference = import_string(value, "$ref")) != NULL; i++)
        value = i < REFERENCES_MAX ? follow(reader, reference) : NULL;
    return value;
}

/* ---- Examples ---- */

/* The value of the first member of OBJECT, of "examples". */
static const json_t *first_example(const struct reader *reader, const json_t *object)
{
    void *first = json_object_iter((json_t *)(uintptr_t)object);

    return first != NULL ? json_object_get(resolve(reader, json_object_iter_value(first)), "value")
                         : NULL;
}

/* The example or default of a parameter or media type and its schema; NULL: there is none. */
static const json_t *find_example(const struct reader *reader, const json_t *object)
{
    const json_t *schema = resolve(reader, json_object_get(object, "schema"));
    const json_t *found = json_object_get(object, "example");

    if (found == NULL)
        found = first_example(reader, json_object_get(object, "examples"));
    if (found == NULL)
        found = json_object_get(schema, "example");
    if (found == NULL)
        found = json_array_get(json_object_get(schema, "examples"), 0);
    return found != NULL ? found : json_object_get(schema, "default");
}

/* ---- Texts ---- */

/* All but the unreserved characters if ENCODE (RFC 3986 section 2.3). */
static void put_text(FILE *out, const char *text, bool encode)
{
    for (; *text != '\0'; text++)
        if (!encode || isalnum((unsigned char)*text) || strchr("-._~", *text) != NULL)
            fputc(*text, out);
        else
            fprintf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

/* Writes a string, number, true or false. Returns false for other values. */
static bool put_scalar(FILE *out, const json_t *value, bool encode)
{
    char *text;

    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value)) {
        put_text(out, json_string_value(value), encode);
        return true;
    }
    if (!json_is_number(value) && !json_is_boolean(value))
        return false;
    text = json_dumps(value, JSON_ENCODE_ANY);
    if (text != NULL)
        put_text(out, text, encode);
    free(text);
    return text != NULL;
}

/* Writes a scalar, or an array of them separated by BETWEEN. */
static bool put_list(FILE *out, const json_t *value, const char *between, bool encode)
{
    const json_t *item;
    size_t i;

    if (!json_is_array(value))
        return put_scalar(out, value, encode);
    json_array_foreach(value, i, item)
    {
        fputs(i > 0 ? between : "", out);
        if (!put_scalar(out, item, encode))
            return false;
    }
    return i > 0;
}

/* The text of a value, owned by the caller; NULL: it has none, or out of memory. */
static char *list_text(const json_t *value, bool encode)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    bool good;

    if (out == NULL)
        return NULL;
    good = put_list(out, value, ",", encode);
    if (fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

/* Replaces *text by FORMAT of it. Returns false if out of memory, with *text as before. */
PRINTF_LIKE(2, 3) static bool replace_text(char **text, const char *format, ...)
{
    char *longer;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vasprintf(&longer, format, arguments);
    va_end(arguments);
    if (length < 0)
        return false;
    free(*text);
    *text = longer;
    return true;
}

/* ---- Parameters ---- */

/* Adds the parameters of LIST; one with the same name and place replaces an earlier one. */
static void add_parameters(const struct reader *reader, struct operation *operation,
                           const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const json_t *parameter = resolve(reader, item);
        const char *name = import_string(parameter, "name"), *in = import_string(parameter, "in");
        size_t at = 0;

        if (name == NULL || in == NULL)
            continue;
        while (at < operation->parameter_count &&
               (strcmp(import_string(operation->parameters[at], "name"), name) != 0 ||
                strcmp(import_string(operation->parameters[at], "in"), in) != 0))
            at++;
        if (at < PARAMETERS_MAX)
            operation->parameters[at] = parameter;
        if (at == operation->parameter_count && at < PARAMETERS_MAX)
            operation->parameter_count++;
    }
}

/* Replaces {NAME} in the path. */
static bool put_in_path(struct operation *operation, const char *name, const char *value)
{
    char place[256], *at;

    snprintf(place, sizeof(place), "{%s}", name);
    at = strstr(operation->target, place);
    return at == NULL || replace_text(&operation->target, "%.*s%s%s", (int)(at - operation->target),
                                      operation->target, value, at + strlen(place));
}

/* Appends NAME=VALUE to the query; of an array, each item has its own, unless "explode" is false. */
static int put_in_query(const struct reader *reader, struct operation *operation,
                        const json_t *parameter, const json_t *value)
{
    bool explode = !json_is_false(json_object_get(parameter, "explode"));
    const json_t *single = json_array_size(value) == 0 || !explode ? value : NULL;
    char *name = list_text(json_object_get(parameter, "name"), true);
    int result = name != NULL ? 0 : -1;

    for (size_t i = 0; result == 0 && (i == 0 || i < json_array_size(value)); i++) {
        char *text = list_text(single != NULL ? single : json_array_get(value, i), true);

        if (text == NULL)
            result = SKIP;
        else if (!replace_text(&operation->target, "%s%c%s=%s", operation->target,
                               strchr(operation->target, '?') != NULL ? '&' : '?', name, text))
            result = -1;
        free(text);
        if (single != NULL)
            break;
    }
    free(name);
    return result < 0 ? fail_memory(reader) : result;
}

/* The specification wants these names ignored: the body and the security schemes decide. */
static bool is_ignored_field(const char *name)
{
    return strcasecmp(name, "Accept") == 0 || strcasecmp(name, "Content-Type") == 0 ||
           strcasecmp(name, "Authorization") == 0 || import_is_of_connection(name);
}

static int put_value(const struct reader *reader, struct operation *operation,
                     const json_t *parameter, const json_t *value)
{
    const char *name = import_string(parameter, "name"), *in = import_string(parameter, "in");
    bool in_path = strcmp(in, "path") == 0, good = true;
    char *text;

    if (strcmp(in, "query") == 0)
        return put_in_query(reader, operation, parameter, value);
    text = list_text(value, in_path);
    if (text == NULL || (in_path && text[0] == '\0') || !message_is_value(text)) {
        free(text);
        return SKIP;
    }
    if (in_path)
        good = put_in_path(operation, name, text);
    else if (strcmp(in, "header") == 0 && message_is_token(name))
        good = is_ignored_field(name) || import_append_field(&operation->fields, name, text);
    else if (strcmp(in, "cookie") == 0)
        good = replace_text(&operation->cookies, "%s%s%s=%s",
                            operation->cookies != NULL ? operation->cookies : "",
                            operation->cookies != NULL ? "; " : "", name, text);
    free(text);
    return good ? 0 : fail_memory(reader);
}

static int put_parameter(const struct reader *reader, struct operation *operation,
                         const json_t *parameter)
{
    const json_t *value = find_example(reader, parameter);
    const char *name = import_string(parameter, "name"), *in = import_string(parameter, "in");
    bool required = strcmp(in, "path") == 0 || json_is_true(json_object_get(parameter, "required"));
    int result = value != NULL ? put_value(reader, operation, parameter, value) : SKIP;

    if (result == SKIP && !required)
        return 0;
    return result == SKIP ? end_with(reader, SKIP, "no example for the %s parameter '%s'", in, name)
                          : result;
}

/* ---- Bodies ---- */

static bool is_json_type(const char *type)
{
    size_t length = strcspn(type, "; ");

    return strncasecmp(type, "application/json", length) == 0 ||
           (length > 5 && strncasecmp(type + length - 5, "+json", 5) == 0);
}

/* name=value&..., of an object whose members are scalars or arrays; NULL: it is another value. */
static char *form_text(const json_t *value)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    bool good = out != NULL && json_is_object(value);
    const char *name;
    const json_t *member;

    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        if (out == NULL || !good)
            break;
        fputs(ftell(out) > 0 ? "&" : "", out);
        put_text(out, name, true);
        fputc('=', out);
        good = put_list(out, member, ",", true);
    }
    if (out != NULL && fclose(out) == 0 && good)
        return text;
    free(text);
    return NULL;
}

/* The body of the media type TYPE, owned by the caller; NULL: there is no example that can be sent. */
static char *body_text(const struct reader *reader, const char *type, const json_t *media)
{
    const json_t *value = find_example(reader, media);

    if (value == NULL)
        return NULL;
    if (is_json_type(type))
        return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (strcasecmp(type, "application/x-www-form-urlencoded") == 0 && json_is_object(value))
        return form_text(value);
    return json_is_string(value) ? list_text(value, false) : NULL;
}

/* Takes the first media type with an example. */
static int put_body(const struct reader *reader, struct operation *operation, const json_t *body)
{
    const json_t *content = json_object_get(resolve(reader, body), "content"), *media;
    bool required = json_is_true(json_object_get(resolve(reader, body), "required"));
    const char *type;

    json_object_foreach((json_t *)(uintptr_t)content, type, media)
    {
        operation->body = body_text(reader, type, resolve(reader, media));
        if (operation->body != NULL)
            return import_append_content_type(&operation->fields, type) ? 0 : fail_memory(reader);
    }
    return required ? end_with(reader, SKIP, "no example for the body") : 0;
}

/* ---- Servers ---- */

/* Replaces {name} of a server's URL by the default of its variable. Returns false if there is none. */
static bool put_server_variables(const json_t *server, char **url)
{
    char *open;

    while ((open = strchr(*url, '{')) != NULL) {
        char *close = strchr(open, '}'), name[128];
        const char *value;

        if (close == NULL)
            return false;
        snprintf(name, sizeof(name), "%.*s", (int)(close - open - 1), open + 1);
        value =
            import_string(json_object_get(json_object_get(server, "variables"), name), "default");
        if (value == NULL || strchr(value, '{') != NULL ||
            !replace_text(url, "%.*s%s%s", (int)(open - *url), *url, value, close + 1))
            return false;
    }
    return true;
}

/* The path of the first server in SERVERS, without a slash at its end; owned by the caller; NULL with WHY. */
static char *server_path(const struct reader *reader, const json_t *servers)
{
    const json_t *server = json_array_get(servers, 0);
    const char *given = import_string(server, "url"), *path;
    char *url = strdup(given != NULL ? given : ""), *result = NULL;

    if (url != NULL && !put_server_variables(server, &url))
        end_with(reader, -1, "%s: the server '%s' has a variable without a default", reader->file,
                 given);
    else if (url != NULL) {
        path = strstr(url, "://");
        path = path != NULL ? path + 3 + strcspn(path + 3, "/?#") : url;
        path += strspn(path, ".");
        result = strndup(path, strcspn(path, "?#"));
    }
    free(url);
    for (size_t length = result != NULL ? strlen(result) : 0;
         length > 0 && result[length - 1] == '/';)
        result[--length] = '\0';
    return result;
}

/* ---- Operations ---- */

static int put_parameters(const struct reader *reader, struct operation *operation,
                          const json_t *object)
{
    const char *open;

    for (size_t i = 0; i < operation->parameter_count; i++) {
        int result = put_parameter(reader, operation, operation->parameters[i]);

        if (result != 0)
            return result;
    }
    open = strchr(operation->target, '{');
    if (open != NULL)
        return end_with(reader, SKIP, "no parameter for '%.*s'", (int)strcspn(open, "}") + 1, open);
    if (operation->cookies != NULL &&
        !import_append_field(&operation->fields, "Cookie", operation->cookies))
        return fail_memory(reader);
    return put_body(reader, operation, json_object_get(object, "requestBody"));
}

static int add_request(const struct reader *reader, const struct operation *operation)
{
    const struct request_parts parts = {
        .method = operation->method,
        .path = operation->target,
        .fields = operation->fields,
        .body = operation->body,
        .body_length = operation->body != NULL ? strlen(operation->body) : 0,
    };

    return request_plan_add(reader->request_plan, &parts, (struct request_entry){0}, reader->why,
                            reader->size);
}

/* ITEM: of the path; OBJECT: the operation. */
static int make_request(const struct reader *reader, struct operation *operation,
                        const json_t *item, const json_t *object)
{
    const json_t *servers = json_object_get(object, "servers");
    char *prefix;
    int result;

    if (servers == NULL)
        servers = json_object_get(item, "servers");
    if (servers == NULL)
        servers = json_object_get(reader->root, "servers");
    prefix = server_path(reader, servers);
    if (prefix == NULL)
        return -1;
    add_parameters(reader, operation, json_object_get(item, "parameters"));
    add_parameters(reader, operation, json_object_get(object, "parameters"));
    result =
        asprintf(&operation->target, "%s%s%s", prefix[0] != '\0' && prefix[0] != '/' ? "/" : "",
                 prefix, operation->path) >= 0
            ? 0
            : -1;
    free(prefix);
    if (result != 0) {
        operation->target = NULL;
        return fail_memory(reader);
    }
    result = put_parameters(reader, operation, object);
    return result == 0 ? add_request(reader, operation) : result;
}

static void note_skipped(const struct reader *reader, const struct operation *operation)
{
    struct request_plan *request_plan = reader->request_plan;
    size_t used = strlen(request_plan->skipped_names);
    size_t room = sizeof(request_plan->skipped_names) - used;
    int length = snprintf(request_plan->skipped_names + used, room, "%s%s %s (%s)",
                          used > 0 ? ", " : "", operation->method, operation->path, reader->why);

    request_plan->skipped++;
    if (length < 0 || (size_t)length >= room)
        request_plan->skipped_names[used] = '\0';
}

static int read_operation(const struct reader *reader, const char *method, const char *path,
                          const json_t *item)
{
    struct operation operation = {.path = path};
    int result;

    for (size_t i = 0; method[i] != '\0'; i++)
        operation.method[i] = (char)toupper((unsigned char)method[i]);
    result = make_request(reader, &operation, item, json_object_get(item, method));
    if (result == SKIP)
        note_skipped(reader, &operation);
    free(operation.target);
    free(operation.cookies);
    free(operation.body);
    curl_slist_free_all(operation.fields);
    return result < 0 ? -1 : 0;
}

static int read_paths(const struct reader *reader, const json_t *paths)
{
    static const char *const methods[] = {"get",   "head",   "post",   "put",
                                          "patch", "delete", "options"};
    const char *path;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)paths, path, value)
    {
        const json_t *item = resolve(reader, value);

        if (path[0] != '/' && strncmp(path, "x-", 2) != 0)
            return end_with(reader, -1, "%s: invalid path '%s': a path begins with /", reader->file,
                            path);
        for (size_t i = 0; path[0] == '/' && i < ARRAY_LENGTH(methods); i++)
            if (json_is_object(json_object_get(item, methods[i])) &&
                read_operation(reader, methods[i], path, item) != 0)
                return -1;
    }
    return 0;
}

static int read_document(const struct reader *reader)
{
    const char *version = import_string(reader->root, "openapi");
    const json_t *paths = json_object_get(reader->root, "paths");

    if (version == NULL || (strncmp(version, "3.0", 3) != 0 && strncmp(version, "3.1", 3) != 0))
        return end_with(reader, -1, "%s: not an OpenAPI description of version 3.0 or 3.1%s",
                        reader->file,
                        json_object_get(reader->root, "swagger") != NULL
                            ? ": it is of version 2 (swagger); convert it"
                            : "");
    if (!json_is_object(paths))
        return end_with(reader, -1, "%s: not an OpenAPI description: no object paths",
                        reader->file);
    if (read_paths(reader, paths) != 0)
        return -1;
    if (reader->request_plan->entry_count > 0)
        return 0;
    return end_with(reader, -1, "%s: no operation has all examples that it needs%s%s", reader->file,
                    reader->request_plan->skipped > 0 ? ": " : "",
                    reader->request_plan->skipped_names);
}

/* Whether the name ends as those of YAML files do. */
static bool is_yaml(const char *file)
{
    const char *ending = strrchr(file, '.');

    return ending != NULL && (strcasecmp(ending, ".yaml") == 0 || strcasecmp(ending, ".yml") == 0);
}

int openapi_file_read(struct request_plan *request_plan, const char *file, char *why, size_t size)
{
    struct reader reader = {request_plan, file, NULL, why, size};
    json_t *root;
    int result;

    if (is_yaml(file))
        return end_with(&reader, -1,
                        "%s: YAML is not supported: convert the description to JSON (yq -o json)",
                        file);
    root = import_read(file, "an OpenAPI description in JSON", why, size);
    if (root == NULL)
        return -1;
    reader.root = root;
    result = read_document(&reader);
    json_decref(root);
    return result;
}
