/* SPDX-License-Identifier: MIT */
/* Walks stacks by libunwind, and counts comparisons; see oracle.h. */
#include "path/oracle.h"
#include "base/options.h"
#include "os/libc.h"

#include <dlfcn.h>
#include <errno.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>

/* most frames of this library that a walk may meet before the program's first frame */
#define OWN_FRAMES_MAX 24

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

struct oracle_counts oracle_counts;
/* Atomic: number of threads inside libunwind, which has locks of its own. */
static uint32_t active START_PAGE;

static struct {
    int (*save)(unw_tdep_context_t *);
    __typeof__(&unw_init_local) init;
    __typeof__(&unw_step) step;
    __typeof__(&unw_flush_cache) flush;
    unw_addr_space_t *space;
    __typeof__(&unw_get_reg) get_register;
} unwinder START_PAGE;

bool oracle_load(void) {
    if (!os_libc.open)
        return false;
    void *library =
        OS_TRY_POINTER(os_libc.open("libunwind.so.8", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
    if (!library)
        return false;
    unwinder.save =
        (int (*)(unw_tdep_context_t *))os_libc.symbol(library, TEXT(unw_tdep_getcontext));
    unwinder.init = (__typeof__(&unw_init_local))os_libc.symbol(library, TEXT(unw_init_local));
    unwinder.step = (__typeof__(&unw_step))os_libc.symbol(library, TEXT(unw_step));
    unwinder.flush = (__typeof__(&unw_flush_cache))os_libc.symbol(library, TEXT(unw_flush_cache));
    unwinder.space = os_libc.symbol(library, TEXT(unw_local_addr_space));
    __typeof__(&unw_get_reg) get =
        (__typeof__(&unw_get_reg))os_libc.symbol(library, TEXT(unw_get_reg));
    if (!unwinder.save || !unwinder.init || !unwinder.step || !unwinder.flush || !unwinder.space ||
        !get)
        return false;
    store_release(&unwinder.get_register, get);
    return true;
}

bool oracle_is_loaded(void) {
    return load_acquire(&unwinder.get_register) != NULL;
}

/* Empties libunwind's cache if a library was closed: libunwind remembers unwind information by
 * address, and another library may have the address now. */
static void forget_closed_libraries(void) {
    static uint32_t flushed;
    uint32_t generation = load_acquire(&unwind_rules_generation);
    if (exchange_relaxed(&flushed, generation) != generation)
        unwinder.flush(*unwinder.space, 0, 0);
}

static COLD void report(const uintptr_t *ours, const uintptr_t *theirs, unsigned at,
                        unsigned count) {
    char line[256];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    text_add(&text, "memctx: call path differs from libunwind's at frame ");
    text_add_number(&text, at);
    text_add(&text, " of ");
    text_add_number(&text, count);
    text_add(&text, ": ");
    text_add_hex(&text, ours[at]);
    text_add(&text, " against ");
    text_add_hex(&text, theirs[at]);
    text_add(&text, ", below it ");
    text_add_hex(&text, at ? ours[at - 1] : 0);
    text_add(&text, "\n");
    os_print(&text);
}

static unsigned walk(uintptr_t first, uintptr_t *addresses, unsigned max, bool *complete) {
    unsigned found = 0, skipped = 0;
    unw_context_t context;
    unw_cursor_t cursor;
    *complete = false;
    forget_closed_libraries();
    if (unwinder.save(&context) || unwinder.init(&cursor, &context) < 0)
        return 0;
    while (found < max) {
        unw_word_t ip;
        *complete = unwinder.step(&cursor) <= 0;
        if (*complete || unwinder.get_register(&cursor, UNW_REG_IP, &ip) < 0 || !ip)
            break;
        if (!found && ip != first && ++skipped < OWN_FRAMES_MAX)
            continue;
        addresses[found++] = ip;
    }
    return found;
}

NOINLINE unsigned oracle_walk(uintptr_t first, uintptr_t *addresses, unsigned max, bool *complete) {
    int saved = errno; /* libunwind reads memory by system calls of libc, which write errno */
    add_relaxed(&active, 1);
    order_stores();
    unsigned found = walk(first, addresses, max, complete);
    order_stores();
    add_relaxed(&active, -1U);
    errno = saved;
    return found;
}

void oracle_judge(const uintptr_t *ours, const uintptr_t *theirs, unsigned at, unsigned count,
                  bool shorter) {
    static bool reported; /* one message is enough; `mismatches` says how often paths differ */
    add_relaxed(&oracle_counts.checked, 1);
    add_relaxed(&oracle_counts.shorter, shorter);
    if (at == count)
        return;
    add_relaxed(&oracle_counts.mismatches, 1);
    if (options.verbose && !exchange_relaxed(&reported, true))
        report(ours, theirs, at, count);
}

COLD void oracle_fork_child(void) {
    if (load_relaxed(&active))
        store_owner(&unwinder.get_register, NULL);
}
