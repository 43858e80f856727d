/* SPDX-License-Identifier: MIT */
/* Counts the threads of this process that are named memctx, as the control thread is. */
#ifndef MEMCTX_TESTS_CONTROL_CONTROL_THREADS_H
#define MEMCTX_TESTS_CONTROL_CONTROL_THREADS_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int control_threads(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file) && !strcmp(name, "memctx\n"))
            count++;
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    return count;
}

#endif
