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

/* One candidate for each weight, the device set aside first. Their number, or -1. */
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

/* The search over [0, highest] of the multipliers; the point where all rise, if any, is in best. */
static int one_falls(Draws *d, Devices others, double highest, Candidate *pool, int64_t count, int owned)
{
    Search f = {others, d->n, d->beta, d->scale, d->omega, &d->best, pool, owned ? 2 * d->n : 2 * MOST_DEPTH, 0};
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

/* Whatever happened: every omega in [least, 1], and their sum 1. */
static void close_sum(double *omega, int64_t n, double least)
{
    double low = larger(least, TINY), sum, part;
    for (int64_t i = 0; i < n; i++) {
        omega[i] = omega[i] >= low ? omega[i] : low;
        omega[i] = omega[i] <= 1 ? omega[i] : 1;
    }
    sum = total(omega, n);
    if (fabs(sum - 1) <= 1e-14) return;
    part = (1 - n * least) / (sum - n * least);
    if (!(part > 0 && part < 1e9)) { /* all at their floor: the one set aside takes what is left */
        for (int64_t i = 0; i < n; i++) omega[i] = low;
        omega[n - 1] = within(1 - (n - 1) * low, low, 1);
        return;
    }
    for (int64_t i = 0; i < n; i++) omega[i] = within(least + (omega[i] - least) * part, TINY, 1);
}

/* The omegas of the best point: its leader takes what the others leave. */
static int64_t write_omegas(Draws *d)
{
    int64_t n = d->n, leader = n - 1;
    Devices others;
    double most = d->scale ? 1 - 1e-16 : 1, rest;
    if (d->best.place >= 0) put_aside(d, leader = d->best.place);
    others = others_of(d, most);
    if (d->scale && (d->best.place >= 0 || d->best.objective < INFINITY)) respond(&others, d->best.nu, 1);
    rest = total(d->omega, n - 1);
    d->omega[n - 1] = 1 - rest;
    /* With weights the yardstick may be a small one, which the rounding of the rest would drown. */
    if (d->best.place < 0 && d->x < 0.5) d->omega[n - 1] = larger(d->x, d->least);
    close_sum(d->omega, n, d->least);
    return leader;
}

static int solve_once(Draws *d, Certificate *c)
{
    int64_t n = d->n, first, second = n - 1, leader;
    double residual, bound;
    int status;
    Devices all;
    if (!in_units(d)) return BAD_INPUT;
    first = d->aside;
    put_aside(d, first);
    d->best = (Best){INFINITY, 0, -1, INFINITY, 0, 0, -1, 0};
    status = d->scale ? solve_weighted(d, &second) : solve_equal(d);
    if (status != SOLVED) return status;
    leader = write_omegas(d);
    all = others_of(d, 1);
    all.n = n;
    certify(&all, d->q, d->best.nu, d->p->floor, &c->objective, &residual);
    for (int i = 0; i < 3; i++) { /* places as they were given */
        int64_t place = i == 0 ? leader : i == 1 ? second : first;
        swap(d->omega, place, n - 1);
        swap(d->q, place, n - 1);
    }
    bound = d->best.bound;
    c->gap = residual + (bound < c->objective ? (c->objective - bound) / c->objective : 0);
    c->gap = larger(c->gap, missing(total(d->omega, n), 1));
    if (d->unlimited || !(c->gap >= 0)) c->gap = INFINITY;
    c->objective *= d->unit;
    c->multiplier = d->best.nu * d->unit;
    c->responses = (double)d->best.responses;
    return SOLVED;
}

/* No choice: every device has its even share. */
static void solve_even(const Problem *p, double least, double *omega, double *q, Certificate *c)
{
    int64_t n = p->devices;
    double even = 1.0 / n, u, rest;
    c->objective = c->gap = 0;
    c->multiplier = INFINITY;
    (void)least;
    for (int64_t i = 0; i < n; i++) {
        double a = p->weight[p->weights ? i : 0], b = p->price[i];
        omega[i] = even;
        participation(&omega[i], &u, &rest, &q[i], p->draws, 1);
        q[i] = within(q[i], p->floor, 1);
        c->objective += a / q[i] + b * q[i];
        c->multiplier = smaller(c->multiplier, p->draws * rest * (b - a / (q[i] * q[i])));
    }
}

static int solve_draws(const Problem *p, double *omega, double *q, Certificate *c)
{
    Draws d = {0};
    int64_t n = p->devices;
    double low, high;
    int status;
    d.p = p;
    d.n = n;
    d.least = p->floor > 0 ? draw_of(p->floor, p->draws) : 0;
    if (n == 1 || d.least * n >= 1 - 1e-15) {
        solve_even(p, d.least, omega, q, c);
        return SOLVED;
    }
    d.omega = omega;
    d.q = d.beta = q;
    extremes(p->weight, p->weights ? n : 1, &low, &high);
    if (low != high && !(d.scale = malloc(sizeof(double) * (size_t)n))) return NO_MEMORY;
    status = solve_once(&d, c);
    if (status == SOLVED && c->gap > 1e-10) { /* again, the long way; the better of the two */
        double gap = c->gap;
        d.surely = 1;
        status = solve_once(&d, c);
        if (status == SOLVED && c->gap > gap) {
            d.surely = 0;
            status = solve_once(&d, c);
        }
    }
    free(d.scale);
    return status;
}
