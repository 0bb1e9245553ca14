/* Numbers of ranks as products of the sizes of teams. */
#include <peal/algo.h>

int peal_largest_prime(int n)
{
    int prime = 1;
    for (int i = 2; i <= n; i++)
        for (; n % i == 0; n /= i)
            prime = i;
    return prime;
}

int peal_largest_divisor(int n, int most)
{
    while (n % most)
        most--;
    return most;
}

/* Whether N is a product of up to FACTORS of up to MOST. */
static int splits(int n, int factors, int most)
{
    if (n == 1 || factors == 0)
        return n == 1;
    for (int factor = most; factor > 1; factor--)
        if (n % factor == 0 && splits(n / factor, factors - 1, factor))
            return 1;
    return 0;
}

int peal_largest_factor(int n, int most)
{
    int prime = peal_largest_prime(n);
    for (int factors = 1; prime <= most; factors++)
        for (int largest = prime; largest <= most; largest++)
            if (splits(n, factors, largest))
                return largest;
    return prime;
}
