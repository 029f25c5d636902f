"""Real coding clients through the real gateway; see `test_real_clients`."""
