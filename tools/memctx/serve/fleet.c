/* SPDX-License-Identifier: MIT */
/* fleet.c - finds the processes to serve, and starts and asks their tellers. */
#include "serve/fleet.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/child.h"
#include "serve/namer.h"
#include "serve/teller.h"

#define NAME_CHARACTERS 64
#define TELLER_LATE_MS 15000 /* a teller that has not answered for this time is replaced */

/* --- finding processes ----------------------------------------------------------------------- */

/* Returns true if a word of the command line is the process's pid or name. A pid means the process
 * that had the pid when the server first looked, not a later process with the same pid. */
static bool is_word(struct fleet *fleet, size_t word, const struct process_facts *facts) {
    int64_t pid;
    if (!cli_is_number(fleet->wanted.words[word], &pid))
        return process_has_name(facts, fleet->wanted.words[word]);
    if (pid != facts->pid)
        return false;
    if (!fleet->start_ticks)
        fleet->start_ticks = cli_alloc(fleet->wanted.word_count, sizeof *fleet->start_ticks);
    if (fleet->start_ticks[word] == 0)
        fleet->start_ticks[word] = facts->start_ticks;
    return fleet->start_ticks[word] == facts->start_ticks;
}

static bool is_wanted(struct fleet *fleet, const struct process_facts *facts) {
    const struct fleet_wanted *wanted = &fleet->wanted;
    if (wanted->glob)
        return process_matches(facts, wanted->glob);
    if (wanted->all)
        return geteuid() == 0 || facts->uid == geteuid();
    for (size_t i = 0; i < wanted->word_count; i++)
        if (is_word(fleet, i, facts))
            return true;
    return false;
}

static char *write_labels(const struct fleet_process *process) {
    char number[16];
    snprintf(number, sizeof number, "%u", process->number);
    return exposition_two_labels("program", process->program, "process", number, NAME_CHARACTERS);
}

/* Gives a process the lowest number that no other process of the same name has. */
static void choose_number(const struct fleet *fleet, struct fleet_process *process) {
    for (bool taken = true; taken;) {
        process->number++;
        free(process->labels);
        process->labels = write_labels(process);
        taken = false;
        for (size_t i = 0; i < fleet->count; i++)
            taken |= strcmp(fleet->processes[i]->labels, process->labels) == 0;
    }
}

static void add_process(struct fleet *fleet, const struct process_facts *facts) {
    if (fleet->count == FLEET_MAX) {
        fleet->cut++;
        return;
    }
    struct fleet_process *process = cli_alloc(1, sizeof *process);
    *process = (struct fleet_process){.facts = *facts, .found = true, .fd = -1};
    process->program = process_program(facts);
    choose_number(fleet, process);
    fleet->processes[fleet->count++] = process;
}

/* Returns true unless the process has executed another program since it was found. A process may
 * give itself another name in the kernel, or write a title into its command line, for each of its
 * tasks. */
static bool is_same_program(const struct fleet_process *known, const struct process_facts *facts) {
    if (strcmp(known->facts.name, facts->name) == 0 ||
        strcmp(known->facts.command, facts->command) == 0)
        return true;
    char *program = process_program(facts);
    bool same = strcmp(known->program, program) == 0;
    free(program);
    return same;
}

static struct fleet_process *find_known(const struct fleet *fleet,
                                        const struct process_facts *facts) {
    for (size_t i = 0; i < fleet->count; i++) {
        const struct process_facts *known = &fleet->processes[i]->facts;
        if (known->pid == facts->pid && known->start_ticks == facts->start_ticks &&
            is_same_program(fleet->processes[i], facts))
            return fleet->processes[i];
    }
    return NULL;
}

/* The new processes that a refresh has found. */
struct refresh {
    struct fleet *fleet;
    struct process_facts *fresh;
    size_t count, room;
    bool only_pids; /* the command line has only pids */
};

static bool visit_process(pid_t pid, void *argument) {
    struct refresh *refresh = argument;
    struct fleet *fleet = refresh->fleet;
    struct process_facts facts;
    if (pid == getpid() || (!refresh->only_pids && !search_is_due(&fleet->search, pid)) ||
        !process_read_facts(pid, &facts) || facts.state == 'Z' || facts.state == 'X' ||
        !is_wanted(fleet, &facts))
        return true;
    struct fleet_process *known = find_known(fleet, &facts);
    if (known) {
        known->found = true;
        known->facts = facts;
    } else if (process_find_answerer(&facts) == PROCESS_WITH &&
               (refresh->only_pids || !process_is_command(&facts))) {
        if (refresh->count == refresh->room) {
            refresh->room = 2 * refresh->room + 16;
            refresh->fresh = cli_grow(refresh->fresh, refresh->room, sizeof facts);
        }
        refresh->fresh[refresh->count++] = facts;
    } else if (!refresh->only_pids)
        search_put_off(&fleet->search);
    return true;
}

static void drop_teller(struct fleet_process *process) {
    if (process->fd >= 0)
        close(process->fd);
    if (process->teller > 0)
        child_end(process->teller);
    free(process->incoming);
    process->incoming = NULL;
    process->incoming_bytes = 0;
    process->fd = -1;
    process->teller = 0;
    process->asked = false;
}

static void free_process(struct fleet_process *process) {
    drop_teller(process);
    free(process->program);
    free(process->labels);
    free(process->answer);
    free(process);
}

/* Visits the pids of the command line, or all processes if it has a name, a pattern or --all. */
static void visit_wanted(struct refresh *refresh) {
    const struct fleet_wanted *wanted = &refresh->fleet->wanted;
    int64_t pid;
    refresh->only_pids = wanted->word_count > 0;
    for (size_t i = 0; i < wanted->word_count; i++)
        refresh->only_pids = refresh->only_pids && cli_is_number(wanted->words[i], &pid);
    if (!refresh->only_pids) {
        search_begin(&refresh->fleet->search, clock_now_ms());
        process_for_each(visit_process, refresh);
    }
    for (size_t i = 0; refresh->only_pids && i < wanted->word_count; i++)
        if (cli_is_number(wanted->words[i], &pid) && pid <= INT32_MAX)
            visit_process((pid_t)pid, refresh);
}

static void tell_cut(struct fleet *fleet) {
    if (fleet->cut == 0 || fleet->cut_told)
        return;
    cli_warn("one command takes at most %d processes, but %zu fit; the rest is left out; start a "
             "second command, and choose different processes for both with --match",
             FLEET_MAX, FLEET_MAX + fleet->cut);
    fleet->cut_told = true;
}

void fleet_refresh(struct fleet *fleet) {
    struct refresh refresh = {.fleet = fleet};
    struct process_facts own;
    size_t left = 0;
    bool unknown;
    process_read_known(getpid(), &own, &unknown);
    if (unknown) /* no descriptor is left to read /proc with, so all would seem to have ended */
        return;
    fleet->cut = 0;
    for (size_t i = 0; i < fleet->count; i++)
        fleet->processes[i]->found = false;
    visit_wanted(&refresh);
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->processes[i]->found)
            fleet->processes[left++] = fleet->processes[i];
        else
            free_process(fleet->processes[i]);
    fleet->count = left;
    /* ended processes were dropped first, so that new processes can get their numbers */
    for (size_t i = 0; i < refresh.count; i++)
        add_process(fleet, &refresh.fresh[i]);
    tell_cut(fleet);
    free(refresh.fresh);
}

struct fleet_process *fleet_find(const struct fleet *fleet, const char *word, unsigned number,
                                 size_t *count) {
    struct fleet_process *found = NULL;
    int64_t pid = 0;
    *count = 0;
    if (word && !cli_is_number(word, &pid))
        pid = 0;
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_process *process = fleet->processes[i];
        if ((!word || process->facts.pid == pid || strcmp(process->program, word) == 0) &&
            (number == 0 || process->number == number)) {
            found = process;
            ++*count;
        }
    }
    return found;
}

/* --- tellers --------------------------------------------------------------------------------- */

static void set_answer(struct fleet_process *process, bool up, char *text) {
    free(process->answer);
    process->answer = text;
    process->up = up;
    process->asked = false;
}

static bool start_teller(struct fleet_process *process) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        return false;
    fflush(NULL);
    /* The turns have to be there before the first fork, so that all tellers share them. */
    namer_share_turns();
    process->teller = fork();
    if (process->teller == 0) {
        int fd = child_begin(fds[1]);
        teller_run(&process->facts, fd);
    }
    close(fds[1]);
    process->fd = fds[0];
    if (process->teller > 0)
        return true;
    process->teller = 0;
    drop_teller(process);
    return false;
}

static void ask_process(struct fleet_process *process, int64_t now_ms) {
    if (process->asked && now_ms - process->asked_ms > TELLER_LATE_MS)
        drop_teller(process);
    if (process->asked) { /* the teller has not answered the last scrape yet */
        free(process->answer);
        process->answer = cli_copy("it does not answer");
        process->up = false;
        return;
    }
    if (process_is_stopped(&process->facts)) {
        set_answer(process, false, cli_copy("it is stopped"));
        return;
    }
    if (process->fd < 0 && !start_teller(process)) {
        set_answer(process, false,
                   cli_format("no process could be started to ask it; %s", strerror(errno)));
        return;
    }
    set_answer(process, false, cli_copy("it does not answer"));
    process->asked = send(process->fd, "?", 1, MSG_NOSIGNAL) == 1;
    process->asked_ms = now_ms;
    if (!process->asked) /* the child has ended; the next scrape starts another child */
        drop_teller(process);
}

void fleet_ask(struct fleet *fleet, int64_t now_ms) {
    for (size_t i = 0; i < fleet->count; i++)
        ask_process(fleet->processes[i], now_ms);
}

bool fleet_waits(const struct fleet *fleet, int64_t asked_ms) {
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->processes[i]->asked && fleet->processes[i]->asked_ms >= asked_ms)
            return true;
    return false;
}

size_t fleet_poll(const struct fleet *fleet, struct pollfd *entries) {
    size_t count = 0;
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->processes[i]->fd >= 0)
            entries[count++] = (struct pollfd){.fd = fleet->processes[i]->fd, .events = POLLIN};
    return count;
}

/* Takes the teller's answer if all its bytes have come. An answer that begins with "!" is the
 * reason why the process gave no figures. */
static void take_answer(struct fleet_process *process) {
    uint32_t length;
    if (process->incoming_bytes < sizeof length)
        return;
    memcpy(&length, process->incoming, sizeof length);
    if (process->incoming_bytes < sizeof length + length)
        return;
    char *text = strndup(process->incoming + sizeof length, length);
    if (!text)
        cli_die(CLI_REFUSED, CLI_NO_MEMORY);
    process->incoming_bytes = 0;
    bool up = text[0] != '!';
    if (!up)
        memmove(text, text + 1, strlen(text));
    set_answer(process, up, text);
}

static void read_teller(struct fleet_process *process) {
    char buffer[65536];
    ssize_t got = recv(process->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || process->incoming_bytes + (size_t)got > TELLER_ANSWER_MAX + sizeof(uint32_t)) {
        drop_teller(process); /* the child has ended; the next scrape starts another child */
        return;
    }
    process->incoming = cli_grow(process->incoming, process->incoming_bytes + (size_t)got, 1);
    memcpy(process->incoming + process->incoming_bytes, buffer, (size_t)got);
    process->incoming_bytes += (size_t)got;
    take_answer(process);
}

void fleet_read(struct fleet *fleet, const struct pollfd *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; entries[i].revents != 0 && k < fleet->count; k++) {
            if (fleet->processes[k]->fd == entries[i].fd) {
                read_teller(fleet->processes[k]);
                break;
            }
        }
    }
}

char *fleet_write(const struct fleet *fleet, enum exposition_format format, size_t *length) {
    struct exposition_source *sources = cli_alloc(2 * fleet->count + 1, sizeof *sources);
    char own[128], up[16], down[16];
    size_t count = 0;
    snprintf(up, sizeof up, "%d\t\t1\n", FAMILY_UP);
    snprintf(down, sizeof down, "%d\t\t0\n", FAMILY_UP);
    snprintf(own, sizeof own, "%d\t\t%zu\n%d\t\t%zu\n", FAMILY_PROCESSES, fleet->count,
             FAMILY_PROCESSES_CUT, fleet->cut);
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_process *process = fleet->processes[i];
        if (!process->answer) /* the process was found after this scrape had begun: no answer yet */
            continue;
        sources[count++] = (struct exposition_source){process->labels, process->up ? up : down};
        if (process->up)
            sources[count++] = (struct exposition_source){process->labels, process->answer};
    }
    sources[count++] = (struct exposition_source){"", own};
    char *text = exposition_write(sources, count, format, length);
    free(sources);
    return text;
}

void fleet_end(struct fleet *fleet) {
    for (size_t i = 0; i < fleet->count; i++)
        free_process(fleet->processes[i]);
    fleet->count = 0;
    free(fleet->start_ticks);
    fleet->start_ticks = NULL;
    search_free(&fleet->search);
}
