/* The one stationary point at which every device is on its rising branch.
 *
 * Device k carries the unknown x = omega_k; the others respond to nu = F_k(x). T(x) = x + R(F_k(x)) rises
 * with x, so T = 1 has one root at most. Below its floor x is no probability, but it still measures nu.
 * T^-2 is nearly linear in x^-2: for m = 1 and one price it is so.
 */
#include "arithmetic.h"

typedef struct {
    double beta, a; /* of k, which responds with nobody */
    double low, high; /* of x */
} Yardstick;

/* Newton on x and on all omegas at once: one step of each device a step of x. 1 if found.
 * `share` > 1: the devices are a sample that stands for that many times itself. */
static int rise(const Devices *others, const Yardstick *k, double start, double share, double *x)
{
    double low = k->low, high = k->high;
    *x = within(start, low, high);
    for (int round = 0; round < 20; round++) {
        Leader at = leader_taking(k->beta, k->a, others->m, *x);
        Response r = sweep(others, at.nu, round == 0);
        double T = larger(*x, others->least) + share * r.sum, v, next;
        double rate = (*x > others->least) - share * r.slope * at.slope;
        if (fabs(T - 1) <= 4e-15 + 1e-17 * others->n && share * r.moved <= 1e-8) return 1;
        v = 1 / (*x * *x) + (T * T * T - T) / (rate * *x * *x * *x);
        next = v > 0 ? 1 / sqrt(v) : high;
        if (share * r.moved < 1e-2 * fabs(T - 1)) { /* the sign of T - 1 can be trusted */
            if (T > 1) high = *x;
            else low = *x;
        }
        if (!(next > low)) next = 0.5 * (*x + low);
        if (!(next < high)) {
            if (high == k->high && *x > 0.9 * high) return 0; /* no root, it seems */
            next = high == k->high ? high : 0.5 * (*x + high);
        }
        *x = next;
    }
    return 0;
}

/* The same with every response to the last digit, for what Newton did not settle. T(high) >= 1. */
static int rise_surely(const Devices *others, const Yardstick *k, double *x)
{
    double low = larger(k->low, TINY), high = k->high;
    int round = 0;
    *x = sqrt(low) * sqrt(high);
    for (; round < 300; round++) {
        Leader at = leader_taking(k->beta, k->a, others->m, *x);
        Response r = respond(others, at.nu, 1);
        double T = larger(*x, others->least) + r.sum;
        double next = *x - (T - 1) / ((*x > others->least) - r.slope * at.slope);
        if (T > 1) high = *x;
        else low = *x;
        if (fabs(T - 1) <= 1e-15 || high - low <= 4e-16 * high) break;
        if (!(next > low && next < high) || round % 8 == 7)
            next = high > 4 * low ? sqrt(low) * sqrt(high) : 0.5 * (low + high);
        *x = next;
    }
    return round;
}

/* The same point by its multiplier, between low and high of one sign, with all devices responding: where
 * weights differ by more than a double holds, no single device can measure nu for all. 1 if found. */
static int rise_by_multiplier(const Devices *all, double low, double high, double *nu)
{
    const double sign = low < 0 ? -1 : 1;
    if (!(respond(all, high, 1).sum >= 1)) return 0;
    *nu = 0.5 * (low + high);
    for (int round = 0; round < 300; round++) {
        Response r = respond(all, *nu, 1);
        double T = r.sum, next = *nu + 0.5 * T * (1 - T) * (1 + T) / r.slope;
        if (T > 1) high = *nu;
        else low = *nu;
        if (fabs(T - 1) <= 1e-15 || fabs(high - low) <= 4e-16 * larger(fabs(low), fabs(high))) break;
        if (!(r.slope > 0 && next > low && next < high) || round % 8 == 7) {
            double small = larger(smaller(fabs(low), fabs(high)), TINY);
            double large = larger(fabs(low), fabs(high));
            next = large > 4 * small ? sign * sqrt(small) * sqrt(large) : 0.5 * (low + high);
        }
        *nu = next;
    }
    return 1;
}
