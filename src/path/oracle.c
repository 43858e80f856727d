/* SPDX-License-Identifier: MIT */
/* Walks stacks by libunwind, and counts comparisons; see oracle.h. */
#include "path/oracle.h"
#include "base/options.h"
#include "os/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <time.h>

/* most frames of this library that a walk may meet before the program's first frame */
#define OWN_FRAMES_MAX 24

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

struct oracle_counts oracle_counts;
/* Atomic: number of threads inside libunwind, which has locks of its own. */
static uint32_t active START_PAGE;
static uint32_t forking START_PAGE; /* atomic: number of threads that fork; then no walk begins */

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

struct request {
    uintptr_t first, *addresses;
    unsigned max, found;
    bool *complete;
};

/* Called by dl_iterate_phdr for the first object. */
static int walk_with_loader(struct dl_phdr_info *object, size_t bytes, void *context) {
    struct request *request = context;
    (void)object;
    (void)bytes;
    request->found = walk(request->first, request->addresses, request->max, request->complete);
    return 1;
}

/* libunwind calls dl_iterate_phdr, which takes a lock of the loader's, while it holds a lock of its
 * own. A thread that allocates in a callback of dl_iterate_phdr needs the two locks in the other
 * order. So here each thread takes the loader's lock first. No signal may come meanwhile: its
 * handler could leave by a jump. */
NOINLINE unsigned oracle_walk(uintptr_t first, uintptr_t *addresses, unsigned max, bool *complete) {
    struct request request = {first, addresses, max, 0, complete};
    uint64_t all = UINT64_MAX, before = 0;
    int saved = errno; /* libunwind reads memory by system calls of libc, which write errno */
    os_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all, 0, 0);
    add_full(&active, 1);
    if (!load_full(&forking))
        dl_iterate_phdr(walk_with_loader, &request);
    add_full(&active, -1U);
    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    errno = saved;
    return request.found;
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

/* A walk takes some 0.1 ms; the pauses together take 0.3 s. */
#define PAUSE_NS 100000
#define PAUSES_MOST 3000

COLD void oracle_fork_prepare(void) {
    if (!oracle_is_loaded())
        return;
    add_full(&forking, 1);
    for (int i = 0; i < PAUSES_MOST && load_full(&active); i++)
        os_sleep(&(struct timespec){.tv_nsec = PAUSE_NS});
}

COLD void oracle_fork_done(bool child) {
    if (!oracle_is_loaded())
        return;
    if (child && load_relaxed(&active))
        store_owner(&unwinder.get_register, NULL);
    if (child)
        store_owner(&forking, 0);
    else
        add_full(&forking, -1U);
}
