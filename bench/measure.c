/* SPDX-License-Identifier: MIT */
/*
 * measure - runs a command and prints its time and memory.
 *
 *   measure [-n RUNS] [-t SECONDS] [-p PRELOAD] [-u UID:GID] [-r] -o STDOUT -e STDERR -- COMMAND...
 *
 * It is not written in Python, because the ru_maxrss of a process includes its memory before exec:
 * a child of a 15 MB interpreter never shows less than 15 MB. This program has 1 MB. LD_PRELOAD is
 * set in the child alone. The command and the rest of its process group are killed after SECONDS,
 * and when measure itself gets a signal to end.
 *
 * Prints one line per run when it starts, `pid N`, and one when it has ended:
 *   `done WALL_NS USER_US SYSTEM_US PEAK_RSS_KIB END_RSS_KIB exit|signal|timeout N`
 * CPU time includes the descendants that the command waited for; peak RSS is the largest of them.
 * With -r the command is traced and stops just before its end, when END_RSS_KIB is read; each
 * signal to the command then costs some microseconds more. Without -r, END_RSS_KIB is 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct request {
    long runs;
    unsigned int limit_s;
    const char *preload;
    const char *out_path;
    const char *error_path;
    bool read_end;
    bool switch_user;
    uid_t uid;
    gid_t gid;
    char **command;
};

static volatile sig_atomic_t child_pid;
static volatile sig_atomic_t timed_out;
static volatile sig_atomic_t told_to_end;

static void handle_signal(int number) {
    int saved = errno;

    if (number == SIGALRM) {
        timed_out = 1;
    } else {
        told_to_end = 1;
    }
    if (child_pid > 0) {
        kill(-child_pid, SIGKILL);
    }
    errno = saved;
}

static void redirect(const char *path, int flags, int target) {
    int fd = open(path, flags | O_CLOEXEC, 0644);

    if (fd < 0 || dup2(fd, target) < 0) {
        dprintf(STDERR_FILENO, "measure: %s: %s\n", path, strerror(errno));
        _exit(127);
    }
}

static void become_command(const struct request *request) {
    setpgid(0, 0);
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(request->out_path, O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO);
    redirect(request->error_path, O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
    if (request->switch_user &&
        (setgroups(0, NULL) != 0 || setgid(request->gid) != 0 || setuid(request->uid) != 0)) {
        dprintf(STDERR_FILENO, "measure: switching to uid %u: %s\n", request->uid, strerror(errno));
        _exit(127);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (request->preload != NULL && request->preload[0] != '\0') {
        setenv("LD_PRELOAD", request->preload, 1);
    }
    execvp(request->command[0], request->command);
    dprintf(STDERR_FILENO, "measure: %s: %s\n", request->command[0], strerror(errno));
    _exit(127);
}

static long long since_ns(const struct timespec *start) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - start->tv_sec) * 1000000000LL + (now.tv_nsec - start->tv_nsec);
}

static long resident_kib(pid_t pid) {
    char path[32];
    long pages = 0;

    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Lets a traced command go on that has stopped: because it ends, because it gets a signal, or
 * because its process group was stopped. */
static void go_on(pid_t pid, int status, long *end_rss_kib) {
    int event = status >> 16;

    if (event == PTRACE_EVENT_EXIT) {
        *end_rss_kib = resident_kib(pid);
    }
    /* a group stop lasts until SIGCONT */
    bool stays = event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
    ptrace(stays ? PTRACE_LISTEN : PTRACE_CONT, pid, 0, event == 0 ? (long)WSTOPSIG(status) : 0L);
}

/* Runs the command once. False: the run failed, so it is not repeated. */
static bool run_once(const struct request *request) {
    struct timespec start;
    struct rusage usage;
    int status = 0;
    const char *ending = "exit";
    int number;
    long end_rss_kib = 0;

    timed_out = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t pid = fork();
    if (pid < 0) {
        perror("measure: fork");
        exit(1);
    }
    if (pid == 0) {
        become_command(request);
    }
    setpgid(pid, pid);
    child_pid = pid;
    alarm(request->limit_s);
    if (request->read_end && ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT) != 0) {
        perror("measure: ptrace");
    }
    printf("pid %d\n", pid);
    fflush(stdout);
    for (bool ended = false; !ended;) {
        pid_t waited = wait4(pid, &status, 0, &usage);
        if (waited < 0 && errno != EINTR) {
            perror("measure: wait4");
            exit(1);
        }
        ended = waited == pid && !WIFSTOPPED(status);
        if (waited == pid && !ended) {
            go_on(pid, status, &end_rss_kib);
        }
    }
    long long wall_ns = since_ns(&start);
    alarm(0);
    kill(-pid, SIGKILL);
    child_pid = 0;
    number = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) {
        ending = "signal";
        number = WTERMSIG(status);
    }
    if (timed_out) {
        ending = "timeout";
        number = (int)request->limit_s;
    }
    printf("done %lld %lld %lld %ld %ld %s %d\n", wall_ns,
           usage.ru_utime.tv_sec * 1000000LL + usage.ru_utime.tv_usec,
           usage.ru_stime.tv_sec * 1000000LL + usage.ru_stime.tv_usec, usage.ru_maxrss, end_rss_kib,
           ending, number);
    fflush(stdout);
    return !timed_out && status == 0;
}

static void parse(int argc, char **argv, struct request *request) {
    int option;

    while ((option = getopt(argc, argv, "+n:t:p:u:o:e:r")) != -1) {
        switch (option) {
        case 'n': request->runs = strtol(optarg, NULL, 10); break;
        case 't': request->limit_s = (unsigned int)strtoul(optarg, NULL, 10); break;
        case 'p': request->preload = optarg; break;
        case 'u': {
            char *colon = NULL;
            request->uid = (uid_t)strtoul(optarg, &colon, 10);
            request->gid = (gid_t)strtoul(*colon == ':' ? colon + 1 : colon, NULL, 10);
            request->switch_user = true;
            break;
        }
        case 'r': request->read_end = true; break;
        case 'o': request->out_path = optarg; break;
        case 'e': request->error_path = optarg; break;
        default: exit(2);
        }
    }
    request->command = argv + optind;
    if (optind >= argc || request->runs < 1 || request->limit_s < 1) {
        fputs("measure: no command, or a number is not positive\n", stderr);
        exit(2);
    }
}

int main(int argc, char **argv) {
    struct request request = {
        .runs = 1, .limit_s = 60, .out_path = "/dev/null", .error_path = "/dev/null"};
    struct sigaction action = {.sa_handler = handle_signal};

    parse(argc, argv, &request);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (long i = 0; i < request.runs && !told_to_end; i++) {
        if (!run_once(&request)) {
            break;
        }
    }
    return told_to_end ? 1 : 0;
}
