/*
 * The words that threads share. Each use names the pair that an acquire and a release form.
 */
#ifndef PEALI_ATOMICS_H
#define PEALI_ATOMICS_H

#define peali_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define peali_store_release(p, value) __atomic_store_n((p), (value), __ATOMIC_RELEASE)

/* True where *P was EXPECTED, and is VALUE. Acquires what the store of EXPECTED released. */
#define peali_swap_acquire(p, expected, value) \
    __atomic_compare_exchange_n((p), &(uint64_t){expected}, (value), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)

/* A list that one adds to and another takes whole. Push: true where *P was *BEFORE, which gets what it was; releases for take. */
#define peali_push_release(p, before, value) \
    __atomic_compare_exchange_n((p), (before), (value), true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define peali_take_acquire(p) __atomic_exchange_n((p), NULL, __ATOMIC_ACQUIRE)

#define peali_add_release(p, value) __atomic_fetch_add((p), (value), __ATOMIC_ACQ_REL)

/* For counters and hints that order nothing else. peali_add_relaxed returns the value from before. */
#define peali_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define peali_store_relaxed(p, value) __atomic_store_n((p), (value), __ATOMIC_RELAXED)
#define peali_add_relaxed(p, value) __atomic_fetch_add((p), (value), __ATOMIC_RELAXED)

/* In one order for all threads: of two that each add to a word and then load the other's, one sees what the other added. */
#define peali_add_ordered(p, value) __atomic_fetch_add((p), (value), __ATOMIC_SEQ_CST)
#define peali_exchange_ordered(p, value) __atomic_exchange_n((p), (value), __ATOMIC_SEQ_CST)
#define peali_load_ordered(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)

/* What was loaded, or stored, before, in any way, comes before what is stored next, or loaded. TSan knows no fences. */
#if defined(__SANITIZE_THREAD__)
#define peali_loads_done() ((void)0)
#define peali_stores_done() ((void)0)
#else
#define peali_loads_done() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define peali_stores_done() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif

#endif
