/* SPDX-License-Identifier: MIT */
/* socket_sweep.c - removes sockets of processes that have ended without removing them; see
 * socket_sweep.h. */
#include "control/socket_sweep.h"
#include "base/text.h"
#include "control/descriptors.h"
#include "control/socket_path.h"
#include "os/libc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REMOVED_MAX 8U /* more than one, so that the sockets of a time without a sweep go, too */
#define LOOKED_AT_MAX 1024U

struct entry { /* as the kernel writes it */
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/* Returns N of the name "N.sock", or of the temporary name ".N.tmp", which a process leaves that
 * ends or executes another program while it makes its socket. 0: the name is another one. */
static uint32_t pid_of(const char *name) {
    uint64_t pid = 0;
    bool temporary = name[0] == '.';
    const char *at = name + temporary;
    for (; *at >= '0' && *at <= '9' && pid < INT32_MAX; at++)
        pid = pid * 10 + (uint64_t)(*at - '0');
    return pid <= INT32_MAX && text_equal(at, temporary ? ".tmp" : ".sock") ? (uint32_t)pid : 0;
}

/* True if nobody listens at the socket. The process may live in another pid namespace, with a
 * directory of sockets that both share. So the kernel's answer to the connection decides. */
static bool is_stale(const struct sockaddr_un *address) {
    int fd = OS_TRY(os_socket());
    if (fd < 0)
        return false;
    bool refused = OS_TRY(os_connect(fd, address, sizeof *address)) && errno == ECONNREFUSED;
    os_close(fd);
    return refused;
}

/* Removes the socket that the entry names if the socket's process has ended. False: nothing was
 * removed. A new process may get this pid meanwhile and make its socket at the path. Its control
 * thread later finds the path missing, and makes the socket again (control_look_at_socket). */
static bool remove_one(struct sockaddr_un *address, size_t directory_length,
                       const struct entry *entry) {
    uint32_t pid = entry->type == DT_SOCK || entry->type == DT_UNKNOWN ? pid_of(entry->name) : 0;
    if (!pid || OS_CALL(SYS_kill, pid, 0, 0, 0, 0, 0) != -ESRCH)
        return false;
    struct text text = {.bytes = address->sun_path,
                        .length = directory_length,
                        .capacity = sizeof address->sun_path - 1};
    text_add(&text, entry->name);
    address->sun_path[text.length] = 0;
    return !text.full && is_stale(address) && !OS_TRY(os_unlink(address->sun_path));
}

void socket_sweep(const struct sockaddr_un *own) {
    struct sockaddr_un address = *own;
    /* zeroed, because clang-tidy does not know that getdents64 writes here */
    alignas(struct entry) char room[2048] = {0};
    size_t length = socket_path_directory_length(own);
    unsigned removed = 0, looked_at = 0;
    long bytes;
    address.sun_path[length] = 0;
    if (!length || !descriptors_are_own)
        return;
    long fd = OS_CALL(SYS_openat, AT_FDCWD, address.sun_path,
                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
    if (OS_FAILED(fd))
        return;
    while (removed < REMOVED_MAX && looked_at < LOOKED_AT_MAX &&
           (bytes = OS_CALL(SYS_getdents64, fd, room, sizeof room, 0, 0, 0)) > 0)
        for (long at = 0; at < bytes && removed < REMOVED_MAX; looked_at++) {
            const struct entry *entry = (const struct entry *)(room + at);
            removed += remove_one(&address, length, entry);
            at += entry->bytes;
        }
    OS_CALL(SYS_close, fd, 0, 0, 0, 0, 0);
}
