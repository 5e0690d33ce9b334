"""What is said of a list of samples."""

import statistics

TRIMMED = 0.05  # of each end, as the public leaderboard of time to interactive does it
ROUNDS = 5


def percentile(samples, share):
    """Between the two nearest ranks, by how near they are."""
    ordered = sorted(samples)
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def trim(samples, share=TRIMMED):
    """Without the smallest and the largest; never without all."""
    ordered = sorted(samples)
    cut = int(len(ordered) * share)
    return ordered[cut : len(ordered) - cut]


def noise(samples, rounds=ROUNDS):
    """The range of the medians of consecutive rounds, as a share of the median of all; None: too few samples."""
    size = len(samples) // rounds
    middle = statistics.median(samples)
    if size < 1 or middle == 0:
        return None
    medians = [statistics.median(samples[i * size : (i + 1) * size]) for i in range(rounds)]
    return (max(medians) - min(medians)) / middle


def summary(samples, trimmed=False):
    """Samples in the order in which they were taken."""
    kept = trim(samples) if trimmed else samples
    return {
        "n": len(samples),
        "min": min(kept),
        "mean": statistics.fmean(kept),
        "median": statistics.median(kept),
        "p95": percentile(kept, 0.95),
        "p99": percentile(kept, 0.99),
        "max": max(kept),
        "noise": noise(samples),
    }
