/*
 * Network devices of this host, as the kernel describes them: what they are, how fast, and near which cores.
 */
#ifndef PEALI_DEVICES_H
#define PEALI_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/machine.h"

/* The later, the rather taken. */
enum peali_device_kind { PEALI_DEVICE_LOOPBACK, PEALI_DEVICE_BRIDGE, PEALI_DEVICE_LINK, PEALI_DEVICE_RDMA };

typedef struct peali_device {
    enum peali_device_kind kind;
    long mbits; /* per second; 0: it does not tell */
    bool near;  /* no other core is nearer than one of the cores asked for; true where the kernel does not tell */
} peali_device;

/*
 * Looks up NAME ("eth0", or with its port "mlx5_0:1") below SYS ("/sys"); near: the cores of PLACE. False: it is no network device.
 * Threads: any.
 */
bool peali_device_look_up(const char *sys, const char *name, const peali_place *place, peali_device *device);

#endif
