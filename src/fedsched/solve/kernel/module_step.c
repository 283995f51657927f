/* The binding of step.c. */

/* distance(y, x) */
static PyObject *py_distance(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    Py_buffer room[2];
    Arrays arrays = {room, 0};
    const void *y, *x;
    Py_ssize_t n;
    char kind = 0;
    double squares = 0;
    (void)self;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "distance takes 2 arguments, got %zd", count);
    if ((x = take_kind(&arrays, a[1], "x", 0, -1, &kind))) {
        n = room[0].len / room[0].itemsize;
        if ((y = take_kind(&arrays, a[0], "y", 0, n, &kind))) {
            Py_BEGIN_ALLOW_THREADS
            squares = chosen->distance(y, x, n, kind == 'f');
            Py_END_ALLOW_THREADS
        }
    }
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(squares);
}

/* The rows of a sequence, and what belongs to each of them. */
static int take_rows(Arrays *arrays, PyObject *const *a, Step *s, const void **y, char *kind)
{
    for (Py_ssize_t k = 0; k < s->rows; k++) {
        PyObject *row = PySequence_GetItem(a[1], k);
        if (!row) return 0;
        y[k] = take_kind(arrays, row, "y", 0, s->numbers, kind);
        Py_DECREF(row); /* its buffer keeps it */
        if (!y[k]) return 0;
    }
    s->y = y;
    return (s->share = take(arrays, a[2], "share", 0, s->rows)) &&
           (s->weight = take(arrays, a[3], "weight", 0, s->rows));
}

/* step(x, rows, share, weight, out) */
static PyObject *py_step(PyObject *self, PyObject *const *a, Py_ssize_t count)
{
    Step s;
    Arrays arrays;
    const void **y;
    char kind = 0;
    double squares = 0;
    (void)self;
    if (count != 5) return PyErr_Format(PyExc_TypeError, "step takes 5 arguments, got %zd", count);
    if ((s.rows = PySequence_Size(a[1])) < 0) return NULL;
    arrays = (Arrays){malloc(sizeof(Py_buffer) * ((size_t)s.rows + 4)), 0};
    y = malloc(sizeof(*y) * ((size_t)s.rows + 1));
    if (!arrays.view || !y) PyErr_NoMemory();
    else if ((s.x = take_kind(&arrays, a[0], "x", 0, -1, &kind))) {
        s.numbers = arrays.view[0].len / arrays.view[0].itemsize;
        s.single = kind == 'f';
        if ((s.out = take_kind(&arrays, a[4], "out", 1, s.numbers, &kind)) &&
            take_rows(&arrays, a, &s, y, &kind)) {
            Py_BEGIN_ALLOW_THREADS
            squares = chosen->step(&s);
            Py_END_ALLOW_THREADS
        }
    }
    release(&arrays);
    free(arrays.view);
    free(y);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(squares);
}
