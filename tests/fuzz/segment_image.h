/*
 * A copy of a segment, with IMAGE_OF_BOARD one of include/wsboard.h, in which an input has overwritten words. An input is a sequence of writes of
 * 12 bytes: section, entry, word of the entry (16 bits), value (64 bits). A section that is absent is
 * the header.
 */
#ifndef TESTS_FUZZ_SEGMENT_IMAGE_H
#define TESTS_FUZZ_SEGMENT_IMAGE_H

#ifdef IMAGE_OF_BOARD
#define WSBOARD_IMPLEMENTATION
#define WSBOARD_WORKERS 2
#define WSBOARD_THREADS 2
#include "include/wsboard.h"
#endif

#include "common/clock.h"
#include "common/log_record.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { IMAGE_WORKERS = 2, IMAGE_THREADS = 2, IMAGE_RECORDS = 40, IMAGE_WRITE = 12 };

#ifdef IMAGE_OF_BOARD
static void image_create(struct segment *created)
{
    struct segment_reader reader;
    char name[48], why[256];

    snprintf(name, sizeof(name), "fuzz-board-%d", (int)getpid());
    MUST(board_open(name, 80) == 0);
    board_name("acceptor");
    for (int i = 0; i < IMAGE_RECORDS; i++) {
        board_begin("GET /page.html HTTP/1.1", 23);
        board_end(200, 100);
    }
    board_connection(1);
    board_queue(1, 16);
    board_waited(board_now());
    board_event(BOARD_WARN, "an event");
    MUST(segment_attach(&reader, name, why, sizeof(why)) == SEGMENT_ATTACHED);
    *created = reader.map;
}

static void image_destroy(struct segment *created)
{
    (void)created; /* stays mapped */
    board_close();
}
#else
static void image_fill(struct segment *segment)
{
    const struct event_record event = {.level = LEVEL_WARN, .text = "an event"};
    const struct log_record record = {.status = 200,
                                      .request_line = SPAN("GET /page.html HTTP/1.1")};
    uint64_t words[LOG_RECORD_WORDS_MAX];

    for (uint32_t i = 0; i < IMAGE_WORKERS; i++) {
        MUST(segment_reserve(segment, i, IMAGE_THREADS) == 0);
        segment_use_threads(segment, i, IMAGE_THREADS);
        segment_cache_publish(segment_cache(segment, i), 1, 1, 1, CACHE_SLOT_LIVE, "/page.html");
    }
    for (uint32_t i = 0; i < segment_event_rings(segment); i++) {
        const struct event_ring ring = segment_event_ring(segment, i);

        event_ring_append(&ring, &event);
    }
    for (uint32_t i = 0; i < IMAGE_WORKERS * IMAGE_THREADS; i++) {
        const struct log_ring ring = segment_ring(segment, i);

        segment_activity_work(&segment_thread(segment, i)->activity, THREAD_STATE_READ, 1, "GET /",
                              5);
        for (int n = 0; n < IMAGE_RECORDS; n++)
            log_ring_append(&ring, words, log_record_pack(&record, words));
    }
    segment_publish(segment);
}

static void image_create(struct segment *created)
{
    char name[48], why[256];
    const struct segment_plan plan = {.name = name,
                                      .socket_path = "",
                                      .listening = "127.0.0.1:80",
                                      .max_workers = IMAGE_WORKERS,
                                      .max_threads = IMAGE_THREADS,
                                      .cache_entries = 8,
                                      .ring_bytes = 16 * 1024};

    snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
    MUST(segment_create(created, &plan, why, sizeof(why)) == 0);
    image_fill(created);
}

static void image_destroy(struct segment *created)
{
    segment_destroy(created);
}
#endif

/* The intact segment, made once, whose memory is the file *FD. */
static const struct segment *image_original(int *fd)
{
    static struct segment original;
    static int original_fd;

    if (original.base == NULL) {
        struct segment created;

        image_create(&created);
        original = created;
        original_fd = memfd_create("image", MFD_CLOEXEC);
        MUST(write(original_fd, created.base, created.size) == (ssize_t)created.size);
        image_destroy(&created);
    }
    *fd = original_fd;
    return &original;
}

static void image_write(const struct segment *image, const uint8_t *input)
{
    uint64_t begin = 0, size = sizeof(struct segment_header), word = 0;

    if (input[0] < SEGMENT_KIND_COUNT && segment_count(image, input[0]) > 0) {
        const struct segment_section *section = &image->section[input[0]];

        begin = section->offset + input[1] % section->count * section->stride;
        size = section->entry_size;
    }
    memcpy(&word, input + 2, sizeof(uint16_t));
    word = word * sizeof(uint64_t) % (size / sizeof(uint64_t) * sizeof(uint64_t));
    memcpy(image->base + begin + word, input + 4, sizeof(uint64_t));
}

/* Fills *IMAGE, whose pages are copied when they change. Whoever holds it knows its true layout. */
static void image_make(struct segment *image, const uint8_t *data, size_t size)
{
    int fd;

    *image = *image_original(&fd);
    image->base = mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    MUST(image->base != MAP_FAILED);
    for (; size >= IMAGE_WRITE; data += IMAGE_WRITE, size -= IMAGE_WRITE)
        image_write(image, data);
}

static void image_free(struct segment *image)
{
    munmap(image->base, image->size);
}

#endif
