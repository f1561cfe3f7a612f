/*
 * What was first said about errors of the kinds whose name alone tells too little: why a certificate
 * was refused, which limit of this machine was met. One writer; others read when it is done.
 */
#ifndef LOADGEN_ERROR_TEXTS_H
#define LOADGEN_ERROR_TEXTS_H

#include "loadgen/stats/tally.h"

enum { ERROR_TEXT = 256 }; /* bytes */

struct error_texts {
    char first[ERROR_KIND_COUNT][ERROR_TEXT]; /* "": nothing was said */
};

/* Keeps TEXT for KIND, which may be ERROR_KIND_NONE, if it is the first one and tells something. */
void error_texts_note(struct error_texts *texts, enum error_kind kind, const char *text);

/* Takes from FROM what INTO has not. */
void error_texts_add(struct error_texts *into, const struct error_texts *from);

#endif
