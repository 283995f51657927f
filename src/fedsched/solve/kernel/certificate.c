/* What an answer is worth, from the definitions alone.
 *
 * residual = sum |F_n - nu| omega_n / objective: what could be gained, to first order, by changing draw
 * probabilities by up to themselves. A device at its floor counts only if it would rather rise.
 *
 * Far on its falling branch a device has F = 0, which says nothing. Where all rise at nu <= 0, none is above
 * beta^(-1/2), at which its term is least; what one that is costs too much is counted in full:
 * a/q + b q - 2 sqrt(a b) = a (1 - q sqrt(beta))^2 / q.
 */
#include "arithmetic.h"

typedef struct {
    int64_t m;
    const double *omega, *scale;
    double *q; /* holds beta on entry */
    double nu, least, floor;
    int convex; /* all rise, and nu <= 0 */
    double objective[MOST_PARTS], off[MOST_PARTS];
} Judged;

INLINE void judge_range(Judged *c, const double *scales, int64_t part, int64_t from, int64_t to)
{
    double u[BLOCK], rest[BLOCK], q[BLOCK], term[BLOCK], off[BLOCK];
    const double m = (double)c->m, at_least = c->least * (1 + 1e-9);
    c->objective[part] = c->off[part] = 0;
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = block_of(to - at);
        const double *RESTRICT omega = c->omega + at;
        participation(omega, u, rest, q, c->m, n);
        for (int64_t i = 0; i < n; i++) {
            double beta = c->q[at + i], a = scales ? 1 / scales[at + i] : 1, F, over, past;
            int above;
            q[i] = within(q[i], larger(c->floor, TINY), 1); /* the sum may round past 1 */
            over = 1 / q[i];
            F = a * m * rest[i] * (beta - over * over) - c->nu;
            past = 1 - q[i] * sqrt(beta);
            above = omega[i] > at_least;
            F = above ? F : smaller(F, 0);
            term[i] = a * (over + beta * q[i]);
            off[i] = fabs(F) * omega[i] + (c->convex & above & (past < 0) ? a * past * past * over : 0);
            c->q[at + i] = q[i];
        }
        c->objective[part] += total(term, n);
        c->off[part] += total(off, n);
    }
}

static void judge_part(void *context, int64_t part, int64_t from, int64_t to)
{
    Judged *c = context;
    if (c->scale) judge_range(c, c->scale, part, from, to);
    else judge_range(c, NULL, part, from, to);
}

/* q from omega, the objective and the residual. */
static void certify(const Devices *d, double *q, double nu, int all_rise, double floor, double *objective,
                    double *residual)
{
    Judged c;
    double f = 0, off = 0;
    c.m = d->m;
    c.omega = d->omega;
    c.scale = d->scale;
    c.q = q;
    c.nu = nu;
    c.least = d->least;
    c.floor = floor;
    c.convex = all_rise && nu <= 0;
    for_parts(d->n, d->threads, judge_part, &c);
    for (int64_t part = 0; part < parts_of(d->n); part++) {
        f += c.objective[part];
        off += c.off[part];
    }
    *objective = f;
    *residual = off / f;
}

/* How far a sum is off, in parts of it; 0 where it is rounding. */
INLINE double missing(double sum, double wanted)
{
    double off = fabs(sum / wanted - 1);
    return off > 1e-12 ? off : 0;
}
