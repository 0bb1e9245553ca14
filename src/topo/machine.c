/* The machine, from the kernel (host identity, cores) and, for people, from hwloc. */
#include "topo/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#ifdef PEALI_HAVE_HWLOC
#include <hwloc.h>
#endif

/*
 * The kernel's boot identifier (the host's name where it is hidden), which is one for all containers, and the network namespace:
 * the sockets by which the ranks of a host find each other end there.
 */
static void identify(uint64_t host[2])
{
    char text[256] = "";
    struct stat net;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || !fgets(text, sizeof text - 32, f))
        gethostname(text, sizeof text - 33);
    if (f)
        fclose(f);
    if (stat("/proc/self/ns/net", &net) == 0)
        snprintf(text + strlen(text), 32, " %llu", (unsigned long long)net.st_ino);
    XXH128_hash_t h = XXH3_128bits(text, strlen(text));
    host[0] = h.low64;
    host[1] = h.high64;
}

void peali_machine_place(peali_place *place)
{
    memset(place, 0, sizeof *place);
    identify(place->host);
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int c = 0; c < PEALI_MACHINE_CORES && c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &set))
            place->cores[c / 64] |= (uint64_t)1 << c % 64;
}

static const peali_place *place_of(const peali_place *places, size_t stride, int rank)
{
    return (const peali_place *)((const char *)places + stride * (size_t)rank);
}

int peali_machine_crowded(const peali_place *places, size_t stride, int n, int me)
{
    const peali_place *mine = place_of(places, stride, me);
    int ranks = 0, cores = 0;
    peali_place all = {0};
    for (int r = 0; r < n; r++) {
        const peali_place *other = place_of(places, stride, r);
        if (memcmp(other->host, mine->host, sizeof mine->host) != 0)
            continue;
        ranks++;
        for (int i = 0; i < PEALI_MACHINE_CORES / 64; i++)
            all.cores[i] |= other->cores[i];
    }
    for (int i = 0; i < PEALI_MACHINE_CORES / 64; i++)
        cores += __builtin_popcountll(all.cores[i]);
    return ranks > cores;
}

static void processor(char *model, size_t bytes)
{
    char line[256];
    snprintf(model, bytes, "unknown processor");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value[strcspn(value, "\n")] = '\0';
        snprintf(model, bytes, "%s", value + 2);
        break;
    }
    if (f)
        fclose(f);
}

#ifdef PEALI_HAVE_HWLOC
static void shape(char *buf, size_t bytes)
{
    hwloc_topology_t t;
    buf[0] = '\0';
    if (hwloc_topology_init(&t) != 0)
        return;
    if (hwloc_topology_load(t) == 0) {
        int numa = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE), packages = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
        hwloc_obj_t l3 = hwloc_get_obj_by_type(t, HWLOC_OBJ_L3CACHE, 0);
        unsigned long long cache = l3 ? (unsigned long long)l3->attr->cache.size >> 20 : 0;
        snprintf(buf, bytes, ", packages %d, numa nodes %d, l3 %llu MiB", packages, numa, cache);
    }
    hwloc_topology_destroy(t);
}
#else
static void shape(char *buf, size_t bytes)
{
    snprintf(buf, bytes, ", no hwloc");
}
#endif

const char *peali_machine_describe(char *buf, size_t bytes)
{
    char model[128], more[128];
    processor(model, sizeof model);
    shape(more, sizeof more);
    long long memory = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) >> 30;
    snprintf(buf, bytes, "%s, cores %ld%s, memory %lld GiB", model, sysconf(_SC_NPROCESSORS_ONLN), more, memory);
    return buf;
}
