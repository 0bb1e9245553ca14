/* Of test_net.c: what its arguments put over a transport. */
/*
 * Loopback, and whatever UCX takes: every machine has two such rails. Hosts of two ranks, some of which are near to one rail; rank
 * 0 has a rail that others lack.
 */
static peali_ucx_rails rails_of(int rank)
{
    const peali_ucx_rails rails = {.n = rank == 0 ? 3 : 2, .device = {"lo", "", ""}, .near = 1u + (uint32_t)rank % 3,
                                   .host = (uint64_t)rank / 2};
    return on_rails ? rails : (peali_ucx_rails){.n = 1};
}

static void meet(peali_net *base, gather *gather_all, void *ctx)
{
    size_t *bytes = room((size_t)base->nranks * sizeof(*bytes)), most = 0;
    gather_all(ctx, &base->card_bytes, bytes, sizeof(*bytes));
    for (int r = 0; r < base->nranks; r++)
        most = bytes[r] > most ? bytes[r] : most;
    char *mine = room(most), *all = room(most * (size_t)base->nranks);
    if (most > 0) {
        memcpy(mine, base->card, base->card_bytes);
        gather_all(ctx, mine, all, most);
        if (base->meet(base, all, most) != PEAL_OK)
            exit(2);
    }
    free(bytes);
    free(mine);
    free(all);
}

/* Nets that others are beside, of this process. */
static peali_net *kept[2];
static int nkept;

/* A net beside FIRST, which two threads share by now: by other workers, as what is behind the heads of their cards differs. */
static peali_net *beside_of(peali_net *first)
{
    peali_net *another, *shared, *again;
    if (nkept == 2 || peali_net_shared_create(first, &shared) != PEAL_OK || peali_net_shared_create(shared, &again) != PEAL_OK)
        exit(2);
    if (again != shared || !shared->beside || shared->beside(shared, 1, &another) != PEAL_OK || another->beside)
        exit(2);
    const size_t half = first->card_bytes / 2;
    const char *its = first->card, *mine = another->card;
    if (first->card_bytes == another->card_bytes && memcmp(its + half, mine + half, half) == 0)
        exit(3);
    kept[nkept++] = shared;
    return another;
}

/* What the arguments ask for, over BASE. */
static peali_net *dressed(peali_net *base, gather *gather_all, void *ctx)
{
    const peali_fault fault = {.seed = 7, .delay = 20};
    const peali_ucx_rails rails = rails_of(base->rank);
    if (over_ucx && peali_net_ucx_create(base, &rails, &base) != PEAL_OK)
        exit(2);
    if (beside) {
        meet(base, gather_all, ctx);
        base = beside_of(base);
    }
    if (faulty && peali_net_fault_create(base, &fault, &base) != PEAL_OK)
        exit(2);
    meet(base, gather_all, ctx);
    return base;
}
