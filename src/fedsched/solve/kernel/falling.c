/* All points at which one device k is on its falling branch, found or excluded.
 *
 * The others take R(nu) at the multiplier nu, which rises with nu; k leaves U and has F_k(U) = nu, which
 * rises with U while k falls. G_k(U) = H_k(U) + term_k(1 - U) is what U costs: H_k, the least that the
 * others can cost with U in all, is convex with H_k' = nu at U = R(nu); term_k is concave in U here. A
 * piece of the multipliers [s, t] is left alone for k where one of these proves that no point of it
 * could be better than what is known:
 *
 *   no point    F_k(R(t)) < s or F_k(R(s)) > t: nobody's multiplier is his own;
 *   value       both tangents of H_k and the chord of term_k, or Taylor's bound from s, are not below it;
 *   concave     G'' = 1/R' - F_k' < 0 all along: no minimum;
 *   convex      G'' > 0 all along: one minimum at most, which Newton finds.
 *
 * Otherwise the piece shrinks to [F_k(R(s)), F_k(R(t))], where its points must be, or is halved. The
 * responses at s and t do not depend on who falls, so all candidates share them.
 */
#include "arithmetic.h"

#define CLOSE 1e-10    /* relative: objectives closer than this are not told apart */
#define BUDGET 3000    /* responses a search may cost */
#define MOST_DEPTH 200

typedef struct {
    double nu;
    Response others; /* of all devices but the one set aside */
    double aside;    /* omega of that one, 0 where it alone is a candidate */
} Node;

typedef struct {
    int64_t place;
    double turn;      /* what it leaves where it begins to fall */
    double low, high; /* its own omega, rising, at the ends of the piece */
} Candidate;

typedef struct {
    Node s, t;
    int64_t first, count; /* its candidates */
} Piece;

typedef struct {
    double objective, nu;
    int64_t place;    /* who falls there; -1: nobody */
    double bound;     /* no excluded point costs less */
    int64_t responses;
    int exhausted;
    int64_t last_place; /* of the minimum found last, and what it leaves */
    double last_U;
} Best;

typedef struct {
    Devices others; /* those at the places 0 .. n-2 */
    int64_t n;
    double *beta, *scale, *omega; /* of all n places; n-1 is set aside */
    Best *best;
    Candidate *pool;
    int64_t room;
    int no_memory;
} Search;

/* A candidate's view of a node: how the devices but k respond, and k if it takes the rest. */
typedef struct {
    double nu, U, dual, slope, doubt, here; /* doubt: how far slope may be off; here: objective */
    Leader k;
} View;

INLINE double weight_at(const Search *f, int64_t place) { return f->scale ? 1 / f->scale[place] : 1; }
static Leader leader_of(const Search *f, int64_t place, double U)
{
    return leader_leaving(f->beta[place], weight_at(f, place), f->others.m, U);
}

/* d omega / d nu and term - nu omega of one device at its own response. */
static void own_part(const Search *f, int64_t place, double omega, double nu, double *slope, double *dual)
{
    double q, step, E, scale = f->scale ? f->scale[place] : 1;
    newton(f->beta + place, &scale, &omega, nu, f->others.m, 1, &q, &step, slope, &E);
    if (omega <= larger(f->others.least, TINY) * (1 + 1e-13)) *slope = 0;
    *dual = (1 / q + f->beta[place] * q) / scale - nu * omega;
}

static View look(const Search *f, const Node *node, int64_t place, double omega)
{
    View v = {node->nu, node->others.sum, node->others.dual, node->others.slope, 0, 0, {0, 0, 0, 0, 0, 0}};
    if (place != f->n - 1) { /* without k, with the one that is set aside */
        double slope, dual, aside_slope, aside_dual;
        own_part(f, place, omega, node->nu, &slope, &dual);
        own_part(f, f->n - 1, node->aside, node->nu, &aside_slope, &aside_dual);
        v.doubt = 1e-12 * slope;
        v.slope = larger(v.slope - slope, 0) + aside_slope;
        v.dual = (v.dual - dual) + aside_dual;
        v.U = larger(v.U - omega, 0) + node->aside;
    }
    v.k = leader_of(f, place, v.U);
    v.here = v.dual + v.nu * v.U + v.k.term;
    return v;
}

/* omega of one device at nu, by itself. */
static double respond_alone(const Search *f, int64_t place, double nu)
{
    double omega;
    Devices one = f->others;
    one.n = 1;
    one.beta = f->beta + place;
    one.scale = f->scale ? f->scale + place : NULL;
    one.omega = &omega;
    respond(&one, nu, 1);
    return omega;
}

static Node node_at(Search *f, double nu, int fresh, int alone)
{
    Node node = {nu, respond(&f->others, nu, fresh), 0};
    if (!alone) node.aside = respond_alone(f, f->n - 1, nu);
    f->best->responses++;
    return node;
}

static void offer(Search *f, int64_t place, double nu, double U, double objective)
{
    Best *best = f->best;
    best->last_place = place;
    best->last_U = U;
    if (objective < best->objective) {
        best->objective = objective;
        best->nu = nu;
        best->place = place;
    }
}

static void set_aside(Search *f, int64_t place)
{
    swap(f->beta, place, f->n - 1);
    swap(f->omega, place, f->n - 1);
    if (f->scale) swap(f->scale, place, f->n - 1);
}

/* The minimum between low and high, where U - R(F_k(U)) changes sign: Newton inside the bracket. */
static void descend(Search *f, int64_t place, double low, double high, double guess)
{
    double U = guess > low && guess < high ? guess : 0.5 * (low + high), value = INFINITY, nu = 0;
    set_aside(f, place);
    for (int round = 0; round < 100; round++) {
        Leader k = leader_of(f, f->n - 1, U), rest;
        Response r = respond(&f->others, k.nu, round == 0);
        double off = U - r.sum, next = U - off / (1 - r.slope * k.slope);
        f->best->responses++;
        rest = leader_of(f, f->n - 1, r.sum);
        value = r.dual + k.nu * r.sum + rest.term;
        nu = k.nu;
        if (off < 0) low = U;
        else high = U;
        if (fabs(off) <= 1e-15 * U || high - low <= 4e-16 * high) break;
        U = next > low && next < high && round % 8 < 7 ? next : 0.5 * (low + high);
    }
    set_aside(f, place);
    offer(f, place, nu, U, value);
}

/* No U in [s.U, end] costs less: both tangents of H and the chord of the term, which is concave. */
static double tangent_bound(const View *s, const View *t, const Leader *end)
{
    double width = end->U - s->U, cross, chord, at_end;
    if (!(width > 0)) return s->here;
    at_end = larger(s->dual + s->nu * end->U, t->dual + t->nu * end->U) + end->term;
    if (!(t->nu > s->nu)) return smaller(s->here, at_end);
    cross = within((s->dual - t->dual) / (t->nu - s->nu), s->U, end->U);
    chord = s->k.term + (end->term - s->k.term) * ((cross - s->U) / width);
    return smaller(smaller(s->here, at_end), s->dual + s->nu * cross + chord);
}

/* G(U) >= G(s) + G'(s) (U - s) + bend (U - s)^2 / 2 if G'' >= bend. Short by the cube of the width only,
 * which counts where two minima merge. */
static double taylor_bound(const View *s, const View *t, const Leader *end, int64_t m)
{
    double width = end->U - s->U, tilt = s->nu - s->k.nu, slope = t->slope + t->doubt, bend, change;
    if (!(width > 0)) return s->here;
    bend = (slope > 0 ? 1 / slope : INFINITY) - steepest(&s->k, end, m);
    change = tilt * width + 0.5 * smaller(bend, 0) * width * width;
    return s->here + smaller(change, 0);
}

typedef enum { GONE, LEFT, CONVEX } Verdict;
typedef struct {
    double bound, from, to; /* multipliers between which its points must be */
    double low, high, guess; /* U at the ends; where Newton would go from the left one */
    int crosses;
} Judgement;

/* Of a piece for one candidate. */
static Verdict judge(Search *f, const Piece *piece, const Candidate *c, Judgement *j)
{
    const int64_t m = f->others.m;
    Best *best = f->best;
    View s = look(f, &piece->s, c->place, c->low), t = look(f, &piece->t, c->place, c->high);
    double rounding = c->place == f->n - 1 ? 0 : 4e-16 * (piece->t.others.sum + piece->t.aside);
    double high = smaller(t.U + rounding, c->turn), known = best->objective, scale, tilt;
    int clipped = t.U > c->turn, narrow, settled;
    Leader low_end = leader_of(f, c->place, larger(s.U - rounding, TINY)), end;
    if (!(s.U <= c->turn * (1 + 1e-12))) return GONE; /* k rises there */
    end = leader_of(f, c->place, high);
    if (end.nu < s.nu * (1 - 1e-12) || low_end.nu > t.nu * (1 + 1e-12)) return GONE;
    j->bound = larger(tangent_bound(&s, &t, &end), taylor_bound(&s, &t, &end, m));
    tilt = s.nu - s.k.nu;
    scale = fabs(tilt) * (1 - s.U);
    narrow = high - s.U <= 1e-13 * high + rounding;
    settled = narrow || scale <= CLOSE * s.here;
    if (settled && s.here < known) known = s.here;
    if (narrow || j->bound >= known - CLOSE * fabs(known)) {
        best->bound = smaller(best->bound, j->bound);
        if (settled && s.slope * s.k.slope < 1 + 1e-4 && s.here <= known)
            offer(f, c->place, within(s.k.nu, s.nu, t.nu), s.U, s.here);
        return GONE;
    }
    if ((s.slope - s.doubt) * flattest(&low_end, &end, m) > 1) return GONE;
    j->crosses = tilt <= 0 && !clipped && t.nu >= t.k.nu;
    j->from = larger(low_end.nu, s.nu);
    j->to = smaller(end.nu, t.nu);
    j->low = s.U;
    j->high = t.U;
    j->guess = s.U - s.slope * tilt / (1 - s.slope * s.k.slope);
    if ((t.slope + t.doubt) * larger(steepest(&low_end, &end, m), 0) < 1) {
        int known_root = best->last_place == c->place && best->last_U >= s.U && best->last_U <= high;
        if (known_root || tilt > 0 || (!clipped && t.nu < t.k.nu)) return GONE;
        return CONVEX;
    }
    return LEFT;
}

/* Asks every candidate of a piece, keeps those that are left, and lets the most promising one descend. */
static void judge_all(Search *f, Piece *piece, double *from, double *to, double *middle)
{
    Candidate *c = f->pool + piece->first;
    Judgement j, best_j = {0};
    int64_t left = 0, pick = -1;
    Verdict verdict, best_verdict = GONE;
    *from = INFINITY;
    *to = -INFINITY;
    for (int64_t i = 0; i < piece->count; i++) {
        verdict = judge(f, piece, &c[i], &j);
        if (verdict == GONE) continue;
        if (f->best->exhausted) { /* what cannot be looked at is counted against the answer */
            f->best->bound = smaller(f->best->bound, j.bound);
            continue;
        }
        c[left] = c[i];
        if (pick < 0 || j.bound < best_j.bound) {
            pick = left;
            best_j = j;
            best_verdict = verdict;
        }
        *from = smaller(*from, j.from);
        *to = larger(*to, j.to);
        left++;
    }
    piece->count = left;
    if (left == 0) return;
    *middle = leader_of(f, c[pick].place, 0.5 * (best_j.low + smaller(best_j.high, c[pick].turn))).nu;
    if (best_j.crosses && (best_verdict == CONVEX || f->best->last_place < 0)) {
        descend(f, c[pick].place, best_j.low, best_j.high, best_j.guess);
        if (best_verdict == CONVEX) {
            for (int64_t i = pick; i + 1 < left; i++) c[i] = c[i + 1];
            piece->count--;
        }
    }
}

/* The candidates' own responses at a new node. */
static void own_responses(Search *f, const Piece *piece, int upper)
{
    Candidate *c = f->pool + piece->first;
    for (int64_t i = 0; i < piece->count; i++) {
        double omega = c[i].place == f->n - 1 ? 0 : f->omega[c[i].place];
        if (upper) c[i].high = omega;
        else c[i].low = omega;
    }
}

/* Two halves in place of a piece, the lower one on top: its candidates are copied behind the others. */
static int halve(Search *f, Piece *piece, double nu)
{
    int alone = piece->count == 1 && f->pool[piece->first].place == f->n - 1;
    Piece lower = *piece;
    lower.first = piece->first + piece->count;
    if (lower.first + lower.count > f->room) {
        int64_t room = 2 * (lower.first + lower.count);
        Candidate *pool = realloc(f->pool, sizeof(Candidate) * (size_t)room);
        if (!pool) return 0;
        f->pool = pool;
        f->room = room;
    }
    memcpy(f->pool + lower.first, f->pool + piece->first, sizeof(Candidate) * (size_t)piece->count);
    lower.t = piece->s = node_at(f, nu, 1, alone);
    own_responses(f, &lower, 1);
    own_responses(f, piece, 0);
    piece[1] = lower;
    return 1;
}

/* Shrinks a piece to the multipliers where its points must be, if that is much less than all of it. */
static int shrink(Search *f, Piece *piece, double from, double to)
{
    double s = piece->s.nu, t = piece->t.nu;
    int alone = piece->count == 1 && f->pool[piece->first].place == f->n - 1;
    if (!(to - from < 0.6 * (t - s))) return 0;
    from = larger(from * (1 - 1e-14), s);
    to = smaller(to * (1 + 1e-14), t);
    if (!(from < to)) from = s, to = smaller(to, t);
    if (from > s) {
        piece->s = node_at(f, from, 1, alone);
        own_responses(f, piece, 0);
    }
    if (to < t) {
        piece->t = node_at(f, to, 1, alone);
        own_responses(f, piece, 1);
    }
    return 1;
}

/* Depth first over the multipliers from the piece on top of the stack. */
static void search_falling(Search *f, Piece whole)
{
    Piece stack[MOST_DEPTH + 2];
    int top = 0;
    stack[0] = whole;
    while (top >= 0 && !f->no_memory) {
        Piece *piece = &stack[top];
        double from, to, middle = 0, width;
        f->best->exhausted |= f->best->responses > BUDGET || top >= MOST_DEPTH;
        judge_all(f, piece, &from, &to, &middle);
        if (piece->count == 0) {
            top--;
            continue;
        }
        if (shrink(f, piece, from, to)) continue;
        width = piece->t.nu - piece->s.nu;
        if (!(middle > piece->s.nu + 0.05 * width && middle < piece->t.nu - 0.05 * width))
            middle = piece->s.nu + 0.5 * width;
        if (halve(f, piece, middle)) top++;
        else f->no_memory = 1;
    }
}
