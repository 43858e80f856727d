/* SPDX-License-Identifier: MIT */
/*
 * visits.h - eight functions that call each other at random, so that nearly every allocation has a
 * new call path. The innermost call allocates at one of four sites.
 */
#ifndef TABLES_VISITS_H
#define TABLES_VISITS_H

#include "books.h"

enum { VISIT_SITES = 4 };

struct walk { /* the state of one thread's recursion */
    uint64_t state;
    uint32_t bytes_least, bytes_spread, deepest;
    struct chunk *place; /* the chunk that the next allocation replaces */
    struct books *books;
    uint16_t phase;
};

static void visit(struct walk *walk, unsigned levels, uint64_t random);

/* Each site replaces the chunk in walk->place by a new one. */
#define VISIT_SITE(number)                                                                         \
    static FRAME void site_##number(struct walk *walk) {                                           \
        uint32_t bytes = walk->bytes_least + (uint32_t)(draw(&walk->state) % walk->bytes_spread);  \
        chunk_free(walk->books, walk->place);                                                      \
        walk->place->pointer = malloc(bytes);                                                      \
        walk->place->bytes = bytes;                                                                \
        walk->place->phase = walk->phase;                                                          \
        walk->place->site = number;                                                                \
        book_made(walk->books, walk->place);                                                       \
        *(volatile char *)walk->place->pointer = number;                                           \
    }
VISIT_SITE(0)
VISIT_SITE(1)
VISIT_SITE(2)
VISIT_SITE(3)

static void (*const visit_sites[VISIT_SITES])(struct walk *) = {site_0, site_1, site_2, site_3};

/* Each function has a frame of its own size and two places where it calls the next one. */
#define VISIT(number, words)                                                                       \
    static FRAME void visit_##number(struct walk *walk, unsigned levels) {                         \
        volatile uint64_t room[words];                                                             \
        uint64_t random = draw(&walk->state);                                                      \
        room[0] = random;                                                                          \
        if (levels == 0)                                                                           \
            visit_sites[random % VISIT_SITES](walk);                                               \
        else if (room[0] & 1)                                                                      \
            visit(walk, levels - 1, random >> 40);                                                 \
        else                                                                                       \
            visit(walk, levels - 1, random >> 50);                                                 \
        room[words - 1] = levels;                                                                  \
    }
VISIT(0, 2)
VISIT(1, 4)
VISIT(2, 6)
VISIT(3, 8)
VISIT(4, 10)
VISIT(5, 3)
VISIT(6, 5)
VISIT(7, 12)

static void (*const visits[])(struct walk *, unsigned) = {visit_0, visit_1, visit_2, visit_3,
                                                          visit_4, visit_5, visit_6, visit_7};

static __attribute__((always_inline)) inline void visit(struct walk *walk, unsigned levels,
                                                        uint64_t random) {
    visits[random % 8](walk, levels);
}

/* Makes one allocation, 5 to `deepest` calls deep. */
static __attribute__((always_inline)) inline void walk_once(struct walk *walk, struct chunk *place,
                                                            unsigned phase) {
    uint64_t random = draw(&walk->state);
    walk->place = place;
    walk->phase = (uint16_t)phase;
    visit(walk, 5 + (unsigned)(random >> 20) % (walk->deepest - 4), random >> 30);
}

static inline void visits_name_sites(void) {
    site_names[0] = "site_0";
    site_names[1] = "site_1";
    site_names[2] = "site_2";
    site_names[3] = "site_3";
}

#endif
