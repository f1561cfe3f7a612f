/*
 * What runs in a thread of its own in a process of the server after tests/chaos/injected.py has
 * written it there. It uses no library and no memory but its stack and its order. x86-64 only.
 */
#ifndef TESTS_BLOB_H
#define TESTS_BLOB_H

#include <stdint.h>

/* The numbers are those of injected.py. */
enum blob_attack {
    BLOB_OPEN, /* open the paths, reach the segment by descriptors and by mremap(); with SEED make a socket */
    BLOB_FORBIDDEN, /* the call number SEED, which must end the process */
    BLOB_STORE,     /* store the value of each item at its address, again and again */
    BLOB_SCRIBBLE,  /* store random words in the ranges of the items */
    BLOB_SEND, /* send the packets of the items over all descriptors, and count those with number SEED */
    BLOB_THREADS, /* start threads that sleep */
    BLOB_APPEND,  /* append copies of the bytes as records to the log rings of the items */
    BLOB_SAVE,    /* write the first SEED bytes to the first path, then send the packets once */
};

enum {
    BLOB_DESCRIPTORS = 64,
    BLOB_PIDS = 16,
    BLOB_PATHS = 32,
    BLOB_PATH_BYTES = 256,
    BLOB_ITEMS = 2048
};

/* Written by injected.py, byte for byte; then the report by the thread. */
struct blob_order {
    uint64_t attack, seed, end_ns, rounds, segment_inode, bytes_length;
    uint64_t fd_count, pid_count, path_count, item_count;
    int64_t fd[BLOB_DESCRIPTORS];
    int64_t pid[BLOB_PIDS];
    char path[BLOB_PATHS][BLOB_PATH_BYTES];
    struct {
        uint64_t at,
            value; /* an address and a word or a length; a packet: offset in BYTES, length */
    } item[BLOB_ITEMS];
    /* the report */
    volatile uint64_t ended, done, answers;
    volatile uint64_t
        breach; /* 0: none; else what must not succeed: the last word about it is DETAIL */
    volatile int64_t detail;
    unsigned char bytes[];
};

enum blob_breach {
    BREACH_OPENED = 1, /* detail: number of the path */
    BREACH_SEGMENT,    /* detail: descriptor of the segment */
    BREACH_MREMAP,     /* detail: result */
    BREACH_CALL,       /* detail: number of the call */
    BREACH_SOCKET,     /* detail: descriptor of a UNIX socket */
};

#endif
