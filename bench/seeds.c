/* SPDX-License-Identifier: MIT */
/*
 * seeds EXPERIMENT POLICY - repeats published experiments about memory contexts (PostgreSQL and
 * others) with memctx. Prints a line "NAME VALUE" for each figure. Needs libmemctx.so preloaded,
 * except for the experiments columns and no-op. bench/seeds runs all experiments and prints the
 * published figures beside these.
 */
#include "seeds.h"

enum memctx_policy policy;
uint64_t dice_state = 88172645463325252U;

int main(int argc, char **argv) {
    static const char *const policies[] = {"aset", "slab", "generation", "bump", "simple"};
    static const struct experiment *const files[] = {workloads, costs};
    int alone = argc == 3 && (!strcmp(argv[1], "columns") || !strcmp(argv[1], "no-op"));
    if (argc != 3 || (!memctx_is_active() && !alone)) {
        fprintf(stderr, "usage: memctx run -- seeds EXPERIMENT POLICY\n");
        return 2;
    }
    size_t chosen = 0, count = sizeof(policies) / sizeof(policies[0]);
    while (chosen < count && strcmp(policies[chosen], argv[2]) != 0) {
        chosen++;
    }
    if (chosen == count) {
        fprintf(stderr, "seeds: no policy is called %s\n", argv[2]);
        return 2;
    }
    policy = (enum memctx_policy)chosen;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        for (const struct experiment *one = files[i]; one->name != NULL; one++) {
            if (strcmp(one->name, argv[1]) == 0) {
                one->run();
                return 0;
            }
        }
    }
    return 2;
}
