/*
 * NVML by dlopen at first use. What is needed of it is declared here, as nvml.h documents it: a minimal CUDA toolkit has no nvml.h.
 */
#ifndef PEALI_NVML_H
#define PEALI_NVML_H

typedef int peali_nvml_result; /* 0: success */
typedef struct nvmlDevice_st *peali_nvml_device;

typedef struct peali_nvml_pci {
    char bus_legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32]; /* 00000000:0F:00.0 */
} peali_nvml_pci;

enum {
    PEALI_NVML_LINKS = 36,        /* NVML_NVLINK_MAX_LINKS, which grows: NVML refuses those that a GPU has not */
    PEALI_NVML_REMOTE_SWITCH = 2, /* nvmlIntNvLinkDeviceType_t */
    PEALI_NVML_BEHIND_SWITCHES = 20, /* nvmlGpuTopologyLevel_t: to here no host bridge is between two GPUs */
    PEALI_NVML_P2P_WRITE = 1,     /* nvmlGpuP2PCapsIndex_t; the status 0 is a yes */
};

#define PEALI_NVML_FUNCTIONS(F)                                                                                                   \
    F(Init, nvmlInit_v2, (void))                                                                                                  \
    F(DeviceGetCount, nvmlDeviceGetCount_v2, (unsigned *))                                                                        \
    F(DeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, (unsigned, peali_nvml_device *))                                     \
    F(DeviceGetName, nvmlDeviceGetName, (peali_nvml_device, char *, unsigned))                                                    \
    F(DeviceGetPciInfo, nvmlDeviceGetPciInfo_v3, (peali_nvml_device, peali_nvml_pci *))                                           \
    F(DeviceGetNvLinkState, nvmlDeviceGetNvLinkState, (peali_nvml_device, unsigned, unsigned *))                                  \
    F(DeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkRemotePciInfo_v2, (peali_nvml_device, unsigned, peali_nvml_pci *))         \
    F(DeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetNvLinkRemoteDeviceType, (peali_nvml_device, unsigned, unsigned *))            \
    F(DeviceGetTopologyCommonAncestor, nvmlDeviceGetTopologyCommonAncestor, (peali_nvml_device, peali_nvml_device, unsigned *))   \
    F(DeviceGetP2PStatus, nvmlDeviceGetP2PStatus, (peali_nvml_device, peali_nvml_device, unsigned, unsigned *))

typedef struct peali_nvml {
#define PEALI_NVML_MEMBER(name, symbol, parameters) peali_nvml_result(*name) parameters;
    PEALI_NVML_FUNCTIONS(PEALI_NVML_MEMBER)
#undef PEALI_NVML_MEMBER
} peali_nvml;

/* NVML, initialised; or NULL, and WHY gets a constant text with what is missing. Threads: any. */
const peali_nvml *peali_nvml_get(const char **why);

#endif
