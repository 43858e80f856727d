/* SPDX-License-Identifier: MIT */
/*
 * plt_malloc.c - a program that calls malloc and uses its address. Linked at a fixed address, it
 * has a jump of its own that counts as malloc's address for all objects, and leads to the malloc of
 * a library. Prints "ready" and waits for the end of standard input.
 */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *(*volatile take)(size_t) = malloc;
    char *by_call = malloc(100), *by_value = take(1000);
    if (!by_call || !by_value)
        return 1;
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    free(by_call);
    free(by_value);
    return 0;
}
