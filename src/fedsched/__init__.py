"""Device scheduling for federated learning over a shared wireless uplink."""
