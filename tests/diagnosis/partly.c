/* SPDX-License-Identifier: MIT */
/*
 * partly.c - pages of which only a part is resident: of 6000 buffers of 8000 bytes every second one
 * is filled and then freed; of the others 16 bytes are written. It prints "look", and allocates
 * until a line comes, so that its heap can obey a trim.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFERS 6000
#define BYTES 8000

static char *buffers[BUFFERS];

__attribute__((noinline)) static char *buffer_open(size_t used_bytes) {
    char *buffer = malloc(BYTES);
    memset(buffer, 1, used_bytes);
    return buffer;
}

int main(void) {
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = buffer_open(i % 2 ? 16 : BYTES);
    for (int i = 0; i < BUFFERS; i += 2)
        free(buffers[i]);
    puts("look");
    fflush(stdout);
    for (struct pollfd input = {.fd = 0, .events = POLLIN}; poll(&input, 1, 5) == 0;) {
        void *parts[100];
        for (size_t i = 0; i < 100; i++)
            parts[i] = malloc(16 + 70 * i);
        for (size_t i = 0; i < 100; i++)
            free(parts[i]);
    }
    return 0;
}
