/* SPDX-License-Identifier: MIT */
/* many_frames.c - allocates in 4 000 functions, so that the library reads 4 000 entries of the
 * program's .eh_frame. Then it prints "ready" and waits for a line. */
#include <stdio.h>
#include <stdlib.h>

#define SITE(number)                                                                               \
    __attribute__((noinline)) static void site_##number(void) {                                    \
        char *volatile chunk = malloc(number % 64);                                                \
        free(chunk);                                                                               \
    }
#define CALL(number) site_##number();
#define TEN(WHAT, n)                                                                               \
    WHAT(n##0)                                                                                     \
    WHAT(n##1)                                                                                     \
    WHAT(n##2)                                                                                     \
    WHAT(n##3)                                                                                     \
    WHAT(n##4)                                                                                     \
    WHAT(n##5)                                                                                     \
    WHAT(n##6)                                                                                     \
    WHAT(n##7)                                                                                     \
    WHAT(n##8)                                                                                     \
    WHAT(n##9)
#define HUNDRED(WHAT, n)                                                                           \
    TEN(WHAT, n##0)                                                                                \
    TEN(WHAT, n##1)                                                                                \
    TEN(WHAT, n##2)                                                                                \
    TEN(WHAT, n##3)                                                                                \
    TEN(WHAT, n##4)                                                                                \
    TEN(WHAT, n##5)                                                                                \
    TEN(WHAT, n##6)                                                                                \
    TEN(WHAT, n##7)                                                                                \
    TEN(WHAT, n##8)                                                                                \
    TEN(WHAT, n##9)
#define THOUSAND(WHAT, n)                                                                          \
    HUNDRED(WHAT, n##0)                                                                            \
    HUNDRED(WHAT, n##1)                                                                            \
    HUNDRED(WHAT, n##2)                                                                            \
    HUNDRED(WHAT, n##3)                                                                            \
    HUNDRED(WHAT, n##4)                                                                            \
    HUNDRED(WHAT, n##5)                                                                            \
    HUNDRED(WHAT, n##6)                                                                            \
    HUNDRED(WHAT, n##7)                                                                            \
    HUNDRED(WHAT, n##8)                                                                            \
    HUNDRED(WHAT, n##9)

THOUSAND(SITE, 1)
THOUSAND(SITE, 2)
THOUSAND(SITE, 3)
THOUSAND(SITE, 4)

int main(void) {
    THOUSAND(CALL, 1)
    THOUSAND(CALL, 2)
    THOUSAND(CALL, 3)
    THOUSAND(CALL, 4)
    puts("ready");
    fflush(stdout);
    return getchar() == EOF;
}
