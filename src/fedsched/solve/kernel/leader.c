/* One device k by itself: its term, its F, and where F turns.
 *
 * F rises to an inflection and falls beyond it (if beta > 1 and m > 1). k is told by x = omega_k and by
 * what it leaves, U = 1 - x; both are given, so that neither loses digits. With M = beta - 1/q^2,
 *
 *   F = a m U^(m-1) M,      dF/dU = a [ m (m-1) U^(m-2) M - 2 m^2 U^(2m-2) / q^3 ].
 *
 * As U rises, q and M fall: this is what the bounds of dF/dU below rest on.
 */
#include "arithmetic.h"

typedef struct {
    double U, nu, slope, term; /* nu = F, slope = dF/dU, term = a (1/q + beta q) */
    double margin, convex;     /* a M and a 2 m^2 U^(2m-2) / q^3 */
} Leader;

static Leader leader_at(double beta, double a, int64_t m, double x, double U)
{
    Leader k;
    double u, rest, q, draws = (double)m, um, M;
    participation(&x, &u, &rest, &q, m, 1);
    rest = power_of(U, m - 1);
    um = rest * U;
    if (U < 0.5) q = 1 - um;
    M = um < 0.5 ? (beta - 1) - um * (1 + q) / (q * q) : beta - 1 / (q * q);
    k.U = U;
    k.margin = a * M;
    k.convex = a * (2 * draws * rest * (draws * rest) / (q * q * q));
    k.nu = draws * rest * k.margin;
    k.slope = draws * (draws - 1) * (m > 2 ? power_of(U, m - 2) : 1) * k.margin - k.convex;
    k.term = a * (1 / q + beta * q);
    return k;
}
static Leader leader_leaving(double beta, double a, int64_t m, double U)
{
    return leader_at(beta, a, m, 1 - U, U);
}
static Leader leader_taking(double beta, double a, int64_t m, double x)
{
    return leader_at(beta, a, m, x, 1 - x);
}

/* The most that dF/dU can be between two points where F >= 0, and the least. */
static double steepest(const Leader *low, const Leader *high, int64_t m)
{
    double bend = (double)m * (double)(m - 1) * (m > 2 ? power_of(high->U, m - 2) : 1);
    return bend * low->margin - low->convex;
}
static double flattest(const Leader *low, const Leader *high, int64_t m)
{
    double bend = (double)m * (double)(m - 1) * (m > 2 ? power_of(low->U, m - 2) : 1);
    return bend * high->margin - high->convex;
}

/* Where F turns, as omega; 1 if it never does. dF/domega = 0 reads r beta q^3 + (2-r) q = 2 with
 * r = (m-1)/m; the left side is convex and rises, so Newton from q = 1 comes down to the root. */
static double turn_of(double beta, int64_t m)
{
    double r = (m - 1.0) / m, step = 1, q = 1;
    if (m == 1 || !(beta > 1)) return 1;
    for (int i = 0; i < 500 && step > 2e-16 * q; i++) {
        step = (r * beta * q * q * q + (2 - r) * q - 2) / (3 * r * beta * q * q + (2 - r));
        q -= step;
    }
    return q < 1 ? draw_of(q, m) : 1;
}
