/* SPDX-License-Identifier: MIT */
/*
 * varint.h - numbers of a variable length, as snapshot files, marks and protocol buffers have them:
 * seven bits a byte, the lowest bits first; the highest bit of a byte says that another one
 * follows.
 */
#ifndef MEMCTX_VARINT_H
#define MEMCTX_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VARINT_MAX 10U /* greatest number of bytes of a number */

/* Writes a number, and returns how many bytes it takes. */
static inline size_t varint_put(uint8_t *to, uint64_t value) {
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        to[length++] = (uint8_t)(value | 0x80);
    to[length++] = (uint8_t)value;
    return length;
}

/* Reads a number at *at, and moves *at behind it. False: the bytes end before the number does, or
 * the number needs more than 64 bits. */
static inline bool varint_get(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift == 63 && byte > 1)
            break;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

#endif
