/* SPDX-License-Identifier: MIT */
/*
 * outside.c - the constant that says where the library's tables are, for a reader of the process's
 * memory or of its core file (docs/outside.md).
 *
 * The library itself never reads the constant. The constant costs a process no time, because it
 * stands in data that the loader writes at the start anyway.
 */
#include <memctx/outside.h>

#include "base/options.h"
#include "context/tree.h"
#include "control/act.h"
#include "control/control.h"
#include "control/marks.h"
#include "figures/buffers.h"
#include "figures/pages.h"
#include "figures/sums.h"
#include "named/named.h"
#include "os/meta.h"
#include "region/heap.h"
#include "region/member.h"
#include "region/resizes.h"
#include "region/serial.h"
#include "rules/rules.h"
#include "segment/internal.h"

#ifndef MEMCTX_VERSION
#define MEMCTX_VERSION "unknown"
#endif

INTERNAL const struct outside_root outside_root;

/* OUTSIDE_ADDRESSES names variables. From tree_count_shown on, the names are pointers to variables
 * that are private to a file: there the address of the pointer is stored. */
const struct outside_root outside_root
    __attribute__((used, aligned(OUTSIDE_ALIGNMENT), section(".data.rel.ro.memctx"))) = {
        .magic = OUTSIDE_MAGIC_A OUTSIDE_MAGIC_B,
        .version = OUTSIDE_VERSION,
        .bytes = sizeof(struct outside_root),
        .library_version = MEMCTX_VERSION,
#define X(name) [OUTSIDE_AT_##name] = (uintptr_t)&name,
        .addresses = {OUTSIDE_ADDRESSES(X)},
#undef X
#define X(name) [OUTSIDE_IS_##name] = name,
        .constants = {OUTSIDE_CONSTANTS(X)},
#undef X
#define X(type, field)                                                                             \
    [OUTSIDE_##type##_##field] = {offsetof(struct type, field), sizeof(((struct type *)0)->field)},
        .fields = {OUTSIDE_FIELDS(X)},
#undef X
#define X(type) [OUTSIDE_SIZE_##type] = sizeof(struct type),
        .structs = {OUTSIDE_STRUCTS(X)},
#undef X
};
_Static_assert(sizeof OUTSIDE_MAGIC_A OUTSIDE_MAGIC_B == OUTSIDE_MAGIC_BYTES, "the magic fits");
_Static_assert(offsetof(struct meta_usage, used_bytes) ==
                   offsetof(struct meta_usage, mapped_bytes) + sizeof(int64_t),
               "as in meta.c");
_Static_assert(offsetof(struct span_cache, spans) == 0, "the spans are the first field");
_Static_assert(sizeof(struct owners) == offsetof(struct owners, views), "the views follow");
