#include "failing_server.h"

#include "scratch.h"
#include "tests/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Creates the control file of failing_memory.c. */
static struct failing_places *map_places(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    void *mapping;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(struct failing_places)), 0);
    mapping = mmap(NULL, sizeof(struct failing_places), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(mapping != MAP_FAILED);
    close(fd);
    return mapping;
}

struct failing_places *failing_server_start(struct server *server, unsigned after,
                                            const char *const *options)
{
    static const char preload[] = "LD_PRELOAD=" FAILING_MEMORY;
    char path[SCRATCH_PATH_MAX + 8], places_setting[SCRATCH_PATH_MAX + 32], after_setting[32];
    const char *const wrapper[] = {"env",          LIBRARY_PATH,  preload,
                                   places_setting, after_setting, NULL};
    struct failing_places *places;

    snprintf(path, sizeof(path), "%s/places", server_directory(server));
    snprintf(places_setting, sizeof(places_setting), "FAILING_PLACES=%s", path);
    snprintf(after_setting, sizeof(after_setting), "FAILING_AFTER=%u", after);
    places = map_places(path);
    server_start_under(server, wrapper, options);
    return places;
}

void failing_server_end(struct failing_places *places)
{
    munmap(places, sizeof(*places));
}
