// SPDX-License-Identifier: MIT
// looks.h - what programs of this suite share, in C and in C++: look() and random numbers.
#ifndef MEMCTX_DIAGNOSIS_LOOKS_H
#define MEMCTX_DIAGNOSIS_LOOKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

// Lets the test look at this process: prints "look" and waits for a line. Ends the process when the
// test has closed the pipe. Allocates nothing: stdio would allocate a buffer for each stream.
static inline void look(void) {
    char byte;
    if (write(1, "look\n", 5) != 5)
        exit(1);
    do {
        if (read(0, &byte, 1) != 1)
            exit(0);
    } while (byte != '\n');
}

// Returns a number below `count`; the same numbers in each run.
static inline size_t below(size_t count) {
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % count;
}

#endif
