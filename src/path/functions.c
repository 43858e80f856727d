/* SPDX-License-Identifier: MIT */
/* Functions of return addresses, and the folded ones; see functions.h. */
#include "path/functions.h"
#include "os/meta.h"
#include "region/tables.h"

#define FUNCTIONS_MAX 4096U
#define FOLDED_PLACES RULE_FOLDED_PLACES /* a power of two; at most half of them are used */
#define FOLD_LIMIT_MIN (768 << 10)       /* of the tables; what is below has no room for these */
#define RECURRING 1024U
#define RECURS_OFTEN 64U /* paths on which a function stands twice, until it is folded */
#define RECURS_TOO 16U   /* and until it is folded together with one that has come so far */

static struct functions {
    struct {
        uintptr_t key, start;
    } entries[FUNCTIONS_MAX];        /* by a hash of the key */
    uintptr_t folded[FOLDED_PLACES]; /* starts, hashed; the number of one is its place and 1 */
    struct recurring {
        uintptr_t start;
        uint32_t paths;
    } recurring[RECURRING]; /* by a hash of the start */
} * functions;              /* under rules_lock, all of it; NULL: not made yet */
static uint32_t generation; /* of the rules that the entries were made with */
uint32_t function_epoch;

/* The place in `folded` where a function is or belongs. */
static uint32_t folded_place(uintptr_t start) {
    uint64_t at = hash_mix(start, 1);
    while (functions->folded[at % FOLDED_PLACES] && functions->folded[at % FOLDED_PLACES] != start)
        at++;
    return (uint32_t)(at % FOLDED_PLACES);
}

static uint32_t number_of(uintptr_t start) {
    uint32_t place = folded_place(start);
    return functions->folded[place] ? place + 1 : 0;
}

static uintptr_t start_of(uintptr_t key) {
    uint64_t at = hash_mix(key, 0) % FUNCTIONS_MAX;
    if (functions->entries[at].key != key) {
        functions->entries[at].start = rules_function_start(key);
        functions->entries[at].key = key;
    }
    return functions->entries[at].start;
}

static uint32_t number_of_key(uintptr_t key) {
    uintptr_t start = start_of(key);
    return start ? number_of(start) : 0;
}

/* False: no memory, or none of the budget. */
static bool make(void) {
    if (functions)
        return true;
    if (load_relaxed(&tables_limit_known) < (int64_t)(FOLD_LIMIT_MIN) ||
        !tables_take(sizeof *functions, TABLES_ADMITTED))
        return false;
    functions = meta_alloc(sizeof *functions);
    if (!functions)
        tables_add(-(int64_t)sizeof *functions);
    return functions;
}

/* A library that was closed may have given its addresses to another one. */
static void forget_addresses(void) {
    if (generation == load_relaxed(&rules_generation))
        return;
    generation = rules_generation;
    for (unsigned i = 0; i < FUNCTIONS_MAX; i++)
        functions->entries[i].key = 0;
}

uintptr_t function_of(uintptr_t address, bool exact) {
    uintptr_t key = address | (exact ? RULE_EXACT_BIT : 0), start = 0;
    lock_take(&rules_lock);
    if (make()) {
        forget_addresses();
        start = start_of(key);
    }
    lock_release(&rules_lock);
    return start;
}

/* All functions that recur on so many paths: each time the numbers of all rules are written anew, and
 * all threads forget what they know of their stacks. */
static void fold(void) {
    for (unsigned i = 0; i < RECURRING; i++) {
        struct recurring *recurring = &functions->recurring[i];
        if (recurring->paths < RECURS_TOO || function_epoch >= FOLDED_PLACES / 2)
            continue;
        functions->folded[folded_place(recurring->start)] = recurring->start;
        recurring->paths = 0;
        store_release(&function_epoch, function_epoch + 1);
    }
    rules_folded = number_of;
    rules_number_functions(number_of_key);
}

void function_recurs(uintptr_t function) {
    lock_take(&rules_lock);
    if (make() && !number_of(function)) {
        struct recurring *recurring = &functions->recurring[hash_mix(function, 2) % RECURRING];
        if (recurring->start != function)
            *recurring = (struct recurring){.start = function};
        if (++recurring->paths >= RECURS_OFTEN) {
            forget_addresses();
            fold();
        }
    }
    lock_release(&rules_lock);
}
