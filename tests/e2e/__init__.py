"""End to end: official SDK -> real Envoy -> processor -> strict scripted provider, and all the way back."""
