"""The contract of a store, and what the backends share."""
