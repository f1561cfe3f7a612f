/* Sealing files in memory. */
#include "daemon/base/memory_file.h"

#include "tests/test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

TEST(sealed_file_cannot_be_changed)
{
    int fd = memory_file_open("unit");
    char byte;

    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(write(fd, "text", 4), 4);
    assert_false(memory_file_is_sealed(fd));
    assert_int_equal(memory_file_seal(fd), 0);
    assert_true(memory_file_is_sealed(fd));
    assert_int_equal(pwrite(fd, "T", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 2), -1);
    assert_int_equal(ftruncate(fd, 8), -1);
    assert_int_equal(pread(fd, &byte, 1, 0), 1);
    assert_int_equal(byte, 't');
    close(fd);
}

/* A seal that is missing lets the sender change the file, or make it shorter, later. */
TEST(file_without_one_of_the_seals_is_not_sealed)
{
    static const int seals[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL};

    for (int missing = 0; missing < 4; missing++) {
        int fd = memory_file_open("unit");

        assert_true(fd >= 0);
        for (int i = 0; i < 4; i++)
            if (i != missing)
                assert_int_equal(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
        assert_false(memory_file_is_sealed(fd));
        close(fd);
    }
}

TEST(other_descriptor_is_not_sealed)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_false(memory_file_is_sealed(ends[0]));
    assert_false(memory_file_is_sealed(-1));
    assert_int_equal(memory_file_seal(ends[0]), -1);
    close(ends[0]);
    close(ends[1]);
}
