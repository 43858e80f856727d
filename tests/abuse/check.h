/* SPDX-License-Identifier: MIT */
/*
 * check.h - main() and checks of the abuse programs.
 *
 * A program is a table of named tests. `PROGRAM NAME` runs one test; if a check fails, it prints
 * the check on standard error and exits 1, else it exits 0. `PROGRAM` prints the names, one a line.
 * Each test has a process of its own, so a crash ends only one test. A test whose name begins with
 * '!' expects more than glibc 2.36 gives: the suite does not run it without memctx.
 */
#ifndef ABUSE_CHECK_H
#define ABUSE_CHECK_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check_test {
    const char *name;
    void (*run)(void);
};

/* Ends the test at the first failed check; later failures would only be its consequences. */
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold", __FILE__, __LINE__, #condition);            \
            fprintf(stderr, ": " __VA_ARGS__);                                                     \
            fputc('\n', stderr);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Returns `value`, which the compiler then does not know, so that it neither warns nor folds
 * constants. */
static inline size_t opaque(size_t value) {
    __asm__ volatile("" : "+r"(value));
    return value;
}

/* Returns `pointer`; the compiler then does not know that it was freed or is not from malloc. */
static inline void *opaque_pointer(void *pointer) {
    __asm__ volatile("" : "+r"(pointer));
    return pointer;
}

static inline uint64_t check_random(uint64_t *state) {
    uint64_t x = *state; /* xorshift64: state must not be 0 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* Returns the resident set of the process. */
static inline long rss_kib(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long total, resident = 0;
    CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2, "no statm");
    fclose(file);
    return resident * 4;
}

static inline int check_main(const struct check_test *tests, int argc, char **argv) {
    for (const struct check_test *test = tests; test->name; test++) {
        if (argc < 2)
            printf("%s\n", test->name);
        else if (strcmp(test->name + (test->name[0] == '!'), argv[1]) == 0) {
            test->run();
            return 0;
        }
    }
    if (argc < 2)
        return 0;
    fprintf(stderr, "%s: no test is named %s\n", argv[0], argv[1]);
    return 2;
}

/* CHECK_MAIN({"name", function}, ...) at the end of a program defines main() with these tests. */
#define CHECK_MAIN(...)                                                                            \
    int main(int argc, char **argv) {                                                              \
        static const struct check_test tests[] = {__VA_ARGS__, {NULL, NULL}};                      \
        return check_main(tests, argc, argv);                                                      \
    }

#endif
