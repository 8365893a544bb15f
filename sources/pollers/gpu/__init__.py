"""GPUs, through NVML or the tools of NVIDIA and AMD."""

__all__: list[str] = []
