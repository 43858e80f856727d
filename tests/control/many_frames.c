/* SPDX-License-Identifier: MIT */
/* many_frames.c - allocates in 4 000 functions, so that the library reads 4 000 entries of the
 * program's .eh_frame. Then it prints "ready" and waits for a line. */
#include <stdio.h>
#include <stdlib.h>

#include "../lib/repeat.h"

#define SITE(number)                                                                               \
    __attribute__((noinline)) static void site_##number(void) {                                    \
        char *volatile chunk = malloc(number % 64);                                                \
        free(chunk);                                                                               \
    }
#define CALL(number) site_##number();
#define THOUSAND(M, p)                                                                             \
    HUNDRED(M, p##0)                                                                               \
    HUNDRED(M, p##1)                                                                               \
    HUNDRED(M, p##2)                                                                               \
    HUNDRED(M, p##3)                                                                               \
    HUNDRED(M, p##4)                                                                               \
    HUNDRED(M, p##5)                                                                               \
    HUNDRED(M, p##6)                                                                               \
    HUNDRED(M, p##7)                                                                               \
    HUNDRED(M, p##8)                                                                               \
    HUNDRED(M, p##9)

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
