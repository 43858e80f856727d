/* SPDX-License-Identifier: MIT */
/*
 * recursion - very many call paths of a recursion, and a few paths that the tables must not lose.
 *
 * main calls the random recursion of visits.h through three functions, the phases. Options,
 * NAME=NUMBER:
 *   allocs         allocations of the recursion
 *   stands         how often the program stands still, in equal intervals
 *   slots          live chunks           least, spread  their sizes
 *   deepest        the most calls that the recursion makes
 *   seed
 *   late-phase=1   phase_c begins after two thirds of all allocations, and makes half of the rest
 *   paths=1        four paths of twelve functions each, which must not be lost:
 *                    often_12   makes one of 500 allocations
 *                    once_12    makes one chunk, after half of all allocations, of 1/200 of the
 *                               live bytes
 *                    late_12    begins after two thirds and soon holds 1/100, in chunks of 64 bytes
 *                    slowly_12  begins after a third, holds 1/100 at the end, in chunks of 64 bytes
 *   ruled=1        a path of twelve functions, one allocation in 20 000, after the first sixth
 *   signals=1      a handler that allocates, every two milliseconds
 * The suite answers a STAND with "go"; with "drain N" (the program frees all chunks but N and
 * stands again); or with "fork" (a child goes on with all chunks and the parent waits for it).
 */
#include "signals.h"
#include "visits.h"

#include <sys/wait.h>

enum { SLOTS_MAX = 1 << 23, SMALL_BYTES = 64, KEPT_MAX = 1 << 16, OFTEN_MAX = 1 << 12 };
enum { PHASE_A, PHASE_B, PHASE_C, OFTEN, ONCE, LATE, SLOWLY, RULED, HANDLER };
enum { SITE_OFTEN = VISIT_SITES, SITE_ONCE, SITE_LATE, SITE_SLOWLY, SITE_RULED, SITE_HANDLER };

static struct settings {
    uint64_t allocs, stands, slots, least, spread, deepest, seed, late_phase, paths, ruled, signals;
} settings = {.allocs = 1000000,
              .stands = 1,
              .slots = 1 << 15,
              .least = 16,
              .spread = 129,
              .deepest = 40,
              .seed = 1};

static struct books books;
static struct chunk slots[SLOTS_MAX];
static struct chunk often[OFTEN_MAX], kept[KEPT_MAX];
static unsigned kept_count;
static struct walk walk;
static uint64_t done;
static bool fork_wanted;

static FRAME void phase_a(struct chunk *place) {
    walk_once(&walk, place, PHASE_A);
    __asm__ volatile("# a");
}
static FRAME void phase_b(struct chunk *place) {
    walk_once(&walk, place, PHASE_B);
    __asm__ volatile("# b");
}
static FRAME void phase_c(struct chunk *place) {
    walk_once(&walk, place, PHASE_C);
    __asm__ volatile("# c");
}

/* --- paths that must not be lost -------------------------------------------------------------- */

#define LINK(kind, this, next)                                                                     \
    static FRAME void kind##_##this(struct chunk * place, uint32_t bytes) {                        \
        kind##_##next(place, bytes);                                                               \
        __asm__ volatile("# " #kind #this);                                                        \
    }
#define DEEP_PATH(kind, phase_number, site_number)                                                 \
    static FRAME void kind##_12(struct chunk *place, uint32_t bytes) {                             \
        chunk_free(&books, place);                                                                 \
        *place = (struct chunk){malloc(bytes), bytes, phase_number, site_number};                  \
        book_made(&books, place);                                                                  \
    }                                                                                              \
    LINK(kind, 11, 12)                                                                             \
    LINK(kind, 10, 11)                                                                             \
    LINK(kind, 09, 10)                                                                             \
    LINK(kind, 08, 09)                                                                             \
    LINK(kind, 07, 08)                                                                             \
    LINK(kind, 06, 07)                                                                             \
    LINK(kind, 05, 06)                                                                             \
    LINK(kind, 04, 05)                                                                             \
    LINK(kind, 03, 04)                                                                             \
    LINK(kind, 02, 03)                                                                             \
    LINK(kind, 01, 02)

DEEP_PATH(often, OFTEN, SITE_OFTEN)
DEEP_PATH(once, ONCE, SITE_ONCE)
DEEP_PATH(late, LATE, SITE_LATE)
DEEP_PATH(slowly, SLOWLY, SITE_SLOWLY)
DEEP_PATH(ruled, RULED, SITE_RULED)

static struct chunk *fresh_place(void) {
    if (kept_count == KEPT_MAX)
        die("too many chunks to keep");
    return &kept[kept_count++];
}

/* Called before each allocation of the recursion. Allocates now and then on paths outside of the
 * recursion, which the dump must show. Inlined into main, so that these paths begin there. */
static __attribute__((always_inline)) inline void paths_that_matter(void) {
    uint64_t live = settings.slots * (settings.least + settings.spread / 2);
    uint64_t chunks = live / 100 / SMALL_BYTES;
    uint64_t third = settings.allocs / 3, interval = 2 * third / (chunks + 1);
    if (done % 500 == 0)
        often_01(&often[draw(&walk.state) % (1 + settings.slots / 500 % OFTEN_MAX)],
                 (uint32_t)(settings.least + settings.spread / 2));
    if (done == settings.allocs / 2)
        once_01(fresh_place(), (uint32_t)(live / 200));
    if (done >= 2 * third && done < 2 * third + chunks * 100 && done % 100 == 0)
        late_01(fresh_place(), SMALL_BYTES);
    if (done >= third && interval && (done - third) % interval == interval - 1)
        slowly_01(fresh_place(), SMALL_BYTES);
}

/* --- signals ---------------------------------------------------------------------------------- */

static FRAME void handler_site(struct chunk *place, uint32_t bytes) {
    chunk_free(&books, place);
    *place = (struct chunk){malloc(bytes), bytes, HANDLER, SITE_HANDLER};
    book_made(&books, place);
}

/* --- the program ------------------------------------------------------------------------------ */

static void drain(uint64_t keep) {
    for (uint64_t i = 0; i < settings.slots; i++)
        if (i % (settings.slots / keep) != 0)
            chunk_free(&books, &slots[i]);
}

static FRAME void fork_here(void) {
    int status = -1;
    pid_t child = fork();
    if (child < 0)
        die("no fork");
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child > 0 && status != 0)
        die("the child failed");
    __asm__ volatile("# fork");
}

/* Prints the program's own counts (books.h), and does what the suite answers. False: standard input
 * has ended. */
static bool stand_still(void) {
    char answer[64];
    if (settings.signals)
        start_signals(false);
    for (;;) {
        if (!stand(&books, answer, sizeof answer))
            return false;
        if (strncmp(answer, "drain ", 6) != 0)
            break;
        drain(strtoull(answer + 6, NULL, 10));
    }
    fork_wanted = strcmp(answer, "fork") == 0;
    if (settings.signals)
        start_signals(true);
    return true;
}

static void read_options(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        if (!option(argument, "allocs", &settings.allocs) &&
            !option(argument, "stands", &settings.stands) &&
            !option(argument, "slots", &settings.slots) &&
            !option(argument, "least", &settings.least) &&
            !option(argument, "spread", &settings.spread) &&
            !option(argument, "deepest", &settings.deepest) &&
            !option(argument, "seed", &settings.seed) &&
            !option(argument, "late-phase", &settings.late_phase) &&
            !option(argument, "paths", &settings.paths) &&
            !option(argument, "ruled", &settings.ruled) &&
            !option(argument, "signals", &settings.signals))
            die("no such option");
    }
    if (settings.slots > SLOTS_MAX)
        die("too many slots");
}

static void name_books(void) {
    static const char *const phases[] = {"phase_a", "phase_b",   "phase_c",  "often_01", "once_01",
                                         "late_01", "slowly_01", "ruled_01", "on_signal"};
    static const char *const sites[] = {"often_12",  "once_12",  "late_12",
                                        "slowly_12", "ruled_12", "handler_site"};
    visits_name_sites();
    memcpy(phase_names, phases, sizeof phases);
    memcpy(site_names + VISIT_SITES, sites, sizeof sites);
}

/* Returns the phase of the next allocation: each of the three equally often, unless late-phase is
 * set. */
static uint64_t draw_phase(void) {
    uint64_t random = draw(&walk.state) >> 24;
    if (!settings.late_phase)
        return random % 3;
    return done < settings.allocs / 3 * 2 || random & 4 ? random % 2 : PHASE_C;
}

int main(int argc, char **argv) {
    name_books();
    read_options(argc, argv);
    walk = (struct walk){.state = settings.seed * 0x9e3779b97f4a7c15U + 88172645463325252U,
                         .bytes_least = (uint32_t)settings.least,
                         .bytes_spread = (uint32_t)settings.spread,
                         .deepest = (uint32_t)settings.deepest,
                         .books = &books};
    if (!stand_still())
        return 0;
    for (; done < settings.allocs; done++) {
        struct chunk *place = &slots[draw(&walk.state) % settings.slots];
        if (settings.paths)
            paths_that_matter();
        if (settings.ruled && done % 20000 == 0 && done >= settings.allocs / 6)
            ruled_01(fresh_place(), SMALL_BYTES);
        if (fork_wanted) {
            fork_wanted = false;
            fork_here();
        }
        switch (draw_phase()) {
        case PHASE_A: phase_a(place); break;
        case PHASE_B: phase_b(place); break;
        default: phase_c(place);
        }
        if ((done + 1) % (settings.allocs / settings.stands) == 0 && !stand_still())
            return 0;
    }
    return 0;
}
