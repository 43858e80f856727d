/* SPDX-License-Identifier: MIT */
/* The recipes of the policies; see policy.h. */
#include "region/policy.h"

const struct policy policies[PLACE_COUNT] = {
    [PLACE_DEFAULT] = {"aset", 0},
    [PLACE_APART] = {"aset", 0},
    [PLACE_SHARED] = {"aset", 0},
    [PLACE_SLAB] = {"slab", RECIPE_EXACT},
    [PLACE_GENERATION] = {"generation", RECIPE_SERIAL | RECIPE_SPARE},
    [PLACE_BUMP] = {"bump", RECIPE_SERIAL},
    [PLACE_SIMPLE] = {"simple", RECIPE_CHAINED},
};

void policy_set(struct bins *bins, uint32_t policy) {
    bins->policy = (uint16_t)policy;
    bins->recipe = policies[policy].recipe | (bins->recipe & RECIPE_OF_TERMS);
}
