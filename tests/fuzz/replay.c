/*
 * Runs a fuzz driver without libFuzzer: each input of a corpus once and then, with --mutate MILLISECONDS,
 * altered inputs for that much CPU time. An argument is a file or a directory. It is an error if
 * there is no input. An altered input that fails is saved in the working directory.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INPUTS_MAX = 4096, MUTANT_BYTES_MAX = 64 * 1024, MUTANT_SECONDS_MAX = 30 };

struct input {
    uint8_t *data; /* exactly SIZE bytes, so that a sanitizer detects a read past their end */
    size_t size;
};

static struct input inputs[INPUTS_MAX];
static size_t input_count;

/* Shared by the process that runs it and its parent. */
struct mutant {
    uint64_t number;
    size_t size;
    uint8_t data[MUTANT_BYTES_MAX];
};

static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    int result = -1;

    if (input_count < INPUTS_MAX && file != NULL && data != NULL &&
        fread(data, 1, size, file) == size)
        result = LLVMFuzzerTestOneInput(data, size);
    if (result != 0)
        fprintf(stderr, "%s: %s\n", path, errno != 0 ? strerror(errno) : "not a usable input");
    else
        inputs[input_count++] = (struct input){data, size};
    if (file != NULL)
        fclose(file);
    return result;
}

static int replay(const char *path);

static int replay_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    char inner[PATH_MAX];
    int result = 0;

    if (directory == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    while (result == 0 && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name) < (int)sizeof(inner))
            result = replay(inner);
    }
    closedir(directory);
    return result;
}

static int replay(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    return S_ISDIR(status.st_mode) ? replay_directory(path)
                                   : replay_file(path, (size_t)status.st_size);
}

/* A number below LIMIT; 0 if that is 0. */
static size_t pick(size_t limit)
{
    return limit == 0 ? 0 : (size_t)random() % limit;
}

/* Replaces OLD bytes from AT by the NEW bytes of DATA, as far as there is room. */
static void splice(struct mutant *mutant, size_t at, size_t old, const uint8_t *data, size_t new)
{
    size_t rest = mutant->size - at - old;

    if (new > sizeof(mutant->data) - at - rest)
        new = sizeof(mutant->data) - at - rest;
    memmove(mutant->data + at + new, mutant->data + at + old, rest);
    memcpy(mutant->data + at, data, new);
    mutant->size = at + new + rest;
}

static void alter(struct mutant *mutant)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '\r', '\n', ' ', '"', '%', ',', ':'};
    const struct input *other = &inputs[pick(input_count)];
    size_t at = pick(mutant->size), length = pick(mutant->size - at + 1);
    size_t from = pick(other->size), bytes = pick(other->size - from + 1);
    uint8_t *byte = &mutant->data[at];

    switch (pick(5)) {
    case 0:
        *byte = (uint8_t)(*byte ^ 1 << pick(8));
        break;
    case 1:
        *byte = edges[pick(sizeof(edges))];
        break;
    case 2: /* a part of another input, in between or instead */
        splice(mutant, at, pick(2) * length, other->data + from, bytes);
        break;
    case 3:
        splice(mutant, at, length, other->data, 0);
        break;
    default:
        for (size_t i = 0; i < sizeof(uint64_t) && at + i < mutant->size; i++)
            byte[i] = (uint8_t)random();
    }
}

/* From the inputs of the corpus. */
static void make_mutant(struct mutant *mutant)
{
    const struct input *input = &inputs[pick(input_count)];

    mutant->number++;
    mutant->size = 0;
    splice(mutant, 0, 0, input->data, input->size);
    for (size_t i = 1 + pick(4); i > 0; i--)
        alter(mutant);
}

static void run_mutants(struct mutant *mutant, long milliseconds)
{
    do {
        uint8_t *data;

        make_mutant(mutant);
        data = malloc(mutant->size > 0 ? mutant->size : 1);
        MUST(data != NULL);
        memcpy(data, mutant->data, mutant->size);
        alarm(MUTANT_SECONDS_MAX);
        LLVMFuzzerTestOneInput(data, mutant->size);
        free(data);
    } while (clock() < milliseconds * CLOCKS_PER_SEC / 1000);
    printf("%llu altered inputs\n", (unsigned long long)mutant->number);
}

static int save_mutant(const struct mutant *mutant)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s-%d", program_invocation_short_name, (int)getpid());
    file = fopen(path, "wb");
    if (file == NULL || fwrite(mutant->data, 1, mutant->size, file) != mutant->size ||
        fclose(file) != 0)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    fprintf(stderr, "altered input %llu failed; it is in the file %s\n",
            (unsigned long long)mutant->number, path);
    return 1;
}

static int replay_all(char **paths)
{
    for (; *paths != NULL; paths++)
        if (replay(*paths) != 0)
            return 1;
    if (input_count == 0) {
        fprintf(stderr, "usage: %s [--mutate MILLISECONDS] FILE|DIRECTORY...   (no input found)\n",
                program_invocation_short_name);
        return 1;
    }
    printf("%zu inputs replayed\n", input_count);
    return 0;
}

/* In a process of its own, whose end leaves the altered input. */
static int mutate(long milliseconds, char **paths)
{
    struct mutant *mutant =
        mmap(NULL, sizeof(*mutant), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child;

    MUST(mutant != MAP_FAILED);
    srandom((unsigned)time(NULL));
    child = fork();
    if (child == 0) {
        if (replay_all(paths) != 0)
            exit(1);
        run_mutants(mutant, milliseconds);
        exit(0);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    if (status == 0)
        return 0;
    return mutant->number > 0 ? save_mutant(mutant) : 1;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--mutate") == 0)
        return mutate(strtol(argv[2], NULL, 10), argv + 3);
    return replay_all(argv + 1);
}
