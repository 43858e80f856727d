/* SPDX-License-Identifier: MIT */
/*
 * plt_malloc.c - a program that calls malloc and also takes its address. It is linked at a fixed
 * address, so malloc's address is that of the program's PLT entry in all objects; the entry jumps
 * to a library's malloc. Prints "ready" and waits for the end of standard input.
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
