/*
 * The threads of a CTA as fibers. Each has a stack of its own, and goes back to the loop in run_cta() wherever it waits; that
 * goes round. A thread of the process has its fibers to itself and keeps them until it ends.
 *
 * Under TSan each fiber is a thread, so that a race between threads of a CTA is one there too: meet() and warp_any() order them,
 * and nothing else does.
 */
#include "emulate.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "cuda/memory.cuh"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define HIDDEN __attribute__((no_sanitize("thread"), noinline)) /* the fibers' own state is one thread's */
#else
#define HIDDEN
#endif

#if !defined(__x86_64__)
#error "switching stacks is written for x86-64"
#endif

/* Saves where this is in *FROM, and goes on where TO was saved. */
extern "C" void switch_stack(void **from, void *to);
asm(R"(
.text
.type switch_stack, @function
switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size switch_stack, . - switch_stack
)");

#define KERNEL_OF(proto, name) extern "C" void peal_##proto##_##name(const peali_cuda_call &call);
#define SUMS_OF(proto) \
    KERNEL_OF(proto, float) KERNEL_OF(proto, fp8_e4m3) KERNEL_OF(proto, fp8_e5m2) KERNEL_OF(proto, fp16) KERNEL_OF(proto, bf16) \
    KERNEL_OF(proto, double)
#define KERNELS_OF_ALL \
    SUMS_OF(exchange) KERNEL_OF(exchange, any) KERNEL_OF(exchange, moves) KERNEL_OF(exchange, gives) KERNEL_OF(exchange, keeps) \
    SUMS_OF(exchange_takes) KERNEL_OF(exchange_takes, any) SUMS_OF(exchange_lines) KERNEL_OF(exchange_lines, any) \
    SUMS_OF(exchange_lines_shares) KERNEL_OF(exchange_lines_shares, any) \
    KERNEL_OF(exchange_lines, moves) KERNEL_OF(exchange_lines, gives) KERNEL_OF(exchange_lines, keeps) \
    SUMS_OF(exchange_lines_takes) KERNEL_OF(exchange_lines_takes, any) SUMS_OF(ll) SUMS_OF(ll_rare) KERNEL_OF(ll, any) \
    SUMS_OF(ll128) SUMS_OF(ll128_rare) KERNEL_OF(ll128, any) \
    SUMS_OF(bulk) KERNEL_OF(bulk, any)
KERNELS_OF_ALL
#undef KERNEL_OF
#define KERNEL_OF(proto, name) {"peal_" #proto "_" #name, peal_##proto##_##name},

__thread bool has_awaited;
__thread uint32_t number_here;

namespace {

typedef void (*entry)(const peali_cuda_call &call);
const struct {
    const char *name;
    entry run;
} kernels[] = {KERNELS_OF_ALL};

enum {
    GATES = 16,    /* that threads pass together between two looks in vain; who passes more has something to do */
    PATIENCE = 10, /* turns in which nobody has, before this thread sleeps; after twice as many it sleeps for twice as long, */
    NAP_US = 20,   /* at first for this, */
    DOUBLED = 2,   /* and so many times twice that, at most: who waits for ranks that wait likewise is late for each of them */
    LATE = 8,      /* turns from a warp's begin to the next one's: a launch that waits for nobody takes fewer */
};
const size_t stack_bytes = 256 << 10, LINE = 64;

/* Where so many threads wait for each other. */
struct gate {
    uint32_t here, first;         /* those that have come, and the first warp of those that can */
    std::vector<uint32_t> asleep; /* of each warp, a bit for each thread that waits */
    bool some, result;            /* what has been said so far, and in the last round */
};

struct fiber {
    void *sp, *tsan;
    uint32_t number;
    bool moved, awaited; /* the latter: what stands before in the stream */
    uint32_t gates; /* passed since it last looked away */
    const unsigned char *address; /* of a warp's access */
    uint64_t words[2];
    bool used;
};

struct cta {
    std::vector<fiber *> fibers;
    std::vector<uint32_t> awake; /* of each warp, a bit for each thread that can go on */
    std::vector<gate> warps;
    gate all, by;
    void *sp, *tsan;
    fiber *now;
    uint32_t number, count, threads;
    uint32_t begun, turns, left; /* warps that have, turns of their threads, and threads that have not ended */
    uint32_t warp, to_come;      /* this turn's warp, and a bit for each of its threads that had no turn yet */
    bool moved;                  /* in this turn somebody went on, */
    bool busy;                   /* or ended, or passed more gates than who waits */
    entry run;
    const peali_cuda_call *call;
};

thread_local cta *here;

HIDDEN void switch_to(void **from, void *to, void *tsan)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan, __tsan_switch_to_fiber_no_sync);
#endif
    switch_stack(from, to);
}

void ordered_before(void *at)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_release(at);
#endif
}

void ordered_after(void *at)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(at);
#endif
}

/* The fiber that runs, among its warp's. */
HIDDEN uint32_t bit_here()
{
    return 1U << here->now->number % 32;
}

/*
 * The next one in this turn, from one warp to the other. What the two after it have is asked for before they are there: with
 * hundreds of stacks a switch was all a wait for memory, a seventh of the time of tests.
 */
HIDDEN fiber *next(cta *c)
{
    for (; c->warp < c->begun; c->warp++, c->to_come = ~0U) {
        const uint32_t can = c->awake[c->warp] & c->to_come;
        if (can != 0) {
            const uint32_t i = (uint32_t)__builtin_ctz(can);
            c->to_come = ~1U << i;
            fiber *const *f = &c->fibers[32 * c->warp + i];
            if ((can & 4U << i) != 0)
                __builtin_prefetch(f[2]);
            if ((can & 2U << i) != 0)
                __builtin_prefetch(f[1]->sp);
            return *f;
        }
    }
    return NULL;
}

HIDDEN void enter(cta *c, fiber *f, void **from)
{
    f->moved = true;
    c->now = f;
    has_awaited = f->awaited;
    number_here = f->number;
    switch_to(from, f->sp, f->tsan);
}

/* To the next one, or to the turn's end. */
HIDDEN void go_on(fiber *f)
{
    cta *c = here;
    c->moved |= f->moved;
    fiber *g = next(c);
    if (g)
        enter(c, g, &f->sp);
    else
        switch_to(&f->sp, c->sp, c->tsan);
}

HIDDEN void fiber_main()
{
    for (;;) {
        fiber *f = here->now;
        ordered_after(here);
        has_awaited = f->awaited = false;
        here->run(*here->call);
        ordered_before(here);
        here->awake[f->number / 32] &= ~bit_here();
        here->left--;
        here->busy = true;
        go_on(f);
    }
}

/* What threads that have ended leave for others, by number; there until the last of them ends. */
struct rest {
    std::mutex lock;
    std::vector<std::vector<fiber *>> of;
};
rest &idle = *new rest;

HIDDEN void leave(fiber *f)
{
    std::lock_guard<std::mutex> hold(idle.lock);
    if (idle.of.size() <= f->number)
        idle.of.resize(f->number + 1);
    idle.of[f->number].push_back(f);
}

HIDDEN fiber *take(uint32_t number)
{
    std::lock_guard<std::mutex> hold(idle.lock);
    if (idle.of.size() <= number || idle.of[number].empty())
        return NULL;
    fiber *f = idle.of[number].back();
    idle.of[number].pop_back();
    return f;
}

/*
 * A stack as switch_stack leaves it, with fiber_main to return to. Each begins 17 lines below the one before, within 64 KiB: stacks
 * that lie alike in their pages would share a few places of the caches.
 */
HIDDEN fiber *new_fiber(uint32_t number)
{
    fiber *f = (fiber *)aligned_alloc(LINE, sizeof *f);
    void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!f || stack == MAP_FAILED)
        abort();
    *f = fiber();
    void **top = (void **)((char *)stack + stack_bytes - number * 17 * 64 % (64 << 10)) - 3;
    *--top = (void *)fiber_main;
    f->sp = top - 6;
    f->number = number;
#if defined(__SANITIZE_THREAD__)
    f->tsan = __tsan_create_fiber(0);
#endif
    return f;
}

/* The last one to come ends the round, and does WORK for all before. */
template <class Work> HIDDEN bool come(gate *g, uint32_t count, bool some, Work work)
{
    ordered_before(g);
    g->some |= some;
    if (++g->here < count)
        return false;
    work();
    g->result = g->some;
    g->some = false;
    g->here = 0;
    for (size_t i = 0; i < g->asleep.size(); i++) {
        here->awake[g->first + i] |= g->asleep[i];
        g->asleep[i] = 0;
    }
    return true;
}

template <class Work> HIDDEN bool pass(gate *g, uint32_t count, bool some, Work work)
{
    fiber *f = here->now;
    here->busy |= ++f->gates > GATES;
    if (!come(g, count, some, work)) {
        here->awake[f->number / 32] &= ~bit_here();
        g->asleep[f->number / 32 - g->first] |= bit_here();
        go_on(f);
    }
    ordered_after(g);
    return g->result;
}

template <class Work> HIDDEN bool pass_warp(bool some, Work work)
{
    return pass(&here->warps[here->now->number / 32], 32, some, work);
}

/* Word I of those that a warp loads or stores, each thread EACH of them; and where it lies. */
HIDDEN uint64_t *word_of_warp(int i, int each, uint64_t **at)
{
    fiber *f = here->fibers[here->now->number / 32 * 32 + i / each];
    *at = f->used ? (uint64_t *)f->address + i % each : NULL;
    return &f->words[i % each];
}

/* The flags of lines first, and nothing before them. */
void load_words(int each)
{
    uint64_t *at;
    for (int i = 32 * each - 1; i >= 0; i--) {
        uint64_t *word = word_of_warp(i, each, &at);
        if (at)
            *word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    }
}

/* The flags last, and nothing after them. */
void store_words(int each)
{
    uint64_t *at;
    for (int i = 0; i < 32 * each; i++) {
        uint64_t *word = word_of_warp(i, each, &at);
        if (at)
            __atomic_store_n(at, *word, __ATOMIC_RELEASE);
    }
}

HIDDEN void shut(gate *g, uint32_t first, uint32_t warps)
{
    g->here = 0;
    g->first = first;
    g->asleep.assign(warps, 0);
    g->some = false;
}

HIDDEN void begin_warp(cta *c)
{
    const uint32_t threads = c->threads - 32 * c->begun;
    c->awake[c->begun++] = threads < 32 ? (1U << threads) - 1 : ~0U;
}

HIDDEN void start(cta *c)
{
    const uint32_t warps = (c->threads + 31) / 32;
    while (c->fibers.size() < c->threads) {
        const uint32_t number = (uint32_t)c->fibers.size();
        fiber *f = take(number);
        c->fibers.push_back(f ? f : new_fiber(number));
    }
    c->warps.resize(warps);
    for (uint32_t w = 0; w < warps; w++)
        shut(&c->warps[w], w, 1);
    shut(&c->all, 0, warps);
    shut(&c->by, 0, warps);
    c->awake.assign(warps, 0);
    c->begun = c->turns = 0;
    c->left = c->threads;
    begin_warp(c);
}

/*
 * One turn of all fibers that can go on. Nobody could: they wait in vain. Warps begin one after the other, so that it is seen what
 * the first ones do too early.
 */
HIDDEN void turn(cta *c)
{
    c->busy = c->moved = false;
    c->warp = 0;
    c->to_come = ~0U;
    fiber *f = next(c);
    if (f)
        enter(c, f, &c->sp);
    if (c->begun < c->awake.size() && (!c->moved || ++c->turns % LATE == 0)) {
        begin_warp(c);
        c->busy = true;
    } else if (c->left > 0 && !f) {
        fprintf(stderr, "emulation: %u threads of a CTA wait for others that have gone\n", c->left);
        abort();
    }
}

HIDDEN void run_cta(cta *c)
{
    start(c);
    ordered_before(c);
    uint32_t idle = 0;
    while (c->left > 0) {
        turn(c);
        idle = c->busy ? 0 : idle + 1;
        if (idle > PATIENCE)
            usleep(NAP_US << std::min(idle / PATIENCE / 2, (uint32_t)DOUBLED));
        else if (idle > 0)
            sched_yield();
    }
    ordered_after(c);
}

entry find(const char *name)
{
    for (const auto &k : kernels)
        if (strcmp(k.name, name) == 0)
            return k.run;
    fprintf(stderr, "emulation: no kernel %s\n", name);
    abort();
}

/* Ends with its thread. */
struct owner {
    cta c = {};
    ~owner()
    {
        for (fiber *f : c.fibers)
            leave(f);
    }
};
thread_local owner mine;

} // namespace

uint32_t threads_here()
{
    return here->threads;
}

uint32_t cta_here()
{
    return here->number;
}

uint32_t ctas_here()
{
    return here->count;
}

HIDDEN bool meet(uint32_t threads, bool some)
{
    return pass(&here->all, threads, some, [] {});
}

HIDDEN void come_by(uint32_t threads)
{
    if (here->now->number >= 32)
        (void)come(&here->by, threads, false, [] {});
}

HIDDEN void see_off(uint32_t threads)
{
    pass(&here->by, threads, false, [] {});
}

HIDDEN bool warp_any(bool some)
{
    return pass_warp(some, [] {});
}

template <class Work> HIDDEN const uint64_t *access_warp(const unsigned char *at, uint64_t first, uint64_t second, bool used, Work work)
{
    begin_to_touch();
    fiber *f = here->now;
    f->address = at;
    f->words[0] = first;
    f->words[1] = second;
    f->used = used;
    pass_warp(false, work);
    return f->words;
}

HIDDEN uint64_t load_warp(const unsigned char *at, bool used)
{
    return *access_warp(at, 0, 0, used, [] { load_words(1); });
}

HIDDEN void store_warp(unsigned char *at, uint64_t word, bool used)
{
    access_warp(at, word, 0, used, [] { store_words(1); });
}

HIDDEN quad load_row(const unsigned char *at, bool used)
{
    const uint64_t *w = access_warp(at, 0, 0, used, [] { load_words(2); });
    quad q = {(uint32_t)w[0], (uint32_t)(w[0] >> 32), (uint32_t)w[1], (uint32_t)(w[1] >> 32)};
    return q;
}

HIDDEN void store_row(unsigned char *at, quad q, bool used)
{
    access_warp(at, q.x | (uint64_t)q.y << 32, q.z | (uint64_t)q.w << 32, used, [] { store_words(2); });
}

HIDDEN void look_away()
{
    here->now->moved = false;
    here->now->gates = 0;
    go_on(here->now);
}

HIDDEN void await_stream()
{
    has_awaited = here->now->awaited = true;
}

void touched_too_soon()
{
    fputs("emulate: a kernel touches memory before it has waited for what stands before it in its stream\n", stderr);
    abort();
}

/* Those of exchanges have a call without its program: who looks at that finds nothing right. */
HIDDEN void cut_short(const char *kernel, peali_cuda_call *call)
{
    const size_t frame = offsetof(peali_cuda_call, ops);
    if (strncmp(kernel, "peal_exchange", 13) == 0)
        memset((unsigned char *)call + frame, 0xff, sizeof *call - frame);
}

extern "C" void peali_emulate(const char *kernel, unsigned grid, unsigned block, const void *params)
{
    cta *c = here = &mine.c;
    peali_cuda_call call;
    memcpy(&call, params, sizeof call);
    cut_short(kernel, &call);
    c->run = find(kernel);
    c->call = &call;
    c->count = grid;
    c->threads = block;
#if defined(__SANITIZE_THREAD__)
    c->tsan = __tsan_get_current_fiber();
#endif
    for (c->number = 0; c->number < grid; c->number++)
        run_cta(c);
}
