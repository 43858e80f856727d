/* SPDX-License-Identifier: MIT */
/*
 * functions.h - tells which function a return address is in, and which functions are folded.
 *
 * A function is known by the start of its frame description entry in .eh_frame, so no symbols are
 * needed. A part that the compiler moved away (`.cold`) counts as a function of its own. A function
 * is *folded* when it has recurred on very many call paths. From then on it stands on each path
 * once (see context/admit.h), and the packed rules of its return addresses carry its number
 * (rule_folded).
 *
 * For: programs with very many call paths. These functions are called only after the library's
 * tables are filled to TABLES_FOLD, and then only when a new node of the tree is made. Cost: a look
 * into a table, or about a microsecond where the address is not known.
 *
 * Threads: any. The table of addresses is a cache of FUNCTIONS_MAX entries, under
 * unwind_rules_lock.
 */
#ifndef MEMCTX_FUNCTIONS_H
#define MEMCTX_FUNCTIONS_H

#include "path/unwind_rules.h"

/* Between these two calls a thread may ask for functions. The lock is taken once for many
 * questions. */
void functions_look_begins(void);
void functions_look_ends(void);
/* Returns the start of the function that holds a return address; 0: it is not known. `exact`: a
 * signal interrupted the program at the address. */
uintptr_t function_start(uintptr_t address, bool exact);
/* As function_start, but also 0 if the function is folded and only unfolded for a time. */
uintptr_t function_to_watch(uintptr_t address, bool exact);
/* Counts a new node of a path on which this function stands twice. After some such nodes the
 * function is folded, and function_epoch changes. */
void function_recurs(uintptr_t function);
INTERNAL uint32_t function_epoch; /* atomic; 0: no function was ever folded */
INTERNAL uint32_t
    function_count; /* atomic: functions that are folded, including those unfolded for a time */

/* A set of folded functions, by number. */
struct function_set {
    uint64_t bits[RULE_FOLDED_PLACES / 64];
};
INLINE bool function_set_has(const struct function_set *set, uint32_t number) {
    return set->bits[(number - 1) / 64] >> (number - 1) % 64 & 1;
}
INLINE void function_set_add(struct function_set *set, uint32_t number) {
    set->bits[(number - 1) / 64] |= 1UL << (number - 1) % 64;
}
/* Returns the number of the folded function that holds an address, also of a function that is
 * unfolded now; 0: none. */
uint32_t function_number(uintptr_t address, bool exact);
/* Leaves these functions, and no others, unfolded until the next call. All threads begin anew with
 * their stacks, and new paths show each call of these functions. */
void functions_unfold(const struct function_set *set);

#endif
