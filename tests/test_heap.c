/*
 * What programs do with large blocks, with libpeal_heap preloaded: test_heap [ROUNDS]. Blocks are born in the pool that libpeal
 * itself sees, and keep their values; calloc's are zeros; a fork leaves each side its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "exec/pool.h"
#include "heap/block.h"

#include <peal/peal.h>

#define MIB ((size_t)1 << 20)
#define LEAST PEALI_BLOCK_LEAST
static int rounds = 10;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static size_t random_bytes(uint32_t *state, size_t most)
{
    return 1 + ((size_t)next_random(state) << 8) % most;
}

static uint64_t word(uint64_t seed, size_t i)
{
    return (seed + i) * 0x9e3779b97f4a7c15u;
}

/* Values that tell a block and a place, one in each page. */
static void fill(unsigned char *block, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at + 8 < bytes; at += 4096)
        memcpy(block + at, &(uint64_t){word(seed, at)}, 8);
}

static bool filled(const unsigned char *block, size_t bytes, uint64_t seed)
{
    for (size_t at = 0; at + 8 < bytes; at += 4096)
        if (memcmp(block + at, &(uint64_t){word(seed, at)}, 8) != 0)
            return false;
    return true;
}

static bool zeros(const unsigned char *block, size_t bytes)
{
    return block[0] == 0 && memcmp(block, block + 1, bytes - 1) == 0;
}

/* Leaves a block that waits for its next owner; gcc would drop a malloc that only free sees. */
static void leave_block(size_t bytes)
{
    void *volatile block = malloc(bytes);
    free(block);
}

static void check_born(void *block, size_t bytes, size_t align)
{
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % align, 0);
    assert_true(malloc_usable_size(block) >= bytes);
    assert_int_equal(peali_pool_holds(block, bytes), bytes >= LEAST);
    memset(block, 0xa5, bytes);
    free(block);
}

/* Every way to a block, on either side of the least. */
static void born(void **state)
{
    static const size_t sizes[] = {1, 1000, LEAST - 1, LEAST, LEAST + 1, 3 * MIB + 5, 70 * MIB};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t bytes = sizes[s];
        check_born(malloc(bytes), bytes, 16);
        check_born(calloc(1, bytes), bytes, 16);
        check_born(realloc(NULL, bytes), bytes, 16);
        check_born(realloc(malloc(7), bytes), bytes, 16);
        check_born(realloc(malloc(5 * MIB), bytes), bytes, 16);
        check_born(reallocarray(NULL, bytes, 1), bytes, 16);
        check_born(valloc(bytes), bytes, 4096);
        for (size_t align = 64; align <= 4 * MIB; align *= 16) {
            size_t whole = (bytes + align - 1) / align * align;
            void *block = NULL;
            assert_int_equal(posix_memalign(&block, align, bytes), 0);
            check_born(block, bytes, align);
            check_born(memalign(align, bytes), bytes, align);
            check_born(aligned_alloc(align, whole), whole, align);
        }
    }
    check_born(pvalloc(LEAST - 4095), LEAST, 4096);
}

/* An allocator behind that has any of these by itself would get blocks that it knows nothing of. */
static void whole(void **state)
{
    static const char *const names[] = {"malloc", "calloc", "realloc", "reallocarray", "free", "posix_memalign", "aligned_alloc",
                                        "memalign", "valloc", "pvalloc", "malloc_usable_size"};
    Dl_info at;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(dladdr(dlsym(RTLD_DEFAULT, names[i]), &at));
        assert_non_null(strstr(at.dli_fname, "libpeal_heap"));
    }
}

/* Small ones are glibc's where there are many: each may be a mapping behind a fork. */
static void many(void **state)
{
    enum { ALL = PEALI_BLOCK_MANY + 100 };
    static unsigned char *block[ALL];
    for (int k = 0; k < ALL; k++)
        assert_non_null(block[k] = malloc(LEAST));
    unsigned char *large = malloc(PEALI_BLOCK_SMALL);
    assert_true(peali_pool_holds(block[PEALI_BLOCK_MANY / 2], LEAST) && peali_pool_holds(large, PEALI_BLOCK_SMALL));
    assert_false(peali_pool_holds(block[ALL - 1], LEAST));
    for (int k = 0; k < ALL; k += 2)
        free(block[k]);
    fill(block[1], LEAST, 1);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        fill(block[1], LEAST, 2);
        _exit(!filled(block[1], LEAST, 2));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(filled(block[1], LEAST, 1));
    for (int k = 1; k < ALL; k += 2)
        free(block[k]);
    free(large);
    check_born(malloc(LEAST), LEAST, 16);
}

/* What no heap has: errno says so, and the block that there is stays. */
static void refused(void **state)
{
    volatile size_t huge = PTRDIFF_MAX, three = 3;
    void *none = NULL;
    unsigned char *block = malloc(2 * MIB);
    void *volatile again = block;
    fill(block, 2 * MIB, 1);
    errno = 0;
    assert_null(malloc(huge));
    assert_int_equal(errno, ENOMEM);
    assert_null(calloc(huge, 4));
    assert_null(realloc(again, huge));
    assert_null(realloc(again, huge / 2 + MIB));
    assert_null(reallocarray(again, huge, 4));
    assert_null(memalign(huge / 2 + 1, 2 * MIB));
    assert_null(pvalloc(huge * 2));
    assert_int_equal(posix_memalign(&none, three * 8, 2 * MIB), EINVAL);
    assert_null(none);
    assert_true(filled(block, 2 * MIB, 1));
    assert_int_equal(malloc_usable_size(NULL), 0);
    free(NULL);
    assert_null(realloc(again, 0));
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        free(again);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void calloc_churn(void **state)
{
    enum { LIVE = 6 };
    unsigned char *block[LIVE] = {0};
    size_t bytes[LIVE] = {0};
    uint32_t random = 1;
    for (int i = 0; i < rounds * 30; i++) {
        int k = i % LIVE;
        if (block[k])
            assert_true(filled(block[k], bytes[k], (uint64_t)(i - LIVE)));
        free(block[k]);
        bytes[k] = random_bytes(&random, 4 * MIB);
        block[k] = calloc(1, bytes[k]);
        assert_non_null(block[k]);
        assert_true(zeros(block[k], bytes[k]));
        memset(block[k], 0x5a, bytes[k]);
        fill(block[k], bytes[k], (uint64_t)i);
    }
    for (int k = 0; k < LIVE; k++)
        free(block[k]);
}

/* Up and down, across 1 MiB too; every second time around by a little, as arrays grow that are appended to. */
static void realloc_walk(void **state)
{
    enum { LIVE = 3 };
    unsigned char *block[LIVE] = {0};
    size_t had[LIVE] = {0};
    uint32_t random = 2;
    for (int i = 0; i < rounds * 30; i++) {
        int k = i % LIVE;
        size_t bytes = i / LIVE % 2 ? had[k] + random_bytes(&random, 65536) : random_bytes(&random, 6 * MIB);
        block[k] = realloc(block[k], bytes);
        assert_non_null(block[k]);
        assert_true(filled(block[k], had[k] < bytes ? had[k] : bytes, (uint64_t)(i - LIVE)));
        assert_true(malloc_usable_size(block[k]) >= bytes);
        assert_true(bytes < LEAST || peali_pool_holds(block[k], bytes));
        fill(block[k], bytes, (uint64_t)i);
        had[k] = bytes;
    }
    for (int k = 0; k < LIVE; k++)
        free(block[k]);
}

static size_t pool_bytes(void)
{
    peali_pool_view view;
    struct stat now;
    assert_int_equal(peali_pool_open(&view), PEAL_OK);
    assert_int_equal(fstat(view.fd, &now), 0);
    return (size_t)now.st_blocks * 512;
}

/* Freed memory goes back to the system, but for what glibc would keep too; so does the end of a block that shrinks. */
static void give_back(void **state)
{
    enum { BLOCKS = 30 };
    unsigned char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        memset(block[i] = malloc(4 * MIB), 1, 4 * MIB);
    assert_true(pool_bytes() >= BLOCKS * 4 * MIB);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    assert_true(pool_bytes() <= 66 * MIB);
    block[0] = malloc(100 * MIB);
    memset(block[0], 1, 100 * MIB);
    size_t before = pool_bytes();
    block[0] = realloc(block[0], 2 * MIB);
    assert_true(pool_bytes() <= before - 97 * MIB);
    assert_true(block[0][2 * MIB - 1] == 1 && peali_pool_holds(block[0], 2 * MIB));
    free(block[0]);
}

/* Where the pool has nothing left but what the heap keeps for itself, peal_mem_alloc gives memory that is nobody's block. */
static void plain_memory(void **state)
{
    enum { MOST = 256 };
    const size_t bytes = 7 * MIB / 2;
    void *all[MOST], *plain;
    int n = 0;
    peali_pool_view view;
    assert_int_equal(peali_pool_open(&view), PEAL_OK);
    leave_block(4 * MIB);
    for (size_t each = view.bytes; each >= MIB; each /= 2)
        while (n < MOST && (all[n] = peali_pool_alloc(each, PEALI_POOL_USER)))
            n++;
    plain = peal_mem_alloc(bytes);
    assert_true(plain && !peali_pool_holds(plain, 1) && zeros(plain, bytes));
    check_born(malloc(bytes), bytes, 4096);
    memset(plain, 1, bytes);
    peal_mem_free(plain);
    while (n > 0)
        peali_pool_free(all[--n]);
}

/* What lives when there is a fork: a block of glibc's, and two of the pool. */
struct family {
    unsigned char *small, *block, *other;
};
static const size_t small_bytes = 5000, block_bytes = 4 * MIB, other_bytes = 5 * MIB;

static bool family_is(const struct family *f, uint64_t seed)
{
    return filled(f->small, small_bytes, seed) && filled(f->block, block_bytes, seed) && filled(f->other, other_bytes, seed);
}

static void fill_family(struct family *f, uint64_t seed)
{
    fill(f->small, small_bytes, seed);
    fill(f->block, block_bytes, seed);
    fill(f->other, other_bytes, seed);
}

/* What a child does when the parent says GO, after it wrote: it finds SEED's values, and writes, takes and frees. 0 is right. */
static int child_of(struct family *f, const int go[2], uint64_t seed)
{
    char token;
    int status = -1;
    close(go[1]);
    if (read(go[0], &token, 1) != 1 || !family_is(f, seed))
        return 1;
    fill_family(f, seed + 1);
    unsigned char *own = calloc(1, 3 * MIB);
    if (!own || !zeros(own, 3 * MIB) || peali_pool_holds(own, 3 * MIB) || peali_pool_holds(f->block, block_bytes))
        return 2;
    fill(own, 3 * MIB, seed + 2);
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(family_is(f, seed + 1) && filled(own, 3 * MIB, seed + 2) ? 0 : 3);
    if (waitpid(grandchild, &status, 0) != grandchild || status != 0)
        return 4;
    f->block = realloc(f->block, MIB);
    f->other = realloc(f->other, 9 * MIB);
    if (!filled(f->block, MIB, seed + 1) || !filled(f->other, other_bytes, seed + 1))
        return 5;
    free(f->small);
    free(f->block);
    free(f->other);
    free(own);
    return 0;
}

/* The parent writes first, and frees and takes blocks; then the child looks. What was shared is not any more, what is new is. */
static void fork_once(uint64_t seed)
{
    struct family f = {malloc(small_bytes), malloc(block_bytes), malloc(other_bytes)};
    int go[2], status = -1;
    fill_family(&f, seed);
    leave_block(3 * MIB);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(child_of(&f, go, seed));
    fill_family(&f, seed + 3);
    assert_false(peali_pool_holds(f.block, block_bytes));
    f.block = realloc(f.block, MIB);
    f.other = realloc(f.other, 20 * MIB);
    unsigned char *new = calloc(1, 3 * MIB);
    assert_true(peali_pool_holds(new, 3 * MIB) && peali_pool_holds(f.other, 20 * MIB) && zeros(new, 3 * MIB));
    fill(new, 3 * MIB, seed + 4);
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(filled(f.small, small_bytes, seed + 3) && filled(f.block, MIB, seed + 3) && filled(f.other, other_bytes, seed + 3));
    assert_true(filled(new, 3 * MIB, seed + 4));
    close(go[0]);
    close(go[1]);
    errno = 77;
    free(f.small);
    free(f.block);
    free(f.other);
    free(new);
    assert_int_equal(errno, 77);
}

static void fork_and_write(void **state)
{
    for (int i = 0; i < rounds; i++)
        fork_once((uint64_t)i);
}

static void commands(void **state)
{
    char *const argv[] = {"true", NULL};
    extern char **environ;
    for (int i = 0; i < rounds; i++) {
        unsigned char *block = malloc(2 * MIB);
        char said[8] = "";
        pid_t child;
        int status = -1;
        fill(block, 2 * MIB, (uint64_t)i);
        assert_int_equal(posix_spawnp(&child, "true", NULL, NULL, argv, environ), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(peali_pool_holds(block, 2 * MIB));
        assert_int_equal(system("exit 3"), 3 << 8);
        FILE *pipe = popen("echo word", "r");
        assert_non_null(pipe);
        assert_string_equal(fgets(said, sizeof said, pipe), "word\n");
        assert_int_equal(pclose(pipe), 0);
        assert_true(filled(block, 2 * MIB, (uint64_t)i));
        free(block);
    }
}

enum { THREADS = 4, PLACES = 6 };

/* A block that says what must be in it. */
struct parcel {
    size_t bytes;
    uint64_t seed;
};
static struct parcel *places[PLACES]; /* exchanged: released with what is in them, acquired by the next owner */
static int wrong, counted, freed; /* set once */

static bool is_whole(struct parcel *p)
{
    return filled((unsigned char *)p + 4096, p->bytes - 4096, p->seed);
}

static struct parcel *new_parcel(uint32_t *random)
{
    size_t bytes = 8192 + random_bytes(random, 3 * MIB);
    struct parcel *p = next_random(random) % 2 ? malloc(bytes) : calloc(1, bytes);
    if (p) {
        *p = (struct parcel){.bytes = bytes, .seed = next_random(random)};
        fill((unsigned char *)p + 4096, bytes - 4096, p->seed);
    }
    return p;
}

/* Takes what another thread made, makes it shorter or longer, and hands it on. */
static void *hand_on(void *arg)
{
    uint32_t random = (uint32_t)(uintptr_t)arg;
    for (int i = 0; i < rounds * 20; i++) {
        struct parcel *p = __atomic_exchange_n(&places[next_random(&random) % PLACES], NULL, __ATOMIC_ACQ_REL);
        if (p && next_random(&random) % 2) {
            size_t bytes = 8192 + random_bytes(&random, 3 * MIB);
            p = realloc(p, bytes);
            p->bytes = bytes < p->bytes ? bytes : p->bytes;
        }
        if (!p)
            p = new_parcel(&random);
        if (!p || !is_whole(p))
            peali_store_relaxed(&wrong, 1);
        free(__atomic_exchange_n(&places[next_random(&random) % PLACES], p, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

/* Writes all the time, also while another thread forks. */
static void *count(void *arg)
{
    volatile uint64_t *block = malloc(2 * MIB);
    for (uint64_t n = 16; !peali_load_relaxed(&counted); n++) {
        block[n % 16 * 4096] = n;
        if (n >= 32 && block[(n + 1) % 16 * 4096] != n - 15)
            peali_store_relaxed(&wrong, 1);
    }
    free((void *)block);
    return NULL;
}

static void threads(void **state)
{
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, t ? hand_on : count, (void *)(uintptr_t)t), 0);
    for (int i = 0; i < rounds; i++) {
        unsigned char *block = malloc(2 * MIB);
        fill(block, 2 * MIB, (uint64_t)i);
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(filled(block, 2 * MIB, (uint64_t)i) ? 0 : 1);
        fill(block, 2 * MIB, (uint64_t)i + 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        free(block);
    }
    peali_store_relaxed(&counted, 1);
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    for (int i = 0; i < PLACES; i++) {
        free(places[i]);
        places[i] = NULL;
    }
    assert_int_equal(wrong, 0);
}

/* A thread that has been cancelled goes on until it has freed what lived through a fork, which closes a descriptor. */
static void *large_and_small(void *arg)
{
    for (size_t bytes = 1000; bytes < 64 * MIB; bytes *= 3) {
        unsigned char *volatile block = malloc(bytes);
        block[bytes - 1] = 1;
        free(block);
    }
    return arg;
}

/* The smallest stack that a thread may have. */
static void small_stack(void **state)
{
    (void)state;
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)sysconf(_SC_THREAD_STACK_MIN)), 0);
    assert_int_equal(pthread_create(&thread, &attr, large_and_small, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

static void *free_cancelled(void *block)
{
    pthread_cancel(pthread_self());
    free(block);
    peali_store_relaxed(&freed, 1);
    pthread_testcancel();
    return NULL;
}

static void cancelled(void **state)
{
    pthread_t thread;
    void *ended, *block = malloc(2 * MIB);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(pthread_create(&thread, NULL, free_cancelled, block), 0);
    assert_int_equal(pthread_join(thread, &ended), 0);
    assert_true(ended == PTHREAD_CANCELED && peali_load_relaxed(&freed));
    check_born(malloc(2 * MIB), 2 * MIB, 4096);
}

int main(int argc, char **argv)
{
    peali_pool_view view;
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (peali_pool_open(&view) != PEAL_OK) {
        puts("skipped: this kernel or a limit gives no shared memory (PEAL_LOG=info says which)");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),        cmocka_unit_test(cancelled), cmocka_unit_test(small_stack),
        cmocka_unit_test(born),         cmocka_unit_test(many),      cmocka_unit_test(refused),   cmocka_unit_test(calloc_churn),
        cmocka_unit_test(realloc_walk), cmocka_unit_test(give_back), cmocka_unit_test(plain_memory),
        cmocka_unit_test(fork_and_write), cmocka_unit_test(commands), cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
