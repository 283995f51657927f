/* Nothing but a sum couples the devices: sum of q = s, floor <= q <= 1. Convex.
 *
 *   q = min(1, max(floor, sqrt(a / (b - nu)))),     the sum rises with nu.
 *
 * Newton on share^-2 = goal^-2, nearly linear in nu, of the devices between their bounds, in a bracket that
 * only shrinks. nu = origin - d is measured from a price close to it, so that b - nu keeps its digits.
 */
#include "arithmetic.h"
#include "kernel.h"

typedef struct {
    const double *price, *weight;
    int64_t each; /* 1: one weight a device, 0: one for all */
    double *q;
    double origin, d, floor;
    double sum[MOST_PARTS], slope[MOST_PARTS], held[MOST_PARTS];
} Fill;

typedef struct {
    double sum, slope, held; /* held: the part of the sum that is at a bound */
} Level;

static void fill_part(void *context, int64_t part, int64_t from, int64_t to)
{
    Fill *f = context;
    double slope[BLOCK], held[BLOCK];
    const double floor = larger(f->floor, TINY);
    f->sum[part] = f->slope[part] = f->held[part] = 0;
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = block_of(to - at);
        const double *RESTRICT b = f->price + at;
        double *RESTRICT q = f->q + at;
        for (int64_t i = 0; i < n; i++) {
            double a = f->weight[(at + i) * f->each], gap = (b[i] - f->origin) + f->d;
            double over = 1 / larger(gap, TINY), wish = sqrt(a * over);
            int free = (wish > floor) & (wish < 1) & (gap > 0);
            q[i] = within(gap > 0 ? wish : 1, floor, 1);
            slope[i] = free ? 0.5 * q[i] * over : 0;
            held[i] = free ? 0 : q[i];
        }
        f->sum[part] += total(q, n);
        f->slope[part] += total(slope, n);
        f->held[part] += total(held, n);
    }
}

static Level fill(Fill *f, int64_t n, double d, int threads)
{
    Level all = {0, 0, 0};
    f->d = d;
    for_parts(n, threads, fill_part, f);
    for (int64_t part = 0; part < parts_of(n); part++) {
        all.sum += f->sum[part];
        all.slope += f->slope[part];
        all.held += f->held[part];
    }
    return all;
}

/* The d in [low, high] at which the sum, which falls with d, is s. */
static double level_of(Fill *f, int64_t n, double s, double *low, double *high, double d, int threads,
                       double *responses)
{
    int fine = 0; /* steps since all but the last digits are there */
    if (!(d > *low && d < *high)) d = 0.5 * *low + 0.5 * *high;
    for (int round = 0; round < 300; round++) {
        Level at = fill(f, n, d, threads);
        double share = at.sum - at.held, goal = s - at.held, ratio = share / goal, next = NAN;
        ++*responses;
        if (fabs(at.sum - s) <= 3e-16 * s || (fabs(at.sum - s) <= 1e-14 * s && ++fine > 2)) break;
        if (at.sum > s) *low = d;
        else *high = d;
        if (at.slope > 0 && goal > 0) next = d - 0.5 * share * (1 - ratio * ratio) / at.slope;
        if (*high - *low <= 4e-16 * fabs(*high) || fabs(next - d) <= 2e-16 * fabs(d)) break;
        if (next > *low && next < *high && round % 32 < 31) d = next;
        else if (*low > 0 && *high > 4 * *low) d = sqrt(*low) * sqrt(*high);
        else d = 0.5 * *low + 0.5 * *high;
    }
    return d;
}

/* The objective, and what the devices would gain by leaving their places. */
static void judge_fill(const Problem *p, const double *q, double nu, Certificate *c)
{
    double f = 0, off = 0, sum = 0, wanted = smaller(p->size, (double)p->devices);
    double term[BLOCK], wish[BLOCK];
    const int64_t each = p->weights;
    for (int64_t at = 0; at < p->devices; at += BLOCK) {
        int64_t n = block_of(p->devices - at);
        for (int64_t i = 0; i < n; i++) {
            double a = p->weight[(at + i) * each], b = p->price[at + i], here = q[at + i];
            double over = 1 / here, F = (b - a * over * over) - nu;
            F = here <= p->floor ? smaller(F, 0) : here >= 1 ? larger(F, 0) : F;
            term[i] = a * over + b * here;
            wish[i] = fabs(F) * here;
        }
        f += total(term, n);
        off += total(wish, n);
        sum += total(q + at, n);
    }
    c->objective = f;
    c->multiplier = nu;
    c->gap = larger(off / f, missing(sum, wanted));
    if (!(c->gap >= 0)) c->gap = INFINITY;
}

/* The device whose price is closest to nu. */
static int64_t nearest(const Problem *p, double nu)
{
    int64_t best = 0;
    for (int64_t i = 1; i < p->devices; i++)
        if (fabs(p->price[i] - nu) < fabs(p->price[best] - nu)) best = i;
    return best;
}

/* Scales what devices below `top` have above the floor, so that the sum is s. 0 if they cannot. */
static int scale_to(const Problem *p, double *q, double sum, double top)
{
    const double floor = larger(p->floor, TINY);
    double above = 0, part;
    for (int64_t i = 0; i < p->devices; i++) above += q[i] < top ? q[i] - floor : 0;
    part = 1 + (p->size - sum) / above;
    if (!(part > 0.5 && part < 2)) return 0; /* not at the cost of the smallest */
    for (int64_t i = 0; i < p->devices; i++)
        if (q[i] < top) q[i] = within(floor + (q[i] - floor) * part, floor, 1);
    return 1;
}

/* Whatever happened: the sum is s. Devices between their bounds move; if that is not enough those at 1 do,
 * or the cheapest take the rest. */
static void even_out(const Problem *p, double *q)
{
    double sum = total(q, p->devices);
    for (int round = 0; round < 60 && fabs(sum - p->size) > 1e-15 * p->size; round++) {
        if (!scale_to(p, q, sum, 1) && !(sum > p->size && scale_to(p, q, sum, 2))) break;
        sum = total(q, p->devices);
    }
    while (p->size - sum > 1e-12 * p->size) {
        int64_t cheapest = -1;
        for (int64_t i = 0; i < p->devices; i++)
            if (q[i] < 1 && (cheapest < 0 || p->price[i] < p->price[cheapest])) cheapest = i;
        if (cheapest < 0) break;
        q[cheapest] = smaller(q[cheapest] + (p->size - sum), 1);
        sum = total(q, p->devices);
    }
}

/* b - nu lost its digits to a large price; measured from the nearest one it has all. */
static double refine(const Problem *p, Fill *f, double from, double to, double d, Certificate *c)
{
    double spare = 1e-15 * (larger(fabs(from), fabs(to)) + fabs(f->origin));
    double origin = p->price[nearest(p, f->origin - d)], moved = origin - f->origin;
    f->origin = origin;
    from += moved - spare;
    to += moved + spare;
    return level_of(f, p->devices, p->size, &from, &to, d + moved, p->threads, &c->responses);
}

static void solve_fixed_size(const Problem *p, double *q, Certificate *c)
{
    int64_t n = p->devices;
    double ratio = larger(n / p->size, 1), low, high, most, from, to, d;
    Fill f;
    for (int64_t i = 0; i < n; i++) /* at b - a (n/s)^2 a device asks for s/n */
        q[i] = p->price[i] - p->weight[p->weights ? i : 0] * smaller(ratio * ratio, HUGE_RATIO);
    extremes(q, n, &low, &high);
    d = total(q, n) / n;
    c->responses = 0;
    if (p->size >= n) {
        for (int64_t i = 0; i < n; i++) q[i] = 1;
        judge_fill(p, q, high, c); /* the largest b - a */
        return;
    }
    f.price = p->price;
    f.weight = p->weight;
    f.each = p->weights;
    f.q = q;
    f.floor = p->floor;
    extremes(p->price, n, &f.origin, &most);
    from = f.origin - high;
    to = f.origin - low;
    if (p->size <= 1) { /* nobody is at 1: d is above what would bring any device there */
        for (int64_t i = 0; i < n; i++)
            q[i] = p->weight[p->weights ? i : 0] - (p->price[i] - f.origin);
        extremes(q, n, &low, &high);
        from = larger(from, high * (1 - 1e-15));
        to = larger(to, from);
    }
    d = level_of(&f, n, p->size, &from, &to, f.origin - d, p->threads, &c->responses);
    if (fabs(total(q, n) - p->size) > 1e-14 * p->size) d = refine(p, &f, from, to, d, c);
    even_out(p, q);
    judge_fill(p, q, f.origin - d, c);
}

/* Nothing couples the devices at all. */
static void solve_independent(const Problem *p, double *q, Certificate *c)
{
    c->objective = c->multiplier = c->gap = 0;
    for (int64_t i = 0; i < p->devices; i++) {
        double a = p->weight[p->weights ? i : 0], b = p->price[i];
        q[i] = within(sqrt(a / b), larger(p->floor, TINY), 1);
        c->objective += a / q[i] + b * q[i];
    }
}
