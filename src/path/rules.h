/* SPDX-License-Identifier: MIT */
/*
 * rules.h - one unwind rule per return address, learnt once, for the whole process; and the
 * modules that code was seen in.
 *
 * Look-ups take no lock: a table of {key, packed rule}, 16 bytes an entry, key written last.
 * Learning takes rules_lock, but never while .eh_frame is read. When a library is closed its
 * link map is freed (through our own free): the page that holds it is watched, and the free
 * starts a new generation with empty tables, before the loader can map anything at its addresses.
 */
#ifndef MEMCTX_RULES_H
#define MEMCTX_RULES_H

#include "os/os.h"
#include "path/cfi.h"

#define MODULES_MAX 4096U
#define MODULE_NONE 0xffffU
/* The first rules that a forked child learns are of code that ends it, mostly, and to keep them costs
 * two copied pages, more than to find out twice. */
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
    uint64_t packed;
};

extern struct lock rules_lock;
extern uint32_t rules_generation; /* atomic; every cache of paths dies with it */

/* The packed rule for a return address; `exact`: the address was interrupted by a signal. */
uint64_t rules_find(uintptr_t address, bool exact);
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
    return (int32_t)(packed >> 16);
}
INLINE uint32_t rule_module(uint64_t packed) {
    return (uint32_t)(packed >> 48);
}

uint32_t rules_module_count(void); /* modules below it are valid and constant but for `closed` */
const struct module *rules_module(uint32_t index);
/* Forgets every rule and every cached path (depth changed, library closed). */
void rules_new_generation(void);
void rules_init(void);
void rules_fork_child(void);
uint64_t rules_count(void);

#endif
