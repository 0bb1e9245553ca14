/* A thread of Peal's own, and how it rests. */
#ifndef PEALI_THREAD_H
#define PEALI_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A variable of each thread, found without a call. For a few words: glibc sets 512 bytes aside for those of libraries that are
 * loaded late (its manual: rtld.optional_static_tls).
 */
#define PEALI_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

/* Starts RUN in a thread that takes no signals: they are the program's. 0, or an errno where there can be none. */
int peali_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* May this thread run on one core alone? Those that it starts may no more. */
bool peali_thread_has_one_core(void);

/* A condition, and a wait for it of at most NS nanoseconds by a clock that never goes back. */
void peali_thread_cond_init(pthread_cond_t *cond);
void peali_thread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ns);

#endif
