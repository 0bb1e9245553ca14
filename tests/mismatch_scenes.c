/* The list of scenes, and their calls. The texts that are looked for are written here anew, not taken from the library. */
#include "mismatch_scenes.h"

#include <stdio.h>
#include <string.h>

const char *const defect_names[DEFECTS] = {"count", "type", "op", "root", "kind", "refused", "extra call", "missing rank"};
const char *const size_names[SIZES] = {"64 B", "300 KiB", "16 MiB", "first limit", "last limit"};
static const size_t bytes_of[LOW_LIMIT] = {64, 300 << 10, SCENE_LARGE_BYTES};

static bool rooted(peal_kind kind)
{
    return kind == PEAL_BROADCAST || kind == PEAL_REDUCE;
}

static bool reduces(peal_kind kind)
{
    return kind != PEAL_BROADCAST && kind != PEAL_ALLGATHER && kind != PEAL_BARRIER;
}

static bool applies(peal_kind kind, enum defect defect)
{
    return (defect != ROOT || rooted(kind)) && (defect != OP || reduces(kind));
}

static size_t count_of(peal_kind kind, enum size size, int n)
{
    size_t parts = kind == PEAL_ALLGATHER || kind == PEAL_REDUCE_SCATTER ? (size_t)n : 1;
    size_t count = bytes_of[size] / sizeof(float) / parts;
    return count > 0 ? count : 1;
}

static unsigned mix(unsigned x)
{
    x = (x ^ x >> 16) * 0x45d9f3bu;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

struct list {
    struct scene *scenes;
    int n, have, most;
};

static void put(struct list *l, struct scene s)
{
    for (int d = 0; d < DEFECTS && l->have < l->most; d++) {
        if (!applies(s.kind, (enum defect)d))
            continue;
        s.defect = (enum defect)d;
        s.bad = (int)(mix((unsigned)l->have + 1) % (unsigned)l->n);
        l->scenes[l->have++] = s;
    }
}

int scenes_list(int n, int nnodes, struct scene *scenes, int most)
{
    int node[64];
    struct list l = {scenes, n, 0, most};
    for (int r = 0; r < n; r++)
        node[r] = nnodes > 1 && r >= n / 2;
    for (int size = SMALL; size < SIZES; size++)
        for (const peal_algo *const *a = peali_algos; *a && size < LOW_LIMIT; a++) {
            const peal_problem problem = {.kind = (*a)->kind, .nranks = n, .nnodes = nnodes, .node = node};
            if (peali_algo_fits(*a, &problem))
                put(&l, (struct scene){.size = (enum size)size, .kind = (*a)->kind, .algo = *a,
                                       .count = count_of((*a)->kind, (enum size)size, n)});
        }
    for (int size = LOW_LIMIT; size < SIZES; size++)
        for (int kind = 0; kind < PEAL_BARRIER; kind++)
            put(&l, (struct scene){.size = (enum size)size, .kind = (peal_kind)kind});
    return l.have;
}

static const char *choice(const struct scene *s, const peal_comm *comm, size_t count)
{
    return peal_comm_choice(comm, s->kind, count, PEAL_FLOAT, PEAL_SUM);
}

/* A count in [LOW, HIGH) whose choice is not that of the next one; the two ends differ. */
static size_t limit(const struct scene *s, const peal_comm *comm, size_t low, size_t high)
{
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(choice(s, comm, low), choice(s, comm, middle)) == 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void scene_settle(struct scene *s, const peal_comm *comm)
{
    size_t most = count_of(s->kind, LARGE, peal_comm_size(comm));
    bool found = s->count > 0;
    for (size_t c = 1; c < most && !(found && s->size != HIGH_LIMIT); c *= 2) {
        size_t end = 2 * c < most ? 2 * c : most;
        if (strcmp(choice(s, comm, c), choice(s, comm, end)) == 0)
            continue;
        s->count = limit(s, comm, c, end);
        found = true;
    }
    if (!found) /* one algorithm for all counts */
        s->count = s->size == LOW_LIMIT ? 1 : most / 2;
}

/* A barrier runs as an allreduce does. */
static peal_kind other_kind(const struct scene *s)
{
    if (s->kind == PEAL_BROADCAST)
        return PEAL_ALLREDUCE;
    return s->kind == PEAL_ALLREDUCE && s->size % 2 == 0 ? PEAL_BARRIER : PEAL_BROADCAST;
}

bool scene_call(const struct scene *s, bool bad, int index, struct call *call)
{
    const struct call right = {s->kind, s->count, PEAL_FLOAT, PEAL_SUM, 0}, next = {PEAL_ALLREDUCE, 1, PEAL_FLOAT, PEAL_SUM, 0};
    bool extra = bad && s->defect == EXTRA;
    if (extra && index == 0) {
        *call = (struct call){PEAL_ALLREDUCE, s->count, PEAL_FLOAT, PEAL_MIN, 0};
        if (s->size % 2)
            *call = (struct call){PEAL_BROADCAST, s->count, PEAL_FLOAT, PEAL_SUM, s->bad};
        return true;
    }
    *call = index == extra ? right : next;
    if (!bad || index > 0)
        return index <= 1 + extra;
    call->count += s->defect == COUNT;
    call->type = s->defect == TYPE ? PEAL_INT32 : s->defect == REFUSED ? PEAL_TYPE_COUNT : PEAL_FLOAT;
    call->root = s->defect == ROOT;
    if (s->defect == OP)
        call->op = s->size % 2 ? PEAL_MAX : PEAL_AVG; /* sums and averages run alike */
    if (s->defect == KIND)
        call->kind = other_kind(s);
    return true;
}

peal_status scene_begin(const struct call *c, const void *in, void *out, peal_comm *comm, peal_request **request)
{
    switch (c->kind) {
    case PEAL_ALLGATHER: return peal_iallgather(in, out, c->count, c->type, comm, NULL, request);
    case PEAL_REDUCE_SCATTER: return peal_ireduce_scatter(in, out, c->count, c->type, c->op, comm, NULL, request);
    case PEAL_BROADCAST: return peal_ibroadcast(out, c->count, c->type, c->root, comm, NULL, request);
    case PEAL_BARRIER: return peal_ibarrier(comm, NULL, request);
    case PEAL_REDUCE: return peal_ireduce(in, out, c->count, c->type, c->op, c->root, comm, NULL, request);
    default: return peal_iallreduce(in, out, c->count, c->type, c->op, comm, NULL, request);
    }
}

static bool says(const char *line, int rank, const struct call *c, unsigned long long number)
{
    char text[200];
    size_t at = (size_t)snprintf(text, sizeof text, "rank %d called %s number %llu", rank, peal_kind_name(c->kind), number);
    if (c->type == PEAL_TYPE_COUNT)
        snprintf(text, sizeof text, "rank %d called what was refused, number %llu;", rank, number);
    if (c->type == PEAL_TYPE_COUNT)
        return strstr(line, text) != NULL;
    if (c->kind != PEAL_BARRIER)
        at += (size_t)snprintf(text + at, sizeof text - at, ": count %zu, type %s", c->count, peal_type_name(c->type));
    if (reduces(c->kind))
        at += (size_t)snprintf(text + at, sizeof text - at, ", op %s", peal_op_name(c->op));
    if (rooted(c->kind))
        at += (size_t)snprintf(text + at, sizeof text - at, ", root %d", c->root);
    snprintf(text + at, sizeof text - at, ";");
    return strstr(line, text) != NULL;
}

bool scene_named(const struct scene *s, int n, unsigned long long first, const char *line)
{
    bool theirs = false, other = false;
    struct call c;
    for (int r = 0; r < n; r++)
        for (int i = 0; scene_call(s, r == s->bad, i, &c); i++)
            *(r == s->bad ? &theirs : &other) |= says(line, r, &c, first + (unsigned)i);
    return theirs && other;
}

const char *scene_words(const struct scene *s, int n, char *buf, size_t bytes)
{
    snprintf(buf, bytes, "%s %s, %s (count %zu), %s, rank %d of %d differs", peal_kind_name(s->kind),
             s->algo ? s->algo->name : "chosen", size_names[s->size], s->count, defect_names[s->defect], s->bad, n);
    return buf;
}
