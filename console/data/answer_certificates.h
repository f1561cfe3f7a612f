/* The answers to the commands certificates and acme as text. Any thread. */
#ifndef CONSOLE_ANSWER_CERTIFICATES_H
#define CONSOLE_ANSWER_CERTIFICATES_H

#include <jansson.h>
#include <stdio.h>

/* Each prints ANSWER, whose texts are escaped already; members may be missing or of another type. COMMAND is not used. */
void answer_print_certificates(const char *command, const json_t *answer, FILE *out);
void answer_print_acme(const char *command, const json_t *answer, FILE *out);

#endif
