/* SPDX-License-Identifier: MIT */
/* sockets.c - finds the control sockets of processes, and connects to one. */
#include "target/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/clock.h"

static void add_directory(struct socket_directories *list, const char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->paths[i], path) == 0)
            return;
    if (list->count < SOCKET_DIRECTORIES_MAX && strlen(path) < sizeof list->paths[0])
        strcpy(list->paths[list->count++], path);
}

static void add_user_directories(struct socket_directories *list, const char *root, uid_t uid) {
    char path[600];
    snprintf(path, sizeof path, "%s/run/user/%u/memctx", root, uid);
    add_directory(list, path);
    snprintf(path, sizeof path, "%s/tmp/memctx-%u", root, uid);
    add_directory(list, path);
}

static void add_runtime_directory(struct socket_directories *list, const char *root,
                                  const char *runtime) {
    char path[600];
    if (runtime && runtime[0] == '/') {
        snprintf(path, sizeof path, "%s%s/memctx", root, runtime);
        add_directory(list, path);
    }
}

/* The directories are named after the ids that the process sees, which differ from facts->uid in a
 * user namespace. Also lists the directories of root and of this user. A daemon that changed its
 * uid or its root directory after the start still has its socket in a directory of its first uid
 * and root. */
void sockets_list_directories(const struct process_facts *facts, struct socket_directories *list) {
    char root[64];
    list->count = list->own_count = 0;
    snprintf(root, sizeof root, "/proc/%d/root", (int)facts->thread);
    const char *prefixes[] = {"", root};
    for (size_t i = 0; i < 2; i++) {
        add_runtime_directory(list, prefixes[i], process_find_variable(facts, "XDG_RUNTIME_DIR"));
        add_user_directories(list, prefixes[i], facts->uid);
        add_user_directories(list, prefixes[i], facts->effective_uid);
        add_user_directories(list, prefixes[i], process_inner_user(facts, facts->uid));
        add_user_directories(list, prefixes[i], process_inner_user(facts, facts->effective_uid));
    }
    list->own_count = list->count;
    for (size_t i = 0; i < 2; i++) {
        add_runtime_directory(list, prefixes[i], getenv("XDG_RUNTIME_DIR"));
        add_user_directories(list, prefixes[i], 0);
        add_user_directories(list, prefixes[i], getuid());
    }
}

void sockets_list_all_directories(struct socket_directories *list) {
    list->count = list->own_count = 0;
    add_runtime_directory(list, "", getenv("XDG_RUNTIME_DIR"));
    add_user_directories(list, "", getuid());
    if (geteuid() != 0)
        return;
    glob_t found = {0};
    glob("/run/user/*/memctx", GLOB_NOSORT, NULL, &found);
    glob("/tmp/memctx-*", GLOB_NOSORT | GLOB_APPEND, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *digits = strrchr(found.gl_pathv[i], '-');
        int64_t uid;
        if (strncmp(found.gl_pathv[i], "/run/", 5) == 0 || cli_is_number(digits + 1, &uid))
            add_directory(list, found.gl_pathv[i]);
    }
    globfree(&found);
}

int sockets_open_directory(const char *path, const struct process_facts *facts) {
    struct stat status;
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    bool good = fstat(fd, &status) == 0 && (status.st_mode & 022) == 0 &&
                (status.st_uid == 0 || status.st_uid == geteuid() ||
                 (facts && (status.st_uid == facts->uid || status.st_uid == facts->effective_uid)));
    if (!good) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    return fd;
}

bool sockets_has_one(const struct process_facts *facts) {
    struct socket_directories list;
    char name[32];
    bool found = false;
    snprintf(name, sizeof name, "%d.sock", (int)facts->inner_pid);
    sockets_list_directories(facts, &list);
    for (size_t i = 0; i < list.count && !found; i++) {
        struct stat status;
        int directory = sockets_open_directory(list.paths[i], facts);
        if (directory < 0)
            continue;
        found =
            fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode);
        close(directory);
    }
    return found;
}

bool sockets_explain_no_place(const struct process_facts *facts, char *reason, size_t bytes) {
    struct socket_directories list;
    char root[64], read_only[sizeof list.paths[0]] = "";
    size_t root_length = (size_t)snprintf(root, sizeof root, "/proc/%d/root/", (int)facts->thread);
    sockets_list_directories(facts, &list);
    for (size_t i = 0; i < list.own_count; i++) {
        struct statvfs system;
        char *path = list.paths[i];
        if (strncmp(path, root, root_length) != 0) /* as this command sees it */
            continue;
        *strrchr(path, '/') = '\0';
        if (statvfs(path, &system) != 0) {
            if (errno != ENOENT)
                return false;
        } else if (system.f_flag & ST_RDONLY) {
            strcpy(read_only, path + root_length - 1);
        } else {
            return false;
        }
    }
    snprintf(reason, bytes,
             "%s%s where it runs, so the library could make no directory for the socket; it needs "
             "/tmp, or the directory that XDG_RUNTIME_DIR names, to be writable",
             read_only[0] == '\0' ? "there is no /tmp" : read_only,
             read_only[0] == '\0' ? "" : " is on a read-only file system");
    return true;
}

/* Makes the kernel tell the listener that this thread belongs to the user `uid`. Access to files is
 * still root's. libc's functions would change the user of all threads. False: errno says why. */
static bool appear_as(uid_t uid) {
    if (syscall(SYS_setresuid, -1, uid, -1) != 0)
        return false;
    syscall(SYS_setfsuid, 0);
    return true;
}

/* Connects to the socket `name` in an open directory. The address goes through /proc/self/fd, so
 * that it fits into the 108 bytes of a socket address, however long the directory's path is.
 * Returns the descriptor or -errno. */
static int connect_to(int directory, const char *name, int patience_ms) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int64_t deadline = clock_now_ms() + patience_ms;
    while (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        /* EAGAIN: the server's queue is full for the moment. */
        if ((errno != EAGAIN && errno != EINTR) || clock_now_ms() > deadline) {
            int error = errno;
            close(fd);
            return -error;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return fd;
}

/* Like connect_to, but the listener sees the user `uid`. */
static int connect_as(uid_t uid, int directory, const char *name, int patience_ms) {
    int death_signal = 0, dumpable = prctl(PR_GET_DUMPABLE);
    prctl(PR_GET_PDEATHSIG, &death_signal);
    if (!appear_as(uid))
        return errno == EPERM ? SOCKETS_NEED_SETUID : -errno;
    int fd = connect_to(directory, name, patience_ms);
    if (!appear_as(0)) /* cannot happen: the real and the saved user are still root */
        cli_die(CLI_REFUSED, "cannot be root again; %s; start memctx anew", strerror(errno));
    /* a change of the user resets these two */
    prctl(PR_SET_DUMPABLE, dumpable);
    prctl(PR_SET_PDEATHSIG, death_signal);
    return fd;
}

int sockets_connect_as(const struct process_facts *facts, int directory, const char *name,
                       int patience_ms) {
    struct stat status;
    /* In a user namespace in which root has no id, or another one than 0, the library would take
     * this command for a foreign user and refuse it. */
    if (geteuid() != 0 || process_inner_user(facts, 0) == 0)
        return connect_to(directory, name, patience_ms);
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    return connect_as(facts->effective_uid, directory, name, patience_ms);
}

bool sockets_is_stale(const char *path, const char *name) {
    int directory = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return false;
    int fd = connect_to(directory, name, 0);
    close(directory);
    if (fd >= 0)
        close(fd);
    return fd == -ECONNREFUSED;
}
