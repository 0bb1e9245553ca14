/*
 * Large blocks by themselves, without a malloc that gives them: so that ASan and TSan can watch. Freed ones are used again where
 * they fit, by any thread, and by one alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/idle.h"
#include "exec/pool.h"
#include "heap/block.h"

#define MIB ((size_t)1 << 20)

static void reuse(void **state)
{
    bool zero = false;
    unsigned char *first = peali_block_get(4 * MIB, 4 * MIB, 1, &zero);
    assert_non_null(first);
    assert_true(zero && peali_block_is(first) && peali_pool_holds(first, 4 * MIB));
    assert_int_equal(peali_block_bytes(first), 4 * MIB);
    memset(first, 1, 4 * MIB);
    peali_block_drop(first);
    unsigned char *less = peali_block_get(2 * MIB, 2 * MIB, 1, &zero);
    assert_true(zero && less != first);
    unsigned char *about = peali_block_get(4 * MIB - 5000, 4 * MIB - 5000, 1, &zero);
    assert_true(!zero && about == first);
    peali_block_drop(less);
    peali_block_drop(about);
    assert_false(peali_block_is(&zero) || peali_block_is(NULL));
}

static void resize(void **state)
{
    bool zero;
    unsigned char *block = peali_block_get(2 * MIB, 6 * MIB, 1, &zero);
    memset(block, 1, 2 * MIB);
    assert_true(peali_block_resize(block, 6 * MIB));
    assert_int_equal(peali_block_bytes(block), 6 * MIB);
    assert_false(peali_block_resize(block, 6 * MIB + 4097));
    assert_true(peali_block_resize(block, 3 * MIB) && peali_block_resize(block, 6 * MIB));
    assert_true(peali_block_resize(block, MIB)); /* gives the rest back */
    assert_false(peali_block_resize(block, 6 * MIB));
    assert_true(peali_pool_holds(block, MIB) && block[MIB - 1] == 1);
    peali_block_drop(block);
}

/* Bytes of the pool that take memory. */
static size_t taken(void)
{
    peali_pool_view view;
    struct stat file;
    assert_int_equal(peali_pool_open(&view), PEAL_OK);
    assert_int_equal(fstat(view.fd, &file), 0);
    return (size_t)file.st_blocks * 512;
}

/* Blocks that begin behind a huge page, each somewhere else, give back what is behind them as others do. */
static void resize_new(void **state)
{
    for (int turn = 0; turn < 8; turn++) {
        bool zero;
        unsigned char *block = peali_block_get(40 * MIB, 40 * MIB, 1, &zero), *rest[9];
        assert_true(block && zero);
        memset(block, 1, 40 * MIB);
        assert_true(peali_block_resize(block, 3 * MIB));
        for (int i = 0; i < 9; i++) {
            rest[i] = peali_block_get(4 * MIB, 4 * MIB, 1, &zero);
            memset(rest[i], 2, 4 * MIB);
        }
        for (size_t at = 0; at < 3 * MIB; at++)
            assert_int_equal(block[at], 1);
        assert_true(peali_pool_holds(block, 3 * MIB));
        peali_block_drop(block);
        for (int i = 0; i < 9; i++)
            peali_block_drop(rest[i]);
    }
}

/* Does this kernel make huge pages of shared memory? */
static bool huge(void)
{
    const size_t before = taken();
    unsigned char *probe = peali_pool_alloc_whole(36 * MIB, true);
    const bool is = taken() >= before + 32 * MIB;
    peali_pool_free(probe);
    return is;
}

/* New blocks are taken at once, where that is possible, but neither room to grow in nor more than lies idle. */
static void whole(void **state)
{
    bool zero;
    const size_t share = peali_idle_bytes(), before = taken();
    unsigned char *large = peali_block_get(4 * share + 64 * MIB, 4 * share + 64 * MIB, 1, &zero);
    unsigned char *roomy = peali_block_get(36 * MIB, 72 * MIB, 1, &zero), *aligned = peali_block_get(MIB, MIB, 64 * MIB, &zero);
    if (large) /* else there are no such addresses */
        peali_block_drop(large);
    peali_block_drop(roomy);
    peali_block_drop(aligned);
    assert_true(taken() < before + 4 * MIB);
    const bool takes = huge();
    unsigned char *block = peali_block_get(36 * MIB, 36 * MIB, 1, &zero);
    assert_true(block && zero && (!takes || share < 8 * 36 * MIB || taken() >= before + 32 * MIB));
    if (!takes || share < 8 * 36 * MIB)
        print_message("no blocks are taken at once: %zu bytes lie idle\n", share);
    peali_block_drop(block);
}

/* All that a program takes and does not write together is bounded, too; what it gives back counts no more. */
static void bounded(void **state)
{
    unsigned char *block[16];
    const size_t share = peali_idle_bytes(), before = taken(), each = (share / 8 > 40 * MIB ? share / 8 : 40 * MIB) / MIB * MIB;
    bool zero;
    for (int i = 0; i < 16; i++)
        block[i] = peali_block_get(each, each, 1, &zero); /* NULL: there are no such addresses */
    const size_t all = taken() - before;
    for (int i = 0; i < 16; i++)
        if (block[i])
            peali_block_drop(block[i]);
    assert_true(all <= share + share / 2 && taken() < before + 4 * MIB);
    block[0] = peali_block_get(each, each, 1, &zero);
    assert_true(block[0] && (all == 0 || !huge() || taken() >= before + each - 4 * MIB));
    peali_block_drop(block[0]);
}

static void align(void **state)
{
    bool zero;
    for (size_t to = 1; to <= 64 * MIB; to *= 2) {
        unsigned char *block = peali_block_get(MIB, MIB, to, &zero);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % to, 0);
        memset(block, 1, MIB);
        peali_block_drop(block);
    }
    assert_null(peali_block_get(MIB, SIZE_MAX - MIB, 1, &zero));
    assert_null(peali_block_get(MIB, MIB, SIZE_MAX / 2 + 1, &zero));
}

/* No freed block waits over a fork: it would not be shared, nor would what is taken beside it. */
static void forked(void **state)
{
    bool zero;
    int status = -1;
    unsigned char *block = peali_block_get(MIB, MIB, 1, &zero);
    memset(block, 1, MIB);
    peali_block_drop(block);
    pid_t child = fork();
    if (child == 0)
        _exit(peali_block_get(MIB, MIB, 1, &zero) ? 1 : 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (size_t bytes = MIB; bytes < 2 * MIB; bytes += MIB / 4) {
        block = peali_block_get(bytes, bytes, 1, &zero);
        assert_true(zero && block[0] == 0 && peali_pool_holds(block, bytes));
    }
}

enum { THREADS = 4, ROUNDS = 2000 };
static int wrong;

/* Writes without a lock what only an owner may write. */
static void *use(void *arg)
{
    bool zero;
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = MIB + (size_t)(i % 3) * MIB, last = bytes / sizeof(uintptr_t) - 1;
        uintptr_t *block = peali_block_get(bytes, bytes, 1, &zero);
        if (!block || (zero && (block[0] || block[last]))) {
            peali_store_relaxed(&wrong, 1);
            return NULL;
        }
        block[0] = block[last] = (uintptr_t)arg;
        sched_yield();
        if (block[0] != (uintptr_t)arg || block[last] != (uintptr_t)arg)
            peali_store_relaxed(&wrong, 1);
        peali_block_drop(block);
    }
    return NULL;
}

static void threads(void **state)
{
    pthread_t thread[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, use, (void *)(t + 1)), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    peali_pool_view view;
    if (peali_pool_open(&view) != PEAL_OK) {
        puts("skipped: this kernel or a limit gives no shared memory (PEAL_LOG=info says which)");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(reuse), cmocka_unit_test(resize), cmocka_unit_test(resize_new),
                                       cmocka_unit_test(whole), cmocka_unit_test(bounded), cmocka_unit_test(align),
                                       cmocka_unit_test(forked), cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
