/* SPDX-License-Identifier: MIT */
/*
 * record_names.c - `memctx run --record --names`: a process that stands beside the program and
 * keeps names of functions in its recording.
 *
 * When a program has ended, its files may be gone, as those of a container are. So names are looked
 * up while the program runs: soon after the start, then at ever longer intervals, and at its end.
 * Each look-up runs in a child with bounded memory. When memory is short, the kernel kills this
 * child before the program.
 */
#include "verbs/record_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/victim.h"
#include "snapshot/snapshot.h"
#include "target/limits.h"
#include "target/process.h"
#include "target/target.h"
#include "verbs/recorded.h"

#define FIRST_MS 2000  /* the library writes the first moment soon after the start */
#define MOST_MS 600000 /* longest pause between two look-ups */
#define LOOK_MS 500    /* without a pidfd: pause between two looks whether the program runs */
#define LOOKUP_S 120   /* processor time of one look-up of names */
#define LOOKUP_BYTES ((rlim_t)256 << 20)
#define LOOKUP_LEAST ((rlim_t)8 << 20) /* no look-up succeeds with less */
#define ANCESTORS_MAX 64 /* greatest number of ancestors of a process that are looked at */

void record_names_add(const char *path, const struct reading_names *names) {
    struct target target;
    struct model model;
    struct target_load_options load = {0};
    struct cli_failure failure;
    target_open(&target, path);
    target_load(&target, &model, &load);
    if (!model.recording)
        cli_die(CLI_REFUSED, "%s is a snapshot, not a recording; see memctx doctor %s", path, path);
    if (model.has_names)
        return;
    reading_resolve(&model, &target, names);
    if (!snapshot_add_names(&model, target.path, &failure))
        cli_die_failure(&failure);
}

/* --- beside the program ---------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

/* Returns PID of a file memctx-PID-NAME.rec; 0 for any other file. */
static pid_t pid_of(const char *name) {
    char *end;
    if (strncmp(name, "memctx-", 7) != 0 || !ends_with(name, ".rec"))
        return 0;
    long pid = strtol(name + 7, &end, 10);
    return *end == '-' && pid > 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

/* Returns true if the process is the program or descends from it. */
static bool is_of_program(pid_t pid, pid_t program) {
    struct process_facts facts;
    for (int i = 0; i < ANCESTORS_MAX && pid > 1 && pid != program; i++)
        pid = process_read_facts(pid, &facts) ? facts.parent : 0;
    return pid == program;
}

/* Returns the most bytes of data that a look-up may take: three quarters of what the limits leave
 * that the program shares with this process. If a look-up took all that a control group leaves, the
 * kernel would end the look-up, and with memory.oom.group all processes of the group. */
static rlim_t lookup_bytes(void) {
    struct limits_mounts mounts;
    struct limits_left left;
    rlim_t bytes = LOOKUP_BYTES;
    limits_read_mounts(&mounts, "");
    limits_find_left(&mounts, getpid(), &left);
    for (size_t i = 0; i < left.count; i++) {
        const struct limits_found *limit = &left.list[i];
        if (!limits_counts_addresses(limit) && (rlim_t)limit->left_bytes / 4 * 3 < bytes)
            bytes = (rlim_t)limit->left_bytes / 4 * 3;
    }
    return bytes;
}

/* Adds names to one recording, in a child with bounded memory and processor time. */
static void name_one(const char *path) {
    const struct reading_names names = {0};
    const rlim_t bytes = lookup_bytes();
    int status;
    pid_t child = bytes < LOOKUP_LEAST ? -1 : fork();
    if (child == 0) {
        struct rlimit data = {bytes, bytes}, time = {LOOKUP_S, LOOKUP_S};
        setrlimit(RLIMIT_DATA, &data);
        setrlimit(RLIMIT_CPU, &time);
        if (setpriority(PRIO_PROCESS, 0, 10) != 0)
            errno = 0;
        record_names_add(path, &names);
        _exit(CLI_DONE);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
}

/* Other users may write into a directory such as /var/tmp. To open a FIFO would wait for a writer,
 * for ever. */
static bool is_regular(int directory, const char *name) {
    struct stat status;
    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

/* Adds names to the recordings of the program and of its descendants. `ended`: the program has
 * ended, so its descendants cannot be recognised any more, and only the recording of the program
 * itself gets names. */
static void name_all(const char *directory, pid_t program, bool ended) {
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        pid_t pid = pid_of(entry->d_name);
        if (pid > 0 && is_regular(dirfd(folder), entry->d_name) &&
            (ended ? pid == program : is_of_program(pid, program))) {
            char *path = cli_format("%s/%s", directory, entry->d_name);
            if (!recorded_was_replaced(path))
                name_one(path);
            free(path);
        }
    }
    if (folder)
        closedir(folder);
}

static bool has_ended(const struct process_facts *program) {
    struct process_facts now;
    bool unknown;
    if (!process_read_known(program->pid, &now, &unknown))
        return !unknown;
    return now.start_ticks != program->start_ticks || now.state == 'Z' || now.state == 'X';
}

/* Waits until the program has ended, at most `pause_ms`. Returns true if it has ended. */
static bool wait_for_end(const struct process_facts *program, int pidfd, int pause_ms) {
    struct pollfd entry = {.fd = pidfd, .events = POLLIN}; /* poll ignores a descriptor of -1 */
    if (pidfd >= 0) {
        int ready = poll(&entry, 1, pause_ms);
        return ready > 0 || (ready < 0 && errno != EINTR);
    }
    for (int waited_ms = 0; waited_ms < pause_ms; waited_ms += LOOK_MS) {
        poll(&entry, 1, LOOK_MS);
        if (has_ended(program))
            return true;
    }
    return false;
}

/* Runs in the process beside the program: looks names up until the program ends. */
static _Noreturn void run_beside_program(const char *directory, const struct process_facts *program,
                                         int pidfd) {
    int pause_ms = FIRST_MS;
    prctl(PR_SET_NAME, "memctx-names");
    victim_offer();
    while (!wait_for_end(program, pidfd, pause_ms)) {
        name_all(directory, program->pid, false);
        pause_ms = 2 * pause_ms < MOST_MS ? 2 * pause_ms : MOST_MS;
    }
    name_all(directory, program->pid, true);
    _exit(CLI_DONE);
}

/* Gives up the terminal, all inherited files and the current directory. Otherwise a reader of an
 * inherited pipe would wait for this process to end, and a file system could not be unmounted. The
 * pidfd, if there is one, gets the number 3. */
static void detach(int pidfd) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    if ((pidfd >= 0 && pidfd != 3 && dup3(pidfd, 3, O_CLOEXEC) < 0) || chdir("/") != 0)
        _exit(CLI_REFUSED);
    fork_close_from(pidfd >= 0 ? 4 : 3);
    signal(SIGHUP, SIG_IGN);
    /* a service manager sends SIGTERM to all processes of a service; this process ends after the
     * program, when the last names are written */
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
}

/* Writes the purpose of this process over its command line. Otherwise `pgrep -f` with words of the
 * program's command line would find this process, too. */
static void write_title(char **words, int count, pid_t program) {
    size_t room = (size_t)(words[count - 1] - words[0]) + strlen(words[count - 1]);
    memset(words[0], 0, room);
    snprintf(words[0], room, "names of %d", (int)program);
}

void record_names_start(const char *directory, char **words, int word_count) {
    struct process_facts program;
    int status = 0;
    /* Linux knows pidfd_open since 5.3. */
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (!process_read_facts(getpid(), &program)) {
        cli_warn("note: names are not kept in the recording; /proc/%d cannot be read; %s",
                 (int)getpid(), strerror(errno));
        return;
    }
    fflush(NULL);
    pid_t between = fork();
    if (between == 0) {
        if (fork() != 0)
            _exit(CLI_DONE);
        detach(pidfd);
        write_title(words, word_count, program.pid);
        run_beside_program(directory, &program, pidfd >= 0 ? 3 : -1);
    }
    while (between > 0 && waitpid(between, &status, 0) < 0 && errno == EINTR) {
    }
    if (pidfd >= 0)
        close(pidfd);
    if (between < 0)
        cli_warn("note: names are not kept in the recording; no process could be started; %s",
                 strerror(errno));
}
