/* The kernel for one set of instructions.
 *
 * All parts are compiled as one file, several times over: the build gives KERNEL a name and the compiler the
 * instructions. The code is the same, and so are its bits; module.c takes the best that a processor has.
 */
#include "arithmetic.h"
#include "kernel.h"

#include "threads.c"
#include "power.c"
#include "tariff.c"
#include "response.c"
#include "leader.c"
#include "rising.c"
#include "falling.c"
#include "certificate.c"
#include "waterfill.c"
#include "draws.c"
#include "weighted.c"
#include "answer.c"

#define REAL float
#define OF(name) name##_single
#include "step.c"
#undef REAL
#undef OF
#define REAL double
#define OF(name) name##_double
#include "step.c"

#ifndef KERNEL
#define KERNEL baseline
#endif
#define JOINED(a, b) a##b
#define NAME_OF(kernel) JOINED(kernel_, kernel)
#define QUOTED(text) #text
#define TEXT_OF(kernel) QUOTED(kernel)

static int refused(const Problem *p)
{
    if (p->devices < 1 || p->draws < 1 || !(p->floor >= 0 && p->floor < 1)) return 1;
    if (p->design == FIXED_SIZE && !(p->size > 0)) return 1;
    for (int64_t i = 0; i < p->devices; i++)
        if (!(p->price[i] >= 0 && p->price[i] < INFINITY)) return 1;
    for (int64_t i = 0; i < (p->weights ? p->devices : 1); i++)
        if (!(p->weight[i] > 0 && p->weight[i] < INFINITY)) return 1;
    return 0;
}

static int kernel_solve(const Problem *p, double *omega, double *q, Certificate *c)
{
    Problem one = *p;
    c->responses = 0;
    if (refused(p)) return BAD_INPUT;
    if (p->design == WITH_REPLACEMENT && p->draws > 1) return solve_draws(p, omega, q, c);
    if (p->design == INDEPENDENT) solve_independent(p, q, c);
    else {
        if (p->design == WITH_REPLACEMENT) one.size = 1; /* one draw: omega = q */
        solve_fixed_size(&one, q, c);
    }
    if (p->design == WITH_REPLACEMENT) memcpy(omega, q, sizeof(double) * (size_t)p->devices);
    return SOLVED;
}

static double kernel_distance(const void *y, const void *x, int64_t n, int single)
{
    return single ? distance_single(y, x, n) : distance_double(y, x, n);
}

static double kernel_step(const Step *s) { return s->single ? step_single(s) : step_double(s); }

const Kernel NAME_OF(KERNEL) = {TEXT_OF(KERNEL), kernel_power,    kernel_tariff,
                                kernel_solve,    kernel_distance, kernel_step};
