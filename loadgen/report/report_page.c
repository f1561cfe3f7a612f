#include "loadgen/report/report_page.h"

#include <string.h>

void page_wrap(const struct page *page, size_t column, const char *text)
{
    const size_t indent = column;

    while (*text != '\0') {
        size_t length = strcspn(text, " ");

        if (column + 1 + length > PAGE_WIDTH) {
            fprintf(page->out, "\n%*s", (int)indent, "");
            column = indent;
        }
        fprintf(page->out, " %.*s", (int)length, text);
        column += 1 + length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', page->out);
}
