/*
 * An attribute is the only table of communicators that MPI itself keeps right: it goes with MPI_Comm_free, is not inherited by
 * MPI_Comm_dup, and cannot be mistaken for that of a later communicator with the same handle. Nothing is locked while a
 * communicator is made, as two threads may make two of them in opposite orders on two ranks.
 */
#include "pmpi/attach.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <peal/mpi.h>

#include "base/arena.h"
#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/comm.h"
#include "comm/roll_mpi.h"
#include "pmpi/handles.h"

/*
 * Shadow communicators that this process has at most. MPICH has 2046 communicators for the program and Peal together, Open MPI
 * 65532; there it is memory that counts.
 */
#ifdef OPEN_MPI
enum { SHADOWS = 512 };
static const char for_mpi[] = "Open MPI", other[] = "libpeal_mpich.so";
#else
enum { SHADOWS = 32 };
static const char for_mpi[] = "MPICH", other[] = "libpeal_mpi.so";
#endif

enum { KEEP_BYTES = 1 << 20 }; /* of scratch memory, from one call to the next */

enum phase { UNKNOWN, UNWANTED, WANTED, OPEN, CLOSED };

static enum phase phase;                                 /* release in phase_set, acquire in phase_now: the key, sizes of types */
static bool preloaded;                                   /* written before main */
static int state_key = MPI_KEYVAL_INVALID;               /* a peali_attach on each communicator */
static peali_attach *all;                                /* under lock */
static peali_attach *dead;                               /* under lock: those that the program freed, and Peal has not ended */
static struct first *firsts;                             /* under lock */
static int shadows;                                      /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* never held across an MPI call */
static unsigned long dropped;                            /* relaxed: states that are gone; who reuses a handle knows of its end */

/* What this thread found last, until any state is gone: to ask MPI is a tenth of a call of 8 bytes among 2 ranks. */
static PEALI_THREAD_LOCAL struct {
    MPI_Comm comm;
    peali_attach *attach;
    unsigned long dropped;
} last;

static enum phase phase_now(void)
{
    return peali_load_acquire(&phase);
}

static void phase_set(enum phase to)
{
    peali_store_release(&phase, to);
}

/* Before main, since programs take LD_PRELOAD out of the environment that their children get. */
__attribute__((constructor)) static void see_preload(void)
{
    const char *list = getenv("LD_PRELOAD");
    preloaded = list && strstr(list, "libpeal_mpi");
}

/* MPI's own ABI (MPI 5.0, chapter 20), which MPICH, Intel MPI and Open MPI have in a library beside that of their own. */
static bool standard_abi(void)
{
    int (*ask)(int *, int *), major = -1, minor;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "PMPI_Abi_get_version");
    return ask && ask(&major, &minor) == MPI_SUCCESS && major >= 0;
}

/*
 * The program's MPI comes before the one that this library brings along, and so is the one that answers. Handles of another kind
 * mean nothing to it; Open MPI's, which are longer, do not even pass through MPICH's. MPIs of MPICH's ABI have names of their own.
 */
static bool right_mpi(void)
{
    if (standard_abi()) {
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "the program was built for the standard ABI of MPI (libmpi_abi.so), and this "
                  "interposer for %s's own: build it for that", for_mpi);
        return false;
    }
    static char version[8192]; /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING, which is the longer one */
    int len;
    PMPI_Get_library_version(version, &len);
    bool open_mpi = strstr(version, "Open MPI") || strstr(version, "FUJITSU MPI"); /* its kin; IBM's has the first name, too */
#ifdef OPEN_MPI
    bool right = open_mpi;
#else
    bool right = !open_mpi;
#endif
    if (!right)
        peali_log(PEALI_LOG_WARN, PEALI_SUB_INIT, -1, "this interposer is for %s, and the program's MPI is %.40s...: preload %s "
                  "instead", for_mpi, version, other);
    return right;
}

static void decide_wanted(void)
{
    const int asked = peali_config_get()->interpose;
    phase_set((asked < 0 ? preloaded : asked) && right_mpi() ? WANTED : UNWANTED);
}

bool peali_attach_wanted(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (phase_now() == UNKNOWN)
        pthread_once(&once, decide_wanted);
    return phase_now() != UNWANTED;
}

static void enlist(peali_attach *a)
{
    pthread_mutex_lock(&lock);
    a->next = all;
    if (all)
        all->prev = a;
    all = a;
    pthread_mutex_unlock(&lock);
}

static void delist(peali_attach *a)
{
    pthread_mutex_lock(&lock);
    if (a->prev)
        a->prev->next = a->next;
    else
        all = a->next;
    if (a->next)
        a->next->prev = a->prev;
    pthread_mutex_unlock(&lock);
}

/* True, and one shadow fewer for the rest, where any is left. */
static bool reserve(void)
{
    pthread_mutex_lock(&lock);
    bool left = shadows < SHADOWS;
    shadows += left;
    pthread_mutex_unlock(&lock);
    return left;
}

static void give_back(void)
{
    pthread_mutex_lock(&lock);
    shadows--;
    pthread_mutex_unlock(&lock);
}

static void drop(peali_attach *a)
{
    peali_add_relaxed(&dropped, 1);
    delist(a);
    if (a->comm) {
        peali_tally_taken(a->comm);
        give_back();
    }
    peali_store_release(&a->gone, true);
    pthread_mutex_lock(&lock);
    a->next = dead;
    peali_store_relaxed(&dead, a);
    pthread_mutex_unlock(&lock);
}

static void end(peali_attach *a)
{
    peal_comm *comm = a->comm;
    if (!peali_comm_end(&comm))
        return; /* another thread is in a call on it */
    peali_free(a->room);
    peali_free(a);
}

void peali_attach_end_dead(void)
{
    static _Thread_local bool ends; /* which frees communicators, perhaps by the names of this library */
    if (ends || !peali_load_relaxed(&dead))
        return;
    ends = true;
    pthread_mutex_lock(&lock);
    peali_attach *a = dead;
    peali_store_relaxed(&dead, (peali_attach *)NULL);
    pthread_mutex_unlock(&lock);
    for (peali_attach *next; a; a = next) {
        next = a->next;
        end(a);
    }
    ends = false;
}

/*
 * MPICH deletes attributes when the last operation on a communicator has ended, inside whatever thread finds that, and with locks
 * of its own held: no call of MPI may come from here. Once MPI_Finalize has begun, those that are left are gone.
 */
static int state_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    if (phase_now() != CLOSED)
        drop(value);
    return MPI_SUCCESS;
}

/*
 * MPI deletes the attributes of MPI_COMM_SELF first of all in MPI_Finalize, last set first, and still works. So those of other
 * communicators are all in the list, latest made first, and one that MPI_COMM_SELF itself had is gone: it was set later. They are
 * not asked of MPI, which may have freed a communicator of theirs: one that was called on while its attributes were deleted. Other
 * threads have left MPI, so the list is read without its lock.
 */
static int final_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    int rank;
    phase_set(CLOSED);
    while (all)
        drop(all);
    peali_attach_end_dead();
    peali_roll_mpi_leave();
    PMPI_Comm_free_keyval(&state_key);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        peali_tally_report(rank);
    return MPI_SUCCESS;
}

/* Where MPI has no memory for a key, it refuses the first call that uses it: one rank alone must not pass calls on. */
static void open_once(void)
{
    int final_key = MPI_KEYVAL_INVALID; /* its attribute on MPI_COMM_SELF keeps it until MPI_Finalize */
    peali_handles_init();
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, state_delete, &state_key, NULL);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, final_delete, &final_key, NULL);
    PMPI_Comm_set_attr(MPI_COMM_SELF, final_key, NULL);
    PMPI_Comm_free_keyval(&final_key);
    phase_set(OPEN);
}

bool peali_attach_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int started = 0, ended = 0;
    if (phase_now() == OPEN)
        return true;
    if (phase_now() == CLOSED)
        return false;
    PMPI_Initialized(&started);
    PMPI_Finalized(&ended);
    if (started && !ended)
        pthread_once(&once, open_once);
    return phase_now() == OPEN;
}

void peali_attach_meet(void)
{
    static bool met; /* a tool between this library and MPI may call MPI_Init of both names */
    if (met || !peali_attach_wanted() || !peali_attach_open())
        return;
    met = true;
    peali_comm_meet();
}

/* Like an error of MPI's own. */
static int raise_error(MPI_Comm comm, int error)
{
    PMPI_Comm_call_errhandler(comm, error);
    return error;
}

/* MPI writes to it when the last rank has come, whoever waits for that by then. */
struct quorum {
    int mine, left;
};

/*
 * True in *LEFT where every rank has a shadow left, which is then this one's. Two threads may race for the last one, with another
 * winner on another rank: then both communicators go without.
 */
static int reserve_all(MPI_Comm comm, int *left)
{
    const peali_occasion first = {"the first collective", true, false};
    MPI_Request request;
    struct quorum *q = peali_alloc(1, sizeof *q);
    *left = 0;
    if (!q)
        return raise_error(comm, MPI_ERR_NO_MEM);
    q->mine = reserve();
    int error = PMPI_Iallreduce(&q->mine, &q->left, 1, MPI_INT, MPI_MIN, comm, &request);
    peal_status status = error != MPI_SUCCESS ? PEAL_OK : peali_roll_mpi(comm, &first, &request, &error);
    if (q->mine && (status != PEAL_OK || error != MPI_SUCCESS || !q->left))
        give_back();
    if (status != PEAL_OK)
        return raise_error(comm, MPI_ERR_OTHER); /* Q stays */
    *left = q->left;
    peali_free(q);
    return error;
}

static int shadow(MPI_Comm comm, peali_attach *a)
{
    int left;
    int error = reserve_all(comm, &left);
    a->lost = error != MPI_SUCCESS;
    if (a->lost)
        return error;
    peal_status status = left ? peali_comm_create_counted(&comm, &a->comm) : PEAL_ERR_UNSUPPORTED;
    a->lost = status == PEAL_ERR_TIMEOUT || status == PEAL_ERR_NET;
    if (status == PEAL_OK)
        peali_comm_be_patient(a->comm);
    else if (left)
        give_back();
    if (status == PEAL_ERR_UNSUPPORTED)
        a->pass = PEALI_PASS_SHADOW;
    return status == PEAL_OK || status == PEAL_ERR_UNSUPPORTED ? MPI_SUCCESS : raise_error(comm, MPI_ERR_OTHER);
}

/*
 * Ranks that MPI_Comm_spawn started, or MPI_Comm_connect found, may be without Peal: then what is said here before the program's
 * call would meet theirs. Each rank sees some from elsewhere, or none does.
 *
 * What is equal on all ranks: who they are, (by peal_comm_create_mpi's promise) the status, and whether MPI_Finalize lies behind
 * them, which a session outlives, and in MPICH all that MPI_COMM_SELF has with it.
 */
static int fill(MPI_Comm comm, peali_attach *a)
{
    int inter, nranks, ended;
    PMPI_Finalized(&ended);
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &nranks);
    a->pass = ended ? PEALI_PASS_MPI : inter ? PEALI_PASS_INTER : nranks == 1 ? PEALI_PASS_ALONE :
              peali_roll_mpi_world(comm, nranks, NULL) ? PEALI_TAKE : PEALI_PASS_WORLDS;
    return a->pass == PEALI_TAKE ? shadow(comm, a) : MPI_SUCCESS;
}

/* A communicator that a thread of this process is in the first call on. */
struct first {
    MPI_Comm comm;
    pthread_t thread;
    struct first *next;
};

/* False where another thread is in the first call on F's, which MPI does not allow. F is linked, until leave or its next call. */
static bool enter(struct first *f)
{
    pthread_mutex_lock(&lock);
    struct first **at = &firsts;
    while (*at && (*at)->comm != f->comm)
        at = &(*at)->next;
    const bool mine = !*at || pthread_equal((*at)->thread, f->thread); /* again: an error handler of the program's jumped away */
    if (mine && !*at)
        *at = f;
    else
        peali_free(f);
    pthread_mutex_unlock(&lock);
    return mine;
}

static void leave(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    struct first **at = &firsts, *f;
    while (*at && (*at)->comm != comm)
        at = &(*at)->next;
    f = *at;
    *at = f ? f->next : NULL;
    pthread_mutex_unlock(&lock);
    peali_free(f);
}

static int refuse_second(MPI_Comm comm)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int len, rank;
    PMPI_Comm_get_name(comm, name, &len);
    PMPI_Comm_rank(comm, &rank);
    peali_log(PEALI_LOG_WARN, PEALI_SUB_COLL, rank, "the first collective on %s: another thread of this process is in it; MPI "
              "allows one at a time on a communicator; nothing was started", peali_roll_mpi_name(name));
    return raise_error(comm, MPI_ERR_OTHER);
}

/* WHY is why COMM is left to MPI, or PEALI_TAKE. */
static int make(MPI_Comm comm, enum peali_pass why, peali_attach **attach)
{
    peali_attach_end_dead();
    peali_attach *a = peali_alloc(1, sizeof(*a));
    if (!a)
        return raise_error(comm, MPI_ERR_NO_MEM);
    a->pass = why;
    int error = why == PEALI_TAKE ? fill(comm, a) : MPI_SUCCESS;
    int kept = error == MPI_SUCCESS || a->lost ? PMPI_Comm_set_attr(comm, state_key, a) : error;
    if (kept != MPI_SUCCESS) {
        if (a->comm)
            give_back();
        peal_comm_destroy(&a->comm);
        peali_free(a);
        return kept;
    }
    enlist(a);
    *attach = a;
    return error;
}

/* As PMPI_Comm_get_attr. */
static int find(MPI_Comm comm, peali_attach **attach, int *found)
{
    unsigned long now = peali_load_relaxed(&dropped);
    *found = last.attach && last.comm == comm && last.dropped == now;
    if (*found) {
        *attach = last.attach;
        return MPI_SUCCESS;
    }
    int error = PMPI_Comm_get_attr(comm, state_key, attach, found);
    if (error == MPI_SUCCESS && *found) {
        last.comm = comm;
        last.attach = *attach;
        last.dropped = now;
    }
    return error;
}

/* Not by two threads at a time. One of them may have done so since this one looked. */
static int make_alone(MPI_Comm comm, enum peali_pass why, peali_attach **attach)
{
    struct first *f = peali_alloc(1, sizeof *f);
    int found = 0;
    if (!f)
        return raise_error(comm, MPI_ERR_NO_MEM);
    *f = (struct first){.comm = comm, .thread = pthread_self()};
    if (!enter(f))
        return refuse_second(comm);
    int error = find(comm, attach, &found);
    if (error == MPI_SUCCESS && !found)
        error = make(comm, why, attach);
    leave(comm);
    return error;
}

int peali_attach_get(MPI_Comm comm, peali_attach **attach)
{
    int found = 0;
    int error = find(comm, attach, &found);
    if (error != MPI_SUCCESS || !found)
        return error != MPI_SUCCESS ? error : make_alone(comm, PEALI_TAKE, attach);
    return (*attach)->lost ? raise_error(comm, MPI_ERR_OTHER) : MPI_SUCCESS;
}

int peali_attach_leave(MPI_Comm comm, enum peali_pass why)
{
    peali_attach *attach;
    int found = 0;
    if (comm == MPI_COMM_NULL || !comm || !peali_attach_wanted() || !peali_attach_open())
        return MPI_SUCCESS;
    int error = find(comm, &attach, &found);
    return error != MPI_SUCCESS || found ? error : make_alone(comm, why, &attach);
}

void *peali_attach_room(peali_attach *a, size_t bytes)
{
    if (bytes <= a->room_bytes)
        return a->room;
    peali_free(a->room);
    a->room = peali_alloc(bytes, 1);
    a->room_bytes = a->room ? bytes : 0;
    return a->room;
}

/* What is large is not kept: a program that broadcasts gigabytes once needs them itself. */
void peali_attach_room_end(peali_attach *a)
{
    if (a->room_bytes <= KEEP_BYTES)
        return;
    peali_free(a->room);
    a->room = NULL;
    a->room_bytes = 0;
}
