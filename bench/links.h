/* What copies from one GPU to another are worth, beside what NVML says of the path: peal info --topo. */
#ifndef PEALI_LINKS_H
#define PEALI_LINKS_H

#include "topo/gpus.h"

/*
 * Prints how fast each of GPUS copies to each other, one at a time, and a warning for each path that does less than NVML promises.
 * Where the driver, or PEAL_P2P=0, forbids to ask, it says so.
 */
void peali_links_print(const peali_gpus *gpus);

#endif
