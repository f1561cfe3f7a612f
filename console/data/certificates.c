#include "console/data/certificates.h"

/* What authorities and certificates say may be anything; the screen shows one line of it. */
static void clean(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void certificate_list_take(struct certificate_list *list, const struct segment_reader *reader)
{
    for (list->count = 0; list->count < SEGMENT_CERTIFICATES_MAX; list->count++) {
        struct certificate_copy *row = &list->row[list->count];

        if (!segment_read_certificate(&reader->map, (uint32_t)list->count, row))
            return;
        clean(row->names);
        clean(row->issuer);
        clean(row->error);
    }
}
