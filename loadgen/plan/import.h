/* The parts that the readers of descriptions in JSON share: HAR recordings, OpenAPI. Main thread. */
#ifndef LOADGEN_IMPORT_H
#define LOADGEN_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <curl/curl.h>
#include <jansson.h>

/*
 * Reads FILE, which may begin with a byte order mark. WHAT it is, such as "a HAR recording", is part of WHY. Returns
 * NULL with WHY. Release with json_decref().
 */
json_t *import_read(const char *file, const char *what, char *why, size_t size);

/* The member NAME of OBJECT; NULL if it is not a string or contains NUL. */
const char *import_string(const json_t *object, const char *name);

/* Whether NAME is a header field that depends on the connection or that wsload sets, or a pseudo-field of HTTP/2. */
bool import_is_of_connection(const char *name);

/* Appends the header field NAME: VALUE. Returns false if out of memory. */
bool import_append_field(struct curl_slist **fields, const char *name, const char *value);

/*
 * Appends Content-Type: TYPE unless FIELDS has that field, or TYPE is NULL, empty or invalid. Returns false if out of
 * memory.
 */
bool import_append_content_type(struct curl_slist **fields, const char *type);

#endif
