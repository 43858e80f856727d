/* SPDX-License-Identifier: MIT */
/* process.c - reads /proc. */
#include "target/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "outside/outside.h"
#include "target/sockets.h"

ssize_t process_read_file(pid_t pid, const char *name, char *buffer, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t got;
    while (used < bytes - 1 && (got = read(fd, buffer + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    buffer[used] = '\0';
    return (ssize_t)used;
}

/* Reads the name and the fields behind it from /proc/PID/stat. The fields are numbered as in
 * proc(5). The name may itself have spaces and brackets. */
static bool read_stat(pid_t pid, struct process_facts *facts) {
    char text[1024];
    if (process_read_file(pid, "stat", text, sizeof text) <= 0)
        return false;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return false;
    snprintf(facts->name, sizeof facts->name, "%.*s", (int)(close - open - 1), open + 1);
    cli_clean(facts->name);
    char *rest = close + 1, *word;
    for (int field = 3; (word = strsep(&rest, " \n"));) {
        if (word[0] == '\0')
            continue;
        if (field == 3)
            facts->state = word[0];
        else if (field == 4)
            facts->parent = (pid_t)strtol(word, NULL, 10);
        else if (field == 22)
            facts->start_ticks = strtoull(word, NULL, 10);
        else if (field == 24)
            facts->rss_bytes = strtoll(word, NULL, 10) * sysconf(_SC_PAGESIZE);
        else if (field == 28)
            facts->stack_start = strtoull(word, NULL, 10);
        field++;
    }
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    facts->age_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
                   (double)facts->start_ticks / (double)sysconf(_SC_CLK_TCK);
    return true;
}

/* Adds the restrictions of a thread (no_new_privs, seccomp) that its file `status` shows. */
static void add_restrictions(struct process_facts *facts, const char *status) {
    const char *privileges = strstr(status, "\nNoNewPrivs:");
    const char *seccomp = strstr(status, "\nSeccomp:");
    int mode = seccomp ? atoi(seccomp + strlen("\nSeccomp:")) : 0;
    if (privileges && atoi(privileges + strlen("\nNoNewPrivs:")) > 0)
        facts->no_new_privileges = true;
    if (mode > facts->seccomp)
        facts->seccomp = mode;
}

#define STATUS_BYTES ((size_t)1 << 20) /* a user may be in 65536 groups, all in one line */

static void read_status(struct process_facts *facts) {
    char *text = cli_alloc(STATUS_BYTES, 1);
    if (process_read_file(facts->thread, "status", text, STATUS_BYTES) <= 0) {
        free(text);
        return;
    }
    const char *ids = strstr(text, "\nUid:");
    if (ids)
        sscanf(ids, "\nUid: %u %u", &facts->uid, &facts->effective_uid);
    /* In newer kernels (6.18) this figure is exact, and the one in /proc/PID/stat is some hundred
     * KiB too small. */
    const char *resident = strstr(text, "\nVmRSS:");
    if (resident)
        facts->rss_bytes = strtoll(resident + strlen("\nVmRSS:"), NULL, 10) * 1024;
    const char *anonymous = strstr(text, "\nRssAnon:");
    if (anonymous)
        facts->anonymous_bytes = strtoll(anonymous + strlen("\nRssAnon:"), NULL, 10) * 1024;
    add_restrictions(facts, text);
    /* The line has a pid for each nested namespace; the last one belongs to the namespace of the
     * process itself. */
    const char *inner = strstr(text, "\nNStgid:");
    if (inner) {
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(inner + 1, "\n"), inner + 1);
        const char *last = strrchr(line, '\t');
        if (last && atoi(last + 1) > 0)
            facts->inner_pid = atoi(last + 1);
    }
    free(text);
}

pid_t process_of_thread(pid_t id) {
    char *text = cli_alloc(STATUS_BYTES, 1);
    const char *line =
        process_read_file(id, "status", text, STATUS_BYTES) > 0 ? strstr(text, "\nTgid:") : NULL;
    int process = line ? atoi(line + strlen("\nTgid:")) : 0;
    free(text);
    return process > 0 ? process : id;
}

/* Finds a thread that still runs, in a process whose first thread has ended. The kernel shows
 * memory and files of such a process only under the ids of running threads. */
static void find_thread(struct process_facts *facts) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)facts->pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && facts->thread == facts->pid && (entry = readdir(directory))) {
        struct process_facts thread = {.pid = 0};
        pid_t id = (pid_t)strtol(entry->d_name, NULL, 10);
        if (id > 0 && read_stat(id, &thread) && !strchr("ZX", thread.state)) {
            facts->thread = id;
            facts->state = thread.state;
            facts->rss_bytes = thread.rss_bytes;
        }
    }
    if (directory)
        closedir(directory);
}

bool process_read_facts(pid_t pid, struct process_facts *facts) {
    *facts =
        (struct process_facts){.pid = pid, .thread = pid, .inner_pid = pid, .anonymous_bytes = -1};
    if (!read_stat(pid, facts))
        return false;
    if (strchr("ZX", facts->state))
        find_thread(facts);
    read_status(facts);
    ssize_t length =
        process_read_file(facts->thread, "cmdline", facts->command, sizeof facts->command);
    for (ssize_t i = 0; i + 1 < length; i++)
        if (facts->command[i] == '\0')
            facts->command[i] = ' ';
    /* A process may write a title over its arguments. A shorter title often ends in spaces. */
    for (size_t end = strlen(facts->command); end > 1 && facts->command[end - 1] == ' '; end--)
        facts->command[end - 1] = '\0';
    if (length <= 0)
        snprintf(facts->command, sizeof facts->command, "[%s]", facts->name);
    cli_clean(facts->command);
    return true;
}

/* Returns how far the boot clock of the process's time namespace is ahead of the machine's, in
 * ticks. Returns 0 where the kernel has no time namespaces. */
static int64_t clock_offset_ticks(pid_t pid) {
    char text[256];
    long long seconds = 0, nanoseconds = 0;
    const char *line = process_read_file(pid, "timens_offsets", text, sizeof text) > 0
                           ? strstr(text, "boottime")
                           : NULL;
    if (!line || sscanf(line, "boottime %lld %lld", &seconds, &nanoseconds) != 2)
        return 0;
    int64_t rate = sysconf(_SC_CLK_TCK);
    return seconds * rate + nanoseconds * rate / 1000000000;
}

bool process_started_at(const struct process_facts *facts, uint64_t ticks) {
    int64_t difference = (int64_t)(ticks - facts->start_ticks);
    if (difference == 0)
        return true;
    int64_t offset = clock_offset_ticks(facts->thread) - clock_offset_ticks(getpid());
    /* the kernel adds nanoseconds and rounds down the sum, this function each offset */
    return offset != 0 && difference >= offset - 1 && difference <= offset + 1;
}

/* True if the process is in this command's own user namespace. */
static bool shares_user_namespace(pid_t pid) {
    struct stat own, other;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    return stat("/proc/self/ns/user", &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

uid_t process_inner_user(const struct process_facts *facts, uid_t uid) {
    char text[16384]; /* the kernel allows 340 lines */
    /* To a reader in the same namespace the map shows ids of the namespace above. */
    if (shares_user_namespace(facts->thread) ||
        process_read_file(facts->thread, "uid_map", text, sizeof text) <= 0)
        return uid;
    uid_t inner, outer, count;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        if (sscanf(line, "%u %u %u", &inner, &outer, &count) == 3 && uid >= outer &&
            uid - outer < count)
            return inner + (uid - outer);
    }
    return (uid_t)-1;
}

/* The state of a search for the library in the lines of /proc/PID/maps. */
struct library_search {
    bool found;
    int memory;        /* /proc/PID/mem; -1: not open */
    uint64_t code_end; /* end of the last mapping, if that is code and begins its file; else 0 */
};

/* Looks for the library in a line of /proc/PID/maps. A library with another name, such as one that
 * was renamed after it had been loaded, is known by its content: its code begins the file, as the
 * linker's option noseparate-code makes it, and constant data with the root lie directly behind. */
static void search_library(struct library_search *search, const struct process_facts *facts,
                           const char *line) {
    uint64_t start, end, offset;
    char rights[5], path[64];
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64, &start, &end, rights, &offset) != 4)
        return;
    const char *name = strrchr(line, '/');
    bool is_code = rights[2] == 'x'; /* a process that reads symbols maps the file as data */
    search->found = is_code && name && strncmp(name, "/libmemctx.so", strlen("/libmemctx.so")) == 0;
    if (!search->found && name && start == search->code_end && strcmp(rights, "r--p") == 0) {
        snprintf(path, sizeof path, "/proc/%d/mem", (int)facts->thread);
        if (search->memory < 0)
            search->memory = open(path, O_RDONLY | O_CLOEXEC);
        search->found = search->memory >= 0 && outside_has_root(search->memory, start, end);
    }
    search->code_end = is_code && offset == 0 ? end : 0;
}

enum process_library process_find_library(const struct process_facts *facts) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)facts->thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == EACCES || errno == EPERM   ? PROCESS_UNREADABLE
               : errno == ENOENT || errno == ESRCH ? PROCESS_NO_MEMORY
                                                   : PROCESS_WITHOUT;
    struct library_search search = {.memory = -1};
    char *line = NULL;
    size_t capacity = 0;
    bool any = false;
    errno = 0;
    while (!search.found && getline(&line, &capacity, file) > 0) {
        any = true;
        search_library(&search, facts, line);
        errno = 0;
    }
    bool refused = !search.found && (errno == EACCES || errno == EPERM);
    free(line);
    fclose(file);
    if (search.memory >= 0)
        close(search.memory);
    return search.found ? PROCESS_WITH
           : refused    ? PROCESS_UNREADABLE
           : any        ? PROCESS_WITHOUT
                        : PROCESS_NO_MEMORY;
}

enum process_library process_find_answerer(const struct process_facts *facts) {
    enum process_library library = process_find_library(facts);
    bool may_ask = geteuid() == 0 || facts->uid == geteuid();
    return library == PROCESS_UNREADABLE && may_ask && sockets_has_one(facts) ? PROCESS_WITH
                                                                              : library;
}

bool process_read_name(pid_t pid, char name[PROCESS_NAME_BYTES]) {
    ssize_t length = process_read_file(pid, "comm", name, PROCESS_NAME_BYTES);
    if (length <= 0)
        return false;
    name[length - 1] = '\0'; /* a newline */
    cli_clean(name);
    return true;
}

bool process_is_command(const struct process_facts *facts) {
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)facts->thread);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

bool process_read_known(pid_t pid, struct process_facts *facts, bool *unknown) {
    errno = 0;
    bool there = process_read_facts(pid, facts);
    *unknown = !there && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
    return there;
}

bool process_read_askable(pid_t pid, struct process_facts *facts) {
    return pid != getpid() && process_read_facts(pid, facts) && !strchr("ZX", facts->state) &&
           (geteuid() == 0 || facts->uid == geteuid()) &&
           process_find_answerer(facts) == PROCESS_WITH;
}

const char *process_find_variable(const struct process_facts *facts, const char *name) {
    static char text[256 * 1024];
    ssize_t length = process_read_file(facts->thread, "environ", text, sizeof text);
    size_t name_length = strlen(name);
    for (char *at = text; length > 0 && at < text + length; at += strlen(at) + 1)
        if (strncmp(at, name, name_length) == 0 && at[name_length] == '=')
            return at + name_length + 1;
    return NULL;
}

bool process_is_stopped(const struct process_facts *facts) {
    return facts->state == 'T' || facts->state == 't';
}

char *process_tell_resume(const struct process_facts *facts) {
    return facts->state == 't'
               ? cli_copy("a debugger has stopped it: continue it there, or end the debugger")
               : cli_format("kill -CONT %d resumes it", (int)facts->pid);
}

/* Adds the restrictions of the threads, because one thread's filter of system calls ends the
 * control thread. Stops at the control thread. Returns true if there is one. */
static bool read_threads(struct process_facts *facts) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)facts->pid);
    DIR *directory = opendir(path);
    bool found = false;
    const struct dirent *entry;
    char *text = cli_alloc(STATUS_BYTES, 1);
    while (directory && !found && (entry = readdir(directory))) {
        char name[300];
        snprintf(name, sizeof name, "task/%s/status", entry->d_name);
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            process_read_file(facts->pid, name, text, STATUS_BYTES) <= 0)
            continue;
        add_restrictions(facts, text);
        found = strncmp(text, "Name:\tmemctx\n", strlen("Name:\tmemctx\n")) == 0;
    }
    free(text);
    if (directory)
        closedir(directory);
    return found;
}

/* Writes what is wrong with a directory that the library might have used. Returns false if nothing
 * is wrong. */
static bool explain_directory(const struct process_facts *facts, const char *path, char *reason,
                              size_t bytes) {
    struct stat status;
    if (lstat(path, &status) != 0)
        return false;
    if (S_ISLNK(status.st_mode)) {
        snprintf(reason, bytes, "%s is a symbolic link, which the library refuses", path);
    } else if (!S_ISDIR(status.st_mode)) {
        snprintf(reason, bytes, "%s is not a directory", path);
    } else if (status.st_uid != facts->uid && status.st_uid != facts->effective_uid) {
        snprintf(reason, bytes, "%s belongs to %s, so the library refuses it", path,
                 process_user_name(status.st_uid));
    } else if ((status.st_mode & 077) != 0) {
        snprintf(reason, bytes, "%s has mode %03o instead of 700, so the library refuses it", path,
                 status.st_mode & 0777);
    } else {
        return false;
    }
    return true;
}

static bool is_chrooted(const struct process_facts *facts) {
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/root", (int)facts->thread);
    ssize_t length = readlink(path, target, sizeof target - 1);
    return length > 0 && !(length == 1 && target[0] == '/');
}

static bool explain_directories(const struct process_facts *facts, char *reason, size_t bytes) {
    struct socket_directories directories;
    sockets_list_directories(facts, &directories);
    for (size_t i = 0; i < directories.own_count; i++)
        if (explain_directory(facts, directories.paths[i], reason, bytes))
            return true;
    return !is_chrooted(facts) && sockets_explain_no_place(facts, reason, bytes);
}

/* True if the process sees no /proc. */
static bool lacks_proc(const struct process_facts *facts) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/root/proc/self", (int)facts->thread);
    return lstat(path, &status) != 0 && errno == ENOENT;
}

/* Writes why a process has no control thread, if a filter of its system calls is the likely reason.
 * Returns false otherwise. */
static bool explain_sandbox(const struct process_facts *facts, char *reason, size_t bytes) {
    if (facts->seccomp == 0 && !facts->no_new_privileges)
        return false;
    if (facts->seccomp == 1) {
        snprintf(reason, bytes,
                 "it is in seccomp's strict mode, which allows no thread and no socket");
    } else if (facts->seccomp != 0) {
        snprintf(reason, bytes,
                 "its system calls are filtered (seccomp), so it has no control thread and no "
                 "socket; if the filter was there from the start, and is known to let memctx pass, "
                 "start it with MEMCTX_CONTROL=always");
    } else {
        snprintf(reason, bytes,
                 "it has set no_new_privs, as programs do before they filter their system calls "
                 "(seccomp), so it has no control thread; if it filters none, as haproxy, start it "
                 "with MEMCTX_CONTROL=always; or it %s",
                 facts->age_s < 1.0 ? "is too young: try again"
                                    : "has not allocated since its first 20 ms, and has not waited "
                                      "since its first 0.5 s");
    }
    return true;
}

void process_explain_no_socket(const struct process_facts *facts, char *reason, size_t bytes) {
    const char *control = process_find_variable(facts, "MEMCTX_CONTROL");
    if (control && (strcmp(control, "off") == 0 || strcmp(control, "0") == 0)) {
        snprintf(reason, bytes, "it was started with MEMCTX_CONTROL=off; start it without");
        return;
    }
    struct process_facts all = *facts;
    bool thread = read_threads(&all);
    char detail[512];
    bool is_always = control && strcmp(control, "always") == 0;
    if (!thread && all.seccomp == 0 && !is_always && lacks_proc(facts)) {
        snprintf(reason, bytes,
                 "it sees no /proc, which tells whether its system calls are filtered, so the "
                 "library starts no control thread; mount /proc there, or start it with "
                 "MEMCTX_CONTROL=always");
        return;
    }
    /* With MEMCTX_CONTROL=always, no_new_privs does not keep the control thread from starting. */
    if (is_always && all.seccomp == 0)
        all.no_new_privileges = false;
    if (!thread && explain_sandbox(&all, reason, bytes))
        return;
    if (explain_directories(facts, detail, sizeof detail)) {
        snprintf(reason, bytes, "%s; correct that and start it again", detail);
    } else if (is_chrooted(facts)) {
        snprintf(reason, bytes,
                 "it runs in a chroot in which no directory for the socket could be made");
    } else if (thread) {
        snprintf(
            reason, bytes,
            "its control thread runs, but its socket is in no directory that this command sees "
            "(it was removed, is in another mount namespace, or in an XDG_RUNTIME_DIR that the "
            "title of the process has overwritten: give memctx this XDG_RUNTIME_DIR)");
    } else if (facts->age_s < 1.0) {
        snprintf(reason, bytes,
                 "it is too young (%.2f s); the control thread starts at an allocation after the "
                 "first 20 ms (later in a process that forks all the time), or at a wait of a "
                 "second (of any length after the first 0.5 s); try again",
                 facts->age_s);
    } else {
        snprintf(
            reason, bytes,
            "its control thread has not started: it has not allocated since its first 20 ms, and "
            "has not waited (poll, sleep or the like) since its first 0.5 s, as a program that "
            "waits in read; or no directory for the socket was writable, a limit on processes or "
            "descriptors forbade the thread or its socket, or a thread that is gone had its system "
            "calls filtered (seccomp), which ended the control thread; start it with "
            "MEMCTX_CONTROL=eager MEMCTX_VERBOSE=1 to see the reason");
    }
}

void process_need_proc(void) {
    if (access("/proc/stat", F_OK) != 0)
        cli_die(CLI_NO_TARGET, "/proc is not mounted here, so no process can be seen; mount it: "
                               "mount -t proc proc /proc");
}

bool process_is_hidden(pid_t pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return access(path, F_OK) != 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

void process_for_each(bool (*visit)(pid_t pid, void *argument), void *argument) {
    DIR *directory = opendir("/proc");
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        int64_t pid;
        if (cli_is_number(entry->d_name, &pid) && pid > 0 && pid <= INT_MAX &&
            !visit((pid_t)pid, argument))
            break;
    }
    if (directory)
        closedir(directory);
}

const char *process_user_name(uid_t uid) {
    static char text[96];
    const struct passwd *user = getpwuid(uid);
    snprintf(text, sizeof text, "%s (uid %u)", user ? user->pw_name : "a user", uid);
    return text;
}
