/* The binding: arrays in, arrays out. Stable ABI of Python 3.11.
 *
 * Sizes, types and bounds of every argument are checked before a number is read. The lock of the
 * interpreter is released while the kernel works.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "kernel.h"

extern const Kernel kernel_baseline;
#if defined(KERNEL_VARIANTS)
#include "processor.h"
extern const Kernel kernel_avx2, kernel_avx512;
#endif

static const Kernel *chosen = &kernel_baseline;

/* The kernels that this processor can run, the best last. */
static int available(const Kernel **found)
{
    int count = 0;
    found[count++] = &kernel_baseline;
#if defined(KERNEL_VARIANTS)
    if (instructions() >= AVX2) found[count++] = &kernel_avx2;
    if (instructions() >= AVX512) found[count++] = &kernel_avx512;
#endif
    return count;
}

typedef struct {
    Link link;
    Problem problem;
    Py_ssize_t rows, devices;
    const double *gain, *queue;
    double *power, *price, *omega, *q;
    Certificate *certificate;
    Py_ssize_t weights; /* how many there are */
} Batch;

/* The tail of the arguments that every solve has:
 * price, weight, omega, q, certificate, devices, design, draws, size, floor, threads. */
static int read_problem(Arrays *arrays, PyObject *const *a, Batch *b, int price_is_output)
{
    Problem *p = &b->problem;
    long design, threads;
    long long draws;
    b->devices = PyLong_AsSsize_t(a[5]);
    design = PyLong_AsLong(a[6]);
    draws = PyLong_AsLongLong(a[7]);
    p->size = PyFloat_AsDouble(a[8]);
    p->floor = PyFloat_AsDouble(a[9]);
    threads = PyLong_AsLong(a[10]);
    if (PyErr_Occurred()) return 0;
    if (b->devices < 1 || draws < 1 || design < 0 || design > 2 || threads < 1)
        return refuse("devices, draws and threads must be at least 1, and design 0, 1 or 2");
    if (!(b->price = take(arrays, a[0], "price", price_is_output, -1))) return 0;
    b->rows = arrays->view[arrays->count - 1].len / 8 / b->devices;
    if (arrays->view[arrays->count - 1].len != 8 * b->rows * b->devices)
        return refuse("price must hold whole rows of devices");
    if (!(p->weight = take(arrays, a[1], "weight", 0, -1))) return 0;
    b->weights = arrays->view[arrays->count - 1].len / 8;
    if (b->weights != 1 && b->weights != b->devices && b->weights != b->devices * b->rows)
        return refuse("weight must hold one number, one a device, or one a price");
    b->omega = NULL;
    if (design == WITH_REPLACEMENT &&
        !(b->omega = take(arrays, a[2], "draw_probability", 1, b->rows * b->devices)))
        return 0;
    if (!(b->q = take(arrays, a[3], "probability", 1, b->rows * b->devices))) return 0;
    if (!(b->certificate = (Certificate *)take(arrays, a[4], "certificate", 1, 4 * b->rows))) return 0;
    p->design = (int)design;
    p->devices = b->devices;
    p->draws = draws;
    p->threads = threads > 64 ? 64 : (int)threads;
    p->weights = b->weights > 1;
    return 1;
}

static int solve_rows(const Batch *b)
{
    Problem p = b->problem;
    int status = SOLVED;
    for (Py_ssize_t row = 0; row < b->rows && status == SOLVED; row++) {
        Py_ssize_t at = row * b->devices;
        if (b->gain)
            status = chosen->power(&b->link, b->devices, b->gain + at, b->queue + at, b->power + at,
                                   b->price + at, p.threads);
        if (status != SOLVED) break;
        p.price = b->price + at;
        p.weight = b->problem.weight + (b->weights == b->rows * b->devices && b->weights > 1 ? at : 0);
        status = chosen->solve(&p, b->omega ? b->omega + at : NULL, b->q + at, &b->certificate[row]);
    }
    return status;
}

static PyObject *outcome(Arrays *arrays, int status)
{
    release(arrays);
    if (PyErr_Occurred()) return NULL;
    if (status == NO_MEMORY) return PyErr_NoMemory();
    return PyLong_FromLong(status);
}

static PyObject *py_solve(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    Py_buffer room[MOST_ARRAYS];
    Arrays arrays = {room, 0};
    Batch b = {.gain = NULL};
    int status = BAD_INPUT;
    (void)self;
    if (count != 11) return PyErr_Format(PyExc_TypeError, "solve takes 11 arguments, got %zd", count);
    if (read_problem(&arrays, a, &b, 0)) {
        Py_BEGIN_ALLOW_THREADS
        status = solve_rows(&b);
        Py_END_ALLOW_THREADS
    }
    return outcome(&arrays, status);
}

static int read_link(PyObject *const *a, Link *link)
{
    double *field[4] = {&link->cost, &link->factor, &link->noise, &link->max_power};
    for (int i = 0; i < 4; i++) {
        *field[i] = PyFloat_AsDouble(a[i]);
        if (PyErr_Occurred()) return 0;
        if (!(*field[i] > 0 && *field[i] <= 1e300))
            return refuse("cost, factor, noise and max_power must be positive and finite");
    }
    return 1;
}

/* power(gain, queue, power, cost, factor, noise, max_power, threads) */
static PyObject *py_power(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    Py_buffer room[MOST_ARRAYS];
    Arrays arrays = {room, 0};
    Link link;
    const double *gain, *queue;
    double *power;
    Py_ssize_t n;
    long threads;
    int status = BAD_INPUT;
    (void)self;
    if (count != 8) return PyErr_Format(PyExc_TypeError, "power takes 8 arguments, got %zd", count);
    threads = PyLong_AsLong(a[7]);
    if (PyErr_Occurred() || !read_link(a + 3, &link) || !(gain = take(&arrays, a[0], "gain", 0, -1)))
        return outcome(&arrays, status);
    n = arrays.view[0].len / 8;
    if ((queue = take(&arrays, a[1], "queue", 0, n)) && (power = take(&arrays, a[2], "power", 1, n))) {
        Py_BEGIN_ALLOW_THREADS
        status = chosen->power(&link, n, gain, queue, power, NULL, threads > 64 ? 64 : (int)threads);
        Py_END_ALLOW_THREADS
    }
    return outcome(&arrays, status);
}

/* tariff(gain, second, watt, joule, peak, power, length, noise) */
static PyObject *py_tariff(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    static const char *name[5] = {"gain", "second", "watt", "joule", "peak"};
    Py_buffer room[MOST_ARRAYS];
    Arrays arrays = {room, 0};
    Tariff t;
    const double **field[5] = {&t.gain, &t.second, &t.watt, &t.joule, &t.peak};
    double *power;
    Py_ssize_t n = -1;
    int status = BAD_INPUT;
    (void)self;
    if (count != 8) return PyErr_Format(PyExc_TypeError, "tariff takes 8 arguments, got %zd", count);
    t.length = PyFloat_AsDouble(a[6]);
    t.noise = PyFloat_AsDouble(a[7]);
    if (PyErr_Occurred()) return NULL;
    if (!(t.length > 0 && t.length <= 1e300 && t.noise > 0 && t.noise <= 1e300)) {
        refuse("length and noise must be positive and finite");
        return NULL;
    }
    for (int i = 0; i < 5; i++) {
        if (!(*field[i] = take(&arrays, a[i], name[i], 0, n))) return outcome(&arrays, status);
        n = arrays.view[0].len / 8;
    }
    if ((power = take(&arrays, a[5], "power", 1, n))) {
        Py_BEGIN_ALLOW_THREADS
        status = chosen->tariff(&t, n, power);
        Py_END_ALLOW_THREADS
    }
    return outcome(&arrays, status);
}

/* decide(gain, queue, power, cost, factor, noise, max_power, and the arguments of solve) */
static PyObject *py_decide(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    Py_buffer room[MOST_ARRAYS];
    Arrays arrays = {room, 0};
    Batch b = {.gain = NULL};
    int status = BAD_INPUT;
    (void)self;
    if (count != 18) return PyErr_Format(PyExc_TypeError, "decide takes 18 arguments, got %zd", count);
    if (read_link(a + 3, &b.link) && read_problem(&arrays, a + 7, &b, 1)) {
        Py_ssize_t all = b.rows * b.devices;
        if ((b.gain = take(&arrays, a[0], "gain", 0, all)) &&
            (b.queue = take(&arrays, a[1], "queue", 0, all)) &&
            (b.power = take(&arrays, a[2], "power", 1, all))) {
            Py_BEGIN_ALLOW_THREADS
            status = solve_rows(&b);
            Py_END_ALLOW_THREADS
        }
    }
    return outcome(&arrays, status);
}

/* The names of the kernels that this processor can run, the best last. */
static PyObject *py_kernels(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    const Kernel *found[3];
    int kernels = available(found);
    PyObject *names = PyTuple_New(kernels);
    (void)self; (void)a; (void)count;
    for (int i = 0; names && i < kernels; i++)
        PyTuple_SetItem(names, i, PyUnicode_FromString(found[i]->name));
    return names;
}

/* use(name): the kernel for all later calls. */
static PyObject *py_use(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    const Kernel *found[3];
    int kernels = available(found);
    (void)self;
    for (int i = 0; count == 1 && i < kernels; i++)
        if (PyUnicode_CompareWithASCIIString(a[0], found[i]->name) == 0) {
            chosen = found[i];
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_ValueError, "no such kernel on this processor");
}

static int prepare(PyObject *module)
{
    const Kernel *found[3];
    (void)module;
    chosen = found[available(found) - 1];
    return 0;
}

#include "module_step.c"

#define FUNCTION(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
static PyMethodDef methods[] = {
    {"solve", FUNCTION(py_solve), NULL},     {"power", FUNCTION(py_power), NULL},
    {"decide", FUNCTION(py_decide), NULL},   {"kernels", FUNCTION(py_kernels), NULL},
    {"use", FUNCTION(py_use), NULL},         {"tariff", FUNCTION(py_tariff), NULL},
    {"step", FUNCTION(py_step), NULL},       {"distance", FUNCTION(py_distance), NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)prepare}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "The scheduler's decisions, compiled.", 0, methods, slots,
    NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }
