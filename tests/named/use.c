/* SPDX-License-Identifier: MIT */
/* Runs one case that checks a promise of memctx.h: use CASE. Exit status 0: the library keeps the
 * promise; 1: it does not; 2: no case has that name. A case of misuse is expected to abort. */
#include "use.h"

#include <string.h>

memctx_t handed;
pthread_barrier_t began, may_end;

int main(int argc, char **argv) {
    static const struct use_case *const subjects[] = {
        cases_of_scopes, cases_of_tree,    cases_of_limits, cases_of_hand_over,
        cases_of_tiny,   cases_of_options, cases_of_crowds, cases_of_misuse,
    };
    for (size_t i = 0; argc == 2 && i < sizeof subjects / sizeof subjects[0]; i++)
        for (const struct use_case *one = subjects[i]; one->name; one++)
            if (!strcmp(argv[1], one->name)) {
                one->run();
                puts("done");
                return 0;
            }
    return 2;
}
