/* What the logger reads from the rings of workers: a record or an event is one line of plain text. */
#include "daemon/base/events.h"
#include "daemon/logger/internal.h"
#include "tests/fuzz/segment_image.h"

#include <sys/mman.h>

static void nothing_lost(void *context, uint32_t log)
{
    (void)context, (void)log;
    MUST(false && "a file in memory takes all lines");
}

static struct log_sink memory_sink(void)
{
    struct log_sink sink = log_sink_make("-", memfd_create("log", MFD_CLOEXEC), "fuzz");

    MUST(sink.fd >= 0);
    return sink;
}

/* Number of lines in the file of FD. */
static uint64_t check_lines(int fd)
{
    uint64_t lines = 0;
    unsigned char bytes[4096];
    ssize_t got;

    for (off_t at = 0; (got = pread(fd, bytes, sizeof(bytes), at)) > 0; at += got)
        for (ssize_t i = 0; i < got; i++) {
            MUST(bytes[i] == '\n' || (bytes[i] >= ' ' && bytes[i] != 0x7f));
            lines += bytes[i] == '\n';
        }
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct log_owner owner = {nothing_lost, NULL};
    struct log_sink access_sink = memory_sink(), error_sink = memory_sink();
    const struct salvage salvage = {0};
    char path[] = "host.log", *paths[] = {path};
    uint16_t of_entry[] = {0, 1, 0, 1};
    const struct log_targets targets = {paths, 1, of_entry, 4};
    struct log_sink host_sink = memory_sink();
    struct access_log *access;
    struct error_log *error;
    struct segment image;
    uint64_t before;

    events_set_level(LEVEL_COUNT); /* no output */
    image_make(&image, data, size);
    atomic_store(&segment_logger(&image)->batch_open, 0); /* the logger's own page */
    before = metric_get(segment_logger(&image)->metrics, METRIC_log_lines);
    access = access_log_new(&(struct access_log_setup){.segment = &image,
                                                       .salvage = &salvage,
                                                       .targets = &targets,
                                                       .owner = &owner,
                                                       .format = LOG_FORMAT_COMBINED});
    error = error_log_new(&image, &owner);
    MUST(access != NULL && error != NULL);
    access_log_use(access, 1, &host_sink);
    access_log_use(access, 0, &access_sink);
    error_log_use(error, &error_sink);
    for (int i = 0; i < 2; i++) {
        access_log_drain(access);
        error_log_drain(error);
        access_log_unwritten(&image, &salvage);
    }
    MUST(check_lines(access_sink.fd) + check_lines(host_sink.fd) ==
         metric_get(segment_logger(&image)->metrics, METRIC_log_lines) - before);
    check_lines(error_sink.fd);
    access_log_free(access);
    error_log_free(error);
    image_free(&image);
    return 0;
}
