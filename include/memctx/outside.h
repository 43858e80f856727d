/* SPDX-License-Identifier: MIT */
/*
 * outside.h - where the library's tables are, for a reader that has only the process's memory.
 *
 * Purpose: a process that cannot answer on its socket (stopped, sandboxed, without descriptors) and
 * a core file are read from outside. The library keeps one constant struct outside_root in its
 * data. A reader finds the struct by its magic in the mappings of libmemctx.so.
 * Shape: three lists of names. OUTSIDE_ADDRESSES names variables, OUTSIDE_CONSTANTS names numbers
 * (lengths of tables, shifts, flags), OUTSIDE_FIELDS names fields of structs. The library fills in
 * addresses, values, offsets and sizes. So the reader needs no internal header of the library, and
 * reads every build that has these lists.
 * Versions: OUTSIDE_VERSION changes when a list changes, or the meaning of a field (for example the
 * bits of a block's record). A reader refuses every other version, and says which one it found.
 */
#ifndef MEMCTX_OUTSIDE_H
#define MEMCTX_OUTSIDE_H

#include <stdint.h>

/* The magic is given in two parts, so that no search finds the whole magic in the reader's own
 * memory. */
#define OUTSIDE_MAGIC_A "memctx: read fro"
#define OUTSIDE_MAGIC_B "m outside here."
#define OUTSIDE_MAGIC_BYTES 32 /* with the final 0 */
#define OUTSIDE_VERSION 10
#define OUTSIDE_ALIGNMENT 64 /* alignment of the root in memory */

/* Variables that the reader finds through the root. From tree_count_shown on, each name is a
 * pointer to a variable, because the variable itself is private to its file. */
#define OUTSIDE_ADDRESSES(X)                                                                       \
    X(heap_global)                                                                                 \
    X(tree_blocks)                                                                                 \
    X(tree_fixed_nodes)                                                                            \
    X(heap_placed)                                                                                 \
    X(named_blocks)                                                                                \
    X(named_count)                                                                                 \
    X(member_blocks)                                                                               \
    X(member_count)                                                                                \
    X(segment_root)                                                                                \
    X(segment_near)                                                                                \
    X(segment_near_first)                                                                          \
    X(segment_global)                                                                              \
    X(segment_huge_cache)                                                                          \
    X(segment_returned)                                                                            \
    X(segment_clock)                                                                               \
    X(pages_clock_start)                                                                           \
    X(pages_clock_begin)                                                                           \
    X(options)                                                                                     \
    X(resizes_lost)                                                                                \
    X(sums_resets)                                                                                 \
    X(rule_list)                                                                                   \
    X(buffers_stack_top)                                                                           \
    X(tree_count_shown)                                                                            \
    X(unwind_rules_shown)                                                                          \
    X(unwind_rules_count_shown)                                                                    \
    X(meta_usage_shown)                                                                            \
    X(meta_mapping_count_shown)                                                                    \
    X(meta_mappings_shown)                                                                         \
    X(meta_first_shown)                                                                            \
    X(buffers_shown)                                                                               \
    X(marks_shown)                                                                                 \
    X(marks_kept_shown)                                                                            \
    X(notes_shown)                                                                                 \
    X(notes_made_shown)                                                                            \
    X(rules_matched_shown)                                                                         \
    X(control_start_shown)

#define OUTSIDE_CONSTANTS(X)                                                                       \
    X(TREE_NODES_PER_BLOCK)                                                                        \
    X(TREE_BLOCKS)                                                                                 \
    X(TREE_FIXED_COUNT)                                                                            \
    X(MODULE_NONE)                                                                                 \
    X(MODULE_NAMED)                                                                                \
    X(MODULE_OTHERS)                                                                               \
    X(MODULES_MAX)                                                                                 \
    X(VIEWS_PER_BLOCK)                                                                             \
    X(VIEW_BLOCKS)                                                                                 \
    X(BASELINES_PER_BLOCK)                                                                         \
    X(PLACED_PER_LEAF)                                                                             \
    X(PLACED_LEAVES)                                                                               \
    X(PLACE_MASK)                                                                                  \
    X(NAMED_PLACES_PER_BLOCK)                                                                      \
    X(NAMED_BLOCKS)                                                                                \
    X(NAMED_CROWD)                                                                                 \
    X(MEMBER_VIEW)                                                                                 \
    X(MEMBERS_PER_BLOCK)                                                                           \
    X(SEGMENT_SHIFT)                                                                               \
    X(SEGMENT_LEAF_SHIFT)                                                                          \
    X(SEGMENT_ROOT_BITS)                                                                           \
    X(SLICE_SHIFT)                                                                                 \
    X(HEADER_SLICES)                                                                               \
    X(HUGE_CACHE_MAX)                                                                              \
    X(SPAN_CACHE_SPANS)                                                                            \
    X(SPAN_CACHE_EACH)                                                                             \
    X(SEGMENT_TICK_SHIFT)                                                                          \
    X(PAGE_OWN)                                                                                    \
    X(PAGE_MIXED)                                                                                  \
    X(PAGE_SPAN)                                                                                   \
    X(PAGE_HUGE)                                                                                   \
    X(PAGE_SERIAL)                                                                                 \
    X(PAGE_FULL)                                                                                   \
    X(PAGE_LISTED)                                                                                 \
    X(PAGE_GUARDED)                                                                                \
    X(META_SHIFT)                                                                                  \
    X(META_WIDE)                                                                                   \
    X(META_MIXED)                                                                                  \
    X(META_OWNERS)                                                                                 \
    X(META_CHECKED)                                                                                \
    X(META_PUNCHED)                                                                                \
    X(META_APART)                                                                                  \
    X(SEGMENT_SLICED)                                                                              \
    X(SEGMENT_HUGE)                                                                                \
    X(SERIAL_UNIT)                                                                                 \
    X(SERIAL_END_BITS)                                                                             \
    X(SERIAL_UNITS_BITS)                                                                           \
    X(SERIAL_FIRST_BITS)                                                                           \
    X(SERIAL_SHAPE_SHIFT)                                                                          \
    X(SERIAL_COUNT_SHIFT)                                                                          \
    X(SERIAL_RECORDS_SHIFT)                                                                        \
    X(SERIAL_KIND_SHIFT)                                                                           \
    X(SERIAL_SEVERAL)                                                                              \
    X(TREE_PARTIAL)                                                                                \
    X(TREE_LATE)                                                                                   \
    X(TREE_FOLDED)                                                                                 \
    X(MEMBER_GROWN)                                                                                \
    X(MEMBER_ID_SHIFT)                                                                             \
    X(RESIZES_PER_BLOCK)                                                                           \
    X(META_FIRST_BYTES)                                                                            \
    X(META_MAPPINGS_MAX)                                                                           \
    X(BUFFERS_MAX)                                                                                 \
    X(BUFFERS_STACK_BYTES)

/* X(struct, field) */
#define OUTSIDE_FIELDS(X)                                                                          \
    X(heap_global, lock)                                                                           \
    X(heap_global, first)                                                                          \
    X(heap_global, totals)                                                                         \
    X(heap_global, heaps)                                                                          \
    X(heap_global, threads_seen)                                                                   \
    X(heap_global, parked)                                                                         \
    X(heap_global, lost_views)                                                                     \
    X(heap, tid)                                                                                   \
    X(heap, view_count)                                                                            \
    X(heap, number)                                                                                \
    X(heap, next)                                                                                  \
    X(heap, freed_of)                                                                              \
    X(heap, freed_of_count)                                                                        \
    X(heap, baselines)                                                                             \
    X(heap, views_discarded)                                                                       \
    X(heap, views)                                                                                 \
    X(heap, resizes)                                                                               \
    X(heap, span_cache)                                                                            \
    X(view, allocs)                                                                                \
    X(view, frees)                                                                                 \
    X(view, requested_cum_bytes)                                                                   \
    X(view, freed_cum_bytes)                                                                       \
    X(view, peak_bytes)                                                                            \
    X(view, context)                                                                               \
    X(view, index)                                                                                 \
    X(baseline, allocs)                                                                            \
    X(baseline, frees)                                                                             \
    X(baseline, requested_cum_bytes)                                                               \
    X(tree_node, address)                                                                          \
    X(tree_node, parent)                                                                           \
    X(tree_node, module)                                                                           \
    X(tree_node, exact)                                                                            \
    X(tree_node, flags)                                                                            \
    X(module, start)                                                                               \
    X(module, end)                                                                                 \
    X(module, bias)                                                                                \
    X(module, path)                                                                                \
    X(module, build_id_bytes)                                                                      \
    X(module, build_id)                                                                            \
    X(module, closed)                                                                              \
    X(named, generation)                                                                           \
    X(named, spare)                                                                                \
    X(named, name)                                                                                 \
    X(named, identifier)                                                                           \
    X(member, crowd)                                                                               \
    X(member, chunk)                                                                               \
    X(page, heap)                                                                                  \
    X(page, run)                                                                                   \
    X(page, gone)                                                                                  \
    X(page, view)                                                                                  \
    X(page, next_block)                                                                            \
    X(page, block_bytes)                                                                           \
    X(page, used)                                                                                  \
    X(page, fresh_left)                                                                            \
    X(page, first)                                                                                 \
    X(page, granule_mask)                                                                          \
    X(page, records)                                                                               \
    X(page, flags)                                                                                 \
    X(page, kind)                                                                                  \
    X(page, meta_shift)                                                                            \
    X(page, granule_capacity)                                                                      \
    X(page, back)                                                                                  \
    X(page, remote)                                                                                \
    X(page, requested_bytes)                                                                       \
    X(page, context)                                                                               \
    X(page, filled)                                                                                \
    X(page, slices)                                                                                \
    X(page, capacity)                                                                              \
    X(page, born)                                                                                  \
    X(page, mapped_bytes)                                                                          \
    X(page, owners)                                                                                \
    X(page, punched)                                                                               \
    X(page, chunk)                                                                                 \
    X(owners, count)                                                                               \
    X(segment_global, segments)                                                                    \
    X(segment_global, dirty_slices)                                                                \
    X(segment_global, huge_bytes)                                                                  \
    X(segment_global, huge_cached_bytes)                                                           \
    X(segment_global, huge_cached)                                                                 \
    X(huge_cached, start)                                                                          \
    X(huge_cached, bytes)                                                                          \
    X(options, depth)                                                                              \
    X(meta_usage, mapped_bytes)                                                                    \
    X(meta_usage, used_bytes)                                                                      \
    X(meta_mapping, start)                                                                         \
    X(meta_mapping, bytes)                                                                         \
    X(buffer, start)                                                                               \
    X(buffer, bytes)                                                                               \
    X(resizes, first)                                                                              \
    X(resizes_block, next)                                                                         \
    X(resizes_block, used)                                                                         \
    X(resizes_block, list)                                                                         \
    X(view_resizes, view_index)                                                                    \
    X(view_resizes, counts)                                                                        \
    X(view_resizes, base)                                                                          \
    X(kept_marks, slots)                                                                           \
    X(mark, name)                                                                                  \
    X(mark, uptime_ns)                                                                             \
    X(mark, slept_ns)                                                                              \
    X(mark, rss_bytes)                                                                             \
    X(mark, elsewhere)                                                                             \
    X(mark, first)                                                                                 \
    X(mark, left_out)                                                                              \
    X(mark_chunk, next)                                                                            \
    X(mark_chunk, used)                                                                            \
    X(mark_chunk, bytes)                                                                           \
    X(rule_list, rules)                                                                            \
    X(rule_list, count)                                                                            \
    X(policy_rule, text)

/* Structs that the reader copies. It needs the size of a struct to step through a table of such
 * structs, and to check that each field of OUTSIDE_FIELDS lies inside its struct. */
#define OUTSIDE_STRUCTS(X)                                                                         \
    X(heap_global)                                                                                 \
    X(heap)                                                                                        \
    X(view)                                                                                        \
    X(baseline)                                                                                    \
    X(tree_node)                                                                                   \
    X(module)                                                                                      \
    X(named)                                                                                       \
    X(member)                                                                                      \
    X(page)                                                                                        \
    X(owners)                                                                                      \
    X(segment_global)                                                                              \
    X(huge_cached)                                                                                 \
    X(options)                                                                                     \
    X(meta_usage)                                                                                  \
    X(meta_mapping)                                                                                \
    X(buffer)                                                                                      \
    X(resizes)                                                                                     \
    X(resizes_block)                                                                               \
    X(view_resizes)                                                                                \
    X(kept_marks)                                                                                  \
    X(mark)                                                                                        \
    X(mark_chunk)                                                                                  \
    X(rule_list)                                                                                   \
    X(policy_rule)

enum outside_address {
#define X(name) OUTSIDE_AT_##name,
    OUTSIDE_ADDRESSES(X)
#undef X
        OUTSIDE_ADDRESS_COUNT,
    OUTSIDE_FIRST_SHOWN = OUTSIDE_AT_tree_count_shown, /* from here on: a pointer to the variable */
};
enum outside_constant {
#define X(name) OUTSIDE_IS_##name,
    OUTSIDE_CONSTANTS(X)
#undef X
        OUTSIDE_CONSTANT_COUNT
};
enum outside_field {
#define X(type, field) OUTSIDE_##type##_##field,
    OUTSIDE_FIELDS(X)
#undef X
        OUTSIDE_FIELD_COUNT
};
enum outside_struct {
#define X(type) OUTSIDE_SIZE_##type,
    OUTSIDE_STRUCTS(X)
#undef X
        OUTSIDE_STRUCT_COUNT
};

struct outside_root {
    char magic[OUTSIDE_MAGIC_BYTES];
    uint32_t version; /* OUTSIDE_VERSION */
    uint32_t bytes;   /* size of this struct */
    char library_version[32];
    uint64_t addresses[OUTSIDE_ADDRESS_COUNT];
    uint32_t constants[OUTSIDE_CONSTANT_COUNT];
    struct outside_place {
        uint32_t offset, bytes; /* offset and size of the field in its struct */
    } fields[OUTSIDE_FIELD_COUNT];
    uint32_t structs[OUTSIDE_STRUCT_COUNT]; /* bytes */
};

#endif
