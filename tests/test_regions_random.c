/* Registered memory at random: beside a model that is too plain to be wrong, and by several threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "region_truth.h"

/* The cache in the plainest way: a list without order. */
typedef struct model {
    struct kept {
        int first, end;
        uint64_t id, serial; /* serial: which registration it is */
        int users;
        long used;
    } kept[PAGES];
    int n, most, pages_most;
    long clock;
} model;

static bool meets(const struct kept *k, int first, int end)
{
    return k->first < end && first < k->end;
}

static void model_forget(model *m, int first, int end)
{
    for (int i = 0; i < m->n; i++)
        if (meets(&m->kept[i], first, end))
            m->kept[i--] = m->kept[--m->n];
}

static int model_pages(const model *m)
{
    int pages = 0;
    for (int i = 0; i < m->n; i++)
        pages += m->kept[i].end - m->kept[i].first;
    return pages;
}

/* Drops the idle one that was used longest ago; false where there is none. */
static bool model_drop(model *m)
{
    int oldest = -1;
    for (int i = 0; i < m->n; i++)
        if (m->kept[i].users == 0 && (oldest < 0 || m->kept[i].used < m->kept[oldest].used))
            oldest = i;
    if (oldest >= 0)
        m->kept[oldest] = m->kept[--m->n];
    return oldest >= 0;
}

/* Answers whether this registers, as number SERIAL, and then what, in *FIRST and *END. */
static bool model_take(model *m, int *first, int *end, uint64_t id, bool may, uint64_t serial)
{
    int low = *first, high = *end;
    for (int i = 0; i < m->n; i++) {
        struct kept *k = &m->kept[i];
        if (k->first <= *first && *end <= k->end && k->id == id) {
            k->users++;
            return false;
        }
        if (id == 0 && may && k->id == 0 && meets(k, *first, *end)) {
            low = k->first < low ? k->first : low;
            high = k->end > high ? k->end : high;
        }
    }
    if (high - low <= m->pages_most) {
        *first = low;
        *end = high;
    }
    model_forget(m, *first, *end);
    int pages = *end - *first;
    while (may && pages <= m->pages_most && (m->n == m->most || model_pages(m) + pages > m->pages_most) && model_drop(m))
        continue;
    if (may && m->n < m->most && model_pages(m) + pages <= m->pages_most)
        m->kept[m->n++] = (struct kept){.first = *first, .end = *end, .id = id, .serial = serial, .users = 1};
    return true;
}

static void model_give(model *m, uint64_t serial)
{
    for (int i = 0; i < m->n; i++)
        if (m->kept[i].serial == serial && --m->kept[i].users == 0)
            m->kept[i].used = ++m->clock;
}

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (*seed >> 11) % below;
}

/* Blocks of memory side by side, each of 8 pages: told, untold, of a device. */
enum { BLOCK = 8, BLOCKS = PAGES / BLOCK, HELD = 6 };
enum sort { ONLY_PAGES, POOL, DEVICE, SORTS };

typedef struct scene {
    truth t;
    peali_regions *c;
    model m;
    enum sort sort[BLOCKS];
    uint64_t id[BLOCKS];
    int in_use[BLOCKS];
    uint64_t seed;
    struct held {
        const peali_region *region;
        int first, end, block, last; /* the pages that were asked for; in which blocks */
    } held[HELD];
} scene;

static void renew(scene *s, int block)
{
    if (s->in_use[block])
        return;
    if (s->sort[block] == POOL) {
        peali_regions_forget(address(&s->t, block * BLOCK), BLOCK * s->t.page);
        model_forget(&s->m, block * BLOCK, (block + 1) * BLOCK);
    }
    s->sort[block] = (enum sort)draw(&s->seed, SORTS);
    s->id[block] = put(&s->t, block * BLOCK, BLOCK, s->sort[block] == POOL);
}

/* Takes pages of one block, or of two that are both the pool's. */
static void take_some(scene *s, struct held *h)
{
    int block = (int)draw(&s->seed, BLOCKS), last = block;
    if (block + 1 < BLOCKS && s->sort[block] == POOL && s->sort[block + 1] == POOL)
        last += (int)draw(&s->seed, 2);
    int begin = block * BLOCK, most = (last + 1) * BLOCK;
    h->first = begin + (int)draw(&s->seed, BLOCK);
    h->end = h->first + 1 + (int)draw(&s->seed, (uint64_t)(most - h->first));
    bool device = s->sort[block] == DEVICE;
    peali_allocation of = {.at = address(&s->t, begin), .bytes = BLOCK * s->t.page, .id = s->id[block]};
    int first = device ? begin : h->first, end = device ? begin + BLOCK : h->end, before = s->t.entered;
    bool enters = model_take(&s->m, &first, &end, device ? of.id : 0, s->sort[block] != ONLY_PAGES, (uint64_t)before + 1);
    h->region = take(s->c, address(&s->t, h->first), (size_t)(h->end - h->first) * s->t.page, device ? &of : NULL);
    assert_int_equal(s->t.entered - before, enters);
    if (enters) {
        assert_ptr_equal(s->t.first, address(&s->t, first));
        assert_ptr_equal(s->t.end, address(&s->t, end));
    }
    h->block = block;
    h->last = last = (h->end - 1) / BLOCK;
    for (int b = block; b <= last; b++)
        s->in_use[b]++;
}

static void check_held(scene *s, const struct held *h)
{
    assert_true(reaches(&s->t, h->region, address(&s->t, h->first), (size_t)(h->end - h->first) * s->t.page));
}

static void give_one(scene *s, struct held *h)
{
    check_held(s, h);
    for (int b = h->block; b <= h->last; b++)
        s->in_use[b]--;
    model_give(&s->m, ((const pinned *)h->region->handle)->serial);
    peali_regions_give(s->c, h->region);
    h->region = NULL;
}

/* Random uses and frees: what is registered, and when, is as in the model, and no key is stale. */
static void as_the_model(void **state)
{
    (void)state;
    enum { STEPS = 60000 };
    static scene s;
    peali_provider provider;
    open_truth(&s.t, &provider);
    s.m = (model){.most = 12, .pages_most = 24};
    s.seed = 0x9e3779b97f4a7c15u;
    s.c = peali_regions_create(&provider, s.m.most, (size_t)s.m.pages_most * s.t.page);
    for (int b = 0; b < BLOCKS; b++)
        renew(&s, b);
    for (int step = 0; step < STEPS; step++) {
        struct held *h = &s.held[draw(&s.seed, HELD)];
        if (draw(&s.seed, 4) == 0)
            renew(&s, (int)draw(&s.seed, BLOCKS));
        else if (h->region)
            give_one(&s, h);
        else
            take_some(&s, h);
        for (int i = 0; i < HELD; i++)
            if (s.held[i].region)
                check_held(&s, &s.held[i]);
        assert_in_range(s.t.entered - s.t.left, 0, s.m.most + HELD + 1 + BLOCK);
    }
    for (int i = 0; i < HELD; i++)
        if (s.held[i].region)
            give_one(&s, &s.held[i]);
    peali_regions_destroy(&s.c);
    assert_int_equal(s.t.entered, s.t.left);
    assert_in_range(s.t.entered, STEPS / 20, STEPS / 2); /* it both finds and registers */
}

/* Threads with blocks of their own that lie side by side, and one that all of them use. */
enum { THREADS = 4, SHARED = PAGES - BLOCK, ROUNDS = 3000 };

typedef struct worker {
    truth *t;
    peali_regions *c;
    int no;
    bool failed;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    uint64_t seed = 88172645463325252u + (uint64_t)w->no;
    const peali_region *region;
    int first = w->no * 2 * BLOCK;
    for (int round = 0; round < ROUNDS && !w->failed; round++) {
        bool is_told = draw(&seed, 4) > 0, shared = draw(&seed, 4) == 0;
        put(w->t, first, 2 * BLOCK, is_told);
        for (uint64_t uses = draw(&seed, 4); uses > 0; uses--) {
            int page = shared ? SHARED + (int)draw(&seed, BLOCK - 2) : first + (int)draw(&seed, 2 * BLOCK - 2);
            void *at = address(w->t, page);
            if (peali_regions_take(w->c, w->no, at, 2 * w->t->page, NULL, &region) != PEAL_OK) {
                w->failed = true;
                break;
            }
            w->failed |= !reaches(w->t, region, at, 2 * w->t->page);
            peali_regions_give(w->c, region);
        }
        if (is_told)
            peali_regions_forget(address(w->t, first), 2 * BLOCK * w->t->page);
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    static truth t;
    peali_provider provider;
    pthread_t thread[THREADS];
    worker workers[THREADS];
    open_truth(&t, &provider);
    peali_regions *c = peali_regions_create(&provider, 6, PAGES * t.page);
    put(&t, SHARED, BLOCK, true);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.t = &t, .c = c, .no = i};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_false(workers[i].failed);
    }
    peali_regions_destroy(&c);
    assert_int_equal(t.entered, t.left);
    assert_in_range(t.entered, ROUNDS, 4 * THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_model), cmocka_unit_test(threads)};
    return cmocka_run_group_tests_name("regions at random", tests, NULL, NULL);
}
