/* SPDX-License-Identifier: MIT */
/* Unwind information of a damaged or hostile library. The first 8 bytes of the input say at which
 * offset of the other bytes the header of the unwind information stands, and for which addresses
 * rules are looked up. The reader runs in the user's process, so it may not touch memory outside of
 * the other bytes. */
#include "path/cfi.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 16)
        return 0;
    size_t header = data[0], bytes = size - 8;
    int32_t near;
    memcpy(&near, data + 4, sizeof near);
    /* a chunk of its own, so that the sanitizer finds reads behind it */
    uint8_t *copy = malloc(bytes);
    memcpy(copy, data + 8, bytes);
    struct cfi_object object = {.start = (uintptr_t)copy,
                                .end = (uintptr_t)copy + bytes,
                                .frames_start = (uintptr_t)copy,
                                .frames_end = (uintptr_t)copy + bytes,
                                .eh_frame_header = header < bytes ? copy + header : NULL};
    cfi_forget_programs(); /* the last input may have had the same address */
    cfi_find_rule(&object, (uintptr_t)copy + (uintptr_t)(intptr_t)near);
    cfi_find_rule(&object, (uintptr_t)copy + data[1]);
    cfi_find_function(&object, (uintptr_t)copy + data[1]);
    cfi_find_alike(&object, (uintptr_t)copy + (uintptr_t)(intptr_t)near);
    cfi_find_alike(&object, (uintptr_t)copy + data[1]);
    free(copy);
    return 0;
}
