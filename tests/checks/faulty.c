/*
 * Commits the fault named by its argument: one of each kind that tests/checks looks for, or "none".
 * The checks first run their tools on this program, so that a silent tool is noticed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    char bytes[40];
};

static int shared;          /* written by two threads without a lock */
static char *inner_pointer; /* points into a block, not to its start */

static void nothing(void)
{
}

static void definite(void)
{
    volatile char *lost = malloc(100);

    lost[0] = 1;
}

/* Losing the first node loses the second. */
static void indirect(void)
{
    struct node *volatile lost = malloc(sizeof(*lost));

    lost->next = malloc(sizeof(*lost));
}

static void possible(void)
{
    inner_pointer = (char *)malloc(100) + 10;
}

static void invalid(void)
{
    volatile char *block = malloc(10);
    volatile size_t behind = 10;

    block[behind] = 1;
    free((void *)block);
}

static void uninitialised(void)
{
    volatile int *block = malloc(sizeof(int));

    if (*block == 4711)
        puts("by chance");
    free((void *)block);
}

static void descriptor(void)
{
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        perror("/dev/null");
}

static void *add(void *argument)
{
    for (int i = 0; i < 1000; i++)
        *(volatile int *)argument += 1;
    return NULL;
}

static void race(void)
{
    pthread_t one, other;

    pthread_create(&one, NULL, add, &shared);
    pthread_create(&other, NULL, add, &shared);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
}

static const struct {
    const char *name;
    void (*commit)(void);
} faults[] = {{"none", nothing},          {"definite", definite}, {"indirect", indirect},
              {"possible", possible},     {"invalid", invalid},   {"uninitialised", uninitialised},
              {"descriptor", descriptor}, {"race", race}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(faults) / sizeof(faults[0]); i++)
        if (strcmp(argv[1], faults[i].name) == 0) {
            faults[i].commit();
            return 0;
        }
    fprintf(stderr, "usage: faulty FAULT\n");
    return 2;
}
