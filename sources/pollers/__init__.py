"""Pollers: GPUs, hosts, networks, engines, Ray and Slurm, asked at a pace."""
