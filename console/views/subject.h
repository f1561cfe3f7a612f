/*
 * The view of one subject (a path, a client, a status, a thread ...), shown over the view that it
 * was opened from: rate over time, statuses, latency, the last requests. Single thread.
 */
#ifndef CONSOLE_VIEWS_SUBJECT_H
#define CONSOLE_VIEWS_SUBJECT_H

#include "console/scene/scene.h"

/* What the help says of it. Nothing else of a view is set. */
extern const struct view subject_view;

/* The keys of the subject that FILTER chooses, as view_hints. */
const struct view_hint *subject_hints(const struct filter *filter, const struct scene *scene);

/*
 * Draws scene->subject, which is not NULL; FILTER is what was chosen. SCROLL is that of the
 * requests.
 */
void subject_draw(struct scroll *scroll, const struct scene *scene, const struct filter *filter,
                  const struct canvas *canvas);

/*
 * Reads FILTER as terms of a subject (SUBJECT_TERMS places). Returns their number, or -1 with a
 * message in WHY.
 */
int subject_terms(const struct filter *filter, struct subject_term *terms, char *why, size_t size);

/*
 * Handles the keys that limit, block or release the client that FILTER names as a whole. Returns
 * false if it names none, or for other keys.
 */
bool subject_key(const struct scene *scene, const struct filter *filter, enum action action);

/*
 * The words of FILTER about the host, as far as there is room (SUBJECT_TERMS). Returns their
 * number.
 */
size_t subject_host_terms(const struct filter *filter, struct subject_term *terms);

#endif
