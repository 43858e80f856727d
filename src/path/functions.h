/* SPDX-License-Identifier: MIT */
/*
 * functions.h - tells which function a return address is in, and which functions are folded.
 *
 * A function is known by the start of its frame description entry in .eh_frame, so no symbols are
 * needed. A part of a function that the compiler placed elsewhere (`.cold`) counts as a function of
 * its own. A function is *folded* when it has recurred on RECURS_OFTEN call paths, or on RECURS_TOO
 * paths when another function is folded (functions.c). From then on the function stands on each
 * path once (see context/admit.h), and the packed rules of its return addresses carry the
 * function's number (rule_folded).
 *
 * For: programs with very many call paths. Threads look for functions that recur only after the
 * library's tables are filled to TABLES_FOLD, and then only when they make a node of the tree, or
 * for one in WATCH_EVERY paths that wait (context/admit.c). Cost: a look into a table, or about a
 * microsecond if the address is not in the table.
 *
 * Threads: any. The table of addresses is a cache of FUNCTIONS_MAX entries, under
 * unwind_rules_lock.
 */
#ifndef MEMCTX_FUNCTIONS_H
#define MEMCTX_FUNCTIONS_H

#include "path/unwind_rules.h"

/* A thread may call function_to_watch only between functions_look_begins and functions_look_ends.
 * These two functions take and release unwind_rules_lock, once for many addresses. */
void functions_look_begins(void);
void functions_look_ends(void);
/* Returns the function that holds a return address. `exact`: a signal interrupted the program at
 * the address. The function's start is 0 if the function is not known, there is no memory for the
 * tables, or the function was folded but is unfolded at present (functions_unfold). */
struct cfi_function function_to_watch(uintptr_t address, bool exact);
/* Returns the code of a folded function, around a return address in it, in which every call has a
 * rule that makes the same step as `rule`, the rule of the address. `number`: rule_folded(rule).
 * Its start is 0 if this code is not known. Called like function_to_watch. */
struct cfi_function function_alike(uint32_t number, uintptr_t address, uint64_t rule);
/* True if the function contains the address. `exact` is false for a return address, which may stand
 * one byte behind the function's end. */
INLINE bool function_holds(struct cfi_function function, uintptr_t address, bool exact) {
    return address - !exact - function.start < function.bytes;
}
/* Counts a path on which this function stands twice. When it has counted RECURS_OFTEN paths, the
 * function is folded, and function_epoch changes. */
void function_recurs(struct cfi_function function);
INTERNAL uint32_t function_epoch; /* atomic; 0: no function was ever folded */
/* Returns function_epoch when no thread is changing which functions are folded. While a thread does
 * that, rules may have numbers of the next epoch already. */
uint32_t function_epoch_settled(void);
/* Atomic: number of folded functions, including those that are unfolded at present. */
INTERNAL uint32_t function_count;

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
/* Returns the number of the folded function that holds an address, even if the function is unfolded
 * at present; 0: none. */
uint32_t function_number(uintptr_t address, bool exact);
/* Unfolds the functions of `set`, and no others, until the next call of functions_unfold. All
 * threads forget their stacks and traces, and new paths show each call of these functions. */
void functions_unfold(const struct function_set *set);

#endif
