/*
 * Streams, events and captures. A stream is a thread that works through a queue; an operation names what it comes after in other
 * streams.
 */
#include "fake_cuda_parts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"

struct CUevent_st {
    fake_moment at;
    uint64_t stamp_ns;
    fake_capture *capture; /* recorded in it; AT counts its operations then, */
    fake_tail tail;        /* and these nodes are before it */
};

static pthread_cond_t fetched = PTHREAD_COND_INITIALIZER;
static peali_cu_strm streams;
static fake_capture *captures;
static __thread peali_cu_enum mode; /* of this thread: CUstreamCaptureMode */

__attribute__((weak)) fake_emulation peali_emulate;
static fake_emulation *emulation = peali_emulate; /* set before any launch */

bool fake_cuda_emulate(fake_emulation *how)
{
    emulation = how ? how : peali_emulate;
    return emulation;
}

/* The lock is held in all static functions, but for the work itself. */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run(const peali_cu_strm s, const fake_op *o)
{
    bool foreign = o->kind == COPY && fake_foreign(s->context, o->to);
    pthread_mutex_unlock(&fake_lock);
    while (foreign && fake_p2p("hang"))
        sleep(1);
    if (o->work)
        o->work(o->parameters);
    else if (o->kind == KERNEL && emulation)
        emulation(o->kernel, o->grid, o->block, &o->call);
    if (o->kind == COPY && !(foreign && fake_p2p("lost")))
        memmove((void *)(uintptr_t)o->to, (const void *)(uintptr_t)o->from, o->bytes);
    if (o->kind == SET)
        memset((void *)(uintptr_t)o->to, o->value, o->bytes);
    if (o->stamp_ns)
        *o->stamp_ns = now_ns();
    pthread_mutex_lock(&fake_lock);
}

/* All that O comes after in other streams is done, and it is at the head of its connection. */
static bool may_begin(const peali_cu_strm s, const fake_op *o)
{
    bool ready = o->turn == 0 || o->turn == s->context->begun + 1;
    for (int i = 0; i < o->nafter; i++)
        ready = ready && o->after[i].stream->done >= o->after[i].n;
    return ready;
}

/* Each that may begin something is woken, and no other: there are more streams than cores. */
static void call_up(void)
{
    for (peali_cu_strm s = streams; s; s = s->next)
        if (s->first && may_begin(s, s->first))
            pthread_cond_signal(&s->turn);
}

static void *work(void *stream)
{
    peali_cu_strm s = stream;
    bool end = false;
    pthread_mutex_lock(&fake_lock);
    while (!end) {
        fake_op *o = s->first;
        if (!o || !may_begin(s, o)) {
            pthread_cond_wait(&s->turn, &fake_lock);
            continue;
        }
        if (o->turn != 0) {
            s->context->begun++;
            call_up();
        }
        run(s, o);
        end = o->kind == END;
        s->first = o->next;
        if (!s->first)
            s->last = &s->first;
        s->done++;
        free(o);
        pthread_cond_broadcast(&s->changed);
        call_up();
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

peali_cu_strm fake_make(struct CUctx_st *context, bool blocking)
{
    peali_cu_strm s = calloc(1, sizeof *s);
    pthread_t thread;
    s->context = context;
    s->blocking = blocking;
    s->last = &s->first;
    s->next = streams;
    pthread_cond_init(&s->turn, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&thread, NULL, work, s) != 0)
        abort();
    pthread_detach(thread);
    streams = s;
    return s;
}

peali_cu_strm fake_find(peali_cu_strm handle)
{
    struct CUctx_st *context = fake_current();
    if (!handle) {
        if (context && !context->legacy)
            context->legacy = fake_make(context, false);
        return context ? context->legacy : NULL;
    }
    peali_cu_strm s = streams;
    while (s && s != handle)
        s = s->next;
    return s && !s->destroyed ? s : NULL;
}

static bool legacy(const peali_cu_strm s)
{
    return s == s->context->legacy;
}

static void invalidate(const peali_cu_strm s)
{
    if (s->capture)
        s->capture->invalid = true;
}

/* A stream that the legacy stream would have to wait for is being captured; all such captures are over where INVALIDATING. */
static bool entangled(const peali_cu_strm s, bool invalidating)
{
    bool any = false;
    for (peali_cu_strm t = streams; t && legacy(s); t = t->next)
        if (t->context == s->context && t->blocking && t->capture) {
            any = true;
            if (invalidating)
                invalidate(t);
        }
    return any;
}

void fake_come_after(fake_op *o, peali_cu_strm stream, uint64_t n)
{
    if (stream->done >= n)
        return;
    if (o->nafter == FAKE_AFTER)
        abort();
    o->after[o->nafter++] = (fake_moment){stream, n};
}

/* Kernels and waits of all streams begin in the order in which they came, where there is one connection; copies have their own. */
static bool queues(const fake_op *o)
{
    return (o->kind == KERNEL || o->kind == NOTHING) && fake_number("CUDA_DEVICE_MAX_CONNECTIONS", 8) == 1;
}

void fake_give(peali_cu_strm s, const fake_op *from)
{
    fake_op *o = malloc(sizeof *o);
    *o = *from;
    o->next = NULL;
    o->turn = queues(o) ? ++s->context->queued : 0;
    for (peali_cu_strm t = streams; t && legacy(s); t = t->next)
        if (t->context == s->context && t->blocking)
            fake_come_after(o, t, t->given);
    if (s->blocking && s->context->legacy)
        fake_come_after(o, s->context->legacy, s->context->legacy->given);
    *s->last = o;
    s->last = &o->next;
    s->given++;
    pthread_cond_signal(&s->turn);
}

peali_cu_result fake_put(peali_cu_strm s, const fake_op *o)
{
    if (!s)
        return INVALID_HANDLE;
    if (entangled(s, true))
        return CAPTURE_IMPLICIT;
    if (!s->capture) {
        fake_give(s, o);
        return 0;
    }
    if (s->capture->invalid)
        return CAPTURE_INVALIDATED;
    fake_capture_node(s, o);
    s->captured++;
    return 0;
}

/* Streams. */

peali_cu_result cuStreamCreate(peali_cu_strm *stream, unsigned flags)
{
    ENTER_UNSAFE(cuStreamCreate);
    struct CUctx_st *context = fake_current();
    if (!context)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    *stream = fake_make(context, !(flags & PEALI_CU_STREAM_NON_BLOCKING));
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* Returns at once; what was given to it is still done. */
peali_cu_result cuStreamDestroy_v2(peali_cu_strm handle)
{
    ENTER_UNSAFE(cuStreamDestroy_v2);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = handle ? fake_find(handle) : NULL;
    if (s) {
        fake_give(s, &(fake_op){.kind = END});
        s->destroyed = true;
    }
    pthread_mutex_unlock(&fake_lock);
    return s ? 0 : INVALID_HANDLE;
}

/* What a captured stream answers to who asks how far it is: nothing has run, so the capture is over. */
static peali_cu_result askable(peali_cu_strm s)
{
    if (!s)
        return INVALID_HANDLE;
    if (entangled(s, true))
        return CAPTURE_IMPLICIT;
    if (!s->capture)
        return 0;
    invalidate(s);
    return CAPTURE_UNSUPPORTED;
}

/* Waits until S has done what it has been given by now. */
static void wait_for(peali_cu_strm s)
{
    uint64_t n = s->given;
    while (s->done < n)
        pthread_cond_wait(&s->changed, &fake_lock);
}

peali_cu_result cuStreamSynchronize(peali_cu_strm handle)
{
    ENTER_UNSAFE(cuStreamSynchronize);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = askable(s);
    if (result == 0)
        wait_for(s);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuStreamQuery(peali_cu_strm handle)
{
    ENTER_UNSAFE(cuStreamQuery);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = askable(s);
    if (result == 0 && s->done < s->given)
        result = NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuCtxSynchronize(void)
{
    ENTER_UNSAFE(cuCtxSynchronize);
    struct CUctx_st *context = fake_current();
    peali_cu_result result = context ? 0 : INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    for (peali_cu_strm s = streams; s; s = s->next)
        if (s->context == context && s->capture) {
            invalidate(s);
            result = CAPTURE_UNSUPPORTED;
        }
    for (peali_cu_strm s = streams; s && result == 0; s = s->next)
        if (s->context == context)
            wait_for(s);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* O runs in the stream, if memory that it touches is there. */
static peali_cu_result move(const fake_op *o, peali_cu_strm s)
{
    const struct CUctx_st *context = fake_current();
    bool to = fake_reaches(context, o->to, o->bytes) || (o->kind == COPY && fake_pageable(o->to));
    bool there = to && (o->kind == SET || fake_reaches(context, o->from, o->bytes) || fake_pageable(o->from));
    return there ? fake_put(s, o) : INVALID_VALUE;
}

peali_cu_result cuMemsetD8Async(peali_cu_ptr to, unsigned char value, size_t bytes, peali_cu_strm stream)
{
    ENTER(cuMemsetD8Async);
    if (!fake_current())
        return INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = move(&(fake_op){.kind = SET, .to = to, .value = value, .bytes = bytes}, fake_find(stream));
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/*
 * To pageable memory the driver has copied when it returns, and while it waits for that, no other thread gets to such a copy of
 * this context (seen on H100: threads that share a GPU, each in a copy behind a call of Peal, wait for each other for ever). From
 * pageable memory the driver has copied, too; this does it in its turn, like all else.
 */
static peali_cu_result fetch(struct CUctx_st *context, const fake_op *o, peali_cu_strm handle)
{
    pthread_mutex_lock(&fake_lock);
    bool fetches = fake_pageable(o->to);
    while (fetches && context->fetching)
        pthread_cond_wait(&fetched, &fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = move(o, s);
    if (result == 0 && fetches && !s->capture) {
        context->fetching = true;
        wait_for(s);
        context->fetching = false;
        pthread_cond_broadcast(&fetched);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuMemcpyAsync(peali_cu_ptr to, peali_cu_ptr from, size_t bytes, peali_cu_strm stream)
{
    ENTER(cuMemcpyAsync);
    struct CUctx_st *context = fake_current();
    const fake_op o = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
    return context ? fetch(context, &o, stream) : INVALID_CONTEXT;
}

/* The driver says so when the kernel has run into it, and the context is of no more use. */
static bool all_reached(const struct CUctx_st *context, const peali_cuda_call *call)
{
    bool all = (!call->in || fake_reaches(context, (uintptr_t)call->in, 1)) &&
               (!call->out || fake_reaches(context, (uintptr_t)call->out, 1));
    for (int x = 0; x < call->nranks; x++)
        all = all && fake_reaches(context, (uintptr_t)call->scratch[x], call->layout.bytes) &&
              !(fake_barred() && fake_foreign(context, (uintptr_t)call->scratch[x]));
    all = all && (!call->messages || fake_reaches(context, (uintptr_t)call->post, sizeof *call->post));
    return all && fake_reaches(context, (uintptr_t)call->lane, call->layout.direct_lanes * sizeof *call->lane) &&
           fake_reaches(context, (uintptr_t)call->report, sizeof *call->report) && fake_reaches(context, (uintptr_t)call->abort, 4);
}

static peali_cu_result launch(const peali_cu_launch *how, peali_cu_func f, void **parameters)
{
    struct CUctx_st *context = fake_current();
    const unsigned *grid = how->grid, *block = how->block;
    fake_op o = {.kind = KERNEL, .kernel = (const char *)f, .grid = grid[0], .block = block[0]};
    if (!context || !f || grid[0] * grid[1] * grid[2] == 0 || block[0] * block[1] * block[2] == 0 || block[0] > 1024 || !parameters)
        return context ? INVALID_VALUE : INVALID_CONTEXT;
    if (!fake_other(&o, parameters))
        memcpy(&o.call, parameters[0], sizeof o.call);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(how->stream);
    bool ours = s && s->context == context;
    peali_cu_result result = !ours ? INVALID_HANDLE : !o.work && !all_reached(context, &o.call) ? ILLEGAL_ADDRESS : fake_put(s, &o);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuLaunchKernel(peali_cu_func f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, peali_cu_strm stream, void **parameters, void **extra)
{
    ENTER(cuLaunchKernel);
    return launch(&(peali_cu_launch){.grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream}, f, parameters);
}

static int early; /* launches that need not wait for what stands before them */

int fake_cuda_early(void)
{
    return peali_load_relaxed(&early);
}

/* What was compiled for less than 9.0 has no way to wait then: a real driver takes it, and results are wrong now and then. */
peali_cu_result cuLaunchKernelEx(const peali_cu_launch *how, peali_cu_func f, void **parameters, void **extra)
{
    ENTER(cuLaunchKernelEx);
    const peali_cu_launch_attribute *a = how->attributes;
    const bool asks = how->nattributes > 0 && a->id == PEALI_CU_LAUNCH_SERIALIZATION && a->value.serialization;
    if (how->nattributes > 1 || (how->nattributes == 1 && !asks) || (asks && fake_number("FAKE_CUDA_PTX", 90) < 90))
        return INVALID_VALUE;
    (void)peali_add_relaxed(&early, asks);
    return launch(how, f, parameters);
}

/* Captures. */

peali_cu_result cuThreadExchangeStreamCaptureMode(peali_cu_enum *with)
{
    ENTER(cuThreadExchangeStreamCaptureMode);
    peali_cu_enum before = mode;
    if (*with > PEALI_CU_CAPTURE_RELAXED)
        return INVALID_VALUE;
    mode = *with;
    *with = before;
    return 0;
}

/* Does capture C forbid this thread what is not safe? */
static bool forbids(const fake_capture *c)
{
    bool here = pthread_equal(c->thread, pthread_self());
    return mode != PEALI_CU_CAPTURE_RELAXED && ((here && c->mode != PEALI_CU_CAPTURE_RELAXED) ||
                                                (mode == PEALI_CU_CAPTURE_GLOBAL && !here && c->mode == PEALI_CU_CAPTURE_GLOBAL));
}

peali_cu_result fake_unsafe(void)
{
    peali_cu_result result = 0;
    pthread_mutex_lock(&fake_lock);
    for (fake_capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            c->invalid = true;
            result = CAPTURE_UNSUPPORTED;
        }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuStreamIsCapturing(peali_cu_strm handle, peali_cu_enum *status)
{
    ENTER(cuStreamIsCapturing);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = !s ? (handle ? INVALID_HANDLE : INVALID_CONTEXT) : entangled(s, false) ? CAPTURE_IMPLICIT : 0;
    if (result == 0)
        *status = !s->capture ? PEALI_CU_CAPTURE_NONE : s->capture->invalid ? PEALI_CU_CAPTURE_INVALID : PEALI_CU_CAPTURE_ACTIVE;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static peali_cu_result begin(peali_cu_strm s, peali_cu_enum as)
{
    if (!s)
        return INVALID_HANDLE;
    if (legacy(s))
        return CAPTURE_UNSUPPORTED;
    if (s->capture)
        return INVALID_VALUE;
    static unsigned long long ids;
    fake_capture *c = calloc(1, sizeof *c);
    *c = (fake_capture){.id = ++ids, .mode = as, .thread = pthread_self(), .origin = s, .graph = calloc(1, sizeof *c->graph), .next = captures};
    captures = c;
    c->graph->origin = s;
    s->capture = c;
    s->captured = s->joined = s->tail.n = 0;
    return 0;
}

peali_cu_result cuStreamBeginCapture_v2(peali_cu_strm handle, peali_cu_enum as)
{
    ENTER(cuStreamBeginCapture_v2);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = begin(fake_find(handle), as);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Takes C apart; 0, or why it gives no graph. */
static peali_cu_result finish(fake_capture *c)
{
    peali_cu_result result = c->invalid ? CAPTURE_INVALIDATED : 0;
    for (peali_cu_strm s = streams; s; s = s->next)
        if (s->capture == c) {
            if (s != c->origin && s->joined < s->captured && result == 0)
                result = CAPTURE_UNJOINED;
            s->capture = NULL;
        }
    fake_capture **at = &captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    return result;
}

static peali_cu_result end(peali_cu_strm s, fake_graph *graph)
{
    if (!s)
        return INVALID_HANDLE;
    fake_capture *c = s->capture;
    if (!c || c->origin != s)
        return c ? CAPTURE_UNMATCHED : INVALID_VALUE;
    if (c->mode != PEALI_CU_CAPTURE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return WRONG_THREAD;
    peali_cu_result result = finish(c);
    *graph = result == 0 ? c->graph : NULL;
    if (result != 0) {
        fake_free_nodes(c->graph);
        free(c->graph);
    }
    free(c);
    return result;
}

peali_cu_result cuStreamEndCapture(peali_cu_strm handle, fake_graph *graph)
{
    ENTER(cuStreamEndCapture);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = end(fake_find(handle), graph);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Events. */

peali_cu_result cuEventCreate(fake_event *event, unsigned flags)
{
    ENTER_UNSAFE(cuEventCreate);
    *event = calloc(1, sizeof **event);
    return 0;
}

peali_cu_result cuEventDestroy_v2(fake_event event)
{
    ENTER(cuEventDestroy_v2);
    free(event);
    return 0;
}

peali_cu_result cuEventRecord(fake_event event, peali_cu_strm handle)
{
    ENTER(cuEventRecord);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = !s ? INVALID_HANDLE : entangled(s, true) ? CAPTURE_IMPLICIT : 0;
    if (result == 0 && !s->capture)
        result = fake_put(s, &(fake_op){.kind = NOTHING, .stamp_ns = &event->stamp_ns});
    if (result == 0) {
        event->capture = s->capture;
        event->tail = s->tail;
        event->at = (fake_moment){s, s->capture ? s->captured : s->given};
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static bool happened(const struct CUevent_st *event)
{
    return event->at.stream && event->at.stream->done >= event->at.n;
}

peali_cu_result cuEventElapsedTime(float *ms, fake_event from, fake_event to)
{
    ENTER(cuEventElapsedTime);
    pthread_mutex_lock(&fake_lock);
    bool captured = from->capture || to->capture, both = happened(from) && happened(to);
    if (!captured && both)
        *ms = (float)(int64_t)(to->stamp_ns - from->stamp_ns) / 1e6f;
    pthread_mutex_unlock(&fake_lock);
    return captured ? INVALID_HANDLE : both ? 0 : NOT_READY;
}

/* S, captured or not, comes after what is captured of another stream: a fork or a join. */
static peali_cu_result wait_captured(peali_cu_strm s, const struct CUevent_st *event)
{
    if (s->capture && s->capture != event->capture) {
        s->capture->invalid = event->capture->invalid = true;
        return CAPTURE_MERGE;
    }
    if (!s->capture)
        s->captured = s->joined = s->tail.n = 0;
    s->capture = event->capture;
    fake_join_tail(&s->tail, &event->tail);
    s->captured++; /* has something to be joined for */
    if (event->at.n > event->at.stream->joined)
        event->at.stream->joined = event->at.n;
    return 0;
}

static peali_cu_result wait_event(peali_cu_strm s, const struct CUevent_st *event)
{
    fake_op o = {.kind = NOTHING};
    if (!s)
        return INVALID_HANDLE;
    if (event->capture)
        return wait_captured(s, event);
    if (s->capture) {
        invalidate(s);
        return CAPTURE_ISOLATION;
    }
    if (event->at.stream)
        fake_come_after(&o, event->at.stream, event->at.n);
    return fake_put(s, &o);
}

peali_cu_result cuStreamWaitEvent(peali_cu_strm handle, fake_event event, unsigned flags)
{
    ENTER(cuStreamWaitEvent);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = wait_event(fake_find(handle), event);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuEventSynchronize(fake_event event)
{
    ENTER_UNSAFE(cuEventSynchronize);
    pthread_mutex_lock(&fake_lock);
    peali_cu_result result = event->capture ? CAPTURED_EVENT : 0;
    while (result == 0 && event->at.stream && event->at.stream->done < event->at.n)
        pthread_cond_wait(&event->at.stream->changed, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
    return result;
}
