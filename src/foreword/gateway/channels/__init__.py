"""The channels that people write on and that replies arrive on."""
