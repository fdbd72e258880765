"""Small trainings on CPUs, in which benchmarks/explain injects faults."""
