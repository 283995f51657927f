"""One workload of local training for several engines; each runs in processes of its own."""
