/*
 * Lists of members with weights, as the Accept fields have them (RFC 9110 sections 5.6.1 and 12.4.2).
 * Pure.
 */
#ifndef DAEMON_QVALUE_H
#define DAEMON_QVALUE_H

#include "common/span.h"

/* Cuts what lies before the first SEPARATOR off *TEXT, and returns it without blanks around it. */
struct span qvalue_cut(struct span *text, char separator);

/* A weight in thousandths: "0.123" is 123, "1" is 1000; -1: malformed. */
int qvalue_read(struct span text);

#endif
