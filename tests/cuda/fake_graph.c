/*
 * Graphs. A node depends on what its capture says, and on nothing else: those that were captured on another stream than the graph's
 * own run on streams of the graph, one for each, beside it.
 */
#include "fake_cuda_parts.h"

#include <stdlib.h>

enum { BESIDES = 16 };

struct CUgraphExec_st {
    struct CUgraph_st graph;
    struct {
        peali_cu_strm captured, here;
    } beside[BESIDES];
};

/* The lock is held in all functions that are static or begin with fake_. */

static fake_node add_node(fake_graph graph, const fake_op *o)
{
    fake_node node = calloc(1, sizeof *node);
    node->op = *o;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->n++;
    return node;
}

void fake_free_nodes(fake_graph graph)
{
    while (graph->first) {
        fake_node node = graph->first;
        graph->first = node->next;
        free(node);
    }
}

void fake_join_tail(fake_tail *tail, const fake_tail *with)
{
    for (int i = 0; i < with->n; i++) {
        int k = 0;
        while (k < tail->n && tail->nodes[k] != with->nodes[i])
            k++;
        if (k == FAKE_AFTER)
            abort();
        tail->nodes[k] = with->nodes[i];
        tail->n += k == tail->n;
    }
}

void fake_capture_node(peali_cu_strm s, const fake_op *o)
{
    fake_node node = add_node(s->capture->graph, o);
    node->stream = s;
    node->before = s->tail;
    s->tail = (fake_tail){1, {s->capture->graph->n - 1}};
}

peali_cu_result cuGraphGetNodes(fake_graph graph, fake_node *nodes, size_t *n)
{
    ENTER(cuGraphGetNodes);
    size_t found = 0;
    for (fake_node node = graph->first; node; node = node->next, found++)
        if (nodes && found < *n)
            nodes[found] = node;
    *n = found;
    return 0;
}

peali_cu_result cuGraphNodeGetType(fake_node node, peali_cu_enum *type)
{
    ENTER(cuGraphNodeGetType);
    *type = node->op.kind == KERNEL ? FAKE_NODE_KERNEL : node->op.kind == COPY ? FAKE_NODE_MEMCPY : FAKE_NODE_MEMSET;
    return 0;
}

/* Of the sizes alone. */
peali_cu_result cuGraphKernelNodeGetParams_v2(fake_node node, peali_cu_kernel_node *kernel)
{
    ENTER(cuGraphKernelNodeGetParams_v2);
    if (node->op.kind != KERNEL)
        return INVALID_VALUE;
    *kernel = (peali_cu_kernel_node){.grid = {node->op.grid, 1, 1}, .block = {node->op.block, 1, 1}};
    return 0;
}

/* Where EXEC runs what CAPTURED had; NULL: where it is launched, as it does what its origin had. */
static peali_cu_strm beside(fake_exec exec, struct CUctx_st *context, peali_cu_strm captured)
{
    int i = 0;
    if (captured == exec->graph.origin)
        return NULL;
    while (i < BESIDES && exec->beside[i].here && exec->beside[i].captured != captured)
        i++;
    if (i == BESIDES)
        abort();
    if (!exec->beside[i].here)
        exec->beside[i].here = fake_make(context, false);
    exec->beside[i].captured = captured;
    return exec->beside[i].here;
}

peali_cu_result cuGraphInstantiateWithFlags(fake_exec *exec, fake_graph graph, unsigned long long flags)
{
    ENTER_UNSAFE(cuGraphInstantiateWithFlags);
    struct CUctx_st *context = fake_current();
    if (!context)
        return INVALID_CONTEXT;
    *exec = calloc(1, sizeof **exec);
    pthread_mutex_lock(&fake_lock);
    (*exec)->graph.origin = graph->origin;
    for (fake_node node = graph->first; node; node = node->next) {
        fake_node copy = add_node(&(*exec)->graph, &node->op);
        copy->stream = beside(*exec, context, node->stream);
        copy->before = node->before;
    }
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* All of EXEC runs after what S has, and before what it gets: of other streams too. */
static void launch(fake_exec exec, peali_cu_strm s)
{
    fake_moment *at = calloc((size_t)exec->graph.n + 1, sizeof *at);
    fake_op end = {.kind = NOTHING};
    const fake_moment start = {s, s->given};
    int k = 0;
    for (fake_node node = exec->graph.first; node; node = node->next, k++) {
        peali_cu_strm on = node->stream ? node->stream : s;
        fake_op o = node->op;
        fake_come_after(&o, start.stream, start.n);
        for (int i = 0; i < node->before.n; i++)
            fake_come_after(&o, at[node->before.nodes[i]].stream, at[node->before.nodes[i]].n);
        fake_give(on, &o);
        at[k] = (fake_moment){on, on->given};
    }
    for (int i = 0; i < BESIDES && exec->beside[i].here; i++)
        fake_come_after(&end, exec->beside[i].here, exec->beside[i].here->given);
    fake_give(s, &end);
    free(at);
}

/* A launch into a captured stream would be a node of its own kind, which the fake has not. */
peali_cu_result cuGraphLaunch(fake_exec exec, peali_cu_strm handle)
{
    ENTER(cuGraphLaunch);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = s && s->capture ? NOT_SUPPORTED : fake_put(s, &(fake_op){.kind = NOTHING});
    if (result == 0)
        launch(exec, s);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

peali_cu_result cuGraphDestroy(fake_graph graph)
{
    ENTER(cuGraphDestroy);
    fake_free_nodes(graph);
    free(graph);
    return 0;
}

peali_cu_result cuGraphExecDestroy(fake_exec exec)
{
    ENTER(cuGraphExecDestroy);
    pthread_mutex_lock(&fake_lock);
    for (int i = 0; i < BESIDES && exec->beside[i].here; i++)
        fake_give(exec->beside[i].here, &(fake_op){.kind = END});
    pthread_mutex_unlock(&fake_lock);
    fake_free_nodes(&exec->graph);
    free(exec);
    return 0;
}

/* Of the graph and the nodes nothing. */
peali_cu_result cuStreamGetCaptureInfo_v2(peali_cu_strm handle, peali_cu_enum *status, uint64_t *id, peali_cu_graph *graph,
                                          const peali_cu_node **nodes, size_t *n)
{
    peali_cu_result result = cuStreamIsCapturing(handle, status);
    if (result != 0 || graph || nodes || n)
        return result != 0 ? result : NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    *id = s->capture ? s->capture->id : 0;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}
