/* SPDX-License-Identifier: MIT */
/* socket_path.c - finds the socket's directory: $XDG_RUNTIME_DIR/memctx, else /run/user/UID/memctx,
 * else /tmp/memctx-UID. Passes over a directory whose path is too long for a socket address. */
#include "control/socket_path.h"
#include "os/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static bool fits(const struct text *text) {
    return !text->full && text->length < sizeof((struct sockaddr_un *)0)->sun_path;
}

/* The mode of a directory that the library makes. In a directory that is closed to others the
 * sticky bit has no effect: it tells that the library made the directory, and may remove it. */
#define DIRECTORY_MODE (S_ISVTX | 0700)

/* Makes the directory, or checks that it belongs to this user and is closed to all others. */
static bool directory_is_fit(const char *path, struct text *why) {
    struct stat status;
    for (int tries = 1;; tries++) {
        if (!OS_TRY(os_mkdir(path, DIRECTORY_MODE))) {
            os_chmod(path, DIRECTORY_MODE); /* restores the bits that the program's umask removed */
        } else if (errno != EEXIST) {
            text_add(why, path);
            text_add(why, " cannot be created");
            return false;
        }
        if (!OS_TRY(os_lstat(path, &status)))
            break;
        /* ENOENT: another process that ended has just removed the directory (socket_path_leave). */
        if (errno != ENOENT || tries == DIRECTORY_TRIES) {
            text_add(why, path);
            text_add(why, " cannot be examined");
            return false;
        }
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != os_user() || status.st_mode & 077) {
        text_add(why, path);
        text_add(why, " is a link, belongs to another user, or is open to others; it must be a "
                      "directory of this user with mode 0700");
        return false;
    }
    return true;
}

static void set_name(struct sockaddr_un *address, const char *directory, const char *prefix,
                     uint32_t pid, const char *suffix) {
    struct text text = {.bytes = address->sun_path, .capacity = sizeof address->sun_path - 1};
    address->sun_family = AF_UNIX;
    text_add(&text, directory);
    text_add(&text, "/");
    text_add(&text, prefix);
    text_add_number(&text, pid);
    text_add(&text, suffix);
    address->sun_path[text.length] = 0;
}

static START_PAGE char runtime_directory[sizeof((struct sockaddr_un *)0)->sun_path];

void socket_path_init(void) {
    const char *runtime = os_variable("XDG_RUNTIME_DIR");
    struct text text = {.bytes = runtime_directory, .capacity = sizeof runtime_directory - 1};
    if (runtime && runtime[0] == '/')
        text_add(&text, runtime);
    if (text.full)
        runtime_directory[0] = 0;
}

bool socket_path_find(struct socket_path *found, uint32_t pid, struct text *why) {
    for (int i = 0; i < 3; i++) {
        char path[sizeof found->final.sun_path - 24] = ""; /* set_name adds the file name */
        struct text text = {.bytes = path, .capacity = sizeof path - 1};
        struct stat status;
        if (i == 0) {
            if (!runtime_directory[0])
                continue;
            text_add(&text, runtime_directory);
        } else if (i == 1) {
            text_add(&text, "/run/user/");
            text_add_number(&text, os_user());
        } else {
            text_add(&text, "/tmp/memctx-");
            text_add_number(&text, os_user());
        }
        path[text.length] = 0;
        if (i < 2) { /* the library never makes the runtime directory itself */
            if (OS_TRY(os_stat(path, &status)) || !S_ISDIR(status.st_mode))
                continue;
            text_add(&text, "/memctx");
            path[text.length] = 0;
        }
        why->length = 0;
        if (!fits(&text) || !directory_is_fit(path, why))
            continue;
        set_name(&found->final, path, "", pid, ".sock");
        set_name(&found->temporary, path, ".", pid, ".tmp");
        found->below_runtime_directory = i == 0;
        return true;
    }
    return false;
}

size_t socket_path_directory_length(const struct sockaddr_un *address) {
    size_t length = text_length(address->sun_path);
    while (length && address->sun_path[length - 1] != '/')
        length--;
    return length;
}

void socket_path_leave(const struct socket_path *path) {
    char directory[sizeof path->final.sun_path];
    struct stat status;
    size_t length = socket_path_directory_length(&path->final);
    if (!length || !path->below_runtime_directory)
        return;
    __builtin_memcpy(directory, path->final.sun_path, length - 1);
    directory[length - 1] = 0;
    if (!OS_TRY(os_lstat(directory, &status)) && status.st_mode & S_ISVTX)
        os_rmdir(directory); /* fails while other processes have sockets there */
}
