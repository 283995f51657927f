/* m draws with replacement: min sum a/q + b q, q = 1 - (1-omega)^m, sum of omega = 1, omega >= least.
 *
 * Not convex. In a global minimum one device at most is on its falling branch (two would break the
 * second-order condition), and among devices of one weight it is the cheapest (else a swap would
 * help). So: the point where all rise, and for each weight the points where its cheapest device falls.
 * Where the multiplier of the first is 0 or less, duality excludes all others.
 */
#include "arithmetic.h"
#include "kernel.h"

typedef struct {
    const Problem *p;
    int64_t n, aside; /* the device that is kept at the last place, by its own place */
    double unit, least;
    double *beta, *scale; /* scale = unit / a, NULL if all are 1 */
    double *omega, *q;
    Best best;
    double x;     /* of the yardstick where all rise */
    double start; /* a first guess of the yardstick's omega, 0 if there is none */
    int unlimited; /* a price over a weight beyond all bounds: nothing is promised */
    int surely;    /* without the short cut */
} Draws;

/* Units: a in parts of the largest weight, beta = b / a. 0 if a number is not allowed. */
static int in_units(Draws *d)
{
    const Problem *p = d->p;
    double over, least, most;
    if (d->scale) extremes(p->weight, d->n, &least, &d->unit);
    else d->unit = p->weight[0];
    over = smaller(1 / d->unit, HUGE_RATIO);
    if (d->scale)
        for (int64_t i = 0; i < d->n; i++) {
            d->beta[i] = p->price[i] / p->weight[i];
            d->scale[i] = smaller(d->unit / p->weight[i], HUGE_RATIO);
        }
    else
        for (int64_t i = 0; i < d->n; i++) d->beta[i] = p->price[i] * over;
    extremes(d->beta, d->n, &least, &most);
    if (!(least >= 0 && d->unit < INFINITY)) return 0;
    if (!(most <= HUGE_RATIO)) {
        d->unlimited = 1;
        for (int64_t i = 0; i < d->n; i++) d->beta[i] = smaller(d->beta[i], HUGE_RATIO);
        least = smaller(least, HUGE_RATIO);
    }
    d->aside = 0;
    while (d->aside < d->n - 1 && d->beta[d->aside] != least) d->aside++;
    return 1;
}

static void put_aside(Draws *d, int64_t place)
{
    swap(d->beta, place, d->n - 1);
    swap(d->omega, place, d->n - 1);
    if (d->scale) swap(d->scale, place, d->n - 1);
}
static Devices others_of(Draws *d, double most)
{
    return (Devices){d->n - 1, d->p->draws, d->beta, d->scale, d->omega, d->least, most, d->p->threads};
}

/* Where devices of the mean price would share alike. */
static double first_guess(const Draws *d, double high)
{
    int64_t n = d->n, m = d->p->draws, step = n > 4096 ? n / 2048 : 1, count = 0;
    double mean = 0, even = 1.0 / n, y;
    if (step == 1) mean = total(d->beta, count = n);
    else
        for (int64_t i = 0; i < n; i += step, count++) mean += d->beta[i];
    y = d->beta[n - 1] - leader_taking(mean / count, 1, m, even).nu / (m * power_of(1 - even, m - 1));
    return y > 1 ? draw_of(1 / sqrt(y), m) : high;
}

/* A sample that takes its share knows x to a per cent. */
static double guess_by_sample(const Devices *others, const Yardstick *k, double guess)
{
    enum { SAMPLE = 2048 };
    double beta[SAMPLE], scale[SAMPLE], omega[SAMPLE], x;
    int64_t step = others->n / SAMPLE;
    Devices sample = *others;
    for (int64_t i = 0; i < SAMPLE; i++) {
        beta[i] = others->beta[i * step];
        scale[i] = others->scale ? others->scale[i * step] : 1;
    }
    sample.n = SAMPLE;
    sample.beta = beta;
    sample.scale = others->scale ? scale : NULL;
    sample.omega = omega;
    rise(&sample, k, guess, (double)others->n / SAMPLE, &x);
    return x;
}

/* Beyond this omega (1-omega)^(m-1) < 1e-100: q is 1, F is 0, and more would change nothing. */
static double saturation(int64_t m)
{
    double low = 1e-25, high = 1;
    if (m <= 16) return 1;
    for (int round = 0; round < 80 && high - low > 1e-15 * high; round++) {
        double middle = sqrt(low * high);
        if (power_of(1 - middle, m - 1) >= 1e-100) low = middle;
        else high = middle;
    }
    return low;
}

/* The point where all rise, if there is one: the device at the last place is the yardstick. 1 if found;
 * then others hold it up to Newton's last step, and nu is its multiplier. */
static int all_rise(Draws *d, const Devices *others, Yardstick *k, double *nu)
{
    double x = d->start > 0 ? d->start : first_guess(d, k->high);
    int found = 0, sated = 0;
    if (!(k->low < k->high)) return 0;
    if (k->high == 1) {
        k->high = saturation(others->m);
        sated = k->high < 1;
        x = smaller(x, k->high);
    }
    if (d->n > 16384) x = guess_by_sample(others, k, x);
    if (!d->surely) found = rise(others, k, x, 1, &x);
    if (!found) {
        Response top = respond(others, leader_taking(k->beta, k->a, others->m, k->high).nu, 1);
        if (k->high + top.sum >= 1) found = 1 + rise_surely(others, k, &x);
        else if (sated) found = 1, x = larger(1 - top.sum, k->high); /* who wants all takes the rest */
    }
    if (found) *nu = leader_taking(k->beta, k->a, others->m, d->x = x).nu;
    d->best.responses += found ? found : 1;
    return found != 0;
}

/* The search over [0, highest] of the multipliers; the point where all rise, if any, is in best. */
static int one_falls(Draws *d, Devices others, double highest, Candidate *pool, int64_t count, int owned)
{
    int64_t room = owned ? 2 * d->n : 2 * MOST_DEPTH;
    Search f = {others, d->n, d->beta, d->scale, d->omega, &d->best, pool, room, 0};
    int alone = count == 1 && pool[0].place == d->n - 1;
    Piece whole;
    whole.first = 0;
    whole.count = count;
    whole.s = node_at(&f, 0, 1, alone);
    own_responses(&f, &whole, 0);
    whole.t = node_at(&f, highest * (1 - 1e-14), 1, alone);
    own_responses(&f, &whole, 1);
    search_falling(&f, whole);
    if (owned) free(f.pool);
    return f.no_memory ? NO_MEMORY : SOLVED;
}

/* The objective of the point where all rise, whose others are as they are; and by duality at its
 * multiplier the least that any point with k falling costs: k's term is concave and least at an end. */
static double dual_bound(Draws *d, const Devices *others, const Yardstick *k, double nu)
{
    Response r = respond(others, nu, 0);
    Leader rest = leader_leaving(k->beta, k->a, others->m, r.sum);
    Leader turn = leader_taking(k->beta, k->a, others->m, k->high);
    double least = (d->n - 1) * d->least;
    Leader all = leader_leaving(k->beta, k->a, others->m, larger(least * (1 - 1e-12), TINY));
    d->best.responses++;
    d->best.objective = r.dual + nu * r.sum + rest.term;
    d->best.nu = nu;
    return r.dual + smaller(turn.term + nu * turn.U, all.term + nu * all.U);
}

/* All weights are one: the cheapest device is the yardstick and the only candidate. */
static int solve_equal(Draws *d)
{
    int64_t n = d->n, m = d->p->draws;
    double beta = d->beta[n - 1], top = larger(smaller(turn_of(beta, m), 1 - (n - 1) * d->least), d->least);
    Yardstick k = {beta, 1, 1.0 / n * (1 - 1e-12), top};
    Devices others = others_of(d, top);
    Candidate pool[2 * MOST_DEPTH];
    double nu = 0, bound;
    int status, rising = all_rise(d, &others, &k, &nu);
    if (rising && nu <= 0) {
        d->best.nu = nu;
        return SOLVED;
    }
    if (rising) {
        bound = dual_bound(d, &others, &k, nu);
        if (bound >= d->best.objective * (1 - CLOSE)) {
            d->best.bound = bound;
            return SOLVED;
        }
    }
    pool[0] = (Candidate){n - 1, 1 - top, 0, 0};
    status = one_falls(d, others, leader_taking(beta, 1, m, top).nu, pool, 1, 0);
    others = others_of(d, top);
    if (status == SOLVED && d->best.objective < INFINITY) respond(&others, d->best.nu, 1);
    return status;
}
