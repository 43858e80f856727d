/* SPDX-License-Identifier: MIT */
/* A pre-forking server: a parent with 20 MB of small live chunks forks 1 200 children, four at a
 * time; each child allocates, frees some inherited chunks, and exits. The parent checks each
 * result. */
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>

enum { LIVE = 100000, CHILDREN = 1200, AT_A_TIME = 4, CHILD_CHUNKS = 1500 };

static unsigned char *live[LIVE];
static uint32_t live_bytes[LIVE];

static NOINLINE unsigned int child_work(unsigned int seed) {
    struct random random = {.state = seed + 1};
    unsigned char *chunks[CHILD_CHUNKS];
    unsigned int sum = 0;

    for (int i = 0; i < CHILD_CHUNKS; i++) {
        size_t bytes = 16 + random_below(&random, 400);

        chunks[i] = check_chunk(malloc(bytes), bytes);
        tag_chunk(chunks[i], bytes, (unsigned int)bytes);
        sum += chunks[i][0];
    }
    for (int i = 0; i < CHILD_CHUNKS; i++) {
        free(chunks[i]);
    }
    for (int i = 0; i < 300; i++) {
        size_t index = seed * 300U % LIVE + (size_t)i;

        check_tag(live[index % LIVE], live_bytes[index % LIVE], live_bytes[index % LIVE]);
        free(live[index % LIVE]);
    }
    return sum % 200;
}

int main(void) {
    struct random random = {.state = 5};
    uint64_t sum = 0;

    for (int i = 0; i < LIVE; i++) {
        live_bytes[i] = (uint32_t)(16 + random_below(&random, 384));
        live[i] = check_chunk(malloc(live_bytes[i]), live_bytes[i]);
        tag_chunk(live[i], live_bytes[i], live_bytes[i]);
    }
    for (unsigned int child = 0; child < CHILDREN; child += AT_A_TIME) {
        pid_t pids[AT_A_TIME];

        for (unsigned int i = 0; i < AT_A_TIME; i++) {
            pids[i] = fork();
            if (pids[i] < 0) {
                return 1;
            }
            if (pids[i] == 0) {
                _exit((int)child_work(child + i));
            }
        }
        for (int i = 0; i < AT_A_TIME; i++) {
            int status;

            if (waitpid(pids[i], &status, 0) < 0 || !WIFEXITED(status)) {
                fprintf(stderr, "child %d ended with status %d\n", pids[i], status);
                return 1;
            }
            sum = mix(sum, (uint64_t)WEXITSTATUS(status));
        }
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
