"""How long `perfmon --help` takes beside an interpreter that does nothing.

python bench/startup.py [--runs N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time


def median_ms(command: list[str], runs: int) -> float:
    """Median wall time of a command in milliseconds, after one run that fills the caches."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    walls = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        walls.append((time.perf_counter() - start) * 1000)
    return statistics.median(walls)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    floor = median_ms([sys.executable, "-c", "pass"], runs)
    result = median_ms([sys.executable, "-m", "perfmon", "--help"], runs)
    print(f"command         python -m perfmon --help ({runs} runs, median)")
    print(f"perfmon --help  {result:6.1f} ms")
    print(f"python -c pass  {floor:6.1f} ms")
    print(f"ratio           {result / floor:6.2f}")


if __name__ == "__main__":
    main()
