/* SPDX-License-Identifier: MIT */
/* known_names.c - the table of labels that all look-ups of a server share. */
#include "serve/known_names.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cli.h"
#include "model/folding.h"

#define ENTRIES 4096U /* slots; the table is emptied when half of them are in use */
#define LABEL_ROOM 248

struct entry {
    uint64_t key; /* 0: the slot is free */
    char label[LABEL_ROOM];
};

static struct table {
    pthread_mutex_t lock;
    uint32_t count;
    struct entry entries[ENTRIES];
} * table;

void known_names_share(void) {
    pthread_mutexattr_t shared;
    if (table)
        return;
    void *memory =
        mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    table = memory;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&table->lock, &shared);
    pthread_mutexattr_destroy(&shared);
}

/* --- keys ------------------------------------------------------------------------------------ */

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        hash = folding_mix(hash, ((const unsigned char *)bytes)[i]);
    return hash;
}

/* Returns a hash of the module's file as it is now, of its path and of its build id; 0 if it has no
 * build id, or is no file that the process reaches. */
static uint64_t hash_module(const struct model_module *module, pid_t pid) {
    struct stat file;
    if (module->build_id_bytes == 0 || module->path[0] != '/')
        return 0;
    char *path = cli_format("/proc/%d/root%s", (int)pid, module->path);
    bool found = stat(path, &file) == 0 && S_ISREG(file.st_mode);
    free(path);
    if (!found)
        return 0;
    uint64_t hash = mix_bytes(1, module->build_id, module->build_id_bytes);
    hash = mix_bytes(hash, module->path, strlen(module->path));
    hash = folding_mix(hash, file.st_dev);
    hash = folding_mix(hash, file.st_ino);
    hash = folding_mix(hash, (uint64_t)file.st_ctim.tv_sec);
    return folding_mix(hash, (uint64_t)file.st_ctim.tv_nsec) | 1;
}

uint64_t known_names_key(const struct model *model, uint32_t context, pid_t pid) {
    uint64_t hash = 1;
    /* Paths have no loops: the loader has checked that. */
    for (uint32_t at = context; at != WIRE_NONE; at = model->contexts[at].parent) {
        const struct model_frame *frame = model->contexts[at].frame;
        hash = folding_mix(hash, frame->kind);
        if (frame->label)
            hash = mix_bytes(hash, frame->label, strlen(frame->label) + 1);
        if (frame->kind != WIRE_KIND_PATH)
            continue;
        uint64_t file =
            frame->module == WIRE_NONE ? 0 : hash_module(&model->modules[frame->module], pid);
        if (file == 0)
            return 0;
        hash = folding_mix(hash, file);
        hash = folding_mix(hash, frame->address - model->modules[frame->module].bias);
    }
    return hash | 1; /* 0 stands for a path without a key */
}

/* --- the table ------------------------------------------------------------------------------- */

/* An entry's key is written after its label, so a process that is killed while it holds the lock
 * leaves no entry that is half written. */
static bool lock_table(void) {
    if (!table)
        return false;
    int error = pthread_mutex_lock(&table->lock);
    if (error == EOWNERDEAD) /* the process that held the lock was killed */
        error = pthread_mutex_consistent(&table->lock);
    return error == 0;
}

/* The slot of the key, or the free slot for it. There is one: half of the slots are free. */
static struct entry *find_entry(uint64_t key) {
    for (uint64_t at = key ^ key >> 32;; at++) {
        struct entry *entry = &table->entries[at % ENTRIES];
        if (entry->key == 0 || entry->key == key)
            return entry;
    }
}

char *known_names_find(uint64_t key) {
    char *label = NULL;
    if (key == 0 || !lock_table())
        return NULL;
    const struct entry *entry = find_entry(key);
    if (entry->key == key)
        label = cli_copy(entry->label);
    pthread_mutex_unlock(&table->lock);
    return label;
}

void known_names_add(uint64_t key, const char *label) {
    if (key == 0 || strlen(label) >= LABEL_ROOM || !lock_table())
        return;
    if (table->count >= ENTRIES / 2) {
        for (size_t i = 0; i < ENTRIES; i++)
            table->entries[i].key = 0;
        table->count = 0;
    }
    struct entry *entry = find_entry(key);
    if (entry->key == 0) {
        table->count++;
        strcpy(entry->label, label);
        __atomic_store_n(&entry->key, key, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table->lock);
}
