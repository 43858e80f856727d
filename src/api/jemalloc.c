/* SPDX-License-Identifier: MIT */
/*
 * The functions that jemalloc has beside the malloc family: mallocx, rallocx, xallocx, sallocx,
 * dallocx, sdallocx, nallocx. A program that is linked with libjemalloc.so (named of BIND) calls
 * them; without the functions here, all memory of such a program would be missing in the dump.
 *
 * Only jemalloc can serve a request for one of its arenas, because the program may have given the
 * arena functions of its own that map memory. So such a request goes on to the next mallocx in the
 * loader's order, if there is one. A chunk of another allocator goes on to the next function, too.
 * mallctl is not replaced: its figures are those of jemalloc alone.
 *
 * Source: jemalloc(3). A flag word has the alignment's power of two in its lowest six bits, and
 * the number of an arena, plus 1, in its highest twelve bits.
 */
#include "api/fast.h"
#include "path/rebind.h"
#include "region/region.h"

#include <errno.h>

#ifndef MEMCTX_UNIT
#define FLAG_ALIGNMENT 0x3fU
#define FLAG_ZERO 0x40U
#define FLAG_ARENA 0xfff00000U

#define NONE ((uintptr_t)1) /* value of *kept: there is no next function */

/* Returns the function `name` that the program would call without this library; 0: there is none.
 * *kept keeps the answer, so that the loader's objects are searched once. */
static COLD uintptr_t find_next(const char *name, uintptr_t *kept) {
    uintptr_t found = load_relaxed(kept);
    if (!found) {
        found = rebind_next(name);
        store_owner(kept, found ? found : NONE);
    }
    return found == NONE ? 0 : found;
}

/* The next function of the name, as a pointer of the function's type; NULL: there is none. */
#define NEXT(name)                                                                                 \
    ({                                                                                             \
        static uintptr_t kept;                                                                     \
        (__typeof__(&(name)))find_next(#name, &kept);                                              \
    })

void *mallocx(size_t size, int flags);
void *rallocx(void *old, size_t size, int flags);
size_t xallocx(void *chunk, size_t size, size_t extra, int flags);
size_t sallocx(const void *chunk, int flags);
void dallocx(void *chunk, int flags);
void sdallocx(void *chunk, size_t size, int flags);
size_t nallocx(size_t size, int flags);

INLINE size_t alignment_of(int flags) {
    return (size_t)1 << ((unsigned)flags & FLAG_ALIGNMENT);
}

INLINE bool is_ours(const void *chunk) {
    return !chunk || region_page_of(chunk);
}

/* Zeroes the bytes that the chunk has beyond the first `had` bytes. */
static void zero_from(char *chunk, size_t had) {
    size_t has = region_usable(chunk);
    if (has > had)
        memset(chunk + had, 0, has - had);
}

/* Serves a request with an alignment above 16, or for zeroed bytes. jemalloc zeroes all bytes that
 * sallocx reports, which may be more than `size`. */
static NOINLINE void *allocate_aligned_or_zeroed(size_t size, int flags, uintptr_t frame) {
    bool zero = ((unsigned)flags & FLAG_ZERO) != 0, aligned = alignment_of(flags) > 16;
    void *chunk = aligned ? allocate_aligned(size, alignment_of(flags), frame)
                          : allocate_not_entered(size, ALLOCATE_ZEROED, frame);
    if (chunk && zero)
        zero_from(chunk, aligned ? 0 : size);
    return chunk;
}

EXPORT void *mallocx(size_t size, int flags) {
    __typeof__(&mallocx) next;
    if (UNLIKELY((unsigned)flags & FLAG_ARENA) && (next = NEXT(mallocx)))
        return next(size, flags);
    if (UNLIKELY(alignment_of(flags) > 16) || (unsigned)flags & FLAG_ZERO)
        return allocate_aligned_or_zeroed(size, flags, FRAME);
    return allocate_plain(size, FRAME);
}

EXPORT void *rallocx(void *old, size_t size, int flags) {
    uintptr_t frame = FRAME;
    __typeof__(&rallocx) next;
    if (UNLIKELY(!is_ours(old)) && (next = NEXT(rallocx)))
        return next(old, size, flags);
    size_t had = region_usable(old);
    char *chunk;
    if (LIKELY(alignment_of(flags) <= 16)) {
        chunk = resize_not_entered(old, size, frame);
    } else {
        chunk = allocate_aligned(size, alignment_of(flags), frame);
        if (chunk) {
            memcpy(chunk, old, had < size ? had : size);
            free_not_entered(old);
        }
    }
    if (chunk && (unsigned)flags & FLAG_ZERO)
        zero_from(chunk, had);
    return chunk;
}

/* Resizes no chunk: jemalloc(3) lets xallocx return the size that the chunk has. */
EXPORT size_t xallocx(void *chunk, size_t size, size_t extra, int flags) {
    __typeof__(&xallocx) next;
    if (UNLIKELY(!is_ours(chunk)) && (next = NEXT(xallocx)))
        return next(chunk, size, extra, flags);
    return region_usable(chunk);
}

EXPORT size_t sallocx(const void *chunk, int flags) {
    __typeof__(&sallocx) next;
    if (UNLIKELY(!is_ours(chunk)) && (next = NEXT(sallocx)))
        return next(chunk, flags);
    return region_usable(chunk);
}

static NOINLINE void free_or_pass_on(void *chunk, int flags) {
    __typeof__(&dallocx) next;
    if (UNLIKELY(!is_ours(chunk)) && (next = NEXT(dallocx)))
        next(chunk, flags);
    else
        free_plain(chunk);
}

EXPORT void dallocx(void *chunk, int flags) {
    free_or_pass_on(chunk, flags);
}

EXPORT void sdallocx(void *chunk, size_t size, int flags) {
    (void)size;
    free_or_pass_on(chunk, flags);
}

/* Returns how many bytes a chunk has at least that mallocx returns for `size` and `flags`; 0:
 * mallocx would refuse the request. */
EXPORT size_t nallocx(size_t size, int flags) {
    size_t alignment = alignment_of(flags);
    return size + alignment < size || size + alignment > REGION_SIZE_MAX ? 0 : size;
}
#endif
