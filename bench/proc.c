#include "proc.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512, PATH_BYTES = 300 };

uint64_t proc_kb(const char *path, const char *name)
{
    char line[LINE_BYTES];
    uint64_t kb = 0;
    FILE *f = fopen(path, "re");

    if (!f) {
        return 0;
    }
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kb = strtoull(line + strlen(name), NULL, 10);
        }
    }
    (void)fclose(f);
    return kb;
}

static bool file_says(const char *pid, const char *file, const char *text)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    bool found = false;

    (void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        found = strstr(line, text) != NULL;
    }
    if (f) {
        (void)fclose(f);
    }
    return found;
}

/* A sandbox's processes are those in the cgroups that carry its id. */
uint64_t proc_agent_kb(const char *sandbox_id)
{
    char path[PATH_BYTES];
    uint64_t kb = 0;
    const struct dirent *entry;
    DIR *proc = opendir("/proc");

    while (proc && kb == 0 && (entry = readdir(proc))) {
        if (isdigit((unsigned char)entry->d_name[0]) &&
            file_says(entry->d_name, "comm", "agent\n") &&
            file_says(entry->d_name, "cgroup", sandbox_id)) {
            (void)snprintf(path, sizeof(path), "/proc/%s/status", entry->d_name);
            kb = proc_kb(path, "VmRSS:");
        }
    }
    if (proc) {
        (void)closedir(proc);
    }
    return kb;
}
