/*
 * How much memory a process may take before it writes it.
 */
#ifndef PEALI_IDLE_H
#define PEALI_IDLE_H

#include <stddef.h>

/*
 * A quarter of this process' share, one for each core of the host, of what lies idle: on the host, and by the limits of its control
 * groups. 0 where its cores are of several NUMA nodes, for there the thread that writes first decides where memory lies. Takes some
 * tens of microseconds; calls no allocator. Threads: any.
 */
size_t peali_idle_bytes(void);

#endif
