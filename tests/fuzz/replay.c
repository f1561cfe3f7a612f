/*
 * Runs a fuzz driver over a corpus without libFuzzer. Each argument is a file or a directory. It is
 * an error if there is no input.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* The allocation has exactly the file's size, so that a sanitizer detects a read past its end. */
static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    int result = -1;

    if (file != NULL && data != NULL && fread(data, 1, size, file) == size)
        result = LLVMFuzzerTestOneInput(data, size);
    if (result != 0)
        fprintf(stderr, "%s: %s\n", path, errno != 0 ? strerror(errno) : "not a usable input");
    free(data);
    if (file != NULL)
        fclose(file);
    return result;
}

static int replay(const char *path, int *count);

static int replay_directory(const char *path, int *count)
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
            result = replay(inner, count);
    }
    closedir(directory);
    return result;
}

static int replay(const char *path, int *count)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (S_ISDIR(status.st_mode))
        return replay_directory(path, count);
    (*count)++;
    return replay_file(path, (size_t)status.st_size);
}

int main(int argc, char **argv)
{
    int count = 0;

    for (int i = 1; i < argc; i++)
        if (replay(argv[i], &count) != 0)
            return 1;
    if (count == 0) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...   (no input found)\n", argv[0]);
        return 1;
    }
    printf("%d inputs replayed\n", count);
    return 0;
}
