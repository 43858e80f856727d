/* SPDX-License-Identifier: MIT */
/*
 * criterion.h - the part of Criterion's interface that the unit tests use, made with fork and exit.
 *
 * Replaces Criterion under ThreadSanitizer, where Criterion crashes when it starts a test's
 * process. runner.c has main(). A test that fails prints file and line and exits with status 1.
 */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct plain_test {
    const char *suite, *name;
    void (*run)(void);
    struct plain_options {
        void (*init)(void);
        int signal; /* the signal that has to end the test */
    } options;
    struct plain_test *next;
};

void plain_register(struct plain_test *test);

#define Test(group, title, ...)                                                                    \
    static void group##_##title(void);                                                             \
    __attribute__((constructor)) static void group##_##title##_register(void) {                    \
        static struct plain_test test = {#group, #title, group##_##title, {__VA_ARGS__}, NULL};    \
        plain_register(&test);                                                                     \
    }                                                                                              \
    static void group##_##title(void)

#define cr_assert(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            fprintf(stderr, " " __VA_ARGS__);                                                      \
            fputc('\n', stderr);                                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define cr_assert_not(condition, ...) cr_assert(!(condition), ##__VA_ARGS__)
#define cr_assert_null(a, ...) cr_assert((a) == NULL, ##__VA_ARGS__)
#define cr_assert_not_null(a, ...) cr_assert((a) != NULL, ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...) cr_assert((a) < (b), ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...) cr_assert((a) <= (b), ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...) cr_assert((a) > (b), ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...) cr_assert((a) >= (b), ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp((a), (b)) == 0, ##__VA_ARGS__)
/* The runner counts a test that is skipped as passed. */
#define cr_skip(...)                                                                               \
    do {                                                                                           \
        fprintf(stderr, " " __VA_ARGS__);                                                          \
        fputc('\n', stderr);                                                                       \
        _exit(0);                                                                                  \
    } while (0)

#endif
