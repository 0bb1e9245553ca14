/*
 * Does this process use CUDA at all? Nothing is opened to find out: who uses it has loaded libcuda.
 */
#ifndef PEALI_PRESENCE_H
#define PEALI_PRESENCE_H

#include <stdbool.h>

/*
 * Is libcuda loaded? LOADED is the caller's: how many libraries this process had loaded when the answer was last no, at first 0; as
 * long as it has loaded no other, that is the answer. About 20 ns. Threads: any.
 */
bool peali_presence_look(unsigned long long *loaded);

#endif
