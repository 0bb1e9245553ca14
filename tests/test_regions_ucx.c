/*
 * The cache of registered memory over UCX: its keys, out of their envelopes, are keys that UCX takes, and what is put by them
 * lands, in memory that is unmapped and mapped again at one address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <ucp/api/ucp.h>

#include "net/envelope.h"
#include "net/regions.h"

enum { KEY_MOST = 4096, PAGE = 4096, PAGES = 16 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h self;
static int registered;

static peal_status enter(void *ctx, void *at, size_t bytes, bool device, void **handle)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .address = at, .length = bytes, .memory_type = UCS_MEMORY_TYPE_HOST};
    registered++;
    return ucp_mem_map(context, &params, (ucp_mem_h *)handle) == UCS_OK ? PEAL_OK : PEAL_ERR_NET;
}

static size_t key(void *ctx, void *handle, void *to)
{
    void *packed;
    size_t bytes;
    assert_int_equal(ucp_rkey_pack(context, handle, &packed, &bytes), UCS_OK);
    assert_true(bytes <= KEY_MOST);
    memcpy(to, packed, bytes);
    ucp_rkey_buffer_release(packed);
    return bytes;
}

static void leave(void *ctx, void *handle)
{
    registered--;
    assert_int_equal(ucp_mem_unmap(context, handle), UCS_OK);
}

static bool told(void *ctx, const void *at, size_t bytes)
{
    return true;
}

static int open_ucx(void **state)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_address_t *address;
    size_t bytes;
    if (ucp_init(&params, NULL, &context) != UCS_OK || ucp_worker_create(context, &worker_params, &worker) != UCS_OK ||
        ucp_worker_get_address(worker, &address, &bytes) != UCS_OK)
        return 1;
    ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    ucs_status_t status = ucp_ep_create(worker, &ep, &self);
    ucp_worker_release_address(worker, address);
    return status != UCS_OK;
}

static int close_ucx(void **state)
{
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

static void wait_for(ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        assert_int_equal(UCS_PTR_RAW_STATUS(request), UCS_OK);
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    assert_int_equal(ucp_request_check_status(request), UCS_OK);
    ucp_request_free(request);
}

/* As a peer that was sent REGION's key puts TEXT to AT. */
static void put(const peali_region *region, void *at, const char *text)
{
    char why[PEALI_ENVELOPE_WHY];
    size_t bytes;
    ucp_rkey_h rkey;
    ucp_request_param_t param = {.op_attr_mask = 0};
    const void *inside = peali_envelope_open(region->key, region->key_bytes, PEALI_ENVELOPE_KEY, &bytes, why);
    assert_non_null(inside);
    assert_int_equal(ucp_ep_rkey_unpack(self, inside, &rkey), UCS_OK);
    wait_for(ucp_put_nbx(self, text, strlen(text) + 1, (uintptr_t)at, rkey, &param));
    wait_for(ucp_worker_flush_nbx(worker, &param));
    ucp_rkey_destroy(rkey);
}

static void puts_land(void **state)
{
    const peali_provider provider = {.key_most = KEY_MOST, .enter = enter, .key = key, .leave = leave, .told = told};
    peali_regions *c = peali_regions_create(&provider, 8, 64 * PAGE);
    char *at = NULL, text[40];
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    for (int round = 0; round < 1000; round++) {
        char *now = mmap(at, PAGES * PAGE, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
        assert_ptr_not_equal(now, MAP_FAILED);
        at = now;
        for (int page = 0; page < PAGES; page += 5) {
            const peali_region *region;
            assert_int_equal(peali_regions_take(c, 0, at + page * PAGE, 64, NULL, &region), PEAL_OK);
            snprintf(text, sizeof text, "round %d page %d", round, page);
            put(region, at + page * PAGE, text);
            assert_string_equal(at + page * PAGE, text);
            peali_regions_give(c, region);
        }
        peali_regions_forget(at, PAGES * PAGE);
        munmap(at, PAGES * PAGE);
        assert_in_range(registered, 1, 8);
    }
    peali_regions_destroy(&c);
    assert_int_equal(registered, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(puts_land, open_ucx, close_ucx)};
    return cmocka_run_group_tests_name("regions over ucx", tests, NULL, NULL);
}
