/* SPDX-License-Identifier: MIT */
/*
 * planted_more.c - programs in C with one fault each, which planted.cc does not have.
 *
 * planted_more CASE prints "look" when doctor is to look at it. Cases that work on meanwhile, like
 * a server (go_on), end at a line on stdin; the others, at the end of stdin at the latest.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))
#define STEP_BYTES (256 << 10)

static void say_look(void) {
    puts("look");
    fflush(stdout);
}

/* True if a line or the end of stdin comes within `ms` milliseconds. */
static bool told_within(int ms) {
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char line[100];
    return poll(&input, 1, ms) > 0 && (fgets(line, sizeof line, stdin) || true);
}

/* Does a step of the case every few milliseconds until a line comes. */
static void go_on(void (*step)(int number)) {
    say_look();
    for (int number = 0; !told_within(10); number++)
        step(number);
}

static void *map_touched(size_t bytes, int flags, int fd) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED)
        _exit(3);
    memset(memory, 'm', bytes);
    return memory;
}

/* --- growth that is not malloc's -------------------------------------------------------------- */

static void map_more(int number) {
    (void)number;
    map_touched(STEP_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void move_break(int number) {
    (void)number;
    char *more = sbrk(STEP_BYTES);
    if (more == (void *)-1)
        _exit(3);
    memset(more, 'b', STEP_BYTES);
}

static void *sit_on_stack(void *argument) {
    volatile char room[STEP_BYTES];
    char *name = malloc(2000); /* each thread keeps a chunk, too */
    memset(name, 'n', 2000);
    for (size_t i = 0; i < sizeof room; i += 4096)
        room[i] = 's';
    pause();
    free(name);
    return argument;
}

static void client_attend(int number) {
    pthread_t thread;
    if (number < 1500 && pthread_create(&thread, NULL, sit_on_stack, NULL) == 0)
        pthread_detach(thread);
}

/* A thread of a language runtime, which maps a heap of its own. */
static void *sit_on_heap(void *argument) {
    map_touched(STEP_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    pause();
    return argument;
}

static void worker_start(int number) {
    pthread_t thread;
    if (number < 1500 && pthread_create(&thread, NULL, sit_on_heap, NULL) == 0)
        pthread_detach(thread);
}

static void share_more(int number) {
    static int fd = -1;
    if (number == 0)
        fd = memfd_create("ledger", MFD_CLOEXEC);
    if (ftruncate(fd, (number + 1L) * STEP_BYTES) != 0)
        _exit(3);
    char *memory =
        mmap(NULL, STEP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)number * STEP_BYTES);
    if (memory == MAP_FAILED)
        _exit(3);
    memset(memory, 's', STEP_BYTES);
}

/* What a runtime of Java adds to: its heap, the shared heap of its collector ZGC, and the machine
 * code that it generates. */
static void runtime_grow(int number) {
    static int fd = -1;
    if (number == 0)
        fd = memfd_create("java_heap", MFD_CLOEXEC);
    if (ftruncate(fd, (number + 1L) * STEP_BYTES) != 0)
        _exit(3);
    char *heap =
        mmap(NULL, STEP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)number * STEP_BYTES);
    char *code = mmap(NULL, STEP_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED || code == MAP_FAILED)
        _exit(3);
    memset(heap, 'h', STEP_BYTES);
    memset(code, 'c', STEP_BYTES);
    map_touched(STEP_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* The buffers of a database: memory of a fixed size, shared or private, of which ever more is
 * touched. */
static int buffers_kind = MAP_SHARED;

static void fill_buffers(int number) {
    static char *buffers;
    size_t bytes = 1024 * STEP_BYTES;
    if (!buffers)
        buffers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, buffers_kind | MAP_ANONYMOUS, -1, 0);
    if (buffers == MAP_FAILED)
        _exit(3);
    memset(buffers + (size_t)number % 1024 * STEP_BYTES, 'b', STEP_BYTES);
}

/* Only the memory of malloc grows. */
static void only_malloc(int number) {
    for (int i = 0; i < 200 && number >= 0; i++)
        memset(malloc(1000), 'm', 1000);
}

/* An array that is large enough for a long time. */
APART static void array_fill(int number) {
    static char *array;
    if (!array)
        array = malloc(1024 * STEP_BYTES);
    if (number < 1024)
        memset(array + (size_t)number * STEP_BYTES, 'a', STEP_BYTES);
}

/* An arena. Its chunks have 2, 4, 8 MiB and so on: two at first, the third one at step 60. */
APART static void arena_fill(int number) {
    static char *chunk;
    static size_t used, size = 1 << 20;
    size_t step = number == 0 ? (6 << 20) - 60 * (STEP_BYTES / 8) : STEP_BYTES / 8;
    while (step > 0) {
        if (!chunk || used == size) {
            size *= 2;
            chunk = malloc(size);
            used = 0;
        }
        size_t part = step < size - used ? step : size - used;
        memset(chunk + used, 'a', part);
        used += part;
        step -= part;
    }
}

/* The heap of a garbage collector: it fills and is emptied, again and again. */
static void collector(int number) {
    static char *places[100];
    int at = number % 100;
    if (at == 0)
        for (int i = 0; i < 100 && places[i]; i++)
            munmap(places[i], STEP_BYTES);
    places[at] = map_touched(STEP_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void maps(void) {
    go_on(map_more);
}

static void brk_heap(void) {
    go_on(move_break);
}

static void stacks(void) {
    go_on(client_attend);
}

static void *end_at_once(void *argument) {
    volatile char room[32 << 10];
    for (size_t i = 0; i < sizeof room; i += 4096)
        room[i] = 'e';
    return argument;
}

/* Starts a thread that ends, and never joins it. */
static void audit_start(int number) {
    pthread_t thread;
    if (number < 2000 && pthread_create(&thread, NULL, end_at_once, NULL) != 0)
        _exit(3);
}

static void unjoined(void) {
    go_on(audit_start);
}

/* The stack of this thread is smaller than the default, and counts as a mapping of the program. */
static void probe_start(int number) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 18);
    if (number < 2000 && pthread_create(&thread, &attributes, end_at_once, NULL) != 0)
        _exit(3);
}

static void unjoined_small(void) {
    go_on(probe_start);
}

static void heaps(void) {
    go_on(worker_start);
}

static void shared(void) {
    go_on(share_more);
}

static void buffers(void) {
    fill_buffers(0);
    go_on(fill_buffers);
}

static void private_buffers(void) {
    buffers_kind = MAP_PRIVATE;
    buffers();
}

static void runtime(void) {
    go_on(runtime_grow);
}

static void mallocs(void) {
    go_on(only_malloc);
}

/* Frees a buffer of 20 MiB, and makes another one of 20 MiB smaller. */
static void handed_back(void) {
    char *freed = malloc(20 << 20), *shrunk = malloc(20 << 20);
    memset(freed, 'f', 20 << 20);
    memset(shrunk, 's', 20 << 20);
    free(freed);
    shrunk = realloc(shrunk, 8 << 20);
    say_look();
    told_within(-1);
    free(shrunk);
}

static void array(void) {
    array_fill(0);
    go_on(array_fill);
}

static void arena(void) {
    go_on(arena_fill);
}

static void collects(void) {
    for (int number = 0; number < 100; number++)
        collector(number);
    go_on(collector);
}

/* --- memory that the program never touches ---------------------------------------------------- */

#define SLEEPERS 500

APART static void *job_state(size_t bytes) {
    return memset(malloc(bytes), 'j', bytes);
}

/* A thread that allocates often enough to get a heap of its own, and keeps a few chunks of many
 * sizes. Each size has a page of its own, of which only the first blocks are touched. */
static void *sleep_with_little(void *argument) {
    pthread_barrier_t *barrier = argument;
    void *kept[40] = {NULL};
    for (int round = 0; round < 100; round++)
        for (size_t i = 0; i < 40; i++) {
            free(kept[i]);
            kept[i] = job_state(16 + i * 24);
        }
    for (size_t i = 0; i < 40; i += 2)
        free(kept[i]);
    pthread_barrier_wait(barrier);
    pause();
    return kept[1];
}

static void sleepers(void) {
    static pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, SLEEPERS + 1);
    for (int i = 0; i < SLEEPERS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sleep_with_little, &barrier) != 0)
            _exit(3);
    }
    pthread_barrier_wait(&barrier);
    say_look();
    told_within(-1);
}

/* --- chunks that another policy may serve better ---------------------------------------------- */

static unsigned dice(unsigned sides) {
    static unsigned state = 12345;
    state = state * 1103515245 + 12345;
    return (state >> 8) % sides;
}

APART static char *row_make(size_t bytes, size_t alignment) {
    char *row = alignment ? aligned_alloc(alignment, bytes) : malloc(bytes);
    if (!row)
        _exit(3);
    return memset(row, 'r', bytes);
}

APART static void rows_red(void) {
    for (int i = 0; i < 55000; i++)
        row_make(641, 0);
    __asm__ volatile("");
}

APART static void rows_blue(void) {
    for (int i = 0; i < 55000; i++)
        row_make(641, 0);
    __asm__ volatile("");
}

static void callers(void) { /* two functions make rows just above 640 bytes */
    rows_red();
    rows_blue();
    say_look();
    told_within(-1);
}

/* rows COUNT LEAST MOST ALIGNMENT ORDER: rows of LEAST to MOST bytes are replaced, in the order of
 * their allocation (fifo), in any order (any), or half of them are freed in any order (half). */
static void rows(char **words) {
    size_t count = strtoul(words[0], NULL, 10), least = strtoul(words[1], NULL, 10);
    size_t most = strtoul(words[2], NULL, 10), alignment = strtoul(words[3], NULL, 10);
    bool any = strcmp(words[4], "fifo") != 0, half = strcmp(words[4], "half") == 0;
    char **all = calloc(count, sizeof *all);
    do {
        for (size_t i = 0; i < (any ? 12 : 3) * count; i++) {
            size_t at = i < count || !any ? i % count : dice((unsigned)count);
            free(all[at]);
            all[at] = row_make(least + dice((unsigned)(most - least) + 1), alignment);
        }
        for (size_t i = 0; i < count && half; i++)
            if (dice(2)) {
                free(all[i]);
                all[i] = NULL;
            }
        say_look();
    } while (!told_within(-1) || !feof(stdin));
}

/* --- chunks that the C library allocates for the program, and aligned ones -------------------- */

APART static char *label_make(int number) {
    char *label;
    return asprintf(&label, "label %d: %0150d", number, number) < 0 ? NULL : label;
}

static void labels(void) { /* the labels are never freed */
    do {
        for (int number = 0; number < 20000; number++)
            label_make(number);
        say_look();
    } while (!told_within(-1) || !feof(stdin));
}

APART static char *sector_new(void) {
    void *sector = NULL;
    if (posix_memalign(&sector, 4096, 5000))
        exit(1);
    return memset(sector, 's', 4096);
}

static void sectors(void) { /* the last OS pages of the blocks are never touched */
    for (int number = 0; number < 5000; number++)
        sector_new();
    say_look();
    while (!told_within(-1))
        ;
}

/* --- sessions of which one in 50 stays -------------------------------------------------------- */

APART static char *session_keep(void) {
    return memset(malloc(250), 's', 250);
}

static void sessions(void) {
    static char *all[200000];
    for (size_t i = 0; i < 200000; i++)
        all[i] = session_keep();
    for (size_t i = 0; i < 200000; i++)
        if (i % 50)
            free(all[i]);
    say_look();
    while (!told_within(-1) || !feof(stdin)) {
        for (size_t i = 0; i < 100; i++)
            free(row_make(1000 + i * 60, 0));
        say_look();
    }
}

/* --- very many call paths --------------------------------------------------------------------- */

typedef void turn(uint64_t way, int depth);
static turn *const turns[4];

static size_t left_bytes = 48; /* bytes of the next chunk */

APART static void leave_chunk(void) {
    memset(malloc(left_bytes), 'c', left_bytes);
}

/* Two bits of `way` choose the next function. */
static void take_turn(uint64_t way, int depth) {
    if (depth == 0)
        leave_chunk();
    else
        turns[way % 4](way / 4, depth - 1);
}

#define TURN(name)                                                                                 \
    APART static void name(uint64_t way, int depth) {                                              \
        take_turn(way, depth);                                                                     \
        __asm__ volatile("" : : : "memory");                                                       \
    }
TURN(turn_left)
TURN(turn_right)
TURN(go_up)
TURN(go_down)
static turn *const turns[4] = {turn_left, turn_right, go_up, go_down};

/* paths COUNT TURNS: takes COUNT ways through TURNS calls. Each way is a call path, which leaves a
 * chunk in each round. */
static void paths(char **words) {
    uint64_t count = strtoull(words[0], NULL, 10);
    int turns_made = atoi(words[1]);
    do {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t way = i * 0x9e3779b97f4a7c15U;
            left_bytes = i % 100 == 0 ? 3000 : 48;
            take_turn(way >> (64 - 2 * turns_made), turns_made);
        }
        say_look();
    } while (!told_within(-1) || !feof(stdin));
}

/* --- peaks of threads that have ended --------------------------------------------------------- */

#define HELD 300000

APART static char *index_entry(size_t bytes) {
    char *entry = malloc(bytes);
    entry[0] = 'i';
    return entry;
}

/* A thread that holds all its chunks at one moment and none at its end. */
static void *hold_all(void *argument) {
    char **held = malloc(HELD * sizeof *held);
    for (size_t i = 0; i < HELD; i++)
        held[i] = index_entry(40);
    for (size_t i = 0; i < HELD; i++)
        free(held[i]);
    free(held);
    return argument;
}

static void one_after_another(void) {
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, hold_all, NULL) != 0)
            _exit(3);
        pthread_join(thread, NULL);
    }
    say_look();
    told_within(-1);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"sessions", sessions},
        {"one-after-another", one_after_another},
        {"maps", maps},
        {"brk", brk_heap},
        {"stacks", stacks},
        {"heaps", heaps},
        {"unjoined", unjoined},
        {"unjoined-small", unjoined_small},
        {"shared", shared},
        {"mallocs", mallocs},
        {"handed-back", handed_back},
        {"collects", collects},
        {"sleepers", sleepers},
        {"callers", callers},
        {"labels", labels},
        {"sectors", sectors},
        {"buffers", buffers},
        {"array", array},
        {"arena", arena},
        {"private-buffers", private_buffers},
        {"runtime", runtime},
    };
    if (argc > 3 && strcmp(argv[1], "paths") == 0) {
        paths(argv + 2);
        return 0;
    }
    if (argc > 6 && strcmp(argv[1], "rows") == 0) {
        rows(argv + 2);
        return 0;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    fprintf(stderr, "planted_more: no such case\n");
    return 2;
}
