/*
 * Device memory that messages over UCX lie in: registered once, for as long as it is mapped, and never taken for what lay at its
 * address before. Stand-ins for UCX's own calls count what is registered, see what each message names, and see that UCX is called
 * through the door of what is mapped. They are as strict as newer versions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "net/net_ucx.h"
#include "net/ucx_library.h"

enum { ROUNDS = 1000, HALF = 1 << 17 };

static void destroy(peali_net *net)
{
}

static peali_net hosts[2] = {{.name = "none", .rank = 0, .nranks = 2, .destroy = destroy},
                             {.name = "none", .rank = 1, .nranks = 2, .destroy = destroy}};
static peali_net *nets[2];
static peali_ucx_library real;

static struct {
    ucp_mem_h handle; /* the last one */
    char *first, *end;
    int now, ever;
} registered;
static int named; /* messages with a handle */
static int doors, within, outside, through; /* mapped; now in one; calls of UCX that should have been in one, and were */

static peal_status go_in(void *ctx, uint32_t *visit)
{
    *visit = 77;
    within++;
    return ctx == &doors ? PEAL_OK : PEAL_ERR_INVALID;
}

static void go_out(void *ctx, const uint32_t *visit)
{
    within--;
    outside += ctx != &doors || *visit != 77;
}

static void pass(void)
{
    outside += within != (doors > 0);
    through += within;
}

static unsigned progress_seen(ucp_worker_h worker)
{
    pass();
    return real.ucp_worker_progress(worker);
}

static ucs_status_t map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *handle)
{
    pass();
    ucs_status_t status = real.ucp_mem_map(context, params, handle);
    registered.handle = *handle;
    registered.first = params->address;
    registered.end = (char *)params->address + params->length;
    registered.now++;
    registered.ever++;
    return status;
}

static ucs_status_t unmap(ucp_context_h context, ucp_mem_h handle)
{
    pass();
    registered.now--;
    return real.ucp_mem_unmap(context, handle);
}

/* A message in mapped memory has the handle of what is there now. */
static void look(const void *data, size_t bytes, const ucp_request_param_t *param)
{
    const char *at = data;
    pass();
    bool inside = registered.now > 0 && at >= registered.first && at < registered.end;
    assert_int_equal(inside, (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) != 0);
    if (inside) {
        assert_true(at + bytes <= registered.end);
        assert_ptr_equal(param->memh, registered.handle);
        named++;
    }
}

static ucs_status_ptr_t send_seen(ucp_ep_h ep, const void *data, size_t bytes, ucp_tag_t tag, const ucp_request_param_t *param)
{
    look(data, bytes, param);
    return real.ucp_tag_send_nbx(ep, data, bytes, tag, param);
}

static ucs_status_ptr_t receive_seen(ucp_worker_h worker, void *data, size_t bytes, ucp_tag_t tag, ucp_tag_t mask,
                                     const ucp_request_param_t *param)
{
    look(data, bytes, param);
    return real.ucp_tag_recv_nbx(worker, data, bytes, tag, mask, param);
}

/* As UCX 1.22, which knows what is tcp's by that prefix alone. */
static ucs_status_t modify_strictly(ucp_config_t *config, const char *name, const char *value)
{
    if (strcmp(name, "PUT_ENABLE") == 0 || strcmp(name, "TX_SEG_SIZE") == 0 || strcmp(name, "RX_SEG_SIZE") == 0)
        return UCS_ERR_INVALID_PARAM;
    return real.ucp_config_modify(config, name, value);
}

static void newer(unsigned *major, unsigned *minor, unsigned *release)
{
    *major = 1;
    *minor = 22;
    *release = 0;
}

static int open_nets(void **state)
{
    const peali_ucx_rails rails = {.n = 1, .near = 1, .host = 1};
    const char *why;
    peali_ucx_library *library = (peali_ucx_library *)peali_ucx_library_get(&why); /* which is not constant where it lies */
    if (!library)
        return 1;
    real = *library;
    library->ucp_get_version = newer;
    library->ucp_config_modify = modify_strictly;
    library->ucp_worker_progress = progress_seen;
    library->ucp_mem_map = map;
    library->ucp_mem_unmap = unmap;
    library->ucp_tag_send_nbx = send_seen;
    library->ucp_tag_recv_nbx = receive_seen;
    for (int r = 0; r < 2; r++)
        if (peali_net_ucx_create(&hosts[r], &rails, &nets[r]) != PEAL_OK)
            return 1;
    size_t stride = nets[nets[0]->card_bytes < nets[1]->card_bytes]->card_bytes;
    char *cards = calloc(2, stride);
    for (int r = 0; r < 2; r++)
        memcpy(cards + (size_t)r * stride, nets[r]->card, nets[r]->card_bytes);
    int failed = nets[0]->meet(nets[0], cards, stride) != PEAL_OK || nets[1]->meet(nets[1], cards, stride) != PEAL_OK;
    free(cards);
    return failed;
}

static int close_nets(void **state)
{
    for (int r = 0; r < 2; r++)
        nets[r]->destroy(nets[r]);
    return registered.now != 0;
}

static void exchange(char *from, char *to, size_t bytes)
{
    peali_net_req send_req, recv_req;
    peal_status sent = PEAL_IN_PROGRESS, came = PEAL_IN_PROGRESS;
    assert_int_equal(nets[1]->recv(nets[1], 0, 5, to, bytes, &recv_req), PEAL_OK);
    assert_int_equal(nets[0]->send(nets[0], 1, 5, from, bytes, &send_req), PEAL_OK);
    while (sent == PEAL_IN_PROGRESS || came == PEAL_IN_PROGRESS) {
        sent = sent == PEAL_IN_PROGRESS ? nets[0]->test(nets[0], &send_req) : sent;
        came = came == PEAL_IN_PROGRESS ? nets[1]->test(nets[1], &recv_req) : came;
    }
    assert_int_equal(sent, PEAL_OK);
    assert_int_equal(came, PEAL_OK);
    assert_memory_equal(from, to, bytes);
}

static char *take(char *at)
{
    char *now = mmap(at, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    assert_ptr_not_equal(now, MAP_FAILED);
    return now;
}

static long peak_kib(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

static void addresses_again(void **state)
{
    char *at = NULL, *plain = malloc(HALF);
    long early = 0;
    for (int round = 0; round < ROUNDS; round++) {
        at = take(at);
        const peali_net_memory memory = {at, 2 * HALF, (uint64_t)round + 1, true, {&doors, go_in, go_out}};
        peali_net_why why;
        doors = 1;
        assert_int_equal(nets[0]->map(nets[0], &memory, &why), PEAL_OK);
        memset(at, round, HALF);
        exchange(at, plain, 64);
        exchange(at, plain, HALF);
        nets[0]->unmap(nets[0]);
        doors = 0;
        assert_int_equal(registered.now, 0);
        exchange(plain, plain + HALF / 2, HALF / 2);
        doors = 1;
        assert_int_equal(nets[1]->map(nets[1], &memory, &why), PEAL_OK);
        exchange(plain, at + HALF, HALF);
        nets[1]->unmap(nets[1]);
        doors = 0;
        munmap(at, 2 * HALF);
        early = round == ROUNDS / 10 ? peak_kib() : early;
    }
    assert_int_equal(registered.now, 0);
    assert_int_equal(registered.ever, 2 * ROUNDS);
    assert_int_equal(outside, 0);
    assert_true(through > 10 * ROUNDS);
    assert_int_equal(named, 3 * ROUNDS);
    assert_true(peak_kib() - early < 1024);
    free(plain);
}

/* Without CUDA in UCX, what the host cannot touch is refused, and nothing stays registered. */
static void refuses(void **state)
{
    const peali_net_memory memory = {take(NULL), 2 * HALF, 1, false, {NULL}};
    peali_net_why why = {""};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_context_h context;
    assert_int_equal(real.ucp_init_version(PEALI_UCX_MAJOR, PEALI_UCX_MINOR, &params, NULL, &context), UCS_OK);
    assert_int_equal(real.ucp_context_query(context, &attr), UCS_OK);
    real.ucp_cleanup(context);
    if (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA))
        skip();
    assert_int_equal(nets[0]->map(nets[0], &memory, &why), PEAL_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "UCX knows nothing of CUDA here"));
    assert_int_equal(registered.now, 0);
    munmap(memory.at, 2 * HALF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_again), cmocka_unit_test(refuses)};
    return cmocka_run_group_tests_name("ucx memory", tests, open_nets, close_nets);
}
