/* SPDX-License-Identifier: MIT */
/* Functions of libc that an older glibc keeps in libraries of their own; see libc.h. */
#include "os/libc.h"

#include <dlfcn.h>
#include <unistd.h>

/* These functions are weak, because the process may lack them: only glibc 2.34 and newer have them
 * in libc.so.6. */
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
    LOAD(key_create, key_create);
    LOAD(key_delete, key_delete);
    LOAD(key_set, setspecific);
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

void os_libc_init(bool symbols) {
    bool old = libc_open && libc_symbol;
    if (!os_libc.key_create && old)
        load_threads();
    if (!os_libc.open && old && symbols)
        load_symbols();
}

const char *os_variable(const char *name) {
    size_t length = __builtin_strlen(name);
    for (char **entry = environ; entry && *entry; entry++)
        if (!__builtin_strncmp(*entry, name, length) && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
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
