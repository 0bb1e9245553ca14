"""numpy on a heap whose large blocks peers reach: heap_numpy.py LIBPEAL [ROUNDS]. The library is loaded as any binding of it
would be, and must see the same pool as the heap that was loaded before Python."""
import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np

peal = ctypes.CDLL(sys.argv[1])
peal.peali_pool_holds.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
peal.peali_pool_holds.restype = ctypes.c_bool
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3


def shared(array):
    return peal.peali_pool_holds(array.ctypes.data, array.nbytes)


def churn(seed):
    random = np.random.default_rng(seed)
    for _ in range(10):
        n = int(random.integers(100, 500000))
        zeros = np.zeros(n)
        assert not zeros.any()
        zeros += 1
        both = np.concatenate([zeros, np.arange(n)])
        assert both.sum() == n + n * (n - 1) / 2
        both.resize(3 * n, refcheck=False)
        assert both.sum() == n + n * (n - 1) / 2
        if both.nbytes >= 1 << 20:
            assert shared(both)


def fork_and_write():
    array = np.arange(300000.0)
    assert shared(array)
    child = os.fork()
    if child == 0:
        right = array[299999] == 299999
        array += 1
        right = right and array[0] == 1 and np.zeros(300000).sum() == 0
        os._exit(0 if right else 1)
    array -= 1
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert array[0] == -1 and array[299999] == 299998
    assert not shared(array) and shared(np.arange(300000.0))


def square(n):
    return float((np.ones((n, n)) @ np.ones((n, n))).sum())


for turn in range(rounds):
    workers = [threading.Thread(target=churn, args=(turn * 4 + i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    fork_and_write()
    assert subprocess.run(["sh", "-c", "echo word"], capture_output=True, check=True).stdout == b"word\n"
    words = [str(i) for i in range(300000)]  # a list that outgrows 1 MiB as it is appended to
    assert len(",".join(words)) == 1988889
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(square, [400, 500]) == [400.0**3, 500.0**3]
