/* SPDX-License-Identifier: MIT */
/* totals.c - asks one process, or many at the same time, for the head of a dump alone. */
#include "target/totals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"
#include "model/memory.h"

#define AT_ONCE_MOST 32   /* greatest number of children that ask at the same time */
#define OUTSIDE_MOST_S 10 /* reading a million call paths takes about a second */

bool totals_ask(struct client *client, struct totals *totals, struct cli_failure *failure) {
    struct wire_dump_request request = {.flags = WIRE_DUMP_SUMS | WIRE_DUMP_RESIDENT};
    struct client_answer answer;
    struct wire_dump dump;
    if (!client_read(client, WIRE_DUMP, &request, sizeof request, &answer, failure))
        return false;
    if (answer.status != WIRE_OK)
        return client_fail_refused(client, &answer, failure);
    bool whole = answer.length == sizeof dump;
    if (whole) {
        memcpy(&dump, answer.body, sizeof dump);
        totals->requested_bytes = dump.requested_bytes;
        totals->contexts = dump.contexts;
        totals->own_bytes = memory_own_bytes(&dump.ledger);
        totals->uptime_s = (double)dump.uptime_ns / 1e9;
    }
    free(answer.body);
    return whole || cli_fail(failure, CLI_REFUSED,
                             "%s: damaged answer; it is not the head of a dump" CLI_ASK_AGAIN,
                             client->source);
}

static _Noreturn void read_in_child(const struct process_facts *facts, const char *why,
                                    struct totals_outside *answer, int fd) {
    struct rlimit no_core = {0, 0}, memory = {CLIENT_OUTSIDE_BYTES, CLIENT_OUTSIDE_BYTES};
    struct client client;
    struct cli_failure failure;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_AS, &memory);
    alarm(OUTSIDE_MOST_S);
    if (!client_open_outside(&client, facts, why, &failure))
        _exit(1);
    answer->has_totals = totals_ask(&client, &answer->totals, &failure);
    answer->is_incomplete = outside_is_incomplete(client.outside);
    memcpy(answer->library_version, client.hello.library_version, sizeof answer->library_version);
    _exit(write(fd, answer, sizeof *answer) == (ssize_t)sizeof *answer ? 0 : 1);
}

bool totals_read_outside(const struct process_facts *facts, const char *why,
                         struct totals_outside *answer) {
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        read_in_child(facts, why, answer, pipe_fds[1]);
    close(pipe_fds[1]);
    /* An answer is shorter than PIPE_BUF, so it comes whole or not at all. */
    bool good = child > 0 && read(pipe_fds[0], answer, sizeof *answer) == (ssize_t)sizeof *answer;
    close(pipe_fds[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return good;
}

/* --- many processes ------------------------------------------------------------------------ */

/* Reads the memory of a process that does not answer, and takes the figures from it. A child does
 * that: the user did not name this process, and its tables may be damaged on purpose. */
static void find_outside(const struct process_facts *facts, struct totals_found *found) {
    struct totals_outside answer = {.totals = found->totals};
    if (!totals_read_outside(facts, found->reason, &answer))
        return;
    found->is_outside = answer.has_totals;
    found->is_incomplete = answer.is_incomplete;
    found->totals = answer.totals;
    memcpy(found->library_version, answer.library_version, sizeof found->library_version);
}

static struct totals_found found_nothing(const struct process_facts *facts) {
    return (struct totals_found){.totals = {.requested_bytes = WIRE_UNKNOWN,
                                            .contexts = WIRE_UNKNOWN,
                                            .own_bytes = WIRE_UNKNOWN,
                                            .uptime_s = facts->age_s}};
}

static void find(const struct process_facts *facts, struct totals_found *found) {
    struct client client;
    struct cli_failure failure = {0};
    *found = found_nothing(facts);
    if (process_is_stopped(facts)) {
        char *resume = process_tell_resume(facts);
        snprintf(found->reason, sizeof found->reason, "it is stopped; %s", resume);
        free(resume);
    } else if (client_connect(&client, facts, true, &failure)) {
        found->has_socket = true;
        memcpy(found->library_version, client.hello.library_version, sizeof found->library_version);
        totals_ask(&client, &found->totals, &failure);
        client_close(&client);
    }
    if (found->reason[0] == '\0')
        memcpy(found->reason, failure.text, sizeof found->reason);
    if (!found->has_socket)
        find_outside(facts, found);
}

/* A child that asks one process. */
struct asker {
    pid_t pid;
    int fd; /* the child writes a struct totals_found */
    size_t process;
};

struct askers {
    struct asker list[AT_ONCE_MOST];
    size_t count;
    const struct process_facts *const *processes;
    struct totals_found *found;
};

/* Returns false if there is no child, because memory, processes or descriptors are short. */
static bool start(struct askers *askers, size_t process) {
    int pipe_fds[2];
    pid_t parent = getpid();
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        struct totals_found found;
        fork_follow(parent);
        for (size_t i = 0; i < askers->count; i++) /* the child needs descriptors of its own */
            close(askers->list[i].fd);
        find(askers->processes[process], &found);
        _exit(write(pipe_fds[1], &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
    }
    close(pipe_fds[1]);
    if (child < 0)
        close(pipe_fds[0]);
    else
        askers->list[askers->count++] = (struct asker){child, pipe_fds[0], process};
    return child > 0;
}

/* Takes the answer of a child, and waits for it if need be. */
static void finish(struct askers *askers, size_t at) {
    struct asker asker = askers->list[at];
    struct totals_found *found = &askers->found[asker.process];
    /* An answer is shorter than PIPE_BUF, so it comes whole or not at all. */
    if (read(asker.fd, found, sizeof *found) != (ssize_t)sizeof *found) {
        *found = found_nothing(askers->processes[asker.process]);
        strcpy(found->reason, "the child of memctx ps that asked it was ended; try again");
    }
    close(asker.fd);
    while (waitpid(asker.pid, NULL, 0) < 0 && errno == EINTR) {
    }
    askers->list[at] = askers->list[--askers->count];
}

/* Waits until at least one child has written its answer or has ended. */
static void wait_for_answers(struct askers *askers) {
    struct pollfd entries[AT_ONCE_MOST];
    for (size_t i = 0; i < askers->count; i++)
        entries[i] = (struct pollfd){.fd = askers->list[i].fd, .events = POLLIN};
    if (poll(entries, askers->count, -1) < 0)
        entries[0].revents = POLLIN;         /* memory is short; waits for one alone */
    for (size_t i = askers->count; i-- > 0;) /* finish puts the last one in the free place */
        if (entries[i].revents)
            finish(askers, i);
}

_Static_assert(sizeof(struct totals_found) <= PIPE_BUF, "a child's answer comes whole");

void totals_ask_each(const struct process_facts *const *processes, struct totals_found *found,
                     size_t count) {
    struct askers askers = {.processes = processes, .found = found};
    size_t next = 0;
    fflush(NULL); /* a child must not write what this process has not written yet */
    while (next < count || askers.count > 0) {
        bool room = next < count && askers.count < AT_ONCE_MOST;
        if (room && start(&askers, next)) {
            next++;
        } else if (askers.count > 0) {
            wait_for_answers(&askers);
        } else {
            find(processes[next], &found[next]);
            next++;
        }
    }
}
