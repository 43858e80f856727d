/* SPDX-License-Identifier: MIT */
/* Uses named contexts at random and compares them with a model: model SEED OPERATIONS [tiny |
 * crowd]. Each chunk has a pattern, which is checked before the chunk is freed. Another thread
 * frees some chunks. At the end the program prints the live chunks and "look", and waits for a
 * line. "tiny": contexts live shortly, hold few bytes, and each has its own name. "crowd": all
 * contexts have one name and one parent, together with OTHERS more, and most have one chunk in
 * their life. */
#include <memctx.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXTS = 24, CHUNKS = 20000, PASSED = 64 };

struct chunk {
    unsigned char *bytes;
    size_t size;
    int owner;
    unsigned char tag;
};
struct context {
    memctx_t handle; /* NULL: the context does not exist */
    int parent, chunks;
    size_t bytes;
};
static struct context contexts[CONTEXTS];
static struct chunk chunks[CHUNKS];
static int chunk_count;
static unsigned long long state;
enum { OTHERS = 1100 }; /* further contexts of the crowd */
static int tiny, crowd, made;
static memctx_t all; /* the crowd's parent; NULL: there is none */
static char names[CONTEXTS][16];

static unsigned dice(unsigned sides) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % sides;
}

static void fail(const char *what) {
    printf("failed: %s\n", what);
    fflush(stdout);
    exit(1);
}

static void verify(const struct chunk *chunk) {
    for (size_t i = 0; i < chunk->size; i++)
        if (chunk->bytes[i] != (unsigned char)(chunk->tag + i % 7))
            fail("a chunk's bytes are not what was written");
}

static void fill(const struct chunk *chunk) {
    for (size_t i = 0; i < chunk->size; i++)
        chunk->bytes[i] = (unsigned char)(chunk->tag + i % 7);
}

static size_t some_size(void) {
    unsigned kind = dice(200);
    if (tiny && kind)
        return dice(kind < 20 ? 1200 : 200);
    return kind == 0   ? dice(3 << 20)
           : kind < 4  ? dice(60000)
           : kind < 30 ? dice(9000)
                       : dice(kind < 100 ? 100 : 1200);
}

/* A thread that frees the chunks in `passed`, as another thread of a program would. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t there = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static void *passed[PASSED];
static int passed_count, ending;

static void *free_others(void *nothing) {
    pthread_mutex_lock(&lock);
    while (!ending || passed_count) {
        if (!passed_count) {
            pthread_cond_wait(&there, &lock);
            continue;
        }
        free(passed[--passed_count]);
        if (!passed_count)
            pthread_cond_signal(&done);
    }
    pthread_mutex_unlock(&lock);
    return nothing;
}

/* Waits until the other thread has freed all chunks that were passed to it. */
static void wait_for_others(void) {
    pthread_mutex_lock(&lock);
    while (passed_count) {
        pthread_cond_signal(&there);
        pthread_cond_wait(&done, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void drop(int i) {
    struct context *context = &contexts[chunks[i].owner];
    context->chunks--;
    context->bytes -= chunks[i].size;
    chunks[i] = chunks[--chunk_count];
}

static void forget_chunks(int of) {
    for (int i = chunk_count; i-- > 0;)
        if (chunks[i].owner == of) {
            verify(&chunks[i]);
            drop(i);
        }
}

static void forget_below(int of) {
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i].handle && contexts[i].parent == of) {
            forget_below(i);
            forget_chunks(i);
            contexts[i].handle = NULL;
        }
}

static void look(int of) {
    const struct context *context = &contexts[of];
    struct memctx_stats stats;
    if (memctx_is_empty(context->handle) != !context->chunks)
        fail("is_empty");
    if (memctx_parent(context->handle) !=
        (context->parent < 0 ? all : contexts[context->parent].handle))
        fail("parent");
    if (strcmp(memctx_name(context->handle), names[of]) != 0 ||
        memctx_identifier(context->handle)[0])
        fail("name");
    if (memctx_reset_requested(context->handle))
        fail("nobody asked for a reset");
    if (crowd && dice(6)) /* the calls below would make a member an ordinary context */
        return;
    const char *wrong = memctx_check(context->handle);
    if (wrong)
        fail(wrong);
    memctx_get_stats(context->handle, &stats);
    int children = 0;
    for (int i = 0; i < CONTEXTS; i++)
        children += contexts[i].handle && contexts[i].parent == of;
    if ((int)stats.children != children)
        fail("number of children");
    if (stats.chunks != (uint64_t)context->chunks || stats.requested_bytes != context->bytes)
        fail("chunks or bytes of a context");
    if (stats.allocs < stats.frees || stats.allocs - stats.frees != stats.chunks ||
        stats.peak_bytes < stats.requested_bytes)
        fail("what a context had in its life");
}

/* Counts the contexts that memctx_walk visits: each context below the crowd's parent, once. */
static int count_visit(memctx_t context, int depth, void *count) {
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i].handle == context)
            ++*(int *)count;
    if (depth > CONTEXTS || (depth == 0) != (context == all))
        fail("depth of a walk");
    return 0;
}

static void walk(void) {
    int found = 0, alive = 0;
    for (int i = 0; i < CONTEXTS; i++)
        alive += contexts[i].handle != NULL;
    memctx_walk(all, count_visit, &found);
    if (found != alive)
        fail("walk");
}

static void make(int at) {
    int parent = (int)dice(CONTEXTS + 4) - 4;
    struct context *context = &contexts[at];
    if (parent < 0 || !contexts[parent].handle || (crowd && dice(8)))
        parent = -1;
    snprintf(names[at], sizeof names[at], "kind%d", crowd ? 0 : tiny ? made++ : at % 5);
    *context = (struct context){.parent = parent};
    struct memctx_options with = {.flags = dice(4) ? 0 : dice(8)};
    if (dice(4)) /* guarded contexts are slow, so most have no guards */
        with.flags &= ~(unsigned)MEMCTX_GUARDED;
    context->handle =
        memctx_create_with(parent < 0 ? all : contexts[parent].handle, names[at],
                           tiny ? MEMCTX_ASET : (enum memctx_policy)dice(5), tiny ? NULL : &with);
    if (!context->handle)
        fail("create");
}

static void allocate(int at) {
    struct chunk *chunk = &chunks[chunk_count];
    struct context *context = &contexts[at];
    unsigned how = dice(10);
    *chunk = (struct chunk){.size = some_size(), .owner = at, .tag = (unsigned char)dice(256)};
    if (crowd && how && dice(4))
        how = 9;
    if (how == 0) {
        chunk->bytes = memctx_zalloc(context->handle, chunk->size);
        for (size_t i = 0; i < chunk->size; i++)
            if (chunk->bytes[i])
                fail("zalloc gave what is not zero");
    } else if (how == 1) {
        size_t alignment = 16UL << dice(9);
        chunk->bytes = memctx_alloc_aligned(context->handle, alignment, chunk->size);
        if ((uintptr_t)chunk->bytes % alignment)
            fail("alignment");
    } else if (how < 6) {
        MEMCTX_SCOPE(context->handle) {
            if (memctx_current() != context->handle)
                fail("current");
            chunk->bytes = malloc(chunk->size);
        }
    } else {
        chunk->bytes = memctx_alloc(context->handle, chunk->size);
    }
    if (!chunk->bytes)
        fail("out of memory");
    if (memctx_owner(chunk->bytes) != context->handle)
        fail("owner");
    fill(chunk);
    chunk_count++;
    context->chunks++;
    context->bytes += chunk->size;
}

static void resize(int i) {
    struct chunk *chunk = &chunks[i];
    struct context *context = &contexts[chunk->owner];
    if (crowd && dice(4))
        return;
    size_t size = some_size();
    int elsewhere = (int)dice(CONTEXTS);
    memctx_t before = memctx_switch(dice(2) ? contexts[elsewhere].handle : NULL);
    size = size ? size : 1;
    verify(chunk);
    unsigned char *moved = realloc(chunk->bytes, size);
    memctx_switch(before);
    if (!moved || memctx_owner(moved) != context->handle)
        fail("realloc left the context");
    for (size_t k = 0; k < (size < chunk->size ? size : chunk->size); k++)
        if (moved[k] != (unsigned char)(chunk->tag + k % 7))
            fail("realloc lost bytes");
    context->bytes += size - chunk->size;
    chunk->bytes = moved;
    chunk->size = size;
    fill(chunk);
}

static void release(int i) {
    verify(&chunks[i]);
    if (dice(8)) {
        free(chunks[i].bytes);
    } else {
        pthread_mutex_lock(&lock);
        int room = passed_count < PASSED;
        if (room)
            passed[passed_count++] = chunks[i].bytes;
        pthread_cond_signal(&there);
        pthread_mutex_unlock(&lock);
        if (!room)
            return;
    }
    drop(i);
}

/* Hands a context over, frees some of its chunks while it has no owner, and takes it back. */
static void hand_over(int at) {
    memctx_t handle = contexts[at].handle;
    wait_for_others();
    if (memctx_hand_over(handle))
        fail("hand over");
    for (int i = 0, freed = 0; i < chunk_count && freed < 3; i++)
        if (chunks[i].owner == at) {
            verify(&chunks[i]);
            free(chunks[i].bytes);
            drop(i--);
            freed++;
        }
    if (memctx_take(handle))
        fail("take");
    look(at);
}

static void limit(int at) {
    struct context *context = &contexts[at];
    struct memctx_limit limit = {.bytes = context->bytes + 1000};
    wait_for_others();
    memctx_set_limit(context->handle, &limit);
    if (memctx_alloc(context->handle, 1001))
        fail("past the limit");
    void *chunk = memctx_alloc(context->handle, 1000);
    if (!chunk)
        fail("below the limit");
    if (memctx_alloc(context->handle, 1))
        fail("a byte past the limit");
    void *larger = realloc(chunk, 1001);
    if (larger)
        fail("grown past the limit");
    free(chunk);
    memctx_set_limit(context->handle, NULL);
    look(at);
}

/* Allocates in contexts[at]. Tiny contexts and members of a crowd mostly stay small. */
static void allocate_some(int at) {
    int most = CHUNKS;
    if (tiny)
        most = (crowd ? 1 : 2) + (int)dice(crowd && dice(4) ? 1 : dice(4) ? 3 : 20);
    if (contexts[at].chunks < most)
        allocate(at);
}

static void reset_children(int at) {
    wait_for_others();
    for (int i = 0; i < CONTEXTS; i++)
        for (int above = contexts[i].handle ? contexts[i].parent : -1; above >= 0;
             above = contexts[above].parent)
            if (above == at) {
                forget_chunks(i);
                break;
            }
    memctx_reset_children(contexts[at].handle);
}

/* Gives contexts[at] another parent, which must exist and not be below contexts[at]. */
static void change_parent(int at) {
    int parent = (int)dice(CONTEXTS);
    int above = contexts[parent].handle ? parent : at;
    while (above >= 0 && above != at)
        above = contexts[above].parent;
    if (above == at || (crowd && dice(3)))
        return;
    memctx_set_parent(contexts[at].handle, contexts[parent].handle);
    contexts[at].parent = parent;
}

static void step(void) {
    unsigned what = dice(1000);
    int at = (int)dice(CONTEXTS);
    /* tiny contexts are reset, deleted or changed as a whole more often than others */
    if (tiny && what >= 860)
        what = 940 + dice(60);
    struct context *context = &contexts[at];
    if (!context->handle) {
        make(at);
        return;
    }
    if (what < 500) {
        if (chunk_count < CHUNKS)
            allocate_some(at);
        if (crowd && !dice(100))
            walk();
    } else if (what < 840) {
        if (chunk_count)
            release((int)dice((unsigned)chunk_count));
    } else if (what < 960) {
        if (chunk_count)
            resize((int)dice((unsigned)chunk_count));
    } else if (what < 970) {
        wait_for_others();
        forget_below(at);
        forget_chunks(at);
        memctx_reset(context->handle);
    } else if (what < (crowd ? 976 : 974)) {
        wait_for_others();
        forget_below(at);
        forget_chunks(at);
        memctx_delete(context->handle);
        context->handle = NULL;
    } else if (what < 976) {
        reset_children(at);
    } else if (what < 980) {
        change_parent(at);
    } else if (what < 983) {
        hand_over(at);
    } else if (what < 986) {
        limit(at);
    } else {
        wait_for_others();
        look(at);
    }
}

int main(int argc, char **argv) {
    pthread_t other;
    char line[16];
    tiny = argc == 4;
    crowd = tiny && !strcmp(argv[3], "crowd");
    if (argc < 3 || !memctx_is_active())
        return 2;
    state = strtoull(argv[1], NULL, 10) * 2 + 1;
    pthread_create(&other, NULL, free_others, NULL);
    all = crowd ? memctx_create(NULL, "kind0", MEMCTX_ASET) : NULL;
    for (int i = 0; i < OTHERS && crowd; i++)
        memctx_create(all, "kind0", MEMCTX_ASET);
    for (long left = atol(argv[2]); left > 0; left--)
        step();
    wait_for_others();
    for (int i = 0; i < chunk_count; i++)
        verify(&chunks[i]);
    size_t bytes = 0;
    int alive = 0;
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i].handle) {
            look(i);
            bytes += contexts[i].bytes;
            alive += contexts[i].chunks;
        }
    printf("%d %zu\nlook\n", alive, bytes);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 3;
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i].handle && contexts[i].parent < 0) {
            forget_below(i);
            forget_chunks(i);
            memctx_delete(contexts[i].handle);
            contexts[i].handle = NULL;
        }
    if (chunk_count)
        fail("chunks are left");
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_signal(&there);
    pthread_mutex_unlock(&lock);
    pthread_join(other, NULL);
    printf("gone\n");
    fflush(stdout);
    return !fgets(line, sizeof line, stdin);
}
