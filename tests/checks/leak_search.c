/*
 * Linked into all programs with AddressSanitizer. When a process ends, its search for leaks reads all
 * writable data, among it 13 MB of tables of the sanitizers. Few of them are used, and they hold no
 * pointer to memory of the program; but to read them causes half of the page faults of a short
 * process. This definition of dl_iterate_phdr(), which the search calls, hides them.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { HEADERS_MAX = 32 };

typedef int visitor(struct dl_phdr_info *info, size_t size, void *context);
typedef int iterate_function(visitor *visit, void *context);

struct visit {
    visitor *visit;
    void *context;
};

static iterate_function *next_definition(void)
{
    static iterate_function *next;

    if (next == NULL)
        next = (iterate_function *)dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return next;
}

/* Before the search: it stops all threads, and one may hold a lock that dlsym() needs. */
__attribute__((constructor)) static void prepare(void)
{
    next_definition();
}

static bool is_sanitizer(const char *path)
{
    return strstr(path, "/libasan.so") != NULL || strstr(path, "/libubsan.so") != NULL;
}

/*
 * Shows the library of a sanitizer without its data that starts as zeros. The search runs within a call of
 * this and reads the stack: an array there would preserve pointers that are no longer used.
 */
static int visit_shortened(struct dl_phdr_info *info, size_t size, void *context)
{
    static ElfW(Phdr) headers[HEADERS_MAX]; /* the C library lets in one thread at a time */
    static struct dl_phdr_info shortened;
    const struct visit *caller = context;

    if (!is_sanitizer(info->dlpi_name) || info->dlpi_phnum > HEADERS_MAX)
        return caller->visit(info, size, caller->context);
    memcpy(headers, info->dlpi_phdr, info->dlpi_phnum * sizeof(headers[0]));
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (headers[i].p_type == PT_LOAD)
            headers[i].p_memsz = headers[i].p_filesz;
    shortened = *info;
    shortened.dlpi_phdr = headers;
    return caller->visit(&shortened, size, caller->context);
}

int dl_iterate_phdr(visitor *visit, void *context)
{
    return next_definition()(visit_shortened, &(struct visit){visit, context});
}
