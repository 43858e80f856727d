/* SPDX-License-Identifier: MIT */
/* ask.c - resets that the command asks for (`memctx reset --named`). The control thread notes the
 * request in each context of the name. The program learns of the request from
 * memctx_reset_requested, and its next reset of the context notes the answer. */
#include "named/named.h"

static uint32_t last_request; /* number of the last request; only the control thread uses it */

/* Returns how many contexts a request asks at one place: in a crowd the number of members, else 1
 * if the context is alive. */
static uint32_t asked_by(const struct named *named) {
    if (named->policy == NAMED_CROWD)
        return load_acquire(&named->members);
    return load_relaxed(&named->generation) & 1;
}

static struct named *next_of_name(uint32_t *place, const char *name) {
    while (++*place < load_acquire(&named_count)) {
        struct named *named = named_at(*place);
        const char *its_name = load_acquire(&named->name);
        if (its_name && text_equal(its_name, name))
            return named;
    }
    return NULL;
}

void named_ask_reset(const char *name) {
    last_request++;
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || !asked_by(named))
            continue;
        bool crowd = named->policy == NAMED_CROWD;
        if (crowd) {
            store_release(&named->done, 0);
            named->freed = 0;
        }
        store_release(&named->wanted, last_request);
        if (crowd)
            store_release(&named->asking, 1);
    }
}

struct named_answers named_answers(const char *name) {
    struct named_answers answers = {0};
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || load_relaxed(&named->wanted) != last_request || !last_request)
            continue;
        if (named->policy == NAMED_CROWD) {
            uint32_t ended = load_acquire(&named->done);
            answers.asked += ended + (load_relaxed(&named->asking) ? asked_by(named) : 0);
            answers.done += ended;
            answers.freed_bytes += load_relaxed(&named->freed);
            continue;
        }
        bool done = load_acquire(&named->done) == last_request;
        answers.asked++;
        answers.done += done;
        answers.freed_bytes += done ? load_relaxed(&named->freed) : 0;
    }
    return answers;
}
