/* The part of its tests that a program runs (TEST_PART). */
#ifndef TESTS_PART_H
#define TESTS_PART_H

#include <stdbool.h>
#include <stddef.h>

/* True if the part has test NUMBER, from 0 on. The program exits if TEST_PART is invalid. */
bool part_has(size_t number);

#endif
