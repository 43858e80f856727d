/* SPDX-License-Identifier: MIT */
/*
 * unwind_rules.h - keeps one unwind rule for each return address, learnt once for the whole
 * process, and the modules that code was seen in.
 *
 * Look-ups take no lock: the table holds {key, packed rule}, 16 bytes an entry, and the key is
 * written last. Learning takes unwind_rules_lock, but does not hold it while it reads .eh_frame.
 * When a library is closed, the loader frees its link map (through our own free). The page that
 * holds the link map is watched, and the free starts a new generation with empty tables, before the
 * loader can map anything at the library's addresses.
 */
#ifndef MEMCTX_UNWIND_RULES_H
#define MEMCTX_UNWIND_RULES_H

#include "os/os.h"
#include "path/cfi.h"

#define MODULES_MAX 4095U
#define MODULE_NONE 0xffffU
/* The first rules that a forked child learns are mostly of code that ends it. To keep them costs
 * two copied pages, which is more than to find them out twice. */
#define RULES_QUIET 8

struct module {
    uintptr_t start, end, bias;
    const char *path;
    const void *link_map;
    uint32_t build_id_bytes;
    uint8_t build_id[24];
    bool closed; /* atomic */
    bool loader; /* libc or the dynamic linker: see control/control.h */
};

struct rule {
    uintptr_t key;
    uint64_t packed; /* never 0: an old table may be emptied while it is read */
};

INTERNAL struct lock unwind_rules_lock;
INTERNAL uint32_t
    unwind_rules_generation; /* atomic; when it changes, every cache of paths is invalid */
/* Atomic, never 0. When it changes, copies of rules are invalid; it also changes when functions are
 * folded. */
INTERNAL uint32_t unwind_rules_version;

/* The address of the table of rules. Its lowest bits say how many bits of a hash choose a place in
 * the table, so both are read at once; the table is as large as its block. 0: no table. */
#define RULE_TABLE_BITS 63UL
INTERNAL uintptr_t unwind_rules_table; /* atomic */
INLINE struct rule *rule_at(uintptr_t table, uint64_t place) {
    struct rule *rules = (struct rule *)(table & ~RULE_TABLE_BITS);
    return &rules[place & ((1UL << (table & RULE_TABLE_BITS)) - 1)];
}

#define RULE_EXACT_BIT (1UL << 63) /* in keys */

/* Returns the first place of a rule. Rules of one KiB of code stand near each other, because
 * addresses that are learnt together mostly lie together. The rules of a whole page may be too many
 * for that. */
INLINE uint64_t rule_place(uintptr_t key) {
    return hash_mix(key >> 10, 0) << 6 | (((key >> 6) ^ key) & 63);
}

uint64_t unwind_rules_find_further(uintptr_t key);

/* Returns the packed rule for a return address. `exact`: a signal interrupted the program at the
 * address. */
INLINE uint64_t unwind_rules_find(uintptr_t address, bool exact) {
    uintptr_t key = address | (exact ? RULE_EXACT_BIT : 0);
    uintptr_t table = load_acquire(&unwind_rules_table);
    if (LIKELY(table)) {
        const struct rule *rule = rule_at(table, rule_place(key));
        if (LIKELY(load_acquire(&rule->key) == key)) {
            uint64_t packed = load_acquire(&rule->packed);
            if (LIKELY(packed) && LIKELY(load_relaxed(&rule->key) == key))
                return packed;
        }
    }
    return unwind_rules_find_further(key);
}
/* A packed rule, from its lowest bit on: the kind (3 bits), how rbp is saved (2), the offset of the
 * saved rbp in words (11), the offset of the CFA in words (24), the number of the folded function
 * that holds the address (12; 0: it is not folded, see functions.h), the module (12). */
#define RULE_CFA_SHIFT 16U
#define RULE_FOLDED_SHIFT 40U
#define RULE_MODULE_SHIFT 52U
#define RULE_FOLDED_MAX 4095U
#define RULE_FOLDED_PLACES 1024U /* numbers are 1 to this */

/* Returns 0 if the rules are equal in everything except the function and the module. */
INLINE uint64_t rule_difference(uint64_t a, uint64_t b) {
    return (a ^ b) << (64 - RULE_FOLDED_SHIFT);
}
INLINE bool rule_steps_alike(uint64_t a, uint64_t b) {
    return !rule_difference(a, b);
}
INLINE enum cfi_kind rule_kind(uint64_t packed) {
    return (enum cfi_kind)(packed & 7);
}
INLINE enum cfi_rbp rule_rbp(uint64_t packed) {
    return (enum cfi_rbp)(packed >> 3 & 3);
}
INLINE int32_t rule_rbp_offset(uint64_t packed) {
    return (int32_t)((int64_t)(packed << 48) >> 53) * 8;
}
INLINE int32_t rule_cfa_offset(uint64_t packed) {
    return (int32_t)((int64_t)(packed << (64 - RULE_FOLDED_SHIFT)) >> (64 - 24)) * 8;
}
INLINE uint32_t rule_folded(uint64_t packed) {
    return (uint32_t)(packed >> RULE_FOLDED_SHIFT) & RULE_FOLDED_MAX;
}
INLINE uint32_t rule_module(uint64_t packed) {
    uint32_t module = (uint32_t)(packed >> RULE_MODULE_SHIFT);
    return module == MODULES_MAX ? MODULE_NONE : module;
}

/* Looks up the start of the function that holds the key's address, by its unwind information; 0:
 * there is none. */
uintptr_t unwind_rules_function_start(uintptr_t key);

/* Gives each known rule the function number that `folded` returns for its address. */
void unwind_rules_number_functions(uint32_t (*folded)(uintptr_t key));
/* Returns the function number for an address that is being learnt, under unwind_rules_lock. NULL:
 * no function is folded. */
INTERNAL uint32_t (*unwind_rules_folded)(uintptr_t function);

uint32_t
unwind_rules_module_count(void); /* modules below it are valid and constant but for `closed` */
const struct module *unwind_rules_module(uint32_t index);
/* Forgets every rule and every cached path (depth changed, library closed). */
void unwind_rules_new_generation(void);
void unwind_rules_init(void);
void unwind_rules_fork_child(void);
uint64_t unwind_rules_count(void);

#endif
