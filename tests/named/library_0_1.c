/* SPDX-License-Identifier: MIT */
/* A library with the functions of version 0.1.0 that pass structs, and nothing newer. It is
 * compiled against that version's header and preloaded in place of libmemctx.so. */
#include <memctx.h>

const char *memctx_version(void) {
    return "0.1.0";
}

memctx_t memctx_do_create_with(memctx_t parent, const char *name, enum memctx_policy policy,
                               const struct memctx_options *with) {
    (void)parent, (void)policy;
    return !strcmp(name, "old") && with->flags == MEMCTX_ZERO_FREED && with->limit->bytes == 1000
               ? (memctx_t)(uintptr_t)1
               : NULL;
}

int memctx_do_set_limit(memctx_t context, const struct memctx_limit *limit) {
    return context && limit->bytes == 1000 ? 0 : -1;
}

void memctx_do_stats(memctx_t context, struct memctx_stats *stats) {
    (void)context;
    *stats = (struct memctx_stats){1, 2, 3, 4, 5, 6, 7, 8, 9};
}
