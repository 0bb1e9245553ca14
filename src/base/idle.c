/*
 * What lies idle, by files of the kernel that are read anew each time, for others take memory as well. Nothing here may allocate.
 *
 * Source: proc(5), cgroups(7), sysfs; Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux.
 */
#include "base/idle.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/read.h"

enum { SHARE = 4, PATH = 1024, MARGIN = 64 };

/* One thread's at a time: whoever allocates may do it on a stack of a few KiB. */
static struct scratch {
    uint64_t busy;
    char list[1024], groups[4096], folder[PATH], path[PATH + MARGIN], text[8192];
} scratch;

/* Are all cores of this process of one NUMA node? */
static bool on_one_node(void)
{
    char path[64], *list = scratch.list, *at = list;
    unsigned cpu, node;
    cpu_set_t mine;
    if (getcpu(&cpu, &node) != 0 || sched_getaffinity(0, sizeof mine, &mine) != 0)
        return false;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
    if (!peali_read(path, list, sizeof scratch.list)) /* Linux knows of no nodes, or this process does not see what it knows */
        return access("/sys/devices/system/cpu", F_OK) == 0 && access("/sys/devices/system/node", F_OK) != 0;
    for (; *at >= '0' && *at <= '9'; at += *at == ',') {
        unsigned long first = strtoul(at, &at, 10), last = *at == '-' ? strtoul(at + 1, &at, 10) : first;
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_CLR(first, &mine);
    }
    return CPU_COUNT(&mine) == 0;
}

/* One of the two kinds of control groups: where their folders lie, the files in each, and of its use what files are kept in. */
struct groups {
    const char *mount, *limit, *used, *cached;
};
static const struct groups second = {"/sys/fs/cgroup", "memory.max", "memory.current", "\ninactive_file "},
                           first = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                    "\ntotal_inactive_file "};

static uint64_t number_in(const char *folder, const char *file, uint64_t otherwise)
{
    char text[32];
    snprintf(scratch.path, sizeof scratch.path, "%s/%s", folder, file);
    return peali_read(scratch.path, text, sizeof text) && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : otherwise;
}

/* The number behind WORD in FILE, 0 where it has none. */
static uint64_t number_behind(const char *file, const char *word)
{
    const char *at = peali_read(file, scratch.text, sizeof scratch.text) ? strstr(scratch.text, word) : NULL;
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

/* Of what is USED in FOLDER what the kernel gives back when it is wanted. */
static uint64_t cached_in(const struct groups *g, const char *folder, uint64_t used)
{
    snprintf(scratch.path, sizeof scratch.path, "%s/memory.stat", folder);
    const uint64_t cached = number_behind(scratch.path, g->cached);
    return cached < used ? cached : used;
}

/* What GROUP, a path below the mount, and those above it leave; of one that another container names, those that are there. */
static uint64_t room_of(const struct groups *g, const char *group)
{
    char *folder = scratch.folder;
    uint64_t room = UINT64_MAX;
    int n = snprintf(folder, PATH, "%s%s", g->mount, group);
    if (n >= PATH)
        return 0;
    for (char *end = folder + n; end; end = strrchr(folder + strlen(g->mount), '/')) {
        *end = '\0';
        uint64_t limit = number_in(folder, g->limit, UINT64_MAX), used = number_in(folder, g->used, 0);
        uint64_t left = limit > used ? limit - used : 0;
        if (limit < UINT64_MAX)
            left += cached_in(g, folder, used);
        room = left < room ? left : room;
    }
    return room;
}

/* Lines of "0::GROUP", and of "7:memory:GROUP" with more names between commas. */
static uint64_t room_of_groups(void)
{
    char *rest = NULL;
    uint64_t room = UINT64_MAX;
    if (!peali_read("/proc/self/cgroup", scratch.groups, sizeof scratch.groups))
        return room;
    for (char *line = strtok_r(scratch.groups, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        const struct groups *g = names[1] == '\0' ? &second : strstr(names, "memory") ? &first : NULL;
        uint64_t left = g ? room_of(g, group) : UINT64_MAX;
        room = left < room ? left : room;
    }
    return room;
}

static uint64_t idle(void)
{
    const uint64_t free = number_behind("/proc/meminfo", "\nMemAvailable:") << 10, room = room_of_groups();
    return free < room ? free : room;
}

static uint64_t share(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores >= 1 && on_one_node() ? idle() / SHARE / (uint64_t)cores : 0;
}

/* To be cancelled meanwhile would leave a file open. While another thread asks, nothing lies idle. */
static size_t undisturbed(uint64_t (*bytes)(void))
{
    int cancel;
    if (!peali_swap_acquire(&scratch.busy, 0, 1))
        return 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    const uint64_t found = bytes();
    (void)pthread_setcancelstate(cancel, NULL);
    peali_store_release(&scratch.busy, 0);
    return (size_t)found;
}

size_t peali_idle_all(void)
{
    return undisturbed(idle);
}

size_t peali_idle_bytes(void)
{
    return undisturbed(share);
}
