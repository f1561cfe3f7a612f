/*
 * The part of its tests that a program runs: TEST_PART=2/5 selects every fifth test, from the second
 * on; TEST_NAME=NAME selects one.
 */
#ifndef TESTS_PART_H
#define TESTS_PART_H

#include "tests/test.h"

/* True if the part has test NUMBER, from 0 on. The program exits if TEST_PART is invalid. */
bool part_has(size_t number);

/* Moves the selected tests to the front. Returns their number. Prepares the process for them. */
size_t part_select(struct CMUnitTest *tests, size_t count);

#endif
