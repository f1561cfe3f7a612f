/* Recordings: replay equals what was recorded; damaged files are read safely. */
#include "console/data/recording.h"

#include "common/clock.h"
#include "common/log_record.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MOST = 1000 * 1000, MOMENTS = 12, ORIGINS_FROM = 4 };

#define SECOND UINT64_C(1000000000)

static struct segment segment;
static struct segment_reader reader;
static char path[64];
static char why[256];

static void answer_one(uint16_t status)
{
    const struct log_ring ring = segment_ring(&segment, 0);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record = {.time_ns = clock_wall_ns(), .status = status};

    record.request_line = SPAN("GET / HTTP/1.1");
    log_ring_append(&ring, words, log_record_pack(&record, words));
    metric_add(segment_thread(&segment, 0)->metrics, METRIC_requests, 1);
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/recording-%d", (int)getpid());
    unlink(path);
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = 2,
                                                           .max_threads = 2,
                                                           .cache_entries = 16,
                                                           .ring_bytes = 16 * 1024}) != 0)
        return -1;
    segment_reserve_worker(&segment, 0);
    segment_reserve_thread(&segment, 0);
    segment_publish(&segment);
    return segment_attach_copy(&reader, segment.base, segment.size) == NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    segment_destroy(&segment);
    unlink(path);
    return 0;
}

const struct test_fixture test_fixture = {setup, teardown};

/*
 * Records one moment per second for MOMENTS seconds; at moment n the counter of requests is n * n.
 */
static void record(void)
{
    struct recorder *recorder = recorder_create(path, why, sizeof(why));
    uint64_t wall_ns = clock_wall_ns();

    assert_non_null(recorder);
    for (unsigned n = 0; n < MOMENTS; n++) {
        for (unsigned i = 0; n > 0 && i < 2 * n - 1; i++)
            answer_one(200);
        recorder_set_origins(recorder, n < ORIGINS_FROM ? "" : "{\"ok\":true}");
        assert_int_equal(recorder_add(recorder, &reader, n == 0, NULL, (n + 1) * SECOND * 10,
                                      wall_ns + n * SECOND, why, sizeof(why)),
                         0);
    }
    assert_int_equal(recorder_add_end(recorder, "has stopped", (MOMENTS + 1) * SECOND * 10, wall_ns,
                                      why, sizeof(why)),
                     0);
    assert_int_equal(recorder_close(recorder, why, sizeof(why)), 0);
}

static uint64_t requests(const struct replay *replay)
{
    return segment_reader_sum(replay_reader(replay), METRIC_requests);
}

TEST(replay_has_every_moment)
{
    struct replay *replay;
    uint64_t first;

    record();
    replay = replay_open(path, why, sizeof(why));
    assert_non_null(replay);
    assert_null(replay_error(replay));
    assert_true(replay_length_ns(replay) == MOMENTS * SECOND * 10);
    assert_null(replay_reader(replay));
    assert_int_equal(replay_next(replay, 0), REPLAY_STEPPED);
    assert_true(replay_new_daemon(replay));
    first = requests(replay);
    assert_int_equal(replay_next(replay, 5 * SECOND), REPLAY_WAITS);
    for (unsigned n = 1; n < MOMENTS; n++) {
        assert_int_equal(replay_next(replay, UINT64_MAX), REPLAY_STEPPED);
        assert_false(replay_new_daemon(replay));
        assert_true(requests(replay) - first == (uint64_t)n * n);
        assert_null(replay_ended(replay));
        assert_string_equal(replay_origins(replay), n < ORIGINS_FROM ? "" : "{\"ok\":true}");
    }
    assert_int_equal(replay_next(replay, UINT64_MAX), REPLAY_STEPPED);
    assert_string_equal(replay_ended(replay), "has stopped");
    assert_int_equal(replay_next(replay, UINT64_MAX), REPLAY_WAITS);
    replay_rewind(replay);
    assert_int_equal(replay_next(replay, 0), REPLAY_STEPPED);
    assert_true(replay_new_daemon(replay));
    assert_string_equal(replay_origins(replay), ""); /* not recorded yet at that time */
    while (replay_next(replay, 55 * SECOND) == REPLAY_STEPPED)
        ;
    assert_true(replay_at_ns(replay) == 50 * SECOND);
    assert_true(requests(replay) - first == 25);
    assert_string_equal(replay_origins(replay), "{\"ok\":true}");
    replay_close(replay);
}

/* The rebuilt ring has the same records. */
TEST(replay_has_the_log_records)
{
    struct replay *replay;
    uint64_t words[LOG_RECORD_WORDS_MAX], position = 0;
    unsigned records = 0;
    struct log_ring ring;

    record();
    replay = replay_open(path, why, sizeof(why));
    while (replay_next(replay, UINT64_MAX) == REPLAY_STEPPED)
        ;
    ring = segment_ring(&replay_reader(replay)->map, 0);
    while (log_ring_read(&ring, &position, words, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD)
        records++;
    assert_true(records >= (MOMENTS - 1) * (MOMENTS - 1));
    replay_close(replay);
}

static size_t read_whole(unsigned char *bytes)
{
    FILE *file = fopen(path, "rb");
    size_t length = fread(bytes, 1, FILE_MOST, file);

    fclose(file);
    return length;
}

static void write_whole(const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

/* Replays as far as possible; true if the file has no error. */
static bool replay_all(void)
{
    struct replay *replay = replay_open(path, why, sizeof(why));
    bool whole;

    if (replay == NULL) {
        assert_true(strlen(why) > 20);
        return false;
    }
    while (replay_next(replay, UINT64_MAX) == REPLAY_STEPPED)
        if (replay_reader(replay) != NULL)
            requests(replay);
    whole = replay_error(replay) == NULL;
    replay_close(replay);
    return whole;
}

/* A note may be older than the first snapshot, and is none itself. */
TEST(notes_are_recorded)
{
    struct recorder *recorder = recorder_create(path, why, sizeof(why));
    const struct marks *notes;
    struct replay *replay;

    assert_non_null(recorder);
    assert_int_equal(recorder_add_note(recorder, "waiting", 0, SECOND, why, sizeof(why)), 0);
    for (unsigned n = 1; n <= 2; n++) {
        assert_int_equal(
            recorder_add(recorder, &reader, n == 1, NULL, n * SECOND, n * SECOND, why, sizeof(why)),
            0);
        assert_int_equal(recorder_add_note(recorder,
                                           n == 1 ? "the queue f\xc3\xbcllt" : "esc \x1b[31m",
                                           n * SECOND, n * SECOND, why, sizeof(why)),
                         0);
    }
    assert_int_equal(recorder_close(recorder, why, sizeof(why)), 0);
    replay = replay_open(path, why, sizeof(why));
    assert_non_null(replay);
    notes = replay_notes(replay);
    assert_int_equal(notes->count, 3);
    assert_string_equal(notes->mark[0].text, "waiting");
    assert_string_equal(notes->mark[1].text, "the queue f\xc3\xbcllt");
    assert_string_equal(notes->mark[2].text, "esc \\x1b[31m");
    assert_true(notes->mark[2].time_ns == 2 * SECOND);
    assert_int_equal(notes->mark[2].kind, MARK_note);
    assert_true(replay_length_ns(replay) == SECOND);
    assert_int_equal(replay_next(replay, UINT64_MAX), REPLAY_STEPPED);
    assert_int_equal(replay_next(replay, UINT64_MAX), REPLAY_STEPPED);
    assert_int_equal(replay_next(replay, UINT64_MAX), REPLAY_WAITS);
    replay_close(replay);
}

TEST(file_of_another_format_is_rejected)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *why;
    } cases[] = {
        {"", 0, "not a recording of wsconsole"},
        {"#!/bin/sh\necho not a recording\n", 31, "not a recording of wsconsole"},
        {"WSCONREC\x09\0\0\0\x04\x03\x02\x01", 16, "unsupported version 9"},
        {"WSCONREC\x02\0\0\0\x01\x02\x03\x04", 16, "another byte order"},
        {"WSCONREC\x01\0\0\0\x04\x03\x02\x01", 16, "unsupported version 1 (this wsconsole reads"},
        {"WSCONREC\x02\0\0\0\x04\x03\x02\x01", 16, "empty recording"},
        {"WSCONREC\x02\0\0\0\x04\x03\x02\x01half", 20, "damaged or truncated in its first chunk"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        write_whole(cases[i].bytes, cases[i].length);
        assert_null(replay_open(path, why, sizeof(why)));
        if (strstr(why, cases[i].why) == NULL)
            fail_msg("'%s' does not contain '%s'", why, cases[i].why);
    }
    unlink(path);
    assert_null(replay_open(path, why, sizeof(why)));
    assert_non_null(strstr(why, "No such file"));
    assert_null(replay_open("/tmp", why, sizeof(why)));
}

TEST(truncated_file_is_replayed_up_to_its_end)
{
    static unsigned char bytes[FILE_MOST];
    size_t length;

    record();
    length = read_whole(bytes);
    assert_true(replay_all());
    for (size_t cut = length - 1; cut > 0; cut -= cut > 997 ? 997 : cut) {
        write_whole(bytes, cut);
        replay_all();
    }
    write_whole(bytes, length - 3);
    assert_false(replay_all());
}

TEST(damaged_file_is_read_safely)
{
    static unsigned char bytes[FILE_MOST], damaged[FILE_MOST];
    uint32_t random = 4711;
    size_t length;

    record();
    length = read_whole(bytes);
    for (int i = 0; i < 300; i++) {
        memcpy(damaged, bytes, length);
        random = random * 1664525 + 1013904223;
        damaged[(random >> 4) % length] ^= (unsigned char)(1 + random % 255);
        write_whole(damaged, length);
        replay_all();
    }
}

TEST(existing_file_is_not_overwritten)
{
    write_whole("precious", 8);
    assert_null(recorder_create(path, why, sizeof(why)));
    assert_non_null(strstr(why, "File exists"));
}
