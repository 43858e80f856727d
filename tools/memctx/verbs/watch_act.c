/* SPDX-License-Identifier: MIT */
/*
 * watch_act.c - the actions of `memctx watch`: one child process at a time.
 *
 * Snapshots and findings are made by a child that runs `memctx dump` or `memctx doctor`, so their
 * memory is freed when the child ends, and a failure ends only the child. The child writes to a
 * file that has a temporary name until it is complete.
 *
 * A snapshot is made in two steps. The first child writes the answers of the process as they come
 * (dump --stream), which needs 1 MiB. Then the snapshot is safe, and another child packs it, with
 * the names of functions. If that child fails, for instance because it may not take so much memory,
 * the file of the first step stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "formats/render.h"
#include "verbs/watch.h"

#define MESSAGE_BYTES 600
#define END_MS 2000 /* time between SIGTERM and SIGKILL */
/* Most events that wait for their actions. If processes come and go faster than the actions, this
 * bounds the memory and the age of an event. */
#define EVENTS_MAX 1024

static const struct watch_settings *settings;
static struct watch_event *first_event, **last_event = &first_event;
static size_t failures, waiting_events;

/* The running action. */
static struct {
    pid_t pid;     /* 0: none runs */
    size_t action; /* index of the running action; of the next action while none runs */
    int64_t began_ms;
    bool late;
    bool names;      /* the second step of a snapshot */
    char *temporary; /* the unfinished file; NULL: none */
    int file;        /* the file that the child writes to; -1: none */
    int messages;    /* a pipe from the child's standard error; -1: none */
    char message[MESSAGE_BYTES];
    size_t message_length;
} run = {.file = -1, .messages = -1};

void watch_act_begin(const struct watch_settings *given) {
    settings = given;
}

size_t watch_act_failures(void) {
    return failures;
}

static const char *condition_text(const struct watch_event *event) {
    return settings->conditions[event->condition].text;
}

static struct watch_line line_of(const struct watch_event *event, const char *name) {
    struct watch_line line = WATCH_LINE(name, event->process);
    line.when = condition_text(event);
    line.value = event->result.value;
    line.threshold = event->result.threshold;
    line.inuse_bytes = event->inuse_bytes;
    return line;
}

/* --- the child ------------------------------------------------------------------------------- */

/* Sets RLIMIT_DATA of this process and of its children to `bytes` (0: no limit), but not above the
 * hard limit. Without `raises`, a lower limit that is in force stays. */
static void limit_memory(int64_t bytes, bool raises) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0)
        return;
    rlim_t most = bytes == 0 || (rlim_t)bytes > limit.rlim_max ? limit.rlim_max : (rlim_t)bytes;
    if (limit.rlim_cur <= most && !raises)
        return;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_DATA, &limit);
}

/* Runs in the child: executes memctx dump or memctx doctor. Returns only on failure. */
static void become_reader(const struct watch_event *event, enum watch_kind kind, pid_t parent) {
    const char *words[10];
    char pid[24];
    size_t count = 0;
    snprintf(pid, sizeof pid, "%d", (int)event->process->facts.pid);
    words[count++] = "memctx";
    words[count++] = kind == WATCH_SNAPSHOT ? "dump" : "doctor";
    words[count++] = run.names ? event->made.snapshot : pid;
    if (kind == WATCH_SNAPSHOT) {
        words[count++] = "-o";
        words[count++] = "-";
        if (!run.names)
            words[count++] = "--stream";
    }
    limit_memory(settings->memory_bytes, settings->sets_memory);
    if (settings->names.none)
        words[count++] = "--no-symbols";
    if (settings->names.debug_directory) {
        words[count++] = "--debug-dir";
        words[count++] = settings->names.debug_directory;
    }
    words[count] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have ended before prctl, which then has no effect. */
    if (getppid() != parent)
        _exit(CLI_REFUSED);
    execv("/proc/self/exe", (char *const *)words);
    dprintf(STDERR_FILENO, "memctx: this program cannot be started again; %s\n", strerror(errno));
}

static void set_number(const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

/* Runs in the child: executes the user's command, with the facts of the event in its environment.
 * Returns only on failure. */
static void become_command(const struct watch_event *event, const char *command) {
    set_number("MEMCTX_PID", event->process->facts.pid);
    setenv("MEMCTX_WHEN", condition_text(event), 1);
    set_number("MEMCTX_VALUE", event->result.value);
    setenv("MEMCTX_FILE", watch_files_newest(event), 1);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is for the log */
    fork_restore_limit();
    limit_memory(0, true); /* the agent's limit is for its parts, not for commands of the user */
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    dprintf(STDERR_FILENO, "memctx: /bin/sh cannot be started; %s\n", strerror(errno));
}

/* Starts the child. Returns false and sets errno if the system does not allow it. */
static bool start_child(const struct watch_event *event, const struct watch_action *action) {
    int pipe_ends[2] = {-1, -1};
    pid_t parent = getpid();
    if (action->kind != WATCH_EXEC && pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    run.pid = fork();
    if (run.pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        setpgid(0, 0); /* so that a signal ends the child together with its own children */
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null >= 0)
            dup2(null, STDIN_FILENO);
        if (run.file >= 0)
            dup2(run.file, STDOUT_FILENO);
        if (pipe_ends[1] >= 0)
            dup2(pipe_ends[1], STDERR_FILENO);
        if (action->kind == WATCH_EXEC)
            become_command(event, action->command);
        else
            become_reader(event, action->kind, parent);
        _exit(CLI_CANNOT_EXECUTE);
    }
    int error = errno;
    if (pipe_ends[1] >= 0)
        close(pipe_ends[1]);
    if (run.pid < 0) {
        run.pid = 0;
        if (pipe_ends[0] >= 0)
            close(pipe_ends[0]);
        errno = error;
        return false;
    }
    /* parent and child both call setpgid, because either may run first */
    setpgid(run.pid, run.pid);
    run.messages = pipe_ends[0];
    return true;
}

/* --- one action ------------------------------------------------------------------------------ */

static bool writes_file(const struct watch_action *action) {
    return action->kind == WATCH_SNAPSHOT ||
           (action->kind == WATCH_DOCTOR && (settings->directory || settings->json));
}

static void count_failure(const struct watch_event *event) {
    failures++;
    if (event->figure)
        watch_shared_failed(event->condition, event->figure);
    else
        condition_action_failed(&event->process->states[event->condition]);
}

static void fail_action(struct watch_event *event, const struct watch_action *action,
                        int64_t status, const char *reason) {
    struct watch_line line = line_of(event, "failed");
    line.status = status;
    line.took_ms = clock_now_ms() - run.began_ms;
    count_failure(event);
    watch_log(&line, "%s for %s failed; %s", action->text, condition_text(event), reason);
}

/* Reads what the child wrote to standard error. Keeps the end, where the reason stands. */
static void read_messages(void) {
    char part[MESSAGE_BYTES / 2];
    ssize_t got = -1;
    while (run.messages >= 0 && (got = read(run.messages, part, sizeof part)) > 0) {
        size_t length = (size_t)got, over = run.message_length + length + 1;
        over = over > sizeof run.message ? over - sizeof run.message : 0;
        memmove(run.message, run.message + over, run.message_length - over);
        run.message_length -= over;
        memcpy(run.message + run.message_length, part, length);
        run.message_length += length;
        run.message[run.message_length] = '\0';
    }
    if (run.messages >= 0 && got == 0) {
        close(run.messages);
        run.messages = -1;
    }
}

/* Makes the file that a child writes to. Returns false and sets errno if that fails. */
static bool make_temporary(const struct watch_event *event) {
    run.temporary = cli_format("%s.XXXXXX", event->stem);
    run.file = mkostemp(run.temporary, O_CLOEXEC);
    if (run.file >= 0)
        return true;
    int error = errno;
    free(run.temporary);
    run.temporary = NULL;
    errno = error;
    return false;
}

static void begin_run(void) {
    run.began_ms = clock_now_ms();
    run.late = false;
    run.message_length = 0;
    run.message[0] = '\0';
}

static void begin_action(struct watch_event *event, const struct watch_action *action) {
    begin_run();
    if (action->kind != WATCH_EXEC && event->process->ended) {
        if (settings->conditions[event->condition].kind != CONDITION_ENDS)
            fail_action(event, action, WIRE_UNKNOWN, "the process has ended");
        return;
    }
    if (writes_file(action))
        make_temporary(event);
    else if (action->kind == WATCH_DOCTOR)
        run.file = memfd_create("memctx-doctor", MFD_CLOEXEC);
    char reason[MESSAGE_BYTES] = "";
    if (action->kind != WATCH_EXEC && run.file < 0) {
        snprintf(reason, sizeof reason,
                 "%s cannot be written; %s; name another directory with --dir", event->stem,
                 strerror(errno));
    } else if (!start_child(event, action)) {
        snprintf(reason, sizeof reason, "no process could be started; %s", strerror(errno));
    }
    if (reason[0] != '\0')
        fail_action(event, action, WIRE_UNKNOWN, reason);
}

static void drop_temporary(void) {
    if (run.file >= 0)
        close(run.file);
    if (run.temporary)
        unlink(run.temporary);
    free(run.temporary);
    run.temporary = NULL;
    run.file = -1;
}

/* Gives the temporary file its final name. Returns false and the reason if that fails. */
static bool finish_file(struct watch_event *event, const struct watch_action *action, char *reason,
                        size_t bytes) {
    char **path = action->kind == WATCH_SNAPSHOT ? &event->made.snapshot : &event->made.doctor;
    struct process_facts now;
    mode_t mask = umask(0);
    umask(mask);
    if (process_read_facts(event->process->facts.pid, &now) &&
        now.start_ticks != event->process->facts.start_ticks) {
        snprintf(reason, bytes, "the process has ended, and its pid was used again");
        return false;
    }
    if (!*path)
        *path = cli_format("%s.%s", event->stem, action->kind == WATCH_SNAPSHOT ? "mctx" : "txt");
    if (fchmod(run.file, 0666 & ~mask) == 0 && rename(run.temporary, *path) == 0) {
        free(run.temporary);
        run.temporary = NULL;
        return true;
    }
    snprintf(reason, bytes, "%s cannot be written; %s", *path, strerror(errno));
    if (!run.names) { /* otherwise the file of the first step is there */
        free(*path);
        *path = NULL;
    }
    return false;
}

/* Copies the doctor's text to standard output, behind its line of the log. */
static void print_text(void) {
    char buffer[4096];
    ssize_t got;
    FILE *file = log_begin();
    lseek(run.file, 0, SEEK_SET);
    while ((got = read(run.file, buffer, sizeof buffer)) > 0)
        fwrite(buffer, 1, (size_t)got, file);
    log_end();
}

/* Writes the log's line of an action that is done. `lacks`: why the snapshot has no names; NULL: it
 * has names, or the action makes no snapshot. */
static void tell_done(struct watch_event *event, const struct watch_action *action,
                      const char *lacks) {
    static const char *const names[] = {"snapshot", "doctor", "exec"};
    struct watch_line line = line_of(event, names[action->kind]);
    char inuse[RENDER_NUMBER_BYTES];
    line.took_ms = clock_now_ms() - run.began_ms;
    line.status = 0;
    if (action->kind == WATCH_EXEC) {
        watch_log(&line, "%s for %s is done, %lld ms", action->text, condition_text(event),
                  (long long)line.took_ms);
        return;
    }
    line.file = action->kind == WATCH_SNAPSHOT ? event->made.snapshot : event->made.doctor;
    render_bytes(inuse, event->inuse_bytes, true);
    if (line.file) {
        watch_log(&line, "%s for %s is in %s; %s in use, %lld ms%s%s", action->text,
                  condition_text(event), line.file, inuse, (long long)line.took_ms,
                  lacks ? "; without names of functions: " : "", lacks ? lacks : "");
    } else {
        watch_log(&line, "%s for %s; %s in use, %lld ms", action->text, condition_text(event),
                  inuse, (long long)line.took_ms);
        print_text();
    }
}

static bool is_gone(const struct watched *process) {
    struct process_facts now;
    return !process_read_facts(process->facts.pid, &now) || now.state == 'Z' || now.state == 'X' ||
           now.start_ticks != process->facts.start_ticks;
}

/* Writes why the child failed: it was late, the process has ended, its own message, or how the
 * child ended. */
static void explain(const struct watch_event *event, const struct watch_action *action, int status,
                    char *reason, size_t bytes) {
    const char *message = cli_find_reason(run.message);
    if (run.late)
        snprintf(reason, bytes, "it was ended after %lld s; --timeout gives it more time",
                 (long long)settings->timeout_ms / 1000);
    else if (action->kind != WATCH_EXEC && !run.names && is_gone(event->process))
        snprintf(reason, bytes, "the process ended meanwhile");
    else if (strncmp(message, "-: ", 3) == 0)
        snprintf(reason, bytes, "%s: %s", event->stem, message + 3);
    else if (message[0] != '\0')
        snprintf(reason, bytes, "%s", message);
    else if (WIFSIGNALED(status))
        snprintf(reason, bytes, "it was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(reason, bytes, "exit status %d", WEXITSTATUS(status));
}

/* Closes the files that the child wrote to, and removes the temporary one. */
static void close_outputs(void) {
    drop_temporary();
    if (run.messages >= 0)
        close(run.messages);
    run.messages = -1;
}

/* Begins the second step of a snapshot, which packs it with names. Returns false and sets errno if
 * nothing could be started. */
static bool begin_names(struct watch_event *event, const struct watch_action *action) {
    close_outputs();
    run.message_length = 0;
    run.message[0] = '\0';
    run.names = true;
    if (make_temporary(event) && start_child(event, action))
        return true;
    int error = errno;
    close_outputs();
    errno = error;
    return false;
}

/* Finishes an action whose child has ended. After the first step of a snapshot, begins its second
 * step instead. */
static void finish_action(struct watch_event *event, const struct watch_action *action,
                          int status) {
    char reason[MESSAGE_BYTES + 300];
    run.pid = 0;
    read_messages();
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !run.late;
    if (!good)
        explain(event, action, status, reason, sizeof reason);
    else if (run.temporary)
        good = finish_file(event, action, reason, sizeof reason);
    const char *lacks = good ? NULL : reason;
    if (!good)
        drop_temporary();
    if (good && action->kind == WATCH_SNAPSHOT && !run.names && !settings->names.none) {
        if (begin_names(event, action))
            return;
        lacks = strerror(errno);
    }
    if (good || run.names)
        tell_done(event, action, lacks);
    else
        fail_action(event, action, WIFEXITED(status) ? WEXITSTATUS(status) : WIRE_UNKNOWN, reason);
    close_outputs();
    run.names = false;
}

/* --- the queue ------------------------------------------------------------------------------- */

/* Counts an event as failed because the queue has no room for it. */
static void leave_out(const struct watch_event *event) {
    struct watch_line line = line_of(event, "failed");
    count_failure(event);
    watch_log(&line,
              "the actions for %s are left out, because %d earlier events still wait; give fewer "
              "conditions, or end slow actions with --timeout",
              condition_text(event), EVENTS_MAX);
}

void watch_act_add(struct watched *process, size_t condition, const struct condition_result *result,
                   const char *figure, int64_t inuse_bytes) {
    struct watch_event *event = cli_alloc(1, sizeof *event);
    *event = (struct watch_event){.process = process,
                                  .condition = condition,
                                  .result = *result,
                                  .figure = figure ? cli_copy(figure) : NULL,
                                  .inuse_bytes = inuse_bytes};
    if (waiting_events == EVENTS_MAX) {
        leave_out(event);
        free(event->figure);
        free(event);
        return;
    }
    process->waiting++;
    waiting_events++;
    *last_event = event;
    last_event = &event->next;
}

static void drop_event(struct watch_event *event) {
    event->process->waiting--;
    waiting_events--;
    first_event = event->next;
    if (!first_event)
        last_event = &first_event;
    free(event->stem);
    free(event->figure);
    free(event);
}

bool watch_act_step(void) {
    struct watch_event *event;
    int status;
    while ((event = first_event)) {
        if (run.pid > 0) {
            read_messages();
            if (watch_act_left_ms() == 0 && !run.late) {
                run.late = true;
                kill(-run.pid, SIGKILL);
            }
            if (waitpid(run.pid, &status, WNOHANG) != run.pid)
                return true;
            finish_action(event, &settings->actions[run.action], status);
            run.action += run.pid == 0;
        } else if (run.action < settings->action_count) {
            if (!event->stem)
                event->stem = watch_files_make_stem(settings, event->process,
                                                    &settings->conditions[event->condition]);
            begin_action(event, &settings->actions[run.action]);
            if (run.pid == 0) { /* the action was left out, or could not begin */
                drop_temporary();
                run.action++;
            }
        } else {
            watch_files_keep(settings, event);
            drop_event(event);
            run.action = 0;
        }
    }
    return false;
}

int watch_act_fd(void) {
    return run.messages;
}

int64_t watch_act_left_ms(void) {
    int64_t left = run.began_ms + settings->timeout_ms - clock_now_ms();
    return run.pid == 0 || run.late ? -1 : left > 0 ? left : 0;
}

void watch_act_cancel(void) {
    int status;
    if (run.pid > 0) {
        int64_t until_ms = clock_now_ms() + END_MS;
        kill(-run.pid, SIGTERM);
        while (waitpid(run.pid, &status, WNOHANG) == 0) {
            if (clock_now_ms() > until_ms)
                kill(-run.pid, SIGKILL);
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
        run.pid = 0;
    }
    drop_temporary();
}
