/* SPDX-License-Identifier: MIT */
/*
 * forks - threads use named contexts at random while the process forks: forks SEED FORKS.
 *
 * THREADS workers and main own contexts of each policy. They allocate, free, resize, reset, delete
 * and make contexts anew, switch to them, and hand them to each other. main forks FORKS times, at
 * random moments. `steps` of a worker is odd while the worker is in the library or notes a result.
 * If it is even in the child, the fork copied the worker outside the library: the child takes the
 * worker's contexts, which must have exactly the chunks that the worker has noted. If it is odd,
 * the child frees the chunks that the worker was not about to change. Each child then makes
 * contexts and threads of its own, and forks once more while its threads run.
 *
 * At the end the program frees nothing, prints the live chunks and bytes of all contexts, and waits
 * for a line.
 */
#include <memctx.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, PLACES = 24, CHUNKS = 120, CELLS = 8, CHILD_STEPS = 400, CROWD = 1200 };
enum { NO_PLACE = -1 };

struct chunk {
    unsigned char *bytes; /* NULL: none */
    size_t size;
    unsigned char tag;
};
struct place { /* a context with its chunks; used by the worker that owns it */
    memctx_t context;
    struct chunk chunks[CHUNKS];
    uint64_t count, bytes;
};
struct worker {
    uint64_t random;
    _Atomic unsigned steps;
    /* The place that the present step changes, and the chunk; NO_PLACE, -1: none, all. */
    int place, chunk;
    int own[PLACES];
};

static struct place places[PLACES];
static struct worker workers[THREADS + 1]; /* the last one is main */
static _Atomic int cells[CELLS];           /* contexts that were given: numbers of places */
static _Atomic bool stop;

/* A child must not use stdio, because a thread of its parent may have held a lock of stdio. */
static void die(const char *what, int line) {
    char text[200];
    int length =
        snprintf(text, sizeof text, "forks: line %d: %s (pid %d)\n", line, what, (int)getpid());
    if (write(2, text, (size_t)length) < 0)
        _exit(4);
    _exit(3);
}
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            die(#condition, __LINE__);                                                             \
    } while (0)

static unsigned dice(struct worker *worker, unsigned sides) {
    uint64_t z = worker->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ (z >> 31)) >> 32) % sides;
}

static size_t some_size(struct worker *worker) {
    unsigned kind = dice(worker, 400);
    return kind == 0    ? dice(worker, 3 << 20)
           : kind < 6   ? dice(worker, 100000)
           : kind < 40  ? dice(worker, 9000)
           : kind < 200 ? dice(worker, 100)
                        : dice(worker, 1200);
}

static void fill(const struct chunk *chunk) {
    for (size_t i = 0; i < chunk->size; i++)
        chunk->bytes[i] = (unsigned char)(chunk->tag + i % 7);
}

static void verify(const struct chunk *chunk) {
    for (size_t i = 0; i < chunk->size; i++)
        if (chunk->bytes[i] != (unsigned char)(chunk->tag + i % 7))
            die("a chunk's bytes are not what was written", (int)i);
}

/* --- the steps of a worker ------------------------------------------------------------------ */

static void make_context(struct worker *worker, struct place *place) {
    static const char *const names[] = {"red", "green", "blue"};
    struct memctx_options options = {.flags = dice(worker, 2) ? 0 : dice(worker, MEMCTX_FLAGS + 1)};
    place->context = memctx_create_with(NULL, names[dice(worker, 3)],
                                        (enum memctx_policy)dice(worker, 5), &options);
    CHECK(place->context);
}

static void forget_chunks(struct place *place) {
    memset(place->chunks, 0, sizeof place->chunks);
    place->count = place->bytes = 0;
}

static void allocate(struct worker *worker, struct place *place, struct chunk *chunk) {
    struct chunk fresh = {.size = some_size(worker), .tag = (unsigned char)dice(worker, 256)};
    switch (dice(worker, 4)) {
    case 0:
        MEMCTX_SCOPE(place->context)
        fresh.bytes = malloc(fresh.size);
        break;
    case 1: fresh.bytes = memctx_alloc_aligned(place->context, 64, fresh.size); break;
    default: fresh.bytes = memctx_alloc(place->context, fresh.size); break;
    }
    CHECK(fresh.bytes);
    fill(&fresh);
    *chunk = fresh;
    place->count++;
    place->bytes += fresh.size;
}

static void release(struct place *place, struct chunk *chunk) {
    verify(chunk);
    free(chunk->bytes);
    place->count--;
    place->bytes -= chunk->size;
    chunk->bytes = NULL;
}

static void resize(struct worker *worker, struct place *place, struct chunk *chunk) {
    struct chunk fresh = {.size = 1 + some_size(worker), .tag = chunk->tag};
    size_t kept = chunk->size < fresh.size ? chunk->size : fresh.size;
    fresh.bytes = realloc(chunk->bytes, fresh.size);
    CHECK(fresh.bytes);
    struct chunk old = {.bytes = fresh.bytes, .size = kept, .tag = chunk->tag};
    verify(&old);
    fill(&fresh);
    place->bytes += fresh.size - chunk->size;
    *chunk = fresh;
}

static void hand_over(struct worker *worker, int *own) {
    int mine = *own;
    CHECK(mine == NO_PLACE || !memctx_give(places[mine].context));
    *own = NO_PLACE;
    *own = atomic_exchange(&cells[dice(worker, CELLS)], mine);
    CHECK(*own == NO_PLACE || !memctx_take(places[*own].context));
}

static void check_context(const struct place *place) {
    struct memctx_stats stats;
    CHECK(!memctx_check(place->context));
    memctx_get_stats(place->context, &stats);
    CHECK(stats.chunks == place->count && stats.requested_bytes == place->bytes);
}

static void step(struct worker *worker) {
    int *own = &worker->own[dice(worker, PLACES)];
    struct place *place = *own == NO_PLACE ? NULL : &places[*own];
    int number = (int)dice(worker, CHUNKS);
    struct chunk *chunk = place ? &place->chunks[number] : NULL;
    unsigned kind = dice(worker, 1000);
    worker->place = *own;
    worker->chunk = kind < 980 ? number : -1;
    atomic_fetch_add(&worker->steps, 1);
    if (kind >= 990)
        hand_over(worker, own);
    else if (!place)
        ;
    else if (kind < 980 && !chunk->bytes)
        allocate(worker, place, chunk);
    else if (kind < 700)
        release(place, chunk);
    else if (kind < 980)
        resize(worker, place, chunk);
    else if (kind < 984) {
        check_context(place);
        memctx_reset(place->context);
        forget_chunks(place);
    } else if (kind < 986) {
        memctx_delete(place->context);
        forget_chunks(place);
        make_context(worker, place);
    } else
        check_context(place);
    atomic_fetch_add(&worker->steps, 1);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    while (!atomic_load(&stop))
        step(worker);
    return NULL;
}

/* --- a child -------------------------------------------------------------------------------- */

/* Takes a context that no thread of this process owns, and compares it with the notes. */
static void inherit(int number) {
    struct place *place = &places[number];
    CHECK(!memctx_take(place->context));
    check_context(place);
    for (int i = 0; i < CHUNKS; i++)
        if (place->chunks[i].bytes) {
            verify(&place->chunks[i]);
            CHECK(memctx_owner(place->chunks[i].bytes) == place->context);
        }
}

/* Frees the chunks of a context whose thread the fork copied inside the library. */
static void free_chunks(struct place *place, int but) {
    for (int i = 0; i < CHUNKS; i++)
        if (i != but && place->chunks[i].bytes)
            release(place, &place->chunks[i]);
}

/* Takes over the places of a worker that is not in this process. */
static void take_over(struct worker *heir, struct worker *gone, unsigned *next) {
    bool outside = !(atomic_load(&gone->steps) & 1);
    for (int i = 0; i < PLACES; i++) {
        int number = gone->own[i];
        gone->own[i] = NO_PLACE;
        if (number == NO_PLACE)
            continue;
        if (outside) {
            inherit(number);
            while (heir->own[*next % PLACES] != NO_PLACE)
                ++*next;
            heir->own[*next % PLACES] = number;
        } else if (number != gone->place || gone->chunk >= 0)
            free_chunks(&places[number], number == gone->place ? gone->chunk : -1);
    }
}

static void *grow_a_crowd(void *seed) {
    static __thread memctx_t crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = memctx_create(NULL, "crowd", MEMCTX_ASET);
        CHECK(crowd[i] && memctx_alloc(crowd[i], 20 + (size_t)i % 100));
    }
    for (int i = 0; i < CROWD; i++)
        memctx_delete(crowd[i]);
    return seed;
}

static void use_new_contexts(struct worker *worker) {
    struct place *place = calloc(1, sizeof *place);
    CHECK(place);
    for (int i = 0; i < 8; i++) {
        make_context(worker, place);
        for (int j = 0; j < CHUNKS; j++)
            allocate(worker, place, &place->chunks[j]);
        free_chunks(place, (int)dice(worker, CHUNKS));
        check_context(place);
        memctx_delete(place->context);
        forget_chunks(place);
    }
    free(place);
}

static void fork_and_wait(struct worker *self, unsigned generation);

static void live_as_child(struct worker *self, unsigned generation) {
    unsigned next = 0;
    alarm(240); /* ends a child that hangs; the parent sees the signal */
    for (int i = 0; i < THREADS; i++)
        take_over(self, &workers[i], &next);
    for (int i = 0; i < PLACES; i++)
        if (self->own[i] != NO_PLACE)
            check_context(&places[self->own[i]]);
    for (int i = 0; i < CHILD_STEPS; i++)
        step(self);
    use_new_contexts(self);
    pthread_t threads[THREADS + 1];
    for (int i = 0; i < THREADS; i++) {
        atomic_store(&workers[i].steps, 0);
        CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
    }
    CHECK(!pthread_create(&threads[THREADS], NULL, grow_a_crowd, NULL));
    for (int i = 0; i < CHILD_STEPS; i++)
        step(self);
    if (generation == 1)
        fork_and_wait(self, 2);
    atomic_store(&stop, true);
    for (int i = 0; i <= THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
}

static void fork_and_wait(struct worker *self, unsigned generation) {
    int status = -1;
    pid_t child = fork();
    if (!child) {
        live_as_child(self, generation);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || status)
        die("a child failed", status);
}

int main(int argc, char **argv) {
    struct worker *self = &workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t count = 0, bytes = 0;
    if (argc < 3)
        return 2;
    for (int i = 0; i < CELLS; i++)
        cells[i] = NO_PLACE;
    for (int i = 0; i <= THREADS; i++) {
        workers[i].random = strtoull(argv[1], NULL, 10) * 100 + (unsigned)i;
        for (int j = 0; j < PLACES; j++)
            workers[i].own[j] = NO_PLACE;
    }
    for (int i = 0; i < PLACES; i++) {
        make_context(self, &places[i]);
        self->own[i] = i;
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
    for (int i = atoi(argv[2]); i > 0; i--) {
        for (unsigned j = dice(self, 3000); j > 0; j--)
            step(self);
        fork_and_wait(self, 1);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
    for (int i = 0; i < PLACES; i++) {
        count += places[i].count;
        bytes += places[i].bytes;
        for (int j = 0; j < CHUNKS; j++)
            if (places[i].chunks[j].bytes)
                verify(&places[i].chunks[j]);
    }
    printf("%lu %lu\n", (unsigned long)count, (unsigned long)bytes);
    fflush(stdout);
    return getchar() != '\n';
}
