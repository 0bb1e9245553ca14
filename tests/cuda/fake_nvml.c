/*
 * An NVML without a GPU, for tests: a libnvidia-ml.so.1 that knows the machine that FAKE_NVML names.
 *
 *     switch4   4 GPUs with 18 links each to NVSwitches
 *     hidden2   2 GPUs likewise, in a virtual machine that does not see the switches
 *     bridge4   4 GPUs, two pairs joined by 4 links each; a pair is behind one PCI switch, and the pairs are on two sockets
 *     refused2  2 GPUs behind a PCI switch, which the driver does not let access each other
 *     none      no GPU
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/nvml.h"

#define API __attribute__((visibility("default")))
#define DECLARE(name, symbol, parameters) API peali_nvml_result symbol parameters;
PEALI_NVML_FUNCTIONS(DECLARE)

enum { INVALID = 2, UNSUPPORTED = 3, SYSTEM = 50, MULTIPLE = 20, LINKS = 18, BRIDGED = 4 };
struct nvmlDevice_st {
    unsigned index;
};
static struct nvmlDevice_st devices[4] = {{0}, {1}, {2}, {3}};

static int machine(const char *name)
{
    const char *text = getenv("FAKE_NVML");
    return strcmp(text ? text : "none", name) == 0;
}

static void name_bus(unsigned index, peali_nvml_pci *pci)
{
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x0a + 0x10 * index);
}

peali_nvml_result nvmlInit_v2(void)
{
    return 0;
}

peali_nvml_result nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = machine("none") ? 0 : machine("switch4") || machine("bridge4") ? 4 : 2;
    return 0;
}

peali_nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned index, peali_nvml_device *device)
{
    *device = &devices[index];
    return 0;
}

peali_nvml_result nvmlDeviceGetName(peali_nvml_device device, char *name, unsigned bytes)
{
    snprintf(name, bytes, "Fake GPU");
    return 0;
}

peali_nvml_result nvmlDeviceGetPciInfo_v3(peali_nvml_device device, peali_nvml_pci *pci)
{
    name_bus(device->index, pci);
    return 0;
}

/* Of two more links than there are, one is off and NVML does not know the other. */
peali_nvml_result nvmlDeviceGetNvLinkState(peali_nvml_device device, unsigned link, unsigned *active)
{
    unsigned links = machine("refused2") ? 0 : machine("bridge4") ? BRIDGED : LINKS;
    *active = link < links;
    return link > links ? INVALID : 0;
}

peali_nvml_result nvmlDeviceGetNvLinkRemoteDeviceType(peali_nvml_device device, unsigned link, unsigned *type)
{
    *type = machine("bridge4") ? 0 : PEALI_NVML_REMOTE_SWITCH;
    return machine("hidden2") ? UNSUPPORTED : 0;
}

peali_nvml_result nvmlDeviceGetNvLinkRemotePciInfo_v2(peali_nvml_device device, unsigned link, peali_nvml_pci *pci)
{
    name_bus(device->index ^ 1, pci);
    return machine("bridge4") ? 0 : UNSUPPORTED;
}

peali_nvml_result nvmlDeviceGetTopologyCommonAncestor(peali_nvml_device a, peali_nvml_device b, unsigned *level)
{
    *level = machine("refused2") || (machine("bridge4") && (a->index ^ 1) == b->index) ? MULTIPLE : SYSTEM;
    return 0;
}

peali_nvml_result nvmlDeviceGetP2PStatus(peali_nvml_device a, peali_nvml_device b, unsigned what, unsigned *status)
{
    *status = machine("refused2") ? 1 : 0;
    return what == PEALI_NVML_P2P_WRITE ? 0 : INVALID;
}
