#include "scratch.h"

#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void scratch_make(char *path)
{
    const char *base = getenv("TMPDIR");

    snprintf(path, SCRATCH_PATH_MAX, "%s/webserverd-test-XXXXXX", base != NULL ? base : P_tmpdir);
    if (mkdtemp(path) == NULL)
        fail_msg("cannot make %s: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void scratch_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void scratch_make_directories(const char *path)
{
    char directory[SCRATCH_PATH_MAX];
    char *slash;

    snprintf(directory, sizeof(directory), "%s", path);
    for (slash = strchr(directory + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(directory, 0755) != 0 && errno != EEXIST)
            fail_msg("cannot make %s: %s", directory, strerror(errno));
        *slash = '/';
    }
}

void scratch_write(const char *path, const void *bytes, size_t length)
{
    char beside[SCRATCH_PATH_MAX + 8];
    FILE *file;

    scratch_make_directories(path);
    snprintf(beside, sizeof(beside), "%s.new", path);
    file = fopen(beside, "w");
    if (file == NULL)
        fail_msg("cannot write %s: %s", beside, strerror(errno));
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(beside, path), 0);
}

char *scratch_read(const char *path, size_t *length)
{
    char *bytes = NULL;
    FILE *memory = open_memstream(&bytes, length);
    FILE *file = fopen(path, "r");
    char part[65536];
    size_t got;

    assert_non_null(memory);
    while (file != NULL && (got = fread(part, 1, sizeof(part), file)) > 0)
        fwrite(part, 1, got, memory);
    if (file != NULL)
        fclose(file);
    assert_int_equal(fclose(memory), 0);
    return bytes;
}

/* True if a page of the file is in the page cache. */
static bool is_in_memory(int fd, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = (size + page - 1) / page;
    unsigned char *resident = malloc(count);
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    bool found = false;

    assert_non_null(resident);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    assert_int_equal(mincore(mapped, size, resident), 0);
    for (size_t i = 0; i < count; i++)
        found = found || (resident[i] & 1) != 0;
    munmap(mapped, size);
    free(resident);
    return found;
}

bool scratch_make_cold(const char *path)
{
    char byte;
    struct iovec vector = {&byte, 1};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool shows, cold; /* preadv2() shows what is in memory */

    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(fstat(fd, &status), 0);
    shows = preadv2(fd, &vector, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    cold = shows && !is_in_memory(fd, (size_t)status.st_size);
    close(fd);
    return cold;
}

size_t scratch_count(const char *path, const char *prefix)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    size_t count = 0;

    while (directory != NULL && (entry = readdir(directory)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (directory != NULL)
        closedir(directory);
    return count;
}
