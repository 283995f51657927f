/* The power that makes an upload cheapest where a second, a watt and a joule have their prices s, w, j.
 *
 *   P = argmin over (0, Pmax] of  (s + j P) t + w P,     t = L / log2(1 + h P / N0),  L = l / B.
 *
 * With y = h P / N0, J = j N0 / (s h) and W = w N0 / (s h L ln 2) the derivative is 0 where
 *
 *   F(y) = J ((1 + y) ln(1 + y) - y) + W (1 + y) ln(1 + y)^2 = 1,
 *
 * and the price falls before and rises after. F is 0 at 0, grows, is convex, and is at most (J/2 + W) y^2.
 * So 1 / sqrt(J/2 + W) lies below the root; one step of Newton's method from there leads above it, and the
 * others come down to it without passing it.
 */
#include "kernel.h"

#define NEWTON_STEPS 14 /* the last two change nothing over 60 decades of J and W */

/* (1 + y) ln(1 + y) - y = y^2 / 2 - y^3 / 6 + y^4 / 12 - ..., where the difference would lose digits. */
INLINE double small_excess(double y)
{
    double series = 0;
    for (int k = 28; k > 1; k--) series = 1.0 / ((double)k * (k - 1)) - y * series;
    return y * y * series;
}

INLINE void newton_step(const double *RESTRICT per_joule, const double *RESTRICT per_watt,
                        double *RESTRICT y, int64_t n)
{
    double x[BLOCK], l[BLOCK];
    for (int64_t i = 0; i < n; i++) x[i] = 1 + y[i];
    logarithms(x, l, n, 10);
    for (int64_t i = 0; i < n; i++) {
        double ln = y[i] < 1e16 ? l[i] + (y[i] - (x[i] - 1)) / x[i] : l[i];
        double excess = y[i] < 0.25 ? small_excess(y[i]) : x[i] * ln - y[i];
        double f = per_joule[i] * excess + per_watt[i] * (x[i] * ln * ln);
        double slope = per_joule[i] * ln + per_watt[i] * (ln * (ln + 2));
        y[i] = within(y[i] - (f - 1) / slope, TINY, 1e150);
    }
}

INLINE int tariff_block(const Tariff *t, int64_t at, int64_t n, double *RESTRICT power)
{
    double per_joule[BLOCK], per_watt[BLOCK], y[BLOCK];
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        double h = t->gain[at + i], s = t->second[at + i], w = t->watt[at + i], j = t->joule[at + i];
        double scale = t->noise / h / s;
        bad |= !(h != h || (h > 0 && h < INFINITY)) | !(s > 0 && s < INFINITY) | !(w >= 0 && w < INFINITY) |
               !(j >= 0 && j < INFINITY) | !(t->peak[at + i] > 0 && t->peak[at + i] < INFINITY);
        per_joule[i] = within(j * scale, 0, 1e280);
        per_watt[i] = within(w * scale / (t->length * LN2), 0, 1e280);
        y[i] = within(1 / sqrt(0.5 * per_joule[i] + per_watt[i]), TINY, 1e150);
    }
    if (bad) return 1;
    for (int step = 0; step < NEWTON_STEPS; step++) newton_step(per_joule, per_watt, y, n);
    for (int64_t i = 0; i < n; i++) {
        double h = t->gain[at + i], peak = t->peak[at + i], best = y[i] / h * t->noise;
        int free = per_joule[i] + per_watt[i] < 1e-290;
        power[i] = h != h ? 0 : free ? peak : within(best, TINY, peak);
    }
    return 0;
}

/* The powers of n devices; 0 where the gain is not a number. */
static int kernel_tariff(const Tariff *t, int64_t n, double *power)
{
    for (int64_t at = 0; at < n; at += BLOCK)
        if (tariff_block(t, at, block_of(n - at), power + at)) return BAD_INPUT;
    return SOLVED;
}
