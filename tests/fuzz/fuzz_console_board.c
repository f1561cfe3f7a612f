/* What the console and its recorder read from the board of another program. */
#define IMAGE_OF_BOARD
#include "tests/fuzz/fuzz_console_segment.c"
