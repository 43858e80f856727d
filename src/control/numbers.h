/* SPDX-License-Identifier: MIT */
/* numbers.h - numbers of a variable length, in which marks and recordings keep figures. */
#ifndef MEMCTX_CONTROL_NUMBERS_H
#define MEMCTX_CONTROL_NUMBERS_H

#include "base/base.h"

/* Turns numbers near 0 into small unsigned numbers: 0, -1, 1, -2 become 0, 1, 2, 3. */
INLINE uint64_t number_folded(int64_t value) {
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

INLINE int64_t number_unfolded(uint64_t value) {
    return (int64_t)(value >> 1 ^ -(value & 1));
}

/* Writes seven bits a byte, the lowest first; the highest bit of a byte says that more bytes
 * follow. Returns the bytes written, at most 10. */
INLINE uint32_t number_put(uint8_t *to, uint64_t value) {
    uint32_t length = 0;
    for (; value >= 0x80; value >>= 7)
        to[length++] = (uint8_t)(value | 0x80);
    to[length++] = (uint8_t)value;
    return length;
}

/* Reads a number that number_put wrote, and moves *at behind the number. */
INLINE uint64_t number_get(const uint8_t **at) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

#endif
