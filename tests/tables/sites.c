/* SPDX-License-Identifier: MIT */
/*
 * sites - calls each function of generated code `calls` times; each function has its own call of
 * malloc, or of single_site, as the suite generated it. Prints WORST_NS, the mean processor time of
 * a call in the slowest tenth of all calls.
 */
#include "books.h"

/* The suite generates the file that defines these. */
extern void *(*const generated_sites[])(void);
extern const uint64_t generated_count;

static struct books books;
static uint64_t calls = 1;

extern void *single_site(size_t bytes);
FRAME void *single_site(size_t bytes) {
    void *volatile chunk = malloc(bytes);
    return chunk;
}

static int64_t used_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static FRAME void call_all(void) {
    int64_t worst_ns = 0, begun = used_ns();
    uint64_t tenth = generated_count * calls / 10, done = 0;
    char line[64];
    for (uint64_t call = 0; call < calls; call++)
        for (uint64_t i = 0; i < generated_count; i++) {
            struct chunk chunk = {generated_sites[i](), (uint32_t)(16 + i % 100), 0, 0};
            book_made(&books, &chunk);
            if (++done % tenth != 0)
                continue;
            int64_t now = used_ns();
            worst_ns = now - begun > worst_ns ? now - begun : worst_ns;
            begun = now;
        }
    snprintf(line, sizeof line, "WORST_NS %ld\n", (long)(worst_ns / (int64_t)tenth));
    say(line);
}

int main(int argc, char **argv) {
    char answer[64];
    if (argc > 1 && !option(argv[1], "calls", &calls))
        die("no such option");
    phase_names[0] = "call_all";
    site_names[0] = "generated";
    if (!stand(&books, answer, sizeof answer))
        return 0;
    call_all();
    stand(&books, answer, sizeof answer);
    return 0;
}
