"""Recipes that make images with the running kernel and write down what they delete."""
