/* How long the updates of a model are, and the step that their weighted sum makes.
 *
 * kernel.c takes this file twice: REAL is the type of the model's numbers, and OF names its functions. A
 * difference y - x is rounded to REAL, as that of a node would be. All sums are float64.
 */
#include "arithmetic.h"
#include "kernel.h"

/* |y - x|^2; not finite where a number of y is not. */
static double OF(distance)(const REAL *RESTRICT y, const REAL *RESTRICT x, int64_t n)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) {
            REAL way = y[i + j] - x[i + j];
            lane[j] += (double)way * (double)way;
        }
    for (; i < n; i++) {
        REAL way = y[i] - x[i];
        lane[i & 7] += (double)way * (double)way;
    }
    return total(lane, 8);
}

/* out = x + sum_k weight_k share_k (y_k - x), rounded once; returns |out - x|^2. */
static double OF(step)(const Step *s)
{
    const REAL *x = s->x;
    REAL *out = s->out;
    double sum[BLOCK], squares = 0;
    for (int64_t at = 0; at < s->numbers; at += BLOCK) {
        int64_t n = block_of(s->numbers - at);
        for (int64_t i = 0; i < n; i++) sum[i] = x[at + i];
        for (int64_t k = 0; k < s->rows; k++) {
            const REAL *y = (const REAL *)s->y[k] + at;
            REAL share = (REAL)s->share[k];
            double weight = s->weight[k];
            for (int64_t i = 0; i < n; i++) {
                REAL way = y[i] - x[at + i];
                way *= share;
                sum[i] += weight * (double)way;
            }
        }
        for (int64_t i = 0; i < n; i++) out[at + i] = (REAL)sum[i];
        squares += OF(distance)(out + at, x + at, n);
    }
    return squares;
}
