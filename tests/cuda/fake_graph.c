/*
 * Graphs. One is the list of what was captured, in that order: its nodes run one after the other, also where they were captured on
 * streams that had forked.
 */
#include "fake_cuda_parts.h"

#include <stdlib.h>

struct CUgraphExec_st {
    struct CUgraph_st graph;
};

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

peali_cu_result cuGraphInstantiateWithFlags(fake_exec *exec, fake_graph graph, unsigned long long flags)
{
    ENTER_UNSAFE(cuGraphInstantiateWithFlags);
    *exec = calloc(1, sizeof **exec);
    for (fake_node node = graph->first; node; node = node->next)
        fake_add_node(&(*exec)->graph, &node->op);
    return 0;
}

/* A launch into a captured stream would be a node of its own kind, which the fake has not. */
peali_cu_result cuGraphLaunch(fake_exec exec, peali_cu_strm handle)
{
    ENTER(cuGraphLaunch);
    pthread_mutex_lock(&fake_lock);
    peali_cu_strm s = fake_find(handle);
    peali_cu_result result = !s ? INVALID_HANDLE : s->capture ? NOT_SUPPORTED : 0;
    for (fake_node node = exec->graph.first; node && result == 0; node = node->next)
        result = fake_put(s, &node->op);
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
    fake_free_nodes(&exec->graph);
    free(exec);
    return 0;
}
