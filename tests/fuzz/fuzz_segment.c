/* What the master reads from the segment: statistics, the last state of a dead worker, its slots. */
#include "daemon/base/events.h"
#include "daemon/master/capacity.h"
#include "daemon/master/post_mortem.h"
#include "daemon/master/statistics.h"
#include "daemon/master/summary.h"
#include "tests/fuzz/segment_image.h"

static void record_deaths(const struct segment *segment)
{
    struct post_mortem post_mortem = {NULL};
    json_t *list;

    for (uint32_t i = 0; i < IMAGE_WORKERS; i++)
        post_mortem_record(&post_mortem, segment, i, 1, "was killed");
    list = post_mortem_list(&post_mortem, IMAGE_WORKERS);
    MUST(json_array_size(list) == IMAGE_WORKERS);
    json_decref(list);
    post_mortem_free(&post_mortem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event_base *base = event_base_new();
    struct statistics *statistics;
    struct summary *summary;
    struct segment image;

    events_set_level(LEVEL_COUNT); /* no output */
    image_make(&image, data, size);
    statistics = statistics_new(&image);
    summary = summary_new(base, &image);
    MUST(statistics != NULL && summary != NULL);
    statistics_store_sample(statistics, 1);
    summary_log(summary);
    statistics_free(statistics);
    summary_free(summary);
    event_base_free(base);
    record_deaths(&image);
    for (uint32_t i = 0; i < IMAGE_WORKERS; i++) {
        capacity_clear_slot(&image, i);
        capacity_clear_cache(&image, i);
    }
    free(image.base);
    return 0;
}
