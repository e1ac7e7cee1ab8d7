"""The three kinds of patches: JSON patch, merge patch, strategic merge patch."""
