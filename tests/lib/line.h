/* SPDX-License-Identifier: MIT */
/* line.h - reads a line of standard input. */
#ifndef TEST_LINE_H
#define TEST_LINE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* Reads a line without its newline. Reads byte by byte, because parent and child share standard
 * input. A line that does not fit is cut; the next call reads its rest. Returns false if standard
 * input has ended or cannot be read. */
static inline bool line_read(char *line, size_t line_bytes) {
    size_t length = 0;
    while (length + 1 < line_bytes) {
        ssize_t got = read(0, line + length, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        if (line[length] == '\n')
            break;
        length++;
    }
    line[length] = 0;
    return true;
}

#endif
