/* SPDX-License-Identifier: MIT */
/* Functions of libc that an older glibc keeps in libraries of their own; see libc.h. */
#include "os/libc.h"

#include <dlfcn.h>
#include <signal.h>

/* These functions are weak, because the process may lack them: only glibc 2.34 and newer have them
 * in libc.so.6. */
#pragma weak pthread_create
#pragma weak pthread_join
#pragma weak pthread_attr_setstack
#pragma weak pthread_attr_setstacksize
#pragma weak pthread_key_create
#pragma weak pthread_key_delete
#pragma weak pthread_setspecific
#pragma weak dlopen
#pragma weak dlsym

/* glibc before 2.34 has these two functions in libc.so.6, for its own use. In a program without
 * libdl.so.2 they are the only way to the loader. */
extern void *libc_open(const char *name, int mode) __asm__("__libc_dlopen_mode")
    __attribute__((weak));
extern void *libc_symbol(void *library, const char *name) __asm__("__libc_dlsym")
    __attribute__((weak));
#define LIBC_OPEN_MODE (RTLD_NOW | (int)0x80000000) /* the flag that dlopen adds by itself */

struct os_libc os_libc START_PAGE = {
    .thread_create = pthread_create,
    .thread_join = pthread_join,
    .set_stack = pthread_attr_setstack,
    .set_stack_size = pthread_attr_setstacksize,
    .key_create = pthread_key_create,
    .key_delete = pthread_key_delete,
    .key_set = pthread_setspecific,
    .open = dlopen,
    .symbol = dlsym,
};

static COLD void load_threads(void) {
    void *library = libc_open("libpthread.so.0", LIBC_OPEN_MODE);
    if (!library)
        return;
#define LOAD(field, name)                                                                          \
    os_libc.field = (__typeof__(os_libc.field))libc_symbol(library, "pthread_" #name)
    LOAD(thread_join, join);
    LOAD(set_stack, attr_setstack);
    LOAD(set_stack_size, attr_setstacksize);
    LOAD(key_create, key_create);
    LOAD(key_delete, key_delete);
    LOAD(key_set, setspecific);
    LOAD(thread_create, create);
#undef LOAD
}

static COLD void load_symbols(void) {
    void *library = libc_open("libdl.so.2", LIBC_OPEN_MODE);
    if (!library)
        return;
    /* Another thread may call os_libc_init at the same time. It takes both functions as loaded when
     * `open` is not NULL, so `open` is stored last. */
    store_release(&os_libc.symbol, (__typeof__(os_libc.symbol))libc_symbol(library, "dlsym"));
    store_release(&os_libc.open, (__typeof__(os_libc.open))libc_symbol(library, "dlopen"));
}

bool os_libc_init(bool symbols) {
    bool old = libc_open && libc_symbol;
    if (!os_libc.thread_create && old)
        load_threads();
    if (!os_libc.open && old && symbols)
        load_symbols();
    return os_libc.thread_create != NULL;
}

/* The signal by which glibc's setuid reaches each thread; setuid waits until all have answered. */
#define SIGNAL_OF_SETUID (1UL << (33 - 1))

int os_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *)) {
    uint64_t others = ~SIGNAL_OF_SETUID, before = 0;
    if (!os_libc.thread_create)
        return ENOSYS;
    /* The new thread inherits this thread's signal mask, so this thread blocks the signals for a
     * moment. (pthread_attr_setsigmask_np exists only since glibc 2.32.) This thread must not
     * unblock any signal: glibc's thread for timers blocks signal 32, and timers send this signal,
     * which has no handler. */
    os_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&others, (long)&before, sizeof others, 0, 0);
    int error = os_libc.thread_create(thread, attributes, run, NULL);
    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    return error;
}

void os_thread_block_signals(void) {
    uint64_t others = ~SIGNAL_OF_SETUID;
    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&others, 0, sizeof others, 0, 0);
}

int os_stat(const char *path, struct stat *status) {
    return os_result(os_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)status, 0, 0, 0));
}

int os_lstat(const char *path, struct stat *status) {
    return os_result(
        os_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)status, AT_SYMLINK_NOFOLLOW, 0, 0));
}

int os_fstat(int fd, struct stat *status) {
    return os_result(os_syscall(SYS_fstat, fd, (long)status, 0, 0, 0, 0));
}
