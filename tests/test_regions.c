/* Registered memory: what is kept, how long, and that no key is stale. The last test uses the process' pool. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "exec/pool.h"
#include "region_truth.h"

#include <peal/peal.h>

static void kept_and_found(void **state)
{
    (void)state;
    truth t;
    peali_provider provider;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 4, 64 * t.page);
    put(&t, 0, 8, true);
    use(&t, c, (char *)address(&t, 1) + 5, 2 * t.page, NULL); /* pages 1 to 3 */
    assert_int_equal(t.first, BASE + t.page);
    assert_int_equal(t.end, BASE + 4 * t.page);
    assert_false(t.device);
    long allocations = peali_alloc_count();
    for (int i = 0; i < 100; i++)
        use(&t, c, address(&t, 1 + i % 3), t.page, NULL);
    assert_int_equal(peali_alloc_count(), allocations);
    assert_int_equal(t.entered, 1);
    use(&t, c, address(&t, 3), 2 * t.page, NULL); /* 3 and 4: with what is there, 1 to 4 */
    assert_int_equal(t.first, BASE + t.page);
    assert_int_equal(t.end, BASE + 5 * t.page);
    use(&t, c, address(&t, 1), 4 * t.page, NULL);
    assert_int_equal(t.entered, 2);
    assert_int_equal(t.left, 1);
    peali_regions_destroy(&c);
    assert_int_equal(t.left, 2);
    assert_null(c);
}

static void whole_allocations(void **state)
{
    (void)state;
    truth t;
    peali_provider provider;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 4, 64 * t.page);
    peali_allocation of = {.at = address(&t, 2), .bytes = 6 * t.page, .id = put(&t, 2, 6, false)};
    use(&t, c, (char *)address(&t, 4) + 1, 1, &of);
    assert_int_equal(t.first, BASE + 2 * t.page);
    assert_int_equal(t.end, BASE + 8 * t.page);
    assert_true(t.device);
    use(&t, c, address(&t, 2), 6 * t.page, &of);
    assert_int_equal(t.entered, 1);
    of.id = put(&t, 2, 6, false); /* freed, and another at its place; nobody tells */
    use(&t, c, address(&t, 4), 1, &of);
    assert_int_equal(t.entered, 2);
    peali_allocation part = {.at = address(&t, 4), .bytes = 2 * t.page, .id = put(&t, 4, 2, false)};
    use(&t, c, address(&t, 4), 1, &part);
    assert_int_equal(t.entered, 3);
    put(&t, 2, 6, true); /* host memory there */
    use(&t, c, address(&t, 2), 6 * t.page, NULL);
    assert_int_equal(t.entered, 4);
    peali_regions_destroy(&c);
    assert_int_equal(t.left, 4);
}

/* Memory whose end nobody tells is registered for each use, and released after it. */
static void untold(void **state)
{
    (void)state;
    truth t;
    peali_provider provider;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 4, 64 * t.page);
    put(&t, 0, 4, false);
    use(&t, c, address(&t, 0), t.page, NULL);
    assert_int_equal(t.left, 1);
    put(&t, 4, 4, true);
    use(&t, c, address(&t, 3), 2 * t.page, NULL); /* half of it is told */
    assert_int_equal(t.left, 2);
    use(&t, c, address(&t, 4), 4 * t.page, NULL);
    use(&t, c, address(&t, 3), 2 * t.page, NULL); /* not wider than asked: its user vouches for no more */
    assert_int_equal(t.first, BASE + 3 * t.page);
    assert_int_equal(t.end, BASE + 5 * t.page);
    peali_regions_destroy(&c);
    assert_int_equal(t.entered, t.left);
    provider.told = NULL;
    c = peali_regions_create(&provider, 4, 64 * t.page);
    use(&t, c, address(&t, 4), t.page, NULL);
    assert_int_equal(t.entered, t.left);
    peali_regions_destroy(&c);
}

/* Freed while it is used, it serves who has it, and nobody else. */
static void freed_in_use(void **state)
{
    (void)state;
    truth t;
    peali_provider provider;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 4, 64 * t.page), *other = peali_regions_create(&provider, 4, 64 * t.page);
    put(&t, 0, 8, true);
    const peali_region *first = take(c, address(&t, 0), 8 * t.page, NULL);
    use(&t, other, address(&t, 0), t.page, NULL);
    peali_regions_forget(address(&t, 7), 1);
    peali_regions_forget(address(&t, 0), 1);
    put(&t, 0, 8, true);
    const peali_region *second = take(c, address(&t, 0), t.page, NULL);
    assert_ptr_not_equal(first, second);
    assert_true(reaches(&t, second, address(&t, 0), t.page));
    use(&t, other, address(&t, 0), t.page, NULL);
    assert_int_equal(t.entered, 4);
    assert_int_equal(t.left, 1); /* the other's */
    peali_regions_give(c, first);
    assert_int_equal(t.left, 2);
    peali_regions_give(c, second);
    peali_regions_destroy(&c);
    peali_regions_destroy(&other);
    assert_int_equal(t.left, 4);
}

/* At most 3 regions and 8 pages stay; those that were used longest ago go first, those in use never. */
static void limits(void **state)
{
    (void)state;
    truth t;
    peali_provider provider;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 3, 8 * t.page);
    put(&t, 0, 32, true);
    for (int i = 0; i < 8; i += 2)
        use(&t, c, address(&t, i), t.page, NULL);
    assert_int_equal(t.left, 1);
    use(&t, c, address(&t, 2), t.page, NULL); /* now 4 is the oldest */
    assert_int_equal(t.entered, 4);
    use(&t, c, address(&t, 10), 6 * t.page, NULL); /* with 2 and 6 just 8 pages */
    assert_int_equal(t.left, 2);
    use(&t, c, address(&t, 2), t.page, NULL);
    use(&t, c, address(&t, 6), t.page, NULL);
    assert_int_equal(t.entered, 5);
    use(&t, c, address(&t, 20), 9 * t.page, NULL); /* larger than all: not kept, and nothing goes for it */
    assert_int_equal(t.left, 3);
    use(&t, c, address(&t, 10), t.page, NULL);
    assert_int_equal(t.entered, 6);
    const peali_region *held[3];
    for (int i = 0; i < 3; i++)
        held[i] = take(c, address(&t, 20 + 2 * i), t.page, NULL);
    use(&t, c, address(&t, 26), t.page, NULL); /* no room: those in use stay */
    assert_int_equal(t.left, 7);
    for (int i = 0; i < 3; i++)
        peali_regions_give(c, held[i]);
    for (int i = 0; i < 3; i++)
        use(&t, c, address(&t, 20 + 2 * i), t.page, NULL);
    assert_int_equal(t.entered, 10);
    use(&t, c, address(&t, 0), 6 * t.page, NULL);
    use(&t, c, address(&t, 4), 5 * t.page, NULL); /* both together would be too large */
    assert_int_equal(t.first, BASE + 4 * t.page);
    peali_regions_destroy(&c);
    assert_int_equal(t.left, 12);
}

/* What is refused is tried again without the idle ones, and then passed on; so is every want of memory. */
static void refusals(void **state)
{
    (void)state;
    truth t;
    peali_provider provider;
    const peali_region *region = NULL;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 8, 64 * t.page);
    put(&t, 0, 32, true);
    use(&t, c, address(&t, 0), t.page, NULL);
    t.refuse = 1;
    use(&t, c, address(&t, 4), t.page, NULL);
    assert_int_equal(t.left, 1);
    t.refuse = 2;
    assert_int_equal(peali_regions_take(c, 0, address(&t, 8), t.page, NULL, &region), PEAL_ERR_MEMORY);
    assert_int_equal(t.left, 2);
    region = take(c, address(&t, 12), 2 * t.page, NULL);
    t.refuse = 1;
    use(&t, c, address(&t, 13), 2 * t.page, NULL); /* not widened, then */
    assert_int_equal(t.first, BASE + 13 * t.page);
    peali_regions_forget(address(&t, 12), 3 * t.page);
    peali_regions_give(c, region);
    region = NULL;
    t.refuse = 1; /* nothing is idle: not tried again */
    assert_int_equal(peali_regions_take(c, 0, address(&t, 8), t.page, NULL, &region), PEAL_ERR_MEMORY);
    assert_int_equal(t.refuse, 0);
    peali_alloc_fail_at(1);
    assert_int_equal(peali_regions_take(c, 0, address(&t, 8), t.page, NULL, &region), PEAL_ERR_MEMORY);
    peali_alloc_fail_at(0);
    assert_null(region);
    use(&t, c, address(&t, 8), t.page, NULL);
    peali_regions_destroy(&c);
    assert_int_equal(t.entered, t.left);
    for (int n = 1; n <= 2; n++) {
        peali_alloc_fail_at(n);
        assert_null(peali_regions_create(&provider, 8, 64 * t.page));
    }
    peali_alloc_fail_at(0);
}

/* A thousand times other memory at the same addresses, of each kind. */
static void addresses_again(void **state)
{
    (void)state;
    enum { ROUNDS = 1000 };
    truth t;
    peali_provider provider;
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 8, 64 * t.page);
    size_t settled = 0;
    for (int round = 0; round < ROUNDS; round++) {
        peali_allocation of = {.at = address(&t, 0), .bytes = 4 * t.page, .id = put(&t, 0, 4, false)};
        put(&t, 4, 4, true);
        put(&t, 8, 4, false);
        for (int twice = 0; twice < 2; twice++) {
            use(&t, c, address(&t, 1), t.page, &of);
            use(&t, c, address(&t, 4), 4 * t.page, NULL);
            use(&t, c, address(&t, 8), 4 * t.page, NULL);
        }
        peali_regions_forget(address(&t, 4), 4 * t.page);
        assert_in_range(t.entered - t.left, 1, 2);
        if (round == ROUNDS / 10)
            settled = mallinfo2().uordblks;
    }
    assert_int_equal(t.entered, 4 * ROUNDS);
    assert_int_equal(mallinfo2().uordblks, settled);
    peali_regions_destroy(&c);
    assert_int_equal(t.left, 4 * ROUNDS);
}

/* What other threads may do while a region is registered, which the provider does here: no lock is held when it is called. */
typedef struct race {
    truth *t;
    int forget;           /* the page that is freed; -1: none */
    peali_regions *again; /* where the same is registered; NULL: nowhere */
} race;

static peal_status enter_and_race(void *ctx, void *at, size_t bytes, bool device, void **handle)
{
    race *r = ctx;
    peali_regions *again = r->again;
    peal_status status = enter(r->t, at, bytes, device, handle);
    r->again = NULL;
    if (again)
        use(r->t, again, at, bytes, NULL);
    if (r->forget >= 0) {
        peali_regions_forget(address(r->t, r->forget), r->t->page);
        put(r->t, r->forget, 1, true);
    }
    return status;
}

static size_t key_of(void *ctx, void *handle, void *to)
{
    return key(((race *)ctx)->t, handle, to);
}

static void leave_it(void *ctx, void *handle)
{
    leave(((race *)ctx)->t, handle);
}

static bool is_told(void *ctx, const void *at, size_t bytes)
{
    return told(((race *)ctx)->t, at, bytes);
}

/* Freed meanwhile it serves its user, and is not kept; what another thread was faster with is taken from there. */
static void races(void **state)
{
    (void)state;
    truth t;
    race r = {.t = &t, .forget = -1};
    peali_provider provider;
    open_truth(&t, &provider);
    provider = (peali_provider){.ctx = &r, .key_most = 8, .enter = enter_and_race, .key = key_of, .leave = leave_it,
                                .told = is_told};
    peali_regions *c = peali_regions_create(&provider, 4, 64 * t.page);
    put(&t, 0, 8, true);
    use(&t, c, address(&t, 0), 4 * t.page, NULL);
    r.forget = 0;
    use(&t, c, address(&t, 3), 3 * t.page, NULL); /* is widened to page 0 */
    assert_int_equal(t.first, BASE);
    r.forget = -1;
    use(&t, c, address(&t, 0), t.page, NULL);
    use(&t, c, address(&t, 3), t.page, NULL);
    assert_int_equal(t.entered, 4);
    r.again = c;
    put(&t, 16, 4, true);
    use(&t, c, address(&t, 16), 4 * t.page, NULL);
    assert_int_equal(t.entered, 6);
    assert_int_equal(t.left, 3);
    peali_regions_destroy(&c);
    assert_int_equal(t.left, 6);
}

/* The pool of the process tells: its memory stays registered until it is freed, or a fork makes it this process' alone. */
static bool pool_holds(void *ctx, const void *at, size_t bytes)
{
    return peali_pool_holds(at, bytes);
}

static int entries;

static peal_status count_entries(void *ctx, void *at, size_t bytes, bool device, void **handle)
{
    entries++;
    *handle = NULL;
    return PEAL_OK;
}

static size_t no_key(void *ctx, void *handle, void *to)
{
    return 0;
}

static void nothing(void *ctx, void *handle)
{
}

static void use_real(peali_regions *c, void *at, int entered)
{
    peali_regions_give(c, take(c, at, 4096, NULL));
    assert_int_equal(entries, entered);
}

/* What begins AT again. */
static char *same_again(const char *at, size_t bytes)
{
    for (int tries = 0; tries < 1000; tries++) {
        char *again = peal_mem_alloc(bytes);
        if (again == at)
            return again;
        peal_mem_free(again);
    }
    return NULL;
}

static void memory_of_the_pool(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    peali_pool_view view;
    peali_provider provider = {.key_most = 0, .enter = count_entries, .key = no_key, .leave = nothing, .told = pool_holds};
    if (peali_pool_open(&view) != PEAL_OK) {
        print_message("no pool here\n");
        skip();
    }
    peali_regions *c = peali_regions_create(&provider, 100, MIB);
    char *at = peal_mem_alloc(4 * MIB), *plain = malloc(MIB);
    use_real(c, at, 1);
    use_real(c, at, 1);
    use_real(c, plain, 2);
    use_real(c, plain, 3);
    peal_mem_free(at);
    char *again = same_again(at, 4 * MIB);
    assert_non_null(again);
    use_real(c, again, 4);
    use_real(c, again, 4);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    use_real(c, again, 5); /* its pages are no longer what the provider holds, and will not be again */
    use_real(c, again, 6);
    peal_mem_free(again);
    free(plain);
    peali_regions_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_and_found), cmocka_unit_test(whole_allocations), cmocka_unit_test(untold),
        cmocka_unit_test(freed_in_use), cmocka_unit_test(limits), cmocka_unit_test(refusals),
        cmocka_unit_test(addresses_again), cmocka_unit_test(races), cmocka_unit_test(memory_of_the_pool),
    };
    return cmocka_run_group_tests_name("regions", tests, NULL, NULL);
}
