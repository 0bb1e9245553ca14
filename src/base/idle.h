/*
 * How much memory a process may take before it writes it.
 */
#ifndef PEALI_IDLE_H
#define PEALI_IDLE_H

#include <stddef.h>

#include <peal/status.h>

/*
 * A quarter of this process' share, one for each core of the host, of what lies idle: on the host, and by the limits of its control
 * groups. 0 where its cores are of several NUMA nodes, for there the thread that writes first decides where memory lies. Takes some
 * tens of microseconds; calls no allocator, and takes little of the stack. Threads: any; 0 while another one asks.
 */
PEAL_PUBLIC size_t peali_idle_bytes(void);

/* All that lies idle, likewise. */
size_t peali_idle_all(void);

#endif
