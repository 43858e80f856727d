/* SPDX-License-Identifier: MIT */
/* supervisor.c - starts, restarts and ends the parts of the agent. */
#include "agent/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"

#define PAUSE_FIRST_MS 1000
#define PAUSE_MOST_MS 60000
#define STEADY_MS 60000 /* after a run of this length the pause is PAUSE_FIRST_MS again */
#define END_MS 10000    /* from SIGTERM to SIGKILL */
#define WAIT_MOST_MS 60000

/* children[i] is the process of config.parts[i]. */
struct child {
    pid_t pid; /* 0: the part does not run */
    int64_t started_ms, due_ms, pause_ms;
};

static struct {
    struct config config;
    struct child children[CONFIG_PARTS_MAX];
    const char *path;
    bool json;
    bool ending;    /* no part is started again */
    bool reloading; /* when all parts have ended, `next` replaces `config` */
    struct config next;
    int64_t end_ms; /* when SIGKILL is due; 0: nothing is being ended */
} agent;

/* --- messages -------------------------------------------------------------------------------- */

/* Writes an event: a line of text, or an object of schema memctx-agent/1. */
static void tell(const char *event, const char *part, pid_t pid, const char *format, ...)
    CLI_PRINTF(4, 5);
static void tell(const char *event, const char *part, pid_t pid, const char *format, ...) {
    char text[512], when[32];
    time_t now = time(NULL);
    struct tm utc;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (agent.json) {
        struct json_writer json = {.file = stdout};
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
        json_put_open(&json, NULL, '{');
        json_put_text(&json, "schema", "memctx-agent/1");
        json_put_text(&json, "time", when);
        json_put_text(&json, "event", event);
        json_put_text(&json, "part", part);
        json_put_integer(&json, "pid", pid);
        json_put_text(&json, "text", text);
        json_put_close(&json, '}');
        putchar('\n');
    } else
        printf("agent: %s%s%s\n", part ? part : "", part ? ": " : "", text);
    /* The parts must go on if the log cannot be written, so an error of stdout is ignored. */
    fflush(stdout);
    clearerr(stdout);
}

/* --- children -------------------------------------------------------------------------------- */

/* Sets the soft limit only, so that watch can give more memory to the processes that it starts. */
static void limit_memory(rlim_t bytes) {
    struct rlimit limit;
    bool good = bytes == 0 || getrlimit(RLIMIT_DATA, &limit) == 0;
    if (good && bytes > 0) {
        limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
        good = setrlimit(RLIMIT_DATA, &limit) == 0;
    }
    if (!good)
        cli_warn("the memory of a part cannot be limited; %s; the part runs without a limit",
                 strerror(errno));
}

/* In a forked child: restores the signals, limits the memory, and executes the verb with `words`
 * and the word `last` (NULL: none). The part gets a process group of its own, so Ctrl-C signals the
 * agent alone, which sends SIGTERM to the part.
 * In the agent's group, a part would get two signals. It would then end at once, and push would
 * send nothing more. */
_Noreturn static void become(char *const *words, const char *last, pid_t parent,
                             int64_t memory_bytes) {
    size_t count = 0;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(CLI_REFUSED);
    limit_memory((rlim_t)memory_bytes);
    while (words[count])
        count++;
    char **arguments = cli_alloc(count + 3, sizeof *arguments);
    arguments[0] = "memctx";
    memcpy(arguments + 1, words, count * sizeof *arguments);
    arguments[count + 1] = (char *)last;
    execv("/proc/self/exe", arguments);
    cli_warn("cannot execute /proc/self/exe; %s; see that /proc is mounted and the file of memctx "
             "exists",
             strerror(errno));
    _exit(CLI_REFUSED);
}

static void set_due(struct child *child, int64_t now_ms) {
    if (child->started_ms > 0 && now_ms - child->started_ms >= STEADY_MS)
        child->pause_ms = 0;
    child->pause_ms = child->pause_ms == 0 ? PAUSE_FIRST_MS : 2 * child->pause_ms;
    if (child->pause_ms > PAUSE_MOST_MS)
        child->pause_ms = PAUSE_MOST_MS;
    child->due_ms = now_ms + child->pause_ms;
}

static void start(size_t index, int64_t now_ms) {
    const struct config_part *part = &agent.config.parts[index];
    struct child *child = &agent.children[index];
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(part->words, NULL, parent, agent.config.memory_bytes);
    child->started_ms = now_ms;
    if (pid < 0) {
        set_due(child, now_ms);
        tell("failed", part->name, 0, "cannot be started; %s; starts again in %lld s",
             strerror(errno), (long long)(child->pause_ms / 1000));
        return;
    }
    child->pid = pid;
    tell("started", part->name, pid, "runs as pid %d", (int)pid);
}

/* Returns how a process ended, in words. */
static const char *show_status(int status, char *text, size_t bytes) {
    if (WIFSIGNALED(status))
        snprintf(text, bytes, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, bytes, "ended with status %d", WEXITSTATUS(status));
    return text;
}

/* Waits for the children that have ended, and plans when they start again. */
static void collect(int64_t now_ms) {
    int status;
    char how[128];
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < agent.config.count; i++) {
            struct child *child = &agent.children[i];
            if (child->pid != pid)
                continue;
            child->pid = 0;
            show_status(status, how, sizeof how);
            if (agent.end_ms > 0) {
                tell("ended", agent.config.parts[i].name, pid, "%s", how);
                continue;
            }
            set_due(child, now_ms);
            tell("failed", agent.config.parts[i].name, pid, "%s; starts again in %lld s", how,
                 (long long)(child->pause_ms / 1000));
        }
    }
}

static void signal_all(int signal) {
    for (size_t i = 0; i < agent.config.count; i++)
        if (agent.children[i].pid > 0)
            kill(agent.children[i].pid, signal);
}

static bool any_runs(void) {
    for (size_t i = 0; i < agent.config.count; i++)
        if (agent.children[i].pid > 0)
            return true;
    return false;
}

static void end_all(int64_t now_ms) {
    if (agent.end_ms > 0)
        return;
    agent.end_ms = now_ms + END_MS;
    signal_all(SIGTERM);
}

/* --- the agent ------------------------------------------------------------------------------- */

static void reload(int64_t now_ms) {
    struct cli_failure failure;
    struct config next;
    if (agent.ending)
        return;
    if (!config_read(&next, agent.path, &failure) ||
        !supervisor_check(&next, agent.path, &failure)) {
        cli_warn("%s; the parts go on as before", failure.text);
        tell("refused", NULL, 0, "the file has a mistake; the parts go on as before");
        config_free(&next);
        return;
    }
    if (agent.reloading)
        config_free(&agent.next);
    agent.next = next;
    agent.reloading = true;
    tell("reload", NULL, 0, "the file was read again; the parts are started anew");
    end_all(now_ms);
}

/* Does the work that is due: kills parts that do not end, puts the new config in force, starts
 * parts. */
static void step(int64_t now_ms) {
    if (agent.end_ms > 0 && now_ms >= agent.end_ms && any_runs()) {
        tell("killed", NULL, 0, "a part that did not end within %d s is killed", END_MS / 1000);
        signal_all(SIGKILL);
        agent.end_ms = now_ms + END_MS;
    }
    if (agent.reloading && !agent.ending && !any_runs()) {
        config_free(&agent.config);
        agent.config = agent.next;
        memset(agent.children, 0, sizeof agent.children);
        agent.reloading = false;
        agent.end_ms = 0;
    }
    for (size_t i = 0; i < agent.config.count && agent.end_ms == 0; i++)
        if (agent.children[i].pid == 0 && now_ms >= agent.children[i].due_ms)
            start(i, now_ms);
}

/* Returns the milliseconds until work is due. */
static int find_wait_ms(int64_t now_ms) {
    int64_t due_ms = now_ms + WAIT_MOST_MS;
    if (agent.end_ms > 0)
        return agent.end_ms > now_ms ? (int)(agent.end_ms - now_ms) : 0;
    for (size_t i = 0; i < agent.config.count; i++)
        if (agent.children[i].pid == 0 && agent.children[i].due_ms < due_ms)
            due_ms = agent.children[i].due_ms;
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

static void take_signals(int fd, int64_t now_ms) {
    struct signalfd_siginfo info;
    bool reloads = false;
    while (read(fd, &info, sizeof info) == sizeof info) {
        reloads = reloads || info.ssi_signo == SIGHUP;
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) {
            agent.ending = true;
            end_all(now_ms);
        }
    }
    collect(now_ms);
    if (reloads)
        reload(now_ms);
}

static int catch_signals(void) {
    static const int wanted[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        sigaddset(&set, wanted[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int supervisor_run(struct config *config, const char *path, bool json) {
    agent.config = *config;
    agent.path = path;
    agent.json = json;
    int fd = catch_signals();
    if (fd < 0)
        cli_die(CLI_REFUSED,
                "cannot wait for signals; %s; raise the limit of descriptors (ulimit -n)",
                strerror(errno));
    while (!agent.ending || any_runs()) {
        int64_t now_ms = clock_now_ms();
        step(now_ms);
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        poll(&entry, 1, find_wait_ms(now_ms));
        take_signals(fd, clock_now_ms());
    }
    tell("end", NULL, 0, "all parts have ended");
    return CLI_DONE;
}

/* --- checking -------------------------------------------------------------------------------- */

/* Reads what a part writes until it closes the pipe, and keeps the first bytes - 1 bytes of it. */
static void read_messages(int fd, char *text, size_t bytes) {
    size_t length = 0;
    ssize_t got;
    char rest[4096];
    do {
        bool room = length < bytes - 1;
        got = read(fd, room ? text + length : rest, room ? bytes - 1 - length : sizeof rest);
        length += got > 0 && room ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    text[length] = '\0';
}

/* Prints the warnings among a part's messages in `text`: the messages before `reason`, which says
 * why the part failed. If `reason` is NULL, all messages are warnings. */
static void pass_warnings(const struct config_part *part, const char *path, char *text,
                          const char *reason) {
    static const char head[] = CLI_MESSAGE_HEAD;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        bool is_message = strncmp(line, head, sizeof head - 1) == 0;
        const char *message = is_message ? line + sizeof head - 1 : line;
        if (message == reason)
            return;
        if (is_message)
            cli_warn("%s:%u: [%s] %s", path, config_find_line(part, message), part->words[0],
                     message);
    }
}

/* Runs a part's verb with --check. Returns its exit code; `text` receives what it wrote. */
static int run_check(const struct config_part *part, int64_t memory_bytes, char *text,
                     size_t bytes) {
    int fds[2], status = -1;
    pid_t parent = getpid();
    if (pipe2(fds, O_CLOEXEC) != 0) {
        snprintf(text, bytes, "cannot be checked; %s", strerror(errno));
        return CLI_REFUSED;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        snprintf(text, bytes, "cannot be checked; %s", strerror(errno));
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        dup2(fds[1], STDOUT_FILENO);
        become(part->words, "--check", parent, memory_bytes);
    }
    close(fds[1]);
    if (pid > 0) {
        read_messages(fds[0], text, bytes);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(fds[0]);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : CLI_REFUSED;
}

bool supervisor_check(const struct config *config, const char *path, struct cli_failure *failure) {
    char text[4096];
    for (size_t i = 0; i < config->count; i++) {
        const struct config_part *part = &config->parts[i];
        int code = run_check(part, config->memory_bytes, text, sizeof text);
        const char *reason = code == CLI_DONE ? NULL : cli_find_reason(text);
        pass_warnings(part, path, text, reason);
        if (reason)
            return cli_fail(failure, code, "%s:%u: [%s] %s", path, config_find_line(part, reason),
                            part->words[0], reason);
    }
    return true;
}
