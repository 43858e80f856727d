/* SPDX-License-Identifier: MIT */
/* nearest.c - compares a misspelled word with names. */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/cli.h"

#define NAME_MAX_BYTES 64
#define PREFIX_LEAST 3 /* a shorter beginning of a name does not stand for the name */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool differ(char a, char b) {
    return tolower((unsigned char)a) != tolower((unsigned char)b);
}

/* Returns how many letters of `a` must be added, removed, changed or exchanged with the next one to
 * get `b`, if upper and lower case count as equal; SIZE_MAX: a name is too long. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][NAME_MAX_BYTES + 1], length = strlen(b), i = 0;
    if (strlen(a) >= NAME_MAX_BYTES || length >= NAME_MAX_BYTES)
        return SIZE_MAX;
    for (size_t k = 0; k <= length; k++)
        rows[0][k] = k;
    for (; a[i] != '\0'; i++) {
        const size_t *last = rows[i % 3];
        size_t *row = rows[(i + 1) % 3];
        row[0] = i + 1;
        for (size_t k = 0; k < length; k++) {
            row[k + 1] = smaller(smaller(last[k + 1], row[k]) + 1, last[k] + differ(a[i], b[k]));
            if (i > 0 && k > 0 && !differ(a[i], b[k - 1]) && !differ(a[i - 1], b[k]))
                row[k + 1] = smaller(row[k + 1], rows[(i + 2) % 3][k - 1] + 1);
        }
    }
    return rows[i % 3][length];
}

struct nearest nearest_begin(const char *word) {
    /* the longer the word, the more mistakes may be in it */
    return (struct nearest){.word = word, .distance = 1 + (strlen(word) + 2) / 4};
}

void nearest_offer(struct nearest *nearest, const char *name) {
    if (name[0] == '\0') /* a process may have such a name */
        return;
    size_t length = strlen(nearest->word), far = distance(nearest->word, name);
    if (length >= PREFIX_LEAST && strncasecmp(nearest->word, name, length) == 0)
        far = smaller(far, 1);
    if (far < nearest->distance) {
        nearest->distance = far;
        nearest->name = name;
    }
}

const char *nearest_text(const struct nearest *nearest, const char *before, const char *otherwise) {
    return nearest->name ? cli_format("; did you mean %s%s?", before, nearest->name) : otherwise;
}
