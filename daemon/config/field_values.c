#include "daemon/config/internal.h"

#include "common/macros.h"
#include "common/tables.h"
#include "daemon/http/date.h"

#include <ctype.h>
#include <string.h>

/* The next element of the list *TEXT, without blanks around it; *TEXT becomes the rest. */
static struct span next_element(const char **text, char separator)
{
    struct span element = {*text, 0};
    bool quoted = false;

    for (; **text != '\0' && (quoted || **text != separator); ++*text)
        quoted ^= **text == '"';
    element.length = (size_t)(*text - element.start);
    *text += **text != '\0';
    return config_trim(element);
}

static bool has_element(const char *list, struct span word)
{
    while (*list != '\0')
        if (span_is_nocase(next_element(&list, ','), word))
            return true;
    return false;
}

static struct span cut_at(struct span text, char byte)
{
    const char *end = memchr(text.start, byte, text.length);

    return end == NULL ? text : config_trim((struct span){text.start, (size_t)(end - text.start)});
}

/* Element by element: false if no client understands it as it was meant. */

/* Of Cache-Control and similar fields. Unknown directives may be extensions. */
static bool is_directive(struct span element)
{
    static const char *const known[] = {
        "max-age",         "s-maxage",         "stale-while-revalidate",
        "stale-if-error", /* with seconds */
        "no-cache",        "no-store",         "no-transform",
        "must-revalidate", "proxy-revalidate", "must-understand",
        "private",         "public",           "immutable"};
    enum { WITH_SECONDS = 4 };
    struct span name = cut_at(element, '='), seconds = {name.start + name.length + 1, 0};
    char typed[CONFIG_QUOTED_MAX + 1];
    const char *near;

    snprintf(typed, sizeof(typed), "%.*s", CONFIG_QUOTED(name));
    near = nearest_word(typed, known, ARRAY_LENGTH(known));
    if (element.length == 0)
        return true;
    if (!config_is_token(name) || (near != NULL && !span_is_nocase(name, span_of(near))))
        return false;
    if (name.length < element.length)
        seconds.length = element.length - name.length - 1;
    for (size_t i = 0; i < WITH_SECONDS; i++)
        if (near == known[i])
            return config_consists_of(seconds, "0123456789+");
    return memchr(element.start, '"', element.length) != NULL ||
           memchr(element.start, ' ', element.length) == NULL;
}

/* Of Content-Security-Policy. */
static bool is_policy(struct span element)
{
    static const char keywords[] = "self, none, unsafe-inline, unsafe-eval, unsafe-hashes, "
                                   "strict-dynamic, report-sample, wasm-unsafe-eval";
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-";
    struct span rest;

    config_section_split(&element, &rest);
    if (element.length > 0 && !config_consists_of(element, letters))
        return false;
    while (rest.length > 0) {
        element = rest;
        config_section_split(&element, &rest);
        if (has_element(keywords, element))
            return false;
    }
    return true;
}

static bool is_feature(struct span element)
{
    return element.length == 0 || (isalpha((unsigned char)element.start[0]) &&
                                   cut_at(element, '=').length < element.length);
}

/* RFC 6797, section 6.1: the number may be in quotes, and blanks around the '='. */
static bool is_transport_security(struct span value)
{
    const char *age = strcasestr(value.start, "max-age");

    if (value.start[0] == '"' || age == NULL)
        return false;
    age += strlen("max-age");
    age += strspn(age, " ");
    if (*age != '=')
        return false;
    age += 1 + strspn(age + 1, " ");
    return isdigit((unsigned char)age[*age == '"']);
}

static bool is_expiry(struct span value)
{
    int64_t seconds;

    return span_is(value, SPAN("0")) || span_is(value, SPAN("-1")) ||
           http_date_read(value, 0, &seconds) == 0;
}

static bool is_one_word(struct span element)
{
    return element.length == 0 ||
           (element.start[0] != '"' && cut_at(element, ' ').length == element.length &&
            cut_at(element, ',').length == element.length);
}

/* What a field's value is made of. */
static const struct field_grammar {
    const char *name;
    char separator; /* of elements; NUL: there is one */
    bool (*is_good)(
        struct span element); /* NULL: one of those in advice, perhaps with parameters */
    const char *advice;
} grammars[] = {
    {"X-Content-Type-Options", ',', NULL, "nosniff"},
    {"X-Frame-Options", ',', NULL, "DENY, SAMEORIGIN"},
    {"Referrer-Policy", ',', NULL,
     "no-referrer, no-referrer-when-downgrade, origin, origin-when-cross-origin, same-origin, "
     "strict-origin, strict-origin-when-cross-origin, unsafe-url"},
    {"Cross-Origin-Opener-Policy", ',', NULL,
     "same-origin, same-origin-allow-popups, noopener-allow-popups, unsafe-none"},
    {"Cross-Origin-Embedder-Policy", ',', NULL, "require-corp, credentialless, unsafe-none"},
    {"Cross-Origin-Resource-Policy", ',', NULL, "same-origin, same-site, cross-origin"},
#define DIRECTIVES "separate directives by commas, as in no-cache, max-age=0"
    {"Cache-Control", ',', is_directive, DIRECTIVES},
    {"CDN-Cache-Control", ',', is_directive, DIRECTIVES},
    {"Surrogate-Control", ',', is_directive, DIRECTIVES},
#undef DIRECTIVES
#define POLICY "write directives as in default-src 'self'; img-src *"
    {"Content-Security-Policy", ';', is_policy, POLICY},
    {"Content-Security-Policy-Report-Only", ';', is_policy, POLICY},
#undef POLICY
    {"Permissions-Policy", ',', is_feature, "write features as in camera=(), geolocation=(self)"},
    {"Strict-Transport-Security", '\0', is_transport_security,
     "examples: max-age=31536000, max-age=31536000; includeSubDomains"},
    {"Expires", '\0', is_expiry,
     "write 0 or a date; for a time from now set Cache-Control max-age"},
    {"Vary", ',', is_one_word, "separate names by commas, as in Accept-Encoding, Origin"},
    {"Access-Control-Allow-Origin", '\0', is_one_word,
     "write one origin or *; [cors] is for several"},
};

static const char *fault_of_grammar(const struct field_grammar *grammar, const char *value,
                                    struct span *element)
{
    while (*value != '\0') {
        *element = next_element(&value, grammar->separator);
        if (grammar->is_good != NULL ? !grammar->is_good(*element)
                                     : !has_element(grammar->advice, cut_at(*element, ';')))
            return grammar->advice;
    }
    return NULL;
}

const char *config_field_fault(struct span name, const char *value, struct span *element)
{
    struct span start = {value, strcspn(value, ":= ")};

    *element = span_of(value);
    if (value[start.length] != '\0' && value[start.length] != ' ' &&
        (start.length == 0 || (value[start.length] == ':' && span_is_nocase(start, name))))
        return "write the value alone, after one '='";
    if (strstr(value, "{{") != NULL)
        return "was a template not filled in?";
    for (size_t i = 0; i < ARRAY_LENGTH(grammars); i++)
        if (span_is_nocase(name, span_of(grammars[i].name)))
            return fault_of_grammar(&grammars[i], value, element);
    return NULL;
}
