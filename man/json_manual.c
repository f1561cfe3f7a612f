/*
 * Writes wsload-json(5): `json_manual TEMPLATE OUTPUT SCHEMA` copies the mdoc(7) page TEMPLATE and
 * replaces each line "@MEMBERS name@" by the members of the definition NAME of the JSON Schema.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_TEXT = 128 };

static const json_t *definitions;

static const char *string_of(const json_t *rule, const char *name)
{
    return json_string_value(json_object_get(rule, name));
}

/* The name of the definition that RULE refers to; NULL: none. */
static const char *reference_of(const json_t *rule)
{
    const char *reference = string_of(rule, "$ref");

    return reference != NULL ? strrchr(reference, '/') + 1 : NULL;
}

/* "integer", "number or null", "array of objects" */
static void print_type(FILE *out, const json_t *rule)
{
    const json_t *type = json_object_get(rule, "type"), *items = json_object_get(rule, "items");
    const char *name =
        json_is_array(type) ? json_string_value(json_array_get(type, 0)) : json_string_value(type);
    const char *item = reference_of(items) != NULL ? "object" : string_of(items, "type");

    fputs(name != NULL ? name : "object", out);
    if (items != NULL)
        fprintf(out, " of %ss", item);
    if (json_is_array(type))
        fputs(" or null", out);
}

/* Prints TEXT as sentences, each on a line of its own. */
static void print_text(FILE *out, const char *text)
{
    fputc(toupper((unsigned char)text[0]), out);
    for (text++; *text != '\0'; text++) {
        bool sentence = text[0] == '.' && text[1] == ' ';

        fputc(*text, out);
        if (sentence) {
            fputc('\n', out);
            text++;
        }
    }
    fputs(text[-1] == '.' ? "\n" : ".\n", out);
}

/* "One of 1.0, 1.1, 2."; null is part of the type. */
static void print_values(FILE *out, const json_t *values)
{
    const char *before = json_array_size(values) == 1 ? "Always\n" : "One of\n";
    size_t count = 0, printed = 0, i;
    const json_t *value;

    json_array_foreach(values, i, value) count += !json_is_null(value);
    json_array_foreach(values, i, value)
    {
        if (json_is_null(value))
            continue;
        fputs(before, out);
        before = "";
        if (json_is_string(value))
            fprintf(out, ".Li %s", json_string_value(value));
        else
            fprintf(out, ".Li %" JSON_INTEGER_FORMAT, json_integer_value(value));
        fputs(++printed < count ? " ,\n" : " .\n", out);
    }
}

static void print_reference(FILE *out, const char *name)
{
    if (name != NULL)
        fprintf(out, "See\n.Sx %c%s .\n", toupper((unsigned char)name[0]), name + 1);
}

static bool print_members(FILE *out, const json_t *rule, const char *path);

/* Prints the name PATH; TITLE, such as "p<n>", is the end of a variable name. */
static void print_name(FILE *out, const char *path, const char *title)
{
    size_t fixed = title != NULL ? strcspn(title, "<") : 0;

    fprintf(out, ".It Cm %s%.*s", path, (int)fixed, title != NULL ? title : "");
    if (title != NULL)
        fprintf(out, " Ns Ar %.*s", (int)strcspn(title + fixed + 1, ">"), title + fixed + 1);
}

/* Prints the member PATH, and its own members. Returns false if the schema does not describe it. */
static bool print_member(FILE *out, const json_t *rule, const char *path, const char *title)
{
    const char *text = string_of(rule, "description");
    const json_t *items = json_object_get(rule, "items");
    char below[PATH_TEXT];

    print_name(out, path, title);
    fputs(" Pq ", out);
    print_type(out, rule);
    fputc('\n', out);
    if (text == NULL) {
        fprintf(stderr, "%s has no description\n", path);
        return false;
    }
    print_text(out, text);
    print_values(out, json_object_get(rule, "enum"));
    print_reference(out, reference_of(rule));
    print_reference(out, reference_of(items));
    snprintf(below, sizeof(below), "%s%s.", path, items != NULL ? "[]" : "");
    return print_members(out, items != NULL ? items : rule, below);
}

/* Prints the members of the object RULE; PATH is the beginning of their names. */
static bool print_members(FILE *out, const json_t *rule, const char *path)
{
    const char *name;
    const json_t *member;
    char whole[PATH_TEXT];
    bool good = true;

    json_object_foreach(json_object_get(rule, "properties"), name, member)
    {
        snprintf(whole, sizeof(whole), "%s%s", path, name);
        good = print_member(out, member, whole, NULL) && good;
    }
    json_object_foreach(json_object_get(rule, "patternProperties"), name, member)
    {
        good = print_member(out, member, path, string_of(member, "title")) && good;
    }
    return good;
}

static bool print_definition(FILE *out, const char *name)
{
    const json_t *rule = json_object_get(definitions, name);
    bool good;

    if (rule == NULL) {
        fprintf(stderr, "the schema does not define %s\n", name);
        return false;
    }
    fputs(".Bl -tag -width Ds\n", out);
    good = print_members(out, rule, "");
    fputs(".El\n", out);
    return good;
}

static bool copy_template(FILE *template, FILE *out)
{
    char *line = NULL, name[32];
    size_t room = 0;
    bool good = true;

    while (getline(&line, &room, template) > 0) {
        if (sscanf(line, "@MEMBERS %31[a-z]@", name) == 1)
            good = print_definition(out, name) && good;
        else
            fputs(line, out);
    }
    free(line);
    return good && !ferror(template);
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *schema;
    FILE *template, *out;
    bool good;

    if (argc != 4) {
        fprintf(stderr, "usage: json_manual TEMPLATE OUTPUT SCHEMA\n");
        return 2;
    }
    schema = json_load_file(argv[3], 0, &error);
    template = fopen(argv[1], "r");
    out = fopen(argv[2], "w");
    if (schema == NULL || template == NULL || out == NULL) {
        fprintf(stderr, "cannot read %s and %s or write %s\n", argv[1], argv[3], argv[2]);
        return 1;
    }
    definitions = json_object_get(schema, "$defs");
    good = copy_template(template, out);
    fclose(template);
    good = fclose(out) == 0 && good;
    json_decref(schema);
    return good ? 0 : 1;
}
