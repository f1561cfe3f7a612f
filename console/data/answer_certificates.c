#include "console/data/answer_certificates.h"

#include "common/units.h"

#include <stdbool.h>

/* The text member NAME of JSON. */
static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text != NULL ? text : "?";
}

/* Prints a line with the time NAME of CERTIFICATE. */
static void print_time(const json_t *certificate, const char *what, const char *name, FILE *out)
{
    char text[UNITS_TEXT];

    fprintf(out, "  %s %s\n", what,
            units_format_utc(text, sizeof(text),
                             json_integer_value(json_object_get(certificate, name))));
}

static void print_certificate(const json_t *certificate, FILE *out)
{
    const json_t *names = json_object_get(certificate, "names"), *name;
    json_int_t failures = json_integer_value(json_object_get(certificate, "failures"));
    size_t i;

    json_array_foreach(names, i, name)
        fprintf(out, "%s%s", i > 0 ? " " : "",
                json_string_length(name) > 0 ? json_string_value(name) : "?");
    fputs(i == 0 ? "(no DNS name)\n" : "\n", out);
    print_time(certificate, "valid until", "not_after", out);
    fprintf(out, "  issuer %s\n", text_of(certificate, "issuer"));
    if (json_object_get(certificate, "next_attempt") == NULL)
        return;
    print_time(certificate, "next attempt", "next_attempt", out);
    if (failures > 0)
        fprintf(out, "  %lld %s failed, the last one: %s\n", (long long)failures,
                failures == 1 ? "attempt" : "attempts", text_of(certificate, "error"));
}

void answer_print_certificates(const char *command, const json_t *answer, FILE *out)
{
    const json_t *list = json_object_get(answer, "certificates"), *certificate;
    size_t i;

    (void)command;
    if (json_array_size(list) == 0)
        fputs("no address needs a certificate\n", out);
    json_array_foreach(list, i, certificate) print_certificate(certificate, out);
}

static void print_key_change(bool replaced, FILE *out)
{
    fputs(replaced
              ? "the key of the account is replaced\n"
              : "the key of the account is still being replaced; the error log shows the result\n",
          out);
}

void answer_print_acme(const char *command, const json_t *answer, FILE *out)
{
    bool obtained = json_is_true(json_object_get(answer, "obtained"));

    (void)command;
    if (json_object_get(answer, "key_replaced") != NULL) {
        print_key_change(json_is_true(json_object_get(answer, "key_replaced")), out);
    } else if (obtained) {
        fprintf(out, "%s: a new certificate is in use\n", text_of(answer, "host"));
        print_time(answer, "next attempt", "next_attempt", out);
    } else {
        fprintf(out,
                "%s: a certificate is still being requested; the error log and 'certificates' "
                "show the result\n",
                text_of(answer, "host"));
    }
}
