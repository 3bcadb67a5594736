"""Goldens: what the commands say of the packed samples, kept so that a change of it is noticed."""
