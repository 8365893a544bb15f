"""GPUs, through NVML or the tools of NVIDIA and AMD."""
