/* Numbers as text for people, with commas between groups of three digits. Pure. */
#ifndef LOADGEN_FORMAT_H
#define LOADGEN_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* 1234567 as "1,234,567". Returns BUFFER. */
char *format_integer(char *buffer, size_t size, uint64_t number);

/*
 * Three significant digits below 100, grouped digits above: "0.667", "45.2", "1,234". Returns
 * BUFFER.
 */
char *format_number(char *buffer, size_t size, double number);

#endif
