/* SPDX-License-Identifier: MIT */
/*
 * unwind_rules.h - keeps one unwind rule for each return address, learnt once for the whole
 * process, and a description of each module that holds such an address.
 *
 * Look-ups take no lock: the table holds {key, packed rule}, 16 bytes an entry, and the key is
 * written last. Learning takes unwind_rules_lock, but does not hold it while it reads .eh_frame.
 * When a library is closed, the loader frees its link map (through this library's free). The page
 * that holds the link map is watched, so this free starts a new generation with an empty table,
 * before the loader can map anything at the library's addresses. The page of an isolate of V8 is
 * watched for the same reason (v8.h).
 */
#ifndef MEMCTX_UNWIND_RULES_H
#define MEMCTX_UNWIND_RULES_H

#include "os/os.h"
#include "path/cfi.h"

#define MODULES_MAX 4095U
#define MODULE_NONE 0xffffU
/* A forked child does not keep the first RULES_QUIET rules that it learns. Most of them are rules
 * of code that ends the child. Keeping them would copy two OS pages, which costs more than learning
 * some of them again. */
#define RULES_QUIET 8

struct module {
    uintptr_t start, end, bias; /* `bias` is the loaded address minus the address in the file */
    const char *path;
    const void *link_map; /* the loader's description of the object */
    uint32_t build_id_bytes;
    uint8_t build_id[24];
    bool closed; /* atomic: dlclose unloaded the object */
    bool loader; /* the object is libc or the dynamic linker */
    /* since dlclose unloaded the object, another one was loaded at some of its addresses */
    bool replaced;
    /* Was loaded before the program began, so it is never unloaded. The loader's description of any
     * other object is a chunk of this library. */
    bool permanent;
};

struct rule {
    uintptr_t key;   /* a return address, see RULE_EXACT_BIT; 0: the place is free */
    uint64_t packed; /* 0: the rule was forgotten, or the table is emptied at this moment */
};

INTERNAL struct lock unwind_rules_lock;
/* Atomic. When the generation changes, every cache of paths is invalid. */
INTERNAL uint32_t unwind_rules_generation;
/* Atomic, never 0. When the version changes, copies of rules are invalid. The version changes with
 * the generation, and when functions are folded. */
INTERNAL uint32_t unwind_rules_version;

/* The address of the table of rules. Its lowest bits, which alignment leaves free, are the size of
 * the table, as the base-2 logarithm of the number of places. A reader gets both in one load.
 * 0: no table. */
#define RULE_TABLE_BITS 63UL
INTERNAL uintptr_t unwind_rules_table; /* atomic */
INLINE struct rule *rule_at(uintptr_t table, uint64_t place) {
    struct rule *rules = (struct rule *)(table & ~RULE_TABLE_BITS);
    return &rules[place & ((1UL << (table & RULE_TABLE_BITS)) - 1)];
}

/* Set in a key when a signal interrupted the program at the address. */
#define RULE_EXACT_BIT (1UL << 63)

/* Returns the first place to look for a rule. The rules of one KiB of code have 64 places beside
 * each other, because addresses that are learnt together mostly lie together. The rules of a larger
 * piece, such as an OS page of code, may be too many for 64 places. */
INLINE uint64_t rule_place(uintptr_t key) {
    return hash_mix(key >> 10, 0) << 6 | (((key >> 6) ^ key) & 63);
}

/* Finds a rule that is not at its first place, or reads it from .eh_frame and adds it to the table.
 * Returns the packed rule; its kind is CFI_NONE if there is no usable information. */
uint64_t unwind_rules_find_or_learn(uintptr_t key);

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
    return unwind_rules_find_or_learn(key);
}
/* A packed rule, from its lowest bit on: the kind (3 bits), how rbp is saved (2), the offset of the
 * saved rbp in words (11), the offset of the CFA in words (24), the number of the folded function
 * that holds the address (12; 0: it is not folded, see functions.h), the module (12). */
#define RULE_CFA_SHIFT 16U
#define RULE_FOLDED_SHIFT 40U
#define RULE_MODULE_SHIFT 52U
#define RULE_FOLDED_MAX 4095U
#define RULE_FOLDED_PLACES 1024U /* numbers of folded functions are 1 to RULE_FOLDED_PLACES */

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

/* Returns an address inside the calling instruction. A call that does not return may be the last
 * instruction of its function; the return address then belongs to the next function. */
INLINE uintptr_t unwind_rules_pc(uintptr_t key) {
    return key & RULE_EXACT_BIT ? key & ~RULE_EXACT_BIT : key - 1;
}
/* Returns the function that holds the key's address. Its start is 0 if the function is not known.
 * This function and the next one read unwind information, which another thread may be unmapping, in
 * dlclose. So the address must be on the caller's stack, or in a module that is `permanent`. */
struct cfi_function unwind_rules_function(uintptr_t key);
/* Returns the code around the key's address, within its function, in which every call has a rule
 * that makes the same step. Its start is 0 if this code is not known. Takes microseconds: reads the
 * whole entry of the function in .eh_frame. */
struct cfi_function unwind_rules_alike(uintptr_t key);

/* Stores in each known rule the number that `folded` returns for the rule's key; where `folded`
 * returns 0, the rule stays as it is. Rules of libraries that dlclose may unload are forgotten. The
 * caller holds unwind_rules_lock. */
void unwind_rules_number_functions(uint32_t (*folded)(uintptr_t key));
/* Returns the number of the folded function that starts at `function`; 0: the function is not
 * folded. Called under unwind_rules_lock when a rule is learnt. NULL: no function is folded. */
INTERNAL uint32_t (*unwind_rules_folded)(uintptr_t function);
/* Tells that a module between two addresses takes the place of another one, which was closed.
 * Called under unwind_rules_lock, before any rule of the module is packed. NULL: nothing depends on
 * it. */
INTERNAL void (*unwind_rules_replaced)(uintptr_t start, uintptr_t end);

/* For control/outside.c: the addresses of the modules and of their number. */
INTERNAL const struct module *const unwind_rules_shown;
INTERNAL const uint32_t *const unwind_rules_count_shown;
/* Modules with an index below the count are valid. Of their fields only `closed`, `replaced` and
 * `link_map` ever change, under unwind_rules_lock. */
uint32_t unwind_rules_module_count(void);
const struct module *unwind_rules_module(uint32_t index);
/* Finds the whole OS pages that hold the module's unwind information, from its sorted table to the
 * end of the segment. False: there are none, or the segment also holds code or variables. */
bool unwind_rules_frames(uint32_t index, uintptr_t *start, uintptr_t *end);
/* Makes every rule and every cached path invalid, as a closed library does. Called when the depth
 * has changed or functions were unfolded. */
void unwind_rules_new_generation(void);
void unwind_rules_init(void);
/* With a glibc that has no _dl_find_object: learns of code that dlopen has loaded, if a walk met
 * such code. For the constructor and the control thread; the caller holds no lock of the
 * library. */
void unwind_rules_look_at_objects(void);
void unwind_rules_fork_child(void);
uint64_t unwind_rules_count(void); /* rules in the table */

#endif
