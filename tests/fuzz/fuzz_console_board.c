/* What the console and its recorder read from the board of another program. */
#define IMAGE_OF_BOARD
/* NOLINTNEXTLINE(bugprone-suspicious-include): the same reads */
#include "tests/fuzz/fuzz_console_segment.c"
