/* The kernels, emulated: every algorithm that fits a node, by every protocol, against the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpus.h"
#include "sched/sched.h"

/*
 * TSan takes each thread of a GPU for a thread, and its clocks grow with their square: blocks of one warp or two then, and the
 * launcher's only where a call needs those. It and ASan get one call of several.
 */
#if defined(__SANITIZE_THREAD__)
enum { WARPS = 2, AS_LAUNCHED = 0, ONE_OF = 36, MOST_RANKS = 4, DIFFERING = PEALI_CUDA_BULK };
#elif defined(__SANITIZE_ADDRESS__)
enum { WARPS = 3, AS_LAUNCHED = 1, ONE_OF = 16, MOST_RANKS = 8, DIFFERING = PEALI_CUDA_PROTOS };
#else
enum { WARPS = 3, AS_LAUNCHED = 1, ONE_OF = 1, MOST_RANKS = 8, DIFFERING = PEALI_CUDA_PROTOS };
#endif

static const uint64_t MS = 1000000, PATIENCE = 60000; /* PATIENCE: ms that no wait takes that ends by itself */

static uint32_t state = 1;

static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static bool fits(const peal_algo *algo, int n, int root)
{
    peal_problem p = {.kind = algo->kind, .op = PEAL_SUM, .nranks = n, .root = root, .nnodes = 1};
    return !algo->fits || algo->fits(&p);
}

static gpus_call call_of(const peal_algo *algo, int n, peali_cuda_proto proto, size_t count)
{
    gpus_call c = {.algo = algo, .seed = draw(1 << 20)};
    c.job = (peali_cuda_job){algo->kind, count, PEAL_FLOAT, PEAL_SUM, 0, proto, 1 + draw(4), draw(8), 0};
    if (algo->kind == PEAL_BROADCAST || algo->kind == PEAL_REDUCE)
        c.job.root = (int32_t)draw((uint32_t)n);
    c.threads = draw(4) || !AS_LAUNCHED ? 32u << draw(WARPS) : 0; /* 0: as many as a GPU gets */
    return c;
}

/* Each algorithm by each protocol, with sizes that leave blocks empty, end within a word, and take several slices. */
static void all_algorithms(void **ctx)
{
    static const size_t counts[] = {1, 2, 7, 33, 1000, 5003};
    for (int n = 2; n <= MOST_RANKS; n += n < 4 ? 1 : 4) {
        gpus *g = gpus_create(n, 1 << 20);
        gpus_call calls[1024];
        int ncalls = 0, left_out = 0;
        for (int a = 0; peali_algos[a]; a++)
            for (int proto = 0; proto < PEALI_CUDA_PROTOS; proto++)
                for (unsigned k = n == 8 ? 4 : 0; k < 6 && fits(peali_algos[a], n, 0); k++)
                    if (draw(ONE_OF) == 0)
                        calls[ncalls++] = call_of(peali_algos[a], n, (peali_cuda_proto)proto, counts[k]);
        assert_int_equal(gpus_run(g, calls, ncalls, NULL, 0, &left_out), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        printf("%d ranks: %d calls, %d left out\n", n, ncalls, left_out);
        gpus_destroy(&g);
    }
}

/* Most buffers begin at a multiple of 16 bytes: others are not touched by peers. */
static uint32_t some_shift(void)
{
    return 16 * draw(3) + (draw(4) == 0 ? draw(20) : 0);
}

static bool goes_direct(const peal_algo *algo)
{
    return strcmp(algo->name, "direct") == 0 || strcmp(algo->name, "one_shot") == 0 || strcmp(algo->name, "two_shot") == 0;
}

/* Where buffers lie: each algorithm that can, in place and not, at odd addresses, with one rank now and then against it. */
static void in_place_of_peers(void **ctx)
{
    static const size_t counts[] = {1, 4, 7, 36, 1000, 5003, 30012};
    static const int ranks[] = {2, 3, 4, 8, 9};
    for (int i = 0; i < (MOST_RANKS > 4 ? 5 : 3); i++) {
        const int n = ranks[i];
        const uint32_t one_of = n > 4 ? 3 * ONE_OF : ONE_OF; /* which takes long */
        gpus *g = gpus_create(n, 1 << 20);
        gpus_call calls[1024];
        int ncalls = 0;
        for (int a = 0; peali_algos[a]; a++) {
            const unsigned step = goes_direct(peali_algos[a]) ? 1 : 5; /* of the others, some */
            for (unsigned k = step > 1 ? (unsigned)a % 5 : 0; k < 28 && fits(peali_algos[a], n, 0); k += step) {
                gpus_call c = call_of(peali_algos[a], n, PEALI_CUDA_BULK, counts[k % 7]);
                c.in_place = k & 1;
                c.in_shift = k & 2 ? some_shift() : 0;
                c.out_shift = k & 4 ? some_shift() : c.in_shift;
                c.direct = k % 5 == 4 ? 2 : 1;
                c.job.type = (peal_type[]){PEAL_FLOAT, PEAL_FLOAT, PEAL_INT32}[k / 7 % 3];
                c.job.op = k % 3 == 2 ? PEAL_PREMUL_SUM : PEAL_SUM;
                if (draw(one_of) == 0)
                    calls[ncalls++] = c;
            }
        }
        assert_int_equal(gpus_run(g, calls, ncalls, NULL, 0, NULL), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        printf("%d ranks: %d calls, %d direct\n", n, ncalls, gpus_direct(g));
        assert_true(one_of > 1 || gpus_direct(g) >= 5 * 22); /* three times two_shot, and two times direct, at the least */
        gpus_destroy(&g);
    }
}

static gpus_call random_call(int n)
{
    int nalgos = 0;
    const peal_algo *algo;
    while (peali_algos[nalgos])
        nalgos++;
    do
        algo = peali_algos[draw((uint32_t)nalgos)];
    while (!fits(algo, n, 0));
    gpus_call c = call_of(algo, n, (peali_cuda_proto)draw(PEALI_CUDA_PROTOS), draw(1u << draw(14)));
    do {
        c.job.type = (peal_type)draw(PEAL_LONG_DOUBLE);
        c.job.op = (peal_op)draw(PEAL_PREMUL_SUM + 1);
    } while (!peal_op_takes(c.job.op, c.job.type));
    unsigned bytes = draw(2) ? (unsigned)peal_type_bytes(c.job.type) : 1;
    if (draw(2)) {
        c.in_shift = draw(17) * bytes;
        c.out_shift = draw(17) * bytes;
    }
    c.in_place = draw(2) == 0;
    c.direct = (int)draw(3);
    c.wide = draw(2) == 0;
    return c;
}

/* Anything after anything else: algorithms, protocols, types, sizes, places; on little scratch, so that there are many slices. */
static void in_a_row(void **ctx)
{
    static const uint32_t begins[] = {0xffffffffu, 0xfffffff0u, 0x7ffffffbu, 1020, 65533};
    enum { CALLS = 120 / ONE_OF };
    for (unsigned k = 0; k < 5; k++) {
        int n = (int[]){2, 3, 4, MOST_RANKS, 3}[k];
        gpus *g = gpus_create(n, 160 << 10);
        gpus_call calls[CALLS];
        for (int i = 0; i < CALLS; i++)
            calls[i] = random_call(n);
        gpus_wind(g, begins[k]);
        assert_int_equal(gpus_run(g, calls, CALLS, NULL, 0, NULL), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        gpus_destroy(&g);
    }
}

/* Wide calls have lanes with flags and votes alone: no slices when they are voted down, and nothing to clean but those. */
static void lanes_without_areas(void **ctx)
{
    enum { CALLS = 12, MARK = 0x5a };
    const int n = 3;
    gpus *g = gpus_create(n, 160 << 10);
    const peali_cuda_layout *l = gpus_layout(g);
    const uint64_t areas = 2 * l->lanes * l->area_bytes[PEALI_CUDA_BULK], none = 2 * l->lanes * PEALI_CUDA_SLOTS;
    gpus_call calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        calls[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, "two_shot"), n, PEALI_CUDA_BULK, 60000);
        calls[i].threads = 32 << (WARPS - 1);
        calls[i].direct = calls[i].wide = 1;
    }
    assert_true(l->direct_lanes > l->lanes);
    for (int r = 0; r < n; r++)
        memset(gpus_scratch(g, r) + l->areas[PEALI_CUDA_BULK], MARK, areas);
    gpus_wind(g, 2 * 1024 - 5); /* all ends just when both areas have been cleaned */
    assert_int_equal(gpus_run(g, calls, 6, NULL, 0, NULL), 0);
    assert_int_equal(gpus_direct(g), 6);
    int stored = 0, old = 0;
    for (uint64_t at = 0; at < areas; at++)
        stored += gpus_scratch(g, 0)[l->areas[PEALI_CUDA_BULK] + at] != MARK;
    for (uint64_t k = none; k < none / l->lanes * l->direct_lanes; k++)
        old += ((uint32_t *)(gpus_scratch(g, 0) + l->flags))[k] != 0;
    assert_true(stored == 0 && old == 0);
    for (int i = 6; i < CALLS; i++)
        calls[i].direct = 1 + i % 2;
    assert_int_equal(gpus_run(g, calls + 6, CALLS - 6, NULL, 0, NULL), 0);
    assert_int_equal(gpus_direct(g), 6 + (CALLS - 6) / 2);
    gpus_destroy(&g);
}

/* Vectors that end at any byte of a word or a line, at any place; of so much that threads have one word of an exchange, 2 or 4. */
static void odd_ends(void **ctx)
{
    static const size_t longer[] = {0, 1024, 3850, 8000};
    const peal_algo *const algos[] = {
        peali_algo_find(PEAL_ALLREDUCE, "one_shot"), peali_algo_find(PEAL_ALLREDUCE, "two_shot"),
        peali_algo_find(PEAL_ALLGATHER, "direct"), peali_algo_find(PEAL_REDUCE_SCATTER, "direct")};
    for (int n = 2; n <= 3; n++) {
        gpus *g = gpus_create(n, 16 << 20);
        gpus_call calls[8 * 36];
        int ncalls = 0;
        for (unsigned k = 0; k < 8 * 36; k++) {
            gpus_call c = call_of(algos[k % 4], n, k & 4 ? PEALI_CUDA_LL128 : PEALI_CUDA_LL, 1 + k / 8 + longer[k / 8 % 4]);
            c.job.type = k % 5 == 0 ? PEAL_UINT8 : PEAL_INT8;
            c.job.ctas = c.job.most_ctas = 1;
            c.in_place = k / 4 % 3 == 0;
            c.in_shift = c.out_shift = k % 7 == 0 ? draw(16) : 0;
            c.threads = 0;
            calls[ncalls] = c;
            ncalls += draw(ONE_OF) == 0;
        }
        assert_int_equal(gpus_run(g, calls, ncalls, NULL, 0, NULL), 0);
        gpus_destroy(&g);
    }
}

/* Of one to all, or of all to one; between them any other by lines, so that programs are interpreted in the same lanes. */
static gpus_call rooted_call(int n, unsigned k)
{
    static const char *const between[] = {"one_shot", "two_shot", "ring"};
    static const size_t longer[] = {0, 0, 0, 1500, 8000};
    const peal_kind kind = k % 2 ? PEAL_BROADCAST : PEAL_REDUCE;
    const uint32_t what = draw(12);
    const peal_algo *algo = what == 0   ? peali_algo_find(PEAL_ALLREDUCE, between[draw(3)])
                            : what == 1 ? peali_algo_find(kind, draw(2) ? "binomial" : "two_tree")
                                        : peali_algo_find(kind, "direct");
    gpus_call c = call_of(algo, n, what == 2 ? PEALI_CUDA_LL128 : PEALI_CUDA_LL, 1 + draw(70) + longer[draw(5)]);
    c.job.type = (peal_type[]){PEAL_INT8, PEAL_FLOAT, PEAL_BF16}[draw(3)];
    c.job.op = draw(4) ? PEAL_SUM : PEAL_MAX;
    c.job.ctas = c.job.most_ctas = 1 + draw(3);
    c.job.root = k / 40 % 2 ? c.job.root : (int32_t)(k / 80) % n; /* as often a row of one root */
    c.in_place = draw(2) == 0;
    c.in_shift = draw(3) == 0 ? draw(16) : 0;
    c.out_shift = draw(3) == 0 ? draw(16) : c.in_shift;
    c.threads = draw(8) ? 0 : 32;
    return c;
}

/* Words that go one way, hundreds of calls in a row, with one rank that is late: nobody stores where that has yet to read. */
static void one_way(void **ctx)
{
    enum { CALLS = 480 / ONE_OF };
    static const uint32_t begins[] = {0, 0xffffff00u, 65500, 900};
    for (int i = 0; i < 4; i++) {
        const int n = 2 + i % 3;
        gpus *g = gpus_create(n, 4 << 20);
        gpus_call calls[CALLS];
        for (unsigned k = 0; k < CALLS; k++) {
            calls[k] = rooted_call(n, k);
            calls[k].slow = k / 40 % 3 == 1 && k % 8 == 0 ? 1 + (int)draw((uint32_t)n) : 0;
        }
        gpus_wind(g, begins[i]);
        gpus_deadline(g, PATIENCE * MS);
        assert_int_equal(gpus_run(g, calls, CALLS, NULL, 0, NULL), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        gpus_destroy(&g);
    }
}

/* Who gives asks nobody for two calls, and then waits for a rank that has not come, which it names. */
static void credit_is_missing(void **ctx)
{
    for (int how = 0; how < 2 * 2; how += ONE_OF > 1 ? 3 : 1) {
        const bool stopped = how & 1;
        gpus *g = gpus_create(3, 1 << 20);
        gpus_call calls[4], none[4];
        for (int i = 0; i < 4; i++) {
            none[i] = calls[i] = call_of(peali_algo_find(how & 2 ? PEAL_REDUCE : PEAL_BROADCAST, "direct"), 3, PEALI_CUDA_LL, 100);
            none[i].job.root = calls[i].job.root = how & 2 ? 2 : 0;
            none[i].threads = calls[i].threads = 0;
            none[i].algo = NULL;
        }
        assert_int_equal(gpus_run(g, calls, 2, none, 2, NULL), 0);
        assert_int_equal(gpus_report(g, 0)->kind, PEALI_CUDA_FINE);
        if (stopped)
            gpus_abort_after(g, 50 * MS);
        else
            gpus_deadline(g, 1000 * MS);
        gpus_run(g, calls + 2, 2, none + 2, 2, NULL);
        assert_int_equal(gpus_report(g, 0)->kind, stopped ? PEALI_CUDA_ABORTED : PEALI_CUDA_LATE);
        assert_true(gpus_report(g, 0)->rank == 2 && gpus_report(g, 0)->op == PEALI_CUDA_OPS && gpus_report(g, 0)->its == 0);
        assert_int_equal(gpus_report(g, 2)->kind, PEALI_CUDA_FINE);
        gpus_destroy(&g);
    }
}

/* Exchanges by lines, of several slices for each CTA; a rank is now and then interpreted. Flags go round, and lines are cleaned. */
static void long_exchanges(void **ctx)
{
    enum { CALLS = 100 / ONE_OF };
    const peal_algo *const algos[] = {peali_algo_find(PEAL_ALLREDUCE, "one_shot"), peali_algo_find(PEAL_ALLGATHER, "direct"),
                                      peali_algo_find(PEAL_REDUCE_SCATTER, "direct"), peali_algo_find(PEAL_BROADCAST, "direct"),
                                      peali_algo_find(PEAL_REDUCE, "direct"), peali_algo_find(PEAL_ALLREDUCE, "two_shot")};
    for (int n = 2; n <= 4; n++) {
        gpus *g = gpus_create(n, 160 << 10);
        gpus_call calls[CALLS];
        for (int i = 0; i < CALLS; i++) {
            gpus_call c = call_of(algos[draw(6)], n, PEALI_CUDA_LL128, 3000 + draw(5000));
            c.job.type = i % 5 == 0 ? PEAL_UINT8 : i % 2 ? PEAL_FLOAT : PEAL_INT32;
            c.job.op = i % 7 == 0 ? PEAL_MAX : PEAL_SUM;
            c.in_place = draw(2) == 0;
            c.in_shift = c.out_shift = i % 4 == 0 ? draw(16) : 0;
            c.threads = draw(3) ? 0 : 32;
            calls[i] = c;
        }
        gpus_wind(g, (uint32_t[]){0xfffffff0u, 1016, 65532}[n - 2]);
        assert_int_equal(gpus_run(g, calls, CALLS, NULL, 0, NULL), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        gpus_destroy(&g);
    }
}

/*
 * Of two slices, or three, all but the first have a line less, of a warp that has no other: what came for that is there until it comes
 * by, though the others have given all of the last slice, and the next call has the line again.
 */
static void slices_become_shorter(void **ctx)
{
    enum { CALLS = 60 / ONE_OF, LONGER = 31, SHORTER = 30 };
    for (int n = 2; n <= 4; n++) {
        gpus *g = gpus_create(n, 1 << 20);
        gpus_call calls[CALLS];
        for (int i = 0; i < CALLS; i++) {
            const size_t packs = LONGER + (n % 2 ? 2 : 1) * SHORTER;
            calls[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, "one_shot"), n, PEALI_CUDA_LL128, 4 * packs);
            calls[i].job.ctas = calls[i].job.most_ctas = 1;
            calls[i].job.longest = LONGER;
            calls[i].threads = 0;
        }
        gpus_deadline(g, PATIENCE * MS);
        assert_int_equal(gpus_run(g, calls, CALLS, NULL, 0, NULL), 0);
        for (int r = 0; r < n; r++)
            assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
        gpus_destroy(&g);
    }
}

/* Other launches give up as this one begins: threads that begin behind that still meet the others, at each slice and at its end. */
static void others_give_up(void **ctx)
{
    const peal_algo *const algos[] = {peali_algo_find(PEAL_ALLREDUCE, "one_shot"), peali_algo_find(PEAL_REDUCE, "direct")};
    for (int i = 0; i < 100 / ONE_OF; i++) {
        gpus *g = gpus_create(2, 160 << 10);
        gpus_call call = call_of(algos[i % 2], 2, PEALI_CUDA_LL128, 8000);
        call.job.root = 0;
        call.threads = 0;
        gpus_wind(g, 1020); /* lines are cleaned within the call */
        gpus_give_up_after(g, 1 + draw(2500) * 1000);
        gpus_run(g, &call, 1, NULL, 0, NULL);
        gpus_destroy(&g);
    }
}

/* Every type and operation, by a sum in rank order and by one that is not. */
static void all_types(void **ctx)
{
    static const char *const names[] = {"one_shot", "ring"};
    gpus *g = gpus_create(3, 1 << 20);
    gpus_call calls[2 * PEAL_TYPE_COUNT * (PEAL_PREMUL_SUM + 1)];
    int ncalls = 0, left_out = 0;
    for (int type = 0; type < PEAL_TYPE_COUNT; type++)
        for (int op = 0; op <= PEAL_PREMUL_SUM; op++)
            for (int a = 0; a < 2 && peal_op_takes((peal_op)op, (peal_type)type); a++) {
                gpus_call *c = &calls[ncalls];
                ncalls += draw(ONE_OF) == 0;
                *c = call_of(peali_algo_find(PEAL_ALLREDUCE, names[a]), 3, (peali_cuda_proto)draw(PEALI_CUDA_PROTOS), 61);
                c->job.type = (peal_type)type;
                c->job.op = (peal_op)op;
            }
    assert_int_equal(gpus_run(g, calls, ncalls, NULL, 0, &left_out), 0);
    if (ONE_OF == 1)
        assert_int_equal(left_out, 2 * (6 + 4 + 4)); /* long double, and products of complex numbers */
    gpus_destroy(&g);
}

/* All pairs of numbers of 8 bits, so all of their conversions. */
static void all_pairs(void **ctx)
{
    static const peal_op ops[] = {PEAL_SUM, PEAL_PROD, PEAL_MIN, PEAL_MAX, PEAL_AVG, PEAL_PREMUL_SUM};
    enum { OPS = sizeof ops / sizeof ops[0] };
    if (ONE_OF > 1)
        skip();
    gpus *g = gpus_create(2, 1 << 20);
    gpus_call calls[2 * OPS];
    for (int i = 0; i < 2 * OPS; i++) {
        calls[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, "one_shot"), 2, (peali_cuda_proto)(i % PEALI_CUDA_PROTOS), 65536);
        calls[i].job.type = i < OPS ? PEAL_FP8_E4M3 : PEAL_FP8_E5M2;
        calls[i].job.op = ops[i % OPS];
        calls[i].pairs = true;
    }
    assert_int_equal(gpus_run(g, calls, 2 * OPS, NULL, 0, NULL), 0);
    for (int r = 0; r < 2; r++)
        assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_FINE);
    gpus_destroy(&g);
}

/* No flag stays where it is for so long that its number comes again; programs clean, and exchanges by words and by lines. */
static void lines_are_cleaned(void **ctx)
{
    static const char *const cleaners[PEALI_CUDA_PROTOS] = {"one_shot", "one_shot", "ring"};
    gpus *g = gpus_create(2, 160 << 10);
    const peali_cuda_layout *l = gpus_layout(g);
    const peal_algo *ring = peali_algo_find(PEAL_ALLREDUCE, "ring");
    for (int pair = 0; pair < PEALI_CUDA_PROTOS * PEALI_CUDA_PROTOS; pair += ONE_OF == 1 ? 1 : PEALI_CUDA_PROTOS + 1) {
        const peali_cuda_proto proto = (peali_cuda_proto)(pair % PEALI_CUDA_PROTOS);
        const peali_cuda_proto by = (peali_cuda_proto)(pair / PEALI_CUDA_PROTOS);
        gpus_call fill[4], tick[4];
        for (int i = 0; i < 4; i++) {
            fill[i] = call_of(ring, 2, proto, 8192);
            tick[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, cleaners[by]), 2, by, 2);
            tick[i].threads = 0;
            fill[i].job.ctas = tick[i].job.ctas = 1;
            fill[i].job.most_ctas = tick[i].job.most_ctas = 0;
        }
        gpus_wind(g, 100 * 1024 + 500);
        assert_int_equal(gpus_run(g, fill, 4, NULL, 0, NULL), 0);
        for (uint32_t k = 1; k <= l->area_bytes[PEALI_CUDA_LL128] / 1024 && ONE_OF == 1; k++) {
            gpus_wind(g, (100 + k) * 1024 - 2);
            assert_int_equal(gpus_run(g, tick, 4, NULL, 0, NULL), 0);
        }
        int left = 0;
        for (uint64_t at = l->flags; at + 4 <= l->flags + 512 || at + 4 <= l->bytes; at += 4) {
            bool flags = at < l->flags + 512, lines = at >= l->areas[PEALI_CUDA_LL] && at < l->areas[PEALI_CUDA_BULK];
            uint32_t value = *(uint32_t *)(gpus_scratch(g, 0) + at) & 0x7fffffff;
            left += (flags || lines) && value > 100 * 1024 + 500 && value < 101 * 1024 - 2;
        }
        assert_true(left == 0 || ONE_OF > 1);
    }
    gpus_destroy(&g);
}

/* One rank calls something else: all others say so, and who. Until then its bulk data may be stored over that of others,
   which is a race to TSan. */
static void calls_differ(void **ctx)
{
    for (int proto = 0; proto < DIFFERING; proto++) {
        gpus *g = gpus_create(3, 1 << 20);
        gpus_call calls[3], other[3];
        for (int i = 0; i < 3; i++)
            other[i] = calls[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, "two_shot"), 3, (peali_cuda_proto)proto, 500);
        other[1].job.count = 400;
        gpus_deadline(g, PATIENCE * MS);
        gpus_run(g, calls, 3, other, 1, NULL);
        for (int r = 0; r < 3; r++) {
            const peali_cuda_report *report = gpus_report(g, r);
            assert_int_equal(report->kind, PEALI_CUDA_DIFFERS);
            assert_true(r == 1 ? report->rank != 1 : report->rank == 1);
            assert_true(report->its != 0 && report->its != report->mine);
        }
        gpus_destroy(&g);
    }
}

/* Nor does anybody touch what lies behind the vector of a rank that calls with a shorter one, where vectors are mapped. */
static void calls_differ_in_place(void **ctx)
{
    gpus *g = gpus_create(3, 1 << 20);
    gpus_call call = call_of(peali_algo_find(PEAL_ALLREDUCE, "two_shot"), 3, PEALI_CUDA_BULK, 500), other;
    if ((int)DIFFERING == PEALI_CUDA_BULK)
        skip();
    call.direct = 1;
    other = call;
    other.job.count = 488; /* 48 bytes less, and 64 are looked at */
    gpus_deadline(g, PATIENCE * MS);
    assert_int_equal(gpus_run(g, &call, 1, &other, 1, NULL), 0);
    for (int r = 0; r < 3; r++)
        assert_int_equal(gpus_report(g, r)->kind, PEALI_CUDA_DIFFERS);
    gpus_destroy(&g);
}

/* Of words that go one way, who gets some says so. */
static void givers_differ(void **ctx)
{
    for (int reduce = 0; reduce < 2; reduce++) {
        gpus *g = gpus_create(3, 1 << 20);
        gpus_call call = call_of(peali_algo_find(reduce ? PEAL_REDUCE : PEAL_BROADCAST, "direct"), 3, PEALI_CUDA_LL, 500), other;
        const int who = reduce ? 0 : 1;
        call.job.root = 0;
        call.threads = 0;
        other = call;
        other.job.count = 700;
        gpus_deadline(g, PATIENCE * MS);
        gpus_run(g, &call, 1, &other, 1, NULL);
        assert_int_equal(gpus_report(g, who)->kind, PEALI_CUDA_DIFFERS);
        const uint32_t its = gpus_report(g, who)->rank;
        assert_true(its == (uint32_t)!who || (!reduce && its == 2)); /* of a broadcast both others differ: who came first */
        assert_true(gpus_report(g, who)->its != 0 && gpus_report(g, who)->its != gpus_report(g, who)->mine);
        assert_true(gpus_report(g, 2)->kind == PEALI_CUDA_FINE || gpus_report(g, 2)->rank == 1);
        gpus_destroy(&g);
    }
}

/* One rank comes once: later the others say who is missing, once, and all calls end at once. */
static void rank_is_missing(void **ctx)
{
    for (int proto = 0; proto < PEALI_CUDA_PROTOS; proto++) {
        gpus *g = gpus_create(4, 1 << 20);
        gpus_call calls[40], none[40];
        for (int i = 0; i < 40; i++) {
            none[i] = calls[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, i ? "ring" : "one_shot"), 4, (peali_cuda_proto)proto, 500);
            none[i].algo = NULL;
        }
        gpus_deadline(g, PATIENCE * MS);
        assert_int_equal(gpus_run(g, calls, 1, NULL, 0, NULL), 0);
        gpus_deadline(g, 1000 * MS); /* in which the other threads come, however busy the cores are */
        assert_int_equal(gpus_run(g, calls + 1, 39, none + 1, 2, NULL), 0);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(gpus_report(g, r)->kind, r == 2 ? PEALI_CUDA_FINE : PEALI_CUDA_LATE);
            assert_true(r == 2 || gpus_report(g, r)->rank == 2);
            assert_int_equal(gpus_report(g, r)->its, 0);
        }
        gpus_destroy(&g);
    }
}

/* Lanes without areas end with the others, and do not wait once more each. */
static void rank_is_missing_wide(void **ctx)
{
    gpus *g = gpus_create(3, 160 << 10);
    gpus_call calls[20], none[20];
    for (int i = 0; i < 20; i++) {
        none[i] = calls[i] = call_of(peali_algo_find(PEAL_ALLREDUCE, "two_shot"), 3, PEALI_CUDA_BULK, 5000);
        calls[i].direct = calls[i].wide = 1;
        none[i].algo = NULL;
    }
    const time_t begin = time(NULL);
    gpus_deadline(g, 1000 * MS);
    gpus_run(g, calls, 20, none, 1, NULL);
    assert_true(gpus_report(g, 0)->kind == PEALI_CUDA_LATE && gpus_report(g, 0)->rank == 1);
    assert_true(time(NULL) - begin < 20); /* not 20 times each of those lanes */
    gpus_destroy(&g);
}

static void abort_ends_all(void **ctx)
{
    for (int proto = 0; proto < PEALI_CUDA_PROTOS; proto++) {
        gpus *g = gpus_create(2, 1 << 20);
        gpus_call call = call_of(peali_algo_find(PEAL_BROADCAST, "binomial"), 2, (peali_cuda_proto)proto, 9000), nothing = call;
        call.job.root = 0;
        nothing.algo = NULL;
        gpus_abort_after(g, 50 * MS);
        gpus_run(g, &call, 1, &nothing, 0, NULL);
        assert_int_equal(gpus_report(g, 0)->kind, PEALI_CUDA_FINE);
        assert_int_equal(gpus_report(g, 1)->kind, PEALI_CUDA_ABORTED);
        gpus_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_algorithms),    cmocka_unit_test(in_place_of_peers), cmocka_unit_test(all_types),
        cmocka_unit_test(in_a_row),          cmocka_unit_test(lines_are_cleaned), cmocka_unit_test(calls_differ),
        cmocka_unit_test(rank_is_missing),   cmocka_unit_test(abort_ends_all),    cmocka_unit_test(all_pairs),
        cmocka_unit_test(odd_ends),          cmocka_unit_test(one_way),           cmocka_unit_test(credit_is_missing),
        cmocka_unit_test(givers_differ),     cmocka_unit_test(lanes_without_areas), cmocka_unit_test(rank_is_missing_wide),
        cmocka_unit_test(long_exchanges),    cmocka_unit_test(others_give_up),    cmocka_unit_test(slices_become_shorter),
        cmocka_unit_test(calls_differ_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
