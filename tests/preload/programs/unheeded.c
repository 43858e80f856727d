/* SPDX-License-Identifier: MIT */
/* unheeded - checks that calloc returns zeros where madvise says that it succeeded, but does
 * nothing, as under old versions of qemu's user mode. A filter of system calls plays this kernel.
 * The program executes itself under the filter. Prints the number of bytes that are not zero. */
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../lib/filter.h"

enum { LEAST = 1000, MOST = 12000000, ROUNDS = 10 };

static size_t not_zero(const char *block, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += block[i] != 0;
    return count;
}

/* Returns how many bytes of a block that calloc returned are not zero. Fills the block. */
static size_t fill_zeroed(char **block, size_t bytes) {
    *block = calloc(1, bytes);
    size_t wrong = *block ? not_zero(*block, bytes) : bytes;
    if (*block)
        memset(*block, 0xab, bytes);
    return wrong;
}

int main(int argc, char **argv) {
    size_t wrong = 0;
    char *first, *second;
    if (argc == 1) {
        if (filter_answer(SYS_madvise, 0) != 0 ||
            execl("/proc/self/exe", argv[0], "filtered", (char *)NULL))
            return 2;
    }
    if (madvise(NULL, 1, MADV_NORMAL) != 0)
        return 3; /* the filter is not in force */
    for (int round = 0; round < ROUNDS; round++)
        for (size_t bytes = LEAST; bytes < MOST; bytes = bytes * 3 + 1) {
            wrong += fill_zeroed(&first, bytes);
            wrong += fill_zeroed(&second, bytes);
            free(second);
            free(first);
            malloc_trim(0);
        }
    printf("%zu bytes are not zero\n", wrong);
    return wrong != 0;
}
