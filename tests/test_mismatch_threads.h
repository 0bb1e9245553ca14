/* test_mismatch.c with threads as ranks: by messages, within reach, and both at once, and with short waits. */
#include <pthread.h>

#if defined(__SANITIZE_THREAD__)
enum { MOST_SECONDS = 60, SAMPLE = 92 }; /* which moves 16 MiB as slowly */
#else
enum { MOST_SECONDS = 5, SAMPLE = 23 };
#endif
enum { PARLEY_MS = 150 };

static peali_layout layout;

static int at_once(void)
{
    return MOST_AT_ONCE;
}

struct member {
    struct player player;
    peal_threads *threads;
    pthread_barrier_t *barrier;
    pthread_t id;
};

static void play(struct player *p);
static int play_all(int n, const char *name);

static void begin(int *argc, char ***argv, char *path, size_t bytes)
{
    snprintf(path, bytes, "mismatch.%d.log", (int)getpid());
}

static void end(const char *path)
{
    unlink(path);
}

static bool judges(void)
{
    return true;
}

static int nodes(void)
{
    return layout.nodes ? 2 : 1;
}

static peal_comm *comm_new(struct player *p)
{
    peal_comm *comm = NULL;
    peali_layout mine = layout;
    mine.parley_ms = PARLEY_MS;
    if (peali_comm_create_threads(((struct member *)p)->threads, p->rank, &mine, &comm) != PEAL_OK)
        exit(2);
    return comm;
}

static void meet(struct player *p)
{
    pthread_barrier_wait(((struct member *)p)->barrier);
}

/* The round is shared by all. */
static bool owns_round(const struct player *p)
{
    return p->rank == 0;
}

/* A late rank calls when others have said that it did not. */
static bool may_come(const struct round *r, int k)
{
    for (int rank = 0; rank < r->n; rank++)
        if (peali_load_relaxed(&r->said_ns[k][rank]) != NEVER)
            return true;
    return false;
}

static void *member_main(void *member)
{
    play(member);
    return NULL;
}

static void run_ranks(struct round *r)
{
    static struct member members[MOST_RANKS];
    peal_threads *threads;
    pthread_barrier_t barrier;
    if (peal_threads_create(r->n, &threads) != PEAL_OK || pthread_barrier_init(&barrier, NULL, (unsigned)r->n) != 0)
        exit(2);
    for (int k = 0; k < r->n; k++) {
        members[k] = (struct member){.player = {.rank = k, .round = r}, .threads = threads, .barrier = &barrier};
        if (pthread_create(&members[k].id, NULL, member_main, &members[k]) != 0)
            exit(2);
    }
    for (int k = 0; k < r->n; k++)
        pthread_join(members[k].id, NULL);
    pthread_barrier_destroy(&barrier);
    peal_threads_destroy(&threads);
}

static void sizes(peali_layout laid_out, const char *name)
{
    int wrong = 0;
    layout = laid_out;
    for (int n = 2; n <= MOST_RANKS; n *= 2)
        wrong += play_all(n, name);
    assert_int_equal(wrong, 0);
}

static void test_messages(void **state)
{
    sizes((peali_layout){.apart = true}, "by messages");
}

static void test_within_reach(void **state)
{
    sizes((peali_layout){0}, "within reach");
}

static void test_pull(void **state)
{
    layout = (peali_layout){.pull = true};
    assert_int_equal(play_all(4, "by pull"), 0);
}

static void test_nodes(void **state)
{
    layout = (peali_layout){.nodes = "2+2"};
    assert_int_equal(play_all(4, "on nodes 2+2"), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_messages),
    cmocka_unit_test(test_within_reach),
    cmocka_unit_test(test_pull),
    cmocka_unit_test(test_nodes),
};
