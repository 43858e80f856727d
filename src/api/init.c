/* SPDX-License-Identifier: MIT */
/*
 * Process life: the constructor, fork, exit.
 *
 * The allocator itself needs no constructor: all its state starts as zeros, and the first malloc
 * may come long before the constructor runs. fork takes the locks that guard tables, in rank order,
 * so that the child finds these tables complete. It does not take the locks of the control thread's
 * start, of visits, of unmapping and of parked heaps: the child only makes them free, because no
 * other thread exists there. A lock that the forking thread already holds (fork in a signal
 * handler) stays with that thread: in the child the copy of the thread goes on and releases the
 * lock.
 */
#include "api/thread.h"
#include "context/tree.h"
#include "control/control.h"
#include "named/named.h"
#include "os/libc.h"
#include "os/meta.h"
#include "path/loaded.h"
#include "path/oracle.h"
#include "path/rebind.h"
#include "rules/rules.h"

#include <errno.h>
#include <memctx.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef MEMCTX_VERSION
#define MEMCTX_VERSION "unknown"
#endif

#ifdef MEMCTX_UNIT
static bool malloc_is_ours(void) {
    return true;
}
#else
/* False if the pointer is inside a chunk: another malloc keeps a header in front of its chunks. */
static bool is_start(const struct page *page, const void *chunk) {
    bool exact = true;
    if (page->kind == PAGE_OWN || page->kind == PAGE_MIXED)
        (void)blocks_index(page, blocks_granule(page, chunk), chunk, &exact);
    return exact;
}

/* True if the malloc that the program calls takes its chunks from this library's malloc. `exactly`:
 * true only if it returns these chunks as they are, without a header of its own. */
NOINLINE static bool malloc_comes_here(bool exactly) {
    static THREAD_LOCAL bool asking; /* the malloc may ask itself whether memctx is active */
    if (asking)
        return false;
    asking = true;
    void *chunk = malloc(1);
    const struct page *page = segment_page_of(chunk);
    bool ours = page && (!exactly || is_start(page, chunk));
    free(chunk);
    asking = false;
    return ours;
}

/* True if the program calls this library's malloc, perhaps through the malloc of another library.
 * Else the program's free would not know the chunks of contexts, or would look for its header in
 * front of them. */
static bool malloc_is_ours(void) {
    static bool known; /* atomic: the answer is true */
    if (!load_relaxed(&known) &&
        (rebind_malloc_is_ours((uintptr_t)&malloc) || malloc_comes_here(true)))
        store_release(&known, true);
    return load_relaxed(&known);
}
#endif

EXPORT const char *memctx_version(void) {
    return malloc_is_ours() ? MEMCTX_VERSION : NULL;
}

EXPORT int memctx_do_version_number(void) {
    return MEMCTX_VERSION_NUMBER;
}

#ifndef MEMCTX_UNIT
static struct lock *const fork_locks[] = {&region_lock, &tree_lock, &unwind_rules_lock};
#define FORK_LOCKS (sizeof fork_locks / sizeof fork_locks[0])

static void fork_prepare(void) {
    struct heap *heap = thread_heap_if_any();
    bool interrupted = lock_any_is_mine();
    if (heap) { /* a signal handler must not wait for locks that this thread takes below */
        heap->forks++;
        add_owner(&heap->busy, 1);
        order_stores();
    }
    control_fork_prepare();
    oracle_fork_prepare();
    /* The holder of loaded_lock may wait for the loader's lock, which this thread may hold in a
     * callback. So the wait for loaded_lock is bounded, as if a signal handler had called fork. */
    if (loaded_is_used())
        lock_fork_prepare(&loaded_lock, true);
    heap_fork_prepare(interrupted);
    for (size_t i = 0; i < FORK_LOCKS; i++)
        lock_fork_prepare(fork_locks[i], interrupted);
    segment_fork_prepare(interrupted);
    lock_fork_prepare(&meta_lock, interrupted);
}

static void fork_done(bool child) {
    struct heap *heap = thread_heap_if_any();
    /* False in a child if another thread was changing a table at the fork. Then the child's copy of
     * the table may be half changed, so figures are lost. */
    bool whole = meta_fork_done(child);
    whole &= segment_fork_done(child);
    for (size_t i = FORK_LOCKS; i-- > 0;)
        whole &= lock_fork_done(fork_locks[i], child);
    whole &= heap_fork_done(child);
    if (loaded_is_used())
        lock_fork_done(&loaded_lock, child);
    if (child) {
        if (!whole)
            add_relaxed(&heap_global.lost_views, 1);
        os_identity_fork_child();
        heap_fork_child(heap);
        context_fork_child(heap);
        unwind_rules_fork_child();
    }
    oracle_fork_done(child);
    control_fork_done(child, thread_heap_if_any() != NULL);
    if (heap && heap->forks) { /* 0: the thread got the heap after fork_prepare */
        heap->forks--;
        order_stores();
        add_owner(&heap->busy, -1);
    }
}

static void fork_parent(void) {
    fork_done(false);
}

static void fork_child(void) {
    fork_done(true);
}

/* Returns the value of an entry of the environment if the entry has this name, else NULL. `name`
 * ends with "=". */
static char *value_of(char *entry, const char *name) {
    size_t length = strlen(name);
    return __builtin_strncmp(entry, name, length) ? NULL : entry + length;
}

/* Removes this library from `list`, the value of LD_PRELOAD, by moving the other names forward.
 * False: no name is left. */
static bool leave_list(char *list) {
    char *rest = list, *begin = list;
    while (*list) {
        size_t length = 0;
        bool ours = false;
        while (list[length] && list[length] != ':' && list[length] != ' ')
            length++;
        for (size_t i = 0; i + 12 <= length; i++)
            ours |= !__builtin_memcmp(list + i, "libmemctx.so", 12);
        char *next = list + length + (list[length] != 0);
        if (length && !ours) {
            if (rest != begin)
                *rest++ = ':';
            memmove(rest, list, length);
            rest += length;
        }
        list = next;
    }
    *rest = 0;
    return rest != begin;
}

/* For `memctx run --no-children`: keeps the library out of programs that this process starts.
 * Changes `environ` without setenv, because some programs (bash) define a setenv of their own that
 * changes their own table, and later read `environ`. */
static void leave_environment(void) {
    if (!getenv("MEMCTX_NO_CHILDREN"))
        return;
    char **kept = environ;
    for (char **entry = environ; *entry; entry++) {
        char *list = value_of(*entry, "LD_PRELOAD=");
        if (!value_of(*entry, "MEMCTX_NO_CHILDREN=") && (!list || leave_list(list)))
            *kept++ = *entry;
    }
    *kept = NULL;
}

/* True for programs that change namespaces, or change the user and keep capabilities. With a second
 * thread, the kernel refuses a new user namespace, and a change of one thread's privileges leaves
 * the other thread's as they are (namespaces.c). So a launcher gets no control thread. The program
 * that it then executes starts its control thread as usual. */
static bool is_launcher(const char *name) {
    static const char launchers[][8] = {"bwrap", "capsh", "nsenter", "setpriv", "unshare"};
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (text_equal(name, launchers[i]))
            return true;
    return false;
}

/* True for a process of Chromium, or of a program built on it, that will enter a sandbox. Such a
 * process ends itself when it finds a second thread before it enters the sandbox. */
static bool is_browser_helper(int count, char *const *arguments) {
    static const char types[][12] = {"broker", "gpu-process", "renderer", "utility", "zygote"};
    bool helper = false;
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        if (text_equal(argument, "--no-sandbox"))
            return false;
        if (__builtin_strncmp(argument, "--type=", 7) != 0)
            continue;
        for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
            helper |= text_equal(argument + 7, types[k]);
    }
    return helper;
}

/* pthread_atfork of every glibc calls this function. `library` is an address that identifies the
 * calling library. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *library);
static void *const library_handle = (void *)&library_handle;

/* True in a program that is linked with libstdc++ or libc++. */
static bool has_cxx_library(void) {
    extern void new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
    return new_handler != NULL;
}

/* Prints that the program does not call this library's malloc. `file` has the malloc that the
 * program calls: a sanitizer's run-time library, another preloaded library, or a linked allocator.
 * NULL: the program calls this library's malloc, and nothing is printed. */
static void tell_of_other_malloc(const char *file) {
    char line[1024];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    if (!file)
        return;
    text_add(&text, "memctx: malloc calls go to ");
    text_add_word(&text, file, 900);
    text_add(&text, ", not to memctx; only the memory that is allocated from memctx is counted\n");
    os_print(&text);
}

/* True if a library in front of this library has a malloc of its own that takes the chunks from
 * this library's malloc, as libraries do that count or limit allocations. To find out, calls that
 * malloc. Returns false without a call if the malloc is in the program itself, or in a library with
 * constructors: the constructors have not run yet, and such a malloc may not work before they have
 * run. */
static bool malloc_is_passed_on(void) {
    const char *file = rebind_other_malloc((uintptr_t)&malloc);
    if (!file || !text_has(file, "/") || rebind_other_has_constructors((uintptr_t)&malloc))
        return false;
    return malloc_comes_here(false);
}

/* False in a program that has more rights than its caller, who set the environment: a program with
 * a set-user-ID bit or with capabilities, called by another user than root. /etc/ld.so.preload puts
 * the library into such a program. */
static bool environment_is_trusted(void) {
    return !getauxval(AT_SECURE) || !getauxval(AT_UID);
}

/* Room for a warning for each setting, and for about forty rules. */
#define WARNINGS_BYTES 16384

/* Prints the warnings about settings and rules. If there was no room for all, prints those that are
 * complete, and says that there are more. */
static void print_warnings(struct text *warnings) {
    static const char more[] = "memctx: more rules of MEMCTX_RULES are not understood; memctx run "
                               "--rule says what is wrong with a rule\n";
    while (warnings->full && warnings->length && warnings->bytes[warnings->length - 1] != '\n')
        warnings->length--;
    if (warnings->length)
        os_print(warnings);
    if (warnings->full)
        os_print(&(struct text){.bytes = (char *)(uintptr_t)more, .length = sizeof more - 1});
}

__attribute__((constructor)) static void start(int count, char **arguments) {
    char lines[WARNINGS_BYTES];
    struct text warnings = {.bytes = lines, .capacity = sizeof lines};
    int64_t run_pid = 0;
    bool trusted = environment_is_trusted();
    const char *run = trusted ? getenv("MEMCTX_RUN_PID") : NULL;
    os_clock_init(rebind_in_libc("clock_gettime"));
    if (trusted)
        options_read(environ, &warnings);
    /* ranges of code that rules match, as the command found them */
    const char *ranges = trusted ? getenv(WIRE_RANGES_VARIABLE) : NULL;
    policy_rules_init(trusted ? getenv("MEMCTX_RULES") : NULL, ranges, &warnings);
    print_warnings(&warnings);
    os_identity_init();
    /* Before glibc 2.34 os_libc_init calls malloc. A malloc in front of this library's may not work
     * yet; then the library finds ended threads by their ids, unless the process is linked with
     * libpthread. */
    if (rebind_malloc_is_ours((uintptr_t)&malloc))
        os_libc_init(options.verify || has_cxx_library());
    unwind_rules_init();
    unwind_rules_new_generation(); /* earlier traces do not have options.depth */
    policy_rules_begin(ranges);
    /* rebind_libc needs a process with one thread. */
    if (load_relaxed(&heap_global.threads_seen) <= 1)
        rebind_libc((uintptr_t)&malloc, malloc_is_passed_on());
    if (options.verbose)
        tell_of_other_malloc(rebind_other_malloc((uintptr_t)&malloc));
    thread_init();
    OS_TRY_ERROR(__register_atfork(fork_prepare, fork_parent, fork_child, library_handle));
    if (options.verify && !oracle_load()) {
        static const char line[] = "memctx: libunwind.so.8 cannot be loaded; MEMCTX_VERIFY does "
                                   "nothing; install libunwind8\n";
        os_print(&(struct text){.bytes = (char *)line, .length = sizeof line - 1});
    }
    /* True in the process that `memctx run` started, false in the programs that this process
     * starts. */
    bool at_once = run && text_to_number(run, &run_pid) && run_pid == os_process_id();
    if (!trusted || is_launcher(program_invocation_short_name) ||
        is_browser_helper(count, arguments))
        options.control = CONTROL_OFF;
    if (trusted)
        leave_environment();
    control_init(at_once, trusted ? getenv("MEMCTX_RECORD") : NULL);
}

__attribute__((destructor)) static void stop(void) {
    control_exit();
}
#endif
