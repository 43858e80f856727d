/* SPDX-License-Identifier: MIT */
/* allocate.c - 100 chunks of 1000 bytes at one site, then 500 at another for each line "grow". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile keep;

__attribute__((noinline)) static void allocate_first(void) {
    keep = malloc(1000);
}

__attribute__((noinline)) static void allocate_more(void) {
    keep = malloc(1000);
}

int main(void) {
    char line[64];
    /* stdio must not allocate buffers between two dumps that the test compares. */
    setvbuf(stdin, NULL, _IONBF, 0);
    for (int i = 0; i < 100; i++) {
        allocate_first();
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        for (int i = 0; i < 500 && strcmp(line, "grow\n") == 0; i++) {
            allocate_more();
        }
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
