/* SPDX-License-Identifier: MIT */
/* Finds the function of a return address, and folds functions that recur; see functions.h. */
#include "path/functions.h"
#include "os/meta.h"
#include "region/tables.h"

#define FUNCTIONS_MAX 4096U
#define FOLDED_PLACES RULE_FOLDED_PLACES /* a power of two; at most half of them are used */
#define FOLDED_TRIED 16U /* the place of a folded function is one of this many neighbours */
/* functions are folded only if the limit of the tables budget is at least this: a smaller limit has
 * no room for `functions` */
#define FOLD_LIMIT_MIN (768 << 10)
#define ALIKE_LOOKS 16U    /* how often function_alike reads the entry of one function */
#define RECURRING 1024U    /* entries for functions that recur; a power of two */
#define RECURRING_TRIED 8U /* a function's entry is one of this many neighbours */
#define RECURS_OFTEN 64U   /* a function is folded when it stands twice on this many paths */
/* a function that stands twice on this many paths is folded together with a function that reached
 * RECURS_OFTEN */
#define RECURS_TOO 16U

static struct functions {
    struct {
        uintptr_t key;
        /* offset of the key's address in its function, and the function's bytes; 0 bytes: not
         * known */
        uint32_t offset, bytes;
    } entries[FUNCTIONS_MAX]; /* functions of addresses, found by a hash of the key */
    /* starts of folded functions, hashed; 0: free. A function's number is its place plus 1. */
    uintptr_t folded[FOLDED_PLACES];
    /* by the place of a folded function: the code that function_alike found last, the rule of its
     * calls, how often code was looked for, and the bytes of the whole function */
    struct alike {
        struct cfi_function code;
        uint64_t rule;
        uint32_t looks, bytes;
    } alike[FOLDED_PLACES];
    /* a folded function was forgotten, so a free place may stand in front of the place of another
     * function */
    bool folded_has_gaps;
    struct recurring {
        uintptr_t start;
        uint32_t bytes, paths;
    } recurring[RECURRING];       /* functions that recur; a search begins at a hash of the start */
    struct function_set unfolded; /* folded functions that are unfolded at present */
} * functions;                    /* guarded by unwind_rules_lock; NULL: not made yet */
static uint32_t generation;       /* unwind_rules_generation when the entries were made */
uint32_t function_epoch, function_count;

/* Returns the number of a folded function, even if the function is unfolded at present; 0: the
 * function is not folded. */
static uint32_t folded_number(uintptr_t start) {
    uint64_t at = hash_mix(start, 1);
    for (unsigned i = 0; start && i < FOLDED_TRIED; i++) {
        uintptr_t folded = functions->folded[(at + i) % FOLDED_PLACES];
        if (folded == start)
            return (uint32_t)((at + i) % FOLDED_PLACES) + 1;
        if (!folded && !functions->folded_has_gaps)
            return 0;
    }
    return 0;
}

/* Gives a function a number. False: all places for the function are taken. This hardly ever
 * happens, because at most half of the places are in use. A number that is unfolded at present is
 * not given: the unfolding belongs to the number's last function, whose library was closed. */
static bool folded_add(struct cfi_function function) {
    uint64_t at = hash_mix(function.start, 1);
    for (unsigned i = 0; i < FOLDED_TRIED; i++) {
        uint32_t place = (uint32_t)((at + i) % FOLDED_PLACES);
        if (functions->folded[place] || function_set_has(&functions->unfolded, place + 1))
            continue;
        functions->folded[place] = function.start;
        functions->alike[place] = (struct alike){.bytes = function.bytes};
        store_owner(&function_count, function_count + 1);
        return true;
    }
    return false;
}

/* Forgets the functions between two addresses, because another module was loaded there. If the
 * last module that was closed there is loaded again, its functions stay folded. */
static void forget_functions(uintptr_t start, uintptr_t end) {
    for (uint32_t place = 0; place < FOLDED_PLACES; place++)
        if (functions->folded[place] >= start && functions->folded[place] < end) {
            functions->folded[place] = 0;
            functions->alike[place].bytes = 0;
            functions->folded_has_gaps = true;
            store_owner(&function_count, function_count - 1);
        }
    for (unsigned i = 0; i < RECURRING; i++)
        if (functions->recurring[i].start >= start && functions->recurring[i].start < end)
            functions->recurring[i] = (struct recurring){0};
}

/* Returns the number of a folded function; 0: not folded, or unfolded at present. */
static uint32_t number_of(uintptr_t start) {
    uint32_t number = folded_number(start);
    return number && function_set_has(&functions->unfolded, number) ? 0 : number;
}

/* Returns the function that holds the key's address, from `entries` or from .eh_frame; start 0: not
 * known. */
static struct cfi_function function_of(uintptr_t key) {
    uintptr_t pc = unwind_rules_pc(key);
    uint64_t at = hash_mix(key, 0) % FUNCTIONS_MAX;
    if (functions->entries[at].key != key) {
        struct cfi_function found = unwind_rules_function(key);
        functions->entries[at].offset = (uint32_t)(pc - found.start);
        functions->entries[at].bytes = found.bytes;
        functions->entries[at].key = key;
    }
    uint32_t bytes = functions->entries[at].bytes;
    return (struct cfi_function){bytes ? pc - functions->entries[at].offset : 0, bytes};
}

static uint32_t number_of_key(uintptr_t key) {
    uintptr_t start = function_of(key).start;
    return start ? number_of(start) : 0;
}

/* Makes the tables if they do not exist yet. False: no memory, the budget is used up, or its limit
 * is below FOLD_LIMIT_MIN. */
static bool make(void) {
    if (functions)
        return true;
    if (load_relaxed(&tables_limit_known) < (int64_t)(FOLD_LIMIT_MIN) ||
        !tables_take(sizeof *functions, TABLES_ADMITTED))
        return false;
    functions = meta_alloc(sizeof *functions);
    if (!functions)
        tables_add(-(int64_t)sizeof *functions);
    else
        unwind_rules_replaced = forget_functions;
    return functions;
}

/* Forgets the functions of all addresses if a library was closed, because another library may have
 * these addresses now. */
static void forget_addresses(void) {
    if (generation == load_relaxed(&unwind_rules_generation))
        return;
    generation = unwind_rules_generation;
    for (unsigned i = 0; i < FUNCTIONS_MAX; i++)
        functions->entries[i].key = 0;
}

void functions_look_begins(void) {
    lock_take(&unwind_rules_lock);
    if (make())
        forget_addresses();
}

void functions_look_ends(void) {
    lock_release(&unwind_rules_lock);
}

struct cfi_function function_to_watch(uintptr_t address, bool exact) {
    struct cfi_function none = {0}, function;
    if (!functions)
        return none;
    function = function_of(address | (exact ? RULE_EXACT_BIT : 0));
    bool unfolded = folded_number(function.start) && !number_of(function.start);
    return function.start && unfolded ? none : function;
}

struct cfi_function function_alike(uint32_t number, uintptr_t address, uint64_t rule) {
    struct alike *alike = functions ? &functions->alike[number - 1] : NULL;
    if (!alike)
        return (struct cfi_function){0};
    if (function_holds(alike->code, address, false) && rule_steps_alike(alike->rule, rule))
        return alike->code;
    if (alike->looks == ALIKE_LOOKS)
        return (struct cfi_function){0};
    alike->looks++;
    alike->rule = rule;
    return alike->code = unwind_rules_alike(address);
}

static bool folded_holds(uint32_t place, uintptr_t address, bool exact) {
    struct cfi_function function = {functions->folded[place], functions->alike[place].bytes};
    return function_holds(function, address, exact);
}

/* The address need not be on the caller's stack, so another thread may be unmapping its library.
 * Therefore this function reads no unwind information, but looks through all folded functions. */
uint32_t function_number(uintptr_t address, bool exact) {
    uint32_t number = 0;
    lock_take(&unwind_rules_lock);
    for (uint32_t place = 0; functions && !number && place < FOLDED_PLACES; place++)
        if (folded_holds(place, address, exact))
            number = place + 1;
    lock_release(&unwind_rules_lock);
    return number;
}

void functions_unfold(const struct function_set *set) {
    lock_take(&unwind_rules_lock);
    bool changes = functions && __builtin_memcmp(&functions->unfolded, set, sizeof *set) != 0;
    if (changes) {
        functions->unfolded = *set;
        store_release(&function_epoch, function_epoch + 1);
    }
    lock_release(&unwind_rules_lock);
    if (changes) /* no thread may find a trace from before the change */
        unwind_rules_new_generation();
}

/* Folds all functions that recur on at least RECURS_TOO paths. They are folded together, because
 * each call of fold changes the numbers in all rules and makes all threads forget their stacks. */
static void fold(void) {
    bool changes = false;
    for (unsigned i = 0; i < RECURRING; i++) {
        struct recurring *recurring = &functions->recurring[i];
        if (recurring->paths < RECURS_TOO || function_count >= FOLDED_PLACES / 2)
            continue;
        if (!folded_number(recurring->start) &&
            folded_add((struct cfi_function){recurring->start, recurring->bytes}))
            changes = true;
        recurring->paths = 0;
    }
    if (!changes)
        return;
    unwind_rules_folded = number_of;
    unwind_rules_number_functions(number_of_key);
    /* The epoch changes last, so a thread that sees the new epoch reads the new numbers. */
    store_release(&function_epoch, function_epoch + 1);
}

uint32_t function_epoch_settled(void) {
    lock_take(&unwind_rules_lock); /* fold holds it */
    uint32_t epoch = function_epoch;
    lock_release(&unwind_rules_lock);
    return epoch;
}

/* Returns the function's entry. A new function gets the entry of the one that recurred least: if
 * two functions took the only entry away from each other, none would ever be folded. */
static struct recurring *recurring_of(struct cfi_function function) {
    uint64_t at = hash_mix(function.start, 2);
    struct recurring *least = &functions->recurring[at % RECURRING];
    for (unsigned i = 0; i < RECURRING_TRIED; i++) {
        struct recurring *entry = &functions->recurring[(at + i) % RECURRING];
        if (entry->start == function.start)
            return entry;
        if (entry->paths < least->paths)
            least = entry;
    }
    *least = (struct recurring){.start = function.start, .bytes = function.bytes};
    return least;
}

void function_recurs(struct cfi_function function) {
    lock_take(&unwind_rules_lock);
    /* If the table of folded functions is full, fold would only make all threads forget their
     * stacks. */
    if (make() && function_count < FOLDED_PLACES / 2 && !folded_number(function.start)) {
        struct recurring *recurring = recurring_of(function);
        if (++recurring->paths >= RECURS_OFTEN) {
            forget_addresses();
            fold();
        }
    }
    lock_release(&unwind_rules_lock);
}
