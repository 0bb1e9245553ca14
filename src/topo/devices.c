/* From /sys alone, which knows a device's socket as well as hwloc does, and is what UCX finds its devices in. */
#include "topo/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What a device of a virtual machine that does not tell its rate counts as, which is also what veth says: tunnels of 10 Mbit/s
 * are not preferred to it.
 */
enum { SILENT_MBITS = 10000, ARPHRD_LOOPBACK = 772 /* linux/if_arp.h */ };

/* The first line of file NAME in folder DIR; "" where there is none. */
static void read_line(const char *dir, const char *name, char *line, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    line[0] = '\0';
    FILE *f = fopen(path, "r");
    if (!f)
        return;
    if (!fgets(line, (int)bytes, f))
        line[0] = '\0';
    fclose(f);
    line[strcspn(line, "\n")] = '\0';
}

static bool has(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* Is one of the cores in the kernel's MASK: hexadecimal, the last digit for cores 3 to 0, commas between? */
static bool holds(const char *mask, const peali_place *place)
{
    int core = 0;
    for (size_t i = strlen(mask); i-- > 0;) {
        if (mask[i] == ',')
            continue;
        const char digit[2] = {mask[i], '\0'};
        uint64_t four = strtoul(digit, NULL, 16);
        if (core < PEALI_MACHINE_CORES && (place->cores[core / 64] >> core % 64 & four))
            return true;
        core += 4;
    }
    return false;
}

static bool is_near(const char *dir, const peali_place *place)
{
    char mask[PEALI_MACHINE_CORES];
    read_line(dir, "device/local_cpus", mask, sizeof mask);
    return strpbrk(mask, "123456789abcdef") == NULL || holds(mask, place);
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static long rdma_mbits(const char *dir, const char *port)
{
    char name[64], line[64];
    int gbits = 0, tenths = 0;
    snprintf(name, sizeof name, "ports/%.16s/rate", port);
    read_line(dir, name, line, sizeof line);
    sscanf(line, "%d.%1d", &gbits, &tenths);
    return 1000L * gbits + 100L * tenths;
}

static void look_at_link(const char *dir, peali_device *device)
{
    char type[16], speed[32];
    read_line(dir, "type", type, sizeof type);
    read_line(dir, "speed", speed, sizeof speed);
    device->kind = atoi(type) == ARPHRD_LOOPBACK ? PEALI_DEVICE_LOOPBACK
                   : has(dir, "bridge")          ? PEALI_DEVICE_BRIDGE
                                                 : PEALI_DEVICE_LINK;
    device->mbits = atol(speed) > 0 ? atol(speed) : has(dir, "device") ? SILENT_MBITS : 0;
}

bool peali_device_look_up(const char *sys, const char *name, const peali_place *place, peali_device *device)
{
    char dir[384];
    size_t len = strcspn(name, ":");
    snprintf(dir, sizeof dir, "%s/class/infiniband/%.*s", sys, (int)len, name);
    *device = (peali_device){.kind = PEALI_DEVICE_RDMA};
    if (len > 0 && has(dir, "ports")) {
        device->mbits = rdma_mbits(dir, name[len] ? name + len + 1 : "1");
    } else {
        snprintf(dir, sizeof dir, "%s/class/net/%s", sys, name);
        if (!name[0] || strchr(name, '/') || !has(dir, "type"))
            return false;
        look_at_link(dir, device);
    }
    device->near = is_near(dir, place);
    return true;
}
