/* Network devices as a made-up /sys has them, which of them are rails, and which rail a message takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/rails.h"
#include "log_lines.h"
#include "net/net.h"
#include "topo/devices.h"

static char sys[64], log_path[64];

/* Writes TEXT to file NAME below sys, and makes its folders. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", sys, name);
    for (char *at = path + strlen(sys); (at = strchr(at + 1, '/'));) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

/* A host of two sockets: four 400G devices and an old one, Ethernet of several kinds. Cores 0-63 and 64-127. */
static int make_sys(void **state)
{
    static const char left[] = "00000000,00000000,ffffffff,ffffffff", right[] = "ffffffff,ffffffff,00000000,00000000";
    static const char *const files[][2] = {
        {"class/net/lo/type", "772"}, {"class/net/docker0/type", "1"}, {"class/net/docker0/speed", "100000"},
        {"class/net/docker0/bridge/x", ""}, {"class/net/eth0/type", "1"}, {"class/net/eth0/speed", "25000"},
        {"class/net/eth0/device/local_cpus", left}, {"class/net/eth1/type", "1"}, {"class/net/eth1/speed", "25000"},
        {"class/net/eth1/device/local_cpus", right}, {"class/net/eth10/type", "1"}, {"class/net/eth10/speed", "1000"},
        {"class/net/ens3/type", "1"}, {"class/net/ens3/speed", "-1"}, {"class/net/ens3/device/x", ""},
        {"class/net/tun0/type", "65534"}, {"class/net/tun0/speed", "10"}, {"class/net/wg0/type", "65534"},
        {"class/infiniband/mlx5_4/ports/1/rate", "2.5 Gb/sec (1X SDR)"}};
    strcpy(sys, "test_rails.XXXXXX");
    assert_non_null(mkdtemp(sys));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        put(files[i][0], files[i][1]);
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "class/infiniband/mlx5_%d/ports/1/rate", i);
        put(name, "400 Gb/sec (4X NDR)");
        snprintf(name, sizeof name, "class/infiniband/mlx5_%d/device/local_cpus", i);
        put(name, i < 2 ? left : right);
    }
    return 0;
}

static int remove_sys(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", sys);
    return system(command);
}

static peali_place at_core(int core)
{
    peali_place place = {.host = {4711}};
    place.cores[core / 64] = (uint64_t)1 << core % 64;
    return place;
}

static void kinds_and_rates(void **state)
{
    static const struct {
        const char *name;
        peali_device is;
    } there[] = {{"lo", {PEALI_DEVICE_LOOPBACK, 0, true}},       {"docker0", {PEALI_DEVICE_BRIDGE, 100000, true}},
                 {"eth0", {PEALI_DEVICE_LINK, 25000, true}},     {"eth1", {PEALI_DEVICE_LINK, 25000, false}},
                 {"ens3", {PEALI_DEVICE_LINK, 10000, true}},     {"tun0", {PEALI_DEVICE_LINK, 10, true}},
                 {"wg0", {PEALI_DEVICE_LINK, 0, true}},          {"mlx5_0:1", {PEALI_DEVICE_RDMA, 400000, true}},
                 {"mlx5_3:1", {PEALI_DEVICE_RDMA, 400000, false}}, {"mlx5_4:1", {PEALI_DEVICE_RDMA, 2500, true}}};
    static const char *const none[] = {"memory", "", "eth", "../net/eth0", "cuda", ":1"};
    const peali_place place = at_core(3);
    peali_device device;
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        assert_true(peali_device_look_up(sys, there[i].name, &place, &device));
        assert_int_equal(device.kind, there[i].is.kind);
        assert_int_equal(device.mbits, there[i].is.mbits);
        assert_int_equal(device.near, there[i].is.near);
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_false(peali_device_look_up(sys, none[i], &place, &device));
}

/* The devices of a core of either socket: of those in LIST, by what WANTED takes, it is CHOSEN, with NEAR. */
static void choose(const char *list, const char *wanted, int core, const char *chosen, uint32_t near)
{
    peali_ucx_list all = {0};
    peali_ucx_rails rails = {0};
    const peali_place place = at_core(core);
    char copy[256], got[512] = "", *rest = NULL;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        snprintf(all.name[all.n++], PEALI_UCX_DEVICE, "%s", word);
    peal_status status = peali_rails_choose(&all, wanted, sys, &place, 0, &rails);
    if (!chosen) {
        assert_int_equal(status, PEAL_ERR_CONFIG);
        return;
    }
    assert_int_equal(status, PEAL_OK);
    for (int i = 0; i < rails.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", rails.device[i]);
    assert_string_equal(got, chosen);
    assert_int_equal(rails.near, near);
    assert_int_equal(rails.host, 4711);
}

static const char everything[] = "docker0 ens3 eth0 eth1 eth10 lo memory mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1 mlx5_4:1 tun0 wg0";

static void by_default(void **state)
{
    choose(everything, NULL, 0, "mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1", 0x3);
    choose(everything, NULL, 127, "mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1", 0xc);
    choose("docker0 ens3 eth0 eth1 eth10 lo memory", NULL, 0, "eth0 eth1", 0x1);
    choose("docker0 ens3 lo memory tun0 wg0", NULL, 0, "ens3", 0x1);
    choose("docker0 lo memory", NULL, 0, "docker0", 0x1);
    choose("lo memory", NULL, 0, "lo", 0x1);
    choose("memory", NULL, 0, "", 0);
    choose("", NULL, 0, "", 0);
}

static void as_asked(void **state)
{
    choose(everything, "eth1,eth0", 0, "eth1 eth0", 0x2);
    choose(everything, "lo", 0, "lo", 0x1);
    choose(everything, "mlx5_4:1,eth10,mlx5_3:1", 0, "mlx5_4:1 eth10 mlx5_3:1", 0x3);
    choose(everything, "^mlx5_2:1,mlx5_3:1", 0, "mlx5_0:1 mlx5_1:1", 0x3);
    choose("eth0 eth1 lo", "^eth0", 0, "eth1", 0);
    choose("eth0 lo memory", "^eth0", 0, "lo", 0x1);
}

static bool logged(const char *text)
{
    return log_lines(log_path, text) > 0;
}

static void as_wrongly_asked(void **state)
{
    choose("eth0 eth1 lo memory", "eth0,eth7", 0, NULL, 0);
    assert_true(logged("PEAL_NET_DEVICES eth0,eth7: eth7 is none; UCX can use eth0,eth1,lo here"));
    choose("eth0 eth1 lo", "^ib0", 0, NULL, 0);
    assert_true(logged("PEAL_NET_DEVICES ^ib0: ib0 is none; UCX can use eth0,eth1,lo here"));
    choose("eth0 eth1 lo", "eth0,eth1,eth0", 0, NULL, 0);
    assert_true(logged("eth0 is named twice"));
    choose("eth0 memory", "^eth0", 0, NULL, 0);
    assert_true(logged("PEAL_NET_DEVICES ^eth0: nothing is left; UCX can use eth0 here"));
    choose("memory", "eth0", 0, NULL, 0);
    assert_true(logged("UCX can use no network device here"));
}

/* Each rank's rails of NRAILS as a text of masks and turns. */
static void berths(const char *hosts, const uint32_t *near, int nrails, const char *expected)
{
    peali_ucx_berth berth[16];
    char got[256] = "";
    int n = (int)strlen(hosts);
    for (int r = 0; r < n; r++)
        berth[r] = (peali_ucx_berth){.host = (uint64_t)hosts[r], .near = near[r]};
    peali_ucx_berths(berth, n, nrails);
    for (int r = 0; r < n; r++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%x:%d", r ? " " : "", (unsigned)berth[r].near, berth[r].turn);
    assert_string_equal(got, expected);
}

static void near_rails(void **state)
{
    static const uint32_t all[] = {3, 3, 3, 3}, sockets[] = {1, 1, 2, 2}, left[] = {1, 1, 1, 1}, far[] = {4, 4, 8, 8}, none[4];
    berths("aabb", all, 2, "3:0 3:1 3:0 3:1");
    berths("aaaa", sockets, 2, "1:0 1:1 2:2 2:3");
    berths("abcd", left, 2, "3:0 3:0 3:0 3:0"); /* a rank alone leaves no rail idle */
    berths("aabb", left, 2, "3:0 3:1 3:0 3:1");
    berths("aabb", sockets, 4, "f:0 f:1 f:0 f:1");
    berths("aaaa", far, 2, "3:0 3:1 3:2 3:3");  /* those near are not on all hosts */
    berths("aabb", none, 2, "3:0 3:1 3:0 3:1");
    berths("a", all, 1, "1:0");
}

static void takes_turns(void **state)
{
    const peali_ucx_berth here = {.host = 1, .near = 0xd}, there = {.host = 2, .near = 0x2};
    const peali_ucx_berth second = {.host = 1, .near = 0xd, .turn = 1};
    static const int order[] = {0, 2, 3};
    for (uint32_t slice = 0; slice < 12; slice++)
        for (uint32_t lane = 0; lane < 4; lane++) {
            uint32_t tag = lane << PEALI_NET_SLICE_BITS | slice;
            assert_int_equal(peali_ucx_rail(&here, &there, tag), order[(slice + lane) % 3]);
            assert_int_equal(peali_ucx_rail(&second, &there, tag), order[(slice + lane + 1) % 3]);
            assert_int_equal(peali_ucx_rail(&there, &here, tag), 1);
            assert_int_equal(peali_ucx_rail(&here, &second, tag), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_rates),
        cmocka_unit_test(by_default),
        cmocka_unit_test(as_asked),
        cmocka_unit_test(as_wrongly_asked),
        cmocka_unit_test(near_rails),
        cmocka_unit_test(takes_turns),
    };
    snprintf(log_path, sizeof log_path, "test_rails.%ld.log", (long)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = cmocka_run_group_tests_name("rails", tests, make_sys, remove_sys);
    unlink(log_path);
    return failed != 0;
}
