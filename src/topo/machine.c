/*
 * The machine, from the kernel (host identity, cores) and from hwloc (its shape). Of the shape all is kept, also what this process
 * may not use: then ranks in different control groups number the objects alike.
 */
#include "topo/machine.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/config.h"

#ifdef PEALI_HAVE_HWLOC
#include <hwloc.h>
#endif

static peali_place identity; /* of this process, without its cores. Written once, by identify */

/*
 * A machine is known by the kernel's boot identifier (the host's name where it is hidden), which is one for all containers. A host
 * ends where the network namespace does, by whose sockets its ranks find each other; or as PEAL_HOST_ID has it. Looked at once, for
 * later this process may have no descriptor left to read that by, and would seem to be elsewhere.
 */
static void identify(void)
{
    peali_place *place = &identity;
    char text[256] = "";
    const char *given = peali_config_get()->host_id;
    struct stat net;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || !fgets(text, sizeof text - 32, f))
        gethostname(text, sizeof text - 33);
    if (f)
        fclose(f);
    place->machine = XXH3_64bits(text, strlen(text));
    if (stat("/proc/self/ns/net", &net) == 0)
        snprintf(text + strlen(text), 32, " %llu", (unsigned long long)net.st_ino);
    const char *name = given ? given : text;
    XXH128_hash_t h = XXH3_128bits(name, strlen(name));
    place->host[0] = h.low64;
    place->host[1] = h.high64;
}

void peali_machine_place(peali_place *place)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, identify);
    *place = identity;
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

int peali_machine_share(const peali_place *places, size_t stride, int n, int me)
{
    const peali_place *mine = place_of(places, stride, me);
    int ranks = 0, cores = 0;
    peali_place all = {0};
    for (int r = 0; r < n; r++) {
        const peali_place *other = place_of(places, stride, r);
        if (other->machine != mine->machine)
            continue;
        ranks++;
        for (int i = 0; i < PEALI_MACHINE_CORES / 64; i++)
            all.cores[i] |= other->cores[i];
    }
    for (int i = 0; i < PEALI_MACHINE_CORES / 64; i++)
        cores += __builtin_popcountll(all.cores[i]);
    return cores / ranks;
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
static const hwloc_obj_type_t types[PEALI_LEVELS] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_NUMANODE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE,
                                                     HWLOC_OBJ_CORE};

/* Written once, by read_once, and kept until the process ends. NULL: hwloc failed. */
static hwloc_topology_t machine;

static void read_once(void)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return;
    if (hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 && hwloc_topology_load(t) == 0)
        machine = t;
    else
        hwloc_topology_destroy(t);
}

static hwloc_topology_t topology(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_once);
    return machine;
}

int peali_machine_objects(int level)
{
    int n = topology() ? hwloc_get_nbobjs_by_type(topology(), types[level]) : 0;
    return n > 0 ? n : 0;
}

void peali_machine_seat(const peali_place *place, peali_seat *seat)
{
    hwloc_topology_t t = topology();
    hwloc_bitmap_t cores = hwloc_bitmap_alloc();
    for (int c = 0; cores && c < PEALI_MACHINE_CORES; c++)
        if (place->cores[c / 64] >> c % 64 & 1)
            hwloc_bitmap_set(cores, (unsigned)c);
    bool known = t && cores && !hwloc_bitmap_iszero(cores);
    for (int level = 0; level < PEALI_LEVELS; level++) {
        hwloc_obj_t in = known ? hwloc_get_next_obj_covering_cpuset_by_type(t, cores, types[level], NULL) : NULL;
        seat->in[level] = in && hwloc_bitmap_isincluded(cores, in->cpuset) ? (int32_t)in->logical_index : -1;
    }
    hwloc_bitmap_free(cores);
}

size_t peali_machine_cache(void)
{
    size_t bytes = 0;
    hwloc_obj_t l3 = NULL;
    while (topology() && (l3 = hwloc_get_next_obj_by_type(topology(), HWLOC_OBJ_L3CACHE, l3)))
        bytes += l3->attr->cache.size;
    return bytes ? bytes : SIZE_MAX;
}

static void shape(char *buf, size_t bytes)
{
    hwloc_obj_t l3 = topology() ? hwloc_get_obj_by_type(topology(), HWLOC_OBJ_L3CACHE, 0) : NULL;
    unsigned long long cache = l3 ? (unsigned long long)l3->attr->cache.size >> 20 : 0;
    snprintf(buf, bytes, ", packages %d, numa nodes %d, l3 %llu MiB", peali_machine_objects(PEALI_SOCKET),
             peali_machine_objects(PEALI_NUMA), cache);
}
#else
int peali_machine_objects(int level)
{
    return 0;
}

void peali_machine_seat(const peali_place *place, peali_seat *seat)
{
    memset(seat, -1, sizeof *seat);
}

size_t peali_machine_cache(void)
{
    return SIZE_MAX;
}

static void shape(char *buf, size_t bytes)
{
    snprintf(buf, bytes, ", no hwloc");
}
#endif

bool peali_machine_takes_over(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

const char *peali_machine_describe(char *buf, size_t bytes)
{
    char model[128], more[128];
    processor(model, sizeof model);
    shape(more, sizeof more);
    long long memory = (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) >> 30;
    snprintf(buf, bytes, "%s, cores %ld%s, memory %lld GiB", model, sysconf(_SC_NPROCESSORS_ONLN), more, memory);
    return buf;
}
