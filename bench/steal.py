"""What the host of a virtual machine keeps back of its cores' time (steal); proc_stat(5). bench/steal.h says what that does."""


def ticks():
    """Of all cores together, since the machine began: (all, stolen)."""
    with open("/proc/stat") as file:
        kinds = [int(word) for word in file.readline().split()[1:9]]
    return sum(kinds), kinds[7]


class Steal:
    def __init__(self):
        self.before = ticks()

    def share(self):
        """The part of all time since it was made, 0 to 1."""
        whole, stolen = (now - then for now, then in zip(ticks(), self.before))
        return stolen / whole if whole else 0.0
