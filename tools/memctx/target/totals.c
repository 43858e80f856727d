/* SPDX-License-Identifier: MIT */
/* totals.c - asks for the head of a dump alone. */
#include "target/totals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/memory.h"

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
