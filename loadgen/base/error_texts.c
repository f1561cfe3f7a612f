#include "loadgen/base/error_texts.h"

#include <stdio.h>

static bool has_more_to_tell(enum error_kind kind)
{
    return kind == ERROR_KIND_TLS || kind == ERROR_KIND_LOCAL || kind == ERROR_KIND_RESOLVE ||
           kind == ERROR_KIND_OTHER;
}

void error_texts_note(struct error_texts *texts, enum error_kind kind, const char *text)
{
    if (has_more_to_tell(kind) && texts->first[kind][0] == '\0')
        snprintf(texts->first[kind], ERROR_TEXT, "%s", text);
}

void error_texts_add(struct error_texts *into, const struct error_texts *from)
{
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        error_texts_note(into, (enum error_kind)kind, from->first[kind]);
}
