/* What the console and its recorder read from a segment, twice, as they do ten times a second. */
#include "console/data/recording.h"
#include "console/data/server_info.h"
#include "tests/fuzz/segment_image.h"

static void record(const struct segment_reader *reader, uint64_t now_ns)
{
    char path[64], why[256];
    struct recorder *recorder;

    snprintf(path, sizeof(path), "/tmp/fuzz-%d.recording", (int)getpid());
    recorder = recorder_create(path, why, sizeof(why));
    MUST(recorder != NULL);
    unlink(path);
    for (int i = 0; i < 2; i++)
        MUST(recorder_add(recorder, reader, i == 0, NULL, now_ns + (uint64_t)i, 1, why,
                          sizeof(why)) == 0);
    MUST(recorder_close(recorder, why, sizeof(why)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct server_info info;
    struct segment_reader reader;
    struct segment image;
    uint64_t now_ns = 1000 * NS_PER_S;

    image_make(&image, data, size);
    if (segment_attach_copy(&reader, image.base, image.size) == NULL) {
        memset(&info, 0, sizeof(info));
        info.replayed = true;
        MUST(server_info_open(&info) == 0 && server_info_begin(&info, &reader) == 0);
        for (int i = 0; i < 2; i++, now_ns += NS_PER_S)
            MUST(server_info_take(&info, &reader, now_ns, now_ns, WANT_ALL) == 0);
        server_info_close(&info);
        record(&reader, now_ns);
    }
    image_free(&image);
    return 0;
}
