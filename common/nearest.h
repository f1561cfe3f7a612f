/* "Did you mean": the known word that is nearest to one that was typed. Pure; any thread. */
#ifndef COMMON_NEAREST_H
#define COMMON_NEAREST_H

#include <stddef.h>

/*
 * Returns the word of WORDS (COUNT of them) with the smallest edit distance to TYPED (insertions,
 * deletions, replacements, swaps of neighbours; letter case ignored), or NULL when even that one
 * differs in more than a third of its letters (at least one difference is always forgiven).
 */
const char *nearest_word(const char *typed, const char *const *words, size_t count);

#endif
