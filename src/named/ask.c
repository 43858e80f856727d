/* SPDX-License-Identifier: MIT */
/* ask.c - resets that the command asks for (`memctx reset --named`). The control thread notes the
 * request in each context of the name. The program learns of the request from
 * memctx_reset_requested, and its next reset of the context notes the answer. */
#include "named/named.h"
#include "os/os.h"

/* While a crowd is asked for a reset, it takes no new members, so each new context of its name
 * costs a place of its own. So a request to a crowd ends when the command has not asked for this
 * long: the command was killed, or waits no more. */
#define ASKING_ENDS_NS 60000000000U

/* Only the control thread uses these two. */
static uint32_t last_request;   /* number of the last request */
static uint64_t last_looked_ns; /* time of the last request or look; 0: no crowd is asked */

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

bool named_ask_reset(const char *name) {
    bool any = false;
    last_request++;
    last_looked_ns = os_now_exact_ns();
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || !asked_by(named))
            continue;
        lock_take(&region_lock); /* without the lock, a crowd's last member may end */
        bool crowd = named->policy == NAMED_CROWD, asked = asked_by(named);
        if (asked && crowd) {
            /* If `wanted` is this request already, keep_answer (crowd.c) has set it: a grown member
             * was asked before its crowd, answered and ended. Its answer is in `done` and `freed`,
             * and stays there. */
            if (named->wanted != last_request) {
                store_release(&named->done, 0);
                named->freed = 0;
            }
            store_release(&named->asking, 1);
        }
        if (asked)
            store_release(&named->wanted, last_request);
        lock_release(&region_lock);
        any |= asked;
    }
    return any;
}

/* Returns the number of the last request for this name; 0: there was none. Requests for other names
 * may have come since. */
static uint32_t request_for(const char *name) {
    uint32_t request = 0;
    for (uint32_t place = 0; place < load_acquire(&named_count);) {
        const struct named *named = next_of_name(&place, name);
        uint32_t wanted = named ? load_relaxed(&named->wanted) : 0;
        request = wanted > request ? wanted : request;
    }
    return request;
}

struct named_answers named_answers(const char *name) {
    struct named_answers answers = {0};
    uint32_t request = request_for(name);
    last_looked_ns = last_looked_ns ? os_now_exact_ns() : 0;
    for (uint32_t place = 0; request && place < load_acquire(&named_count);) {
        struct named *named = next_of_name(&place, name);
        if (!named || load_relaxed(&named->wanted) != request)
            continue;
        if (named->policy == NAMED_CROWD) {
            uint32_t ended = load_acquire(&named->done);
            answers.asked += ended + (load_relaxed(&named->asking) ? asked_by(named) : 0);
            answers.done += ended;
            answers.freed_bytes += load_relaxed(&named->freed);
            continue;
        }
        bool done = load_acquire(&named->done) == request;
        answers.asked++;
        answers.done += done;
        answers.freed_bytes += done ? load_relaxed(&named->freed) : 0;
    }
    return answers;
}

void named_end_old_requests(void) {
    if (!last_looked_ns || os_now_exact_ns() < last_looked_ns + ASKING_ENDS_NS)
        return;
    last_looked_ns = 0;
    for (uint32_t place = 1; place < load_acquire(&named_count); place++) {
        struct named *named = named_at(place);
        if (named->policy != NAMED_CROWD)
            continue;
        /* A crowd without members may be in the list of free places. Its field `asking` then holds
         * the number of the next free place, and must not change. */
        lock_take(&region_lock);
        if (named->policy == NAMED_CROWD && asked_by(named))
            store_release(&named->asking, 0);
        lock_release(&region_lock);
    }
}
