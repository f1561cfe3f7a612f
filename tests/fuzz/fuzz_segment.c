/* What the master reads from the segment: statistics, the last state of a dead worker, its slots. */
#include "daemon/base/events.h"
#include "daemon/master/internal.h"
#include "tests/fuzz/segment_image.h"

static void record_deaths(const struct segment *segment)
{
    json_t *deaths = NULL, *list;

    for (uint32_t i = 0; i < IMAGE_WORKERS; i++)
        post_mortem_record(&deaths, segment, i, 1, "was killed");
    list = post_mortem_list(deaths, IMAGE_WORKERS);
    MUST(json_array_size(list) == IMAGE_WORKERS);
    json_decref(list);
    json_decref(deaths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct monitor monitor;
    struct summary summary = {0};
    struct segment image;

    events_set_level(LEVEL_COUNT); /* no output */
    image_make(&image, data, size);
    monitor = (struct monitor){0};
    publish_sample(&image, &monitor, 1);
    summary_log(&summary, &image);
    record_deaths(&image);
    for (uint32_t i = 0; i < IMAGE_WORKERS; i++) {
        capacity_clear_slot(&image, i);
        capacity_clear_cache(&image, i);
    }
    image_free(&image);
    return 0;
}
