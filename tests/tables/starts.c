/* SPDX-License-Identifier: MIT */
/*
 * starts - a program whose start fills the tables, and which then repeats a few other paths.
 *
 * All paths have three functions below main, so their nodes are near the root. The start allocates
 * once on each of 60 000 paths, and a quarter of these chunks stay alive. Then the program
 * allocates and frees on 1 500 other paths, one after the other, again and again. The program
 * stands still before the start, after it, and at the end. Option: rounds=N.
 */
#include "books.h"

enum { OUTER = 64, MIDDLE = 64, INNER = 64, STARTED = 60000, REPEATED = 1500 };

static uint64_t rounds = 2500;
static void *alive[STARTED];
static void *last;

#define EIGHT(each, tens)                                                                          \
    each(tens##0) each(tens##1) each(tens##2) each(tens##3) each(tens##4) each(tens##5)            \
        each(tens##6) each(tens##7)
#define SIXTY_FOUR(each)                                                                           \
    EIGHT(each, 0)                                                                                 \
    EIGHT(each, 1)                                                                                 \
    EIGHT(each, 2) EIGHT(each, 3) EIGHT(each, 4) EIGHT(each, 5) EIGHT(each, 6) EIGHT(each, 7)

#define INNER_FUNCTION(number)                                                                     \
    static FRAME void inner_##number(void) {                                                       \
        last = malloc(40);                                                                         \
        __asm__ volatile("# inner" #number);                                                       \
    }
#define INNER_NAME(number) inner_##number,
SIXTY_FOUR(INNER_FUNCTION)
static void (*const inner[])(void) = {SIXTY_FOUR(INNER_NAME)};

#define MIDDLE_FUNCTION(number)                                                                    \
    static FRAME void middle_##number(unsigned path) {                                             \
        inner[path % INNER]();                                                                     \
        __asm__ volatile("# middle" #number);                                                      \
    }
#define MIDDLE_NAME(number) middle_##number,
SIXTY_FOUR(MIDDLE_FUNCTION)
static void (*const middle[])(unsigned) = {SIXTY_FOUR(MIDDLE_NAME)};

#define OUTER_FUNCTION(number)                                                                     \
    static FRAME void start_##number(unsigned path) {                                              \
        middle[path % MIDDLE](path / MIDDLE);                                                      \
        __asm__ volatile("# start" #number);                                                       \
    }                                                                                              \
    static FRAME void again_##number(unsigned path) {                                              \
        middle[path % MIDDLE](path / MIDDLE);                                                      \
        __asm__ volatile("# again" #number);                                                       \
    }
#define START_NAME(number) start_##number,
#define AGAIN_NAME(number) again_##number,
SIXTY_FOUR(OUTER_FUNCTION)
static void (*const start[])(unsigned) = {SIXTY_FOUR(START_NAME)};
static void (*const again[])(unsigned) = {SIXTY_FOUR(AGAIN_NAME)};

static void pause_here(void) {
    static struct books none;
    char answer[64];
    if (!stand(&none, answer, sizeof answer))
        exit(0);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!option(argv[i], "rounds", &rounds))
            die("no such option");
    pause_here();
    for (unsigned i = 0; i < STARTED; i++) {
        start[i % OUTER](i / OUTER % MIDDLE + (i / 4096 + i * 7) % INNER * MIDDLE);
        alive[i] = last;
    }
    for (unsigned i = 0; i < STARTED; i++)
        if (i * 2654435761U >> 16 & 3) {
            free(alive[i]);
            alive[i] = NULL;
        }
    pause_here();
    for (uint64_t round = 0; round < rounds; round++)
        for (unsigned i = 0; i < REPEATED; i++) {
            again[i % OUTER](i * 2741 % (MIDDLE * INNER));
            free(last);
        }
    pause_here();
    return 0;
}
