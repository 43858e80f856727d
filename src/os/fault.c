/* SPDX-License-Identifier: MIT */
/* Makes system calls and libc calls fail on purpose; see fault.h. */
#include "os/fault.h"

#ifdef MEMCTX_FAULTS
#include "base/text.h"
#include "os/syscall.h"

#include <fcntl.h>
#include <unistd.h>

static struct {
    /* `at`: number of the one call to refuse, 0: none; `seen`: atomic: number of calls so far */
    uint64_t at, seen;
    /* number of the first request for memory to refuse; all later requests fail, too; 0: none */
    uint64_t from;
    uint64_t asked; /* atomic: number of requests for memory so far */
    bool known;     /* atomic: the settings have been read from the environment */
} fault;

/* Reads the environment without getenv, because some programs (bash) define a getenv of their own,
 * which may allocate. */
static const char *setting(const char *name) {
    size_t length = text_length(name);
    for (char **entry = environ; entry && *entry; entry++)
        if (!__builtin_strncmp(*entry, name, length) && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

static void say(uint64_t number, const char *what) {
    char line[160];
    struct text text = {.bytes = line, .capacity = sizeof line - 1};
    const char *path = setting("MEMCTX_FAULT_LOG");
    if (!path)
        return;
    long fd = os_syscall(SYS_openat, AT_FDCWD, (long)path,
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666, 0, 0);
    text_add_number(&text, (int64_t)number);
    text_add(&text, " ");
    text_add(&text, what);
    text.length = text.length < sizeof line - 2 ? text.length : sizeof line - 2;
    line[text.length++] = '\n';
    os_syscall(SYS_write, fd, (long)line, (long)text.length, 0, 0, 0);
    os_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static uint64_t number_of(const char *name) {
    int64_t number = 0;
    const char *value = setting(name);
    if (value)
        text_to_number(value, &number);
    return (uint64_t)number;
}

/* Reads the settings once. False: libc has not set `environ` yet. */
static bool read_settings(void) {
    if (load_acquire(&fault.known))
        return true;
    if (!environ)
        return false;
    fault.at = number_of("MEMCTX_FAULT_AT");
    fault.from = number_of("MEMCTX_FAULT_FROM");
    store_release(&fault.known, true);
    return true;
}

bool os_fault(const char *what) {
    if (!read_settings() || !fault.at ||
        __atomic_add_fetch(&fault.seen, 1, __ATOMIC_RELAXED) != fault.at)
        return false;
    say(fault.at, what);
    return true;
}

/* Counts a request for memory. True: the caller must refuse the request, because MEMCTX_FAULT_FROM
 * refuses it and all later ones. */
static bool memory_is_out(const char *what) {
    if (!read_settings() || !fault.from)
        return false;
    uint64_t asked = __atomic_add_fetch(&fault.asked, 1, __ATOMIC_RELAXED);
    if (asked == fault.from)
        say(asked, what);
    return asked >= fault.from;
}

long os_fault_call(long number) {
    static const struct {
        long number, error;
        const char *name;
    } calls[] = {
        {SYS_mmap, -ENOMEM, "mmap"},
        {SYS_munmap, -ENOMEM, "munmap"},
        {SYS_mremap, -ENOMEM, "mremap"},
        {SYS_madvise, -EINVAL, "madvise"},
        {SYS_openat, -EMFILE, "openat"},
        {SYS_pwrite64, -ENOSPC, "pwrite64"},
        {SYS_fallocate, -ENOSPC, "fallocate"},
        {SYS_read, -EIO, "read"},
        {SYS_readlinkat, -EACCES, "readlinkat"},
        {SYS_mprotect, -EACCES, "mprotect"},
        {SYS_mincore, -ENOMEM, "mincore"},
    };
    if ((number == SYS_mmap || number == SYS_mremap) && memory_is_out("memory"))
        return -ENOMEM;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].number == number)
            return os_fault(calls[i].name) ? calls[i].error : 0;
    return 0;
}
#endif
