/*
 * What was said on a run's first connection until its first request ended, as "curl -v" shows it: the
 * lines of libcurl behind a star, the request behind ">", the answer's head behind "<". Bodies are left
 * out. One client thread writes; others read when it is done.
 */
#ifndef LOADGEN_CONVERSATION_H
#define LOADGEN_CONVERSATION_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CONVERSATION_BYTES = 16 * 1024 }; /* what comes behind is left out */

struct conversation {
    size_t length;
    bool over;
    char text[CONVERSATION_BYTES];
};

/* Makes EASY tell all that it does. False: libcurl would not. */
bool conversation_listen(struct conversation *conversation, CURL *easy);

/* The first request has ended: EASY goes on in silence. */
void conversation_end(struct conversation *conversation, CURL *easy);

/* Adds the head at the front of LENGTH bytes, each line behind MARK. */
void conversation_add_head(struct conversation *conversation, char mark, const char *bytes,
                           size_t length);

void conversation_write(const struct conversation *conversation, FILE *out);

#endif
