/* Text for a terminal or a file, 80 columns wide. Main thread. */
#ifndef LOADGEN_REPORT_PAGE_H
#define LOADGEN_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define PAGE_BOLD   "\x1b[1m"
#define PAGE_RED    "\x1b[31m"
#define PAGE_YELLOW "\x1b[33m"
#define PAGE_CYAN   "\x1b[36m"
#define PAGE_PLAIN  "\x1b[0m"

enum { PAGE_WIDTH = 80 };

struct page {
    FILE *out;
    bool colour;
};

/* The escape sequence, or nothing without colour. */
static inline const char *page_style(const struct page *page, const char *sequence)
{
    return page->colour ? sequence : "";
}

/* TEXT behind what stands in the first COLUMN columns, in lines of at most PAGE_WIDTH, set in alike. */
void page_wrap(const struct page *page, size_t column, const char *text);

#endif
