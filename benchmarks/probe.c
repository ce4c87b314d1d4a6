/* The least that two rules cost: plain loops over plain arrays, for benchmarks/rounds.py. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* e^x for x <= 0: a polynomial at x / 2048, squared eleven times; the compiler makes vectors of it. */
static inline double power_of_e(double x) {
    double y = (x > -44.0 ? x : -44.0) * (1.0 / 2048.0);
    double p = 1.0 + y * (1.0 + y * (1.0 / 2 + y * (1.0 / 6 + y * (1.0 / 24 + y * (1.0 / 120 + y * (1.0 / 720))))));
    p *= p; p *= p; p *= p; p *= p; p *= p; p *= p; p *= p; p *= p; p *= p; p *= p;
    return p * p;
}

/* OCP-Unlock+ with a known horizon; labels are told where they were in the set. */
void play_unlock_plus(size_t arms, size_t rounds, const double *grid, const double *rates,
                      const double *hit, const double *miss, const double *scores,
                      const double *draws, double *gains, double *running, double *thresholds) {
    double bonus = rates[0], exploration = rates[1], rate = rates[2], least = exploration / arms;
    for (size_t n = 0; n < rounds; n++) {
        double most = gains[0], total = 0.0;
        for (size_t k = 1; k < arms; k++) most = gains[k] > most ? gains[k] : most;
        for (size_t k = 0; k < arms; k++) running[k] = power_of_e(rate * (gains[k] - most));
        for (size_t k = 0; k < arms; k++) running[k] = total += running[k];
        double share = (1.0 - exploration) / total;
        size_t low = 0, high = arms - 1;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (share * running[middle] + least * (middle + 1) > draws[n]) high = middle;
            else low = middle + 1;
        }
        size_t arm = low, from = low;
        if (scores[n] >= grid[arm]) {
            for (from = arm; from < arms && grid[from] <= scores[n];) from++;
            double per_chance = 1.0 / (share * running[from - 1] + least * from);
            for (size_t k = 0; k < from; k++) gains[k] += (hit[k] + bonus) * per_chance + bonus;
        } else {
            double before = 0.0;
            for (size_t k = 0; k < from; k++) {
                gains[k] += bonus / (share * (running[k] - before) + least) + miss[k] + bonus;
                before = running[k];
            }
        }
        for (size_t k = from; k < arms; k++)
            gains[k] += miss[k] + bonus / (share * running[k] + least * (k + 1));
        thresholds[n] = grid[arm];
    }
}

/* The logit tracker, answers coming at once: its guards and its clip stand, and are never reached. */
void play_logit_tracker(size_t rounds, double alpha, double step, double first, double edge,
                        double reach, double most, double least, const double *scores,
                        double *thresholds) {
    double position = 0.0, excess = 0.0;
    for (size_t n = 0; n < rounds; n++) {
        double threshold;
        if (excess > most || position < -edge) threshold = 0.0;
        else if (excess < least || position > edge) threshold = 2.0;
        else if (position >= 0.0) threshold = 1.0 / (1.0 + power_of_e(-position));
        else { double p = power_of_e(position); threshold = p / (1.0 + p); }
        double early = first / (1.0 + alpha * n), error = (scores[n] < threshold ? 1.0 : 0.0) - alpha;
        position -= (early > step ? early : step) * error;
        position = position > reach ? reach : position < -reach ? -reach : position;
        excess += error;
        thresholds[n] = threshold;
    }
}
