/* SPDX-License-Identifier: MIT */
/*
 * watch.c - `memctx watch`: waits until a condition holds in a process, then acts.
 *
 * The process is asked only for its sums, and only if a condition needs them. The command runs
 * until the process ends (with --all until a signal), so it frees what it allocates for each
 * process.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "formats/render.h"
#include "target/search.h"
#include "target/target.h"
#include "target/totals.h"
#include "verbs/verbs.h"
#include "verbs/watch.h"

#define ASK_MS 2000 /* after this time the other processes are asked at the next look */

static struct watch_settings settings;
static struct watched *processes;
static size_t process_count, event_count;
static volatile sig_atomic_t end_signal;

/* --- processes ------------------------------------------------------------------------------- */

static void add_process(const struct process_facts *facts) {
    char rss[RENDER_NUMBER_BYTES], limit[RENDER_NUMBER_BYTES];
    struct watched *process = cli_alloc(1, sizeof *process);
    *process =
        (struct watched){.facts = *facts, .named = *facts, .program = process_program(facts)};
    process->states = cli_alloc(settings.condition_count, sizeof *process->states);
    process->triggers = cli_alloc(settings.condition_count, sizeof *process->triggers);
    for (size_t i = 0; i < settings.condition_count; i++)
        process->triggers[i] = -1;
    process->next = processes;
    processes = process;
    process_count++;
    watch_read_limit(process, clock_now_ms(), false);
    watch_open_triggers(process);
    struct watch_line line = WATCH_LINE("found", process);
    line.rss_bytes = facts->rss_bytes;
    line.limit_bytes = process->has_limit ? process->limit.bytes : CONDITION_UNKNOWN;
    watch_log(&line, "watched; rss is %s, the limit is %s, %s%s%s",
              render_bytes(rss, facts->rss_bytes, true),
              render_bytes(limit, line.limit_bytes, true),
              process->has_limit ? process->limit.from : "because no limit can be read",
              process->pressure ? "; pressure is read from " : "",
              process->pressure ? process->pressure : "");
}

static void free_process(struct watched *process) {
    for (size_t i = 0; i < settings.condition_count; i++)
        if (process->triggers[i] >= 0)
            close(process->triggers[i]);
    watch_files_forget(process);
    free(process->program);
    free(process->states);
    free(process->triggers);
    free(process->pressure);
    free(process);
}

/* Forgets the processes that have ended and whose actions are done. */
static void forget_ended(void) {
    for (struct watched **at = &processes; *at;) {
        struct watched *process = *at;
        if (process->ended && process->waiting == 0) {
            *at = process->next;
            process_count--;
            free_process(process);
        } else {
            at = &process->next;
        }
    }
}

/* --- finding processes (--all) --------------------------------------------------------------- */

static struct search search;

static bool is_wanted(pid_t pid, struct process_facts *facts) {
    return process_read_askable(pid, facts) && !process_is_command(facts) &&
           (!settings.match || process_matches(facts, settings.match));
}

static bool visit_process(pid_t pid, void *argument) {
    struct process_facts facts;
    (void)argument;
    for (const struct watched *process = processes; process; process = process->next)
        if (process->facts.pid == pid && !process->ended)
            return true;
    if (pid == getpid() || !search_is_due(&search, pid))
        return true;
    if (is_wanted(pid, &facts))
        add_process(&facts);
    else
        search_put_off(&search);
    return true;
}

static void find_processes(int64_t now_ms) {
    search_begin(&search, now_ms);
    process_for_each(visit_process, NULL);
}

/* --- conditions ------------------------------------------------------------------------------ */

/* `count`: so many watched processes share the figure of the condition, and this one is the
 * largest. */
static void tell_condition(struct watched *process, size_t i, const struct condition_result *result,
                           const struct condition_reading *reading, size_t count) {
    const struct condition *condition = &settings.conditions[i];
    char value[RENDER_NUMBER_BYTES], threshold[RENDER_NUMBER_BYTES], limit[RENDER_NUMBER_BYTES];
    char others[80] = "";
    struct watch_line line =
        WATCH_LINE(condition->kind == CONDITION_ENDS ? "ends" : "condition", process);
    line.when = condition->text;
    event_count++;
    if (condition->kind == CONDITION_ENDS) {
        watch_log(&line, "ends holds");
        return;
    }
    line.value = result->value;
    line.threshold = result->threshold;
    line.rss_bytes = reading->rss_bytes;
    line.inuse_bytes = reading->inuse_bytes;
    bool used = condition->kind == CONDITION_USED;
    line.limit_bytes = used ? reading->fullest_bytes : reading->limit_bytes;
    line.limit_from = used ? process->fullest.from : NULL;
    watch_show_value(value, condition, result->value);
    watch_show_value(threshold, condition, result->threshold);
    if (count > 1)
        snprintf(others, sizeof others, "; of %zu watched processes there, this is the largest",
                 count);
    if (condition->scale == CONDITION_OF_LIMIT)
        watch_log(&line, "%s holds; %s is more than %s; the limit is %s, %s%s", condition->text,
                  value, threshold, render_bytes(limit, line.limit_bytes, true),
                  used ? process->fullest.from : process->limit.from, others);
    else
        watch_log(&line, "%s holds; %s is %s %s%s", condition->text, value,
                  result->value > result->threshold ? "more than" : "at least", threshold, others);
}

/* Logs an event of the process and puts its actions into the queue. */
static void begin_event(struct watched *process, size_t i, const struct condition_result *result,
                        struct condition_reading *reading, const char *figure, size_t count) {
    if (reading->inuse_bytes == CONDITION_UNKNOWN && !reading->ended)
        /* the bytes in use decide whether the files of this event are kept (--keep) */
        watch_read_figures(process, reading);
    tell_condition(process, i, result, reading, count);
    watch_act_add(process, i, result, figure, reading->inuse_bytes);
}

/* How a condition is evaluated: with the figures that the kernel tells; after the process was asked
 * for its own; or, with --all, once for all processes that share its figure. */
enum reach { REACH_KERNEL, REACH_ASKED, REACH_SHARED };

static enum reach reach_of(const struct condition *condition) {
    if (condition_needs_target(condition))
        return REACH_ASKED;
    bool shared = condition->kind == CONDITION_USED || condition->kind == CONDITION_PSI;
    return settings.all && shared ? REACH_SHARED : REACH_KERNEL;
}

static bool is_pressed(const struct watched *process, size_t i, const struct pollfd *ready) {
    return ready && process->triggers[i] >= 0 && ready->fd == process->triggers[i] &&
           (ready->revents & POLLPRI) != 0;
}

/* Evaluates the conditions of this reach, which is not REACH_SHARED. */
static void evaluate(struct watched *process, struct condition_reading *reading,
                     const struct pollfd *ready, enum reach reach) {
    for (size_t i = 0; i < settings.condition_count; i++) {
        if (reach_of(&settings.conditions[i]) != reach)
            continue;
        reading->pressed = is_pressed(process, i, ready);
        struct condition_result result = condition_evaluate(
            &settings.conditions[i], &process->states[i], reading, settings.cool_ms);
        if (result.fires)
            begin_event(process, i, &result, reading, NULL, 1);
    }
}

/* Evaluates the conditions of REACH_SHARED with the reading of this process. The event belongs to
 * the largest process that shares the figure. */
static void evaluate_shared(struct watched *process, const struct pollfd *ready) {
    for (size_t i = 0; process->is_read && i < settings.condition_count; i++) {
        const struct condition *condition = &settings.conditions[i];
        if (reach_of(condition) != REACH_SHARED)
            continue;
        struct watched *largest = process;
        size_t count = 1;
        const char *figure = watch_shared_figure(process, condition);
        process->reading.pressed = is_pressed(process, i, ready);
        struct condition_result result = condition_evaluate(
            condition,
            figure ? watch_shared_state(i, figure, process->reading.now_ms) : &process->states[i],
            &process->reading, settings.cool_ms);
        if (!result.fires)
            continue;
        if (figure)
            largest = watch_shared_largest(processes, condition, figure, &count);
        begin_event(largest, i, &result, &largest->reading, figure, count);
    }
}

static void tell_end(struct watched *process) {
    struct condition_reading reading = condition_no_reading(clock_now_ms());
    reading.ended = true;
    process->ended = true;
    watch_log(&WATCH_LINE("ended", process), "the process has ended");
    evaluate(process, &reading, NULL, REACH_KERNEL);
}

static void tell_lack(void) {
    static bool told;
    if (!told)
        cli_warn("too few descriptors, or too little memory, to look at all processes; %s",
                 strerror(errno));
    told = true;
}

/* Takes the new name of a process that has executed another program. The name in the kernel and the
 * command line must both have changed: without an exec, a process may change one of them for each
 * of its tasks. */
static void take_program(struct watched *process, const struct process_facts *facts) {
    if (strcmp(process->named.name, facts->name) == 0 ||
        strcmp(process->named.command, facts->command) == 0 ||
        facts->command[0] == '[') /* in the middle of exec a process has no arguments */
        return;
    char *before = process->program;
    process->named = *facts;
    process->program = process_program(facts);
    if (strcmp(process->program, before) != 0)
        watch_log(&WATCH_LINE("program", process), "the process now runs %s", process->program);
    free(before);
}

/* Evaluates the conditions of REACH_KERNEL, and keeps the reading for those of REACH_SHARED. */
static void look_at(struct watched *process, int64_t now_ms, const struct pollfd *ready) {
    struct process_facts facts;
    process->is_read = false;
    if (process->ended)
        return;
    bool unknown, there = process_read_known(process->facts.pid, &facts, &unknown);
    if (unknown) {
        tell_lack();
        return; /* the process may run */
    }
    if (!there || facts.state == 'Z' || facts.state == 'X' ||
        facts.start_ticks != process->facts.start_ticks) {
        tell_end(process);
        return;
    }
    take_program(process, &facts);
    process->facts = facts;
    struct condition_reading reading = watch_read_kernel(process, now_ms);
    if (settings.needs_used)
        watch_read_used(process, &reading);
    process->reading = reading;
    process->is_read = true;
    evaluate(process, &reading, ready, REACH_KERNEL);
}

/* Evaluates the conditions for which the process has to be asked. */
static void ask_and_evaluate(struct watched *process) {
    if (process->ended)
        return;
    struct condition_reading reading = watch_read_kernel(process, clock_now_ms());
    watch_read_figures(process, &reading);
    evaluate(process, &reading, NULL, REACH_ASKED);
}

/* Looks at all processes, before it asks any of them: a process that answers late must not hold up
 * the conditions of the others. After ASK_MS the rest of the processes is asked at the next look,
 * before those that were asked now. */
static void look_at_all(int64_t now_ms) {
    struct watched *process;
    for (process = processes; process && end_signal == 0; process = process->next)
        look_at(process, now_ms, NULL);
    for (process = processes; process && end_signal == 0; process = process->next)
        evaluate_shared(process, NULL);
    watch_shared_forget(settings.conditions, now_ms, settings.cool_ms);
    int64_t until_ms = clock_now_ms() + ASK_MS;
    for (process = processes; settings.needs_target && process && end_signal == 0;
         process = process->next) {
        ask_and_evaluate(process);
        if (clock_now_ms() < until_ms || !process->next)
            continue;
        struct watched *last = process->next;
        while (last->next)
            last = last->next;
        last->next = processes;
        processes = process->next;
        process->next = NULL;
        return;
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

static void note_signal(int signal_number) {
    end_signal = signal_number == SIGCHLD ? end_signal : signal_number;
}

/* Blocks the signals for which the loop has a handler. These signals arrive only while the loop
 * waits with the mask `waiting`. */
static void set_signals(sigset_t *waiting) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    struct sigaction action = {.sa_handler = note_signal};
    sigset_t blocked;
    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (signals[i] == SIGHUP && cli_ignores_signal(SIGHUP))
            continue;
        sigaction(signals[i], &action, NULL);
        sigaddset(&blocked, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, waiting);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigdelset(waiting, signals[i]);
    signal(SIGPIPE, SIG_IGN); /* a write to the log fails if its reader has gone */
}

static void put_poll(struct pollfd **list, size_t *count, size_t *capacity, int fd, short events) {
    if (fd < 0)
        return;
    if (*count == *capacity) {
        *capacity = 2 * *capacity + 16;
        *list = cli_grow(*list, *capacity, sizeof **list);
    }
    (*list)[(*count)++] = (struct pollfd){.fd = fd, .events = events};
}

/* Waits until `until_ms`, or until the running action is late or writes a message, the only process
 * ends, or the kernel reports pressure. Looks at once at a process whose trigger has fired. */
static void wait_until(int64_t until_ms, int ended_fd, const sigset_t *waiting) {
    static struct pollfd *list;
    static size_t capacity;
    size_t count = 0;
    int64_t left = until_ms - clock_now_ms(), action = watch_act_left_ms();
    put_poll(&list, &count, &capacity, watch_act_fd(), POLLIN);
    put_poll(&list, &count, &capacity, ended_fd, POLLIN);
    size_t first_trigger = count;
    for (const struct watched *process = processes; process; process = process->next)
        for (size_t i = 0; i < settings.condition_count; i++)
            put_poll(&list, &count, &capacity, process->triggers[i], POLLPRI);
    left = action >= 0 && action < left ? action : left;
    left = left > 0 ? left : 0;
    struct timespec timeout = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    if (ppoll(list, count, &timeout, waiting) <= 0)
        return;
    for (size_t k = first_trigger; k < count; k++) {
        for (struct watched *process = processes; process && list[k].revents != 0;
             process = process->next) {
            for (size_t i = 0; i < settings.condition_count; i++) {
                if (process->triggers[i] != list[k].fd)
                    continue;
                if ((list[k].revents & POLLERR) != 0) { /* the cgroup is gone */
                    close(process->triggers[i]);
                    process->triggers[i] = -1;
                } else {
                    look_at(process, clock_now_ms(), &list[k]);
                    evaluate_shared(process, &list[k]);
                }
            }
        }
    }
}

static bool is_done(void) {
    return end_signal != 0 || log_is_broken() || (!settings.all && process_count == 0);
}

static void run_loop(int ended_fd, const sigset_t *waiting) {
    int64_t due_ms = clock_now_ms();
    while (!is_done()) {
        int64_t now_ms = clock_now_ms();
        struct pollfd ended = {.fd = ended_fd, .events = POLLIN};
        bool over = ended_fd >= 0 && poll(&ended, 1, 0) > 0;
        if (now_ms >= due_ms || over) {
            if (settings.all)
                find_processes(now_ms);
            look_at_all(now_ms);
            now_ms = clock_now_ms();
            due_ms = due_ms + settings.every_ms > now_ms ? due_ms + settings.every_ms : now_ms;
            ended_fd = over ? -1 : ended_fd;
        }
        watch_act_step();
        forget_ended();
        if (!is_done())
            wait_until(due_ms, ended_fd, waiting);
    }
}

/* Writes a time in seconds if it is a whole number of seconds, else in milliseconds. */
static const char *show_time(char *text, size_t bytes, int64_t ms) {
    bool whole = ms % 1000 == 0;
    snprintf(text, bytes, "%lld %s", (long long)(whole ? ms / 1000 : ms), whole ? "s" : "ms");
    return text;
}

static void tell_start(const char *word) {
    char what[WATCH_CONDITIONS_MAX * (CONDITION_TEXT_BYTES + 4)] = "", *end = what;
    char every[32], cool[32];
    for (size_t i = 0; i < settings.condition_count; i++)
        end += snprintf(end, sizeof what - (size_t)(end - what), "%s%s", i > 0 ? " or " : "",
                        settings.conditions[i].text);
    watch_log(&WATCH_LINE("started", NULL),
              "watching %s%s%s every %s; when %s; files in %s, %lld kept, cool %s",
              settings.all ? "all processes" : word, settings.match ? " that match " : "",
              settings.match ? settings.match : "",
              show_time(every, sizeof every, settings.every_ms), what,
              settings.directory ? settings.directory : ".", (long long)settings.keep,
              show_time(cool, sizeof cool, settings.cool_ms));
}

int watch_main(int argc, char **argv) {
    sigset_t waiting;
    int ended_fd = -1;
    const char *word = "";
    struct target target;
    settings = watch_parse(argc, argv);
    bool single = !settings.all;
    if (settings.only_check) {
        if (single)
            reading_target_word(argc, argv, 1);
        return CLI_DONE;
    }
    if (single) {
        word = reading_target_word(argc, argv, 1);
        target_open_running(&target, word, "");
        client_close(&target.client);
        ended_fd = (int)syscall(SYS_pidfd_open, target.facts.pid, 0);
    }
    process_need_proc();
    watch_read_begin(&settings);
    watch_log_begin(settings.json);
    watch_act_begin(&settings);
    set_signals(&waiting);
    tell_start(word);
    if (single)
        add_process(&target.facts);
    run_loop(ended_fd, &waiting);
    watch_act_cancel();
    size_t failures = watch_act_failures();
    watch_log(&WATCH_LINE("finished", NULL), "the watch ends%s; %zu event%s, %zu failed action%s",
              end_signal != 0 ? " because of a signal" : "", event_count,
              event_count == 1 ? "" : "s", failures, failures == 1 ? "" : "s");
    return log_finish(failures > 0 ? CLI_REFUSED : CLI_DONE);
}
