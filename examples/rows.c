/* SPDX-License-Identifier: MIT */
/*
 * rows.c - a program that does not use memctx.h: a rule of memctx run gives its rows a policy.
 *
 * Each row has 1 032 bytes, eight more than a block of 1 KiB holds. The first rows occupy blocks of
 * 1 280 bytes, and, once a MiB of rows is alive, the others occupy blocks of 1 152 bytes. With the
 * policy slab, blocks have the size that the call path asks for, rounded up to 16 bytes.
 *
 *     cc -g rows.c -o rows
 *     memctx run -- ./rows                              # blocks of 1 152 and 1 280 bytes
 *     memctx run --rule 'row_new=slab' -- ./rows        # blocks of 1 040 bytes
 *     memctx rules rows                                 # what the rule matched
 *
 * The program prints "done" and waits for a line, so that you can run memctx dump meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 20000, ROW_BYTES = 1032 };

/* Not inlined: the rule names this function, so its frame must be on the call path. */
static __attribute__((noinline)) char *row_new(void) {
    char *row = malloc(ROW_BYTES);
    if (row)
        memset(row, 1, ROW_BYTES);
    return row;
}

int main(void) {
    static char *rows[ROWS];
    for (int i = 0; i < ROWS; i++) {
        rows[i] = row_new();
        if (!rows[i])
            return 1;
    }
    puts("done");
    fflush(stdout);
    getchar();
    return 0;
}
