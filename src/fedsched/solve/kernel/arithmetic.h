/* What every part of the kernel is made of: + - * / and sqrt in a fixed order, and nothing else.
 *
 * IEEE 754 rounds these five operations correctly, so every processor and every compiler gives the
 * same bits, as long as no product and sum are fused (-ffp-contract=off) and no order of a sum
 * depends on the width of a vector. Hence no function of libm, and sums in eight lanes.
 */
#ifndef FEDSCHED_ARITHMETIC_H
#define FEDSCHED_ARITHMETIC_H

#include <math.h> /* sqrt and fabs, which are instructions, and INFINITY */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER)
#define INLINE static __forceinline
#define RESTRICT __restrict
#pragma fp_contract(off)
#elif defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline, unused))
#define RESTRICT restrict
#else
#define INLINE static inline
#define RESTRICT restrict
#endif

#define BLOCK 128      /* devices at a time: their temporaries stay in the first cache */
#define TINY 1e-300    /* below every probability that means something */
#define HUGE_RATIO 1e280 /* a price over a weight beyond this is not told apart from it */

INLINE double larger(double a, double b) { return a > b ? a : b; }
INLINE double smaller(double a, double b) { return a < b ? a : b; }
INLINE double within(double x, double low, double high) { return smaller(larger(x, low), high); }
INLINE int64_t block_of(int64_t left) { return left < BLOCK ? left : BLOCK; }

/* base^e for whole e >= 0 by squaring. */
INLINE double power_of(double base, int64_t e)
{
    double result = 1;
    for (; e; e >>= 1, base *= base)
        if (e & 1) result *= base;
    return result;
}

/* Sum of x. Eight lanes, whatever the width of a vector. */
INLINE double total(const double *x, int64_t n)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) lane[j] += x[i + j];
    for (; i < n; i++) lane[i & 7] += x[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* The largest of x, all of which are 0 or more. */
INLINE double largest(const double *x, int64_t n)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) lane[j] = larger(lane[j], x[i + j]);
    for (; i < n; i++) lane[i & 7] = larger(lane[i & 7], x[i]);
    for (int j = 1; j < 8; j++) lane[0] = larger(lane[0], lane[j]);
    return lane[0];
}

/* The least and the largest of x. */
INLINE void extremes(const double *x, int64_t n, double *least, double *most)
{
    double low[8], high[8];
    int64_t i = 0;
    for (int j = 0; j < 8; j++) low[j] = high[j] = x[0];
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) {
            low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
            high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
        }
    for (; i < n; i++) {
        low[i & 7] = smaller(x[i], low[i & 7]);
        high[i & 7] = larger(x[i], high[i & 7]);
    }
    *least = low[0];
    *most = high[0];
    for (int j = 1; j < 8; j++) {
        *least = smaller(low[j], *least);
        *most = larger(high[j], *most);
    }
}

INLINE void swap(double *x, int64_t i, int64_t j)
{
    double kept = x[i];
    x[i] = x[j];
    x[j] = kept;
}

/* u = 1 - omega, rest = u^(m-1), q = 1 - u^m = omega (1 + u + ... + u^(m-1)) for a block.
 *
 * The sum of powers doubles: s_2e = s_e (1 + u^e), s_(e+1) = s_e + u^e. All terms are positive, so no
 * digit is lost, and log2(m) products take the place of a logarithm and an exponential. */
INLINE void participation(const double *RESTRICT omega, double *RESTRICT u, double *RESTRICT rest,
                          double *RESTRICT q, int64_t m, int64_t n)
{
    int64_t e = m - 1;
    int bit = 0;
    for (int64_t i = 0; i < n; i++) {
        u[i] = 1 - omega[i];
        rest[i] = m > 1 ? u[i] : 1;
        q[i] = m > 1;
    }
    while (e >> (bit + 1)) bit++;
    while (--bit >= 0) {
        for (int64_t i = 0; i < n; i++) {
            q[i] *= 1 + rest[i];
            rest[i] *= rest[i];
        }
        if (e >> bit & 1)
            for (int64_t i = 0; i < n; i++) {
                q[i] += rest[i];
                rest[i] *= u[i];
            }
    }
    for (int64_t i = 0; i < n; i++) q[i] = omega[i] * (q[i] + rest[i]);
}

/* omega = 1 - (1 - q)^(1/m): Newton on the convex u^m = 1 - q, from above. */
INLINE double draw_of(double q, int64_t m)
{
    double u = 1 - q / m;
    if (!(q < 1)) return 1;
    for (int i = 0; i < 500; i++) {
        double rest = power_of(u, m - 1), step = (rest * u - (1 - q)) / (m * rest);
        if (!(step > 2e-16 * u)) break;
        u -= step;
    }
    /* Where q is small, 1 - u has few digits left; one step on q(omega) = q has them all. */
    double omega = larger(1 - u, q / m), w, rest, got;
    participation(&omega, &w, &rest, &got, m, 1);
    if (q < 0.5) omega -= (got - q) / (m * rest);
    return omega;
}

#endif
