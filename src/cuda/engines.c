/*
 * Rounds of a call of C chunks, each cut into a piece for each rank (chunk c in the area's half c mod 2):
 *
 *     round 0      push 0
 *     round 1      push 1             beside it: reduce 0
 *     round 2      push 2, pull 0     reduce 1
 *     ...
 *     round C      pull C - 2         reduce C - 1
 *     round C + 1  pull C - 1
 *
 * In step k of a round rank r pushes to r + k, or pulls from r - k: at any moment each link takes data of one rank, as long as
 * ranks keep together. So all ALIGN after each round, and within it between pushes and pulls. On 4 H200, calls of 1 and 4 GiB in
 * which ranks aligned less, or gave copies by several streams, took 3 to 6 % longer; on 2 H200, which need it less, 1 % less.
 */
#include "cuda/engines.h"

#include "base/log.h"
#include "cuda/team_private.h"

enum { UNIT = 128, ALIGN_THREADS = 32, LEAST_CHUNKS = 2 };

/*
 * Whole pages of the device: of an area that ends within one, 1 GiB and the head, peers mapped small pages, and copies between 2
 * H200 went at 290 GB/s, which with whole ones is 380.
 */
static const size_t page_bytes = 2 << 20;

size_t peali_engines_least(int n)
{
    return 2 * (size_t)n * UNIT;
}

/* In a visit. */
static peal_status get_area(peali_team *t, size_t bytes)
{
    peali_team_engines *e = &t->engines;
    const char *call = "cuEventCreate";
    peali_cu_result result = t->cu->EventCreate(&e->event, PEALI_CU_EVENT_NO_TIMING);
    if (result == 0) {
        call = "cuMemAlloc";
        result = t->cu->MemAlloc(&e->mine, (PEALI_CUDA_HEAD + bytes + page_bytes - 1) / page_bytes * page_bytes);
    }
    if (result == 0) {
        call = "cuMemsetD8Async";
        result = t->cu->MemsetD8Async(e->mine, 0, PEALI_CUDA_HEAD, t->stream);
    }
    if (result == PEALI_CU_OUT_OF_MEMORY)
        return PEAL_ERR_MEMORY;
    return result == 0 ? peali_team_settle(t, "zeroing the head of an area for copies") : peali_cuda_failed(t->rank, call, result);
}

peal_status peali_engines_open(peali_team *team, size_t bytes, peali_team_region *region)
{
    peali_gpu_visit visit;
    *region = (peali_team_region){0};
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    status = get_area(team, bytes);
    peali_gpu_leave(team->gpu, &visit);
    team->engines.room_bytes = bytes / (2 * (size_t)team->n) / UNIT * UNIT;
    if (status == PEAL_OK)
        (void)peali_team_export(team, (const void *)(uintptr_t)team->engines.mine, region);
    return status;
}

peal_status peali_engines_meet(peali_team *team, const peali_team_region *regions)
{
    bool all = true;
    for (int x = 0; x < team->n; x++) {
        team->engines.areas[x] = x == team->me ? team->engines.mine : peali_team_map(team, x, &regions[x]);
        all = all && team->engines.areas[x];
    }
    return all ? PEAL_OK : PEAL_ERR_UNSUPPORTED;
}

void peali_engines_part(peali_team *team)
{
    for (int x = 0; x < team->n; x++) {
        if (x != team->me && team->opened[x] && team->engines.areas[x])
            (void)team->cu->IpcCloseMemHandle(team->engines.areas[x]);
        team->engines.areas[x] = 0;
    }
}

void peali_engines_leave(peali_team *team)
{
    peali_gpu_visit visit;
    if (peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return;
    peali_engines_part(team);
    peali_gpu_leave(team->gpu, &visit);
}

void peali_engines_close(peali_team *team)
{
    peali_team_engines *e = &team->engines;
    for (int i = 0; i < PEALI_TEAM_BESIDES && e->beside[i]; i++)
        (void)team->cu->StreamDestroy(e->beside[i]);
    if (e->event)
        (void)team->cu->EventDestroy(e->event);
    if (e->mine)
        (void)team->cu->MemFree(e->mine);
    *e = (peali_team_engines){0};
}

void peali_engines_drop(peali_team *team)
{
    peali_gpu_visit visit;
    if (team->stuck || peali_gpu_enter(team->gpu, team->rank, &visit) != PEAL_OK)
        return;
    peali_engines_close(team);
    peali_gpu_leave(team->gpu, &visit);
}

/* What a rank reduces is one block of one part: all INs in rank order, into its OUT and where the others pull it from. */
void peali_engines_load(peali_cuda_call *call, uint32_t ctas)
{
    uint32_t nlocs = 0;
    call->step = PEALI_CUDA_MEET;
    call->blocks = 1;
    call->nops = 0;
    call->wanted[0] = 0;
    call->wanted[1] = 1;
    call->hears = (uint16_t)(((1U << call->nranks) - 1) & ~(1U << call->me));
    call->direct = (peali_cuda_direct){.slices = ctas, .end = 1};
    call->engines = (peali_cuda_engines){0};
    for (int x = 0; x < call->nranks; x++)
        call->locs[nlocs++] = (peali_cuda_loc){.where = (uint8_t)(PEALI_CUDA_SLOT + x), .slot = PEALI_CUDA_IN};
    call->locs[nlocs++] = (peali_cuda_loc){.where = (uint8_t)(PEALI_CUDA_SLOT + call->me), .slot = PEALI_CUDA_OUT};
    call->locs[nlocs++] = (peali_cuda_loc){.where = (uint8_t)(PEALI_CUDA_SLOT + call->me), .slot = PEALI_CUDA_TMP};
    call->ops[0] = (peali_cuda_op){.nsrc = call->nranks, .ndst = 2, .end = 1};
}

/* A call on its way. */
typedef struct flight {
    peali_team *team;
    peali_cuda_call *call;
    peali_cu_strm stream, beside;
    uint64_t chunk_bytes;
    uint32_t chunks;
    peali_cu_result result; /* the first one that is not 0, */
    const char *failed;     /* and of what */
} flight;

static void note(flight *f, peali_cu_result result, const char *what)
{
    if (f->result == 0 && result != 0)
        f->failed = what;
    if (f->result == 0)
        f->result = result;
}

typedef struct piece {
    uint64_t at, bytes;
} piece;

/* Of CHUNK for RANK: whole units, of which the first ranks have one more; the vector's end may be within one. */
static piece piece_of(const flight *f, uint32_t chunk, int rank)
{
    const uint64_t all = f->call->part_bytes, from = chunk * f->chunk_bytes, n = (uint64_t)f->team->n, r = (uint64_t)rank;
    const uint64_t left = from < all ? all - from : 0, bytes = left < f->chunk_bytes ? left : f->chunk_bytes;
    const uint64_t units = (bytes + UNIT - 1) / UNIT, each = units / n, longer = units % n;
    const uint64_t first = (r * each + (r < longer ? r : longer)) * UNIT, end = first + (each + (r < longer)) * UNIT;
    return (piece){from + first, (end < bytes ? end : bytes) - (first < bytes ? first : bytes)};
}

/* Where the piece of CHUNK lies that rank OF gave to rank AT, or (the same one) reduced. */
static peali_cu_ptr room_of(const flight *f, uint32_t chunk, int at, int of)
{
    const peali_team *t = f->team;
    return t->engines.areas[at] + PEALI_CUDA_HEAD + ((chunk & 1) * (uint64_t)t->n + (uint64_t)of) * t->engines.room_bytes;
}

static void copy(flight *f, peali_cu_ptr to, peali_cu_ptr from, uint64_t bytes)
{
    if (bytes > 0 && f->result == 0)
        note(f, f->team->cu->MemcpyAsync(to, from, bytes, f->stream), "cuMemcpyAsync");
}

static void push(flight *f, uint32_t chunk)
{
    const peali_team *t = f->team;
    for (int k = 1; k < t->n; k++) {
        const int to = (t->me + k) % t->n;
        const piece p = piece_of(f, chunk, to);
        copy(f, room_of(f, chunk, to, t->me), (uintptr_t)f->call->in + p.at, p.bytes);
    }
}

static void pull(flight *f, uint32_t chunk)
{
    const peali_team *t = f->team;
    for (int k = 1; k < t->n; k++) {
        const int from = (t->me - k + t->n) % t->n;
        const piece p = piece_of(f, chunk, from);
        copy(f, (uintptr_t)f->call->out + p.at, room_of(f, chunk, from, from), p.bytes);
    }
}

static void step(flight *f, uint8_t what, uint32_t ctas, peali_cu_strm stream)
{
    f->call->step = what;
    f->call->threads = what == PEALI_CUDA_REDUCE ? PEALI_CUDA_BLOCK : ALIGN_THREADS + PEALI_CUDA_BOARD;
    if (f->result == 0)
        note(f, peali_team_kernel(f->team, f->call, ctas, stream), "cuLaunchKernelEx");
}

/* Beside the copies of the next round. */
static void reduce(flight *f, uint32_t chunk)
{
    const piece p = piece_of(f, chunk, f->team->me);
    peali_cuda_direct *d = &f->call->direct;
    const uint64_t packs = (p.bytes + PEALI_CUDA_PACK - 1) / PEALI_CUDA_PACK;
    d->slice_packs = d->block_packs = (uint32_t)(packs / d->slices);
    d->long_slices = (uint32_t)(packs % d->slices);
    f->call->engines.at = p.at;
    f->call->engines.chunk = chunk;
    step(f, PEALI_CUDA_REDUCE, d->slices, f->beside);
}

/* What comes in TO from now on follows what is in FROM. */
static void follow(flight *f, peali_cu_strm from, peali_cu_strm to)
{
    const peali_cuda_driver *cu = f->team->cu;
    if (f->result == 0)
        note(f, cu->EventRecord(f->team->engines.event, from), "cuEventRecord");
    if (f->result == 0)
        note(f, cu->StreamWaitEvent(to, f->team->engines.event, 0), "cuStreamWaitEvent");
}

/* The vector in as many chunks as the area makes it, and no fewer than hide what a reduction takes. */
static void cut(flight *f)
{
    const uint64_t unit = UNIT * (uint64_t)f->team->n;
    const uint64_t most = (uint64_t)f->team->n * f->team->engines.room_bytes, bytes = f->call->part_bytes;
    uint64_t chunks = (bytes + most - 1) / most;
    chunks = chunks < LEAST_CHUNKS ? LEAST_CHUNKS : chunks;
    f->chunk_bytes = ((bytes + chunks - 1) / chunks + unit - 1) / unit * unit;
    f->chunks = (uint32_t)((bytes + f->chunk_bytes - 1) / f->chunk_bytes);
}

/* What others pull in this round was reduced beside the one before, and so were the pieces that it pushes over. */
static void copy_round(flight *f, uint32_t round)
{
    const bool pushes = round < f->chunks, pulls = round >= 2;
    if (pushes)
        push(f, round);
    if (pushes && pulls)
        step(f, PEALI_CUDA_ALIGN, 1, f->stream);
    if (pulls)
        pull(f, round - 2);
}

static void fly(flight *f)
{
    step(f, PEALI_CUDA_MEET, 1, f->stream);
    for (uint32_t round = 0; round <= f->chunks; round++) {
        copy_round(f, round);
        if (round > 0)
            follow(f, f->beside, f->stream);
        step(f, PEALI_CUDA_ALIGN, 1, f->stream);
        if (round == f->chunks)
            break;
        follow(f, f->stream, f->beside);
        reduce(f, round);
    }
    copy_round(f, f->chunks + 1);
}

/*
 * A stream that work forks into: one that is not captured, or (CAPTURED) in the same capture. In a visit, where one is made. NULL:
 * there is none.
 */
static peali_cu_result find_beside(peali_team *t, peali_cu_strm stream, peali_cu_strm *beside)
{
    peali_cu_enum mine = 0, its = 0;
    uint64_t id = 0, other = 0;
    peali_cu_result result = t->cu->StreamGetCaptureInfo(stream, &mine, &id, NULL, NULL, NULL);
    *beside = NULL;
    for (int i = 0; i < PEALI_TEAM_BESIDES && result == 0; i++) {
        peali_cu_strm *s = &t->engines.beside[i];
        if (!*s)
            result = t->cu->StreamCreate(s, PEALI_CU_STREAM_NON_BLOCKING);
        if (result == 0)
            result = t->cu->StreamGetCaptureInfo(*s, &its, &other, NULL, NULL, NULL);
        if (result == 0 && (its == PEALI_CU_CAPTURE_NONE || (its == PEALI_CU_CAPTURE_ACTIVE && its == mine && id == other))) {
            *beside = *s;
            break;
        }
    }
    return result;
}

static peal_status refuse(const peali_team *t)
{
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, t->rank, "a call by copy engines found no stream beside the user's: more than %d "
              "captures that are under way have calls of this communicator; end one", PEALI_TEAM_BESIDES);
    return PEAL_ERR_CAPTURE;
}

/* In the team's context. */
static void fly_in(flight *f)
{
    bool pushed;
    note(f, peali_team_push(f->team, &pushed), "cuCtxPushCurrent");
    if (f->result == 0)
        fly(f);
    peali_team_pop(f->team, pushed);
}

peal_status peali_engines_launch(peali_team *team, const peali_cuda_call *call, const void *in, void *out, peali_cu_strm stream)
{
    peali_cuda_call mine = *call;
    flight f = {.team = team, .call = &mine, .stream = stream};
    peali_gpu_visit visit;
    peal_status status = peali_gpu_enter(team->gpu, team->rank, &visit);
    if (status != PEAL_OK)
        return status;
    note(&f, find_beside(team, stream, &f.beside), "a stream for reductions");
    peali_gpu_leave(team->gpu, &visit);
    if (f.result == 0 && !f.beside)
        return refuse(team);
    peali_team_address(team, &mine, in, out);
    mine.engines.room_bytes = team->engines.room_bytes;
    for (int x = 0; x < team->n; x++)
        mine.engines.areas[x] = team->engines.areas[x];
    cut(&f);
    if (f.result == 0)
        fly_in(&f);
    return f.result == 0 ? PEAL_OK : peali_cuda_failed(team->rank, f.failed, f.result);
}
