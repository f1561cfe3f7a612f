/*
 * The transcript of a run's first connection and request (--verbose), as "curl -v" prints it: "*"
 * before libcurl's messages, ">" before the request, "<" before the response head; no bodies.
 * Written by one client thread; others may read once that thread has ended.
 */
#ifndef LOADGEN_CONVERSATION_H
#define LOADGEN_CONVERSATION_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TRANSCRIPT_BYTES = 16 * 1024 }; /* further lines are dropped */

struct transcript {
    size_t length;
    bool ended;
    char text[TRANSCRIPT_BYTES];
};

/* Makes EASY log into the transcript. Returns false if libcurl rejects it. */
bool transcript_attach(struct transcript *transcript, CURL *easy);

/* The first request has ended: EASY stops logging. */
void transcript_end(struct transcript *transcript, CURL *easy);

/* Adds the message head that LENGTH bytes begin with, each line prefixed with MARK. */
void transcript_add_head(struct transcript *transcript, char mark, const char *bytes,
                         size_t length);

void transcript_write(const struct transcript *transcript, FILE *out);

/* Adds the line "NAME: VALUE" of a head; nothing to a TRANSCRIPT that is NULL. */
void transcript_add_field(struct transcript *transcript, char mark, const uint8_t *name,
                          size_t name_length, const uint8_t *value, size_t value_length);

#endif
