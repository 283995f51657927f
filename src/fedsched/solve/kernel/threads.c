/* Long arrays in parts of a fixed length, which threads share.
 *
 * What a part gives does not depend on who computes it, and parts are put together in their order:
 * the bits are the same for any number of threads. POSIX threads or those of Windows; without
 * either, one after the other.
 */
#include "arithmetic.h"

#if defined(_WIN32)
#include <windows.h>
#elif defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define FEDSCHED_POSIX
#endif

#define PART 8192       /* devices, a whole number of blocks */
#define MOST_PARTS 2048 /* so that their sums fit on the stack */
#define MOST_THREADS 64

typedef void (*Work)(void *context, int64_t part, int64_t from, int64_t to);
typedef struct {
    Work work;
    void *context;
    int64_t n, length, first, last;
} Share;

INLINE int64_t part_length(int64_t n)
{
    int64_t least = (n + MOST_PARTS - 1) / MOST_PARTS;
    if (n <= 2 * PART) return n > 0 ? n : 1;
    return least <= PART ? PART : (least + PART - 1) / PART * PART;
}
INLINE int64_t parts_of(int64_t n) { return (n + part_length(n) - 1) / part_length(n); }

static void run_share(const Share *share)
{
    for (int64_t part = share->first; part < share->last; part++) {
        int64_t from = part * share->length, to = from + share->length;
        share->work(share->context, part, from, to < share->n ? to : share->n);
    }
}

#if defined(_WIN32)
typedef HANDLE Thread;
static DWORD WINAPI begin(void *share) { run_share(share); return 0; }
static int launch(Thread *thread, Share *share)
{
    *thread = CreateThread(NULL, 0, begin, share, 0, NULL);
    return *thread != NULL;
}
static void wait_for(Thread thread) { WaitForSingleObject(thread, INFINITE); CloseHandle(thread); }
#elif defined(FEDSCHED_POSIX)
typedef pthread_t Thread;
static void *begin(void *share) { run_share(share); return NULL; }
static int launch(Thread *thread, Share *share)
{
    return pthread_create(thread, NULL, begin, share) == 0;
}
static void wait_for(Thread thread) { pthread_join(thread, NULL); }
#else
typedef int Thread;
static int launch(Thread *thread, Share *share) { (void)thread; (void)share; return 0; }
static void wait_for(Thread thread) { (void)thread; }
#endif

/* Calls work for every part of n devices. A thread that cannot be had is done without. */
static void for_parts(int64_t n, int threads, Work work, void *context)
{
    int64_t parts = parts_of(n);
    Share share[MOST_THREADS];
    Thread thread[MOST_THREADS];
    int launched[MOST_THREADS] = {0};
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > parts) threads = (int)parts;
    if (threads < 1) threads = 1;
    for (int i = threads - 1; i >= 0; i--) {
        share[i] = (Share){work, context, n, part_length(n), parts * i / threads,
                           parts * (i + 1) / threads};
        if (i) launched[i] = launch(&thread[i], &share[i]);
        if (!launched[i]) run_share(&share[i]);
    }
    for (int i = 1; i < threads; i++)
        if (launched[i]) wait_for(thread[i]);
}
