/* SPDX-License-Identifier: MIT */
/* hold.c - for a line "take N" it allocates and fills N MiB, for "give" it frees all; it answers
 * "ok". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *held[64];
static int count;

__attribute__((noinline)) static void take(int mebibytes) {
    size_t bytes = (size_t)mebibytes << 20;
    if (count == 64)
        abort();
    held[count] = malloc(bytes);
    memset(held[count++], 1, bytes);
}

int main(void) {
    char line[64];
    int mebibytes;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "take %d", &mebibytes) == 1)
            take(mebibytes);
        while (count > 0 && strcmp(line, "give\n") == 0)
            free(held[--count]);
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
