/* What the kernel offers: one struct of functions for each set of instructions it is compiled for. */
#ifndef FEDSCHED_KERNEL_H
#define FEDSCHED_KERNEL_H

#include <stdint.h>

enum { SOLVED = 0, BAD_INPUT = -1, NO_MEMORY = -2 };
enum { WITH_REPLACEMENT = 0, FIXED_SIZE = 1, INDEPENDENT = 2 };

/* The shared uplink as Theorem 2 sees it: c = V lambda l / B, the ln 2 in A, N0, Pmax. */
typedef struct {
    double cost, factor, noise, max_power;
} Link;

/* What a second on air, a watt and a joule cost each device; L = l / B, and N0. */
typedef struct {
    const double *gain, *second, *watt, *joule, *peak;
    double length, noise;
} Tariff;

/* min sum a/q + b q over what the design allows. */
typedef struct {
    int design;
    int64_t devices;
    int64_t draws;        /* m, with replacement */
    double size;          /* sum of q, fixed size */
    double floor;         /* least q */
    const double *price;  /* b */
    const double *weight; /* a: one for all or one a device */
    int weights;          /* whether there is one a device */
    int threads;
} Problem;

/* What was found, and the proof: no allowed point costs less than (1 - gap) objective. */
typedef struct {
    double objective, multiplier, gap;
    double responses; /* of all devices to a multiplier that were computed */
} Certificate;

/* Models of float32 (single) or float64: x, and what the rows y have made of it. */
typedef struct {
    const void *x, *const *y;
    const double *share, *weight; /* of each row's difference */
    int64_t rows, numbers;
    void *out;
    int single;
} Step;

typedef struct {
    const char *name;
    int (*power)(const Link *, int64_t n, const double *gain, const double *queue, double *power,
                 double *price, int threads);
    int (*tariff)(const Tariff *, int64_t n, double *power);
    int (*solve)(const Problem *, double *omega, double *q, Certificate *);
    double (*distance)(const void *y, const void *x, int64_t n, int single);
    double (*step)(const Step *);
} Kernel;

#endif
