"""The annotations of pods that decide how they live when they are simulated."""

PREFIX = "simulation.kapiserver.dev/"
