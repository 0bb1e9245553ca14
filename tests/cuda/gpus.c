/* The ranks of a team as threads; see gpus.h. */
#include "gpus.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/exchange.h"
#include "emulate.h"
#include "exec/reduce.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

struct gpus {
    int n;
    peali_cuda_layout layout;
    unsigned char *scratch[GPUS_MOST];
    peali_cuda_lane *lane[GPUS_MOST];
    peali_cuda_report report[GPUS_MOST];
    uint32_t abort;
    uint64_t deadline_ns, abort_after_ns, give_up_after_ns;
    int direct; /* calls of a rank so far that were done where buffers lie */
};

typedef struct member {
    gpus *g;
    int rank, ncalls, wrong, left_out;
    const gpus_call *calls;
    peali_program *(*programs)[GPUS_MOST]; /* of each call */
    uint64_t random;
    pthread_t thread;
} member;

/* The buffers of one call on one rank: the vector, or the part of it that this rank has. */
typedef struct buffers {
    unsigned char *in_room, *out_room;
    unsigned char *in, *out;
    size_t in_bytes, out_bytes;
} buffers;

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* Sums and products that are the same in every order; the others are compared where the order is that of ranks. */
static int any_order(const peali_cuda_job *job)
{
    int real = job->type >= PEAL_FP8_E4M3;
    return !real || job->op == PEAL_MIN || job->op == PEAL_MAX;
}

/* X is 0, 1 or 2. */
static void put_number(peal_type type, unsigned char *at, uint32_t x)
{
    float f = (float)x;
    double d = x;
    _Float16 h = (_Float16)f;
    switch (type) {
    case PEAL_FP8_E4M3: *at = (unsigned char)(x ? 0x30 + 8 * x : 0); break;
    case PEAL_FP8_E5M2: *at = (unsigned char)(x ? 0x38 + 4 * x : 0); break;
    case PEAL_FP16: memcpy(at, &h, 2); break;
    case PEAL_BF16: memcpy(at, (unsigned char *)&f + 2, 2); break;
    case PEAL_FLOAT: memcpy(at, &f, 4); break;
    default: memcpy(at, &d, 8);
    }
}

/* The vector that RANK gives: any bytes, or small numbers. */
static void fill(const gpus_call *c, int rank, size_t elements, unsigned char *to)
{
    for (size_t i = 0; i < elements && c->pairs; i++)
        to[i] = (unsigned char)(rank ? i : i / 256);
    if (c->pairs)
        return;
    size_t size = peal_type_bytes(c->job.type);
    bool bytes = any_order(&c->job) || c->algo->in_rank_order || c->job.kind == PEAL_BROADCAST || c->job.kind == PEAL_ALLGATHER;
    const uint32_t first = c->seed * 31 + (uint32_t)rank * 7919;
    for (size_t i = 0; i < elements * size && bytes; i += sizeof(uint32_t)) {
        const uint32_t word = mix((uint32_t)i + first) & (c->job.type == PEAL_BOOL ? 0x01010101 : UINT32_MAX);
        memcpy(to + i, &word, elements * size - i < sizeof word ? elements * size - i : sizeof word);
    }
    peal_type part = c->job.type;
    part = part == PEAL_COMPLEX_FLOAT ? PEAL_FLOAT : part == PEAL_COMPLEX_DOUBLE ? PEAL_DOUBLE : part;
    uint32_t least = part > PEAL_FP8_E5M2 || c->job.op == PEAL_PROD; /* sums of 3 bits are exact up to 8 */
    const size_t each = peal_type_bytes(part);
    unsigned char numbers[2][8];
    for (uint32_t k = 0; k < 2 && !bytes; k++)
        put_number(part, numbers[k], least + k);
    for (size_t i = 0; i < elements * size / each && !bytes; i++)
        memcpy(to + i * each, numbers[mix((uint32_t)i + c->seed + (uint32_t)rank * 131) % 2], each);
}

/* What a premultiplied sum multiplies the elements of RANK by, over and over: small where sums are in no order. */
static uint64_t scalar_of(const gpus_call *c, int rank)
{
    size_t bytes = peal_type_bytes(c->job.type);
    unsigned char word[32];
    uint64_t scalar;
    memset(word, 0x3c + rank % 4, sizeof word);
    for (size_t at = 0; !any_order(&c->job) && !c->algo->in_rank_order && at < sizeof scalar; at += bytes) {
        put_number(c->job.type, word + at, 1);
        word[at + bytes - 1] ^= rank % 2 ? 0x80 : 0;
    }
    memcpy(&scalar, word, sizeof scalar);
    return scalar;
}

static void premultiply(const gpus_call *c, int rank, unsigned char *in, size_t elements)
{
    size_t bytes = peal_type_bytes(c->job.type);
    uint64_t scalar = scalar_of(c, rank);
    for (size_t i = 0; i < elements; i++)
        peali_reduce_find(c->job.type, PEAL_PROD)((void *[]){in + i * bytes}, 1, (const void *[]){in + i * bytes, &scalar}, 2, 1,
                                                  false);
}

static bool has_in(const gpus_call *c, int rank)
{
    return c->job.kind != PEAL_BROADCAST || rank == c->job.root;
}

static bool has_out(const gpus_call *c, int rank)
{
    return c->job.kind != PEAL_REDUCE || rank == c->job.root;
}

static unsigned char *room_for(size_t bytes, unsigned shift, unsigned char **room)
{
    *room = aligned_alloc(16, (bytes + shift + 2 * GUARD + 15) / 16 * 16);
    memset(*room, GUARD_BYTE, bytes + shift + 2 * GUARD);
    return *room + GUARD + shift;
}

static void prepare(const gpus *g, const gpus_call *c, int rank, buffers *b)
{
    size_t part = c->job.count * peal_type_bytes(c->job.type), all = part * (size_t)g->n;
    bool gather = c->job.kind == PEAL_ALLGATHER, scatter = c->job.kind == PEAL_REDUCE_SCATTER;
    b->in_bytes = scatter ? all : part;
    b->out_bytes = gather ? all : part;
    b->in = room_for(b->in_bytes, c->in_shift, &b->in_room);
    b->out = room_for(b->out_bytes, c->out_shift, &b->out_room);
    if (c->in_place && gather)
        b->in = b->out + (size_t)rank * part;
    else if ((c->in_place && has_out(c, rank)) || !has_in(c, rank))
        scatter ? (void)(b->out = b->in + (size_t)rank * part) : (void)(b->in = b->out);
    if (has_in(c, rank))
        fill(c, rank, b->in_bytes / peal_type_bytes(c->job.type), b->in);
}

/* What rank RANK should have, from everybody's inputs. */
static void expect(const gpus *g, const gpus_call *c, int rank, size_t bytes, unsigned char *to)
{
    const peali_cuda_job *job = &c->job;
    size_t part = job->count * peal_type_bytes(job->type);
    size_t elements = job->kind == PEAL_REDUCE_SCATTER ? job->count * (size_t)g->n : job->count;
    unsigned char *in[GPUS_MOST];
    if (job->kind == PEAL_BROADCAST) {
        fill(c, job->root, elements, to);
        return;
    }
    for (int r = 0; r < g->n; r++) {
        in[r] = malloc(elements * peal_type_bytes(job->type) + 1);
        fill(c, r, elements, in[r]);
        if (job->op == PEAL_PREMUL_SUM && job->kind != PEAL_ALLGATHER)
            premultiply(c, r, in[r], elements);
        if (job->kind == PEAL_ALLGATHER)
            memcpy(to + (size_t)r * part, in[r], part);
    }
    if (job->kind != PEAL_ALLGATHER) {
        unsigned char *sum = malloc(elements * peal_type_bytes(job->type) + 1);
        peali_reduce_find(job->type, job->op)((void *[]){sum}, 1, (const void *const *)in, g->n, elements, false);
        if (job->op == PEAL_AVG)
            peali_divide_find(job->type)(sum, elements, g->n);
        memcpy(to, sum + (job->kind == PEAL_REDUCE_SCATTER ? (size_t)rank * part : 0), bytes);
        free(sum);
    }
    for (int r = 0; r < g->n; r++)
        free(in[r]);
}

static int guards_broken(const unsigned char *room, const unsigned char *at, size_t bytes)
{
    int broken = 0;
    for (const unsigned char *p = room; p < at; p++)
        broken += *p != GUARD_BYTE;
    for (const unsigned char *p = at + bytes; p < at + bytes + GUARD; p++)
        broken += *p != GUARD_BYTE;
    return broken;
}

static int compare(const member *m, const gpus_call *c, const buffers *b, int number)
{
    if (!has_out(c, m->rank))
        return guards_broken(b->out_room, b->out, 0);
    unsigned char *want = malloc(b->out_bytes + 1);
    expect(m->g, c, m->rank, b->out_bytes, want);
    size_t bad = 0;
    while (bad < b->out_bytes && want[bad] == b->out[bad])
        bad++;
    int wrong = bad < b->out_bytes;
    if (c->job.kind != PEAL_REDUCE_SCATTER || !c->in_place) /* else it is within IN */
        wrong |= guards_broken(b->out_room, b->out, b->out_bytes) > 0;
    if (wrong)
        fprintf(stderr, "call %d: %s %s, %d ranks, protocol %d, %zu of %s, op %s, %u ctas, shifts %u %u, in place %d: rank %d has "
                "0x%02x at byte %zu and not 0x%02x\n", number, peal_kind_name(c->job.kind), c->algo->name, m->g->n, c->job.proto,
                c->job.count, peal_type_name(c->job.type), peal_op_name(c->job.op), c->job.ctas, c->in_shift, c->out_shift, c->in_place,
                m->rank, bad < b->out_bytes ? b->out[bad] : 0, bad, bad < b->out_bytes ? want[bad] : 0);
    free(want);
    return wrong;
}

/* The programs of all ranks. */
static void lower(const gpus *g, const gpus_call *c, peali_mode mode, peali_program **programs)
{
    int32_t ranks[GPUS_MOST];
    peal_problem problem = {.kind = c->job.kind, .op = c->job.op, .nranks = g->n, .root = c->job.root, .nnodes = 1};
    peali_reach reach = {g->n, ranks, mode};
    for (int r = 0; r < g->n; r++)
        ranks[r] = r;
    if (peali_lower_all(c->algo, &problem, &reach, programs) != PEAL_OK)
        abort();
}

/* False where one rank's program, and so that of none, fits a launch. */
static bool load(const member *m, const gpus_call *c, peali_program **programs, peali_cuda_call *call, uint32_t *ctas)
{
    bool all = true;
    for (int r = 0; r < m->g->n; r++)
        all &= peali_cuda_load(programs[r], &c->job, &m->g->layout, call, ctas) == PEAL_OK;
    if (all && peali_cuda_load(programs[m->rank], &c->job, &m->g->layout, call, ctas) != PEAL_OK)
        abort();
    return all;
}

/* Buffers of other ranks are where they are: all are threads. Of calls that only some ranks vote for, one votes against it. */
static void load_direct(const member *m, const gpus_call *c, const buffers *b, peali_cuda_call *call, uint32_t *ctas)
{
    peali_program *place[GPUS_MOST];
    const unsigned char *to = has_out(c, m->rank) ? b->out : b->in; /* without OUT: nobody stores there */
    lower(m->g, c, PEALI_PLACE, place);
    if (peali_cuda_one_round(place))
        peali_cuda_load_direct(place[m->rank], c->wide ? m->g->layout.direct_lanes : 0, call, ctas);
    for (int r = 0; r < m->g->n; r++) {
        if (call->direct.slices && (c->direct == 1 || (int)(c->seed % (uint32_t)m->g->n) != m->rank))
            call->views[r] = (peali_cuda_view){(uintptr_t)b->in - call->in_skip, (uintptr_t)to - call->out_skip};
        peali_program_free(&place[r]);
    }
}

static uint32_t signature(const gpus_call *c)
{
    return mix((uint32_t)c->job.count * 64 + c->job.kind * 4096 + c->job.type * 32 + c->job.op + (uint32_t)c->job.root * 65536) | 1;
}

static void complete(const member *m, const gpus_call *c, const buffers *b, peali_cuda_call *call)
{
    gpus *g = m->g;
    call->in = b->in;
    call->out = b->out;
    call->aligned = (uint8_t)peali_cuda_aligned(call, b->in, b->out);
    call->signature = signature(c);
    call->scalar = scalar_of(c, m->rank);
    call->lane = g->lane[m->rank];
    call->report = &g->report[m->rank];
    call->abort = &g->abort;
    call->deadline_ns = g->deadline_ns;
    for (int r = 0; r < g->n; r++)
        call->scratch[r] = g->scratch[r];
    peali_cuda_place(call);
}

static uint32_t draw(member *m, uint32_t below)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->random >> 33) % below;
}

static void nap(uint64_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

/* Whatever became of the call: what lies around the buffers is as it was. */
static int strays(const gpus_call *c, const buffers *b)
{
    const bool apart = b->in != b->out && !c->in_place;
    return apart && (guards_broken(b->in_room, b->in, b->in_bytes) > 0 || guards_broken(b->out_room, b->out, b->out_bytes) > 0);
}

static void make_call(member *m, int number)
{
    const gpus_call *c = &m->calls[number];
    peali_cuda_call call;
    uint32_t ctas;
    buffers b;
    if (!load(m, c, m->programs[number], &call, &ctas)) {
        m->left_out++;
        return;
    }
    prepare(m->g, c, m->rank, &b);
    complete(m, c, &b, &call);
    if (c->direct && c->job.proto == PEALI_CUDA_BULK)
        load_direct(m, c, &b, &call, &ctas);
    if (draw(m, 8) == 0)
        nap(draw(m, 300000));
    if (c->slow == m->rank + 1)
        nap(2000000);
    const uint32_t epoch = call.lane[0].epoch;
    const uint32_t threads = c->threads ? c->threads + PEALI_CUDA_BOARD : call.threads;
    peali_cuda_order(&call, threads);
    if (threads < call.threads || draw(m, 8) == 0) /* too few for its words; or, as ranks need not agree on that, for once */
        call.exchanges = PEALI_CUDA_NO_EXCHANGE;
    peali_emulate(peali_cuda_kernel(&call), ctas, threads, &call);
    if (call.direct.slices && call.lane[0].epoch - epoch == 1) /* else slices followed */
        __atomic_add_fetch(&m->g->direct, 1, __ATOMIC_RELAXED);
    if (m->g->report[m->rank].kind == PEALI_CUDA_FINE && !__atomic_load_n(&call.lane[0].dead, __ATOMIC_RELAXED))
        m->wrong += compare(m, c, &b, number);
    m->wrong += strays(c, &b);
    free(b.in_room);
    free(b.out_room);
}

static void *rank_main(void *arg)
{
    member *m = arg;
    for (int i = 0; i < m->ncalls; i++)
        if (m->calls[i].algo)
            make_call(m, i);
    return NULL;
}

static peali_program *(*lower_each(const gpus *g, const gpus_call *calls, int ncalls))[GPUS_MOST]
{
    peali_program *(*programs)[GPUS_MOST] = calloc((size_t)ncalls, sizeof *programs);
    for (int i = 0; i < ncalls; i++)
        if (calls[i].algo)
            lower(g, &calls[i], PEALI_PUSH, programs[i]);
    return programs;
}

static void free_each(peali_program *(*programs)[GPUS_MOST], int ncalls)
{
    for (int i = 0; i < ncalls; i++)
        for (int r = 0; r < GPUS_MOST; r++)
            peali_program_free(&programs[i][r]);
    free(programs);
}

static void start(member *m)
{
    if (pthread_create(&m->thread, NULL, rank_main, m) != 0)
        abort();
}

static void give_up(gpus *g)
{
    for (int r = 0; r < g->n; r++)
        for (uint32_t i = 0; i < g->layout.direct_lanes; i++)
            __atomic_store_n(&g->lane[r][i].dead, 1, __ATOMIC_RELAXED);
}

int gpus_run(gpus *g, const gpus_call *calls, int ncalls, const gpus_call *other, int stranger, int *left_out)
{
    member members[GPUS_MOST];
    peali_program *(*programs)[GPUS_MOST] = lower_each(g, calls, ncalls);
    peali_program *(*others)[GPUS_MOST] = other ? lower_each(g, other, ncalls) : NULL;
    int wrong = 0;
    for (int r = 0; r < g->n; r++) {
        bool differs = other && r == stranger;
        members[r] = (member){.g = g, .rank = r, .ncalls = ncalls, .calls = differs ? other : calls,
                              .random = (uint64_t)r + calls[0].seed, .programs = differs ? others : programs};
        start(&members[r]);
    }
    if (g->abort_after_ns) {
        nap(g->abort_after_ns);
        __atomic_store_n(&g->abort, 1, __ATOMIC_RELEASE);
    }
    if (g->give_up_after_ns) {
        nap(g->give_up_after_ns);
        give_up(g);
    }
    for (int r = 0; r < g->n; r++) {
        pthread_join(members[r].thread, NULL);
        wrong += members[r].wrong;
    }
    if (left_out)
        *left_out = members[0].left_out;
    free_each(programs, ncalls);
    if (others)
        free_each(others, ncalls);
    return wrong;
}

const peali_cuda_layout *gpus_layout(const gpus *g)
{
    return &g->layout;
}

unsigned char *gpus_scratch(const gpus *g, int rank)
{
    return g->scratch[rank];
}

gpus *gpus_create(int n, size_t scratch)
{
    gpus *g = calloc(1, sizeof *g);
    g->n = n;
    g->layout = peali_cuda_lay_out(scratch, n, false);
    if (g->layout.bytes == 0)
        abort();
    for (int r = 0; r < n; r++) {
        g->scratch[r] = aligned_alloc(1024, (g->layout.bytes + 1023) / 1024 * 1024);
        memset(g->scratch[r], 0, g->layout.bytes);
        g->lane[r] = calloc(g->layout.direct_lanes, sizeof *g->lane[r]);
    }
    return g;
}

void gpus_destroy(gpus **g)
{
    for (int r = 0; r < (*g)->n; r++) {
        free((*g)->scratch[r]);
        free((*g)->lane[r]);
    }
    free(*g);
    *g = NULL;
}

void gpus_wind(gpus *g, uint32_t epoch)
{
    for (int r = 0; r < g->n; r++) {
        uint32_t *left = (uint32_t *)(g->scratch[r] + g->layout.left);
        uint64_t *board = (uint64_t *)(g->scratch[r] + g->layout.board);
        for (uint32_t i = 0; i < g->layout.direct_lanes * (uint32_t)g->n; i++)
            left[i] = epoch;
        for (int i = 0; i < 2 * g->n; i++)
            board[i] = (uint64_t)epoch << 32;
        for (uint32_t i = 0; i < g->layout.direct_lanes; i++)
            g->lane[r][i].epoch = g->lane[r][i].calls = epoch;
    }
}

int gpus_direct(const gpus *g)
{
    return g->direct / g->n;
}

void gpus_deadline(gpus *g, uint64_t ns)
{
    g->deadline_ns = ns;
}

void gpus_abort_after(gpus *g, uint64_t ns)
{
    g->abort_after_ns = ns;
}

void gpus_give_up_after(gpus *g, uint64_t ns)
{
    g->give_up_after_ns = ns;
}

const peali_cuda_report *gpus_report(const gpus *g, int rank)
{
    return &g->report[rank];
}
