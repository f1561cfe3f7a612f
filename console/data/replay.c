
#include "console/data/recording.h"

#include "common/escape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

enum { ERROR_TEXT = 256 };

#define IMAGE_MAX (UINT64_C(1) << 36) /* larger than any segment; only pages in use take memory */

struct place {
    uint64_t offset; /* where the chunk is in the file */
    struct recording_chunk chunk;
};

struct replay {
    FILE *file;
    uint64_t size;
    struct place *places;
    size_t count, room;
    size_t next; /* index of the chunk to apply next */
    char error[ERROR_TEXT];
    unsigned char *image; /* the segment */
    size_t image_size;
    struct segment_reader reader;
    bool attached, new_daemon;
    uint64_t generation; /* the current daemon's */
    char ended[ERROR_TEXT];
    struct process_table *processes;
    bool has_processes;
    char *origins; /* NULL: unknown */
    struct marks notes;
};

/* A chunk and its parts */

/* Reads a chunk and inflates it into *RAW, which the caller frees. */
static const char *unpack(struct replay *replay, const struct place *place, unsigned char **raw)
{
    const struct recording_chunk *chunk = &place->chunk;
    unsigned char *packed = malloc(chunk->packed + 1);
    uLongf length = chunk->raw;
    const char *problem = NULL;

    *raw = malloc(chunk->raw + 1);
    if (packed == NULL || *raw == NULL)
        problem = "out of memory";
    else if (fseeko(replay->file, (off_t)(place->offset + sizeof(*chunk)), SEEK_SET) != 0 ||
             fread(packed, 1, chunk->packed, replay->file) != chunk->packed)
        problem = "read error";
    else if ((uint32_t)crc32(0, packed, (uInt)chunk->packed) != chunk->check ||
             uncompress(*raw, &length, packed, chunk->packed) != Z_OK || length != chunk->raw)
        problem = "wrong checksum or length";
    free(packed);
    return problem;
}

struct input {
    const unsigned char *at, *end;
    uint64_t run_end;
};

static bool get_number(struct input *input, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; input->at < input->end && shift < 64; shift += 7) {
        unsigned char byte = *input->at++;

        *number |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return true;
    }
    return false;
}

static const char *take_block(struct input *input, const unsigned char **bytes, uint64_t *length)
{
    if (!get_number(input, length) || *length > (uint64_t)(input->end - input->at))
        return "a part exceeds its chunk";
    *bytes = input->at;
    input->at += *length;
    return NULL;
}

/* Opening: the index of chunks */

static int add_place(struct replay *replay, uint64_t offset, const struct recording_chunk *chunk)
{
    if (replay->count == replay->room) {
        size_t room = replay->room == 0 ? 256 : replay->room * 2;
        struct place *larger = realloc(replay->places, room * sizeof(*larger));

        if (larger == NULL)
            return -1;
        replay->places = larger;
        replay->room = room;
    }
    replay->places[replay->count++] = (struct place){.offset = offset, .chunk = *chunk};
    return 0;
}

static bool chunk_valid(const struct replay *replay, const struct recording_chunk *chunk)
{
    const struct place *before = replay->count > 0 ? &replay->places[replay->count - 1] : NULL;

    return chunk->mark == RECORDING_CHUNK_MARK && chunk->kind >= RECORDING_WHOLE &&
           chunk->kind <= RECORDING_NOTE && chunk->raw <= RECORDING_RAW_MAX &&
           (before != NULL ? chunk->time_ns >= before->chunk.time_ns
                           : chunk->kind == RECORDING_WHOLE || chunk->kind == RECORDING_NOTE);
}

static void set_error(struct replay *replay, uint64_t offset, const char *what)
{
    snprintf(replay->error, sizeof(replay->error),
             "the recording %s at byte %" PRIu64 " of %" PRIu64 "; it is replayed up to there",
             what, offset, replay->size);
}

/* Adds the note in the chunk at PLACE; one that is damaged is left out. False: out of memory. */
static bool take_note(struct replay *replay, const struct place *place)
{
    char text[MARK_TEXT_BYTES];
    unsigned char *raw;
    const char *problem = unpack(replay, place, &raw);
    struct input input = {.at = raw, .end = problem == NULL ? raw + place->chunk.raw : raw};
    const unsigned char *bytes;
    uint64_t part, length;

    if (get_number(&input, &part) && part == PART_WORDS &&
        take_block(&input, &bytes, &length) == NULL) {
        escape_text(text, sizeof(text), (const char *)bytes, length);
        marks_add(&replay->notes, MARK_note, place->chunk.wall_ns, text);
    }
    free(raw);
    return raw != NULL;
}

static int find_chunks(struct replay *replay)
{
    uint64_t offset = sizeof(struct recording_head);
    struct recording_chunk chunk;

    while (offset < replay->size) {
        if (fseeko(replay->file, (off_t)offset, SEEK_SET) != 0 ||
            fread(&chunk, sizeof(chunk), 1, replay->file) != 1) {
            set_error(replay, offset, "is truncated");
            return 0;
        }
        if (!chunk_valid(replay, &chunk)) {
            set_error(replay, offset, "is damaged");
            return 0;
        }
        if (chunk.packed > replay->size - offset - sizeof(chunk)) {
            set_error(replay, offset, "is truncated");
            return 0;
        }
        if (chunk.kind == RECORDING_NOTE
                ? !take_note(replay, &(struct place){.offset = offset, .chunk = chunk})
                : add_place(replay, offset, &chunk) != 0)
            return -1;
        offset += sizeof(chunk) + chunk.packed;
    }
    return 0;
}

/* Returns NULL, or why the file cannot be replayed. */
static const char *check_head(struct replay *replay)
{
    static char text[96];
    struct recording_head head;

    if (fread(&head, sizeof(head), 1, replay->file) != 1 ||
        memcmp(head.magic, RECORDING_MAGIC, sizeof(head.magic)) != 0)
        return "not a recording of wsconsole";
    if (head.byte_order != RECORDING_BYTE_ORDER)
        return "recorded with another byte order";
    if (head.version != RECORDING_VERSION) {
        snprintf(text, sizeof(text), "unsupported version %u (this wsconsole reads version %d)",
                 head.version, RECORDING_VERSION);
        return text;
    }
    return NULL;
}

static const char *read_file(struct replay *replay)
{
    struct stat status;
    const char *problem;

    if (fstat(fileno(replay->file), &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "not a regular file";
    replay->size = (uint64_t)status.st_size;
    problem = check_head(replay);
    if (problem != NULL)
        return problem;
    if (find_chunks(replay) != 0)
        return "out of memory";
    if (replay->count == 0)
        return replay->error[0] != '\0' ? "damaged or truncated in its first chunk"
                                        : "empty recording";
    return NULL;
}

struct replay *replay_open(const char *path, char *why, size_t size)
{
    struct replay *replay = calloc(1, sizeof(*replay));
    const char *problem = "out of memory";

    if (replay != NULL) {
        replay->file = fopen(path, "rbe");
        replay->processes = calloc(1, sizeof(*replay->processes));
        problem = replay->file == NULL        ? strerror(errno)
                  : replay->processes == NULL ? problem
                                              : read_file(replay);
    }
    if (problem == NULL)
        return replay;
    snprintf(why, size, "cannot replay %.200s: %s", path, problem);
    replay_close(replay);
    return NULL;
}

static void drop_image(struct replay *replay)
{
    if (replay->image != NULL)
        munmap(replay->image, replay->image_size);
    replay->image = NULL;
    replay->attached = false;
}

void replay_close(struct replay *replay)
{
    if (replay == NULL)
        return;
    drop_image(replay);
    if (replay->file != NULL)
        fclose(replay->file);
    free(replay->processes);
    free(replay->origins);
    free(replay->places);
    free(replay);
}

/* The parts of a chunk. Each function consumes INPUT and returns NULL, or an error message. */

static void take_origins(struct replay *replay, const unsigned char *bytes, uint64_t length)
{
    free(replay->origins);
    replay->origins = bytes != NULL ? strndup((const char *)bytes, length) : NULL;
}

static const char *take_size(struct replay *replay, struct input *input)
{
    uint64_t size;
    void *image;

    if (!get_number(input, &size) || size < sizeof(struct segment_header) || size > IMAGE_MAX)
        return "invalid segment size";
    drop_image(replay);
    take_origins(replay, NULL, 0);
    image = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (image == MAP_FAILED)
        return "not enough memory for the segment";
    replay->image = image;
    replay->image_size = size;
    return NULL;
}

static const char *take_run(struct replay *replay, struct input *input)
{
    uint64_t gap, length, from;

    if (!get_number(input, &gap) || !get_number(input, &length) ||
        length > (uint64_t)(input->end - input->at))
        return "a run exceeds its chunk";
    from = input->run_end + gap;
    if (replay->image == NULL || from > replay->image_size || length > replay->image_size - from)
        return "a run lies outside the segment";
    memcpy(replay->image + from, input->at, length);
    replay->attached = replay->attached && from >= sizeof(struct segment_header);
    input->at += length;
    input->run_end = from + length;
    return NULL;
}

static const char *take_part(struct replay *replay, struct input *input)
{
    const unsigned char *bytes;
    const char *problem;
    uint64_t part, length;

    if (!get_number(input, &part))
        return "an incomplete part";
    if (part == PART_SIZE)
        return take_size(replay, input);
    if (part == PART_RUN)
        return take_run(replay, input);
    problem = take_block(input, &bytes, &length);
    if (problem != NULL)
        return problem;
    if (part == PART_PROCESSES) /* those of another version have another size: unknown */
        replay->has_processes = processes_read_recorded(replay->processes, bytes, length);
    if (part == PART_ORIGINS)
        take_origins(replay, bytes, length);
    if (part == PART_WORDS)
        snprintf(replay->ended, sizeof(replay->ended), "%.*s",
                 (int)(length < ERROR_TEXT ? length : ERROR_TEXT - 1), (const char *)bytes);
    return NULL; /* unknown parts of later versions are skipped */
}

static const char *apply_chunk(struct replay *replay, const struct place *place)
{
    unsigned char *raw;
    const char *problem = unpack(replay, place, &raw);
    struct input input = {.at = raw, .end = problem == NULL ? raw + place->chunk.raw : raw};
    bool first = replay->next == 0;

    replay->ended[0] = '\0';
    while (problem == NULL && input.at < input.end)
        problem = take_part(replay, &input);
    free(raw);
    if (problem != NULL || place->chunk.kind == RECORDING_ENDED)
        return problem;
    if (replay->image == NULL)
        return "the first chunk is missing";
    if (!replay->attached) { /* another segment, or its header changed: check it again */
        problem = segment_attach_copy(&replay->reader, replay->image, replay->image_size);
        if (problem != NULL)
            return problem;
        replay->attached = true;
    }
    replay->new_daemon = first || replay->generation != replay->reader.map.header.generation;
    replay->generation = replay->reader.map.header.generation;
    return NULL;
}

enum replay_step replay_next(struct replay *replay, uint64_t until_ns)
{
    const struct place *place = &replay->places[replay->next];
    const char *problem;

    replay->new_daemon = false;
    if (replay->next == replay->count ||
        place->chunk.time_ns - replay->places[0].chunk.time_ns > until_ns)
        return REPLAY_WAITS;
    problem = apply_chunk(replay, place);
    if (problem != NULL) {
        snprintf(replay->error, sizeof(replay->error),
                 "the recording is damaged at byte %" PRIu64 ": %s", place->offset, problem);
        replay->count = replay->next;
        return REPLAY_BROKEN;
    }
    replay->next++;
    return REPLAY_STEPPED;
}

void replay_rewind(struct replay *replay)
{
    replay->next = 0;
    replay->has_processes = false;
}

static const struct recording_chunk *current_chunk(const struct replay *replay)
{
    return &replay->places[replay->next > 0 ? replay->next - 1 : 0].chunk;
}

uint64_t replay_at_ns(const struct replay *replay)
{
    return current_chunk(replay)->time_ns - replay->places[0].chunk.time_ns;
}

uint64_t replay_now_ns(const struct replay *replay)
{
    return current_chunk(replay)->time_ns;
}

uint64_t replay_wall_ns(const struct replay *replay)
{
    return current_chunk(replay)->wall_ns;
}

uint64_t replay_length_ns(const struct replay *replay)
{
    return replay->count == 0
               ? 0
               : replay->places[replay->count - 1].chunk.time_ns - replay->places[0].chunk.time_ns;
}

const char *replay_error(const struct replay *replay)
{
    return replay->error[0] != '\0' ? replay->error : NULL;
}

const struct segment_reader *replay_reader(const struct replay *replay)
{
    return replay->attached ? &replay->reader : NULL;
}

bool replay_new_daemon(const struct replay *replay)
{
    return replay->new_daemon;
}

const char *replay_ended(const struct replay *replay)
{
    return replay->ended[0] != '\0' ? replay->ended : NULL;
}

const char *replay_origins(const struct replay *replay)
{
    return replay->origins != NULL ? replay->origins : "";
}

const struct marks *replay_notes(const struct replay *replay)
{
    return &replay->notes;
}

const struct process_table *replay_processes(const struct replay *replay)
{
    return replay->has_processes ? replay->processes : NULL;
}
