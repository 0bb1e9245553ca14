/*
 * Does this process use CUDA at all? Nothing is opened to find out: who uses it has loaded libcuda.
 */
#ifndef PEALI_PRESENCE_H
#define PEALI_PRESENCE_H

#include <stdbool.h>

/* Is libcuda loaded? Where it is not, about 20 ns, as long as the process loads no other library. Threads: any. */
bool peali_presence_look(void);

#endif
