/* Arrays of Python as C sees them: their type and size are checked before a number is read. */
#ifndef FEDSCHED_ARRAYS_H
#define FEDSCHED_ARRAYS_H

enum { MOST_ARRAYS = 8 }; /* of a call with a fixed number of them */
typedef struct {
    Py_buffer *view; /* room for all that are taken */
    Py_ssize_t count;
} Arrays;

static void release(Arrays *arrays)
{
    while (arrays->count) PyBuffer_Release(&arrays->view[--arrays->count]);
}

static int refuse(const char *what)
{
    PyErr_SetString(PyExc_ValueError, what);
    return 0;
}

/* The numbers of a contiguous array of `length` numbers, or of any if that is negative. Its type is
 * *kind, 'f' for float32 or 'd' for float64; where that is 0, it is either and is noted there. */
static void *take_kind(Arrays *arrays, PyObject *object, const char *name, int writable, Py_ssize_t length,
                       char *kind)
{
    Py_buffer *view = &arrays->view[arrays->count];
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    Py_ssize_t size;
    if (PyObject_GetBuffer(object, view, flags)) return NULL;
    arrays->count++;
    if (!*kind) *kind = view->format && strcmp(view->format, "f") == 0 ? 'f' : 'd';
    size = *kind == 'f' ? 4 : 8;
    if (view->itemsize != size || !view->format || view->format[0] != *kind || view->format[1] ||
        (length >= 0 && view->len != size * length)) {
        PyErr_Format(PyExc_ValueError, "%s must be a contiguous float%d array of %zd numbers", name,
                     (int)size * 8, length);
        return NULL;
    }
    return view->buf;
}

static double *take(Arrays *arrays, PyObject *object, const char *name, int writable, Py_ssize_t length)
{
    char kind = 'd';
    return take_kind(arrays, object, name, writable, length, &kind);
}

#endif
