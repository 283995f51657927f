/* How devices respond to a multiplier nu: each takes the omega on its rising branch with F(omega) = nu.
 *
 *   F = a m (1-omega)^(m-1) (beta - 1/q^2),   beta = b/a,   is the derivative of a/q + b q.
 *
 * F = nu means q = y^(-1/2) with y = beta - (nu / a m) u^(1-m), u = 1 - omega. Newton's method on
 * E(omega) = q - y^(-1/2), which is nearly linear. For nu >= 0 it is concave where it rises: from the
 * left Newton never passes the root, and from the right one step leads to the left.
 */
#include "arithmetic.h"
#include "kernel.h"

/* Devices that respond. Weights are in units of the largest; scale = 1/a of each, or NULL: all 1. */
typedef struct {
    int64_t n, m;
    const double *beta, *scale;
    double *omega;
    double least, most; /* of omega */
    int threads;
} Devices;

/* Sums over devices: omega, d omega / d nu, how far omega moved, term - nu omega. */
typedef struct {
    double sum, slope, moved, dual;
} Response;

/* One Newton step for a block: q, the step and d omega / d nu. Where E has no slope the root is to the
 * left; but where y is 0 and nu is not positive, the device wants all there is. */
INLINE void newton(const double *RESTRICT beta, const double *RESTRICT scale,
                   const double *RESTRICT omega, double nu, int64_t m, int64_t n,
                   double *RESTRICT q, double *RESTRICT step, double *RESTRICT slope,
                   double *RESTRICT E)
{
    double u[BLOCK], rest[BLOCK];
    const double draws = (double)m, nu_m = nu / draws, one_m = 1 / draws;
    const int wants_all = nu <= 0;
    participation(omega, u, rest, q, m, n);
    for (int64_t i = 0; i < n; i++) {
        double each = scale ? scale[i] : 1, share = nu_m * each, um = rest[i] * u[i];
        double Y = beta[i] * um - share * u[i]; /* y u^m: one division less */
        double over = 1 / Y, root = sqrt(um * larger(over, 0)), half = 0.5 * root * over;
        double rise = draws * rest[i] - half * (share * (draws - 1)); /* dE / d omega */
        int good = (Y > 0) & (rise > 0), finite = half < HUGE_RATIO;
        /* E = (1 - root) - u^m keeps its digits where q is close to 1; 1 - root = (y - 1) / (y + sqrt y). */
        double sated = ((beta[i] - 1) * um - share * u[i]) * over / (1 + root) - um;
        double off = um < 0.5 ? sated : q[i] - root;
        double flat = 1 / rise, right = finite ? -off * flat : omega[i];
        int all = !(Y > 0) & (um > 0) & wants_all;
        E[i] = good ? off : all ? -HUGE_RATIO : INFINITY;
        step[i] = good ? right : all ? omega[i] : -0.5 * omega[i];
        slope[i] = good & finite ? half * u[i] * one_m * flat * each : 0;
    }
}

/* A start left of the root for nu >= 0: y <= beta - nu/(a m), and the series of 1 - (1-q)^(1/m), all of
 * whose terms are positive, cut off. */
INLINE void start(const double *RESTRICT beta, const double *RESTRICT scale, double *RESTRICT omega,
                  double nu, const Devices *d, int64_t n)
{
    const double one_m = 1.0 / d->m, nu_m = nu * one_m, c1 = 0.5 * (1 - one_m), c2 = (2 - one_m) / 3;
    for (int64_t i = 0; i < n; i++) {
        double y = larger(beta[i] - (scale ? nu_m * scale[i] : nu_m), TINY);
        double q = smaller(1 / sqrt(y), 1);
        omega[i] = within(q * one_m * (1 + q * c1 * (1 + q * c2)), larger(d->least, TINY), d->most);
    }
}

/* One Newton step of all devices from where they are, or from a fresh start. */
INLINE Response sweep_range(const Devices *d, const double *scales, double nu, int fresh, int64_t from,
                            int64_t to)
{
    Response r = {0, 0, 0, 0};
    double q[BLOCK], step[BLOCK], slope[BLOCK], E[BLOCK];
    const double least = larger(d->least, TINY);
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = block_of(to - at);
        double *RESTRICT omega = d->omega + at;
        const double *scale = scales ? scales + at : NULL;
        if (fresh) start(d->beta + at, scale, omega, nu, d, n);
        newton(d->beta + at, scale, omega, nu, d->m, n, q, step, slope, E);
        for (int64_t i = 0; i < n; i++) {
            double next = within(within(omega[i] + step[i], 0.25 * omega[i], 4 * omega[i]), least, d->most);
            slope[i] = next > least ? slope[i] : 0;
            step[i] = fabs(next - omega[i]);
            omega[i] = next;
        }
        r.sum += total(omega, n);
        r.slope += total(slope, n);
        r.moved += total(step, n);
    }
    return r;
}

/* The next omega of a block, into E; how far it is, relative, into step. For nu >= 0 from the left. */
INLINE void advance(const double *RESTRICT omega, double *RESTRICT step, double *RESTRICT E,
                    double least, double most, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double next = within(larger(omega[i] + step[i], 0.25 * omega[i]), least, most);
        step[i] = fabs(next - omega[i]) / next;
        E[i] = next;
    }
}

/* The same for nu < 0, where E may bend both ways: Newton inside a bracket that only shrinks. Far to the
 * left E falls off like a power of u, and Newton would take 2/m a step: the middle is better. */
INLINE void advance_inside(const double *RESTRICT omega, const double *RESTRICT q,
                           double *RESTRICT step, double *RESTRICT E, double *RESTRICT low,
                           double *RESTRICT high, double least, double most,
                           int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int right = E[i] > 0;
        high[i] = right ? omega[i] : high[i];
        low[i] = right ? low[i] : omega[i];
        double to = omega[i] + step[i];
        double middle = high[i] > 4 * low[i] ? sqrt(low[i]) * sqrt(high[i]) : 0.5 * (low[i] + high[i]);
        int inside = (to > low[i]) & (to < high[i]) & (E[i] > -3 * q[i]);
        int settled = (fabs(step[i]) <= 1e-9 * omega[i]) & (to >= least) & (to <= most);
        int floored = (least > TINY) & (to <= least) & (low[i] < least); /* once: is the root below it? */
        double next = inside | settled ? to : floored ? least : middle;
        step[i] = fabs(next - omega[i]) / next;
        E[i] = next;
    }
}

/* Brackets for nu < 0: with u >= 1 - most, y is at most beta - (nu / a m) (1-most)^(1-m). */
INLINE void brackets(const Devices *d, const double *RESTRICT beta, const double *RESTRICT scale,
                     const double *RESTRICT omega, double nu, double *RESTRICT low,
                     double *RESTRICT high, int64_t n)
{
    const double m = (double)d->m, nu_m = nu / m, least = larger(d->least, TINY);
    const double steepest = smaller(1 / power_of(1 - d->most, d->m - 1), HUGE_RATIO);
    for (int64_t i = 0; i < n; i++) {
        double y = beta[i] - (scale ? nu_m * scale[i] : nu_m) * steepest;
        low[i] = larger(smaller(1 / (m * sqrt(y)), omega[i]), least * (1 - 1e-9));
        high[i] = d->most;
    }
}

/* All devices at nu to the last digit, from where they are or from a fresh start, with their dual. */
INLINE Response respond_range(const Devices *d, const double *scales, double nu, int fresh,
                              int64_t from, int64_t to)
{
    Response r = {0, 0, 0, 0};
    double q[BLOCK], step[BLOCK], slope[BLOCK], E[BLOCK], low[BLOCK], high[BLOCK];
    const double least = larger(d->least, TINY), most = d->most;
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = block_of(to - at);
        const double *RESTRICT beta = d->beta + at, *scale = scales ? scales + at : NULL;
        double *RESTRICT omega = d->omega + at;
        if (fresh) start(beta, scale, omega, nu, d, n);
        if (nu < 0) brackets(d, beta, scale, omega, nu, low, high, n);
        for (int round = 0; round < 100; round++) {
            newton(beta, scale, omega, nu, d->m, n, q, step, slope, E);
            if (nu >= 0) advance(omega, step, E, least, most, n);
            else advance_inside(omega, q, step, E, low, high, least, most, n);
            if (largest(step, n) <= 1e-8) break;
            memcpy(omega, E, sizeof(double) * (size_t)n);
        }
        for (int64_t i = 0; i < n; i++) {
            slope[i] = omega[i] <= least * (1 + 1e-13) ? 0 : slope[i];
            step[i] = (1 / q[i] + beta[i] * q[i]) / (scale ? scale[i] : 1) - nu * omega[i];
            omega[i] = E[i];
        }
        r.sum += total(omega, n);
        r.slope += total(slope, n);
        r.dual += total(step, n);
    }
    return r;
}

typedef struct {
    const Devices *devices;
    double nu;
    int fresh, exact;
    Response part[MOST_PARTS];
} Question;

static void ask_part(void *context, int64_t part, int64_t from, int64_t to)
{
    Question *ask = context;
    const Devices *d = ask->devices;
    const double *scale = d->scale; /* NULL as a constant lets the compiler leave it out */
    if (ask->exact && scale) ask->part[part] = respond_range(d, scale, ask->nu, ask->fresh, from, to);
    else if (ask->exact) ask->part[part] = respond_range(d, NULL, ask->nu, ask->fresh, from, to);
    else if (scale) ask->part[part] = sweep_range(d, scale, ask->nu, ask->fresh, from, to);
    else ask->part[part] = sweep_range(d, NULL, ask->nu, ask->fresh, from, to);
}

static Response ask_all(const Devices *d, double nu, int fresh, int exact)
{
    Question ask;
    Response r = {0, 0, 0, 0};
    ask.devices = d;
    ask.nu = nu;
    ask.fresh = fresh;
    ask.exact = exact;
    for_parts(d->n, d->threads, ask_part, &ask);
    for (int64_t part = 0; part < parts_of(d->n); part++) {
        r.sum += ask.part[part].sum;
        r.slope += ask.part[part].slope;
        r.moved += ask.part[part].moved;
        r.dual += ask.part[part].dual;
    }
    return r;
}
static Response sweep(const Devices *d, double nu, int fresh) { return ask_all(d, nu, fresh, 0); }
static Response respond(const Devices *d, double nu, int fresh) { return ask_all(d, nu, fresh, 1); }
