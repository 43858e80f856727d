/* SPDX-License-Identifier: MIT */
/* nearest.h - finds the name that a misspelled word may mean, for "did you mean". */
#ifndef MEMCTX_NEAREST_H
#define MEMCTX_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *word;
    const char *name; /* NULL: no name is near enough */
    size_t distance;
};

struct nearest nearest_begin(const char *word);
/* Offers a name. The nearest one is kept; of two at the same distance the first one. */
void nearest_offer(struct nearest *nearest, const char *name);
/* Returns "; did you mean NAME?" with `before` in front of NAME; if no name is near, returns
 * `otherwise`. */
const char *nearest_text(const struct nearest *nearest, const char *before, const char *otherwise);

#endif
