"""From a store to a diagnosis: findings, time attribution, evidence, baselines."""
