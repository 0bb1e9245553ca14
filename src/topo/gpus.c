/*
 * A link that ends at another GPU joins the two. One that ends at a switch, or where NVML does not say at what, as in a virtual
 * machine that sees no switch, reaches all GPUs that have such links, if the driver lets them access each other.
 */
#include "topo/gpus.h"

#include <string.h>
#include <strings.h>

#include "topo/nvml.h"

/* The links of one GPU. */
typedef struct links {
    int to[PEALI_GPUS]; /* that end at this GPU */
    int switched;
} links;

static int by_bus(const peali_gpus *gpus, const char *bus)
{
    for (int i = 0; i < gpus->n; i++)
        if (strcasecmp(gpus->gpus[i].bus, bus) == 0)
            return i;
    return -1;
}

static void find_links(const peali_nvml *nvml, const peali_gpus *gpus, peali_nvml_device device, links *l)
{
    memset(l, 0, sizeof *l);
    for (unsigned k = 0; k < PEALI_NVML_LINKS; k++) {
        unsigned active = 0, type = PEALI_NVML_REMOTE_SWITCH;
        peali_nvml_pci end = {.bus_id = ""};
        if (nvml->DeviceGetNvLinkState(device, k, &active) != 0 || !active)
            continue;
        (void)nvml->DeviceGetNvLinkRemoteDeviceType(device, k, &type);
        if (type == PEALI_NVML_REMOTE_SWITCH) {
            l->switched++;
            continue;
        }
        int peer = nvml->DeviceGetNvLinkRemotePciInfo(device, k, &end) == 0 ? by_bus(gpus, end.bus_id) : -1;
        if (peer >= 0)
            l->to[peer]++;
    }
}

/* False where the driver does not answer. */
static bool find_gpu(const peali_nvml *nvml, unsigned index, peali_nvml_device *device, peali_gpus *gpus)
{
    peali_nvml_pci pci;
    if (nvml->DeviceGetHandleByIndex(index, device) != 0 || nvml->DeviceGetPciInfo(*device, &pci) != 0)
        return false;
    if (nvml->DeviceGetName(*device, gpus->gpus[index].name, sizeof gpus->gpus[index].name) != 0)
        strcpy(gpus->gpus[index].name, "unknown");
    memcpy(gpus->gpus[index].bus, pci.bus_id, sizeof gpus->gpus[index].bus);
    gpus->gpus[index].bus[sizeof gpus->gpus[index].bus - 1] = '\0';
    return true;
}

static void join(const peali_nvml *nvml, const peali_nvml_device *devices, const links *l, peali_gpus *gpus, int a, int b)
{
    unsigned level = PEALI_NVML_BEHIND_SWITCHES + 1, refused = 1;
    gpus->between[a][b].path = PEALI_PATH_SELF;
    if (a == b)
        return;
    gpus->between[a][b].no_peers =
        nvml->DeviceGetP2PStatus(devices[a], devices[b], PEALI_NVML_P2P_WRITE, &refused) != 0 || refused;
    int switched = l[a].switched < l[b].switched ? l[a].switched : l[b].switched;
    gpus->between[a][b].nvlinks = l[a].to[b] ? l[a].to[b] : gpus->between[a][b].no_peers ? 0 : switched;
    (void)nvml->DeviceGetTopologyCommonAncestor(devices[a], devices[b], &level);
    gpus->between[a][b].path = gpus->between[a][b].nvlinks ? PEALI_PATH_NVLINK
                               : level <= PEALI_NVML_BEHIND_SWITCHES ? PEALI_PATH_PCIE : PEALI_PATH_HOST;
}

bool peali_gpus_find(peali_gpus *gpus, const char **why)
{
    const peali_nvml *nvml = peali_nvml_get(why);
    peali_nvml_device devices[PEALI_GPUS];
    links l[PEALI_GPUS];
    unsigned n = 0;
    memset(gpus, 0, sizeof *gpus);
    if (!nvml)
        return false;
    *why = "NVML finds no GPU";
    if (nvml->DeviceGetCount(&n) != 0 || n == 0)
        return false;
    *why = "NVML does not answer for a GPU; look at nvidia-smi";
    gpus->n = n < PEALI_GPUS ? (int)n : PEALI_GPUS;
    for (int i = 0; i < gpus->n; i++)
        if (!find_gpu(nvml, (unsigned)i, &devices[i], gpus))
            return false;
    for (int i = 0; i < gpus->n; i++)
        find_links(nvml, gpus, devices[i], &l[i]);
    for (int a = 0; a < gpus->n; a++)
        for (int b = 0; b < gpus->n; b++)
            join(nvml, devices, l, gpus, a, b);
    return true;
}
