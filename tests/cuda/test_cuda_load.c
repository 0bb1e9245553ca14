/* What peali_cuda_load makes of programs: places, slices, barriers, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/exchange.h"
#include "cuda/load.h"
#include "sched/sched.h"

enum { MOST = 8 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Everything lies behind the last, within what was given, and on a line of its own. */
static void layouts(void **ctx)
{
    for (size_t bytes = 0; bytes <= 64 << 20; bytes = bytes ? bytes * 3 / 2 : 1000)
        for (int n = 1; n <= PEALI_CUDA_RANKS; n++) {
            const uint32_t lanes = n % 3 ? PEALI_CUDA_LANES : 16;
            peali_cuda_layout l = peali_cuda_lay_out(bytes, n, n % 3 == 0);
            if (l.bytes == 0) {
                assert_true(bytes < 160 << 10);
                continue;
            }
            assert_true(l.bytes <= bytes && l.lanes >= 1 && l.lanes <= lanes && (l.lanes == lanes || bytes < 16 << 20));
            assert_true(l.direct_lanes == (n % 3 ? 2 * l.lanes : l.lanes) && l.direct_lanes <= PEALI_CUDA_DIRECT_LANES);
            assert_true(l.left >= l.board + 16 * (uint64_t)n && l.flags >= l.left + l.direct_lanes * 4 * (uint64_t)n);
            assert_true(l.votes >= l.flags + l.direct_lanes * 2 * PEALI_CUDA_SLOTS * 4);
            assert_true(l.tmp >= l.votes + l.direct_lanes * 2 * (uint64_t)n * PEALI_CUDA_VOTE && l.tmp % 1024 == 0);
            uint64_t at = l.tmp + l.lanes * l.tmp_bytes;
            for (int p = 0; p < PEALI_CUDA_PROTOS; p++) {
                assert_true(l.areas[p] == at && l.area_bytes[p] % 1024 == 0);
                assert_true(n % 3 == 0 && p == PEALI_CUDA_LL128 ? l.area_bytes[p] == 0 : l.area_bytes[p] >= 4096);
                at += 2 * l.lanes * l.area_bytes[p];
            }
            assert_true(l.bytes == at);
        }
}

typedef struct world {
    int n;
    peali_program *programs[MOST];
} world;

static bool open_world(world *w, const peal_algo *algo, int n, int root)
{
    int32_t ranks[MOST];
    peal_problem problem = {.kind = algo->kind, .op = PEAL_SUM, .nranks = n, .root = root, .nnodes = 1};
    peali_reach reach = {n, ranks, PEALI_PUSH};
    for (int r = 0; r < n; r++)
        ranks[r] = r;
    w->n = n;
    if (!peali_algo_fits(algo, &problem))
        return false;
    assert_int_equal(peali_lower_all(algo, &problem, &reach, w->programs), PEAL_OK);
    return true;
}

static void close_world(world *w)
{
    for (int r = 0; r < w->n; r++)
        peali_program_free(&w->programs[r]);
}

static uint32_t packs_of(const peali_cuda_call *c, uint32_t slice)
{
    return c->slice_packs + (slice < c->long_slices);
}

/* As call.h has it. */
static uint64_t position(const peali_cuda_call *c, uint32_t slice, uint32_t b)
{
    uint32_t packs = packs_of(c, slice), j = b % c->blocks;
    return (uint64_t)(b / c->blocks) * packs + (uint64_t)j * (packs / c->blocks) + least(j, packs % c->blocks);
}

/* What operand LOC of OP takes in slice SLICE: units of 16 bytes from the start of its memory. */
static void extent(const peali_cuda_call *c, const peali_cuda_op *op, peali_cuda_loc loc, uint32_t slice, uint64_t at[2])
{
    uint64_t first = position(c, slice, op->first) - position(c, slice, loc.base);
    uint64_t end = position(c, slice, op->end) - position(c, slice, loc.base);
    bool slot = loc.where >= PEALI_CUDA_SLOT;
    uint64_t lines = slot && c->proto == PEALI_CUDA_LL128 ? 0 : slot && c->proto == PEALI_CUDA_LL ? 2 : 1;
    at[0] = loc.at + (lines ? lines * first : 2 * first / 15 * 8);
    at[1] = loc.at + (lines ? lines * end : (2 * end + 14) / 15 * 8);
}

/* All slices together are the vector; what is stored into a slot lies in its area, and is what its reader reads. */
static void places(const peali_cuda_call *calls, int n)
{
    const peali_cuda_call *c = &calls[0];
    uint64_t packs = 0, part = (c->part_bytes + 15) / 16;
    for (uint32_t k = 0; k < c->slices; k++)
        packs += packs_of(c, k);
    assert_true(packs == part && c->block_packs == c->slice_packs / c->blocks && c->long_blocks == c->slice_packs % c->blocks);
    for (int r = 0; r < n; r++) {
        assert_true(calls[r].slices == c->slices && calls[r].slice_packs == c->slice_packs && calls[r].all_hear == c->all_hear);
        for (uint32_t i = 0; i < calls[r].nops; i++)
            for (uint32_t k = 0; k < (uint32_t)calls[r].ops[i].nsrc + calls[r].ops[i].ndst; k++) {
                const peali_cuda_op *op = &calls[r].ops[i];
                peali_cuda_loc loc = calls[r].locs[op->locs + k];
                uint64_t at[2], room = loc.where == PEALI_CUDA_TMP ? c->layout.tmp_bytes : c->layout.area_bytes[c->proto];
                for (uint32_t s = 0; s < c->slices && loc.where >= PEALI_CUDA_TMP; s += c->slices > 1 ? c->slices - 1 : 1) {
                    extent(&calls[r], op, loc, s, at);
                    assert_true(at[1] <= room / 16 && at[0] <= at[1] && loc.base <= op->first);
                }
                if (loc.where >= PEALI_CUDA_SLOT)
                    assert_true(k < op->nsrc ? loc.where - PEALI_CUDA_SLOT == r : loc.base == op->first);
            }
    }
}

/* Slots of one rank do not overlap: each byte of its area has one writer a slice. */
static void one_writer(const peali_cuda_call *calls, int n, int home)
{
    uint64_t at[PEALI_CUDA_SLOTS][2];
    int nslots = 0, most = -1;
    bool seen[PEALI_CUDA_SLOTS] = {false};
    for (int r = 0; r < n; r++)
        for (uint32_t i = 0; i < calls[r].nops; i++)
            for (uint32_t k = calls[r].ops[i].nsrc; k < (uint32_t)calls[r].ops[i].nsrc + calls[r].ops[i].ndst; k++) {
                peali_cuda_loc loc = calls[r].locs[calls[r].ops[i].locs + k];
                if (loc.where != PEALI_CUDA_SLOT + home)
                    continue;
                assert_true(!seen[loc.slot]);
                seen[loc.slot] = true;
                most = loc.slot > most ? loc.slot : most;
                extent(&calls[r], &calls[r].ops[i], loc, 0, at[nslots++]);
            }
    assert_int_equal(nslots, most + 1);
    for (int i = 0; i < nslots; i++)
        for (int k = 0; k < i; k++)
            assert_true(at[i][1] <= at[k][0] || at[k][1] <= at[i][0]);
}

static uint32_t run_of(const peali_cuda_op *op)
{
    return op->order / PEALI_CUDA_RUN;
}

/* Of a run of lines that begins with OP, each operation is told what is left of it, and its share of WARPS is the kernel's. */
static void shares(const peali_cuda_op *op, uint32_t warps)
{
    const uint32_t run = run_of(op), kinds = PEALI_CUDA_FROM_SLOTS | PEALI_CUDA_TO_SLOTS;
    for (uint32_t i = 0; i < run; i++) {
        assert_true(run_of(&op[i]) == run - i && op[i].nsrc == op->nsrc && op[i].ndst == op->ndst);
        assert_true((op[i].slots & kinds) == (op->slots & kinds));
        assert_true((op[i].order & PEALI_CUDA_SYNC) == (op->order & PEALI_CUDA_SYNC) && op[i].lane == op->lane);
    }
    for (uint32_t w = 0; run > 1 && w < warps; w++)
        assert_true(w * op->peer >> 8 == w / op->lane);
    assert_true(run == 1 || run * op->lane <= warps);
}

/*
 * Bulk: what is awaited or told later or earlier than by its own operation is so by one that does the like, with nothing between
 * them that does otherwise.
 */
static void bundles(const peali_cuda_call *c)
{
    for (uint32_t i = 0; i < c->nops; i++) {
        const peali_cuda_op *op = &c->ops[i];
        const uint8_t how = op->slots & (PEALI_CUDA_FROM_SLOTS | PEALI_CUDA_TO_SLOTS);
        const bool tells = how & PEALI_CUDA_TO_SLOTS;
        assert_true(how != 3 || run_of(op) == 1);
        assert_true(!tells || run_of(op) <= i + 1);
        for (uint32_t k = 1; how && k < run_of(op); k++) {
            const peali_cuda_op *other = tells ? op - k : op + k;
            assert_true((other->slots & 3) == how && run_of(other) == 0 && other < c->ops + c->nops);
        }
        uint32_t by = i; /* the one that tells or awaits for this */
        while (how && run_of(&c->ops[by]) == 0)
            assert_true((by += tells ? 1 : -1U) < c->nops);
        assert_true(!how || run_of(&c->ops[by]) > (tells ? by - i : i - by));
    }
}

/* Which thread takes pack P of operation I, number AT of a run; to fill a block is 480. */
static uint16_t taker(const peali_cuda_call *c, uint32_t i, uint32_t at, uint64_t p)
{
    const peali_cuda_op *op = &c->ops[i];
    if (c->proto == PEALI_CUDA_BULK || run_of(op) + at == 1)
        return (uint16_t)(p % 480);
    const uint32_t each = 32U * op->lane;
    return (uint16_t)(at * each + p % each);
}

/*
 * Between two barriers no unit is touched by two threads if one writes it. Pack p of an operation is taken by thread p mod 480
 * here, or of a run likewise; IN and OUT are one memory, scratch is another.
 */
static void barriers(const peali_cuda_call *c)
{
    enum { PACKS = 4096, MEMORIES = 2 };
    static uint16_t wrote[MEMORIES][PACKS], last[MEMORIES][PACKS];
    assert_true(position(c, 0, c->parts * c->blocks) < PACKS);
    memset(wrote, 0xff, sizeof wrote);
    memset(last, 0xff, sizeof last);
    for (uint32_t i = 0, at = 0; i < c->nops; i++) {
        const peali_cuda_op *op = &c->ops[i];
        at = c->proto != PEALI_CUDA_BULK && i > 0 && run_of(op - 1) == run_of(op) + 1 && run_of(op - 1) > 1 ? at + 1 : 0;
        if ((op->order & PEALI_CUDA_SYNC) && at == 0) {
            memset(wrote, 0xff, sizeof wrote);
            memset(last, 0xff, sizeof last);
        }
        uint64_t first = position(c, 0, op->first), end = position(c, 0, op->end);
        for (uint32_t k = 0; k < (uint32_t)op->nsrc + op->ndst; k++) {
            peali_cuda_loc loc = c->locs[op->locs + k];
            bool tmp = loc.where == PEALI_CUDA_TMP, writes = k >= op->nsrc;
            uint64_t from = tmp ? loc.at + first - position(c, 0, loc.base) : first;
            for (uint64_t p = 0; p < end - first && loc.where <= PEALI_CUDA_TMP; p++) {
                uint16_t thread = taker(c, i, at, p), *w = &wrote[tmp][from + p], *l = &last[tmp][from + p];
                assert_true(*w == 0xffff || *w == thread);
                assert_true(!writes || *l == 0xffff || *l == thread);
                *l = *l == 0xffff || *l == thread ? thread : 0xfffe;
                *w = writes ? thread : *w;
            }
        }
    }
}

/* What is told of an operation beside its operands is what they are. */
static void told(const peali_cuda_call *c, const peali_cuda_op *op)
{
    int owned = 0, own = op->nsrc, puts = 0;
    bool from = false, within = false;
    for (int k = 0; k < op->nsrc + op->ndst; k++) {
        peali_cuda_loc loc = c->locs[op->locs + k];
        bool slot = loc.where >= PEALI_CUDA_SLOT;
        within |= loc.where >= PEALI_CUDA_TMP && loc.base != op->first;
        from |= slot && k < op->nsrc;
        if (k < op->nsrc && !slot) {
            own = k;
            owned++;
        }
        assert_true(k < op->nsrc || !slot || k == op->nsrc + puts); /* slots first */
        puts += slot && k >= op->nsrc;
    }
    assert_true(op->own == own && op->nput == puts);
    assert_true(owned == 0 || op->slots / PEALI_CUDA_OWN_WHERE == c->locs[op->locs + own].where);
    assert_true(!(op->slots & PEALI_CUDA_MANY_OWN) == (owned < 2) && !(op->slots & PEALI_CUDA_WITHIN) == !within);
    assert_true(!(op->slots & PEALI_CUDA_FROM_SLOTS) == !from && !(op->slots & PEALI_CUDA_TO_SLOTS) == !puts);
}

/* Of the call likewise; true where it takes a kernel that has everything. */
static bool whole(const peali_cuda_call *c)
{
    const uint32_t warps = (c->threads - PEALI_CUDA_BOARD) / 32;
    bool rare = c->scaled || c->ranks;
    assert_true(c->nops >= 1);
    if (c->proto == PEALI_CUDA_BULK)
        bundles(c);
    for (uint32_t i = 0; i < c->nops && c->proto != PEALI_CUDA_BULK; i += run_of(&c->ops[i])) {
        shares(&c->ops[i], warps);
        rare |= c->proto == PEALI_CUDA_LL && run_of(&c->ops[i]) > 1;
    }
    for (uint32_t i = 0; i < c->nops; i++) {
        told(c, &c->ops[i]);
        rare |= c->ops[i].nsrc > PEALI_CUDA_FEW || (c->ops[i].slots & PEALI_CUDA_MANY_OWN);
    }
    assert_true(c->parts > 1 || c->part_of == 0);
    assert_true(c->rare == rare);
    assert_true((strstr(peali_cuda_kernel(c), "_rare") != NULL) == (rare && c->proto != PEALI_CUDA_BULK && !c->exchanges));
    return rare;
}

/* What is touched is there, and where slices are alike it begins with what the first operation loads. True where there is some. */
static bool touches(const peali_cuda_call *c, peal_kind kind)
{
    const peali_cuda_op *op = &c->ops[0];
    uint64_t user = (kind == PEAL_ALLGATHER ? 1 : c->parts) * c->part_bytes, part = op->first / c->blocks;
    if (op->nsrc == 0 || op->own == op->nsrc || c->locs[op->locs + op->own].where != PEALI_CUDA_IN) {
        assert_true(c->touch_bytes == 0);
        return false;
    }
    assert_true(c->touch_bytes == 0 || (c->touch <= user && c->touch_bytes <= user - c->touch));
    for (uint32_t k = 0; k < c->slices && c->long_slices == 0; k++) {
        uint64_t packs = k * (uint64_t)c->slice_packs + position(c, k, op->first) - part * c->slice_packs;
        assert_true(c->touch + k * (uint64_t)c->slice_packs * 16 == part * c->part_bytes + packs * 16 - c->in_skip);
    }
    return c->touch_bytes > 0;
}

static void all_programs(void **ctx)
{
    static const size_t counts[] = {1, 3, 50, 5000, 300000};
    static peali_cuda_call calls[MOST];
    peali_cuda_layout layout[2];
    uint32_t ctas[MOST];
    int rare = 0, lean = 0, touched = 0;
    world w;
    for (int n = 1; n <= MOST; n++) {
        layout[0] = peali_cuda_lay_out(16 << 20, n, false);
        layout[1] = peali_cuda_lay_out(200 << 10, n, false);
        for (int a = 0; peali_algos[a]; a++) {
            if (!open_world(&w, peali_algos[a], n, n / 2))
                continue;
            for (int k = 0; k < 5 * 2 * PEALI_CUDA_PROTOS; k++) {
                peali_cuda_job job = {peali_algos[a]->kind, counts[k % 5], PEAL_FLOAT, PEAL_SUM, n / 2,
                                      (peali_cuda_proto)(k / 5 % PEALI_CUDA_PROTOS), 24, 0, 0};
                for (int r = 0; r < n; r++) {
                    assert_int_equal(peali_cuda_load(w.programs[r], &job, &layout[k / 15], &calls[r], &ctas[r]), PEAL_OK);
                    assert_true(ctas[r] == ctas[0] && ctas[r] >= 1 && ctas[r] <= 24 && ctas[r] <= calls[r].slices);
                    uint32_t threads = calls[r].threads;
                    assert_true(threads % 32 == 0 && threads >= 64 && threads <= PEALI_CUDA_BLOCK);
                    if (position(&calls[r], 0, calls[r].parts * calls[r].blocks) < 4096)
                        barriers(&calls[r]);
                    *(whole(&calls[r]) ? &rare : &lean) += 1;
                    touched += touches(&calls[r], job.kind);
                }
                places(calls, n);
                for (int r = 0; r < n; r++)
                    one_writer(calls, n, r);
            }
            close_world(&w);
        }
    }
    assert_true(rare > 0 && lean > 0 && touched > 0);
}

/* What two-shot sends to three others, and gets of them, it does at once; in place too, where it meets in between. */
static void runs(void **ctx)
{
    peali_cuda_layout layout = peali_cuda_lay_out(8 << 20, 4, false);
    peali_cuda_call call;
    uint32_t ctas;
    world w;
    assert_true(open_world(&w, peali_algo_find(PEAL_ALLREDUCE, "two_shot"), 4, 0));
    for (int proto = 0; proto < PEALI_CUDA_PROTOS; proto++) {
        static const uint8_t bulk[] = {0, 0, 3, 1, 3, 0, 0}, lines[] = {3, 2, 1, 1, 3, 2, 1};
        peali_cuda_job job = {PEAL_ALLREDUCE, 1 << 18, PEAL_FLOAT, PEAL_SUM, 0, (peali_cuda_proto)proto, 64, 64, 0};
        assert_int_equal(peali_cuda_load(w.programs[1], &job, &layout, &call, &ctas), PEAL_OK);
        assert_int_equal(call.nops, 7);
        for (int i = 0; i < 7; i++)
            assert_int_equal(run_of(&call.ops[i]), proto == PEALI_CUDA_BULK ? bulk[i] : lines[i]);
        assert_true(proto != PEALI_CUDA_LL128 || (call.slices == 64 && ctas == 64)); /* 1 MiB: the share of the layout */
    }
    close_world(&w);
}

/* As many blocks of a part as there may be, whatever algorithms have: the first and the last of each is of it. */
static void parts(void **ctx)
{
    peali_cuda_layout layout = peali_cuda_lay_out(1 << 20, 2, false);
    peali_cuda_job job = {PEAL_ALLGATHER, 100, PEAL_FLOAT, PEAL_SUM, 0, PEALI_CUDA_LL, 4, 0, 0};
    peali_cuda_call call;
    uint32_t ctas;
    world w;
    assert_true(open_world(&w, peali_algo_find(PEAL_ALLGATHER, "ring"), 2, 0));
    peali_program nothing = *w.programs[0];
    nothing.ninstrs = 0;
    for (uint64_t m = 1; m <= UINT16_MAX / 2; m++) {
        nothing.nblocks = 2 * (int32_t)m;
        assert_int_equal(peali_cuda_load(&nothing, &job, &layout, &call, &ctas), PEAL_OK);
        assert_true(call.blocks == m && call.nops == 1 && call.ops[0].nsrc == 0);
        for (uint64_t b = m; b <= UINT16_MAX; b += m) {
            assert_true((b - 1) * call.part_of >> 31 == b / m - 1);
            assert_true(b * call.part_of >> 31 == b / m);
        }
    }
    close_world(&w);
}

/* Of a copy to many each is in one operation, of no more destinations than kernels have a loop for. */
static void see_direct(const peali_program *p, const peali_cuda_call *c)
{
    int operands = 0, found = 0;
    for (int32_t k = 1; k < p->ninstrs - 1; k++)
        operands += p->instrs[k].ndst;
    for (uint32_t k = c->direct.first; k < c->direct.end; k++) {
        const peali_cuda_op *op = &c->ops[k];
        assert_true(op->nsrc > 1 || op->ndst <= 8);
        assert_true(op->ndst >= 1 && op->locs + op->nsrc + op->ndst <= PEALI_CUDA_LOCS);
        found += op->ndst;
        for (int i = 0; i < op->nsrc + op->ndst; i++)
            assert_int_equal(c->locs[op->locs + i].slot, i < op->nsrc ? PEALI_CUDA_IN : PEALI_CUDA_OUT);
    }
    assert_true(found == operands && (found > 0 || p->ninstrs == 2));
}

static bool goes_direct(const peal_algo *algo, int n, int root)
{
    int32_t ranks[PEALI_CUDA_RANKS];
    peali_program *push[PEALI_CUDA_RANKS], *place[PEALI_CUDA_RANKS];
    const peal_problem problem = {.kind = algo->kind, .op = PEAL_SUM, .nranks = n, .root = root, .nnodes = 1};
    const peali_cuda_job job = {algo->kind, 10000, PEAL_FLOAT, PEAL_SUM, root, PEALI_CUDA_BULK, 4, 0, 0};
    const peali_cuda_layout layout = peali_cuda_lay_out(4 << 20, n, false);
    peali_cuda_call call;
    uint32_t ctas;
    for (int r = 0; r < n; r++)
        ranks[r] = r;
    assert_int_equal(peali_lower_all(algo, &problem, &(peali_reach){n, ranks, PEALI_PUSH}, push), PEAL_OK);
    assert_int_equal(peali_lower_all(algo, &problem, &(peali_reach){n, ranks, PEALI_PLACE}, place), PEAL_OK);
    const bool can = peali_cuda_one_round(place);
    for (int r = 0; r < n; r++) {
        assert_int_equal(peali_cuda_load(push[r], &job, &layout, &call, &ctas), PEAL_OK);
        if (can) {
            const uint32_t before = ctas, most = r % 2 ? before + 3 : before - 1;
            peali_cuda_load_direct(place[r], most, &call, &ctas);
            assert_int_equal(ctas, r % 2 ? most : before);
            assert_int_equal(call.direct.slices, ctas);
            see_direct(place[r], &call);
        }
        peali_program_free(&push[r]);
        peali_program_free(&place[r]);
    }
    return can;
}

/* Which algorithms are done where vectors lie, of any root, and that others are not. */
static void direct(void **ctx)
{
    static const char *const names[PEAL_KIND_COUNT] = {
        [PEAL_ALLREDUCE] = "two_shot", [PEAL_ALLGATHER] = "direct", [PEAL_REDUCE_SCATTER] = "direct",
        [PEAL_BROADCAST] = "two_shot", [PEAL_REDUCE] = "two_shot",
    };
    for (int kind = 0; kind < PEAL_KIND_COUNT; kind++)
        for (int n = 1; n <= PEALI_CUDA_RANKS && names[kind]; n++) {
            const bool rooted = kind == PEAL_BROADCAST || kind == PEAL_REDUCE;
            for (int root = 0; root < (rooted ? n : 1); root++)
                assert_true(goes_direct(peali_algo_find((peal_kind)kind, names[kind]), n, root));
        }
    for (int n = 4; n <= 8; n++) {
        assert_false(goes_direct(peali_algo_find(PEAL_ALLREDUCE, "ring"), n, 0));
        assert_false(goes_direct(peali_algo_find(PEAL_BROADCAST, "chain"), n, n / 2));
        assert_false(goes_direct(peali_algo_find(PEAL_REDUCE, "binomial"), n, n / 2));
    }
}

/* Where the scratch of rank R would be. */
static unsigned char *scratch_of(int r)
{
    return (unsigned char *)((uintptr_t)(r + 1) << 24);
}

/* Its lines, each in a slot of its own, and all of its words; and of which parts they are, at rank 1. */
static void exchange_of(peali_cuda_call *call, peal_kind kind, int n)
{
    const bool gather = kind == PEAL_ALLGATHER, scatter = kind == PEAL_REDUCE_SCATTER;
    uint32_t parts = 0;
    for (int r = 0; r < n; r++)
        call->scratch[r] = scratch_of(r);
    peali_cuda_place(call);
    const peali_cuda_exchange *x = &call->exchange;
    assert_int_equal(call->exchanges, gather ? PEALI_CUDA_MOVES : scatter ? PEALI_CUDA_SCATTERS : PEALI_CUDA_SUMS);
    const bool words = call->proto == PEALI_CUDA_LL;
    assert_true((gather || x->before == 1) && x->others == (uint32_t)n - 1 && call->threads <= PEALI_CUDA_BLOCK);
    assert_true(!words || x->words == 1 || x->words == 2 || x->words == 4);
    assert_true(!words || x->words * (call->threads - PEALI_CUDA_BOARD) >= 2 * packs_of(call, 0));
    assert_true(x->early == (scatter ? x->part[0] : 0) && (call->parts == 1 || x->mine == call->part_bytes));
    for (int k = 0; k < n - 1; k++) {
        assert_int_not_equal(x->put[k] >> 24, 2);
        assert_int_equal(x->get[k] >> 24, 2);
        assert_true(k == 0 || (x->put[k] != x->put[0] && x->get[k] != x->get[0]));
        assert_true(call->parts == 1 || x->part[k] % call->part_bytes == 0);
        assert_true(!scatter || x->part[k] / call->part_bytes == (x->put[k] >> 24) - 1);
        parts |= call->parts == 1 ? 0 : 1U << x->part[k] / call->part_bytes;
    }
    assert_true(parts == (call->parts == 1 ? 0 : (1U << n) - 3));
}

/* Which calls are exchanges of words. With the scratch of a first communicator that is asked of what the table gives them. */
static void exchanges(void **ctx)
{
    enum { ANY = 0, KIB = 1024 / sizeof(float) };
    static const char *const sums = "peal_exchange_float", *const moves = "peal_exchange_moves", *const lines = "peal_ll_float";
    static const char *const long_sums = "peal_exchange_lines_float", *const long_moves = "peal_exchange_lines_moves";
    const struct {
        peal_kind kind;
        int n;
        size_t count;
        peali_cuda_proto proto;
        peal_op op;
        const char *kernel;
    } calls[] = {{PEAL_ALLREDUCE, ANY, 1, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_ALLREDUCE, ANY, 1000, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_ALLREDUCE, ANY, 2, PEALI_CUDA_LL, PEAL_MAX, "peal_exchange_any"},
                 {PEAL_ALLREDUCE, ANY, 2, PEALI_CUDA_LL, PEAL_AVG, "peal_ll_rare_float"},
                 {PEAL_ALLREDUCE, ANY, 2, PEALI_CUDA_LL128, PEAL_SUM, long_sums},
                 {PEAL_ALLREDUCE, ANY, 4096 * KIB + 1, PEALI_CUDA_LL128, PEAL_SUM, long_sums},
                 {PEAL_ALLREDUCE, ANY, 4096 * KIB + 1, PEALI_CUDA_LL128, PEAL_PROD, "peal_exchange_lines_any"},
                 {PEAL_ALLREDUCE, ANY, 99, PEALI_CUDA_LL128, PEAL_PREMUL_SUM, "peal_ll128_rare_float"},
                 {PEAL_ALLREDUCE, 2, 2097092 * KIB, PEALI_CUDA_LL128, PEAL_SUM, long_sums},
                 {PEAL_ALLREDUCE, 2, 2097093 * KIB, PEALI_CUDA_LL128, PEAL_SUM, "peal_ll128_float"},
                 {PEAL_ALLGATHER, ANY, 513 * KIB, PEALI_CUDA_LL128, PEAL_SUM, long_moves},
                 {PEAL_REDUCE_SCATTER, ANY, 513 * KIB, PEALI_CUDA_LL128, PEAL_SUM, long_sums},
                 {PEAL_ALLREDUCE, 2, 512 * KIB, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_ALLREDUCE, 2, 512 * KIB + 5, PEALI_CUDA_LL, PEAL_SUM, lines},
                 {PEAL_ALLREDUCE, 3, 128 * KIB, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_ALLREDUCE, 4, 64 * KIB, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_ALLREDUCE, 4, 96 * KIB, PEALI_CUDA_LL, PEAL_SUM, lines},
                 {PEAL_ALLGATHER, ANY, 1, PEALI_CUDA_LL, PEAL_SUM, moves},
                 {PEAL_ALLGATHER, ANY, 64 * KIB, PEALI_CUDA_LL, PEAL_SUM, moves},
                 {PEAL_ALLGATHER, 2, 512 * KIB, PEALI_CUDA_LL, PEAL_SUM, moves},
                 {PEAL_ALLGATHER, 2, 513 * KIB, PEALI_CUDA_LL, PEAL_SUM, lines},
                 {PEAL_REDUCE_SCATTER, ANY, 3, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_REDUCE_SCATTER, ANY, 64 * KIB, PEALI_CUDA_LL, PEAL_SUM, sums},
                 {PEAL_REDUCE_SCATTER, 2, 512 * KIB, PEALI_CUDA_LL, PEAL_MIN, "peal_exchange_any"},
                 {PEAL_REDUCE_SCATTER, 2, 513 * KIB, PEALI_CUDA_LL, PEAL_SUM, lines}};
    for (int n = 2; n <= 4; n++)
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            peali_cuda_layout layout = peali_cuda_lay_out(8 << 20, n, false);
            peali_cuda_job job = {calls[i].kind, calls[i].count, PEAL_FLOAT, calls[i].op, 0, calls[i].proto, 4, 64, 0};
            const char *algo = calls[i].kind == PEAL_ALLREDUCE ? "one_shot" : "direct";
            peali_cuda_call call;
            uint32_t ctas;
            world w;
            assert_true(open_world(&w, peali_algo_find(calls[i].kind, algo), n, 0));
            assert_int_equal(peali_cuda_load(w.programs[1], &job, &layout, &call, &ctas), PEAL_OK);
            if (calls[i].n == ANY || calls[i].n == n)
                assert_string_equal(peali_cuda_kernel(&call), calls[i].kernel);
            if (call.exchanges)
                exchange_of(&call, calls[i].kind, n);
            close_world(&w);
        }
}

/* What a rank puts for another comes where that one gets it, in the order of the sum; likewise its share. */
static void pairs_of(peali_cuda_call *const *calls, int n)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n - 1; b++) {
            const peali_cuda_exchange *x = &calls[a]->exchange;
            const int to = x->to[b];
            const peali_cuda_exchange *y = &calls[to]->exchange;
            int k = 0;
            while (k < n - 1 && y->to[k] != a)
                k++;
            assert_true(to != a && k < n - 1);
            assert_true(x->before == (uint32_t)a && x->mine == (uint32_t)a && x->part[b] == y->mine && x->others == (uint32_t)n - 1);
            assert_int_equal(x->put[b], y->get[a < to ? a : a - 1]);
            assert_int_equal(x->put_share[b], y->get_share[k]);
        }
}

/* An allreduce in two stages. Where warps would have lines of some blocks only, its program is interpreted. */
static void two_stages(void **ctx)
{
    static const struct {
        size_t count;
        peali_cuda_proto proto;
        peal_op op;
        const char *kernel;
    } calls[] = {{1 << 20, PEALI_CUDA_LL128, PEAL_SUM, "peal_exchange_lines_shares_float"},
                 {12345, PEALI_CUDA_LL128, PEAL_SUM, "peal_exchange_lines_shares_float"},
                 {1 << 20, PEALI_CUDA_LL128, PEAL_MAX, "peal_exchange_lines_shares_any"},
                 {1 << 20, PEALI_CUDA_LL128, PEAL_AVG, "peal_ll128_rare_float"},
                 {3, PEALI_CUDA_LL128, PEAL_SUM, "peal_ll128_float"}};
    for (int n = 2; n <= 5; n++)
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            const peali_cuda_layout layout = peali_cuda_lay_out(8 << 20, n, false);
            const peali_cuda_job job = {PEAL_ALLREDUCE, calls[i].count, PEAL_FLOAT, calls[i].op, 0, calls[i].proto, 4, 64, 0};
            peali_cuda_call *of[5];
            uint32_t ctas;
            world w;
            assert_true(open_world(&w, peali_algo_find(PEAL_ALLREDUCE, "two_shot"), n, 0));
            for (int r = 0; r < n; r++) {
                of[r] = malloc(sizeof *of[r]);
                assert_int_equal(peali_cuda_load(w.programs[r], &job, &layout, of[r], &ctas), PEAL_OK);
                if (n <= PEALI_CUDA_FEW)
                    assert_string_equal(peali_cuda_kernel(of[r]), calls[i].kernel);
                for (int k = 0; k < n; k++)
                    of[r]->scratch[k] = scratch_of(k);
                peali_cuda_place(of[r]);
            }
            assert_true(of[0]->exchanges == PEALI_CUDA_NO_EXCHANGE || of[0]->exchanges == PEALI_CUDA_SHARES);
            if (of[0]->exchanges)
                pairs_of(of, n);
            for (int r = 0; r < n; r++)
                free(of[r]);
            close_world(&w);
        }
}

static const char *rooted_kernel(const peal_algo *algo, int n, int root, int rank, peali_cuda_call *call)
{
    const peali_cuda_layout layout = peali_cuda_lay_out(8 << 20, n, false);
    const peali_cuda_job job = {algo->kind, 1000, PEAL_FLOAT, PEAL_SUM, root, PEALI_CUDA_LL, 4, 64, 0};
    uint32_t ctas;
    world w;
    assert_true(open_world(&w, algo, n, root));
    assert_int_equal(peali_cuda_load(w.programs[rank], &job, &layout, call, &ctas), PEAL_OK);
    for (int r = 0; r < n; r++)
        call->scratch[r] = scratch_of(r);
    peali_cuda_place(call);
    close_world(&w);
    return peali_cuda_kernel(call);
}

/* Of one to all, or all to one. In a tree some ranks do that, too, but not who gets and gives. */
static void one_way(void **ctx)
{
    static const char *const gives = "peal_exchange_gives", *const keeps = "peal_exchange_keeps", *const lines = "peal_ll_float";
    peali_cuda_call call;
    for (int n = 2; n <= 4; n++)
        for (int k = 0; k < n * n; k++) {
            const int root = k / n, rank = k % n, me = (rank - root + n) % n;
            const peali_cuda_exchange *x = &call.exchange;
            const char *kernel = rooted_kernel(peali_algo_find(PEAL_BROADCAST, "direct"), n, root, rank, &call);
            assert_string_equal(kernel, me == 0 ? gives : keeps);
            assert_true(x->others == (me == 0 ? (uint32_t)n - 1 : 1) && x->left == (uintptr_t)scratch_of(rank) + call.layout.left);
            for (uint32_t i = 0; i < x->others; i++)
                assert_true(me == 0 ? x->put[i] >> 24 != (uint64_t)rank + 1 : x->get[i] >> 24 == (uint64_t)rank + 1);
            kernel = rooted_kernel(peali_algo_find(PEAL_REDUCE, "direct"), n, root, rank, &call);
            assert_string_equal(kernel, me == 0 ? "peal_exchange_takes_float" : gives);
            assert_true(me > 0 ? x->others == 1 && x->put[0] >> 24 == (uint64_t)root + 1 : x->before == (uint32_t)rank);
            kernel = rooted_kernel(peali_algo_find(PEAL_BROADCAST, "binomial"), n, root, rank, &call);
            assert_string_equal(kernel, me == 0 ? gives : n == 4 && me == 2 ? lines : keeps);
        }
}

static void refusals(void **ctx)
{
    peali_cuda_layout layout = peali_cuda_lay_out(1 << 20, 4, false);
    peali_cuda_job job = {PEAL_ALLREDUCE, 100, PEAL_LONG_DOUBLE, PEAL_SUM, 0, PEALI_CUDA_LL, 4, 0, 0};
    int32_t ranks[] = {0, 1, 2, 3};
    peal_problem problem = {.kind = PEAL_ALLREDUCE, .op = PEAL_SUM, .nranks = 4, .nnodes = 1};
    const peal_algo *ring = peali_algo_find(PEAL_ALLREDUCE, "ring");
    peali_cuda_call call;
    uint32_t ctas;
    world w;
    assert_true(open_world(&w, ring, 4, 0));
    assert_int_equal(peali_cuda_load(w.programs[0], &job, &layout, &call, &ctas), PEAL_ERR_UNSUPPORTED);
    job.type = PEAL_COMPLEX_FLOAT;
    assert_int_equal(peali_cuda_load(w.programs[0], &job, &layout, &call, &ctas), PEAL_OK);
    assert_true(call.type == PEAL_FLOAT && call.part_bytes == 800);
    assert_string_equal(peali_cuda_kernel(&call), "peal_ll_float");
    job.op = PEAL_PROD;
    assert_int_equal(peali_cuda_load(w.programs[0], &job, &layout, &call, &ctas), PEAL_ERR_UNSUPPORTED);
    job.type = PEAL_BF16;
    job.proto = PEALI_CUDA_LL128;
    assert_int_equal(peali_cuda_load(w.programs[0], &job, &layout, &call, &ctas), PEAL_OK);
    assert_string_equal(peali_cuda_kernel(&call), "peal_ll128_any");
    for (int scaled = 0; scaled < 2; scaled++) {
        job.op = scaled ? PEAL_PREMUL_SUM : PEAL_AVG;
        assert_int_equal(peali_cuda_load(w.programs[0], &job, &layout, &call, &ctas), PEAL_OK);
        assert_true(whole(&call) && call.scaled == scaled);
        assert_string_equal(peali_cuda_kernel(&call), "peal_ll128_rare_bf16");
    }
    job.op = PEAL_PROD;
    close_world(&w);
    for (int mode = PEALI_PULL; mode < PEALI_MODES; mode++) { /* the other ways to meet; ranks out of reach */
        peali_reach reach = {mode == PEALI_PUSH ? 2 : 4, ranks, (peali_mode)mode};
        peali_program *program;
        job.type = PEAL_FLOAT;
        assert_int_equal(peali_lower(ring, &problem, &reach, 0, &program), PEAL_OK);
        assert_int_equal(peali_cuda_load(program, &job, &layout, &call, &ctas), PEAL_ERR_UNSUPPORTED);
        peali_program_free(&program);
    }
}

/* Rank 0 of N, of which 0 and 1 are on one node. */
static void load_far(const peal_algo *algo, int n, size_t count, peali_cuda_proto proto, peali_cuda_call *call)
{
    static const int node[] = {0, 0, 1, 1};
    static const int32_t ranks[] = {0, 1};
    const peali_cuda_job job = {algo->kind, count, PEAL_FLOAT, PEAL_SUM, 0, proto, 4, 0, 0};
    const peali_cuda_layout layout = peali_cuda_lay_out(8 << 20, 2, true);
    const peal_problem problem = {.kind = algo->kind, .op = PEAL_SUM, .nranks = n, .nnodes = 2, .node = node};
    peali_program *program;
    uint32_t ctas;
    assert_int_equal(peali_lower(algo, &problem, &(peali_reach){2, ranks, PEALI_PUSH}, 0, &program), PEAL_OK);
    assert_int_equal(peali_cuda_load(program, &job, &layout, call, &ctas), PEAL_OK);
    peali_program_free(&program);
}

static const peali_cuda_op *first_send(peal_kind kind, const char *name, peali_cuda_call *call)
{
    uint32_t n = 0;
    load_far(peali_algo_find(kind, name), 4, 1000, PEALI_CUDA_BULK, call);
    while (call->locs[call->ops[n].locs + call->ops[n].nsrc].where != PEALI_CUDA_LEAVES)
        assert_true(++n < call->nops);
    return &call->ops[n];
}

/* Rank 0 gives two sums away by the same slot: one to rank 1, within reach, whose answer to rank 2 keeps them apart. */
static void build_again(peal_sched *s, const peal_problem *p, int rank)
{
    peal_blocks(s, 1);
    for (int to = 1; to < 3 && rank == 0; to++) {
        peal_recv(s, 1, peal_tmp(0, 0));
        peal_reduce_into(s, peal_tmp(0, 0), peal_in(0, 1));
        peal_send(s, to, peal_tmp(0, 0));
    }
    if (rank == 0)
        peal_recv(s, 2, peal_out(0, 1));
    if (rank == 1) {
        peal_send(s, 0, peal_in(0, 1));
        peal_recv(s, 0, peal_out(0, 1));
        peal_send(s, 2, peal_out(0, 1));
        peal_send(s, 0, peal_in(0, 1));
    }
    if (rank == 2) {
        peal_recv(s, 1, peal_tmp(0, 0));
        peal_recv(s, 0, peal_out(0, 1));
        peal_send(s, 0, peal_out(0, 1));
    }
}

static const peal_algo again = {.name = "again", .kind = PEAL_ALLREDUCE, .build = build_again};

/* What is summed to be sent is stored into its message at once: in place of scratch, and beside OUT. */
static void messages(void **ctx)
{
    peali_cuda_call call;
    const peali_cuda_op *op = first_send(PEAL_REDUCE_SCATTER, "hierarchical", &call);
    assert_true(op->nsrc == 2 && op->ndst == 1 && op->nput == 1 && op->peer == 2 && (op->slots & PEALI_CUDA_TO_SLOTS));
    for (uint32_t n = 0; n < call.nops; n++)
        for (int i = 0; i < call.ops[n].nsrc + call.ops[n].ndst; i++)
            assert_int_not_equal(call.locs[call.ops[n].locs + i].where, PEALI_CUDA_TMP);
    op = first_send(PEAL_ALLREDUCE, "hierarchical_doubling", &call);
    assert_true(op->nsrc == 2 && op->ndst == 2 && op->nput == 1 && op->peer == 2);
    assert_int_equal(call.locs[op->locs + 3].where, PEALI_CUDA_OUT);
    load_far(&again, 3, 1 << 20, PEALI_CUDA_BULK, &call);
    for (uint32_t n = 0; n < call.nops; n++)
        for (int i = 0; i < call.ops[n].nsrc + call.ops[n].ndst; i++)
            assert_true(call.locs[call.ops[n].locs + i].where != PEALI_CUDA_TMP ||
                        call.slice_packs * (uint64_t)PEALI_CUDA_PACK <= call.layout.tmp_bytes);
    op = first_send(PEAL_ALLGATHER, "hierarchical", &call); /* what others get, too, is not held up by a message */
    assert_true(op->nsrc == 1 && op->ndst == 1 && op->nput == 1);
    load_far(peali_algo_find(PEAL_ALLREDUCE, "hierarchical_doubling"), 4, (32 << 10) / sizeof(float), PEALI_CUDA_LL, &call);
    assert_int_equal(call.slices, 4); /* 8 KiB of lines for each of four threads follow no others */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts), cmocka_unit_test(all_programs), cmocka_unit_test(parts),
                                       cmocka_unit_test(runs),    cmocka_unit_test(direct),
                                       cmocka_unit_test(exchanges), cmocka_unit_test(two_stages), cmocka_unit_test(one_way),
                                       cmocka_unit_test(refusals),  cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
