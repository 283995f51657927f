/* Draws with replacement where weights differ: every weight has a candidate that may fall, and no device is
 * known beforehand to be the largest. */
#include "arithmetic.h"
#include "kernel.h"

typedef struct {
    double scale, beta;
    int64_t place;
} Key;

static int by_weight(const void *x, const void *y)
{
    const Key *p = x, *q = y;
    if (p->scale != q->scale) return p->scale < q->scale ? -1 : 1;
    if (p->beta != q->beta) return p->beta < q->beta ? -1 : 1;
    return p->place < q->place ? -1 : p->place > q->place;
}

/* One candidate for each weight, its cheapest device. Their number, or -1. */
static int64_t candidates(const Draws *d, const double *turn, Candidate **pool)
{
    int64_t n = d->n, count = 0;
    Key *key = malloc(sizeof(Key) * (size_t)n);
    *pool = malloc(sizeof(Candidate) * 2 * (size_t)n);
    if (!key || !*pool) {
        free(key);
        return -1;
    }
    for (int64_t i = 0; i < n; i++) key[i] = (Key){d->scale[i], d->beta[i], i};
    qsort(key, (size_t)n, sizeof(Key), by_weight);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || key[i].scale != key[i - 1].scale) {
            int64_t place = key[i].place;
            (*pool)[count++] = (Candidate){place, 1 - larger(turn[place], d->least), 0, 0};
        }
    free(key);
    return count;
}

/* The device whose F ends lowest; all F and where they end. */
static int64_t lowest_end(const Draws *d, double *turn, double *highest)
{
    int64_t lowest = 0;
    *highest = INFINITY;
    for (int64_t i = 0; i < d->n; i++) {
        double most = 1 - (d->n - 1) * d->least, end;
        turn[i] = larger(smaller(turn_of(d->beta[i], d->p->draws), most), d->least);
        end = leader_taking(d->beta[i], 1 / d->scale[i], d->p->draws, turn[i]).nu;
        if (end < *highest) {
            *highest = end;
            lowest = i;
        }
    }
    return lowest;
}

/* Alone, the devices want 1 or more in all: nu <= 0, and the problem is convex where it matters. */
static void weighted_convex(Draws *d, const Devices *all)
{
    int64_t n = d->n, m = d->p->draws;
    double beta = d->beta[n - 1], high = beta > 1 ? draw_of(1 / sqrt(beta), m) : 1, lowest = -TINY;
    Yardstick k = {beta, 1 / d->scale[n - 1], TINY, high};
    Devices others = others_of(d, 1 - 1e-16);
    if (!d->surely) {
        if (all_rise(d, &others, &k, &d->best.nu)) d->best.nu = smaller(d->best.nu, 0);
        return;
    }
    for (int64_t i = 0; i < n; i++) /* where nobody takes more than 1/n */
        lowest = smaller(lowest, leader_taking(d->beta[i], 1 / d->scale[i], m, 1.0 / n).nu);
    rise_by_multiplier(all, lowest, 0, &d->best.nu);
    d->x = d->omega[n - 1];
}

/* The point where all rise although they want less than 1 in all, if there is one. */
static void weighted_rise(Draws *d, const Devices *all, const Devices *others, Yardstick *k, double highest)
{
    double nu;
    if (!d->surely) {
        if (all_rise(d, others, k, &nu)) dual_bound(d, others, k, nu);
    } else if (rise_by_multiplier(all, 0, highest * (1 - 1e-14), &nu)) {
        Response r = respond(all, nu, 0);
        d->x = d->omega[d->n - 1];
        d->best.nu = nu;
        d->best.objective = r.dual + nu; /* their sum is 1 */
    }
}

/* One weight a device. Every weight has a candidate; all share the responses of a search. */
static int solve_weighted(Draws *d, int64_t *second)
{
    int64_t n = d->n, count;
    Devices all = others_of(d, 1 - 1e-16), others;
    Candidate *pool = NULL;
    Yardstick k;
    Response wish;
    double highest, *turn;
    all.n = n;
    wish = respond(&all, 0, 1);
    d->best.responses++;
    d->start = d->omega[n - 1] / larger(wish.sum, 1);
    if (wish.sum >= 1 || !(d->beta[n - 1] > 1)) {
        weighted_convex(d, &all);
        return SOLVED;
    }
    turn = malloc(sizeof(double) * (size_t)n);
    if (!turn) return NO_MEMORY;
    *second = lowest_end(d, turn, &highest);
    put_aside(d, *second);
    swap(turn, *second, n - 1);
    d->start = d->omega[n - 1] / wish.sum;
    others = others_of(d, 1 - 1e-16);
    k = (Yardstick){d->beta[n - 1], 1 / d->scale[n - 1], TINY, turn[n - 1]};
    weighted_rise(d, &all, &others, &k, highest);
    count = candidates(d, turn, &pool);
    free(turn);
    if (count < 0) {
        free(pool);
        return NO_MEMORY;
    }
    return one_falls(d, others, highest, pool, count, 1);
}
