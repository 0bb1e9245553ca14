/*
 * What is read from /sys of a host, in the words that people see: a node of 8 GPUs and 8 cards, a node of RoCE cards, and hosts
 * that lack one thing each. The argument is the folder of recorded machines, each a text that is unpacked into a folder of its own.
 */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "topo/fabric.h"

static const char *folder;
static char root[64], log_path[64];

/* Makes the folders that lead to PATH. */
static void lead_to(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

/* "  NAME = LINE" or "  NAME -> TARGET" in DIR. */
static void make_entry(const char *dir, char *text)
{
    char path[PATH_MAX];
    char *file = strstr(text, " ="), *link = strstr(text, " -> "), *end = file ? file : link;
    assert_non_null(end);
    snprintf(path, sizeof path, "%s/%s/%.*s", root, dir, (int)(end - text), text);
    lead_to(path);
    if (!file) {
        assert_int_equal(symlink(link + 4, path), 0);
        return;
    }
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fprintf(to, "%s\n", file[2] ? file + 3 : "");
    fclose(to);
}

/* Unpacks what FROM holds to a new folder, ROOT. */
static void unpack(FILE *from)
{
    char line[1024], dir[512] = "";
    assert_non_null(from);
    strcpy(root, "test_fabric.XXXXXX");
    assert_non_null(mkdtemp(root));
    while (fgets(line, sizeof line, from)) {
        line[strcspn(line, "\n")] = '\0';
        size_t length = strlen(line);
        if (line[0] == ' ')
            make_entry(dir, line + 2);
        else if (line[0] != '#' && length > 0)
            snprintf(dir, sizeof dir, "%.*s", (int)length - 1, line);
    }
    fclose(from);
}

static int remove_one(const char *path, const struct stat *is, int kind, struct FTW *walk)
{
    return remove(path);
}

static void remove_all(void)
{
    assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static peali_fabric *read_and_remove(FILE *from)
{
    unpack(from);
    peali_fabric *f = peali_fabric_read(root);
    assert_non_null(f);
    remove_all();
    return f;
}

static peali_fabric *read_text(const char *text)
{
    return read_and_remove(fmemopen((char *)text, strlen(text), "r"));
}

static FILE *open_node(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/node-8x8.sys", folder);
    return fopen(path, "r");
}

static peali_fabric *read_node(void)
{
    return read_and_remove(open_node());
}

static const peali_fabric_here whole = {.ucx = {1, 17, 0}, .ucx_ib = true, .ucx_cuda = true, .locked_bytes = SIZE_MAX};

static char *printed(const peali_fabric *f, const peali_fabric_here *here)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    peali_fabric_print(f, here, to);
    fclose(to);
    return text;
}

static void prints(const peali_fabric *f, const peali_fabric_here *here, const char *expected)
{
    char *text = printed(f, here);
    assert_string_equal(text, expected);
    free(text);
}

static void says(const peali_fabric *f, const peali_fabric_here *here, const char *part)
{
    char *text = printed(f, here);
    if (!strstr(text, part))
        fail_msg("'%s' is not in\n%s", part, text);
    free(text);
}

static void eight_by_eight(void **state)
{
    (void)state;
    peali_fabric *f = read_node();
    prints(f, &whole,
           "host node07, linux 5.15.0-91-generic, nvidia driver 550.54.15 (open kernel module), ucx 1.17.0\n"
           "\n"
           "the network and GPU memory\n"
           "  dma-buf      may work\n"
           "  peer memory  may work\n"
           "  ucx          has the modules ib and cuda\n"
           "  so GPU memory may go directly (PEAL_GDR=auto: where PIX or PXB)\n"
           "\n"
           "network ports\n"
           "  port           kind  rate             pcie                      numa  gid  usable\n"
           "  mlx5_0:1       ib    400 Gb/s 4X NDR  32.0 GT/s x16                0    -  yes\n"
           "  mlx5_1:1       ib    400 Gb/s 4X NDR  32.0 GT/s x16                0    -  yes\n"
           "  mlx5_2:1       ib    400 Gb/s 4X NDR  32.0 GT/s x16                0    -  yes\n"
           "  mlx5_3:1       ib    200 Gb/s 2X NDR  32.0 GT/s x16                0    -  slow\n"
           "  mlx5_4:1       ib    400 Gb/s 4X NDR  32.0 GT/s x16                1    -  yes\n"
           "  mlx5_5:1       ib    400 Gb/s 4X NDR  32.0 GT/s x8 of 32.0 x16     1    -  slow\n"
           "  mlx5_6:1       ib    400 Gb/s 4X NDR  32.0 GT/s x16                1    -  yes\n"
           "  mlx5_7:1       ib    10 Gb/s 4X SDR   32.0 GT/s x16                1    -  no: its state is DOWN\n"
           "  mlx5_3:1 runs at 200 Gb/s (2X NDR), mlx5_0:1 at 400 (4X NDR): check its cable and switch\n"
           "  mlx5_5:1 has a pcie link of 32.0 GT/s x8 (252 Gb/s), its card can 32.0 x16: check its slot\n"
           "\n"
           "GPUs\n"
           "     address      numa  nearest  mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7\n"
           "  0  0000:1b:00.0    0  mlx5_0      PIX    PXB   NODE   NODE    SYS    SYS    SYS    SYS\n"
           "  1  0000:1f:00.0    0  mlx5_1      PXB    PIX   NODE   NODE    SYS    SYS    SYS    SYS\n"
           "  2  0000:45:00.0    0  mlx5_2     NODE   NODE    PIX    PXB    SYS    SYS    SYS    SYS\n"
           "  3  0000:49:00.0    0  mlx5_3     NODE   NODE    PXB    PIX    SYS    SYS    SYS    SYS\n"
           "  4  0000:6f:00.0    1  mlx5_4      SYS    SYS    SYS    SYS    PIX    PXB   NODE   NODE\n"
           "  5  0000:73:00.0    1  mlx5_5      SYS    SYS    SYS    SYS    PXB    PIX   NODE   NODE\n"
           "  6  0000:99:00.0    1  mlx5_6      SYS    SYS    SYS    SYS   NODE   NODE    PIX    PXB\n"
           "  7  0000:9d:00.0    1  mlx5_6      SYS    SYS    SYS    SYS   NODE   NODE    PXB    PIX\n"
           "  PIX: behind one PCIe switch, PXB: several, PHB: one host bridge, NODE: one NUMA node, SYS: across them\n");
    peali_free(f);
}

/* Each link is compared with its siblings; the worst is named. */
static void slow_links(void **state)
{
    (void)state;
    peali_fabric *f = read_node();
    char why[256] = "";
    for (int p = 0; p < 8; p++)
        assert_int_equal(peali_fabric_slow(f, p, why, sizeof why), p == 3 || p == 5);
    assert_true(peali_fabric_slow(f, 3, why, sizeof why));
    assert_string_equal(why, "runs at 200 Gb/s (2X NDR), mlx5_0:1 at 400 (4X NDR): check its cable and switch");
    assert_true(peali_fabric_slow(f, 5, why, sizeof why));
    assert_string_equal(why, "has a pcie link of 32.0 GT/s x8 (252 Gb/s), its card can 32.0 x16: check its slot");

    f->port[3].pci.device++; /* another model is no sibling */
    assert_false(peali_fabric_slow(f, 3, why, sizeof why));
    for (int p = 0; p < 8; p++)
        f->port[p].pci.speed = 160; /* all slots alike, and too slow for their ports */
    assert_true(peali_fabric_slow(f, 0, why, sizeof why));
    for (int p = 0; p < 8; p++)
        f->port[p].rate_mbit = 200000; /* and fast enough */
    assert_false(peali_fabric_slow(f, 0, why, sizeof why));
    assert_true(peali_fabric_slow(f, 5, why, sizeof why));
    f->port[5].active = false;
    assert_false(peali_fabric_slow(f, 5, why, sizeof why));
    peali_free(f);
}

/* Host and port are named, in one line each. */
static void warnings(void **state)
{
    (void)state;
    char said[4096];
    unpack(open_node());
    peali_fabric_warn(root, 6);
    remove_all();
    FILE *log = fopen(log_path, "r");
    assert_non_null(log);
    said[fread(said, 1, sizeof said - 1, log)] = '\0';
    fclose(log);
    assert_string_equal(said,
        "[peal] warn rank 6: slow link: host node07 port mlx5_3:1 runs at 200 Gb/s (2X NDR), mlx5_0:1 at 400 (4X NDR): check its "
        "cable and switch\n"
        "[peal] warn rank 6: slow link: host node07 port mlx5_5:1 has a pcie link of 32.0 GT/s x8 (252 Gb/s), its card can 32.0 "
        "x16: check its slot\n");
}

/* Up to the same switches, on ports that are there, where everything is. */
static void directs(void **state)
{
    (void)state;
    static const struct {
        const char *gpu, *rail, *why;
    } cases[] = {
        {"0000:1b:00.0", "mlx5_0:1", ""},
        {"0000:1B:00.0", "mlx5_1:1", ""},
        {"0000:1b:00.0", "mlx5_2:1", "GPU 0000:1b:00.0 and mlx5_2:1 are not behind the same switches (NODE); PEAL_NET_DEVICES can "
         "name a nearer device"},
        {"0000:1b:00.0", "mlx5_0:2", "mlx5_0:2 is no rdma device"},
        {"0000:1b:00.0", "eth0", "eth0 is no rdma device"},
        {"0000:1b:00.0", "", "what UCX takes by itself is no rdma device"},
        {"0000:ff:00.0", "mlx5_0:1", "/sys does not show GPU 0000:ff:00.0"},
    };
    char why[256];
    peali_fabric *f = read_node();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(peali_fabric_direct(f, &whole, cases[i].gpu, cases[i].rail, why, sizeof why), !cases[i].why[0]);
        assert_string_equal(why, cases[i].why);
    }
    peali_fabric_here none = whole;
    none.ucx_cuda = false;
    assert_false(peali_fabric_direct(f, &none, "0000:1b:00.0", "mlx5_0:1", why, sizeof why));
    assert_string_equal(why, "ucx has no module cuda");
    peali_free(f);
}

static void distances(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int numa_b;
        peali_distance far;
    } cases[] = {
        {"pci0000:15/0000:15:01.0/0000:16:00.0", "pci0000:15/0000:15:01.0/0000:16:00.1", 0, PEALI_PIX},
        {"pci0000:15/r/up/d0/a", "pci0000:15/r/up/d1/b", 0, PEALI_PIX},
        {"pci0000:15/r/up/d0/a", "pci0000:15/r/up/d1/up/d/b", 0, PEALI_PXB},
        {"pci0000:15/r0/up/d0/a", "pci0000:15/r1/up/d0/b", 0, PEALI_PHB},
        {"pci0000:15/r0/a", "pci0000:150/r0/b", 0, PEALI_NODE},
        {"pci0000:15/r0/a", "pci0000:41/r0/b", 0, PEALI_NODE},
        {"pci0000:15/r0/a", "pci0000:41/r0/b", 1, PEALI_SYS},
        {"pci0000:15/r0/a", "pci0000:41/r0/b", -1, PEALI_SYS},
        {"pci0000:15/r0/a", "", 0, PEALI_SYS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        peali_pci a = {.numa = 0}, b = {.numa = cases[i].numa_b};
        strcpy(a.path, cases[i].a);
        strcpy(b.path, cases[i].b);
        assert_int_equal(peali_fabric_distance(&a, &b), cases[i].far);
        assert_int_equal(peali_fabric_distance(&b, &a), cases[i].far);
    }
}

/* One thing less, and its reason. */
static void reasons(void **state)
{
    (void)state;
    peali_fabric *f = read_node();
    peali_fabric_here here = whole;
    static const char staged[] = "  so GPU memory goes through host memory: ", direct[] = "  so GPU memory may go directly ";
    char line[256];
    says(f, &here, direct);
    here.ucx_cuda = false;
    says(f, &here, "  ucx          no: ucx has no module cuda\n");
    snprintf(line, sizeof line, "%sucx has no module cuda\n", staged);
    says(f, &here, line);
    here.ucx_ib = false;
    says(f, &here, "  ucx          no: ucx has no module ib\n");
    says(f, &here, "  ucx has no module ib, so messages go over tcp\n");
    here = (peali_fabric_here){.locked_bytes = 64 << 10};
    says(f, &here, "(open kernel module), no ucx\n");
    says(f, &here, "this process may lock 64 KiB of memory");
    says(f, &here, "  ucx          no: there is no ucx\n");
    here = whole;
    here.ucx[1] = 13;
    says(f, &here, "  dma-buf      no: it needs ucx 1.14 or newer\n");
    says(f, &here, direct); /* by peer memory */
    f->peer_memory = false;
    says(f, &here, "  peer memory  no: the module nvidia_peermem is not loaded\n");
    snprintf(line, sizeof line, "%sneither dma-buf nor peer memory is there\n", staged);
    says(f, &here, line);
    f->driver_is_open = false;
    says(f, &whole, "  dma-buf      no: it needs the open kernel module of the nvidia driver, 515 or newer\n");
    says(f, &whole, "nvidia driver 550.54.15 (closed kernel module)");
    strcpy(f->kernel, "5.4.0");
    says(f, &whole, "  dma-buf      no: the kernel is older than 5.12\n");
    f->driver[0] = '\0';
    says(f, &whole, "no nvidia driver, ucx 1.17.0\n");
    snprintf(line, sizeof line, "%sno nvidia driver is loaded\n", staged);
    says(f, &whole, line);
    for (int p = 0; p < f->nports; p++)
        f->port[p].may_open = false;
    says(f, &whole, "no: this process may not open /dev/infiniband/uverbs0\n");
    snprintf(line, sizeof line, "%sno network port can be used\n", staged);
    says(f, &whole, line);
    peali_free(f);
}

static void roce(void **state)
{
    (void)state;
    static const char text[] =
        "proc:\n"
        "  sys/kernel/hostname = storage1\n"
        "  sys/kernel/osrelease = 6.1.0\n"
        "  driver/nvidia/version = NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
        "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0:\n"
        "  vendor = 0x15b3\n"
        "  device = 0x101d\n"
        "  numa_node = -1\n"
        "  current_link_width = 16\n"
        "  max_link_width = 16\n"
        "  current_link_speed = 8.0 GT/s PCIe\n"
        "  max_link_speed = 16.0 GT/s PCIe\n"
        "  infiniband_verbs/uverbs0/ibdev = mlx5_bond_0\n"
        "  infiniband/mlx5_bond_0/device -> ../../../0000:01:00.0\n"
        "  infiniband/mlx5_bond_0/ports/1/state = 4: ACTIVE\n"
        "  infiniband/mlx5_bond_0/ports/1/link_layer = Ethernet\n"
        "  infiniband/mlx5_bond_0/ports/1/rate = 100 Gb/sec (4X EDR)\n"
        "  infiniband/mlx5_bond_0/ports/1/gids/0 = fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n"
        "  infiniband/mlx5_bond_0/ports/1/gids/1 = fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n"
        "  infiniband/mlx5_bond_0/ports/1/gids/2 = 0000:0000:0000:0000:0000:ffff:0a00:0001\n"
        "  infiniband/mlx5_bond_0/ports/1/gids/3 = 0000:0000:0000:0000:0000:ffff:0a00:0001\n"
        "  infiniband/mlx5_bond_0/ports/1/gid_attrs/types/2 = IB/RoCE v1\n"
        "  infiniband/mlx5_bond_0/ports/1/gid_attrs/types/3 = RoCE v2\n"
        "  infiniband/mlx5_bond_0/ports/2/state = 4: ACTIVE\n"
        "  infiniband/mlx5_bond_0/ports/2/link_layer = Ethernet\n"
        "  infiniband/mlx5_bond_0/ports/2/rate = 2.5 Gb/sec (1X SDR)\n"
        "sys/class/infiniband:\n"
        "  mlx5_bond_0 -> ../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/infiniband/mlx5_bond_0\n"
        "dev/infiniband:\n"
        "  uverbs0 =\n";
    peali_fabric *f = read_text(text);
    prints(f, &whole,
           "host storage1, linux 6.1.0, nvidia driver 535.104.05 (closed kernel module), ucx 1.17.0\n"
           "\n"
           "network ports\n"
           "  port           kind  rate             pcie                      numa  gid  usable\n"
           "  mlx5_bond_0:1  roce  100 Gb/s 4X EDR  8.0 GT/s x16 of 16.0 x16     -    3  yes\n"
           "  mlx5_bond_0:2  roce  2.5 Gb/s 1X SDR  8.0 GT/s x16 of 16.0 x16     -    -  no gid of RoCE v2 over IPv4\n"
           "  mlx5_bond_0:2 runs at 2 Gb/s (1X SDR), mlx5_bond_0:1 at 100 (4X EDR): check its cable and switch\n"
           "\n"
           "GPUs\n"
           "  none\n");
    f->port[1].rate_mbit = 100000;
    says(f, &whole, "   -  no gid of RoCE v2 over IPv4\n");
    peali_free(f);
}

static void bare(void **state)
{
    (void)state;
    peali_fabric *f = read_text("proc:\n  sys/kernel/hostname = laptop\n");
    const peali_fabric_here none = {.locked_bytes = SIZE_MAX};
    prints(f, &none,
           "host laptop, linux unknown, no nvidia driver, no ucx\n"
           "\n"
           "network ports\n"
           "  none: /sys/class/infiniband has no device, so messages go over tcp\n"
           "\n"
           "GPUs\n"
           "  none\n");
    peali_free(f);
}

/* Whatever the files hold, reading ends, and what is printed has lines. */
static void odd_files(void **state)
{
    (void)state;
    static const char text[] =
        "proc:\n"
        "  driver/nvidia/version = \n"
        "sys/devices/virtual/infiniband/rxe0:\n"
        "  ports/1/state = \n"
        "  ports/1/rate = fast\n"
        "  ports/x/state = 4: ACTIVE\n"
        "  ports/2/state = 4: ACTIVE_DEFERRED_AND_SO_ON\n"
        "  ports/2/rate = 1 Gb/sec (\n"
        "sys/class/infiniband:\n"
        "  rxe0 -> ../../devices/virtual/infiniband/rxe0\n"
        "  gone -> ../../devices/nowhere\n"
        "sys/bus/pci/devices:\n"
        "  0000:00:00.0/vendor = 0x10de\n"
        "  0000:00:00.0/class = 0x030000\n";
    peali_fabric *f = read_text(text);
    assert_int_equal(f->nports, 2);
    assert_int_equal(f->ngpus, 1);
    assert_string_equal(f->driver, "unknown");
    assert_string_equal(f->port[0].state, "UNKNOWN");
    assert_false(f->port[1].active);
    says(f, &whole, "  rxe0:1         ib    -                -                            -    -  no: its state is UNKNOWN\n");
    peali_free(f);
}

/* Of a virtual function Linux knows what its card can, and not what its link is; nor need it know a rate. Neither is slow. */
static void unknown_link(void **state)
{
    (void)state;
    static const char text[] =
        "sys/devices/pci0001:00/0001:00:02.0:\n"
        "  vendor = 0x15b3\n"
        "  device = 0x101e\n"
        "  current_link_width = 0\n"
        "  max_link_width = 16\n"
        "  current_link_speed = Unknown\n"
        "  max_link_speed = 32.0 GT/s PCIe\n"
        "  infiniband/mlx5_0/device -> ../../../0001:00:02.0\n"
        "  infiniband/mlx5_0/ports/1/state = 4: ACTIVE\n"
        "  infiniband/mlx5_0/ports/1/rate = 400 Gb/sec (4X NDR)\n"
        "  infiniband/mlx5_0/ports/2/state = 4: ACTIVE\n"
        "sys/class/infiniband:\n"
        "  mlx5_0 -> ../../devices/pci0001:00/0001:00:02.0/infiniband/mlx5_0\n";
    char why[256];
    peali_fabric *f = read_text(text);
    assert_int_equal(f->nports, 2);
    for (int p = 0; p < 2; p++)
        assert_false(peali_fabric_slow(f, p, why, sizeof why));
    says(f, &whole, "  mlx5_0:1       ib    400 Gb/s 4X NDR  -                            -    -  no: this process");
    peali_free(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_by_eight), cmocka_unit_test(slow_links), cmocka_unit_test(warnings),
        cmocka_unit_test(directs), cmocka_unit_test(distances),
        cmocka_unit_test(reasons), cmocka_unit_test(roce), cmocka_unit_test(bare), cmocka_unit_test(odd_files),
        cmocka_unit_test(unknown_link),
    };
    folder = argc > 1 ? argv[1] : "tests/machines";
    snprintf(log_path, sizeof log_path, "test_fabric.%ld.log", (long)getpid());
    setenv("PEAL_LOG_FILE", log_path, 1);
    int failed = cmocka_run_group_tests_name("fabric", tests, NULL, NULL);
    unlink(log_path);
    return failed;
}
