/* Theorem 2: the power that makes an upload cheapest, and what the upload then costs.
 *
 *   P = argmin over (0, Pmax] of  c / log2(1 + h P / N0) + Z P,       b = its value.
 *
 * With A = c h ln 2 / (N0 Z) and W = W0(sqrt(A) / 2) it is ln(1 + h P / N0) = 2 W, as W e^W = sqrt(A) / 2.
 * The paper prints ln(2)^2 for ln 2 in A; `factor` is the one that is meant.
 */
#include "kernel.h"

static const double LN2 = 0.693147180559945309417, LN2_HIGH = 6.93147180369123816490e-01,
                    LN2_LOW = 1.90821492927058770002e-10; /* LN2_HIGH has 21 zero bits at its end */

/* ln x for normal x > 0. x = 2^e f with f in [sqrt(1/2), sqrt 2), and ln f = 2 artanh((f-1)/(f+1)).
 * Of the series 2 terms give 1e-4, 5 give 1e-9, 10 all digits. */
INLINE void logarithms(const double *RESTRICT x, double *RESTRICT y, int64_t n, int terms)
{
    const int64_t root_half = 0x3fe6a09e667f3bcdLL, two_to_52_and_51 = 0x4338000000000000LL;
    for (int64_t i = 0; i < n; i++) {
        int64_t bits, e, mantissa, shifted;
        double f, exponent, s, z, p = 0;
        memcpy(&bits, &x[i], 8);
        e = (bits - root_half) >> 52;
        mantissa = bits - (int64_t)((uint64_t)e << 52);
        memcpy(&f, &mantissa, 8);
        shifted = e + two_to_52_and_51; /* a whole number as a double, without a conversion */
        memcpy(&exponent, &shifted, 8);
        exponent -= 6755399441055744.0;
        s = (f - 1) / (f + 1);
        z = s * s;
        for (int k = terms; k; k--) p = p * z + 1.0 / (2 * k + 1);
        y[i] = exponent * LN2_HIGH + (exponent * LN2_LOW + 2 * (s + s * (z * p)));
    }
}

/* W e^W = z for a block, z in [1e-300, 1e150].
 * A start within 2 %, then two steps of fourth order on ln(z / W) - W = 0. */
INLINE void lambert_w0(const double *RESTRICT z, double *RESTRICT w, int64_t n)
{
    double l[BLOCK], t[BLOCK];
    for (int64_t i = 0; i < n; i++) t[i] = 1 + z[i];
    logarithms(t, l, n, 2);
    for (int64_t i = 0; i < n; i++) t[i] = 1 + l[i];
    logarithms(t, w, n, 2);
    for (int64_t i = 0; i < n; i++) {
        double v = z[i], large = l[i] * (1 - w[i] / (2 + l[i]));
        double small = v * (1 + v * (4.0 / 3)) / (1 + v * (7.0 / 3 + v * (5.0 / 6)));
        w[i] = v < 1 ? small : large;
    }
    for (int step = 0; step < 2; step++) {
        for (int64_t i = 0; i < n; i++) t[i] = z[i] / w[i];
        if (step) logarithms(t, l, n, 10);
        else logarithms(t, l, n, 5);
        for (int64_t i = 0; i < n; i++) {
            double g = l[i] - w[i], w1 = w[i] + 1, s = 2 * w1 * (w1 + g * (2.0 / 3));
            w[i] *= 1 + g * (s - g) / (w1 * (s - 2 * g));
        }
    }
}

/* e^nats - 1 = (z / W)^2 - 1; the series where that would lose digits. */
INLINE void signal_to_noise(const double *RESTRICT z, const double *RESTRICT w,
                            double *RESTRICT snr, double *RESTRICT nats, int64_t n)
{
    int any_small = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = z[i] / w[i];
        nats[i] = 2 * w[i];
        snr[i] = e * e - 1;
        any_small |= nats[i] < 0.2;
    }
    if (any_small)
        for (int64_t i = 0; i < n; i++) {
            double series = 1;
            for (int j = 11; j > 1; j--) series = 1 + nats[i] * series * (1.0 / j);
            snr[i] = nats[i] < 0.2 ? nats[i] * series : snr[i];
        }
}

/* Where the peak is reached it is meant exactly; ln(1 + y) with the digits of y that 1 + y loses. */
INLINE void cap_at_peak(const Link *link, const double *RESTRICT gain, const double *RESTRICT queue,
                        const double *RESTRICT snr, double *RESTRICT nats, double *RESTRICT power,
                        int64_t n)
{
    const double peak = link->max_power / link->noise;
    double t[BLOCK], l[BLOCK];
    for (int64_t i = 0; i < n; i++) t[i] = smaller(1 + gain[i] * peak, 1e300);
    logarithms(t, l, n, 10);
    for (int64_t i = 0; i < n; i++) {
        double y = gain[i] * peak, exact = y < 1e16 ? l[i] + (y - (t[i] - 1)) / t[i] : l[i];
        int capped = (snr[i] >= y) | (queue[i] == 0);
        power[i] = capped ? link->max_power : power[i];
        nats[i] = capped ? exact : nats[i];
    }
}

INLINE int power_block(const Link *link, const double *RESTRICT gain, const double *RESTRICT queue,
                       double *RESTRICT power, double *RESTRICT price, int64_t n)
{
    const double k = sqrt(0.25 * link->cost * link->factor / link->noise);
    const double peak = link->max_power / link->noise, value = link->cost * LN2;
    double z[BLOCK], w[BLOCK], snr[BLOCK], nats[BLOCK];
    int bad = 0, capped = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= !(gain[i] > 0 && gain[i] < INFINITY) | !(queue[i] >= 0 && queue[i] < INFINITY);
        z[i] = within(sqrt(gain[i]) * k / sqrt(queue[i]), TINY, 1e150);
    }
    if (bad) return 1;
    lambert_w0(z, w, n);
    signal_to_noise(z, w, snr, nats, n);
    for (int64_t i = 0; i < n; i++) {
        capped |= (snr[i] >= gain[i] * peak) | (queue[i] == 0);
        power[i] = within(snr[i] / gain[i] * link->noise, TINY, link->max_power);
    }
    if (capped) cap_at_peak(link, gain, queue, snr, nats, power, n);
    if (price)
        for (int64_t i = 0; i < n; i++) price[i] = value / nats[i] + queue[i] * power[i];
    return 0;
}

typedef struct {
    const Link *link;
    const double *gain, *queue;
    double *power, *price;
    int bad[MOST_PARTS];
} Uploads;

static void power_part(void *context, int64_t part, int64_t from, int64_t to)
{
    Uploads *u = context;
    int bad = 0;
    for (int64_t at = from; at < to && !bad; at += BLOCK)
        bad = power_block(u->link, u->gain + at, u->queue + at, u->power + at,
                          u->price ? u->price + at : NULL, block_of(to - at));
    u->bad[part] = bad;
}

/* Powers and, unless price is NULL, prices of n devices. */
static int kernel_power(const Link *link, int64_t n, const double *gain, const double *queue,
                        double *power, double *price, int threads)
{
    Uploads u;
    u.link = link;
    u.gain = gain;
    u.queue = queue;
    u.power = power;
    u.price = price;
    for_parts(n, threads, power_part, &u);
    for (int64_t part = 0; part < parts_of(n); part++)
        if (u.bad[part]) return BAD_INPUT;
    return SOLVED;
}
