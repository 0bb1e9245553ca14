/*
 * Averages and premultiplied sums: what PEAL_AVG gives is what PEAL_SUM gives, divided once, and what PEAL_PREMUL_SUM gives is what
 * PEAL_SUM gives of the products; bit for bit, in every type and by every algorithm of the three collectives that combine; within
 * reach by pull and by push, with one rank staged, on two nodes and by messages alone; cut into slices or not, in place or not.
 * What is not a result is left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "exec/reduce.h"
#include "sched/sched.h"
#include "team.h"

enum { MOST = 6, MOST_COUNT = 97, ROOM = MOST * MOST_COUNT * 2 * sizeof(long double), UNTOUCHED = 0x5a };

typedef struct scene {
    int n, two_nodes;
    char wrong[MOST][128]; /* what the rank saw first */
} scene;

/* A call, and this rank's buffers for it. */
typedef struct turn {
    const peal_algo *algo;
    peal_op op;
    peal_type type;
    size_t count;
    int n, rank, root, in_place;
    unsigned char in[ROOM], out[ROOM], want[ROOM];
} turn;

static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Any bytes are numbers, but for those of long double, where these have 1 in the first bit of the mantissa. */
static void fill(const turn *t, unsigned char *in, size_t count)
{
    size_t bytes = count * peal_type_bytes(t->type);
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)mix((uint32_t)(i * 131 + (size_t)t->rank * 7919 + (size_t)t->type * 31));
    if (t->type != PEAL_LONG_DOUBLE && t->type != PEAL_COMPLEX_LONG_DOUBLE)
        return;
    for (size_t i = 0; i < bytes; i += sizeof(long double)) {
        long double v = ((long double)mix((uint32_t)i + (uint32_t)t->rank * 77) - 2e9L) / 3;
        memcpy(in + i, &v, sizeof v);
    }
}

/* Elements that this rank gives, and gets. */
static size_t given(const turn *t)
{
    return t->count * (t->algo->kind == PEAL_REDUCE_SCATTER ? (size_t)t->n : 1);
}

static size_t wanted(const turn *t)
{
    return t->algo->kind == PEAL_REDUCE && t->rank != t->root ? 0 : t->count;
}

static peal_status call(peal_comm *comm, const turn *t, peal_op op, const void *in, void *out)
{
    peal_request *request;
    if (t->algo->kind == PEAL_REDUCE_SCATTER)
        return peal_reduce_scatter(in, out, t->count, t->type, op, comm, NULL);
    if (t->algo->kind == PEAL_REDUCE)
        return peal_reduce(in, out, t->count, t->type, op, t->root, comm, NULL);
    peal_status status = peal_iallreduce(in, out, t->count, t->type, op, comm, NULL, &request);
    return status == PEAL_OK ? peal_wait(&request) : status;
}

/* A number of its own for each rank, not so large that products overflow. */
static void choose_scalar(const turn *t, unsigned char *scalar)
{
    long double v = (long double)(t->rank + 2) / 3;
    size_t bytes = peal_type_bytes(t->type);
    memset(scalar, 0x3c + t->rank % 4, bytes);
    for (size_t i = 0; (t->type == PEAL_LONG_DOUBLE || t->type == PEAL_COMPLEX_LONG_DOUBLE) && i < bytes; i += sizeof v)
        memcpy(scalar + i, &v, sizeof v);
}

/* The products of COUNT elements at IN and the scalar, which is told to the communicator. */
static int premultiply(peal_comm *comm, const turn *t, unsigned char *in, size_t count)
{
    unsigned char scalar[2 * sizeof(long double)];
    size_t elem = peal_type_bytes(t->type);
    choose_scalar(t, scalar);
    for (size_t i = 0; i < count; i++)
        peali_reduce_find(t->type, PEAL_PROD)((void *[]){in + i * elem}, 1, (const void *[]){in + i * elem, scalar}, 2, 1, false);
    return peal_comm_premul(comm, scalar, t->type) == PEAL_OK;
}

/* True where the result of T is the sum, divided, or that of the products. */
static int scaled(peal_comm *comm, turn *t)
{
    size_t elem = peal_type_bytes(t->type), bytes = wanted(t) * elem, in_bytes = given(t) * elem;
    unsigned char *in = t->in_place ? t->out : t->in, *again = malloc(in_bytes);
    unsigned char *out = t->in_place && t->algo->kind == PEAL_REDUCE_SCATTER ? t->out + (size_t)t->rank * t->count * elem : t->out;
    memset(t->out, UNTOUCHED, sizeof t->out);
    memset(t->want, UNTOUCHED, sizeof t->want);
    fill(t, again, given(t));
    memcpy(t->in, again, in_bytes);
    int right = t->op == PEAL_AVG || premultiply(comm, t, t->in, given(t));
    right = right && call(comm, t, PEAL_SUM, t->in, t->want) == PEAL_OK;
    if (bytes > 0 && t->op == PEAL_AVG)
        peali_divide_find(t->type)(t->want, t->count, t->n);
    memcpy(in, again, in_bytes);
    right = right && call(comm, t, t->op, in, out) == PEAL_OK && memcmp(out, t->want, bytes) == 0;
    size_t after = t->in_place ? in_bytes : bytes;
    right = right && memcmp(t->out + after, t->want + after, sizeof t->out - after) == 0;
    right = right && (t->in_place || memcmp(t->in, again, in_bytes) == 0);
    free(again);
    return right;
}

static int fits(const scene *s, const peal_algo *algo)
{
    int node[MOST];
    for (int r = 0; r < s->n; r++)
        node[r] = s->two_nodes && r >= s->n / 2;
    peal_problem problem = {.kind = algo->kind, .nranks = s->n, .nnodes = 1 + s->two_nodes, .node = node};
    return algo->kind != PEAL_ALLGATHER && algo->kind != PEAL_BROADCAST && peali_algo_fits(algo, &problem);
}

static void play(peal_comm *comm, int rank, void *ctx)
{
    scene *s = ctx;
    turn *t = calloc(1, sizeof *t);
    t->n = s->n;
    t->rank = rank;
    t->root = s->n - 1;
    for (const peal_algo *const *a = peali_algos; *a; a++)
        for (int type = 0; type < PEAL_TYPE_COUNT && fits(s, *a); type++)
            for (int variant = (type + s->n / 2) % 2; variant < 8 && peal_op_takes(PEAL_AVG, (peal_type)type) && !*s->wrong[rank];
                 variant += 2) { /* of each type and number of ranks every other one */
                t->algo = *a;
                t->type = (peal_type)type;
                t->count = variant & 1 ? MOST_COUNT : 2;
                t->in_place = variant >> 1 & 1;
                t->op = variant >> 2 ? PEAL_PREMUL_SUM : PEAL_AVG;
                if (peal_comm_force(comm, (*a)->kind, (*a)->name) != PEAL_OK || !scaled(comm, t))
                    snprintf(s->wrong[rank], sizeof s->wrong[rank], "%s %s, %s of %zu %s%s", peal_kind_name((*a)->kind), (*a)->name,
                             peal_op_name(t->op), t->count, peal_type_name(t->type), t->in_place ? " in place" : "");
            }
    free(t);
}

static void every_size(peali_layout layout, int staged, const char *what)
{
    static const char *const nodes[] = {NULL, "1", "1+1", "1+2", "2+2", "2+3", "3+3"};
    for (int n = layout.nodes ? 2 : 1; n <= MOST; n += n > 1 ? 2 : 1) {
        peali_layout layouts[MOST];
        scene s = {.n = n, .two_nodes = layout.nodes != NULL};
        for (int r = 0; r < n; r++) {
            layouts[r] = layout;
            layouts[r].nodes = layout.nodes ? nodes[n] : NULL;
            layouts[r].staged = staged && r == n / 2;
        }
        assert_int_equal(team_run_in((unsigned)n, layouts, play, &s), PEAL_OK);
        for (int r = 0; r < n; r++)
            if (*s.wrong[r])
                fail_msg("rank %d of %d, %s: %s", r, n, what, s.wrong[r]);
    }
}

static void test_messages(void **state)
{
    every_size((peali_layout){.apart = true}, 0, "messages");
    every_size((peali_layout){.apart = true, .slices = 3, .window = 2}, 0, "messages in slices");
}

static void test_pull(void **state)
{
    every_size((peali_layout){.pull = true}, 0, "pull");
    every_size((peali_layout){.slices = 5, .window = 3}, 0, "pull in slices");
}

static void test_staged(void **state)
{
    every_size((peali_layout){.pull = true}, 1, "pull, one staged");
    every_size((peali_layout){.slices = 3, .window = 2}, 1, "pull in slices, one staged");
}

static void test_push(void **state)
{
    every_size((peali_layout){0}, 0, "push of small calls");
    every_size((peali_layout){.push = true}, 0, "push");
    every_size((peali_layout){.push = true, .slices = 4, .window = 3}, 0, "push in slices");
}

static void test_nodes(void **state)
{
    every_size((peali_layout){.nodes = "two", .pull = true}, 0, "pull on two nodes");
    every_size((peali_layout){.nodes = "two", .push = true, .slices = 3, .window = 2}, 0, "push in slices on two nodes");
}

/* Numbers by hand: toward zero, as C divides; and the sum goes before. */
static void by_hand(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = ctx;
    int32_t whole[3] = {rank == 0 ? -5 : 0, rank == 0 ? 5 : 0, rank == 0 ? -2 : 0};
    float real[2] = {(float)rank, rank == 1 ? 1.0f : 0.0f}, third = 1.0f / 3;
    int8_t wrapped = 100; /* 300 is 44 in 8 bits */
    wrong[rank] = peal_allreduce(whole, whole, 3, PEAL_INT32, PEAL_AVG, comm, NULL) != PEAL_OK || whole[0] != -1 ||
                     whole[1] != 1 || whole[2] != 0;
    wrong[rank] |= peal_allreduce(real, real, 2, PEAL_FLOAT, PEAL_AVG, comm, NULL) != PEAL_OK || real[0] != 1 || real[1] != third;
    wrong[rank] |= peal_allreduce(&wrapped, &wrapped, 1, PEAL_INT8, PEAL_AVG, comm, NULL) != PEAL_OK || wrapped != 14;
    wrong[rank] |= peal_allreduce(NULL, NULL, 0, PEAL_FLOAT, PEAL_AVG, comm, NULL) != PEAL_OK;
    wrong[rank] |= peal_allreduce(&wrapped, &wrapped, 1, PEAL_BYTE, PEAL_AVG, comm, NULL) != PEAL_ERR_INVALID;
    for (size_t count = 1; count < 1 << 20; count *= 7)
        wrong[rank] |= strcmp(peal_comm_choice(comm, PEAL_ALLREDUCE, count, PEAL_FLOAT, PEAL_AVG),
                                 peal_comm_choice(comm, PEAL_ALLREDUCE, count, PEAL_FLOAT, PEAL_SUM)) != 0;
}

/* Nothing is multiplied by a number that was not said, or of another type; it may change between calls, but not in one. */
static void premul_by_hand(peal_comm *comm, int rank, void *ctx)
{
    int *wrong = ctx;
    peal_request *request;
    float ones[1000], sum[1000], half = 0.5f, own = (float)rank;
    for (int i = 0; i < 1000; i++)
        ones[i] = 1;
    wrong[rank] = peal_allreduce(ones, sum, 1000, PEAL_FLOAT, PEAL_PREMUL_SUM, comm, NULL) != PEAL_ERR_INVALID;
    wrong[rank] |= peal_comm_premul(comm, &half, PEAL_BOOL) != PEAL_ERR_INVALID;
    wrong[rank] |= peal_comm_premul(comm, NULL, PEAL_FLOAT) != PEAL_ERR_INVALID;
    wrong[rank] |= peal_comm_premul(comm, &half, PEAL_FLOAT) != PEAL_OK;
    wrong[rank] |= peal_allreduce(ones, sum, 1000, PEAL_INT32, PEAL_PREMUL_SUM, comm, NULL) != PEAL_ERR_INVALID;
    wrong[rank] |= peal_iallreduce(ones, sum, 1000, PEAL_FLOAT, PEAL_PREMUL_SUM, comm, NULL, &request) != PEAL_OK;
    wrong[rank] |= peal_comm_premul(comm, &own, PEAL_FLOAT) != PEAL_ERR_INVALID;
    wrong[rank] |= peal_wait(&request) != PEAL_OK || sum[0] != 1.5f || sum[999] != 1.5f;
    wrong[rank] |= peal_comm_premul(comm, &own, PEAL_FLOAT) != PEAL_OK;
    wrong[rank] |= peal_allreduce(ones, ones, 1000, PEAL_FLOAT, PEAL_PREMUL_SUM, comm, NULL) != PEAL_OK || ones[999] != 3;
}

static void test_by_hand(void **state)
{
    int wrong[3] = {0};
    assert_int_equal(team_run(3, by_hand, wrong), PEAL_OK);
    for (int r = 0; r < 3; r++)
        assert_int_equal(wrong[r], 0);
    assert_int_equal(team_run(3, premul_by_hand, wrong), PEAL_OK);
    for (int r = 0; r < 3; r++)
        assert_int_equal(wrong[r], 0);
}

int main(void)
{
    setenv("PEAL_TIMEOUT", "20", 0); /* a rank that saw a mistake leaves the others alone */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_messages), cmocka_unit_test(test_pull),
        cmocka_unit_test(test_staged),  cmocka_unit_test(test_push),     cmocka_unit_test(test_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
