/* What the tests of the pool share: children that report by their exit status, a second mapping that sees what a peer sees. */
#ifndef POOL_TEST_H
#define POOL_TEST_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/memfile.h"
#include "exec/pool.h"

#include <peal/peal.h>

enum { PAGE = 4096, MIB = 1 << 20 };

static peali_pool_view view;
static unsigned char *peer; /* the pool as another process maps it */

/* Leaves the child with NUMBER unless CONDITION holds. */
#define CHILD_CHECK(number, condition)                                                                                             \
    do {                                                                                                                           \
        if (!(condition))                                                                                                          \
            _exit(number);                                                                                                         \
    } while (0)

static inline int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static inline pid_t start(void (*play)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
        signal(SIGBUS, SIG_DFL);
        play();
        _exit(0);
    }
    return child;
}

static inline int in_child(void (*play)(void))
{
    return wait_for(start(play));
}

static inline unsigned char *as_peer(const void *at)
{
    return peer + ((const unsigned char *)at - view.base);
}

static inline bool all_are(const unsigned char *at, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != value)
            return false;
    return true;
}

static inline size_t memory_of_file(void)
{
    struct stat is;
    assert_int_equal(fstat(view.fd, &is), 0);
    return (size_t)is.st_blocks * 512;
}

static inline unsigned char *user(size_t bytes)
{
    unsigned char *at = peali_pool_alloc(bytes, PEALI_POOL_USER);
    assert_non_null(at);
    return at;
}

/* Everything was freed and joined again: one block takes all that there is. */
static inline void assert_all_free(void)
{
    void *all = peali_pool_alloc(view.bytes, PEALI_POOL_PEERS);
    assert_non_null(all);
    peali_pool_free(all);
    assert_int_equal(memory_of_file(), 0);
}

/* Opens the pool of this process, and its second mapping. */
static inline void open_pool(void)
{
    assert_int_equal(peali_pool_open(&view), PEAL_OK);
    peer = peali_memfile_map(view.fd, view.bytes, PROT_READ | PROT_WRITE);
    assert_non_null(peer);
}

static inline void try_to_open(void)
{
    CHILD_CHECK(1, peali_pool_open(&view) == PEAL_OK);
}

/* Tests in a process that may have a pool, else says why they are skipped. */
#define POOL_SKIP_UNLESS_SUPPORTED()                                                                                               \
    do {                                                                                                                           \
        if (in_child(try_to_open) != 0) {                                                                                          \
            printf("skipped: processes cannot share memory here; PEAL_LOG=info says why\n");                                       \
            return 77;                                                                                                             \
        }                                                                                                                          \
    } while (0)

static inline unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Takes and frees blocks of many sizes. Answers a block that was not zeros or did not keep what was written, else NULL. */
static inline void *churn(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    unsigned char *block[16] = {NULL}, value = (unsigned char)seed;
    size_t bytes[16] = {0};
    for (int i = 0; i < 1500; i++) {
        unsigned b = next_random(&seed) % 16;
        if (block[b]) {
            if (!all_are(block[b], 8, value) || !all_are(block[b] + bytes[b] - 8, 8, value))
                return block[b];
            peali_pool_free(block[b]);
            block[b] = NULL;
            continue;
        }
        bytes[b] = 16 + next_random(&seed) % (i % 16 == 0 ? 4 * MIB : 10 * PAGE);
        block[b] = peali_pool_alloc(bytes[b], i % 3 ? PEALI_POOL_USER : PEALI_POOL_PEERS);
        if (!block[b])
            continue; /* a fork is under way */
        if (!all_are(block[b], 8, 0) || !all_are(block[b] + bytes[b] - 8, 8, 0))
            return block[b];
        memset(block[b], value, 8);
        memset(block[b] + bytes[b] - 8, value, 8);
    }
    for (int b = 0; b < 16; b++)
        if (block[b])
            peali_pool_free(block[b]);
    return NULL;
}

typedef void *thread_work(void *arg);

/* Runs WORK[i](ARG[i]) on N threads, at most 4, and BESIDE (or NULL) on this one; true where all threads answered NULL. */
static inline bool on_threads(int n, thread_work *const *work, void *const *arg, void (*beside)(void))
{
    pthread_t ids[4];
    bool fine = true;
    void *bad;
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, work[i], arg[i]), 0);
    if (beside)
        beside();
    for (int i = 0; i < n; i++) {
        pthread_join(ids[i], &bad);
        fine = fine && !bad;
    }
    return fine;
}

#endif
