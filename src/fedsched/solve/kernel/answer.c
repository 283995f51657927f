/* From the point that was found to an answer: omegas that sum to 1, in the order of the devices, and
 * the gap. */
#include "arithmetic.h"
#include "kernel.h"

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
    if (fabs(sum - 1) <= 1e-6 / n) { /* the largest has the smallest part of it to bear */
        int64_t most = 0;
        for (int64_t i = 1; i < n; i++) most = omega[i] > omega[most] ? i : most;
        omega[most] = within(omega[most] + (1 - sum), low, 1);
        return;
    }
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
    certify(&all, d->q, d->best.nu, d->best.place < 0, d->p->floor, &c->objective, &residual);
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
static void solve_even(const Problem *p, double *omega, double *q, Certificate *c)
{
    int64_t n = p->devices;
    double even = 1.0 / n, u, rest;
    c->objective = c->gap = 0;
    c->multiplier = INFINITY;
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
        solve_even(p, omega, q, c);
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
