/* What `peal info --rdma` says of this process and its libraries, beside what /sys says of the host. */
#ifndef PEALI_RDMA_H
#define PEALI_RDMA_H

#include "topo/fabric.h"

peali_fabric_here peali_rdma_here(void);

#endif
