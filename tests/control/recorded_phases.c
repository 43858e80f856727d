/* SPDX-License-Identifier: MIT */
/*
 * recorded_phases.c - for recordings: the paths that hold the memory change. For "phase" and a
 * digit from 0 to 3 on stdin it frees the chunks of the phase before, and in two seconds allocates
 * 512 larger ones, each on a path of its own below phase_DIGIT. For "paths" it allocates and frees
 * a chunk on each of 32768 paths. It answers "done". The end of stdin ends it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNKS 512

typedef void *step(unsigned path, unsigned levels, size_t bytes);

/* Eight functions of a level; each calls one of the next level, or malloc. */
#define STEP(level, number, next)                                                                  \
    __attribute__((noinline)) static void *step_##level##_##number(unsigned path, unsigned levels, \
                                                                   size_t bytes) {                 \
        void *chunk = levels ? next[path % 8](path / 8, levels - 1, bytes) : malloc(bytes);        \
        __asm__ volatile("# " #level #number : : : "memory");                                      \
        return chunk;                                                                              \
    }
#define LEVEL(level, next)                                                                         \
    STEP(level, 0, next)                                                                           \
    STEP(level, 1, next)                                                                           \
    STEP(level, 2, next)                                                                           \
    STEP(level, 3, next)                                                                           \
    STEP(level, 4, next)                                                                           \
    STEP(level, 5, next)                                                                           \
    STEP(level, 6, next)                                                                           \
    STEP(level, 7, next)                                                                           \
    static step *const level_##level[] = {step_##level##_0, step_##level##_1, step_##level##_2,    \
                                          step_##level##_3, step_##level##_4, step_##level##_5,    \
                                          step_##level##_6, step_##level##_7};

static step *const *const none = NULL;
LEVEL(5, none)
LEVEL(4, level_5)
LEVEL(3, level_4)
LEVEL(2, level_3)
LEVEL(1, level_2)

#define PHASE(number)                                                                              \
    __attribute__((noinline)) static void *phase_##number(unsigned path, unsigned levels,          \
                                                          size_t bytes) {                          \
        void *chunk = level_1[path % 8](path / 8, levels, bytes);                                  \
        __asm__ volatile("# phase " #number : : : "memory");                                       \
        return chunk;                                                                              \
    }
PHASE(0)
PHASE(1)
PHASE(2)
PHASE(3)

static step *const phases[] = {phase_0, phase_1, phase_2, phase_3};
static void *kept[CHUNKS];
static size_t bytes = 16 << 10;

static void begin_phase(unsigned number) {
    for (unsigned i = 0; i < CHUNKS; i++)
        free(kept[i]);
    bytes += bytes / 2;
    for (unsigned i = 0; i < CHUNKS; i++) {
        kept[i] = phases[number](i, 2, bytes);
        memset(kept[i], 1, bytes);
        usleep(4000);
    }
}

int main(void) {
    char line[100];
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready %d\n", (int)getpid());
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "phase", 5))
            begin_phase((unsigned)(line[6] - '0') % 4);
        for (unsigned i = 0; line[1] == 'a' && i < 32768; i++)
            free(level_1[i % 8](i / 8, 4, 32));
        puts("done");
    }
    return 0;
}
